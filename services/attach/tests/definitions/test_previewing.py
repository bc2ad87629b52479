"""What callers would see by another view."""

from __future__ import annotations

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.declare.views import DeclaredView, parse_view_text
from searchbus_attach.definitions.viewing import preview
from searchbus_contracts import ToolAnnotations, ToolDescriptor

SERVER = parse_server("files", {"command": "x"})


def tool(name: str) -> ToolDescriptor:
    """A tool with two arguments."""
    return ToolDescriptor(
        name=name,
        toolset="files",
        title=name.title(),
        description=f"Does {name}. " * 200,
        input_schema={"type": "object", "properties": {"root": {}, "path": {}}},
        annotations=ToolAnnotations(read_only_hint=True),
    )


def test_each_tool_says_what_changes_and_those_come_first():
    """As it would be listed, with the arguments that are left."""
    now = parse_view_text("files", "deny = ['hidden']\n[tools.late]\napprove = true")
    view = parse_view_text(
        "files",
        "deny = ['gone']\n[tools.read]\nname = 'get'\ntitle = 'Get'\n"
        "arguments = {root = '/srv'}\nrequired_roles = ['READER']\n[tools.nothing]\ntitle = 'x'",
    )
    tools = [tool(name) for name in ("same", "read", "gone", "hidden", "late")]
    found = preview(SERVER, now, view, tools)
    shown = {one.name: one for one in found.tools}
    assert list(shown) == ["read", "gone", "hidden", "late", "same"]
    assert shown["read"].listed_as == "files__get"
    assert shown["read"].arguments == ("path",)
    assert shown["read"].required_roles == ("READER",)
    assert shown["read"].annotations == ("readOnlyHint",)
    assert set(shown["read"].changes) == {
        "name", "title", "arguments", "roles", "fixed arguments",
    }  # fmt: skip
    assert (shown["gone"].listed_as, shown["gone"].changes) == ("", ("not listed any more",))
    assert shown["hidden"].changes == ("listed",)
    assert shown["late"].changes == ("approval of calls",)
    assert shown["same"].changes == ()
    assert len(shown["same"].description) == 1000
    assert found.changed == 4
    assert any("nothing" in problem for problem in found.problems)


def test_preview_of_a_large_server_is_bounded():
    """Changed tools are kept, the number of the others is said."""
    tools = [tool(f"t{number}") for number in range(700)]
    view = parse_view_text("files", "[tools.t699]\ntitle = 'Last'")
    found = preview(SERVER, DeclaredView(), view, tools)
    assert (len(found.tools), found.more, found.tools[0].name) == (500, 200, "t699")
