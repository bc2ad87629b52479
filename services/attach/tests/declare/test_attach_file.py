"""The file of servers: read, extended and shortened without losing what people wrote."""

from __future__ import annotations

import re

import pytest

from searchbus_attach.declare.attach_file import (
    AttachFile,
    Declared,
    read_text,
    reserved_names,
    view_stamp,
)
from searchbus_attach.declare.servers import parse_server
from searchbus_attach.declare.views import DeclaredView, parse_view_text
from searchbus_attach.errors import ServerDeclarationError
from searchbus_contracts.services import Service

TEXT = """\
# ours
[servers.files]   # the shared folder
command = "npx"
args = ["-y", "x"]
"""


@pytest.fixture
def file(tmp_path) -> AttachFile:
    return AttachFile(tmp_path / "attach.toml", {"web", "connector"})


def test_no_file_means_no_servers(file):
    """That is how it starts."""
    assert file.read_all().servers == {}
    assert file.stamp() is None


def test_servers_are_added_and_removed(file):
    """Comments stay."""
    file.path.write_text(TEXT)
    before = file.stamp()
    keys = {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${T}"}}
    file.add([parse_server("far", keys)])
    assert file.stamp() != before
    found = file.read_all().servers
    assert (found["far"].headers, found["files"].args) == (keys["headers"], ("-y", "x"))
    assert "# the shared folder" in file.path.read_text()
    assert file.path.stat().st_mode & 0o077 == 0
    file.remove("files")
    assert set(file.read_all().servers) == {"far"}
    file.remove("far")
    assert file.read_all().servers == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[servers.a", "not TOML"),
        ("[server.a]\ncommand = 'x'", "Did you mean 'servers'"),
        ("servers = 3", "one table"),
        ("[servers.a]\ncomand = 'x'", "Did you mean 'command'"),
        ("[servers.web]\ncommand = 'x'", "toolset of searchbus"),
        ("[servers.a]\ncommand = 'x'\n[servers.a.veiw]", "Did you mean 'view'"),
        ("[servers.a]\ncommand = 'x'\n[servers.a.view]\nalow = []", "Did you mean 'allow'"),
        ("[views.a]\nalow = ['x']", "Did you mean 'allow'"),
        ("[views.web]\nallow = ['x']", "another toolset web"),
        ("[servers.a]\ncommand = 'x'\n[views.a]\nallow = ['x']", "another toolset a"),
        ("a = " + "[" * 5000 + "]" * 5000, "not TOML"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(file, text, message):
    """And nothing is written into such a file."""
    file.path.write_text(text)
    with pytest.raises(ServerDeclarationError, match=message) as error:
        file.read_all()
    assert "attach.toml" in str(error.value)
    with pytest.raises(ServerDeclarationError):
        file.add([parse_server("b", {"command": "x"})])
    assert file.path.read_text() == text


def test_a_server_is_added_once_and_removed_by_its_name(file):
    """With what to do instead."""
    file.path.write_text(TEXT)
    with pytest.raises(ServerDeclarationError, match="attach remove files"):
        file.add([parse_server("files", {"command": "x"})])
    with pytest.raises(ServerDeclarationError, match="Did you mean 'files'"):
        file.remove("file")
    with pytest.raises(ServerDeclarationError, match="toolset of searchbus"):
        file.add([parse_server("web", {"command": "x"})])


def test_an_equal_server_is_left_as_it_is(file, tmp_path):
    """The file is not written; beside another one of the same name nothing is added."""
    file.path.write_text(TEXT)
    before = file.stamp()
    same = parse_server("files", {"command": "npx", "args": ["-y", "x"]})
    assert file.add([same]) == ["files"]
    assert file.stamp() == before
    new, other = parse_server("new", {"command": "x"}), parse_server("files", {"command": "x"})
    with pytest.raises(
        ServerDeclarationError, match=r"mcp\.json: files is .*; nothing was attached\. .*"
    ):
        file.add([new, other], tmp_path / "mcp.json")
    assert file.stamp() == before
    assert file.add([same, new]) == ["files"]
    assert set(file.read_all().servers) == {"files", "new"}


def test_the_file_of_a_host_is_read_only(tmp_path):
    """The host would overwrite it."""
    path = tmp_path / "claude_desktop_config.json"
    path.write_text('{"mcpServers": {"files": {"command": "npx"}}}')
    file = AttachFile(path)
    assert file.read_all().servers["files"].command == "npx"
    with pytest.raises(ServerDeclarationError, match="belongs to the host"):
        file.remove("files")


def test_a_file_that_cannot_be_read_is_named(file):
    """Not UTF-8, for instance."""
    file.path.write_bytes(b"\xfc")
    with pytest.raises(
        ServerDeclarationError, match=r"attach\.toml is not text in UTF-8: .* save it"
    ):
        file.read_all()


def test_views_are_apart_from_servers(file):
    """They stay when servers are added and removed."""
    file.path.write_text(
        TEXT + "[servers.files.view]\nallow = ['read_*']\n[views.reading]\nallow = ['files__*']\n"
    )
    file.add([parse_server("far", {"url": "https://x.example/mcp"})])
    found = file.read_all()
    assert found.views["files"].allow == ("read_*",)
    assert found.views["far"] == DeclaredView()
    assert found.selections["reading"].allow == ("files__*",)
    assert found.servers["files"] == parse_server("files", {"command": "npx", "args": ["-y", "x"]})
    file.remove("files")
    assert set(file.read_all().selections) == {"reading"}


def test_a_server_cannot_take_the_name_of_a_view(file):
    """Written into the file, it would make all of it unusable, also for `attach remove`."""
    text = "[views.reading]\nallow = ['*']\n"
    file.path.write_text(text)
    with pytest.raises(ServerDeclarationError, match="another toolset reading"):
        file.add([parse_server("reading", {"command": "x"})])
    assert file.path.read_text() == text


def test_a_link_stays_a_link(file, tmp_path):
    """The file that it names gets the change."""
    kept = tmp_path / "elsewhere.toml"
    kept.write_text(TEXT)
    file.path.symlink_to(kept)
    file.add([parse_server("far", {"url": "https://x.example/mcp"})])
    assert file.path.is_symlink()
    assert "[servers.far]" in kept.read_text()


def test_a_byte_order_mark_is_no_fault(file):
    """Some editors write one."""
    file.path.write_text(TEXT, encoding="utf-8-sig")
    assert set(file.read_all().servers) == {"files"}
    file.add([parse_server("far", {"url": "https://x.example/mcp"})])
    assert set(file.read_all().servers) == {"files", "far"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_usual_encodings_are_read(tmp_path, encoding):
    """UTF-16 is what PowerShell writes."""
    path = tmp_path / "mcp.json"
    path.write_text('{"\u00e9": 1}', encoding=encoding)
    assert read_text(path) == '{"\u00e9": 1}'


@pytest.mark.parametrize("content", [b"caf\xe9", b"\xff\xfea"])
def test_other_files_are_named(tmp_path, content):
    """With what to do."""
    path = tmp_path / "mcp.json"
    path.write_bytes(content)
    with pytest.raises(
        ServerDeclarationError, match=r"mcp\.json is not text in UTF-8: .* save it as UTF-8"
    ):
        read_text(path)


def test_toolsets_of_services_and_of_the_edge_are_taken():
    """Tools, resources and prompts, and those of the edge itself."""
    services = {"a": Service(name="a", toolsets=("x",), resources=("y",), prompts=("z",))}
    assert {"x", "y", "z", "bulk", "connector", "lazy"} == reserved_names(services)


VIEW = """\
# only what reads
allow = ["read_*"]

[tools.read_file]
name = "read"  # short
arguments = {root = "/srv"}

[tools."odd name"]
title = "[servers.files.view.x]"
"""


@pytest.mark.parametrize(
    "more",
    [
        "",
        "view = {allow = ['a*']}\n",
        "view.allow = ['a*']\n",
        "\n[servers.files.view]\n# theirs\ndeny = ['b']\n[servers.files.view.tools.a]\nname = 'b'\n",
        "\n[servers.other]\ncommand = 'x'\n[servers.files.view.tools.a]\nname = 'b'\n",
        "\n[servers.'files'.'view'.tools.a]\nname = 'b'\n",
    ],
    ids=["none", "inline", "dotted", "table", "apart", "quoted"],
)
def test_view_is_replaced_however_it_was_written(file, more):
    """With the comments of both; read again it is the same text. An empty one takes it away."""
    file.path.write_text(TEXT + more)
    before = file.read_all()
    now = file.view_text("files")
    assert file.read_all().views["files"] == parse_view_text("files", now)
    file.set_view("files", VIEW, view_stamp(now))
    assert file.view_text("files") == VIEW
    assert file.read_all().views["files"] == parse_view_text("files", VIEW)
    assert "# ours" in file.path.read_text()
    file.set_view("files", "# nothing\n", view_stamp(VIEW))
    assert file.view_text("files") == ""
    after = file.read_all()
    assert after.servers == before.servers
    assert after.views["files"] == DeclaredView()


def test_view_that_changed_meanwhile_or_is_wrong_is_not_replaced(file):
    """The file stays as it is, and the message names the key."""
    file.path.write_text(TEXT + "view = {allow = ['a*']}\n")
    before = file.path.read_text()
    stamp = view_stamp(file.view_text("files"))
    for text, given, message in (
        (VIEW, view_stamp(""), "is another one by now"),
        ("alow = []", stamp, "Did you mean 'allow'"),
        ("[tools", stamp, "files.view is not TOML"),
        ("[" * 5000, stamp, "files.view is not TOML"),
        ("[tools.a]\nname = 'x y'", stamp, "files.view.tools.a: 'name'"),
    ):
        with pytest.raises(ServerDeclarationError, match=re.escape(message)):
            file.set_view("files", text, given)
    for name in ("other", "view"):
        with pytest.raises(ServerDeclarationError, match="There is no server"):
            file.set_view(name, VIEW, stamp)
        with pytest.raises(ServerDeclarationError, match="There is no server"):
            file.view_text(name)
    assert file.path.read_text() == before


def test_servers_are_listed_and_removed_beside_a_faulty_table(file):
    """Each fault has its name; nothing else is read from such a file, or written to it."""
    file.path.write_text(
        TEXT + "[servers.odd]\ncomand = 'x'\n[servers.web]\ncommand = 'x'\n"
        "[servers.veiled]\ncommand = 'x'\nview = {alow = []}\n"
    )
    found = file.read_all(beside_faults=True)
    assert set(found.servers) == {"files"}
    assert set(found.faults) == {"odd", "web", "veiled"}
    assert "Did you mean 'command'" in found.faults["odd"]
    with pytest.raises(ServerDeclarationError, match="Did you mean 'command'"):
        file.read_all()
    with pytest.raises(ServerDeclarationError, match="Did you mean 'command'"):
        file.add([parse_server("more", {"command": "x"})])
    for name in ("odd", "files", "web", "veiled"):
        file.remove(name)
    assert file.read_all() == Declared()
    assert "# ours" in file.path.read_text()
