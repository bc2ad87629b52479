"""What is in the wheel, in the sdist and beside them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from searchbus_contracts import VERSION

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
INFO = f"searchbus-{VERSION}.dist-info"


def source_files() -> set[str]:
    """The files of all packages that are distributed, as the wheel names them."""
    tracked = subprocess.check_output(["git", "ls-files", "-z", "libs", "services"], cwd=ROOT)
    parts = [Path(name).parts for name in tracked.decode().split("\0")]
    return {"/".join(path[3:]) for path in parts if path[2:3] == ("src",) and path[1] != "testing"}


def metadata(wheel: Path) -> Message:
    """The fields of METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"{INFO}/METADATA").decode())


def needed(wheel: Path) -> list[Requirement]:
    """What it needs without an extra."""
    found = [Requirement(text) for text in metadata(wheel).get_all("Requires-Dist") or []]
    return [one for one in found if "extra" not in str(one.marker)]


def build(tree: Path, target: Path) -> Path:
    """The wheel that is built of a tree."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target],
        cwd=tree, check=True, capture_output=True, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"},
    )  # fmt: skip
    (found,) = target.glob("*.whl")
    return found


def test_wheel_has_every_file_of_the_packages_and_no_other(wheel):
    """No test, no cache, nothing of the tests' own package."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if not name.startswith(f"{INFO}/")} == source_files()


def test_wheel_says_what_it_is(wheel):
    """A registry shows these fields."""
    fields = metadata(wheel)
    assert (fields["Name"], fields["Version"]) == ("searchbus", VERSION)
    assert (fields["Requires-Python"], fields["License-Expression"]) == (">=3.11", "Apache-2.0")
    assert str(fields.get_payload()).startswith("# searchbus")
    with zipfile.ZipFile(wheel) as archive:
        licence = archive.read(f"{INFO}/licenses/LICENSE")
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_wheel_has_the_entry_points_of_all_packages(wheel):
    """The command, further commands and every service."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{INFO}/entry_points.txt").decode()
    written = set(re.findall(r"^[\w.-]+ = \S+$", text, re.MULTILINE))
    declared = set()
    for path in [*ROOT.glob("libs/*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")]:
        project = tomllib.loads(path.read_text())["project"]
        for points in (project.get("scripts", {}), *project.get("entry-points", {}).values()):
            declared |= {f"{name} = {target}" for name, target in points.items()}
    assert "searchbus = searchbus_cli.main:main" in written
    assert written == declared


def test_sdist_and_checkout_make_the_same_wheel(sdist, tmp_path):
    """Byte for byte, at the same time of the commit."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    ours, theirs = build(ROOT, tmp_path / "ours"), build(tree, tmp_path / "theirs")
    assert ours.read_bytes() == theirs.read_bytes()


def test_constraints_have_a_tested_version_and_a_hash_of_all_that_is_needed(dist, wheel):
    """Which each requirement allows."""
    lock = (dist / "constraints.txt").read_text().replace("\\\n", " ")
    pins = {
        canonicalize_name(name): (version, rest)
        for name, version, rest in re.findall(r"^([\w.-]+)==([^\s;]+)(.*)$", lock, re.MULTILINE)
    }
    assert needed(wheel)
    for requirement in needed(wheel):
        version, rest = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement
        assert "--hash=sha256:" in rest, requirement


def test_licences_name_every_package_of_the_constraints(dist):
    """And a text for those that are installed here."""
    page = (dist / "LICENSES.md").read_text()
    rows = set(re.findall(r"^\| ([\w.-]+) \| [\d]", page, re.MULTILINE))
    lock = (dist / "constraints.txt").read_text()
    assert rows == set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    assert "AGPL" not in "".join(re.findall(r"^\| .*$", page, re.MULTILINE))
    assert page.count("```text") > 20
