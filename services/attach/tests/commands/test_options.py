"""What the commands share."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from searchbus_attach.commands.options import (
    ReportingGroup,
    credentials_for,
    file_of,
    pins_of,
    server_of,
)
from searchbus_attach.declare.servers import parse_server
from searchbus_attach.errors import ServerDeclarationError
from searchbus_contracts import Fault


def test_files_are_in_the_data_folder(tmp_path):
    """As for the service."""
    assert file_of(None, tmp_path).path == tmp_path / "attach.toml"
    assert pins_of(tmp_path) == tmp_path / "attach-pins.json"


def test_an_unknown_server_is_named_with_the_nearest(tmp_path):
    """Most errors are typing errors."""
    file = file_of(None, tmp_path)
    file.add([parse_server("files", {"command": "x"})])
    with pytest.raises(ServerDeclarationError, match="Did you mean 'files'"):
        server_of(file, "file")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ServerDeclarationError("wrong"), "wrong"),
        (PermissionError(13, "Permission denied", "/x"), "/x cannot be used (Permission denied)"),
        (Fault("unavailable", "Away."), "unavailable: Away."),
    ],
)
def test_errors_of_operators_have_no_traceback(error, told):
    """Exit code 1, one line."""
    app = typer.Typer(cls=ReportingGroup)
    app.callback()(lambda: None)

    @app.command("fail")
    def fail() -> None:
        raise error

    ended = CliRunner().invoke(app, ["fail"])
    assert (ended.exit_code, ended.stderr) == (1, f"error: {told}\n")


def test_settings_are_read_for_servers_with_sign_in_only(tmp_path, monkeypatch):
    """A wrong setting does not stop commands that need none."""
    monkeypatch.setenv("SEARCHBUS_ATTACH_VAULT_KEY", "wrong")
    plain = parse_server("plain", {"command": "x"})
    assert credentials_for(plain, tmp_path).logins is None
    person = parse_server(
        "far", {"url": "https://x.example/mcp", "auth": {"type": "authorization_code"}}
    )
    with pytest.raises(SystemExit):
        credentials_for(person, tmp_path)
