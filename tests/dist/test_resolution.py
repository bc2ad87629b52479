"""What the wheel needs exists, as wheels, for every system and Python that the documentation names."""

from __future__ import annotations

import os
import subprocess

import pytest

pytestmark = pytest.mark.slow
SYSTEMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
FROM_SOURCE = ("nkeys",)
"""Pure Python, without a wheel in the registry."""


@pytest.fixture(scope="session")
def resolve(installers, tmp_path_factory):
    """Calls uv; returns what it chose."""
    cache = tmp_path_factory.mktemp("cache")

    def call(requirement: str, system: str, python: str) -> str:
        command = [
            installers / "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate",
            "--python-platform", system, "--python-version", python,
            "--only-binary", ":all:", *(f"--no-binary={name}" for name in FROM_SOURCE), "-",
        ]  # fmt: skip
        done = subprocess.run(
            command, input=requirement, capture_output=True, text=True,
            # docs/platforms.md names macOS 14 as the oldest.
            env=os.environ | {"UV_CACHE_DIR": str(cache), "MACOSX_DEPLOYMENT_TARGET": "14.0"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_package_has_a_wheel(resolve, wheel, system, python):
    """No compiler is needed."""
    chosen = resolve(f"searchbus @ {wheel.as_uri()}", system, python)
    names = {line.partition("==")[0] for line in chosen.splitlines()}
    assert {"mcp", "nats-py", "onnxruntime"} < names


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("extra", ["multilingual", "impersonate"])
def test_every_extra_has_a_wheel_on_linux(resolve, wheel, extra, python):
    """docs/guides/install.md names both."""
    without = resolve(f"searchbus @ {wheel.as_uri()}", SYSTEMS[0], python)
    chosen = resolve(f"searchbus[{extra}] @ {wheel.as_uri()}", SYSTEMS[0], python)
    assert set(chosen.splitlines()) > set(without.splitlines())
