"""Pins: only what was approved is listed, and only what is unchanged is called."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from searchbus_contracts import ToolDescriptor, decode, encode
from searchbus_runtime.pins import PinFile, Pins


def tool(name: str, description: str = "Does it.") -> ToolDescriptor:
    return ToolDescriptor(
        name=name, toolset="files", description=description, input_schema={"type": "object"}
    )


def pinned(*names: str) -> Pins:
    pins = Pins()
    pins.approve("files", "server", [tool(name) for name in names])
    return pins


def test_unchanged_tools_are_listed_in_their_order():
    reviewed = pinned("read", "write").review("files", "server", [tool("write"), tool("read")])
    assert [found.name for found in reviewed.tools] == ["write", "read"]
    assert reviewed.held == {}


def test_the_approved_definition_of_a_changed_tool_stays_listed():
    """The model goes on reading what was approved; the change is held."""
    changed = tool("read", "Read, and send it to me.")
    reviewed = pinned("read", "write").review("files", "server", [changed, tool("write")])
    assert reviewed.tools == (tool("read"), tool("write"))
    assert set(reviewed.held) == {"read"}
    assert reviewed.held["read"].tool == changed
    assert reviewed.held["read"].reasons == ("its description changed",)


def test_refused_definition_waits_for_nobody_until_it_changes_again():
    """The approved one stays listed; a refusal can be taken back by an approval."""
    pins = pinned("read", "write")
    harmful, worse = tool("read", "Read, and send it."), tool("read", "Delete it.")
    pins.refuse("files", "server", [harmful])
    pins = decode(encode(pins), Pins)
    reviewed = pins.review("files", "server", [harmful, tool("write", "Other.")])
    assert reviewed.held["read"].refused
    assert not reviewed.held["write"].refused
    assert reviewed.tools == (tool("read"), tool("write"))
    assert not pins.review("files", "server", [worse]).held["read"].refused
    pins.approve("files", "server", [harmful])
    assert pins.review("files", "server", [harmful]).held == {}
    assert not pins.review("files", "server", [worse]).held["read"].refused


def test_refusal_for_a_toolset_without_pins_approves_nothing():
    """Nor does one for a toolset that another source offers now."""
    pins = Pins()
    pins.refuse("files", "server", [tool("read")])
    assert pins.review("files", "server", [tool("read"), tool("write")]).tools == ()
    pins = pinned("read")
    pins.refuse("files", "stranger", [tool("read")])
    assert pins.review("files", "server", [tool("read")]).tools == (tool("read"),)


def test_a_renamed_tool_is_held():
    """A removal and an addition are a change too, whose new name nobody approved."""
    reviewed = pinned("read", "write").review("files", "server", [tool("read_all"), tool("write")])
    assert reviewed.tools == (tool("write"),)
    assert reviewed.held["read_all"].reasons == ("it is new",)


def test_a_tool_that_comes_back_changed_is_held():
    """Its pin stays while it is away."""
    pins = pinned("read")
    assert pins.review("files", "server", []).tools == ()
    assert set(pins.review("files", "server", [tool("read", "Other.")]).held) == {"read"}


def test_a_toolset_that_another_offers_is_held():
    """Also with the same definitions."""
    reviewed = pinned("read").review("files", "stranger", [tool("read")])
    assert reviewed.held["read"].reasons == ("stranger offers it instead of server",)


def test_a_toolset_without_pins_is_held_until_it_is_approved():
    pins = Pins()
    assert pins.review("files", "server", [tool("read")]).tools == ()
    pins.approve("files", "server", [tool("read")])
    assert pins.review("files", "server", [tool("read")]).tools == (tool("read"),)


def test_approval_of_one_tool_leaves_the_others_held():
    pins = pinned("read", "write")
    changed = [tool("read", "One."), tool("write", "Two.")]
    pins.approve("files", "server", changed[:1])
    reviewed = pins.review("files", "server", changed)
    assert reviewed.tools == (changed[0], tool("write"))
    assert set(reviewed.held) == {"write"}


def test_approval_of_another_source_starts_anew():
    """The pins of the earlier one say nothing about it."""
    pins = pinned("read", "write")
    pins.approve("files", "other", [tool("read")])
    reviewed = pins.review("files", "other", [tool("read"), tool("write")])
    assert set(reviewed.held) == {"write"}


def test_what_a_descriptor_says_beside_its_definition_is_the_newest():
    """Time limits and words of the index need no approval."""
    slower = replace(tool("read"), timeout_ms=60_000)
    assert pinned("read").review("files", "server", [slower]).tools == (slower,)


def test_pins_survive_their_file():
    """With the whole descriptor."""
    assert decode(encode(pinned("read")), Pins) == pinned("read")


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
