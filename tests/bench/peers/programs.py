"""Servers in other languages, built into build/peers from one source file each.

    command = program("rmcp.rs")     # ("build/peers/rmcp/target/release/rmcp",)

The second line or so of a source has its packages: `// pinned: NAME@VERSION[FEATURE,…] …`. A source
that changes is built again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from searchbus_testing.folders import locked

from ..progress import progress
from .environments import FOLDER, NotInstalledError

SERVERS = Path(__file__).parent / "servers"
_PIN = re.compile(r"(?P<name>\S+)@(?P<version>[^\s\[]+)(?:\[(?P<features>\S+)\])?")
_TIMEOUT_S = 900.0
"""Of one step; what takes longer is skipped, and goes on from there in the next run."""
_CARGO = FOLDER / "cargo"
"""What cargo has built so far: a build that is interrupted goes on there."""
_Build = tuple[dict[str, str], list[list[str]], tuple[str, ...]]
"""Files to write, commands to run beside them, and the command that starts the server."""


def pins(source: str) -> list[tuple[str, str, list[str]]]:
    """Name, version and features of each package of a source."""
    line = re.search(r"^// pinned: (.+)$", source, re.M)
    return [
        (pin["name"], pin["version"], (pin["features"] or "").split(",") if pin["features"] else [])
        for pin in _PIN.finditer(line[1] if line else "")
    ]


def program(file: str) -> tuple[str, ...]:
    """The command that runs a server, which is built when it is absent or has changed.

    Raises:
        NotInstalledError: its tools are absent, or packages cannot be fetched.
    """
    source = SERVERS / file
    folder = FOLDER / source.stem
    stamp = folder / "built" / source.name
    files, commands, started = {".rs": _rust, ".go": _go, ".mjs": _node}[source.suffix](source)
    with locked(FOLDER / f"{source.stem}.lock"):
        if not stamp.exists() or stamp.read_bytes() != source.read_bytes():
            progress(f"peers: building {file}")
            shutil.rmtree(folder, ignore_errors=True)
            stamp.parent.mkdir(parents=True)
            shutil.copy(source, folder)
            for name, text in files.items():
                (folder / name).write_text(text)
            for command in commands:
                _run(source.stem, command, folder)
            shutil.copy(source, stamp)  # last: a build that failed is done again
    return tuple(part.replace("FOLDER", str(folder)) for part in started)


def crate(name: str, version: str, *arguments: str) -> str:
    """The program of a crate.

    Raises:
        NotInstalledError: as above.
    """
    found = FOLDER / name / version / "bin" / name
    if not found.exists():
        progress(f"peers: building {name} {version}")
        root = str(found.parents[1])
        _run(name, ["cargo", "install", "--quiet", "--locked", f"--version=={version}",
                    f"--root={root}", *arguments, name])  # fmt: skip
    return str(found)


def _rust(source: Path) -> _Build:
    name = source.stem
    manifest = f"""[package]\nname = "{name}"\nversion = "0.0.0"\nedition = "2024"
[[bin]]\nname = "{name}"\npath = "{source.name}"\n[dependencies]\n"""
    for package, version, features in pins(source.read_text()):
        manifest += f'{package} = {{ version = "={version}", features = {json.dumps(features)} }}\n'
    return (
        {"Cargo.toml": manifest},
        [["cargo", "build", "--quiet", "--release"]],
        (f"{_CARGO}/release/{name}",),
    )


def _go(source: Path) -> _Build:
    packages = [f"{name}@{version}" for name, version, _ in pins(source.read_text())]
    steps = (["mod", "init", "peer"], ["get", *packages], ["mod", "tidy"],
             ["build", "-o", source.stem, "."])  # fmt: skip
    return {}, [["go", *step] for step in steps], (f"FOLDER/{source.stem}",)


def _node(source: Path) -> _Build:
    packages = [f"{name}@{version}" for name, version, _ in pins(source.read_text())]
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", *packages]
    return {"package.json": '{"private": true}'}, [install], ("node", f"FOLDER/{source.name}")


def _run(name: str, command: Sequence[str], folder: Path | None = None) -> None:
    """Run a tool."""
    try:
        subprocess.run(
            command, cwd=folder, env={**os.environ, "CARGO_TARGET_DIR": str(_CARGO)},
            check=True, capture_output=True, text=True, timeout=_TIMEOUT_S,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise NotInstalledError(f"{name} needs {command[0]}: install it") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise NotInstalledError(f"{name} could not be built: {lines[-1]}") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"{name} was not built within {_TIMEOUT_S:.0f} s") from error
