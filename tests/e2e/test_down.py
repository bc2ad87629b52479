"""A stack from its first lines to the removal of all that it wrote."""

from __future__ import annotations

import shlex

import pytest

from searchbus_testing import SEARCHBUS, Terminal, run_command


@pytest.mark.slow
def test_first_run_says_what_to_do_next_and_purge_leaves_nothing(tmp_path, monkeypatch):
    """Nine lines, whose commands work; then no file is left that searchbus does not know."""
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    data = tmp_path / "data of mine"
    with Terminal([SEARCHBUS, "up", "--port", "0", "--data", data]) as terminal:
        terminal.expect("searchbus is up at http://127.0.0.1:")
        terminal.expect("searchbus down")
        terminal.expect("\n")
        first, *steps = terminal.shown.partition("searchbus is up")[2].splitlines()
        assert first.endswith("/mcp")
        assert len(steps) == 8
        commands = {line[:12].strip(): line[12:].strip() for line in steps}
        (tmp_path / "whales.md").write_text("# Whales\n\nWhales sing to each other.\n")
        for step in ("documents", "ask them", "tools"):
            arguments = shlex.split(commands[step].replace("FOLDER", str(tmp_path / "whales.md")))
            done = run_command(*arguments[1:])
            assert done.returncode == 0, done.stderr
            assert step != "ask them" or "Whales" in done.stdout
        done = run_command("down", "--purge", "--yes", "--data", data)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"removed {data}")
        assert terminal.end() == 0
    assert not data.exists()
