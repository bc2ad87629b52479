"""The behaviour suite of the document store against a Qdrant server in a container."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import yaml

from . import engine
from .engine import ROOT


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_store_behaves_the_same_on_a_real_server(docker_engine):
    """What holds for the embedded engine holds for the image that Compose runs."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    image = compose["services"]["qdrant"]["image"].removeprefix("${QDRANT_IMAGE:-").rstrip("}")
    if not engine.present(image):
        pytest.skip(f"{image} cannot be pulled; the suite held the embedded engine alone")
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import HttpWaitStrategy

    container = DockerContainer(image).with_exposed_ports(6333)
    with container.waiting_for(HttpWaitStrategy(6333, "/readyz")):
        url = f"http://127.0.0.1:{container.get_exposed_port(6333)}"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "libs/vectors/tests/test_store.py", "-k", "server"],
            env={**os.environ, "QDRANT_URL": url}, capture_output=True, text=True, timeout=300,
            cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:]
