"""Completion of names, as a shell asks for it. On a busy machine a stack may answer too late for it,
and is asked again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from searchbus_runtime import StackState, write_state
from searchbus_testing import eventually

pytestmark = pytest.mark.slow
TOOLS = [
    {
        "name": "search",
        "description": "Search $(touch stolen)",
        "inputSchema": {"properties": {"query": {}, "limit": {}, "a b": {}, "$(touch stolen)": {}}},
    },
    {"name": "search_web", "inputSchema": {}},
    {"name": "search`touch stolen`", "inputSchema": {}},
    {"name": "fetch", "inputSchema": {}},
]


class Edge(BaseHTTPRequestHandler):
    """Lists TOOLS, two on a page."""

    hold = Event()
    """While it is clear, no request is answered."""

    def do_POST(self) -> None:
        """Answer tools/list."""
        self.hold.wait()
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        start = int(request["params"].get("cursor", 0))
        result: dict[str, Any] = {"tools": TOOLS[start : start + 2]}
        if start + 2 < len(TOOLS):
            result["nextCursor"] = str(start + 2)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def answers() -> Iterator[Event]:
    """Set: the edge answers."""
    Edge.hold = Event()
    Edge.hold.set()
    yield Edge.hold
    Edge.hold.set()


@pytest.fixture
def stack(tmp_path, answers) -> Iterator[Path]:
    """The data folder of a stack whose edge lists TOOLS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Edge)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    write_state(StackState(url=url, nats_url="", data=str(tmp_path), pid=os.getpid()))
    yield tmp_path
    answers.set()
    server.shutdown()
    server.server_close()


Complete = Callable[..., list[str]]


def bash(line: str, data: Path) -> list[str]:
    """What completes the last word of a line in bash."""
    words = line.split(" ")
    asked = {
        "_SEARCHBUS_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    return _lines(asked, data)


def fish(line: str, data: Path) -> list[str]:
    """What completes it in fish, without the lines of help."""
    asked = {
        "_SEARCHBUS_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": line,
    }
    return [found.partition("\t")[0] for found in _lines(asked, data)]


def zsh(line: str, data: Path) -> list[str]:
    """What completes it in zsh, without the lines of help."""
    asked = {"_SEARCHBUS_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
    found = _lines(asked, data)
    if found == ["_files"]:
        return []
    text = "\n".join(found).removeprefix("_arguments '*: :((").removesuffix("))'")
    return [one.partition('":')[0].strip('"') for one in text.splitlines()]


def _lines(asked: dict[str, str], data: Path) -> list[str]:
    # The empty line of an empty answer is no word to a shell.
    printed = run({**asked, "SEARCHBUS_DATA_DIR": str(data)})
    return [line for line in printed.splitlines() if line]


def run(asked: dict[str, str], *program: str, folder: Path | None = None) -> str:
    """What `searchbus`, or another program, prints; it must print no error."""
    done = subprocess.run(
        program or [sys.executable, "-m", "searchbus_cli"], capture_output=True, text=True,
        timeout=120, env={**os.environ, **asked}, cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(params=[bash, zsh, fish], ids=["bash", "zsh", "fish"])
def complete(request) -> Complete:
    """One of the three."""
    found: Complete = request.param
    return found


def test_names_of_tools_complete_from_the_running_stack(complete, stack):
    """From all pages; a name that a shell would run is left out."""
    eventually(lambda: complete("searchbus tools call sea", stack) == ["search", "search_web"])


def test_arguments_of_the_tool_complete(complete, stack):
    """But for those that are given; names that a shell would split or run are left out."""
    line = "searchbus tools call search "
    eventually(lambda: complete(line, stack) == ["query=", "limit="])
    eventually(lambda: complete(f"{line}limit=1 ", stack) == ["query="])


def test_option_before_the_name_says_which_stack(complete, stack, tmp_path_factory):
    """As it is typed, before the command converts it."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    line = f"searchbus tools call --data {stack} fe"
    eventually(lambda: complete(line, elsewhere) == ["fetch"])


def test_nothing_is_offered_where_no_stack_runs(complete, tmp_path):
    """And nothing is printed that would stand in the line of a person."""
    assert complete("searchbus tools call sea", tmp_path) == []


def test_stack_that_does_not_answer_is_given_up(complete, stack, answers):
    """The command ends while the edge holds its request."""
    answers.clear()
    assert complete("searchbus tools call sea", stack) == []
    assert not answers.is_set()


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"url": "http://[", "nats_url": ""}'])
def test_damaged_state_offers_nothing(complete, tmp_path, text):
    """A file of another program, or of a full disk."""
    (tmp_path / "state.json").write_text(text)
    assert complete("searchbus tools call sea", tmp_path) == []


def test_names_of_servers_complete_from_the_file(complete, tmp_path):
    """No stack needs to run."""
    (tmp_path / "attach.toml").write_text(
        '[servers.files]\ncommand = "cat"\n[servers.tracker]\nurl = "http://127.0.0.1:9/mcp"\n'
    )
    assert complete("searchbus attach show ", tmp_path) == ["files", "tracker"]
    assert complete("searchbus attach remove t", tmp_path) == ["tracker"]
    assert complete("searchbus attach add t", tmp_path) == []
    (tmp_path / "attach.toml").write_text("[servers")
    assert complete("searchbus attach show ", tmp_path) == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_real_bash_completes_a_name(stack, tmp_path):
    """With the script that `--show-completion` prints."""
    script = run({"_SEARCHBUS_COMPLETE": "source_bash"})
    words = ["searchbus", "tools", "call", "search_"]
    program = f"""{script}
COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; COMP_LINE='{" ".join(words)}'
_searchbus_completion searchbus search_ call
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    environment = {
        "SEARCHBUS_DATA_DIR": str(stack),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    shell = ("bash", "--norc", "-c", program)
    eventually(lambda: run(environment, *shell, folder=tmp_path) == "search_web\n")
    assert not (tmp_path / "stolen").exists()
