"""The Docker engine of this machine, where it has one, and images made on it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from searchbus_runtime.services import installed_services

ROOT = Path(__file__).parents[2]
SERVICES = tuple(installed_services())
IMAGES = (*SERVICES, "cli")
"""The command line has an image of its own."""
PYTHON_IMAGE = "python:3.11-slim"
NATS_IMAGE = "nats:2.15-alpine"
BALANCER_IMAGE = "haproxy:3.2-alpine"
OFFLINE = ("searchbus/base:offline", "searchbus/nats:offline", "searchbus/balancer:offline")


def docker(*arguments: str, timeout_s: float = 120, check: bool = True) -> str:
    """Run a docker command; its output."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, cwd=ROOT,
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
    )  # fmt: skip
    if check and done.returncode:
        raise RuntimeError(f"docker {arguments[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return (done.stdout + ("" if check else done.stderr)).strip()


@functools.cache
def why_no_engine() -> str | None:
    """Why containers cannot be had; None where they can."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    try:
        docker("info", "--format", "{{.ServerVersion}}", timeout_s=20)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return f"no Docker engine answers ({str(error)[-120:]})"
    return None


def present(image: str) -> bool:
    """Whether an image is here, or can be pulled."""
    if docker("image", "ls", "-q", image, check=False):
        return True
    try:
        docker("pull", "-q", image, timeout_s=240)
    except (RuntimeError, subprocess.TimeoutExpired):
        return False
    return True


@functools.cache
def offline_images() -> str | None:
    """Make the base and the NATS image without a registry; why not, where that fails."""
    try:
        done = subprocess.run(
            [ROOT / "deploy" / "offline" / "images"], capture_output=True, text=True, timeout=600,
            env={**os.environ, "DOCKER_BUILDKIT": "0"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "deploy/offline/images took over 600 s"
    return f"deploy/offline/images: {done.stderr[-300:]}" if done.returncode else None


@functools.cache
def base_image() -> tuple[str, str | None]:
    """The image to build on, and why there is none."""
    if present(PYTHON_IMAGE):
        return PYTHON_IMAGE, None
    return OFFLINE[0], offline_images()


@functools.cache
def nats_image() -> tuple[str, str | None]:
    """The image of the NATS server, and why there is none."""
    if present(NATS_IMAGE):
        return NATS_IMAGE, None
    return OFFLINE[1], offline_images()


@functools.cache
def balancer_image() -> tuple[str, str | None]:
    """The image of the balancer before several edges, and why there is none."""
    if present(BALANCER_IMAGE):
        return BALANCER_IMAGE, None
    why_not = offline_images()
    if why_not is None and not docker("image", "ls", "-q", OFFLINE[2]):
        why_not = "no registry answers, and haproxy is not installed"
    return OFFLINE[2], why_not


@functools.cache
def build(service: str, tag: str = "test") -> str:
    """The image of a service, made from this tree."""
    base, why_not = base_image()
    if why_not:
        raise RuntimeError(why_not)
    name = f"searchbus/{service}:{tag}"
    docker(
        "build", "-f", "services/Dockerfile", "--build-arg", f"BASE={base}",
        # The engine of a test may not reach Debian's packages.
        "--build-arg", "CHROMIUM=", "--build-arg", f"SERVICE={service}", "-t", name, ".", timeout_s=900,
    )  # fmt: skip
    return name


def compose_command() -> list[str] | None:
    """How Compose is called here; None where it is not installed."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        return ["docker", "compose"]
    beside = Path(sys.executable).with_name("docker-compose")
    return [str(beside)] if beside.is_file() else None


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    """Wait until a condition holds."""
    give_up_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_s, f"{what}: not within {timeout_s:.0f} s"
        time.sleep(0.2)
