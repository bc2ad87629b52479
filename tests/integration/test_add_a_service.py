"""What adding a tool or a service costs: done in a copy of the tree, counted, and run."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from searchbus_cli.secure import Security
from searchbus_runtime.services import bus_users
from searchbus_testing import Stack

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

# ---- a tool in an existing toolset: lines added to its module ----
TOOLS_MODULE = "services/ddg/src/searchbus_ddg/tools.py"
ARGUMENTS = '''\
class Text(Struct):
    """Arguments of reverse."""

    text: Annotated[str, doc("The text.")]


'''
TOOL = '''\
    @tool(title="Reverse a text", annotations=READ_ONLY_OUTSIDE)
    async def reverse(self, call: Call, arguments: Text) -> str:
        """Write a text from its last letter to its first."""
        return arguments.text[::-1]

'''

# ---- a service with one tool: its files ----
SERVICE = {
    "services/toy/pyproject.toml": """\
[project]
name = "searchbus-toy"
version = "0.1.0"
description = "Dice."
requires-python = ">=3.11"
dependencies = ["searchbus-runtime"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["src/searchbus_toy"]

[project.entry-points."searchbus.services"]
toy = "searchbus_toy:SERVICE"
""",
    "services/toy/src/searchbus_toy/__init__.py": '''\
"""Dice."""

from searchbus_contracts.services import Service

__all__ = ["SERVICE"]

SERVICE = Service(
    name="toy", description="Dice.", start="searchbus_toy.tools:start", toolsets=("dice",)
)
''',
    "services/toy/src/searchbus_toy/tools.py": '''\
"""The toolset `dice`."""

from typing import Annotated

from msgspec import Meta, Struct

from searchbus_bus import Call, Toolset, Worker, tool
from searchbus_contracts import ToolAnnotations
from searchbus_runtime import Process, ServiceSettings


class Roll(Struct):
    """Arguments of roll."""

    dice: Annotated[int, Meta(ge=1, le=10, description="How many dice.")] = 1


class Rolled(Struct):
    """The reply of roll."""

    total: int


class Dice(Toolset, name="dice"):
    """Dice that always show a four."""

    @tool(title="Roll dice", annotations=ToolAnnotations(read_only_hint=True))
    async def roll(self, call: Call, arguments: Roll) -> Rolled:
        """Roll dice and add them up."""
        return Rolled(4 * arguments.dice)


async def start(process: Process[ServiceSettings]) -> None:
    """Wire the service."""
    worker = Worker(process.service)
    worker.add(Dice())
    await process.serve(worker)
''',
}
GENERATED = (
    "docker-compose.yml", "deploy/k8s/base/services.yaml", "requirements/toy.txt",
    "deploy/helm/searchbus/values.yaml", "deploy/helm/searchbus/values.schema.json",
)  # fmt: skip

# ---- a service that is not installed: a module for `--service parrot=parrot` ----
PARROT = (
    SERVICE["services/toy/src/searchbus_toy/tools.py"].replace('name="dice"', 'name="parrot"')
    + """

from searchbus_contracts.services import Service

SERVICE = Service(name="parrot", start="parrot:start", toolsets=("parrot",))
"""
)


@dataclass
class Tree:
    """A copy of the files of this tree."""

    folder: Path

    @classmethod
    def copy(cls, folder: Path) -> Tree:
        """Copy what git knows, or would know."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        return cls(folder)

    @property
    def environment(self) -> dict[str, str]:
        """The code of the copy wins over what is installed."""
        sources = [*self.folder.glob("libs/*/src"), *self.folder.glob("services/*/src")]
        path = [self.folder / "site", *sources]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}

    def run(self, *arguments: object) -> str:
        """Run Python on the copy; its output."""
        done = subprocess.run(
            [sys.executable, *map(str, arguments)], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def changes(self) -> dict[str, int]:
        """Each file that differs from the original, with the number of lines added or removed."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder)
            skipped = {"site", "build", "__pycache__"}.intersection(name.parts)
            if not path.is_file() or skipped:
                continue
            before, after = _lines(ROOT / name), _lines(path)
            marks = [line[:2] for line in difflib.ndiff(before, after)] if before != after else []
            if marks:
                found[str(name)] = sum(mark in ("+ ", "- ") for mark in marks)
        return found

    def add_tool(self) -> None:
        """Write the tool into the existing toolset."""
        path = self.folder / TOOLS_MODULE
        before, marker, after = path.read_text().partition("class DdgTools(Toolset")
        head, first, rest = after.partition("    @tool(\n")
        path.write_text(before + ARGUMENTS + marker + head + TOOL + first + rest)

    def add_service(self) -> None:
        """Write the service, and generate what follows from it."""
        for name, text in SERVICE.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        # `make lock` needs uv and the network. What the service needs is locked for another one.
        needed = self.run("scripts/parts.py", "--requirements", "toy").splitlines()
        lock = (self.folder / "requirements" / "ddg.txt").read_text()
        pinned = {line.partition("==")[0].lower() for line in lock.splitlines() if "==" in line}
        assert {_distribution(text) for text in needed} <= pinned
        (self.folder / "requirements" / "toy.txt").write_text(lock)
        self.run("deploy/generate.py")

    def install_service(self) -> None:
        """As `make setup` does, but beside the packages of this tree."""
        self.run(
            "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps",
            "--no-build-isolation", "--target", "site", "services/toy",
        )  # fmt: skip


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines() if path.is_file() else []


def _distribution(requirement: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else " " for c in requirement).split()[0].lower()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A copy with the toy service."""
    tree = Tree.copy(tmp_path_factory.mktemp("service") / "searchbus")
    tree.add_service()
    return tree


def test_a_tool_is_one_file_of_fifteen_lines(tmp_path, capsys):
    """Besides it, `make proto` writes the tool's schema."""
    tree = Tree.copy(tmp_path / "searchbus")
    assert tree.changes() == {}
    tree.add_tool()
    changed = tree.changes()
    with capsys.disabled():
        print(f"\na tool: {changed}")
    assert list(changed) == [TOOLS_MODULE]
    assert changed[TOOLS_MODULE] <= 15
    tree.run("-m", "ruff", "check", "--no-cache", TOOLS_MODULE)
    tree.run("proto/generate.py")
    also = set(tree.changes()) - {TOOLS_MODULE}
    assert also
    assert all(name.startswith("proto/") for name in also)


def test_a_service_is_eight_files(tree, capsys):
    """Three by hand, the lock, and four that the deployment's generator writes."""
    changed = tree.changes()
    with capsys.disabled():
        print(f"\na service: {len(changed)} files: {changed}")
    assert set(changed) == {*SERVICE, *GENERATED}
    assert len(changed) <= 8
    assert sum(changed[name] for name in SERVICE) <= 80
    assert "services/toy" in tree.run("scripts/parts.py", "toy")
    listed = subprocess.run(
        ["make", "-n", "images"], cwd=tree.folder, capture_output=True, text=True, check=True
    ).stdout
    assert " toy " in listed


def test_service_is_present_in_compose_and_kubernetes(tree):
    """With its secrets, its image and its place in the policies."""
    compose = yaml.safe_load((tree.folder / "docker-compose.yml").read_text())
    assert compose["services"]["toy"]["image"].startswith("searchbus/toy:")
    assert "keys-toy" in compose["volumes"]
    assert "keys-toy:/keys/toy" in compose["services"]["keys"]["volumes"]
    manifests = yaml.safe_load_all((tree.folder / GENERATED[1]).read_text())
    kinds = {found["kind"] for found in manifests if found["metadata"]["name"] == "toy"}
    assert {"Deployment", "Service", "ServiceAccount"} <= kinds


@pytest.fixture(scope="module")
def secured(tree, tmp_path_factory) -> Iterator[Stack]:
    """The toy service, the toy tool and a service that is not installed, on an older data folder."""
    tree.add_tool()
    tree.install_service()
    folder = tmp_path_factory.mktemp("stack")
    (folder / "parrot.py").write_text(PARROT)
    Security.open(folder / "data", bus_users())
    stack = Stack(
        folder / "data",
        ("--secure", "--service", "parrot=parrot"),
        {**tree.environment, "SEARCHBUS_EMBEDDER": "hash"},
        folder,
    )
    stack.start()
    yield stack
    stack.stop()


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("roll", ["dice=3"], {"total": 12}),
        ("parrot_roll", ["dice=2"], {"total": 8}),
        ("reverse", ["text=abc"], "cba"),
    ],
)
def test_their_tools_are_called_on_a_secured_stack(secured, tool, arguments, expected):
    """Their keys were made although the data folder had keys already; nothing was refused."""
    done = secured.command("tools", "call", tool, *arguments)
    assert done.returncode == 0, done.stderr + secured.log
    printed = done.stdout.strip()
    assert (printed if isinstance(expected, str) else json.loads(printed)) == expected
    assert "permissions violation" not in secured.log.lower()


def test_old_keys_stayed_and_new_ones_were_added(secured):
    """A key that was minted again would lock out a process that still has the old one."""
    keys = json.loads((secured.data / "secure" / "keys.json").read_text())
    assert {*bus_users(), "toy", "parrot"} == set(keys["seeds"])
    assert {"toy", "parrot"} <= set(secured.state["processes"])
