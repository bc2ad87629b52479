"""Whole stacks: one for every test that only reads or adds, and more for those that kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from searchbus_testing import Stack

from .conformance.npm import install_node

ROOT = Path(__file__).parents[1]
HASH = {"SEARCHBUS_EMBEDDER": "hash"}
"""Vectors without a model, for stacks where embedding is not the point."""


Start = Callable[..., Stack]


@contextmanager
def starting() -> Iterator[Start]:
    """Starts stacks; those that still run at the end are stopped together."""
    stacks: list[Stack] = []

    def start(data: Path, *arguments: object, wait: bool = True, **environment: str) -> Stack:
        stack = Stack(data, arguments, {**HASH, **environment}, folder=ROOT)
        stacks.append(stack)
        stack.start(wait=wait)
        return stack

    yield start
    with ThreadPoolExecutor() as pool:
        list(pool.map(Stack.stop, stacks))


@pytest.fixture(scope="module")
def start_stack() -> Iterator[Start]:
    """Start a stack: `start_stack(folder, "--scale", "ddg=2", SEARCHBUS_LOG_LEVEL="debug")`.

    It ends with the module's last test: one that idles takes time from all others.
    """
    with starting() as start:
        yield start


@pytest.fixture(scope="session")
def node() -> Path:
    """Node 22 with the conformance suite and the Inspector, from npm."""
    return install_node()


@pytest.fixture(scope="session")
def stack(tmp_path_factory) -> Iterator[Stack]:
    """The stack of the session, with the real model, replicas and an internet on loopback.

    Tests may read it and add to it under names of their own; what they kill must come back.
    """
    with starting() as start:
        yield start(
            tmp_path_factory.mktemp("stack"),
            "--fake-upstreams", "--scale", "ddg=3", "--scale", "toolindex=2",
            SEARCHBUS_EMBEDDER="model",
        )  # fmt: skip
