"""`searchbus stdio` and `console`. See also stdio/test_joining and tests/processes."""

from __future__ import annotations

import html
import os
import webbrowser
from pathlib import Path

import pytest

from searchbus_edge.auth.signing import load_key
from searchbus_edge.interfaces.console.access import console_token
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.stdio import serving
from searchbus_runtime import StackState, load_settings, write_state
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


def test_the_project_that_a_host_has_opened_changes_no_setting(tmp_path, monkeypatch):
    """A host starts `searchbus stdio` there; the stack that it starts works where it does."""
    project, folder = tmp_path / "project", tmp_path / "data"
    project.mkdir()
    (project / ".env").write_text(
        "SEARCHBUS_SERVER_NAME=a.example/theirs\nSEARCHBUS_ATTACH_FILE=evil.toml\n"
    )
    (project / "mine.toml").write_text('[edge]\nserver_name = "a.example/mine"\n')
    found = []

    async def serve(client, data, toolset, services):
        found.append((Path.cwd(), load_settings(EdgeSettings, "edge", data_dir=data).server_name))

    monkeypatch.setattr(serving, "serve", serve)
    for more in ([], ["--config", "mine.toml"]):
        monkeypatch.setenv("SEARCHBUS_CONFIG", "")
        done = run_command("stdio", "--data", "../data", *more, folder=project)
        assert done.returncode == 0, done.stderr
    assert found == [(folder, None), (folder, "a.example/mine")]


@pytest.mark.parametrize("has_browser", [True, False])
def test_no_argument_of_a_program_has_the_token_of_the_console(tmp_path, monkeypatch, has_browser):
    """Every user of the machine can read those: a file of the owner leads to the page."""
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or has_browser)
    write_state(
        StackState(url="http://127.0.0.1:1", nats_url="nats://127.0.0.1:1", data=str(tmp_path),
                   pid=os.getpid())
    )  # fmt: skip
    address = f"http://127.0.0.1:1/console#token={console_token(load_key(tmp_path))}"
    printed = run_command("console", "--print", "--data", tmp_path)
    assert (printed.stdout, opened) == (f"{address}\n", [])
    done = run_command("console", "--data", tmp_path)
    assert opened == [(tmp_path / "console.html").as_uri()]
    assert done.stdout == ("" if has_browser else f"{address}\n")
    page = tmp_path / "console.html"
    assert f'url={html.escape(address)}"' in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600
