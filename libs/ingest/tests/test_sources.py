"""Readers: every kind of file, and the Federal Reserve's site from a local replica."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from searchbus_ingest.sources.files import read_path
from searchbus_ingest.sources.fomc_site import FomcSite
from searchbus_ingest.sources.html import html_to_markdown
from searchbus_ingest.sources.jsonl import read_jsonl


def test_bad_lines_are_reported_with_number_and_reason(tmp_path):
    """And skipped; the good ones are read."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(
        b'{"id": "a", "text": "Whales.", "title": "A", "n": 1, "tags": ["x"], "odd key": 1}\n'
        b"{\n"
        b"\xff\xfe\n"
        b"[1]\n"
        b'{"text": "no id"}\n'
        b'{"id": 7}\n'
        b'{"id": "e", "text": "  "}\n'
        b"\n" + b"[" * 100_000 + b"\n"
        b'{"_id": 8, "content": "Dolphins.", "source_url": "https://example.org"}\n'
    )
    items = list(read_jsonl(path, "c"))
    problems = {item.origin: item.problem for item in items if item.problem}
    assert problems.keys() == {f"d.jsonl:{n}" for n in (2, 3, 4, 5, 6, 7, 9)}
    assert "not valid JSON" in problems["d.jsonl:2"]
    assert "UTF-8" in problems["d.jsonl:3"]
    assert '"id" is missing' in problems["d.jsonl:5"]
    assert '"text" is missing' in problems["d.jsonl:6"]
    first, last = (item.document for item in items if item.document)
    assert (first.title, first.metadata) == ("A", {"n": 1})
    assert (last.title, last.url) == ("8", "https://example.org")


def test_folder_is_walked_in_order_by_globs(tmp_path):
    """`*` stays within a folder, `**` crosses; hidden and built folders are left out."""
    for name in ("b.md", "a.md", "sub/c.md", "sub/deep/d.md", ".git/e.md", "node_modules/x/f.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n\nText.\n")

    def names(*include):
        return [item.origin for item in read_path(tmp_path, "c", include=include)]

    assert names() == ["a.md", "b.md", "sub/c.md", "sub/deep/d.md"]
    assert names("*.md") == ["a.md", "b.md"]
    assert names("sub/*.md") == ["sub/c.md"]
    assert names("**/*.md") == names()


def test_html_keeps_structure_and_drops_the_rest():
    """Headings, lists and tables stay; scripts and menus go."""
    title, text = html_to_markdown(
        b"<title>T</title><body><nav>menu</nav><h2>Head</h2><p>One <b>two</b>.</p>"
        b"<ul><li>a</li><li>b</li></ul><script>x()</script><footer>foot</footer></body>"
    )
    assert title == "T"
    assert text.split("\n\n") == ["## Head", "One two.", "- a", "- b"]


def test_deeply_nested_html_is_read():
    """50,000 nested elements neither crash nor hang."""
    _, text = html_to_markdown(b"<div>" * 50_000 + b"deep" + b"</div>" * 50_000)
    assert len(text) < 100


def make_pdf(text: str) -> bytes:
    """A PDF of one page, written by hand."""
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return body + b"xref\n0 6\n0000000000 65535 f \n%strailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        table, len(body),
    )  # fmt: skip


def test_pdf_and_broken_pdf(tmp_path):
    """A page's text is read; what is no PDF is reported."""
    (tmp_path / "a.pdf").write_bytes(make_pdf("Whales sing"))
    (tmp_path / "b.pdf").write_bytes(b"not a pdf")
    items = {item.origin: item for item in read_path(tmp_path, "c")}
    assert items["a.pdf"].document.text == "Whales sing"
    assert "not a readable PDF" in items["b.pdf"].problem


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

    def do_GET(self):
        self.requests[self.path] += 1
        if self.fail_next and "2024" in self.path:
            self.send_response(self.fail_next.pop())
            self.end_headers()
            return
        if self.path == "/robots.txt":
            body = "User-agent: *\nDisallow: /private/\n"
        elif self.path == "/monetarypolicy/fomccalendars.htm":
            if self.headers.get("If-None-Match") == '"v1"':
                self.send_response(304)
                self.end_headers()
                return
            body = CALENDAR
        elif self.path == "/monetarypolicy/fomchistorical1993.htm":
            body = HISTORICAL
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
    Replica.requests, Replica.fail_next = Counter(), []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replica)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_site_is_read_politely_and_resumed(site, tmp_path):
    """Statements and minutes of all years; robots obeyed; a rerun fetches the calendar only."""
    Replica.fail_next[:] = [503]
    items = list(FomcSite(tmp_path, base_url=site, pause_s=0.0).read("fomc"))
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
    assert [item.problem for item in items if item.problem] == [
        "not fetched: robots.txt forbids it"
    ]
    first = Counter(Replica.requests)
    again = list(FomcSite(tmp_path, base_url=site, pause_s=0.0).read("fomc"))
    assert [i.document for i in again if i.document] == [i.document for i in items if i.document]
    fetched = Replica.requests - first
    assert not any("2024" in path or "19930203" in path for path in fetched)
    assert json.loads(next(tmp_path.glob("*.json")).read_text())["etag"] == '"v1"'
