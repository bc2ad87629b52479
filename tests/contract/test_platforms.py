"""Linux and macOS: no call of Linux without its counterpart. macOS is played (tests.contract.macos)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DIFFERS = re.compile(r"\bsys\.platform\b|\bctypes\b|\bKERNEL_ENDS_CHILDREN\b")
TESTS = (
    "libs/runtime/tests/test_answering.py",
    "libs/runtime/tests/test_parent.py",
    "libs/runtime/tests/test_secrecy.py",
    "libs/cli/tests/test_children.py",
    "libs/cli/tests/test_launching.py",
    "services/attach/tests/transports/test_confinement.py",
)
"""Tests of the modules that differ; what is of Linux only they skip by themselves."""
AS_MACOS = """
import importlib
from tests.contract import macos
names = macos.modules()
macos.become()
"""


def on_macos(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that plays macOS."""
    return subprocess.run(
        [sys.executable, "-c", AS_MACOS + program], capture_output=True, text=True, cwd=ROOT
    )


def test_every_module_is_imported_on_macos():
    """No call of Linux stands where a module is imported."""
    done = on_macos(
        "for name in names: importlib.import_module(name)\nprint(len(names), len(set(names)))"
    )
    assert done.returncode == 0, done.stderr
    count = len([*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")])
    assert int(done.stdout.split()[0]) > count // 2


CALLS = {
    "import os; os.pidfd_open(os.getpid())": AttributeError,
    "from os import posix_fadvise": ImportError,
    "import ctypes; ctypes.CDLL(None).prctl(4, 0)": AttributeError,
    "open('/proc/self/stat')": FileNotFoundError,
    "from pathlib import Path; Path('/proc/self/stat').read_text()": FileNotFoundError,
    "import socket as s; s.socket(s.AF_UNIX, s.SOCK_SEQPACKET)": OSError,
    "import socket as s; s.socket(s.AF_UNIX).bind('\\0name')": FileNotFoundError,
    "import resource as r; r.setrlimit(r.RLIMIT_AS, (1, 1))": ValueError,
}


def test_calls_of_linux_fail():
    """The play refuses what macOS does not have."""
    program = """
for call in {calls!r}:
    try:
        exec(call, {{"__name__": "searchbus_new"}})
    except Exception as error:
        print(type(error).__name__)
    else:
        print(call, "passed")
"""
    done = on_macos(program.format(calls=[*CALLS]))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [error.__name__ for error in CALLS.values()]


def test_what_differs_works_on_macos():
    """Children that end with their parent, secrets, confinement, limits, parsing."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.contract.macos", "-q", *TESTS],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert " passed" in done.stdout


def test_page_names_every_module_that_differs():
    """docs/platforms.md, by the module's path within its package."""
    page = (ROOT / "docs" / "platforms.md").read_text()
    sources = [path for path in ROOT.glob("*/*/src/**/*.py") if DIFFERS.search(path.read_text())]
    assert len(sources) > 5
    named = {str(path.relative_to(ROOT)) for path in sources if "testing" not in path.parts}
    shown = {name for name in named if re.sub(r"src/searchbus_\w+/", "", name) in page}
    assert named - shown == set()


def test_versions_of_python_are_those_of_the_classifiers():
    """The page, the metadata and the oldest version agree."""
    text = (ROOT / "pyproject.toml").read_text()
    versions = re.findall(r"Programming Language :: Python :: (3\.\d+)", text)
    assert versions[0] == re.search(r'requires-python = ">=(3\.\d+)"', text)[1]
    page = (ROOT / "docs" / "platforms.md").read_text()
    assert [version for version in versions if f"| {version} |" not in page] == []
