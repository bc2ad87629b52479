"""Git repositories on this disk: what is read of them, and what they cannot do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from searchbus_contracts import Fault
from searchbus_ingest.sources.item import Reason
from searchbus_ingest.sync import repository as module
from searchbus_ingest.sync.repository import RepositorySource
from searchbus_ingest.sync.source import SourceUnreadableError
from searchbus_ingest.sync.state import SyncState
from searchbus_ingest.sync.syncing import Sync
from searchbus_testing import until

from ..conftest import bus_with


def git(folder: Path, *arguments: str) -> str:
    """A command in a repository, with no settings of this machine."""
    return subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=n@example.com", *arguments], cwd=folder,
        check=True, capture_output=True, text=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"},
    ).stdout  # fmt: skip


def commit(folder: Path, **files: str | None) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink() if text is None else path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "more")


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "a repository é"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(
        folder, a_md="# Whales\n\nThey sing.", sub__b_txt="Seals bark.", c_py="def f():\n    pass\n"
    )
    return folder


@pytest.fixture
async def run(repository, retrieval, tmp_path):
    bus = await bus_with(retrieval)
    state = SyncState(name="s", collection="c", source="u")

    async def run(address=str(repository), branch="", include=(), **options):
        source = RepositorySource(address, branch, tmp_path / "home.git", include)
        return await Sync(bus, source, state, **options).run()

    return run


def paths(retrieval):
    return sorted(str(d.metadata["path"]) for d in retrieval.documents.values())


async def test_files_of_the_last_commit_are_stored(run, repository, retrieval):
    """With their paths and addresses; what is not committed is not read."""
    (repository / "new.md").write_text("Not committed.")
    await run()
    assert paths(retrieval) == ["a.md", "c.py", "sub/b.txt"]
    (whales,) = (d for d in retrieval.documents.values() if d.title == "Whales")
    assert whales.url == f"file://{repository}/a.md".replace(" ", "%20").replace("é", "%C3%A9")
    assert {d.title for d in retrieval.documents.values()} == {"Whales", "b", "c"}


async def test_a_link_in_the_place_of_a_file_leads_to_nothing(
    run, retrieval, tmp_path, monkeypatch
):
    """Files are read where no other program writes, and not where a link may have led since."""
    (tmp_path / "secret.txt").write_text("A secret.")
    read, places = module.read_files, []

    def replaced(files, *arguments, **options):
        (file,) = files
        places.append(file.path)
        file.path.unlink()
        file.path.symlink_to(tmp_path / "secret.txt")
        return read(files, *arguments, **options)

    monkeypatch.setattr(module, "read_files", replaced)
    summary = await run()
    assert [item.reason for item in summary.failed] == [Reason.OUTSIDE] * 3
    assert retrieval.documents == {}
    assert all(path.is_relative_to(tmp_path / "home.git") for path in places)


async def test_include_chooses_files(run, repository, retrieval, tmp_path):
    """By globs, as of a folder; other ones choose anew although no commit is new."""
    commit(repository, e_bin="Not text.")
    summary = await run(include=("*.md", "sub/**", "*.bin"))
    assert paths(retrieval) == ["a.md", "sub/b.txt"]
    assert [str(item) for item in summary.failed] == ["e.bin: unknown file type"]
    assert (await run(include=("*.md", "sub/**"))).unchanged == 2
    assert (await run()).stored == 1
    assert (await run(include=("*.md", "*.py"))).deleted == 1
    assert paths(retrieval) == ["a.md", "c.py"]


async def test_only_changed_files_are_read_after_a_commit(run, repository, retrieval):
    """A commit that is the same is not even listed; also after a history that was rewritten."""
    await run()
    sent = sum(retrieval.batches)
    assert (await run()).unchanged == 3
    commit(repository, a_md="# Whales\n\nThey whistle.", sub__b_txt=None, sub__d_txt="Otters.")
    summary = await run()
    assert (summary.replaced, summary.stored, summary.deleted, summary.unchanged) == (1, 1, 1, 1)
    assert sum(retrieval.batches) == sent + 2
    git(repository, "reset", "-q", "--hard", "HEAD~1")
    summary = await run()
    assert (summary.replaced, summary.stored, summary.deleted) == (1, 1, 1)
    assert paths(retrieval) == ["a.md", "c.py", "sub/b.txt"]


async def test_links_submodules_and_hidden_files_are_left_out(run, repository, retrieval, tmp_path):
    """A link leads to a file of the machine that reads."""
    (tmp_path / "secret.txt").write_text("A secret.")
    (repository / "link.txt").symlink_to(tmp_path / "secret.txt")
    commit(repository, _github__x_md="Hidden.", e_bin="\0")
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    commit(inner, x_md="Inner.")
    git(
        repository,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(inner),
        "inner",
    )
    git(repository, "commit", "-q", "-m", "submodule")
    summary = await run()
    assert paths(retrieval) == ["a.md", "c.py", "sub/b.txt"]
    assert not summary.failed
    assert {item.origin for item in summary.skipped} >= {"link.txt", "inner", "e.bin"}


async def test_nothing_of_a_repository_is_executed(
    run, repository, retrieval, tmp_path, monkeypatch
):
    """Neither hooks and filters of it, nor settings of the user."""
    mark = tmp_path / "executed"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    program.chmod(0o755)
    home = tmp_path / "user"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[core]\nfsmonitor = "{program}"\nhooksPath = "{home}"\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        for folder in (repository / ".git/hooks", home):
            folder.mkdir(exist_ok=True)
            (folder / name).symlink_to(program)
    for name in ("filter.x.smudge", "core.fsmonitor", "uploadpack.packObjectsHook"):
        git(repository, "config", name, str(program))
    commit(repository, a_md="# Whales\n\nThey whistle.")
    (repository / ".gitattributes").write_text("*.md filter=x\n")
    git(repository, "-c", "filter.x.clean=cat", "-c", "core.fsmonitor=false", "add", "-A")
    git(repository, "-c", "core.fsmonitor=false", "commit", "-q", "-m", "attributes")
    mark.unlink(missing_ok=True)
    await run()
    assert len(retrieval.documents) == 3
    assert not mark.exists()


async def test_branch_and_tag_are_read(run, repository, retrieval):
    """Instead of what HEAD names."""
    git(repository, "checkout", "-q", "-b", "next")
    commit(repository, z_md="Next.")
    git(repository, "checkout", "-q", "main")
    await run(branch="next")
    assert "z.md" in paths(retrieval)
    git(repository, "tag", "-a", "v1", "-m", "v1")
    await run(branch="v1")
    assert "z.md" not in paths(retrieval)


@pytest.mark.parametrize(
    "branch", ["--upload-pack=touch x", "-x", "a b", "a:refs/heads/b", "a\n", "\u202e"]
)
def test_names_that_are_options_are_refused(branch, tmp_path):
    """Before git is started."""
    with pytest.raises(Fault, match="is not a branch"):
        RepositorySource("/x", branch, tmp_path)


@pytest.mark.parametrize(
    "address",
    ["http://example.com/x", "ssh://example.com/x", "ext::sh -c id", "git@example.com:x", "-x",
     "file:///etc", "https://user:token@example.com/x"],
)  # fmt: skip
def test_other_protocols_are_refused(address, tmp_path):
    """And credentials, which others could see in the list of processes."""
    with pytest.raises(Fault, match="without user and password"):
        RepositorySource(address, "", tmp_path)


async def test_repository_that_is_away_deletes_nothing(run, repository, retrieval):
    """git's own message says why."""
    await run()
    repository.rename(repository.with_name("moved"))
    with pytest.raises(SourceUnreadableError, match=r"git fetch: fatal: .*does not"):
        await run(allow_deletes=True)
    assert len(retrieval.documents) == 3


async def test_empty_repository_cannot_be_read(run, tmp_path, retrieval):
    """It has no commit."""
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(SourceUnreadableError, match="git fetch"):
        await run(str(tmp_path / "empty"))


async def test_git_that_hangs_is_ended(run, tmp_path, monkeypatch, retrieval):
    """With all that it has started."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nsleep 1000 & echo $! > "$HOME/../pid"; wait\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(module, "READ_TIMEOUT_S", 5.0)
    with pytest.raises(SourceUnreadableError, match="longer than 5 s"):
        await run()
    child = (tmp_path / "pid").read_text().strip()
    assert child

    def has_ended() -> bool:
        shown = subprocess.run(["ps", "-o", "stat=", "-p", child], capture_output=True, text=True)
        return not shown.stdout.strip() or shown.stdout.startswith("Z")

    await until(has_ended)


@pytest.mark.parametrize("stream", ["", " >&2"])
async def test_git_that_prints_without_end_is_ended(run, tmp_path, monkeypatch, stream):
    """As for a tree of a few kilobytes that names one folder ten thousand million times."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nyes{stream}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(SourceUnreadableError, match="git init says too much"):
        await run()


async def test_tree_of_too_many_files_is_not_read(run, repository, monkeypatch):
    """Few objects name very many."""
    blob = git(repository, "hash-object", "-w", "a.md").strip()
    row = f"100644 blob {blob}\ta.md\n"
    for _ in range(4):
        tree = subprocess.run(
            ["git", "mktree"], cwd=repository, input=row, check=True, capture_output=True, text=True
        ).stdout.strip()
        row = "".join(f"040000 tree {tree}\t{n}\n" for n in range(10))
    git(
        repository, "reset", "-q", "--soft", git(repository, "commit-tree", "-m", "t", tree).strip()
    )
    monkeypatch.setattr(module, "MAX_FILES", 999)
    with pytest.raises(SourceUnreadableError, match="more than 999 files; sync a part of it"):
        await run()
    monkeypatch.setattr(module, "MAX_LISTING_BYTES", 9_999)
    with pytest.raises(SourceUnreadableError, match="git ls-tree says too much"):
        await run()


async def test_memory_and_files_of_git_are_limited(run, tmp_path, monkeypatch):
    """And of all that it starts."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "fatal: $(ulimit -d) $(ulimit -f)" >&2; exit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(SourceUnreadableError, match=f"fatal: {2 * 2**20} {8 * 2**20}"):
        await run()


async def test_home_that_is_damaged_is_made_anew(run, repository, retrieval, tmp_path):
    """It only saves a fetch."""
    await run()
    (tmp_path / "home.git" / "HEAD").unlink()
    commit(repository, d_md="More.")
    assert (await run()).stored == 1


async def test_fetch_that_was_killed_holds_up_no_later_one(run, repository, retrieval, tmp_path):
    """git leaves its locks and half a pack then, and a sync the file that it read."""
    await run()
    home = tmp_path / "home.git"
    left = [
        home / name for name in ("shallow.lock", "refs/sync/now.lock", "objects/pack/tmp_pack_x")
    ]
    for path in left:
        path.write_text("")
    left.append(home / "reading-x")
    left[-1].mkdir()
    commit(repository, d_md="More.")
    assert (await run()).stored == 1
    assert not any(path.exists() for path in left)


async def test_names_that_no_disk_has_are_named(run, repository, retrieval):
    """The others are stored."""
    blob = git(repository, "hash-object", "-w", "a.md").strip()
    git(repository, "update-index", "--add", "--cacheinfo", f"100644,{blob},{'n' * 300}.md")
    git(repository, "commit", "-q", "-m", "long")
    summary = await run()
    assert [item.origin for item in summary.failed] == [f"{'n' * 300}.md"]
    assert len(retrieval.documents) == 3


async def test_machine_without_git_is_told_so(run, tmp_path, monkeypatch):
    """As in the container images."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceUnreadableError, match="git is not installed"):
        await run()


async def test_old_commits_take_no_space_for_ever(
    run, repository, retrieval, tmp_path, monkeypatch
):
    """After some fetches the repository is fetched anew."""
    monkeypatch.setattr(module, "MAX_PACKS", 2)
    for number in range(6):
        commit(repository, a_md=f"# Whales\n\nThey sing {number} songs.")
        await run()
        packs = list((tmp_path / "home.git").glob("objects/pack/*.pack"))
        assert 1 <= len(packs) <= 3
    assert any("5 songs" in d.text for d in retrieval.documents.values())


async def test_packs_of_a_repository_have_a_limit_together(run, repository, tmp_path, monkeypatch):
    """Large ones are not kept until there are many."""
    monkeypatch.setattr(module, "MAX_PACK_BYTES", 30_000)
    for _ in range(9):
        commit(repository, d_md=os.urandom(9999).hex())  # a pack of 11 KB
        await run()
        packs = list((tmp_path / "home.git").glob("objects/pack/*.pack"))
        assert sum(pack.stat().st_size for pack in packs) < 60_000
