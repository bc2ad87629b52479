"""Files of a folder: which are read, and how."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from searchbus_ingest.sources.files import read_files
from searchbus_ingest.sources.item import Reason, SkipError
from searchbus_ingest.sources.reading import Reader
from searchbus_ingest.sources.walk import find_files, is_included, open_regular, read_regular

SUFFIXES = frozenset({".md"})


def found(path, *include):
    """Names to read, and name → reason of the others."""
    files = list(find_files(path, SUFFIXES, include=include))
    return (
        [file.name for file in files if file.skipped is None],
        {file.name: file.skipped.reason for file in files if file.skipped},
    )


def test_every_file_is_read_or_named(tmp_path):
    """In a stable order."""
    for name in ("b.md", "a.md", "sub/c.MD", "sub/deep/d.md", ".git/e.md", "node_modules/x/f.md", ".h.md",
                 "g.xls", "h"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Text.")
    read, skipped = found(tmp_path)
    assert read == ["a.md", "b.md", "sub/c.MD", "sub/deep/d.md"]
    assert skipped == {
        ".git": Reason.HIDDEN, ".h.md": Reason.HIDDEN, "node_modules": Reason.HIDDEN,
        "g.xls": Reason.UNSUPPORTED, "h": Reason.UNSUPPORTED,
    }  # fmt: skip
    assert all(f.skipped.left_out for f in find_files(tmp_path, SUFFIXES) if f.skipped)
    assert found(tmp_path, "*.md") == (["a.md", "b.md"], {})
    assert found(tmp_path, "sub/**") == (["sub/c.MD", "sub/deep/d.md"], {})


def test_unsupported_file_that_was_asked_for_is_a_failure(tmp_path):
    """Alone, or by a glob. The problem says what to do."""
    (tmp_path / "g.xls").write_text("x")
    for path, include in ((tmp_path / "g.xls", ()), (tmp_path, ("*",))):
        (file,) = find_files(path, SUFFIXES, include=include)
        assert not file.skipped.left_out
        assert file.skipped.problem == ".xls files are not read; save it as .xlsx"


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    """Those within it are."""
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    for path in (folder / "a.md", tmp_path / "secret.md"):
        path.write_text("Text.")
    (folder / "inside.md").symlink_to("a.md")
    (folder / "outside.md").symlink_to("../secret.md")
    (folder / "parent").symlink_to("..")
    (folder / "same").symlink_to("sub")
    (folder / "gone.md").symlink_to("nothing")
    (folder / "circle.md").symlink_to("circle.md")
    read, skipped = found(folder)
    assert read == ["a.md", "inside.md"]
    assert skipped == {
        "outside.md": Reason.OUTSIDE, "parent": Reason.OUTSIDE, "same": Reason.NOT_REGULAR,
        "gone.md": Reason.UNREADABLE, "circle.md": Reason.UNREADABLE,
    }  # fmt: skip
    (tmp_path / "link").symlink_to("folder")
    assert found(tmp_path / "link")[0] == read


def test_fifo_and_socket_are_named(tmp_path, monkeypatch):
    """Whatever their names end with."""
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most about 100 bytes
    os.mkfifo("a.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("b.md")
        first, second = find_files(tmp_path, SUFFIXES)
    assert first.skipped.problem == "a FIFO, not a regular file"
    assert second.skipped.problem == "a socket, not a regular file"


def test_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    """The rest is read."""
    (tmp_path / "locked").mkdir()
    (tmp_path / "a.md").write_text("Text.")
    real = os.scandir

    def scandir(path):
        if os.fspath(path).endswith("locked/") or os.fspath(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    read, skipped = found(tmp_path)
    assert (read, skipped) == (["a.md"], {"locked/": Reason.NOT_LISTED})


LIMIT_BYTES = 1024 * 1024


def reason_of(path: Path) -> tuple[Reason, str]:
    with pytest.raises(SkipError) as caught:
        read_regular(path, max_bytes=LIMIT_BYTES)
    return caught.value.reason, caught.value.problem


def test_file_is_read_up_to_its_limit(tmp_path):
    """The message has the limit and what to do."""
    path = tmp_path / "a"
    path.write_bytes(b"x" * LIMIT_BYTES)
    assert read_regular(path, max_bytes=LIMIT_BYTES) == path.read_bytes()
    path.write_bytes(b"x" * (LIMIT_BYTES + 1))
    assert reason_of(path) == (
        Reason.TOO_LARGE, "the file is larger than 1 MiB, the limit of a file; split it",
    )  # fmt: skip


@pytest.mark.timeout(60)
def test_fifo_and_device_are_not_read(tmp_path):
    """Opening them does not wait, and nothing is read of a device."""
    os.mkfifo(tmp_path / "fifo")
    assert reason_of(tmp_path / "fifo") == (Reason.NOT_REGULAR, "a FIFO, not a regular file")
    assert reason_of(Path("/dev/null")) == (Reason.NOT_REGULAR, "a device, not a regular file")


def test_folder_and_socket_cannot_be_opened(tmp_path, monkeypatch):
    """The system refuses it."""
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path, max_bytes=LIMIT_BYTES)
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most about 100 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(OSError, match="No such device"):
            read_regular(Path("s"), max_bytes=LIMIT_BYTES)


def test_file_that_is_gone_or_changes_is_skipped(tmp_path):
    """It may be half written."""
    path = tmp_path / "a"
    assert reason_of(path)[0] is Reason.CHANGED
    path.write_text("Whales")

    def read_and_append() -> None:
        with open_regular(path, max_bytes=LIMIT_BYTES) as file:
            file.read()
            path.write_text("Whales sing.")

    with pytest.raises(SkipError, match="changed while it was read; run the ingest again"):
        read_and_append()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_file_without_a_size_is_limited_as_well():
    """Those of /proc say that they are empty."""
    with pytest.raises(SkipError) as caught:
        read_regular(Path("/proc/self/status"), max_bytes=10)
    assert caught.value.reason is Reason.TOO_LARGE


def test_names_that_are_not_utf_8_are_skipped_with_what_they_are(tmp_path):
    """The others are read."""
    (tmp_path / "a.md").write_text("Whales.")
    try:
        (tmp_path / os.fsdecode(b"\xff.md")).write_text("Whales.")
    except OSError:
        pytest.skip("this disk has names of UTF-8 only")
    found = {file.name: file.skipped for file in find_files(tmp_path, SUFFIXES)}
    assert found.pop("a.md") is None
    (skipped,) = found.values()
    assert "its name is not UTF-8; rename it" in str(skipped)


@pytest.mark.parametrize("name", ["a.md", "b/a.md", "a.jsonl"])
async def test_file_that_became_a_link_out_of_the_folder_is_not_read(tmp_path, name):
    """Or its folder did, after it was found: whoever writes there would choose what is read."""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    for base in (folder, outside):
        (base / "b").mkdir(parents=True)
        (base / name).write_text('{"id": 1, "text": "A secret."}')
    found = list(find_files(folder, SUFFIXES | {".jsonl"}))
    swapped = folder / name.partition("/")[0]
    swapped.rename(tmp_path / "away")
    swapped.symlink_to(outside / swapped.name)
    (item,) = [item async for item in read_files(found, "c", Reader())]
    assert (item.document, item.reason) == (None, Reason.OUTSIDE)


async def test_file_that_was_a_link_while_it_was_opened_is_not_read(tmp_path, monkeypatch):
    """It may be the file that was found again before anybody looks."""
    folder, path = tmp_path / "folder", tmp_path / "folder" / "a.md"
    folder.mkdir()
    path.write_text("They sing.")
    (tmp_path / "secret").write_text("A secret.")
    (found,) = find_files(folder, SUFFIXES)
    opener = os.open
    monkeypatch.setattr(os, "open", lambda _, flags: opener(tmp_path / "secret", flags))
    with pytest.raises(SkipError, match="changed while it was read"):
        read_regular(found.path, max_bytes=LIMIT_BYTES, root=found.root)


@pytest.mark.parametrize("left", [True, False])
async def test_file_that_is_replaced_while_it_is_opened_is_read_by_the_next_run(
    tmp_path, monkeypatch, left
):
    """As editors save: a new file takes its name. Or it is removed."""
    path = tmp_path / "a.md"
    path.write_text("They sing.")
    (found,) = find_files(tmp_path, SUFFIXES)
    opener = os.open

    def opened(*given):
        file = opener(*given)
        path.unlink()
        if left:
            path.write_text("They whistle.")
        return file

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(SkipError) as caught:
        read_regular(found.path, max_bytes=LIMIT_BYTES, root=found.root)
    assert caught.value.reason is Reason.CHANGED


def test_folders_may_be_nested_deeply(tmp_path):
    """Deeper than Python's stack."""
    folders = [tmp_path / ("d/" * depth) for depth in range(1, 1_201)]
    for folder in folders:
        folder.mkdir()
    file = folders[-1] / "a.md"
    file.write_text("They sing.")
    try:
        (found,) = find_files(tmp_path, SUFFIXES)
        assert (found.name.count("/"), found.skipped) == (1_200, None)
    finally:  # what removes temporary folders recurses
        file.unlink()
        for folder in reversed(folders):
            folder.rmdir()


def test_patterns_cross_folders_as_shells_do():
    """`*` stays within one; a pattern with several `**` is not tried for each way to share them."""
    deep = "a/" * 5_000 + "x.txt"
    assert is_included(deep, ["**/a/**/a/**/*.txt"])
    assert not is_included(deep, ["**/a/**/a/**/a/**/*.md"])
    for name, pattern, fits in [
        ("a.md", "*.md", True),
        ("b/a.md", "*.md", False),
        ("a.md", "**/*.md", True),
        ("b/c/a.md", "b/**/a.md", True),
        ("b/a.md", "b/**/**/a.md", True),
        ("b/a.md", "b/**", True),
        ("b", "b/**", True),
        ("b/a.md", "b", False),
        ("b/a.md", "", False),
    ]:
        assert is_included(name, [pattern]) == fits, (name, pattern)
