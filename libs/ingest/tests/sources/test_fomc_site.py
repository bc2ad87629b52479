"""The Federal Reserve's site, from a replica on loopback."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from searchbus_contracts import Fault
from searchbus_ingest.sources import fetching
from searchbus_ingest.sources.fomc_site import FomcSite
from searchbus_ingest.sources.item import Item, Reason
from searchbus_testing import free_port

CALENDAR = """<html><body><div id="article">
<a href="/newsevents/pressreleases/monetary20240131a.htm">Statement</a>
<a href="/monetarypolicy/fomcminutes20240131.htm">Minutes</a>
<a href="/monetarypolicy/files/fomcminutes20240131.pdf">PDF</a>
<a href="https://elsewhere.example/monetarypolicy/fomcminutes20230201.htm">Not here</a>
</div></body></html>"""
HISTORICAL = """<html><body>
<a href='/fomc/minutes/19930203.htm'>Minutes</a>
<a href='/private/monetarypolicy/fomcminutes19930323.htm'>Forbidden</a>
</body></html>"""
PAGE = """<html><head><title>Page</title></head><body><div id="header">menu</div>
<div id="article"><h3>Heading of {name}</h3><p>Text of {name}.</p></div></body></html>"""


class Replica(BaseHTTPRequestHandler):
    requests: Counter
    fail_next: list[int]
    robots: int

    def do_GET(self):
        self.requests[self.path] += 1
        if self.fail_next and "2024" in self.path:
            self.send_response(self.fail_next.pop())
            self.end_headers()
            return
        if self.path == "/robots.txt" and self.robots != 200:
            self.send_response(self.robots)
            self.end_headers()
            return
        if self.path == "/robots.txt":
            body = "User-agent: *\nDisallow: /pri*te/\n"
        elif self.path == "/monetarypolicy/fomccalendars.htm":
            if self.headers.get("If-None-Match") == '"v1"':
                self.send_response(304)
                self.end_headers()
                return
            body = CALENDAR
        elif self.path == "/monetarypolicy/fomchistorical1993.htm":
            body = HISTORICAL
        elif self.path == "/monetarypolicy/fomchistorical1994.htm":
            self.send_response(403)
            self.end_headers()
            return
        elif "fomchistorical" in self.path:
            self.send_response(404)
            self.end_headers()
            return
        else:
            body = PAGE.format(name=self.path)
        self.send_response(200)
        self.send_header("ETag", '"v1"')
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments):
        pass


@pytest.fixture
def site():
    """The site's page structure on loopback."""
    Replica.requests, Replica.fail_next, Replica.robots = Counter(), [], 200
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replica)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


async def read(folder, base_url) -> list[Item]:
    site = FomcSite(folder, base_url=base_url, pause_s=0.0)
    return [item async for item in site.read("fomc")]


async def test_site_is_read_politely_and_resumed(site, tmp_path, monkeypatch):
    """Statements and minutes of all years; robots obeyed; a rerun fetches the calendar only."""
    monkeypatch.setattr(fetching, "_DEFAULT_PAUSE_S", 0.0)
    Replica.fail_next[:] = [503]
    items = await read(tmp_path, site)
    found = {item.document.title: item.document for item in items if item.document}
    assert list(found) == [
        "FOMC Minutes, February 3, 1993",
        "FOMC Minutes, January 31, 2024",
        "FOMC Statement, January 31, 2024",
    ]
    statement = found["FOMC Statement, January 31, 2024"]
    assert statement.metadata == {"date": "2024-01-31", "type": "statement"}
    assert "menu" not in statement.text
    assert (
        statement.chunks[0].section == "Heading of /newsevents/pressreleases/monetary20240131a.htm"
    )
    year, page = (item for item in items if item.problem)
    assert year.origin == f"{site}/monetarypolicy/fomchistorical1994.htm"
    assert "403" in year.problem
    assert page.problem == "not fetched: the site's robots.txt asks not to fetch it"
    # By these a prune knows what was not read.
    assert year.reason is Reason.NOT_LISTED
    assert page.source_id.startswith(("statement-", "minutes-"))
    first = Counter(Replica.requests)
    again = await read(tmp_path, site)
    assert [i.document for i in again if i.document] == [i.document for i in items if i.document]
    fetched = Replica.requests - first
    assert not any("2024" in path or "19930203" in path for path in fetched)
    assert next(tmp_path.glob("*.stamp")).read_text() == '"v1"\n'


async def test_site_that_cannot_be_reached_ends_the_reading(tmp_path):
    """At once, and not after every page of every year."""
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Fault, match=rf"{address} .*cannot be reached.* Run the same command"):
        await read(tmp_path, address)


@pytest.mark.parametrize(("status", "pages"), [(404, True), (500, False)])
async def test_site_without_robots_txt_is_read_and_one_that_fails_is_not(
    site, tmp_path, status, pages
):
    """RFC 9309: nothing is allowed where the server fails to say what is."""
    Replica.robots = status
    if pages:
        assert any(item.document for item in await read(tmp_path, site))
        return
    with pytest.raises(Fault, match=r"robots\.txt: the site answers HTTP 500"):
        await read(tmp_path, site)
    assert set(Replica.requests) == {"/robots.txt"}
