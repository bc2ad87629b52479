"""Finds the functions and classes of source code by the words that their lines begin with.

No parser: a heading says where a passage may begin and what it is part of, in any version of a
language and in a file that does not compile.
"""

from __future__ import annotations

import re

from .headings import MAX_HEADING_CHARS, Heading

__all__ = ["CODE_SUFFIXES", "find_code_headings"]

_LEAST_CHARS = 250
"""From one heading to the next: short functions share a passage."""
_INDENT = r"^(?P<indent>[ \t]{0,8})"
_PYTHON = r"(?:async +def|def|class) +\w+"
_C_LIKE = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|sealed|async"
    r"|override|virtual|open|data|pub(?:\([a-z]+\))?|unsafe|extern|const) +){0,6}"
    r"(?:class|interface|enum|struct|trait|impl|namespace|module|record|object|protocol|extension"
    r"|function\*?|fn|func|fun|def|type|mod) *[<(\w]"
    r"|(?:export +)?(?:const|let|var) +\w+ *= *(?:async *)?(?:function\b|\([^()\n]{0,200}\) *=>)"
)
_TYPED = (
    r"(?!(?:return|else|if|for|while|switch|case|new|throw|delete|goto|typedef|using)\b)"
    r"[A-Za-z_][\w:<>,*&\[\]]*(?: +[*&\w:<>,\[\]]+){1,6} *\([^;\n]{0,300}$"
)
_RUBY = r"(?:def|class|module) +[\w.:]+"
_SHELL = r"(?:function +)?[\w-]+ *\(\) *\{?|function +[\w-]+"
_SQL = r"(?i:create|alter|with|insert +into|update|delete +from) +\S"

_BY_LANGUAGE = {
    _PYTHON: ".py .pyi",
    _RUBY: ".rb",
    _SHELL: ".sh .bash .zsh",
    _SQL: ".sql",
    _C_LIKE: ".js .jsx .mjs .cjs .ts .tsx .go .rs .kt .kts .swift .php .scala .lua",
    f"{_C_LIKE}|{_TYPED}": ".java .cs .c .h .cc .cpp .cxx .hpp .m",
}
_PATTERNS = {
    suffix: re.compile(f"{_INDENT}(?:{pattern})", re.M)
    for pattern, suffixes in _BY_LANGUAGE.items()
    for suffix in suffixes.split()
}
CODE_SUFFIXES = frozenset(_PATTERNS)


def find_code_headings(text: str, suffix: str) -> list[Heading]:
    """The lines that begin a function or a class, in order; what is inside names what is around.

    Args:
        suffix: of the file, one of `CODE_SUFFIXES`.
    """
    found: list[Heading] = []
    around: list[tuple[int, str]] = []
    for match in _PATTERNS[suffix].finditer(text):
        indent = len(match["indent"].expandtabs(4))
        start, end = match.start(), text.find("\n", match.end())
        end = len(text) if end < 0 else end
        line = text[start : min(end, start + 500)].strip().rstrip("{:").strip()
        around = [(width, name) for width, name in around if width < indent]
        title = " > ".join([*(name for _, name in around), line])[-MAX_HEADING_CHARS:]
        if not found or start - found[-1].start >= _LEAST_CHARS:
            found.append(Heading(title, start, end))
        if len(around) < 4:
            around.append((indent, line[:60]))
    return found
