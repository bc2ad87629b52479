"""A browser, and an edge whose services are hostile, in this process."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from searchbus_bus import MemoryBroker, Worker
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import Edge, open_edge
from searchbus_edge.interfaces.console.access import console_token
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer
from searchbus_testing import known
from searchbus_testing.folders import locked

from .hostile import Thing, attached_worker, documents_worker, hostile_worker, parts

ROOT = Path(__file__).parents[2]
AXE_VERSION = "4.11.0"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
KEY = "k" * 40
_NOTE_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation",
  (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser; the test is skipped without one."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("the browser chromium is not installed: apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which npm puts into build/axe once."""
    found = ROOT / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
    if shutil.which("npm") is None:
        pytest.skip("axe-core needs npm")
    with locked(ROOT / "build" / "axe.lock"):
        if not found.exists():
            found.parents[2].mkdir(parents=True, exist_ok=True)
            command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"]
            command += ["--prefix", str(found.parents[2]), f"axe-core@{AXE_VERSION}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode and not os.environ.get("CI"):
                pytest.skip(f"axe-core cannot be installed: {done.stderr[-300:]}")
            assert done.returncode == 0, done.stderr
    return found.read_text()


@dataclass
class Visit:
    """A tab at the console, which notes what must not happen."""

    page: Any
    url: str
    foreign: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        """Show a page, and wait for its heading."""
        await self.page.evaluate("path => { location.hash = path; }", f"#/{path}")
        await self.page.wait_for_selector(f".page.{path.split('/')[0].split('?')[0]} h1")

    async def check(self) -> None:
        """Assert that nothing ran, nothing was blocked, and no other host was asked."""
        assert await self.page.evaluate("window.violations") == []
        assert await self.page.evaluate("window.hit") is None
        assert await self.page.locator("main img, main script, main iframe").count() == 0
        assert self.foreign == []
        assert self.errors == []

    async def accessible(self, axe: str, *rules: str) -> None:
        """Assert that axe-core finds nothing, by these rules or by all."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(axe)
        found = await self.page.evaluate(
            "async (only) => (await axe.run(document, {runOnly: only})).violations.map(v => [v.id, "
            "v.nodes.map(n => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? '')).slice(0, 3)])",
            [*rules] or ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
        )
        assert found == [], json.dumps(found, indent=1)


@dataclass
class Console:
    """A running edge with its console."""

    edge: Edge
    url: str
    token: str
    broker: MemoryBroker


@pytest.fixture
async def serve_console(tmp_path) -> AsyncIterator[Any]:
    """Starts an edge with hostile services, or with the workers that are given."""
    thing = Thing()
    parts.watch(thing)
    async with AsyncExitStack() as stack:

        async def start(workers: Sequence[Worker] = (), **settings: Any) -> Console:
            broker = MemoryBroker()
            served = workers or (hostile_worker(), documents_worker(), attached_worker())
            for worker in served:
                await broker.connect(name=worker.service).serve(worker)
            given = EdgeSettings(data_dir=tmp_path, state_key=KEY, **settings)
            edge = await stack.enter_async_context(open_edge(broker.connect(name="edge"), given))
            await edge.bus.serve(edge.connector)
            await known(edge.directory, "connector", *(worker.service for worker in served))
            server = await HttpServer.start(build_app(edge, Health()))
            stack.push_async_callback(server.stop)
            stack.callback(edge.console.close if edge.console else lambda: None)
            return Console(edge, server.url, console_token(KEY.encode()), broker)

        yield start


@pytest.fixture
async def visit(chromium) -> AsyncIterator[Any]:
    """Opens a tab at a console: `await visit(console.url, console.token, width=390)`."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=ARGUMENTS, timeout=120_000
        )

        async def open_tab(url: str, token: str = "", *, width: int = 1280) -> Visit:
            context = await browser.new_context(
                viewport={"width": width, "height": 900},
                service_workers="block",
            )
            await context.add_init_script(_NOTE_VIOLATIONS)
            page = await context.new_page()
            page.set_default_timeout(60_000)
            found = Visit(page, url)

            def note(request: Any) -> None:
                if not request.url.startswith((url, "data:")):
                    found.foreign.append(request.url)

            page.on("request", note)
            page.on("pageerror", lambda error: found.errors.append(str(error)))
            await page.goto(f"{url}/console" + (f"#token={token}" if token else ""))
            return found

        yield open_tab
        await asyncio.wait_for(browser.close(), 60)
