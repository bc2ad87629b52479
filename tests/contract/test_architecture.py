"""Checks the dependency rule by reading every import of the packages."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from searchbus_contracts.services import Service
from searchbus_runtime.services import bus_users

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(path.parent for path in ROOT.glob("*/*/pyproject.toml"))
SERVICES = [path for path in PROJECTS if path.parent.name == "services"]

LAYERS = {
    "searchbus_contracts": set(),
    "searchbus_bus": {"searchbus_contracts"},
    "searchbus_runtime": {"searchbus_contracts", "searchbus_bus"},
    "searchbus_vectors": set(),
    "searchbus_pages": set(),
    "searchbus_passages": set(),
    "searchbus_upstream": {"searchbus_contracts", "searchbus_bus"},
    "searchbus_cli": {"searchbus_contracts", "searchbus_bus", "searchbus_runtime"},
}
SERVICE_MAY = {*LAYERS} - {"searchbus_cli"}
# Clients: they extend the command line, and no service may import them.
LAYERS["searchbus_ingest"] = {
    "searchbus_contracts",
    "searchbus_bus",
    "searchbus_runtime",
    "searchbus_cli",
    "searchbus_pages",
    "searchbus_passages",
    "searchbus_upstream",
}
# It measures the tool index in its own process.
LAYERS["searchbus_evaluation"] = {*LAYERS, "searchbus_toolindex"} - {"searchbus_ingest"}
# It plays the internet; a stack starts it as a program.
LAYERS["searchbus_fakes"] = {"searchbus_contracts", "searchbus_bus", "searchbus_runtime"}
# For tests only: it may use everything, and no other package may use it.
LAYERS["searchbus_testing"] = {*LAYERS}
OWNERS = {
    "nats": {"searchbus_bus"},
    "mcp": {"searchbus_edge", "searchbus_attach"},
    "mcp_types": {"searchbus_edge", "searchbus_attach"},
    "fastapi": {"searchbus_edge"},
    "opentelemetry.sdk": {"searchbus_runtime"},
    "opentelemetry.exporter": {"searchbus_runtime"},
    "qdrant_client": {"searchbus_vectors"},
    "qdrant_edge": {"searchbus_vectors"},
    "fastembed": {"searchbus_vectors"},
    "onnxruntime": {"searchbus_vectors"},
    "usearch": {"searchbus_vectors"},
}
DISTRIBUTIONS = {
    "nats-py": "nats",
    "mcp": "mcp",
    "fastapi": "fastapi",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "qdrant-client": "qdrant_client",
    "qdrant-edge-py": "qdrant_edge",
    "fastembed": "fastembed",
    "usearch": "usearch",
}


def package_of(project: Path) -> str:
    return next(path.name for path in (project / "src").iterdir() if path.is_dir())


def imports(project: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted((project / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield path, node.module or ""


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_imports_follow_the_dependency_rule(project: Path):
    """contracts ← bus ← runtime ← services; one owner for each big library."""
    package = package_of(project)
    may = LAYERS.get(package, SERVICE_MAY)
    faults = []
    for path, name in imports(project):
        top = name.split(".")[0]
        if top.startswith("searchbus_") and top != package and top not in may:
            faults.append(f"{path.relative_to(ROOT)} imports {name}")
        for library, owners in OWNERS.items():
            if (name == library or name.startswith(f"{library}.")) and package not in owners:
                faults.append(f"{path.relative_to(ROOT)} imports {name}")
    assert faults == []


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_declared_dependencies_follow_the_rule_too(project: Path):
    """What a package declares is what it may import, so that each installs alone."""
    package = package_of(project)
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.match(r"[A-Za-z0-9._-]+", text)[0] for text in declared}  # type: ignore[index]
    own = {name.replace("-", "_") for name in names if name.startswith("searchbus-")}
    assert own <= LAYERS.get(package, SERVICE_MAY)
    for distribution, library in DISTRIBUTIONS.items():
        if distribution in names:
            assert package in OWNERS[library], f"{package} declares {distribution}"


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_package_declares_what_it_imports_of_searchbus(project: Path):
    """An import of another searchbus package is covered by the declared ones."""
    package = package_of(project)
    declared = (project / "pyproject.toml").read_text()
    closure = {name.replace("-", "_") for name in re.findall(r'"(searchbus-\w+)"', declared)}
    for name in list(closure):
        closure |= LAYERS.get(name, set())
    used = {name.split(".")[0] for _, name in imports(project) if name.startswith("searchbus_")} - {
        package
    }
    assert used <= closure


def test_no_process_of_ours_imports_from_its_working_folder():
    """There lies what others sent, or a project that a host has opened. Sources start Python by
    `python`, or isolated; images say it for every start."""
    starts = re.compile(r'(?<!Path\()\bsys\.executable(?!,\s*"-[IP]")|\[\s*"python3?"')
    found = [
        f"{path.relative_to(ROOT)}: {start[0]}"
        for path in ROOT.glob("*/*/src/**/*.py")
        for start in starts.finditer(path.read_text())
    ]
    assert found == []
    image = (ROOT / "services" / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    assert re.search(r"^ENV PYTHONPATH=/app PYTHONSAFEPATH=1 ", image, re.M)


def test_makefile_is_at_most_60_lines():
    """The Makefile stays a short list of targets."""
    assert len((ROOT / "Makefile").read_text().splitlines()) <= 60


def test_no_commit_names_a_registry():
    """Locks and scripts hold no index address, so that any mirror serves."""
    hosts = "|".join(
        ["py" + r"pi\.org", "python" + "hosted", "registry" + r"\.npm", "deb" + r"\.debian"]
    )
    found = subprocess.run(
        ["git", "grep", "-nIE", hosts, "--", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert found.stdout == ""


def test_locks_are_hashed():
    """Every requirement of every lock has a hash."""
    for path in (ROOT / "requirements").glob("*.txt"):
        for block in re.split(r"\n(?=[a-z0-9])", path.read_text().strip()):
            assert "--hash=sha256:" in block, f"{path.name}: {block.splitlines()[0]}"


@pytest.mark.parametrize("service", ["retrieval", "toolindex"])
def test_images_of_services_hold_nothing_that_only_a_client_needs(service: str):
    """What reads documents and what prints tables is in the image `cli`."""
    locked = set(
        re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / f"{service}.txt").read_text(), re.M)
    )
    assert "msgspec" in locked
    assert not locked & {"rich", "typer", "selectolax", "pypdfium2"}
    client = (ROOT / "requirements" / "cli.txt").read_text()
    assert not re.search(r"^(fastembed|onnxruntime|qdrant-client|mcp)==", client, re.M)


@pytest.mark.parametrize("project", SERVICES, ids=lambda path: path.name)
def test_buckets_are_declared(project):
    """A service declares the buckets that its code opens, and no others: what may reach them is
    tried by these names."""
    opened: set[str] = set()
    for path in project.glob("src/**/*.py"):
        tree = ast.parse(path.read_text())
        texts = {
            target.id: value.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target, value in _pairs(node.targets[0], node.value)
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant)
        }
        opened |= {str(texts[name]) for name in texts if name in ("BUCKET", "_BUCKET")}
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Attribute(attr="key_value"), [ast.Constant(str(name)), *_]):
                    opened.add(name)
                case ast.Call(ast.Attribute(attr="over"), [_, ast.Constant(str(name)), *_]):
                    opened |= {f"{name}_answers", f"{name}_fetches"}
    assert opened == set(_service(project).buckets)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _service(project: Path) -> Service:
    (found,) = (s for s in bus_users().values() if s.start.startswith(f"searchbus_{project.name}."))
    return found
