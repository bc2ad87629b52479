"""README, tutorial, settings and guides: their commands and programs run as they stand, with what they show.

A block of `sh` is run, one of `text` behind it is what it prints (`…` stands for anything), one of
`python` is a file whose name is in its first line. The blocks of a page share a folder.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from scripts.site import reference
from scripts.site.measured import metrics

from searchbus_testing import SEARCHBUS, Stack, eventually, run_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = ["docs/tutorial.md", "README.md", "docs/settings.md", *sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "docs/guides").glob("*.md")
)]  # fmt: skip
LEFT_OUT = {
    "python3 -m venv .venv\n. .venv/bin/activate\npip install .": "make dist installs the wheel",
    "python3 -m venv .venv && . .venv/bin/activate && pip install .": "the same",
    "searchbus up": "the stack of this module",
    "SEARCHBUS_AUTH=static searchbus up": "tests/security starts such stacks",
    "searchbus ingest fomc --collection fomc": "from the internet; its reader is tested on loopback",
}
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of each block of a page."""
    return [(name, text.strip("\n")) for name, text in _BLOCK.findall((ROOT / page).read_text())]


def shows(shown: str, printed: str) -> bool:
    """Whether the lines stand in the output, in their order."""
    lines = printed.splitlines()
    for wanted in shown.splitlines():
        pattern = ".*".join(map(re.escape, wanted.rstrip().split("…")))
        while lines and not re.fullmatch(pattern, lines[0].rstrip()):
            lines.pop(0)
        if not lines:
            return False
    return True


@pytest.fixture(scope="module")
def own_stack(start_stack, tmp_path_factory) -> Stack:
    """A stack with the real model, empty, and an internet on loopback."""
    folder = tmp_path_factory.mktemp("documentation")
    return start_stack(folder / "data", "--fake-upstreams", SEARCHBUS_EMBEDDER="model")


@pytest.fixture(scope="module")
def folder(own_stack) -> Path:
    """Where commands run, with the folder of documents that the pages name."""
    folder = own_stack.data.parent
    (folder / "handbook").mkdir()
    for name in ("gloves", "spills"):
        (folder / "handbook" / f"{name}.md").write_text(f"# {name}\n\nWhen {name} are needed.\n")
    return folder


def up_printed(stack: Stack) -> str:
    """What `searchbus up` says; it does so after it has written the state file."""
    eventually(lambda: "is up at" in stack.log, message=lambda: stack.log)
    return stack.log


@pytest.mark.parametrize("page", PAGES)
def test_page_does_what_it_shows(own_stack, folder, page):
    """In the order of the page."""
    environment = {
        **os.environ,
        "PATH": f"{SEARCHBUS.parent}{os.pathsep}{os.environ['PATH']}",
        "SEARCHBUS_DATA_DIR": str(own_stack.data),
        "SEARCHBUS_URL": f"{own_stack.url}/mcp",
        "HOME": str(folder),  # where clients have their files
    }
    printed = None
    for language, text in blocks(page):
        text = text.replace("http://127.0.0.1:8080", own_stack.url)
        if language == "sh":
            if text in LEFT_OUT:
                printed = up_printed(own_stack) if text == "searchbus up" else None
                continue
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=folder, env=environment, capture_output=True, text=True, timeout=600,
            )  # fmt: skip
            assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
            if text.startswith("curl "):
                assert "error" not in json.loads(done.stdout), done.stdout
            printed = done.stdout
        elif language == "text" and printed is not None and page == "docs/tutorial.md":
            assert shows(text, printed), f"{page} shows\n{text}\nand it printed\n{printed}"
        elif language == "python":
            name = re.match(r"# (\w+\.py)\n", text)
            assert name, text
            (folder / name[1]).write_text(f"{text}\n")
        elif language == "json":
            (server,) = json.loads(text)["mcpServers"].values()
            assert (Path(server["command"]).name, server["args"]) == ("searchbus", ["stdio"])


def test_the_key_of_sign_ins_is_made_where_nothing_is_yet(tmp_path):
    """Readable by its owner alone, and found by commands in other folders."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    (block,) = (text for _, text in blocks("docs/attach.md") if "openssl rand" in text)
    look = 'cd /; stat -c %a "$SEARCHBUS_SECRETS_DIR"/*; cat "$SEARCHBUS_SECRETS_DIR"/SEARCHBUS_ATTACH_VAULT_KEY'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{block}\n{look}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    mode, key = done.stdout.split()
    assert (mode, len(base64.b64decode(key))) == ("600", 32)


def test_every_page_has_blocks_that_are_run():
    """And what is left out stands in a page."""
    commands = [text for page in PAGES for language, text in blocks(page) if language == "sh"]
    assert set(LEFT_OUT) <= set(commands)
    assert len(commands) - len(LEFT_OUT) >= 10


def test_output_that_differs_is_seen():
    """The check above can fail."""
    assert shows("a … c\nd", "x\na b c\ny\nd\n")
    assert not shows("d\na … c", "a b c\nd\n")
    assert not shows("a … c", "a b\n")


def test_commands_of_the_packages_work(own_stack, folder):
    """Every searchbus command of their READMEs that needs no more input."""
    commands = {
        line.strip()
        for path in ROOT.glob("*/*/README.md")
        for line in path.read_text().splitlines()
        if line.startswith("searchbus ") and not line.startswith("searchbus ingest fomc ")
    }
    assert len(commands) >= 4
    for command in sorted(commands):
        arguments = shlex.split(command, comments=True)[1:]
        done = run_command(*arguments, data=own_stack.data, folder=folder)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_reference_describes_what_a_stack_serves(own_stack):
    """Tools, plain HTTP and metrics of the pages that are made from the code."""
    with httpx.Client(base_url=own_stack.url, timeout=120, trust_env=False) as http:
        served = http.get("/openapi.json").json()
        measured = dict(re.findall(r"^# TYPE (\w+) (\w+)$", http.get("/metrics").text, re.M))
    described = reference.openapi()
    assert {path: set(served["paths"][path]) for path in served["paths"]} == {
        path: set(described["paths"][path]) for path in described["paths"]
    }
    known = {name: kind for name, (kind, _, _) in metrics().items()}
    own = {name: kind for name, kind in measured.items() if name.startswith(("searchbus_", "mcp_"))}
    assert len(own) > 5
    assert own.items() <= known.items()
