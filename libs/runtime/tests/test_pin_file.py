"""The file of pins: one writer at a time, replaced whole, private to its owner."""

from __future__ import annotations

import threading

import pytest

from searchbus_contracts import ToolDescriptor
from searchbus_runtime.pin_file import PinFile
from searchbus_runtime.pins import Pins


def tool(name: str) -> ToolDescriptor:
    return ToolDescriptor(
        name=name, toolset="files", description=name, input_schema={"type": "object"}
    )


def test_a_missing_file_has_no_pins(tmp_path):
    file = PinFile(tmp_path / "pins.json")
    assert file.read() == Pins()
    assert file.stamp() is None


def test_what_was_approved_is_read_again(tmp_path):
    """By another process, which sees that the file changed."""
    file = PinFile(tmp_path / "new" / "pins.json")
    with file.changing() as pins:
        pins.approve("files", "server", [tool("read")])
    before = file.stamp()
    assert PinFile(file.path).read() == pins
    assert file.path.stat().st_mode & 0o077 == 0
    with file.changing() as pins:
        pins.approve("files", "server", [tool("write")])
    assert file.stamp() != before
    assert set(file.read().toolsets["files"].tools) == {"read", "write"}


def test_a_file_is_decoded_once_for_each_version(tmp_path):
    """A reader sees what another process writes."""
    file, other = PinFile(tmp_path / "pins.json"), PinFile(tmp_path / "pins.json")
    for name in ("read", "write"):
        with other.changing() as pins:
            pins.approve("files", "server", [tool(name)])
        assert name in file.read().toolsets["files"].tools
        assert file.read() is file.read()


def test_a_failure_changes_nothing(tmp_path):
    """Neither the file nor what was read before."""
    file = PinFile(tmp_path / "pins.json")
    with file.changing() as pins:
        pins.approve("files", "server", [tool("write")])
    with pytest.raises(KeyError), file.changing() as pins:
        pins.approve("files", "server", [tool("read")])
        raise KeyError
    assert set(file.read().toolsets["files"].tools) == {"write"}
    file = PinFile(tmp_path / "other.json")
    with pytest.raises(KeyError), file.changing() as pins:
        pins.approve("files", "server", [tool("read")])
        raise KeyError
    assert file.read() == Pins()


def test_writers_take_turns(tmp_path):
    """Each keeps what the others approved."""
    file = PinFile(tmp_path / "pins.json")

    def approve(name: str) -> None:
        with file.changing() as pins:
            pins.approve(name, "server", [tool("read")])

    threads = [threading.Thread(target=approve, args=(f"t{n}",)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(file.read().toolsets) == 16


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"toolsets":{"a":{}}}', b"[" * 5000]
)
def test_a_damaged_file_is_named_and_kept(tmp_path, content):
    file = PinFile(tmp_path / "pins.json")
    file.path.write_bytes(content)
    with pytest.raises(ValueError, match="not a valid file of pins"):
        file.read()
    with pytest.raises(ValueError, match="not a valid"), file.changing():
        pass
    assert file.path.read_bytes() == content
