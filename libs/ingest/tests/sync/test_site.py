"""Feeds and sitemaps of a site on loopback that has every fault."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from searchbus_ingest.sources import fetching
from searchbus_ingest.sources.fetching import SiteClient
from searchbus_ingest.sources.item import SourceUnchangedError
from searchbus_ingest.sync import site
from searchbus_ingest.sync.site import SiteSource
from searchbus_ingest.sync.source import SourceUnreadableError
from searchbus_ingest.sync.state import SyncState
from searchbus_ingest.sync.syncing import Sync
from searchbus_testing.http import serve
from searchbus_upstream import HttpReply

from ..conftest import bus_with

PAGE = "<html><head><title>{0}</title></head><body><nav>Menu</nav><p>Text of {0}.</p></body></html>"


def rss(*items: str) -> str:
    return f"<rss version='2.0'><channel>{''.join(items)}</channel></rss>"


def item(name: str, text: str = "", day: str = "03 Mar 2026", link: str = "") -> str:
    whole = (
        f"<content><![CDATA[{text}]]></content>" if text else "<description>Short.</description>"
    )
    return (
        f"<item><title>{name}</title><guid>{name}</guid><link>{link or f'/{name}'}</link>{whole}"
        f"<pubDate>{day} 00:00:00 GMT</pubDate></item>"
    )


def sitemap(*rows: tuple[str, str], of: str = "url") -> str:
    root = "urlset" if of == "url" else "sitemapindex"
    return f"<{root}>" + "".join(
        f"<{of}><loc>{loc}</loc><lastmod>{changed}</lastmod></{of}>" for loc, changed in rows
    ) + f"</{root}>"  # fmt: skip


@dataclass
class Site:
    """Path → body, or what answers; every page has an ETag of its content."""

    files: dict = field(default_factory=dict)
    requests: Counter = field(default_factory=Counter)
    robots: Response = field(default_factory=lambda: Response(status_code=404))
    url: str = ""
    hosts: list = field(default_factory=list)

    async def __call__(self, scope, receive, send):
        request = Request(scope)
        self.requests[request.url.path] += 1
        await self.answer(request)(scope, receive, send)

    def answer(self, request):
        path = request.url.path
        found = self.robots if path == "/robots.txt" else self.files.get(path)
        if found is None:
            return Response(status_code=404)
        if not isinstance(found, str | bytes):
            return found
        kind = "text/html" if found[:5] == "<html" else "application/xml"
        tag = f'"{hash(found)}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304)
        return Response(found, media_type=kind, headers={"ETag": tag})


@pytest.fixture
async def internet():
    found = Site()
    async with serve(found) as found.url:
        yield found


@pytest.fixture
async def run(internet, retrieval):
    bus = await bus_with(retrieval)
    state = SyncState(name="s", collection="c", source="u")

    async def run(path="/feed", kind="", routes=None, **options):
        url = f"{internet.url}{path}"
        source = SiteSource(url, kind, SiteClient(url, routes or {}, 0.0))
        try:
            return await Sync(bus, source, state, **options).run()
        finally:
            await source.close()

    return run


def texts(retrieval):
    return {d.title: d.text for d in retrieval.documents.values()}


async def test_feed_is_stored_with_the_text_that_it_has(run, internet, retrieval):
    """No page is fetched for it; an unchanged feed costs one conditional request."""
    internet.files["/feed"] = rss(item("a", "<h2>Whales</h2><p>They sing.</p>"))
    await run()
    (document,) = retrieval.documents.values()
    assert document.text == "## Whales\n\nThey sing."
    assert document.url == f"{internet.url}/a"
    assert document.metadata == {"date": "2026-03-03", "synced_from": "s", "synced_as": "a"}
    assert (await run()).unchanged == 1
    assert internet.requests == {"/feed": 2}


async def test_pages_are_fetched_for_a_feed_of_summaries(run, internet, retrieval):
    """Once for each entry that is new or changed."""
    internet.files = {"/feed": rss(item("a")), "/a": PAGE.format("a")}
    await run()
    assert texts(retrieval) == {"a": "Text of a."}
    internet.files |= {"/feed": rss(item("b"), item("a")), "/b": PAGE.format("b")}
    assert (await run()).stored == 1
    assert internet.requests["/a"] == 1


@pytest.mark.parametrize(
    ("page", "stored"),
    [(Response(status_code=403), "Short."), (Response(status_code=500), None), (None, "Short.")],
)
async def test_page_of_an_entry_that_is_away(run, internet, retrieval, page, stored):
    """The summary is stored where that will stay so; else the next sync tries again."""
    internet.files = {"/feed": rss(item("a")), "/a": page}
    summary = await run()
    assert texts(retrieval).get("a") == stored
    assert bool(summary.failed) == (stored is None)
    internet.files["/a"] = PAGE.format("a")
    await run()
    assert texts(retrieval)["a"] == (stored or "Text of a.")


async def test_deleted_entries_are_deleted_and_old_ones_stay(run, internet, retrieval):
    """A feed has the newest entries only."""
    days = {name: f"0{n} Mar 2026" for n, name in enumerate("abcde", 1)}
    entries = {name: item(name, f"Text {name}", day) for name, day in days.items()}
    internet.files["/feed"] = rss(*entries.values())
    await run()
    internet.files["/feed"] = rss(entries["e"], entries["c"], entries["b"])
    assert (await run()).deleted == 1
    assert sorted(texts(retrieval)) == ["a", "b", "c", "e"]
    internet.files["/feed"] = rss()
    assert (await run(allow_deletes=True)).deleted == 0


def atom(*rows: tuple[str, str, str]) -> str:
    """Rows of a name, when it was published, and when it was updated."""
    return "<feed>" + "".join(
        f"<entry><id>{name}</id><title>{name}</title><content>Text {name}</content>"
        f"<published>{published}</published><updated>{updated}</updated></entry>"
        for name, published, updated in rows
    ) + "</feed>"  # fmt: skip


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_old_entry_that_comes_back_deletes_none_that_left_the_end(
    run, internet, retrieval, place
):
    """A feed may be sorted by the last change, and its oldest entry be one that was edited."""
    rows = [(name, f"2026-03-0{n}", f"2026-03-0{n}") for n, name in enumerate("abc", 1)][::-1]
    internet.files["/feed"] = atom(*rows)
    await run()
    rows[2:] = []
    rows.insert(place, ("old", "2015-01-01", f"2026-03-0{4 - place}"))
    internet.files["/feed"] = atom(*rows)
    assert (await run()).deleted == 0
    assert sorted(texts(retrieval)) == ["a", "b", "c", "old"]


async def drip(every_s: float):
    while True:
        yield b"<rss>" + b" " * 2**16
        await asyncio.sleep(every_s)


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><rss>&b;</rss>'


@pytest.mark.parametrize(
    ("feed", "problem"),
    [
        (Response(status_code=500), "HTTP 500"),
        (None, "HTTP 404"),
        ("<rss><channel><item>", "not well-formed"),
        (BOMB, "declarations"),
        ("<html><body>Sign in first</body></html>", "no feed and no sitemap"),
        (StreamingResponse(drip(0.0)), f"over {site.MAX_LISTING_BYTES} bytes"),
        (StreamingResponse(drip(0.2)), "no answer within"),
        (RedirectResponse("http://10.0.0.1/feed"), "not of the public web"),
        (RedirectResponse("http://169.254.169.254/latest/meta-data"), "not of the public web"),
        (RedirectResponse("http://[::ffff:127.0.0.1]/"), "not of the public web"),
        (RedirectResponse("http://user:pass@example.com/"), "not of the public web"),
        (RedirectResponse("file:///etc/passwd"), "not of the public web"),
        (RedirectResponse("/feed"), "more than 5 times"),
        (b"\x1f\x8b" + b"no gzip", "not a sitemap that can be read"),
    ],
)
async def test_feed_that_cannot_be_read_deletes_nothing(
    run, internet, retrieval, monkeypatch, feed, problem
):
    """The error says why."""
    internet.files["/feed"] = rss(item("a", "Whales."), item("b", "Seals."))
    await run()
    internet.files["/feed"] = feed
    if problem == "no answer within":
        monkeypatch.setattr(fetching, "TIMEOUT_S", 2.0)
    with pytest.raises(SourceUnreadableError, match=problem.replace("[", r"\[")):
        await run(allow_deletes=True)
    assert len(retrieval.documents) == 2


@pytest.mark.parametrize(
    "link", ["http://10.0.0.1/a", "http://localhost:6379/", "ftp://a.example/"]
)
async def test_links_of_strangers_reach_public_addresses_only(run, internet, retrieval, link):
    """The host that the operator named is the only other one; the summary is stored."""
    internet.files["/feed"] = rss(item("a", link=link))
    summary = await run()
    assert texts(retrieval) == {"a": "Short."}
    if not link.startswith("ftp"):
        assert "not of the public web" in summary.notes[0]


async def test_admitted_host_is_reached_at_its_port_only(internet):
    """Another port of this machine is another service."""
    client = SiteClient(f"{internet.url}/feed", {}, 0.0)
    port = int(internet.url.rpartition(":")[2])
    internet.files["/x"] = "<html>x</html>"
    page = await client.get(f"http://127.0.0.1:{port - 1}/x", max_bytes=100)
    assert page.body == b"<html>x</html>"  # the connection went to the port of the source
    await client.close()


async def test_sitemap_is_followed_with_what_changed(run, internet, retrieval):
    """By lastmod where the site says it, else by the validators of each page."""
    url = internet.url
    internet.files = {
        "/map": sitemap((f"{url}/a", "2026-03-01"), (f"{url}/b", "")),
        "/a": PAGE.format("a"), "/b": PAGE.format("b"),
    }  # fmt: skip
    await run("/map")
    assert texts(retrieval) == {"a": "Text of a.", "b": "Text of b."}
    assert (await run("/map")).unchanged == 2
    assert (internet.requests["/a"], internet.requests["/b"]) == (1, 2)
    internet.files |= {
        "/map": sitemap((f"{url}/a", "2026-03-02"), (f"{url}/b", "")), "/a": PAGE.format("a2"),
    }  # fmt: skip
    assert (await run("/map")).replaced == 1
    assert set(texts(retrieval)) == {"a2", "b"}


async def test_pages_that_are_gone_are_deleted_and_others_that_fail_stay(run, internet, retrieval):
    """404 and 410, or no longer in the sitemap."""
    url = internet.url
    pages = {f"/{name}": PAGE.format(name) for name in "abcdef"}
    internet.files = pages | {"/map": sitemap(*((f"{url}{path}", "") for path in pages))}
    await run("/map")
    internet.files |= {
        "/a": Response(status_code=410), "/b": Response(status_code=500), "/c": None,
        "/map": sitemap(*((f"{url}{path}", "") for path in pages if path != "/d")),
    }  # fmt: skip
    summary = await run("/map")
    assert (summary.deleted, len(summary.failed)) == (3, 1)
    assert sorted(texts(retrieval)) == ["b", "e", "f"]


@pytest.mark.parametrize("declared", ["utf-16", "shift_jis", "foo"])
async def test_sitemap_of_any_encoding_is_followed(run, internet, retrieval, declared):
    """Its kind is seen as well; what is damaged deletes nothing."""
    url = internet.url
    encoding = "utf-8" if declared == "foo" else declared
    text = f"<?xml version='1.0' encoding='{declared}'?>" + sitemap((f"{url}/a", ""))
    internet.files = {"/map": text.encode(encoding), "/a": PAGE.format("a")}
    await run("/map")
    assert list(texts(retrieval)) == ["a"]
    packed = gzip.compress("\n".join(f"{url}/{n}" for n in range(3)).encode())
    internet.files["/map"] = packed[:-12]
    summary = await run("/map", allow_deletes=True)
    assert (summary.deleted, len(retrieval.documents)) == (0, 1)


async def test_index_of_sitemaps_is_followed_on_its_own_host(run, internet, retrieval, monkeypatch):
    """Where one of them fails, nothing is deleted; pages of other hosts are left out."""
    monkeypatch.setattr(fetching, "_DEFAULT_PAUSE_S", 0.0)
    url = internet.url
    internet.files = {
        "/map": sitemap((f"{url}/1", ""), (f"{url}/2", ""), (f"{url}/map", ""), of="sitemap"),
        "/1": sitemap((f"{url}/a", ""), ("https://elsewhere.example/x", "")),
        "/2": sitemap((f"{url}/b", "")), "/a": PAGE.format("a"), "/b": PAGE.format("b"),
    }  # fmt: skip
    summary = await run("/map")
    assert sorted(texts(retrieval)) == ["a", "b"]
    assert "1 pages of other hosts" in str(summary.skipped[0])
    internet.files["/2"] = Response(status_code=503)
    summary = await run("/map", allow_deletes=True)
    assert (summary.held, summary.deleted) == (1, 0)


async def test_robots_txt_is_obeyed_for_pages(run, internet, retrieval):
    """What the operator named is fetched; without an answer of the server no page is."""
    url = internet.url
    internet.files = {
        "/map": sitemap((f"{url}/a", ""), (f"{url}/private/b", "")),
        "/a": PAGE.format("a"), "/private/b": PAGE.format("b"),
    }  # fmt: skip
    internet.robots = Response("User-agent: *\nDisallow: /private/\nDisallow: /map")
    summary = await run("/map")
    assert list(texts(retrieval)) == ["a"]
    assert "robots.txt asks not to" in str(summary.failed[0])
    internet.robots = Response(status_code=500)
    assert len((await run("/map")).failed) == 2


@pytest.mark.parametrize(
    ("rules", "read"),
    [
        ("Disallow: /*.htm$", ["a.html", "b/c"]),
        ("Allow: /\nDisallow: /b/", ["a.html", "a.htm"]),
        ("Disallow: /\nAllow: /b", ["b/c"]),
        ("Disallow: /\n\nUser-agent: searchbus-sync\nDisallow: /a.html", ["a.htm", "b/c"]),
    ],
)
async def test_rules_of_robots_txt_are_read_as_rfc_9309_says(run, internet, retrieval, rules, read):
    """The longest one that matches counts, and they have wildcards."""
    pages = {f"/{name}": PAGE.format(f"Page {name}") for name in ("a.html", "a.htm", "b/c")}
    internet.files = pages | {"/map": sitemap(*((f"{internet.url}{p}", "") for p in pages))}
    internet.robots = Response(f"User-agent: *\n{rules}\n")
    await run("/map")
    assert sorted(texts(retrieval)) == sorted(f"Page {name}" for name in read)


async def test_robots_txt_that_takes_gigabytes_allows_nothing(run, internet, retrieval):
    """Each of many groups has each of many rules."""
    internet.files = {"/map": sitemap((f"{internet.url}/a", "")), "/a": PAGE.format("a")}
    agents = "".join(f"user-agent:a{n}\n" for n in range(13_000))
    internet.robots = Response(agents + "allow:/a\n" * 25_000)
    summary = await run("/map")
    assert "robots.txt: it has too many rules" in str(summary.failed[0])


async def test_robots_txt_over_500_kib_is_read_to_there(run, internet, retrieval):
    """RFC 9309, 2.5: its first rules count."""
    internet.files = {"/map": sitemap((f"{internet.url}/a", ""), (f"{internet.url}/b", ""))}
    internet.files |= {"/a": PAGE.format("a"), "/b": PAGE.format("b")}
    internet.robots = Response("User-agent: *\nDisallow: /b\n" + "Allow: /nothing\n" * 50_000)
    await run("/map")
    assert list(texts(retrieval)) == ["a"]


async def test_robots_txt_of_few_origins_are_kept(run, internet, retrieval, monkeypatch):
    """A feed may lead to thousands of them, each with half a megabyte."""
    monkeypatch.setattr(fetching, "_MAX_ORIGINS", 2)
    port = internet.url.rpartition(":")[2]
    hosts = [f"{n}.localhost" for n in "aabaca"]
    links = [f"http://{host}:{port}/{n}" for n, host in enumerate(hosts)]
    internet.files = {f"/{n}": PAGE.format(n) for n in range(6)} | {
        "/feed": rss(*(item(str(n), link=link) for n, link in enumerate(reversed(links))))
    }
    await run(routes={"*.localhost": f"127.0.0.1:{port}"})
    assert len(retrieval.documents) == 6
    assert internet.requests["/robots.txt"] == 4


async def test_robots_txt_that_fails_is_asked_for_once(run, internet, retrieval):
    """In one sync; the next one asks again."""
    urls = [f"{internet.url}/{n}" for n in range(9)]
    internet.files = {"/map": sitemap(*((url, "") for url in urls))}
    internet.robots = Response(status_code=500)
    assert len((await run("/map")).failed) == 9
    assert internet.requests == {"/map": 1, "/robots.txt": 1}
    await run("/map")
    assert internet.requests["/robots.txt"] == 2


async def silent(scope, receive, send):
    while (await receive())["type"] != "http.disconnect":
        pass


@pytest.mark.parametrize("status", [None, 429, 503])
async def test_host_that_fails_again_and_again_is_left_alone(
    run, internet, retrieval, monkeypatch, status
):
    """The rest of its pages fail without a request; one that comes begins the count anew."""
    asked, get = [], fetching.HttpClient.send

    async def send(client, request, **limits):
        name = request.url.rpartition("/")[2]
        asked.append(name)
        if internet.files.get(f"/{name}") is silent:  # the others may take their time
            limits["timeout_s"] = 0.1
        return await get(client, request, **limits)

    monkeypatch.setattr(fetching.HttpClient, "send", send)
    monkeypatch.setattr(fetching, "_DEFAULT_PAUSE_S", 0.0)
    failing = Response(status_code=status) if status else silent
    names = [*"abc", "good", *"defghijk"]
    internet.files = {f"/{name}": failing for name in names} | {
        "/good": PAGE.format("good"),
        "/map": sitemap(*((f"{internet.url}/{name}", "") for name in names)),
    }
    summary = await run("/map")
    assert list(texts(retrieval)) == ["good"]
    assert len(summary.failed) == 11
    assert "5 requests in a row" in str(summary.failed[-1])
    assert asked == ["map", "robots.txt", *"abc", "good", *"defgh"]


async def test_files_without_text_are_skipped(run, internet, retrieval):
    """Only HTML and plain text are read of strangers."""
    internet.files = {
        "/map": sitemap((f"{internet.url}/a", "")),
        "/a": Response(b"%PDF-1.7", media_type="application/pdf"),
    }
    assert "application/pdf" in str((await run("/map")).failed[0])


async def test_other_kind_than_was_asked_for_is_refused(run, internet):
    """The message has the right one."""
    internet.files["/feed"] = rss()
    with pytest.raises(SourceUnreadableError, match=r"is a feed\. Write feed"):
        await run(kind="sitemap")


async def test_too_many_pages_are_cut_and_nothing_is_deleted(run, internet, monkeypatch):
    """The note says so."""
    monkeypatch.setattr(site, "MAX_PAGES", 1)
    url = internet.url
    internet.files = {"/map": sitemap((f"{url}/a", ""), (f"{url}/b", "")), "/a": PAGE.format("a")}
    assert (await run("/map")).stored == 1


async def test_site_that_asks_for_a_pause_gets_it(internet):
    """Retry-After, up to two minutes."""
    internet.files["/x"] = Response(status_code=429, headers={"Retry-After": "7"})
    client = SiteClient(internet.url, {}, 0.0)
    with pytest.raises(fetching.PageUnavailableError):
        await client.get(f"{internet.url}/x", max_bytes=100)
    next_s = client._turns.of("127.0.0.1").next_s
    assert 5 < next_s - asyncio.get_running_loop().time() <= 7
    await client.close()


async def test_unchanged_page_is_an_exception_of_its_own(internet):
    """Where its stamp was given."""
    internet.files["/x"] = "<html>x</html>"
    client = SiteClient(internet.url, {}, 0.0)
    stamp = (await client.get(f"{internet.url}/x", max_bytes=100)).stamp
    with pytest.raises(SourceUnchangedError):
        await client.get(f"{internet.url}/x", max_bytes=100, known=stamp)
    await client.close()


async def test_feed_is_read_up_to_a_number_of_entries(run, internet, retrieval, monkeypatch):
    """The newest, wherever they stand; those behind them stay as they are."""
    days = {name: f"0{n} Mar 2026" for n, name in enumerate("abcdef", 1)}
    internet.files["/feed"] = rss(*(item(n, "Sings.", day) for n, day in days.items()))
    await run()
    assert len(retrieval.documents) == 6
    monkeypatch.setattr(site, "MAX_ENTRIES", 2)
    internet.files["/feed"] = rss(*(item(n, "Sings. More.", day) for n, day in days.items()))
    summary = await run(allow_deletes=True)
    assert (summary.replaced, summary.deleted, len(retrieval.documents)) == (2, 0, 6)
    assert "4 entries behind the newest 2 are not read" in str(summary.skipped[0])
    assert {t for t, text in texts(retrieval).items() if "More." in text} == {"e", "f"}


async def test_feed_in_no_order_that_is_cut_deletes_nothing(run, internet, monkeypatch):
    """It may drop any entry; cutting it must not make it look sorted."""
    entries = [item(str(n), "Sings.", f"{n % 28 + 1:02} Mar 2026") for n in range(51)]
    random.Random(1).shuffle(entries)
    monkeypatch.setattr(site, "MAX_ENTRIES", 50)
    internet.files["/feed"] = rss(*entries)
    await run()
    internet.files["/feed"] = rss(*entries[10:], *(item(f"new {n}", "Sings.") for n in range(10)))
    assert (await run(allow_deletes=True)).deleted == 0


async def test_index_of_very_many_sitemaps_is_read_in_part(run, internet, retrieval, monkeypatch):
    """Each of them may name as many again: they are not even kept."""
    monkeypatch.setattr(site, "MAX_SITEMAPS", 5)
    url = internet.url
    internet.files["/map"] = sitemap(*((f"{url}/i/{n}", "") for n in range(9)), of="sitemap")
    for n in range(9):
        names = ((f"{url}/i/{n}/{m}", "") for m in range(9))
        internet.files[f"/i/{n}"] = sitemap(*names, of="sitemap")
    summary = await run("/map", allow_deletes=True)
    assert internet.requests.total() == 7  # with robots.txt
    assert (summary.failed, summary.documents) == ([], 0)


async def test_hosts_that_fail_cost_a_sync_an_hour_together(run, internet, retrieval, monkeypatch):
    """A feed may name a thousand, each of which takes a minute to fail."""
    port = internet.url.rpartition(":")[2]
    routes = {"*.localhost": "127.0.0.1:1"}
    internet.files["/feed"] = rss(
        *(item(str(n), link=f"http://{n}.localhost:{port}/") for n in range(9))
    )
    assert fetching.MAX_LOST_S == 3600.0
    monkeypatch.setattr(fetching, "MAX_LOST_S", 0.0)
    summary = await run(routes=routes)
    assert "cannot be reached" in str(summary.failed[0])
    assert all("that failed took 0 minutes" in str(item) for item in summary.failed[1:])


async def test_sources_of_a_process_ask_a_host_in_turn(internet, monkeypatch):
    """One request at a time, and not before the pause of the last one is over."""
    turns = fetching.Turns()
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    internet.files["/x"] = "<html>x</html>"
    clients = [SiteClient(internet.url, {}, 60.0, turns) for _ in range(3)]
    monkeypatch.setattr(fetching.asyncio, "sleep", sleep)
    get = (client.get(f"{internet.url}/x", max_bytes=100) for client in clients)
    await asyncio.gather(*get)
    monkeypatch.undo()
    assert slept[0] == 0.0
    assert all(0.0 < seconds <= 60.0 for seconds in slept[1:])
    assert len(slept) == 3
    for client in clients:
        await client.close()


@pytest.mark.parametrize(("status", "next_s"), [(200, 1_060.0), (429, 1_130.0)])
async def test_pause_of_a_host_begins_with_the_request(monkeypatch, status, next_s):
    """What a slow site takes is part of it; what a site asks for begins with its answer."""
    now_s = 1_000.0

    async def send(client, request, **limits):
        nonlocal now_s
        now_s += 30.0
        return HttpReply(status, b"", {"retry-after": "100"})

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    monkeypatch.setattr(fetching.HttpClient, "send", send)
    client = SiteClient("https://a.example/", {}, 60.0)
    with suppress(fetching.PageUnavailableError):
        await client.get("https://a.example/", max_bytes=100)
    assert client._turns.of("a.example").next_s == next_s
    await client.close()


async def test_turns_of_hosts_that_are_over_are_forgotten(monkeypatch):
    """A feed may name thousands."""
    monkeypatch.setattr(fetching, "_MAX_HOSTS", 2)
    turns = fetching.Turns()
    soon = turns.of("soon")
    soon.next_s = asyncio.get_running_loop().time() + 1e6
    for name in "abc":
        turns.of(name)
    assert turns.of("soon") is soon
    assert len(turns._hosts) <= 3


@pytest.mark.parametrize(("said", "pause_s"), [("7", 7.0), ("nan", 0.0), ("3600", 30.0)])
async def test_crawl_delay_of_robots_txt_is_kept(internet, said, pause_s):
    """Up to half a minute, as of a crawl."""
    internet.files["/x"] = "<html>x</html>"
    internet.robots = Response(f"User-agent: *\nCrawl-delay: {said}\n")
    client = SiteClient(internet.url, {}, 0.0)
    await client.get(f"{internet.url}/x", max_bytes=100, polite=True)
    left_s = client._turns.of("127.0.0.1").next_s - asyncio.get_running_loop().time()
    assert pause_s - 5.0 < left_s <= pause_s
    await client.close()


async def test_public_source_reaches_no_host_of_the_allowlist():
    """Whoever writes it would choose what is read of an intranet, and a search would show it."""
    routes = {"wiki.corp.example": "127.0.0.1:1", "intranet.example": "127.0.0.1:1"}
    public = SiteClient("https://blog.example/feed", routes, 0.0)
    own = SiteClient("https://intranet.example/feed", routes, 0.0)
    assert not public._is_admitted("http://wiki.corp.example/x")
    assert own._is_admitted("http://wiki.corp.example/x")
    for client in (public, own):
        await client.close()


async def test_public_page_does_not_redirect_to_a_host_of_the_allowlist(internet, monkeypatch):
    """A feed of an intranet may lead to pages of the public web."""
    client = SiteClient(internet.url, {}, 0.0)
    reply = HttpReply(302, b"", {"location": f"{internet.url}/x"})
    asked = []

    async def send(client, request, **limits):
        asked.append(request.url)
        return reply

    monkeypatch.setattr(fetching.HttpClient, "send", send)
    with pytest.raises(fetching.PageUnavailableError, match="out of the public web"):
        await client.get("http://a.example/", max_bytes=100)
    assert asked == ["http://a.example/"]
    await client.close()


@pytest.mark.parametrize("location", ["http://b.example/", "HTTP://b.example/"])
async def test_page_over_https_does_not_redirect_to_http(monkeypatch, location):
    """However its scheme is written."""

    async def send(client, request, **limits):
        return HttpReply(302, b"", {"location": location})

    monkeypatch.setattr(fetching.HttpClient, "send", send)
    client = SiteClient("https://a.example/", {}, 0.0)
    with pytest.raises(fetching.PageUnavailableError, match="from https to http"):
        await client.get("https://a.example/", max_bytes=100)
    await client.close()
