"""Environments of peers."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import environments
from .environments import NotInstalledError, environment, versions

PEERS = ("contextforge", "fastmcp", "mcp")


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pins of the peer `none`; there is no package index."""
    monkeypatch.setattr(environments, "FOLDER", tmp_path / "environments")
    monkeypatch.setattr(environments, "_PINS", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    return tmp_path / "none.txt"


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_says_why(pins: Path) -> None:
    pins.write_text("no-such-package==1.0\n")
    with pytest.raises(NotInstalledError, match=r"none could not be installed: .*no-such-package"):
        environment("none")


@pytest.mark.slow
def test_an_environment_is_made_once_for_the_same_pins(pins: Path) -> None:
    pins.write_text("# nothing\n")
    python = environment("none")
    made = python.parent.stat().st_mtime_ns
    assert (python, made) == (environment("none"), python.parent.stat().st_mtime_ns)


@pytest.mark.parametrize("peer", PEERS)
def test_every_package_is_pinned(peer: str) -> None:
    """No line names an address or leaves the version open."""
    lines = (Path(environments.__file__).parent / f"{peer}.txt").read_text().splitlines()
    packages = [line for line in lines if line and not line.startswith("#")]
    assert len(versions(peer)) == len(packages)
    assert not any("/" in line or " " in line for line in packages)
