"""Servers in containers where a Docker engine runs; else the wheel's server, with the reason printed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from . import engine


@pytest.fixture(scope="session")
def docker_engine() -> None:
    """Skips where no container can be had."""
    why_not = engine.why_no_engine()
    if why_not:
        pytest.skip(why_not)


@pytest.fixture(scope="session")
def images(docker_engine) -> dict[str, str]:
    """The image of every service and of the command line, built from this tree."""
    _, why_not = engine.base_image()
    if why_not:
        pytest.skip(f"no base image: {why_not}")
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(engine.IMAGES, pool.map(engine.build, engine.IMAGES), strict=True))


def in_container(why_not_here: str | None) -> bool:
    """Say what the tests use, and whether it is a container."""
    if why_not_here:
        print(f"no containers, the wheel's nats-server instead: {why_not_here}")
    return why_not_here is None


@pytest.fixture(scope="session")
def nats_kind(request) -> str:
    """ "container" or "wheel"."""
    why_not = engine.why_no_engine() or engine.nats_image()[1]
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return "container" if in_container(why_not) else "wheel"


@pytest.fixture(scope="session", autouse=True)
def without_ryuk() -> Iterator[None]:
    """testcontainers' reaper is an image to pull; the fixtures clean up by themselves."""
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    yield
