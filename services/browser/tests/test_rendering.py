"""Pages in a real Chromium: what their scripts write, and what hostile ones cost."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import psutil
import pytest
import uvloop

from searchbus_browser import chromium as browsers
from searchbus_browser import places, rendering
from searchbus_contracts import ErrorCode, Fault, decode, encode
from searchbus_contracts.web import RenderReply, RenderRequest
from searchbus_runtime.parent import adopt_orphans

from .conftest import URL, Pages, renderer

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch, tmp_path_factory):
    """No process and no profile outlives its page."""
    tmp_path_factory.getbasetemp()  # not in the folder below
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        assert list(Path(folder).iterdir()) == []
        assert [p for p in Path("/proc").glob("[0-9]*") if _is_of(p, Path(folder))] == []


def _is_of(entry: Path, folder: Path) -> bool:
    try:
        return str(folder).encode() in (entry / "cmdline").read_bytes() and (
            int(entry.name) != os.getpid()
        )
    except OSError:
        return False


async def failure(render: Pages, body: str) -> str:
    with pytest.raises(Fault) as caught:
        await render(body)
    assert caught.value.code == ErrorCode.UPSTREAM_FAILED
    return caught.value.failure.message


async def test_text_that_scripts_load_and_write(render, web):
    """With data of another host of the web, a page that says so itself, and a module."""
    web.script("/app.js", "import {t} from './t.js'; fetch('http://api.example.org/data')"
               ".then(r => r.json()).then(d => { document.title = d.t + t;"
               " document.body.innerHTML = `<h1>${d.t}</h1>`;"
               " history.pushState({}, '', '/whales'); })")  # fmt: skip
    web.script("/t.js", "export const t = '!'")
    web.answers["/data"] = ("200 OK\r\nContent-Type: application/json", '{"t": "Wale \u2013 hier"}')
    reply = await render("<title>x</title><script type=module src=/app.js></script>")
    assert "<h1>Wale \u2013 hier</h1>" in reply.html
    assert "<title>Wale \u2013 hier!</title>" in reply.html
    assert (reply.url, reply.cut, reply.moved_to) == ("http://site.example.org/whales", "", "")
    assert "GET /page HTTP/1.1" not in web.requests


async def test_images_fonts_media_and_frames_are_not_loaded(render, web):
    web.script("/last.js", "document.body.append('done')")
    reply = await render(
        "<style>@font-face {font-family: f; src: url(/font)} p {font-family: f;"
        "background: url(/back)}</style><p>x</p><img src=/image><video src=/video autoplay></video>"
        "<iframe src=/frame></iframe><iframe srcdoc='<script src=/inner.js></script>'></iframe>"
        "<object data=/object></object><link rel=icon href=/icon><link rel=prefetch href=/ahead>"
        '<script type=speculationrules>{"prefetch": [{"urls": ["/s1"], "eagerness": "immediate"}],'
        '"prerender": [{"urls": ["/s2"], "eagerness": "immediate"}]}</script>'
        "<script>navigator.sendBeacon('/beacon'); new Image().src = '/pixel'</script>"
        "<script src=/last.js></script>"
    )
    assert "done" in reply.html
    assert set(web.requests) <= {"GET /last.js HTTP/1.1", "GET /inner.js HTTP/1.1"}


@pytest.mark.parametrize(
    "script",
    ["location = '/next?1'", "location.replace('/next?1')", "document.querySelector('a').click()",
     "setTimeout(() => document.forms[0].submit())"],
)  # fmt: skip
async def test_an_address_that_scripts_lead_to_is_returned_and_not_fetched(render, web, script):
    reply = await render(
        f"<a href='/next?1'>x</a><form action=/next><input name=1></form><script>{script}</script>"
    )
    assert reply.moved_to.startswith("http://site.example.org/next?1")
    assert reply.html == ""
    assert web.requests == []


@pytest.mark.parametrize("url", ["ws://site.example.org/x", "wss://site.example.org/x"])
async def test_an_address_that_is_no_page_leads_nowhere(render, web, url):
    reply = await render(f"<p>here<script>location = '{url}'</script>")
    assert ("<p>here" in reply.html, reply.moved_to) == (True, "")


async def test_half_of_a_surrogate_pair_does_not_cost_the_answer(render):
    reply = await render("<p>there<script>document.body.append('a\\ud800b')</script>")
    assert decode(encode(reply), RenderReply) == reply
    assert "a?b" in reply.html


async def test_a_page_that_loads_itself_again_and_one_that_sends_a_form_stay(render, web):
    for script in ("location.reload()", "location = location.href", "document.forms[0].submit()"):
        reply = await render(
            f"<form method=post action=/sent></form><p>here<script>onload = () => {script}</script>"
        )
        assert "<p>here" in reply.html
        assert reply.moved_to == ""
    assert web.requests == []


async def test_windows_dialogs_downloads_permissions_and_workers_open_nothing(render, web):
    reply = await render(
        "<body><script>alert('a'); if (!confirm('b') && prompt('c') === null) document.body.append("
        "'asked ');"
        "for (let i = 0; i < 20; i++) window.open('/window', '', i % 2 ? '' : 'noopener');"
        "const a = document.createElement('a'); a.href = 'data:text/plain,x'; a.download = 'x';"
        "a.click(); Notification.requestPermission().then(p => document.body.append(p + ' '));"
        "navigator.geolocation.getCurrentPosition(() => document.body.append('fou' + 'nd '));"
        "const work = new Blob(['postMessage(`wor` + `ks`)']);"
        "new Worker(URL.createObjectURL(work)).onmessage = m => document.body.append(m.data);"
        "new Worker('/worker.js')</script><script src=/last.js></script>"
    )
    assert "asked" in reply.html
    assert "granted" not in reply.html
    assert "found" not in reply.html
    assert "works" not in reply.html
    assert web.requests == ["GET /last.js HTTP/1.1"]


async def test_an_endless_script_costs_itself_only(chromium, web, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rendering, "_TAKE_S", 2.0)
        render = Pages(renderer(chromium, web, settle_s=1.0))
        assert "do not end" in await failure(render, "<script>while (true) {}</script>")
    assert "<p>next" in (await Pages(renderer(chromium, web))("<p>next")).html


async def test_a_page_that_never_stops_loading_is_taken_as_it_is(chromium, web):
    render = Pages(renderer(chromium, web, settle_s=10.0))
    reply = await render(
        "<p>there</p><script>setInterval(() => fetch('/again?' + Math.random()), 200)</script>"
    )
    assert "<p>there" in reply.html
    assert reply.cut in ("seconds", "requests")


@pytest.mark.parametrize(
    "script",
    [
        "const all = []; for (let i = 0; i < 400; i++) all.push(new Uint8Array(2**20).fill(i + 1))",
        "let all = []; for (;;) all.push(all.length + 'x'.repeat(100) + Math.random())",
        "const all = []; for (let i = 0; i < 80; i++)"
        " all.push(new Blob([new Uint8Array(5 * 2**20).fill(7)]))",
    ],
)
async def test_a_page_that_allocates_is_ended(chromium, web, script):
    """In arrays, in the heap of scripts, and in the browser's own process."""
    render = Pages(renderer(chromium, web, memory_bytes=320 * 2**20))
    await failure(render, f"<script>{script}; setInterval(() => fetch('/again'), 50)</script>")


async def test_a_giant_document_is_cut(render):
    reply = await render(
        "<body><script>const p = document.createElement('p'); p.textContent = 'x'.repeat(1000);"
        "for (let i = 0; i < 5000; i++) document.body.append(p.cloneNode(true))</script>"
    )
    assert reply.cut == "chars"
    assert len(reply.html) == rendering.MAX_HTML_CHARS


async def test_a_message_beyond_the_limit_ends_the_page(render, monkeypatch):
    monkeypatch.setattr(browsers, "MAX_MESSAGE_BYTES", 2**20)
    assert "too large" in await failure(render, "<script>fetch('/?' + 'x'.repeat(1.5e6))</script>")


async def test_requests_and_bytes_end(render, web, monkeypatch):
    monkeypatch.setattr(rendering, "MAX_REQUESTS", 5)
    reply = await render(
        "<p>there</p><script>for (let i = 0; i < 50; i++) fetch('/r?' + i)</script>"
    )
    assert (reply.cut, "<p>there" in reply.html) == ("requests", True)
    assert len(web.requests) <= 5
    monkeypatch.setattr(rendering, "MAX_BYTES", 100_000)
    web.script("/large.js", "//" + "x" * 1_000_000)
    reply = await render("<p>there</p><script src=/large.js></script>")
    assert (reply.cut, "<p>there" in reply.html) == ("bytes", True)


async def test_scripts_cannot_change_how_the_page_is_read(render):
    """What they put over the browser's own functions is not called."""
    reply = await render(
        "<p>true</p><script>Object.defineProperty(Element.prototype, 'outerHTML',"
        "{get() { return 'forged' }}); String.prototype.slice = () => 'forged'</script>"
    )
    assert "<p>true</p>" in reply.html


async def test_without_a_chromium_the_failure_says_what_to_do(web, tmp_path):
    with pytest.raises(Fault, match="the path of one") as caught:
        await Pages(renderer(None, web))("<p>")
    assert caught.value.code == ErrorCode.UNAVAILABLE
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho 'no sandbox' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(Fault, match="does not start") as caught:
        await Pages(renderer(program, web))("<p>")
    assert caught.value.code == ErrorCode.UNAVAILABLE


def test_a_chromium_that_ends_at_once_is_a_failure_on_the_loop_of_services_too(web, tmp_path):
    """uvloop raises where one writes to a pipe that is closed."""
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)

    async def run() -> None:
        with pytest.raises(Fault, match="does not start"):
            await Pages(renderer(program, web))("<p>")

    uvloop.run(run())


async def test_no_room_for_a_process_or_a_file_is_a_failure_too(web, monkeypatch):
    async def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with pytest.raises(Fault, match="does not start"):
        await Pages(renderer(Path("/bin/true"), web))("<p>")
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(Fault, match="does not start"):
        await Pages(renderer(Path("/bin/true"), web))("<p>")


@pytest.mark.parametrize("url", ["file:///etc/x.html", "chrome://version", "data:text/html,x"])
def test_only_pages_of_the_web_are_requests(url):
    """Scripts of a page at `file:` may read files."""
    request = RenderRequest(url=url, body=b"", content_type="text/html", user_agent="x")
    with pytest.raises(Fault, match="url"):
        decode(encode(request), RenderRequest)


async def test_a_page_that_its_callers_deadline_cuts_says_so(chromium, web):
    """Not that it never ends: with more time there may be more."""
    page = "<p>there</p><script>setInterval(() => fetch('/again'), 200)</script>"
    reply = await Pages(renderer(chromium, web))(page, timeout_s=30)
    assert ("<p>there" in reply.html, reply.cut) == (True, "deadline")


async def test_no_dead_process_stays_where_orphans_are_ours(render):
    """As the first process of a container, which thereby ran out of them after a hundred pages.
    Nor does one that lives: those that report crashes leave the session of their Chromium."""
    before = {process.pid for process in psutil.Process().children()}
    assert adopt_orphans(True)
    try:
        for _ in range(3):
            assert "<p>there" in (await render("<p>there")).html
    finally:
        adopt_orphans(False)
    assert {process.pid for process in psutil.Process().children()} <= before


class Turns:
    """Pages of callers, each of which ends when it is told to."""

    def __init__(self, web, monkeypatch, pages: int) -> None:
        self.started: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task] = {}
        self._renderer = renderer(Path("/bin/true"), web, pages=pages)

        async def run(_, chromium, request, end_s):
            name = request.body.decode()
            self.started.append(name)
            await self._ends[name].wait()
            return RenderReply()

        monkeypatch.setattr(rendering.Renderer, "_run", run)

    async def ask(self, *names: str) -> None:
        """Pages whose names begin with their caller's."""
        for name in names:
            self._ends[name] = asyncio.Event()
            page = Pages(self._renderer, name.split()[0])(name)
            self._tasks[name] = asyncio.create_task(page)
        await asyncio.sleep(0.01)

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await self._tasks[name]
        await asyncio.sleep(0)

    async def cancel(self, *names: str) -> None:
        """All at once."""
        for name in names:
            self._tasks[name].cancel()
        await asyncio.gather(*(self._tasks[name] for name in names), return_exceptions=True)
        await asyncio.sleep(0)


async def test_a_caller_has_all_places_while_nobody_else_waits(web, monkeypatch):
    """The next one that is free is for whoever has the fewest, and of those had no turn for longest."""
    turns = Turns(web, monkeypatch, pages=2)
    await turns.ask("ann 0", "ann 1", "ann 2", "ann 3", "bob 0", "bob 1", "cid 0")
    assert turns.started == ["ann 0", "ann 1"]
    await turns.end("ann 0", "bob 0", "cid 0", "bob 1")
    assert turns.started[2:] == ["bob 0", "cid 0", "bob 1", "ann 2"]
    await turns.end("ann 1", "ann 2", "ann 3")


@pytest.mark.parametrize("busy", [["ann"], ["ann", "cid"]])
async def test_who_comes_waits_for_one_page_of_callers_who_have_all_places(web, monkeypatch, busy):
    """Not for what they have asked for before: of equals, who had no turn for longest is next."""
    turns = Turns(web, monkeypatch, pages=len(busy))
    rest = [f"{name} {number}" for number in range(1, 4) for name in busy]
    await turns.ask(*(f"{name} 0" for name in busy), *rest, "bob 0", "bob 1")
    await turns.end("ann 0")
    assert turns.started[len(busy) :] == ["bob 0"]
    await turns.end("bob 0")
    assert turns.started[len(busy) + 1 :] == ["ann 1"]
    await turns.cancel(*turns.started, *rest, "bob 1")


async def test_turns_of_few_callers_are_remembered(web, monkeypatch):
    """The service goes on for months."""
    monkeypatch.setattr(places, "_REMEMBERED", 2)
    one = places.Places(1)
    for caller in ("ann", "bob", "ann", "cid", "dan", "ann"):
        async with one.of(caller):
            pass
    assert list(one._given) == ["dan", "ann"]


async def test_who_leaves_takes_no_place_along(web, monkeypatch):
    """While they wait, in the moment in which they get it, and later."""
    turns = Turns(web, monkeypatch, pages=1)
    await turns.ask("ann 0", "bob 0", "cid 0", "dan 0", "eve 0")
    await turns.cancel("bob 0")
    await turns.cancel("ann 0", "cid 0")
    assert turns.started == ["ann 0", "dan 0"]
    await turns.cancel("dan 0")
    await turns.end("eve 0")
    await turns.ask("ann 1", "ann 2")
    assert turns.started == ["ann 0", "dan 0", "eve 0", "ann 1"]
    await turns.end("ann 1", "ann 2")


async def test_a_caller_without_time_gets_its_deadline(tmp_path, web):
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexec cat <&3\n")
    program.chmod(0o755)
    with pytest.raises(Fault) as caught:
        await Pages(renderer(program, web))("<p>", url=URL, timeout_s=0.5)
    assert caught.value.code == ErrorCode.DEADLINE_EXCEEDED
