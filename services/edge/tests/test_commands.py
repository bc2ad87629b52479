"""`searchbus stdio`: which toolsets it offers. See also stdio/test_joining and tests/processes."""

from __future__ import annotations

import pytest

from searchbus_edge.stdio import serving
from searchbus_testing import run_command


@pytest.fixture(autouse=True)
def no_stack(monkeypatch):
    """No test starts one."""
    monkeypatch.setattr(serving.StackClient, "_start", lambda *_: pytest.fail("a stack is started"))


def test_unknown_toolset_is_refused_with_those_there_are(tmp_path):
    """Before a stack is started: a host would show an empty list of tools."""
    done = run_command("stdio", "--toolset", "nope", "--data", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: There is no toolset nope. Choose one of bulk, ")
    for name in ("connector", "ddg", "documents", "fomc", "lazy", "research", "web"):
        assert f" {name}" in done.stderr


def test_folder_that_cannot_be_used_is_an_error(tmp_path):
    """Without a traceback."""
    path = tmp_path / "file"
    path.write_text("")
    done = run_command("stdio", "--data", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(path) in done.stderr
