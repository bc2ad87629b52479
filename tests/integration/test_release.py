"""`make release`: what it refuses, what it writes, and one release in a clone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts.release import __main__ as release
from scripts.release import changes, evidence
from scripts.release.changes import RefusedError

ROOT = Path(__file__).parents[2]
CHANGELOG = (
    "# Changes\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [1.0.0] - 2026-01-01\n\n- Old.\n"
)


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder."""
    author = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]
    command = ["git", *author, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a changelog and the tag v1.0.0."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "First")
    git(tmp_path, "tag", "v1.0.0")
    git(tmp_path, "tag", "nightly")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-rc1", "1.2.3 ", "1.2.3\n", "1.2.3rc", "1.2.x"],
)
def test_other_forms_of_versions_are_refused(text):
    """One form, which pip and the tags have in common."""
    with pytest.raises(RefusedError, match=re.escape("write it as 1.2.3")):
        changes.key_of(text)


def test_versions_are_ordered_by_number():
    """A pre-release stands before its release, ten behind nine."""
    ordered = ["0.9.0", "0.10.0a2", "0.10.0b1", "0.10.0rc1", "0.10.0rc10", "0.10.0", "1.0.0"]
    assert sorted(reversed(ordered), key=changes.key_of) == ordered
    assert changes.newest(["v0.9.0", "v0.10.0", "v0.10.0rc1", "nightly", "v9"]) == "0.10.0"
    assert changes.newest(["nightly"]) is None


def test_entries_of_unreleased_become_those_of_the_version():
    """And Unreleased is empty again."""
    text = changes.released(CHANGELOG, "1.1.0", "2026-02-03")
    assert "## [Unreleased]\n\n## [1.1.0] - 2026-02-03\n\n### Added\n\n- A thing.\n" in text
    assert text.endswith("## [1.0.0] - 2026-01-01\n\n- Old.\n")
    with pytest.raises(RefusedError, match="no entry"):
        changes.released(text, "1.2.0", "2026-02-04")


@pytest.mark.parametrize("text", ["", "# Changes\n\n- A thing.\n", CHANGELOG.replace("- A", "A")])
def test_a_changelog_without_entries_is_refused(text):
    """Also one whose only entries are those of older releases."""
    with pytest.raises(RefusedError, match=r"no entry below ## \[Unreleased\]"):
        changes.section(text)


def test_a_version_has_one_section():
    """It is never written a second time."""
    with pytest.raises(RefusedError, match="already"):
        changes.released(CHANGELOG, "1.0.0", "2026-02-03")


def test_a_release_follows_the_newest_tag(repository):
    """Its version is the one that the upgrade starts from."""
    assert release.check("1.0.1") == "1.0.0"
    git(repository, "tag", "--delete", "v1.0.0")
    assert release.check("1.0.1") is None


def test_an_existing_tag_is_refused(repository):
    """Versions are never used again."""
    with pytest.raises(RefusedError, match=r"v1\.0\.0 exists"):
        release.check("1.0.0")


def test_an_older_version_is_refused(repository):
    """Patches of old releases are not made from the newest code."""
    with pytest.raises(RefusedError, match=r"older than 1\.0\.0"):
        release.check("0.9.0")


@pytest.mark.parametrize("name", ["CHANGELOG.md", "new.txt"])
def test_a_tree_with_changes_is_refused(repository, name):
    """Changed files and files that git does not know."""
    (repository / name).write_text(CHANGELOG + "- More.\n")
    with pytest.raises(RefusedError, match="has changes"):
        release.check("1.0.1")


def test_a_tree_without_a_branch_is_refused(repository):
    """The commit would be lost."""
    git(repository, "checkout", "--quiet", "--detach")
    with pytest.raises(RefusedError, match="No branch"):
        release.check("1.0.1")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:secret@example.org/searchbus.git", "https://example.org/searchbus.git"),
        ("git@example.org:searchbus.git", "git@example.org:searchbus.git"),
    ],
)
def test_the_source_has_no_credentials(repository, address, shown):
    """It stands in files that are published."""
    assert release.source() == "unknown"
    git(repository, "remote", "add", "origin", address)
    assert release.source() == shown


def test_the_provenance_names_subjects_source_and_locks(tmp_path):
    """In the form of in-toto's statement."""
    lock = tmp_path / "runtime.txt"
    lock.write_text("")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    statement = evidence.provenance(
        {"b.whl": "22", "a.tar.gz": "11"},
        version="1.1.0",
        source="git+https://example.org/searchbus.git",
        revision="abc",
        locks=[lock],
        times=("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
        builder="urn:example:builder",
        tools={"python": "3.11.7"},
    )
    assert statement["subject"] == [
        {"name": "a.tar.gz", "digest": {"sha256": "11"}},
        {"name": "b.whl", "digest": {"sha256": "22"}},
    ]
    build = statement["predicate"]["buildDefinition"]
    assert build["externalParameters"] == {"VERSION": "1.1.0"}
    assert build["resolvedDependencies"] == [
        {"uri": "git+https://example.org/searchbus.git", "digest": {"gitCommit": "abc"}},
        {"name": "requirements/runtime.txt", "digest": {"sha256": empty}},
    ]


def test_images_have_the_labels_of_the_release():
    """Every build argument of a label is given by `make images`."""
    text = (ROOT / "services" / "Dockerfile").read_text()
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', text))
    assert {"version", "revision", "source", "licenses", "created"} <= labels.keys()
    names = {name for value in labels.values() for name in re.findall(r"\$\{(\w+)\}", value)}
    plan = subprocess.check_output(["make", "--dry-run", "images"], cwd=ROOT, text=True)
    assert names == {name for name in names if f"--build-arg {name}=" in plan}


@pytest.mark.slow
def test_a_release_is_made_in_a_clone_and_upgrades_the_one_before(tmp_path):
    """Two releases of the same code: files, bill of materials, provenance, commit and tag."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(ROOT), str(clone))
    git(clone, "checkout", "--quiet", "-B", "main")
    for name, text in {"user.name": "Nobody", "user.email": "nobody@example.org"}.items():
        git(clone, "config", name, text)
    git(clone, "tag", "v0.0.1")
    before = git(clone, "rev-parse", "HEAD").strip()
    command = [sys.executable, "-m", "scripts.release", "99.0.0"]
    # Without images: test_images builds them, from a base that may not be here.
    environment = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none"}
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "there are no images in this release" in done.stderr
    assert "a data folder of 0.0.1 is searched by 99.0.0" in done.stderr
    assert (
        git(clone, "rev-parse", "v99.0.0^{commit}", "main").split()
        == [git(clone, "rev-parse", "HEAD").strip()] * 2
    )
    assert git(clone, "rev-parse", "HEAD^").strip() == before
    assert git(clone, "status", "--porcelain") == ""
    assert len(git(clone, "worktree", "list").splitlines()) == 1
    assert "## [99.0.0] - 20" in (clone / "CHANGELOG.md").read_text()
    _check_files(clone / "dist" / "99.0.0", git(clone, "rev-parse", "HEAD").strip())


def _check_files(out: Path, revision: str) -> None:
    bill = _json(out / "searchbus-99.0.0.cdx.json")
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/searchbus@99.0.0"
    lock = (out / "constraints.txt").read_text()
    locked = {name.lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    named = {re.sub(r"[-_.]+", "-", one["name"]).lower() for one in bill["components"]}
    assert named <= locked
    assert {"nats-py", "uvloop", "onnxruntime"} <= named
    ours = [one for one in bill["dependencies"] if one["ref"] == "pkg:pypi/searchbus@99.0.0"]
    assert len(ours[0]["dependsOn"]) > 20
    statement = _json(out / "provenance.intoto.json")
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    files = [path for path in out.iterdir() if path.name != "provenance.intoto.json"]
    assert {path.name for path in files} <= subjects.keys()
    assert all(subjects[path.name] == evidence.sha256(path) for path in files)
    source, *_ = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": revision}


def _json(path: Path) -> Any:
    return json.loads(path.read_text())
