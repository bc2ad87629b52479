"""What the service finds in the documentation strings of Python's own library, with each leg beside it.

The documents are on every machine: each public function and class of these modules whose documentation
string says enough. The questions are in other words than the strings, as one asks who does not know the
name. Nothing of the ranking was chosen on them.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

from .legs import compare

MODULES = """
argparse array ast asyncio base64 binascii bisect bz2 calendar cmath codecs collections colorsys
concurrent.futures configparser contextlib contextvars copy csv ctypes dataclasses datetime decimal
difflib dis email.utils enum filecmp fileinput fnmatch fractions ftplib functools gc getpass glob graphlib
gzip hashlib heapq hmac html http.client http.cookies importlib inspect io ipaddress itertools json
linecache locale logging lzma mailbox math mimetypes mmap multiprocessing numbers operator os os.path
pathlib pickle pkgutil platform plistlib pprint profile queue quopri random re reprlib runpy secrets select
selectors shelve shlex shutil signal smtplib socket sqlite3 ssl stat statistics string struct subprocess
symtable sys sysconfig tarfile tempfile textwrap threading time timeit tokenize traceback tracemalloc types
typing unicodedata unittest urllib.parse urllib.request urllib.robotparser uuid warnings weakref webbrowser
xml.etree.ElementTree zipfile zlib zoneinfo
""".split()
LEAST_CHARS, MOST_CHARS = 40, 2_000


def documents() -> dict[str, tuple[str, str]]:
    """Qualified name → name and documentation string, sorted by name."""
    found = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name, None)
            home = getattr(value, "__module__", None)
            if name.startswith("_") or (home in MODULES and home != module_name):
                continue
            if not (inspect.isroutine(value) or inspect.isclass(value)):
                continue
            text = inspect.getdoc(value) or ""
            if len(text) >= LEAST_CHARS:
                found[f"{module_name}.{name}"] = text[:MOST_CHARS]
    return {name: (name, found[name]) for name in sorted(found)}


def questions() -> list[dict[str, Any]]:
    """Each question with the names that answer it."""
    path = Path(__file__).with_name("python_docs_questions.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Ingest the documentation strings and ask every question that one of them answers."""
    found = documents()
    asked = [(q["question"], [d for d in q["documents"] if d in found]) for q in questions()]
    return await compare(workdir / "python_docs", found, [(q, gold) for q, gold in asked if gold])
