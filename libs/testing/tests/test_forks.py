"""Tests in processes that are forked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import os
import pytest
from searchbus_testing.forks import run_forked

def pytest_runtestloop(session):
    return run_forked(session, lambda nodeid: nodeid.split("::")[0], 2)

@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    yield folder
    with open(os.environ["ENDS"], "a") as file:
        file.write(f"{os.getpid()} {folder.exists()}\\n")

@pytest.fixture(scope="module")
def process():
    return os.getpid()
"""
UNIT = """
import os, warnings
NUMBER = 0

def test_first(shared, process):
    global NUMBER
    NUMBER = 1
    print("shown")

def test_second(shared, process):
    assert (NUMBER, process) == (1, os.getpid())
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run files of tests: `run(a="def test(): ...")`; the exit code and what was printed."""

    def run(*arguments: str, **files: str) -> tuple[int, str]:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, tmp_path],
            capture_output=True, text=True, timeout=600, cwd=tmp_path,
            env={**os.environ, "ENDS": str(tmp_path / "ends"),
                 "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run


def test_units_run_in_two_processes_and_each_has_its_fixtures(run, tmp_path):
    """A fixture of the session lives until the last unit of its process; each has its folder."""
    code, text = run("-v", a=UNIT, b=UNIT, c=UNIT)
    assert code == 0, text
    assert "6 passed" in text
    assert set(re.findall(r"^\[(p\d)\].*PASSED", text, re.MULTILINE)) == {"p0", "p1"}
    ends = (tmp_path / "ends").read_text().splitlines()
    assert len({end.split()[0] for end in ends}) == len(ends) == 2
    assert all(end.endswith("True") for end in ends)


def test_failure_has_its_text_and_its_output(run):
    """As in one process; a warning is listed, too."""
    failing = (
        "import sys, warnings\nERRORS = sys.stderr\n"
        "def test_it():\n    warnings.warn('old')\n    print('canary', file=ERRORS)\n    assert 1 == 2"
    )
    code, text = run(a=UNIT, b=failing)
    assert code == 1, text
    assert "assert 1 == 2" in text
    assert "canary" in text
    assert "UserWarning: old" in text
    assert "shown" not in text
    assert "1 failed, 2 passed, 1 warning" in text


def test_process_that_ends_fails_its_test_alone(run):
    """The rest of its unit runs in another one."""
    ending = (
        "import os\ndef test_before(): pass\ndef test_ends(): os._exit(7)\ndef test_after(): pass"
    )
    code, text = run(a=ending)
    assert code == 1, text
    assert "The process ended: 7" in text
    assert "1 failed, 2 passed" in text


def test_end_of_a_fixture_of_the_session_may_fail(run):
    """That is an error of the last test of its process."""
    broken = (
        "import pytest\n@pytest.fixture(scope='session')\ndef broken():\n    yield\n    raise OSError('no end')\n"
        "def test_it(broken): pass"
    )
    code, text = run(a=broken)
    assert code == 1, text
    assert "no end" in text
    assert "1 passed, 1 error" in text


def test_first_failure_ends_the_run(run):
    """With -x."""
    failing = "import time\ndef test_it():\n    assert False"
    later = "import time\n" + "\n".join(f"def test_{n}(): time.sleep(0.2)" for n in range(300))
    code, text = run("-x", a=failing, b=later)
    assert code == 1, text
    assert "stopping after 1 failures" in text
