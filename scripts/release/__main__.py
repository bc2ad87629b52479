"""`make release VERSION=1.2.3`: see docs/release.md.

Everything is made in a worktree of its own, from a commit that the branch gets at the end. A
release that fails leaves the branch, the tags and the files as they were.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from urllib.parse import urlsplit

from . import changes, evidence, upgrade
from .changes import RefusedError

ROOT = Path(__file__).parents[2]
VERSION_FILE = "libs/contracts/src/searchbus_contracts/__init__.py"


def main(version: str) -> None:
    """Make a release.

    Raises:
        RefusedError: it is not made, with the reason.
        subprocess.CalledProcessError: a program of the build failed; its output is on the screen.
    """
    started = _now()
    before = check(version)
    with tempfile.TemporaryDirectory(prefix="searchbus-release-") as draft, _worktree() as tree:
        revision = commit(tree, version)
        # The same commit makes the same files.
        os.environ["SOURCE_DATE_EPOCH"] = _git("show", "-s", "--format=%ct", revision)
        folder = Path(draft)
        out = folder / version
        _run(tree / "scripts" / "dist", out, cwd=tree)
        (wheel,) = out.glob("*.whl")
        new = _environment(folder / "new", out / "constraints.txt", wheel)
        if before is None:
            _say("there is no release before: the upgrade is not tried")
        else:
            upgrade.check(_built(f"v{before}", folder), new)
            _say(f"a data folder of {before} is searched by {version}; the wire is the same")
        tool = _environment(folder / "tool", tree / "requirements" / "release.txt") / "bin"
        evidence.bill(
            tool / "cyclonedx-py",
            ["environment", new / "bin" / "python"],
            out / f"searchbus-{version}.cdx.json",
            evidence.distribution(version, wheel),
        )
        images = _images(tree, version, tool / "cyclonedx-py", out)
        subjects = {path.name: evidence.sha256(path) for path in out.iterdir()} | images
        statement = evidence.provenance(
            subjects,
            version=version,
            source=f"git+{source()}",
            revision=revision,
            locks=(tree / "requirements").glob("*.txt"),
            times=(started, _now()),
            builder=os.environ.get("BUILDER", "urn:searchbus:builder:workstation"),
            tools={"python": sys.version.split()[0], "hatchling": version_of("hatchling")},
        )
        (out / "provenance.intoto.json").write_text(json.dumps(statement, indent=1) + "\n")
        shutil.rmtree(ROOT / "dist" / version, ignore_errors=True)
        shutil.copytree(out, ROOT / "dist" / version)
        _git("merge", "--ff-only", "--quiet", revision)
        _git("tag", "--annotate", "--message", f"searchbus {version}", f"v{version}", revision)
    _say(f"made dist/{version} and the tag v{version}; docs/release.md says how to publish them")


def check(version: str) -> str | None:
    """The version of the release before; None where there is none.

    Raises:
        RefusedError: the version, the tree, the tags or the changelog do not allow this release.
    """
    key = changes.key_of(version)
    tags = _git("tag", "--list").split()
    if f"v{version}" in tags:
        raise RefusedError(f"The tag v{version} exists: choose the next version.")
    if _git("status", "--porcelain"):
        raise RefusedError("The tree has changes: commit them, or remove them, first.")
    if not _git("branch", "--show-current"):
        raise RefusedError("No branch is checked out: a release is a commit of a branch.")
    before = changes.newest(tags)
    if before is not None and key < changes.key_of(before):
        raise RefusedError(f"VERSION={version} is older than {before}, which has a tag.")
    changes.section((ROOT / "CHANGELOG.md").read_text())
    return before


def commit(tree: Path, version: str) -> str:
    """Commit a version and its section of the changelog; returns the revision."""
    path = tree / VERSION_FILE
    text, count = re.subn(
        r'^VERSION = ".*"$', f'VERSION = "{version}"', path.read_text(), flags=re.M
    )
    if count != 1:
        raise RefusedError(f"{VERSION_FILE} has {count} lines VERSION = …; one is expected.")
    path.write_text(text)
    path = tree / "CHANGELOG.md"
    day = datetime.now(UTC).date().isoformat()
    path.write_text(changes.released(path.read_text(), version, day))
    # Before our own environment, which has the packages of the checkout.
    sources = os.pathsep.join(str(path) for path in sorted(tree.glob("*/*/src")))
    for generator in ("proto/generate.py", "deploy/generate.py"):
        _run(sys.executable, tree / generator, cwd=tree, PYTHONPATH=sources)
    _git("commit", "--all", "--quiet", "--message", f"Release {version}", cwd=tree)
    return _git("rev-parse", "HEAD", cwd=tree)


def source() -> str:
    """The address of the repository, without credentials."""
    address = _git("config", "--default", "unknown", "--get", "remote.origin.url")
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _images(tree: Path, version: str, tool: Path, out: Path) -> dict[str, str]:
    """Build the images where Docker runs; returns name → sha256."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        _say("Docker does not run: there are no images in this release")
        return {}
    parts = [sys.executable, tree / "scripts" / "parts.py", "--images"]
    found = {}
    _run("make", "images", f"TAG={version}", f"SOURCE={source()}", cwd=tree)
    for name in subprocess.check_output(parts, text=True).split():
        inspect = [docker, "image", "inspect", "--format", "{{.Id}}", f"searchbus/{name}:{version}"]
        digest = subprocess.check_output(inspect, text=True).strip().removeprefix("sha256:")
        found[f"searchbus/{name}:{version}"] = digest
        evidence.bill(
            tool,
            ["requirements", tree / "requirements" / f"{name}.txt"],
            out / f"image-{name}-{version}.cdx.json",
            evidence.image(name, version, digest),
        )
    return found


def _built(tag: str, folder: Path) -> Path:
    """An environment with the release of a tag, built from its commit."""
    with _worktree(tag) as tree:
        target = folder / "old-dist"
        _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target, cwd=tree)
        (wheel,) = target.glob("*.whl")
        return _environment(folder / "old", tree / "requirements" / "runtime.txt", wheel)


def _environment(folder: Path, lock: Path, *wheels: Path) -> Path:
    """An environment with the packages of a lock, and wheels."""
    _run(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--quiet",
           "--disable-pip-version-check", "install", "--no-compile"]  # fmt: skip
    _run(*pip, "--require-hashes", "-r", lock)
    if wheels:
        _run(*pip, "--no-deps", *wheels)
    return folder


@contextmanager
def _worktree(revision: str = "HEAD") -> Iterator[Path]:
    """A folder with the files of a revision, and our environment, so that scripts find it."""
    with tempfile.TemporaryDirectory(prefix="searchbus-tree-") as parent:
        tree = Path(parent) / "searchbus"
        _git("worktree", "add", "--quiet", "--detach", tree, revision)
        try:
            (tree / ".venv").symlink_to(Path(sys.prefix))
            yield tree
        finally:
            _git("worktree", "remove", "--force", tree)


def _git(*arguments: object, cwd: Path | None = None) -> str:
    command = ["git", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd or ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def _run(*command: object, cwd: Path | None = None, **environment: str) -> None:
    subprocess.run([*map(str, command)], cwd=cwd or ROOT, env=os.environ | environment, check=True)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _say(text: str) -> None:
    sys.stderr.write(f"release: {text}\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2] or [""])
    except (RefusedError, subprocess.SubprocessError) as error:
        raise SystemExit(f"release: {error}") from None
