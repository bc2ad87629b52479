"""What a command may reach."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.errors import ServerDeclarationError
from searchbus_attach.transports import child, confinement
from searchbus_attach.transports.child import ServerProcess
from searchbus_attach.transports.confinement import landlock_abi
from searchbus_attach.transports.reaping import Reaper
from searchbus_attach.transports.temporary import temporary_folder
from searchbus_testing import until

needs_landlock = pytest.mark.skipif(not landlock_abi(), reason="the kernel has no Landlock")
TRIES = """
import json, os, sys
def tried(does):
    try:
        does()
        return "done"
    except OSError as error:
        return error.strerror
parent = f"/proc/{os.getppid()}"
does = {
    "environ": lambda: open(f"{parent}/environ").close(),
    "memory": lambda: open(f"{parent}/mem").close(),
    "descriptors": lambda: os.readlink(f"{parent}/fd/0"),
    "signal": lambda: os.kill(os.getppid(), 0),
    "system": lambda: open("/etc/hostname").close(),
    "list": lambda: os.listdir("/"),
}
for path in sys.argv[1:]:
    does["read " + path] = lambda path=path: open(path).close()
    does["write " + path] = lambda path=path: open(path, "a").close()
if "TMPDIR" in os.environ:
    new = f"{os.environ['TMPDIR']}/{os.getpid()}"
    does["temporary"] = lambda: os.rmdir(os.mkdir(new) or new)
print(json.dumps({name: tried(one) for name, one in does.items()}), flush=True)
"""
ISOLATED = dict.fromkeys(("environ", "memory", "descriptors"), "Permission denied")
if os.geteuid() == 0:  # whom newer kernels let read it; our processes erase theirs
    del ISOLATED["environ"]


async def tried(*paths: Path, own: tuple[Path, ...] = (), **keys: object) -> dict[str, str]:
    """What a command with these keys can do."""
    arguments = ["-I", "-S", "-c", TRIES, *map(str, paths)]
    server = parse_server("s", {"command": sys.executable, "args": arguments, **keys})
    reaper = Reaper()
    printed: list[str] = []
    try:
        child = await ServerProcess.start(server, reaper, printed.append, own)
        line = await child.stdout.readline()
        await child.end()
    finally:
        reaper.close()
    assert line, printed
    return json.loads(line)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder that is not the one of temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)  # which is read once
    (tmp_path / "temporary").mkdir()
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@needs_landlock
async def test_command_reads_no_other_process_and_all_files(elsewhere):
    """Neither memory nor descriptors, also as root; ordinary servers find their files."""
    (elsewhere / "file").write_text("")
    found = await tried(elsewhere / "file")
    assert found.items() >= ISOLATED.items()
    if landlock_abi() >= 6:
        assert found["signal"] == "Operation not permitted"
    assert (found["system"], found["list"]) == ("done", "done")
    assert found[f"write {elsewhere}/file"] == found[f"read {elsewhere}/file"] == "done"


async def test_command_that_is_not_confined_reaches_what_we_do(elsewhere):
    """So the tests above are of the rules."""
    found = await tried(confine="none")
    assert set(found.values()) == {"done"}


@needs_landlock
async def test_files_are_of_the_system_its_own_and_those_that_are_named(elsewhere, tmp_path):
    """Its folder, a folder for temporary files, `paths`; nothing else of the user."""
    (elsewhere / "cwd").mkdir()
    (elsewhere / "named").write_text("")
    (elsewhere / "secret").write_text("")
    reached = [elsewhere / "cwd" / "x", elsewhere / "named"]
    for path in (*reached, tmp_path / "temporary" / "x"):
        path.write_text("")
    found = await tried(
        *reached, elsewhere / "secret", tmp_path / "temporary" / "x", elsewhere / "new",
        confine="files", cwd=str(elsewhere / "cwd"), paths=[str(elsewhere / "named")],
    )  # fmt: skip
    assert found.items() >= ISOLATED.items()
    for path in reached:
        assert (found[f"read {path}"], found[f"write {path}"]) == ("done", "done")
    closed = (elsewhere / "secret", tmp_path / "temporary" / "x")
    denied = {found[f"{how} {path}"] for how in ("read", "write") for path in closed}
    assert denied == {"Permission denied"}
    assert found[f"write {elsewhere}/new"] == "Permission denied"
    assert (found["system"], found["list"]) == ("done", "Permission denied")
    assert found["temporary"] == "done"
    assert [path.name for path in (tmp_path / "temporary").iterdir()] == ["x"]


@needs_landlock
async def test_its_variable_names_another_folder_of_temporary_files(elsewhere):
    """Who declares that means it."""
    (elsewhere / "mine").mkdir()
    found = await tried(confine="files", env={"TMPDIR": str(elsewhere / "mine")})
    assert found["temporary"] == "done"
    assert not list((elsewhere.parent / "temporary").iterdir())


@needs_landlock
async def test_a_variable_without_a_value_names_no_folder(elsewhere, monkeypatch):
    """It would be that in which the service works, such as the user's home."""
    monkeypatch.chdir(elsewhere)
    found = await tried(elsewhere / "new", confine="files", env={"TMPDIR": ""})
    assert found[f"write {elsewhere}/new"] == "Permission denied"
    assert found["temporary"] == "done"


@needs_landlock
async def test_folder_of_temporary_files_that_is_gone_is_replaced(elsewhere, monkeypatch):
    """The shell that made it has ended."""
    monkeypatch.setenv("TMPDIR", str(elsewhere / "gone"))
    assert (await tried(confine="files"))["temporary"] == "done"


@needs_landlock
async def test_folder_in_which_none_can_be_made_is_named(elsewhere, monkeypatch):
    """It is gone since, or its disk is full: not the program is missing."""
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere / "gone"))
    with pytest.raises(ServerDeclarationError, match=f"{elsewhere}/gone/.* name a folder"):
        await tried(confine="files")


async def nothing_is_looked_for() -> None:
    await until(lambda: not any("_remove_left" in one.name for one in threading.enumerate()))


@needs_landlock
async def test_what_a_killed_service_left_is_removed(elsewhere, tmp_path):
    """By the next command; nothing that a link leads to."""
    temporary = tmp_path / "temporary"
    (temporary / "searchbus-attach-left" / "folder").mkdir(parents=True)
    (temporary / "searchbus-attach-link").symlink_to(elsewhere)
    (elsewhere / "file").write_text("")
    await tried(confine="files")
    await nothing_is_looked_for()
    assert (elsewhere / "file").exists()
    assert [path.name for path in temporary.iterdir()] == ["searchbus-attach-link"]


async def test_folders_of_commands_that_run_stay(elsewhere):
    with temporary_folder() as one, temporary_folder() as two:
        await nothing_is_looked_for()
        assert Path(one).exists()
        assert Path(two).exists()
    assert not list((elsewhere.parent / "temporary").iterdir())


@needs_landlock
async def test_end_waits_not_for_very_many_temporary_files(elsewhere, monkeypatch):
    """A restart of the command, and the stop of the service, would."""
    monkeypatch.setattr(child, "_REMOVE_GRACE_S", 0.0, raising=False)
    removing, go_on = threading.Event(), threading.Event()
    remove = shutil.rmtree

    def removed(*arguments, **keys):
        removing.set()
        go_on.wait()
        remove(*arguments, **keys)

    monkeypatch.setattr(shutil, "rmtree", removed)
    ending = asyncio.ensure_future(tried(confine="files"))
    try:
        await until(removing.is_set)
        for _ in range(100):
            await asyncio.sleep(0)
        assert ending.done()
    finally:
        go_on.set()
    await ending
    await until(lambda: not list((elsewhere.parent / "temporary").iterdir()))


@needs_landlock
async def test_our_files_are_taken_out_of_a_folder_that_is_named(elsewhere):
    """A home folder has the folder of data in it."""
    ours = elsewhere / "home" / ".local" / "searchbus"
    ours.mkdir(parents=True)
    (elsewhere / "home" / "cache").mkdir()
    (elsewhere / "home" / "link").symlink_to(ours)
    for path in (ours / "key", elsewhere / "home" / "mine", elsewhere / "home" / "file.toml"):
        path.write_text("")
    asked = [
        ours / "key", elsewhere / "home" / "link" / "key", elsewhere / "home" / "file.toml",
        elsewhere / "home" / "mine", elsewhere / "home" / "cache" / "x",
    ]  # fmt: skip
    found = await tried(
        *asked, confine="files", paths=[str(elsewhere / "home"), str(ours), str(ours / "key")],
        own=(ours, elsewhere / "home" / "file.toml", elsewhere / "missing"),
    )  # fmt: skip
    written = [found[f"write {path}"] for path in asked]
    assert written == ["Permission denied"] * 3 + ["done"] * 2
    assert [found[f"read {path}"] for path in asked[:3]] == ["Permission denied"] * 3


@needs_landlock
async def test_path_that_is_missing_is_named(elsewhere):
    """The command would fail in its own words."""
    with pytest.raises(
        ServerDeclarationError, match=f"{elsewhere}/missing cannot be opened .* make it"
    ):
        await tried(confine="files", paths=[str(elsewhere / "missing")])
    assert not list((elsewhere.parent / "temporary").iterdir())


async def test_kernel_without_landlock(monkeypatch):
    """What is declared to be confined is not started; other commands run as before."""
    monkeypatch.setattr(confinement, "landlock_abi", lambda: 0)
    assert set((await tried()).values()) == {"done"}
    with pytest.raises(ServerDeclarationError, match="no Landlock"):
        await tried(confine="files")


@needs_landlock
@pytest.mark.parametrize("abi", range(2, landlock_abi() + 1))
@pytest.mark.parametrize("confine", ["processes", "files"])
async def test_older_kernels_confine_too(monkeypatch, abi, confine):
    """With the rights that they know."""
    monkeypatch.setattr(confinement, "landlock_abi", lambda: abi)
    found = await tried(confine=confine)
    assert found.items() >= ISOLATED.items()
    assert (found["list"] == "done") == (confine == "processes")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"command": "x", "paths": ["/srv"]}, "'paths' needs confine = \"files\""),
        ({"url": "https://a.example", "paths": ["/srv"]}, "'paths' is for a command"),
        ({"url": "https://a.example", "confine": "none"}, "'confine' is for a command"),
    ],
)
def test_keys_that_have_no_effect_are_refused(keys, message):
    """Whoever writes them means something."""
    with pytest.raises(ServerDeclarationError, match=message):
        parse_server("s", keys)
