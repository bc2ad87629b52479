"""Finds the headings of a text: of Markdown, of source code, and of the minutes of the FOMC."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

MAX_HEADING_CHARS = 110
_LEAST_PARAGRAPH_CHARS = 140
"""A short line counts as a heading only above a paragraph; in a list of names it does not."""

# No pattern ends with `.*?[ \t]*$`: a line of many spaces would take quadratic time.
_MARKDOWN = re.compile(r"^#{1,6}[ \t]+(\S[^\n]*)$", re.M)
_UNDERLINED = re.compile(
    r"^(?:([=\-~^\"'*+#])\1{2,}[ \t\r]*\n)?(?P<title>[`*(\"']{0,2}[^\W_][^\n]*)\n"
    r"(?P<line>([=\-~^\"'*+#])\4{2,})[ \t\r]*$",
    re.M,
)
"""A heading of reStructuredText, of plain text, and of Markdown."""
_FENCE = re.compile(r"^(```|~~~)([^\n]*)$", re.M)
_LINE = re.compile(r"^[ \t]*(\S[^\n]*)$", re.M)
_FOOTNOTE = re.compile(r"(?<=[A-Za-z.])\d{1,2}$")

_TITLE_WORD = r"(?:[A-Z][\w'’\-]*|of|and|the|in|for|on|to|with|by|a|an|,)"
_INLINE = re.compile(
    r"(?P<before>^|[.!?:;)\]\"'”’\d]\s+|[a-z]\s+|\s)"
    r"(?P<title>"
    r"Annual Organizational Matters"
    r"|Developments in Financial Markets(?: and (?:the )?(?:Federal Reserve['’]s Balance Sheet"
    r"|Open Market Operations))?"
    r"|Staff Review of (?:the )?(?:Economic|Financial) Situation"
    r"|Staff Economic Outlook"
    r"|Participants['’] Views on (?:the )?Current (?:Economic )?Conditions and the Economic Outlook"
    r"|Committee Policy Actions?"
    r"|Notation Votes?"
    r"|Secretary['’]s [Nn]ote"
    r"|(?:Review|Discussion) of (?:Monetary Policy|Guidelines|the Economic|Issues|Options|Exit)"
    r"(?: " + _TITLE_WORD + r"){0,9}?"
    r"|(?:Monetary Policy|Longer-Run|Long-Run|System Open Market Account)"
    r"(?: [A-Z][\w'’\-]*){1,5}"
    r")(?:\d{1,2})?"
    r"(?P<after>\s+|(?=By |The ))"
    r"(?=(?:The|In|By|At|A|An|On|With|During|Participants|Members|Secretary|Consistent|Over|As|For"
    r"|Domestic|Developments|Investor|Information|Financial|Real|Since|This|Following|Before|To"
    r"|Meeting|Broad|Chair|Vice|Treasury|Market|Several|Most|All|Although|After|Sentiment|U\.S\."
    r"|Available|Data|Economic|Conditions)\b)"
)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: its title, and its start as an offset in characters."""

    title: str
    start: int


def find_headings(text: str, *, markdown: bool = False) -> list[Heading]:
    """Headings in order of place; none overlaps another."""
    if markdown:
        return _markdown(text)
    found = _in_order([*_underlined(text), *_on_lines(text)])
    return found if found or text.count("\n") > 20 else _inline(text)


def _in_order(found: Iterable[Heading]) -> list[Heading]:
    return sorted(found, key=lambda heading: heading.start)


def _underlined(text: str, marks: str = "=-~^\"'*+#") -> list[Heading]:
    """Titles below which a line of one of the marks is at least as long.

    Front matter has no such line, and a row of a table has more than one blank between its cells.
    """
    return [
        Heading(match["title"].strip("`* \t\r"), match.start())
        for match in _UNDERLINED.finditer(text)
        if match["line"][0] in marks
        and len(title := match["title"].rstrip()) <= min(len(match["line"]), MAX_HEADING_CHARS)
        and "  " not in title
    ]


def _markdown(text: str) -> list[Heading]:
    code = _code(text)
    starts = [start for start, _ in code]

    def in_code(position: int) -> bool:
        before = bisect_right(starts, position)
        return before > 0 and position < code[before - 1][1]

    found = _underlined(text, "=-")
    found += (
        Heading(match[1].rstrip().rstrip("#").strip("`* \t"), match.start())
        for match in _MARKDOWN.finditer(text)
    )
    return _in_order(heading for heading in found if not in_code(heading.start))


def _code(text: str) -> list[tuple[int, int]]:
    """The spans of fenced code, in order. A fence that nothing closes is text."""
    fences = list(_FENCE.finditer(text))
    last_closing = {fence[1]: fence.start() for fence in fences if not fence[2].strip()}
    found: list[tuple[int, int]] = []
    opening: re.Match[str] | None = None
    for fence in fences:
        if opening is None:
            if fence.start() < last_closing.get(fence[1], 0):
                opening = fence
        elif fence[1] == opening[1] and not fence[2].strip():
            found.append((opening.start(), fence.end()))
            opening = None
    return found


def _on_lines(text: str) -> list[Heading]:
    lines = [(line, line[1].rstrip()) for line in _LINE.finditer(text)]
    found = []
    for (line, title), (_, below) in pairwise(lines):
        if (
            len(title) <= MAX_HEADING_CHARS
            and len(below) >= _LEAST_PARAGRAPH_CHARS
            and _looks_like_a_title(title)
        ):
            found.append(Heading(_FOOTNOTE.sub("", title), line.start()))
    return found


_PERSON = re.compile(
    r",\d?\s.*\b(Adviser|President|Economists?|Director|Secretary|Manager|Counsel|Board|Chief|Analyst"
    r"|Chair|Head)\b"
    r"|^[A-Z][\w'’.\-]+ (?:[A-Z]\. )?[A-Z][\w'’\-]+$(?<=[a-z])(?<!Vote)(?<!Votes)(?<!Outlook)"
    r"|^(?:Associate )?Economists?$|\bBank$"
)
_SMALL_WORDS = frozenset("of and the in for on to with by a an or as at from".split())
_NO_HEADINGS = frozenset({"Secretary", "Attendance", "PRESENT"})


def _looks_like_a_title(line: str) -> bool:
    if line[-1] in '.,;:!?"”' or not line[0].isupper() or line in _NO_HEADINGS:
        return False
    words = line.split()
    if not 1 <= len(words) <= 14 or any(c.isdigit() for c in words[0]):
        return False
    # A capitalised line may also be a person with an office, or the meeting's date.
    return (
        all(word in _SMALL_WORDS for word in words if word[0].islower())
        and not _PERSON.search(line)
        and not re.search(r"\b(19|20)\d\d\b", line)
    )


def _inline(text: str) -> list[Heading]:
    found: list[Heading] = []
    for match in _INLINE.finditer(text):
        before = match["before"].rstrip()
        # In the middle of a sentence the same words are not a heading: "… staff economic outlook".
        if before and before[-1] in ",;(":
            continue
        if (
            before
            and before[-1].islower()
            and not text.endswith(_LAST_OF_A_LINE, 0, match.start() + len(before))
            and match["title"] not in _NEVER_RUNNING_TEXT
        ):
            continue
        title = re.sub(r"\s+", " ", match["title"]).removesuffix(" The").strip(" ,")
        found.append(Heading(title, match.start("title")))
    return found


_LAST_OF_A_LINE = ("Bank", "York", "Richmond", "Chicago", "respectively", "Board")
_NEVER_RUNNING_TEXT = frozenset(
    {
        "Annual Organizational Matters",
        "Staff Review of the Economic Situation",
        "Staff Review of the Financial Situation",
        "Staff Economic Outlook",
        "Committee Policy Action",
        "Committee Policy Actions",
        "Notation Vote",
    }
)


_LEAST_CODE_CHARS = 250
"""The least between two headings: short functions share a passage."""
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
    """The lines that begin a function or a class, by the suffix of the file (`CODE_SUFFIXES`), in
    order; an inner one names the outer ones."""
    found: list[Heading] = []
    enclosing: list[tuple[int, str]] = []
    for match in _PATTERNS[suffix].finditer(text):
        indent = len(match["indent"].expandtabs(4))
        start, end = match.start(), text.find("\n", match.end())
        end = len(text) if end < 0 else end
        line = text[start : min(end, start + 500)].strip().rstrip("{:").strip()
        enclosing = [(width, name) for width, name in enclosing if width < indent]
        title = " > ".join([*(name for _, name in enclosing), line])[-MAX_HEADING_CHARS:]
        if not found or start - found[-1].start >= _LEAST_CODE_CHARS:
            found.append(Heading(title, start))
        if len(enclosing) < 4:
            enclosing.append((indent, line[:60]))
    return found
