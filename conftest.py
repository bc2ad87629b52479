"""Fixtures that every test may use: a real nats-server on a free port, the reference data."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import certifi
import pytest
import uvicorn.server
from hypothesis import settings

from searchbus_testing import NatsServer, watch_this_process

TOGETHER = {
    "tests/e2e/": "one stack",
    "tests/integration/test_bus_in_containers.py": "images",
    "tests/integration/test_compose.py": "images",
    "tests/integration/test_images.py": "images",
    "tests/integration/test_store_in_containers.py": "images",
}
"""Start of a path → what its tests share, which one process makes once."""
BY_FILE = tuple(f"tests/e2e/test_{name}.py" for name in ("attach", "documentation", "down", "init"))
"""They start stacks of their own."""
APART = (
    "services/attach/tests/test_neighbours.py",
    "services/browser/tests/test_rendering.py",
    "tests/chaos/test_rows.py",
    "tests/console/test_pages.py",
    "tests/processes/test_backup.py",
    "tests/processes/test_wrong_settings.py",
    "tests/security/test_memory.py",
    "tests/simulation/",
)
"""Starts of paths whose tests share nothing, and take long one after the other."""
FIRST = (
    *(start for start, what in TOGETHER.items() if what == "images"),
    "tests/e2e/",
    "tests/integration/test_release.py",
    "tests/dist/test_installers.py",
)
"""Starts of paths whose tests take longest together: they begin before all others."""
REFERENCE = Path(__file__).resolve().parent.parent / "shared"

# Replies are checked against their types, field by field; processes that tests start do it too.
os.environ["SEARCHBUS_CHECK_REPLIES"] = "1"
# Tables of commands are not wrapped, neither here nor in processes.
os.environ["COLUMNS"] = "200"
# As the launcher does for services: the threads of four processes would wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Compiled tests and modules are kept, whatever the shell says: four processes of tests, and the
# hundreds that they start, would each compile them again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Every client of httpx would read the certificates of public authorities again, which takes as long
# as a test. No test reaches a server that has one of theirs.
_make_context = ssl.create_default_context
_authorities = {os.environ.get("SSL_CERT_FILE"), certifi.where()}
_made: dict[str, ssl.SSLContext] = {}


def _default_context(*arguments: Any, **options: Any) -> ssl.SSLContext:
    file = options.get("cafile")
    if arguments or options.keys() != {"cafile"} or file not in _authorities:
        return _make_context(*arguments, **options)
    if file not in _made:
        _made[file] = _make_context(cafile=file)
    return _made[file]


ssl.create_default_context = _default_context
# httpcore looks for it on the whole path with every request, see searchbus_upstream.http.
sys.modules.setdefault("sniffio", None)
# uvicorn waits a tenth of a second for the ends of connections before it looks for the first time,
# and a thousand tests stop a server.
_uvicorn_asyncio = SimpleNamespace(**vars(asyncio))
_uvicorn_asyncio.sleep = lambda delay_s: asyncio.sleep(min(delay_s, 0.005))
uvicorn.server.asyncio = _uvicorn_asyncio
# No example of a property has a time limit: machines and their load differ.
settings.register_profile("searchbus", deadline=None)
settings.load_profile("searchbus")


def pytest_sessionstart() -> None:
    """Leave no process behind, however this one ends."""
    watch_this_process()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests that share something in one worker of pytest-xdist; else those of a file.

    Its own `--dist loadgroup` has no effect with this pytest, which keeps node ids elsewhere.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.split("::", 1)[0]
            if path.startswith(APART):
                return nodeid
            shared = (what for start, what in TOGETHER.items() if path.startswith(start))
            return path if path in BY_FILE else next(shared, path)

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage meanwhile, which takes a quarter of the time: ten thousand tests stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest; leave out the tests over reference data where there is none.

    The latter are extra: others test the same code with invented data. In CI they must run.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    if REFERENCE.is_dir() or os.environ.get("CI"):
        return
    extra = [item for item in items if "reference" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=extra)
    left_out = set(extra)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Keep what is loaded by now out of every later collection, as the services do.

    With the modules of a thousand tests a full collection stops the loop for a tenth of a second.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    """Let go of the edge that a test opened.

    FastAPI keeps the functions of the last 4,096 routes, and with them every edge: each later test
    would look through all their tasks when its loop ends.
    """
    if models := sys.modules.get("fastapi.dependencies.models"):
        for kind in ("gen", "async_gen", "coroutine"):
            getattr(models, f"_is_{kind}_callable_cached").cache_clear()


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One server for the whole session; tests keep apart by their subject prefix."""
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_nats_server(tmp_path: Path) -> Iterator[Callable[..., NatsServer]]:
    """Start servers that a test may kill or configure: `own_nats_server("-js")`."""
    servers: list[NatsServer] = []

    def start(*arguments: str) -> NatsServer:
        folder = tmp_path / f"nats{len(servers)}"
        folder.mkdir()
        server = NatsServer(folder, arguments=arguments)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of reference data beside the checkout, for tests that are extra to the others.

    These tests are left out where the folder is absent, but fail in CI, where it must be present.
    """
    assert REFERENCE.is_dir(), f"reference data is missing at {REFERENCE}"
    return REFERENCE
