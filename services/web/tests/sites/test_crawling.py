"""crawl over the bus, against a made-up site."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import RedirectResponse, Response

from searchbus_contracts import Fault
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_testing import until
from searchbus_web.sites import records
from searchbus_web.sites.scope import ADDRESSES_A_TURN
from searchbus_web.tools import ROLE

from .conftest import SITE, html, most_in_a_turn, with_etag


async def test_pages_of_a_site_become_documents(sites):
    """Links are followed to the depth; each page is stored once, with its title and address."""
    sites.site.pages = {
        "/": html("Home", "/a", "/a#part", "/b?utm_source=x", "http://other.example.net/x", "/p.png"),
        "/a": html("A", "/", "/deep"),
        "/b": html("B"),
        "/deep": html("Deep", "/deeper"),
        "/deeper": html("Deeper"),
    }  # fmt: skip
    report = await sites.crawl()
    assert (report["site"], report["collection"]) == ("example.org", "docs")
    assert report["stored"] == 4
    assert sites.documents.pages() == {"/": "Home", "/a": "A", "/b": "B", "/deep": "Deep"}
    assert not report.get("truncated", False)
    assert {"/x", "/p.png", "/deeper"}.isdisjoint(sites.site.calls)
    document = next(d for d in sites.documents.collections["docs"].values() if d.title == "A")
    assert document.metadata["site"] == "example.org"
    assert "A has a text of its own" in document.text
    assert document.chunks[0].section == "A"


async def test_patterns_narrow_a_crawl(sites):
    """The start is visited for its links, and stored only where it fits the patterns."""
    sites.site.pages = {
        "/": html("Home", "/docs/a", "/docs/old/b", "/blog/c"),
        "/docs/a": html("A"), "/docs/old/b": html("B"), "/blog/c": html("C"),
    }  # fmt: skip
    report = await sites.crawl(include=["/docs/*"], exclude=["*/old/*"])
    assert sites.documents.pages() == {"/docs/a": "A"}
    assert (report["stored"], report["skipped"]) == (1, 1)


async def test_few_addresses_are_looked_at_in_one_turn_of_the_loop(sites, monkeypatch):
    """Of the links of a page, and of the stored pages of the site."""
    paths = [f"/{n}" for n in range(50)]
    sites.site.pages = {"/": html("Home", *paths), **{path: html(path) for path in paths}}
    for outcome in ("stored", "unchanged"):
        crawling = sites.crawl(exclude=["*a*b*"], maxPages=60)
        most = await most_in_a_turn(crawling, monkeypatch)
        assert 0 < most <= 2 * ADDRESSES_A_TURN
        assert len(sites.documents.pages()) == 51, outcome


async def test_unchanged_pages_are_neither_sent_nor_stored_again(sites):
    """By ETag where the site has one, else by the text; what has changed is replaced."""
    sites.site.pages = {
        "/": with_etag(html("Home", "/a", "/b"), '"1"'), "/a": html("A"), "/b": html("B"),
    }  # fmt: skip
    await sites.crawl()
    sites.site.pages["/b"] = html(
        "B", text="The text of B is another one now, as all can see. " * 4
    )
    sites.documents.stores.clear()
    report = await sites.crawl()
    assert (report["unchanged"], report["replaced"]) == (2, 1)
    assert sites.documents.stores == [f"{SITE}/b"]
    assert sites.site.statuses[304] == 1


async def test_another_crawl_asks_for_whole_pages_to_see_their_links(sites):
    """An answer without a body has no links: it is asked for only where all links were followed."""
    sites.site.pages = {"/": with_etag(html("Home", "/a"), '"1"'), "/a": html("A")}
    assert (await sites.crawl(depth=0))["stored"] == 1
    report = await sites.crawl(depth=1)
    assert (report["unchanged"], report["stored"]) == (1, 1)
    assert sites.site.statuses[304] == 0


async def test_equal_texts_are_stored_once(sites):
    """And the other address is stored once the first is gone."""
    same = html("Same", text="One text that has several addresses of its own. " * 5)
    sites.site.pages = {"/": html("Home", "/a", "/b"), "/a": same, "/b": same}
    report = await sites.crawl()
    assert (report["stored"], report["duplicates"]) == (2, 1)
    (kept,) = sites.documents.pages().keys() - {"/"}
    del sites.site.pages[kept]
    report = await sites.crawl()
    assert report["deleted"] == 1
    assert sites.documents.pages().keys() == {"/", *({"/a", "/b"} - {kept})}


@pytest.mark.parametrize("target", ["http://127.0.0.1:8080/", "http://169.254.169.254/latest"])
async def test_redirect_to_a_private_address_is_not_followed(sites, target):
    """The guard of all pages holds for crawls too."""
    sites.site.pages = {"/": html("Home", "/in"), "/in": lambda _: RedirectResponse(target)}
    report = await sites.crawl()
    assert report["stored"] == 1
    assert report["problems"][0]["status"] in ("blocked_by_policy", "other_site")


async def test_robots_are_obeyed_also_where_pages_for_people_need_not(idle_sites):
    """And what a page itself asks of robots."""
    idle_sites.site.robots = "User-agent: *\nDisallow: /private\n"
    idle_sites.site.pages = {
        "/": html("Home", "/private", "/noindex", "/nofollow"),
        "/private": html("Private"),
        "/noindex": html("Hidden", "/behind", head='<meta name="robots" content="noindex">'),
        "/behind": html("Behind"),
        "/nofollow": html("Leaf", "/never", head='<meta name="robots" content="nofollow">'),
        "/never": html("Never"),
    }
    await idle_sites.start(extract_robots=False)
    report = await idle_sites.crawl(depth=3)
    assert idle_sites.documents.pages() == {"/": "Home", "/behind": "Behind", "/nofollow": "Leaf"}
    assert {p["status"] for p in report["problems"]} == {"robots", "noindex"}
    assert {"/private", "/never"}.isdisjoint(idle_sites.site.calls)


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        (["noindex"], {"/", "/a"}), (["none"], {"/"}), (["nofollow"], {"/", "/x"}),
        (["NOINDEX, nofollow"], {"/"}), (["searchbus: noindex"], {"/", "/a"}),
        (["googlebot: noindex"], {"/", "/x", "/a"}),
        (["googlebot: noindex", "nofollow"], {"/", "/x"}),
        (["max-snippet: 20, noindex"], {"/", "/a"}),
        (["unavailable_after: 25 Jun 2099 15:00:00 PST"], {"/", "/x", "/a"}),
        (["x" * 5_000 + ",noindex"], {"/", "/x", "/a"}),
    ],
)  # fmt: skip
async def test_what_the_header_asks_of_robots_is_obeyed(sites, said, stored):
    """X-Robots-Tag, also of files that have no meta elements; not what it asks of others."""

    def page(_):
        response = Response(html("X", "/a"), media_type="text/html")
        for value in said:
            response.headers.append("x-robots-tag", value)
        return response

    sites.site.pages = {"/": html("Home", "/x"), "/x": page, "/a": html("A")}
    await sites.crawl(depth=3)
    assert sites.documents.pages().keys() == stored


async def test_robots_that_hang_forbid_the_site(sites, monkeypatch):
    """After their time; no page is requested."""
    monkeypatch.setattr("searchbus_web.extraction.fetching._ROBOTS_TIMEOUT_S", 0.2)
    sites.site.gates["/robots.txt"] = asyncio.Event()
    sites.site.pages = {"/": html("Home")}
    report = await sites.crawl()
    assert [p["status"] for p in report["problems"]] == ["robots"]
    assert sites.site.calls.keys() == {"/robots.txt"}
    sites.site.gates["/robots.txt"].set()


async def test_maps_and_crawls_leave_room_for_searches(sites, monkeypatch):
    """A worker takes a part of its calls for what runs for minutes."""
    monkeypatch.setattr("searchbus_web.sites.tools.MAX_RUNNING", 2)
    sites.site.gates["/"] = asyncio.Event()
    sites.site.pages = {"/": html("Home")}
    running = [asyncio.create_task(sites.crawl(collection=f"c{n}")) for n in range(2)]
    await until(lambda: sites.site.calls["/"])
    for call in (sites.crawl, sites.map):
        with pytest.raises(Fault, match="run here already"):
            await call(timeout_s=2.0)
    sites.site.gates["/"].set()
    assert [report["stored"] for report in await asyncio.gather(*running)] == [1, 1]
    assert (await sites.map())["total"] == 1


async def test_endless_site_ends_at_the_budget_and_goes_on_with_the_cursor(sites):
    """A calendar without end: breadth first, so that real pages come before it."""
    sites.site.pages = {"/": html("Home", "/day/1", "/a"), "/a": html("A")}
    sites.site.otherwise = lambda request: Response(
        html(request.url.path, *(f"{request.url.path}/{n}" for n in range(50))),
        media_type="text/html",
    )
    report = await sites.crawl(depth=10, maxPages=20)
    assert report["stored"] == 20
    assert report["truncated"]
    assert report["waiting"] > 100
    assert "/a" in sites.documents.pages()
    again = await sites.crawl(depth=10, maxPages=20, cursor=report["cursor"])
    assert again["stored"] == 20
    assert len(sites.documents.pages()) == 40
    with pytest.raises(Fault, match="cursor"):
        await sites.crawl(depth=9, maxPages=20, cursor=report["cursor"])


async def test_waiting_addresses_are_bounded(sites, monkeypatch):
    """What is left out is said, and the crawl is not taken for complete."""
    monkeypatch.setattr("searchbus_web.sites.crawling.MAX_SEEN", 5)
    sites.site.pages = {"/": html("Home", *(f"/{n}" for n in range(20)))}
    sites.site.otherwise = lambda request: Response(html(request.url.path), media_type="text/html")
    report = await sites.crawl()
    assert (report["stored"], report["truncated"]) == (5, True)
    assert "cursor" not in report


async def test_site_that_refuses_is_left_alone(sites):
    """After three refusals in a row; the pages wait for the next call."""
    sites.site.pages = {"/": html("Home", *(f"/{n}" for n in range(9)))}
    sites.site.otherwise = lambda _: Response(status_code=429, headers={"retry-after": "0"})
    report = await sites.crawl()
    assert sites.site.statuses[429] <= 4
    assert report["truncated"]
    assert "ended early" in report["notes"][0]
    sites.site.otherwise = lambda request: Response(html(request.url.path), media_type="text/html")
    report = await sites.crawl(cursor=report["cursor"])
    assert report["stored"] == 9


async def test_interrupted_crawl_goes_on_where_it_was(sites):
    """The caller has gone: the same call again visits what was left, without a cursor."""
    sites.site.pages = {"/": html("Home", *(f"/{n}" for n in range(6)))}
    sites.site.otherwise = lambda request: Response(html(request.url.path), media_type="text/html")
    sites.site.gates["/3"] = asyncio.Event()
    running = asyncio.create_task(sites.crawl())
    await until(lambda: sites.site.calls["/3"] and len(sites.documents.pages()) > 4)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    sites.site.gates["/3"].set()
    before = dict(sites.site.calls)
    report = await sites.crawl()
    # One may have been stored, and not counted.
    assert report["stored"] + report.get("unchanged", 0) == 7
    assert len(sites.documents.pages()) == 7
    assert sites.site.calls["/"] == before["/"] == 1


async def test_same_crawl_twice_at_once_is_refused(sites, monkeypatch):
    """The second call says that the first one runs, as long as that writes."""
    monkeypatch.setattr(records, "BEAT_S", 0.05)
    monkeypatch.setattr(records, "STOPPED_S", 5.0)
    monkeypatch.setattr("searchbus_web.sites.crawling.BEAT_S", 0.02)
    sites.site.gates["/a"] = asyncio.Event()
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A")}
    first = asyncio.create_task(sites.crawl())
    await until(lambda: sites.site.calls["/a"])
    with pytest.raises(Fault, match="running already"):
        await sites.crawl()
    sites.site.gates["/a"].set()
    assert (await first)["stored"] == 2


async def test_without_the_store_a_crawl_ends_as_ever(sites):
    """It cannot be continued, which the answer says."""
    sites.site.pages = {"/": html("Home", *(f"/{n}" for n in range(6)))}
    sites.site.otherwise = lambda request: Response(html(request.url.path), media_type="text/html")
    for name in ("web_crawls", "web_hosts"):
        (await sites.process.bus.key_value(name, ttl_s=600.0, max_bytes=2**20)).away = True
    report = await sites.crawl(maxPages=3)
    assert report["stored"] == 3
    assert "cursor" not in report
    assert "store is away" in report["notes"][0]


async def test_documents_that_cannot_be_stored_end_the_crawl(sites):
    """With the failure of the retrieval service; the next call goes on."""
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A")}
    # Else it may be stored, and not counted, before the failure of the other one arrives.
    sites.site.gates["/a"] = asyncio.Event()
    sites.documents.failures = [Fault("storage_full", "The disk is full.")]
    with pytest.raises(Fault, match="disk is full"):
        await sites.crawl()
    sites.site.gates["/a"].set()
    assert (await sites.crawl())["stored"] == 2


async def test_crawl_waits_for_a_retrieval_service_that_is_away(sites):
    """For a while; no page is lost."""
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A")}
    sites.documents.failures = [Fault("unavailable", "Away.") for _ in range(2)]
    assert (await sites.crawl())["stored"] == 2


@pytest.mark.parametrize("roles", [(), (ROLE,), (OPERATOR_ROLE,)])
async def test_crawl_needs_the_role_of_those_who_store_documents(sites, roles):
    """And that of web search; nothing is fetched without both."""
    sites.site.pages = {"/": html("Home")}
    with pytest.raises(Fault) as caught:
        await sites.crawl(roles=roles)
    assert caught.value.code == "forbidden"
    assert not sites.site.calls


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"include": ["docs"]}, "include"), ({"include": ["x" * 201]}, "include"),
        ({"exclude": ["/x"] * 21}, "exclude"), ({"include": ["/" + "a*" * 500_000]}, "include"),
        ({"collection": "a b"}, "collection"), ({"depth": 11}, "depth"), ({"maxPages": 501}, "maxPages"),
        ({"cursor": "nothing"}, "cursor"),
    ],
)  # fmt: skip
async def test_wrong_arguments_name_the_field(sites, arguments, field):
    """Before anything is fetched."""
    with pytest.raises(Fault) as caught:
        await sites.crawl(**arguments)
    assert caught.value.code == "invalid_argument"
    assert field in str(caught.value)
    assert not sites.site.calls


async def test_progress_tells_each_page(sites):
    """As events of the call."""
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A")}
    events = []
    await sites.crawl(on_event=events.append)
    assert [(e.progress, e.total) for e in events] == [(1, 50), (2, 50)]
    assert events[0].message == f"stored: {SITE}/"


async def test_crawl_delay_of_the_site_is_kept_up_to_a_limit(idle_sites, monkeypatch):
    """The pace is that of the longer of both delays."""
    rates = []
    original = "searchbus_web.sites.politeness.SharedPace"
    from searchbus_upstream import SharedPace

    def pace(kv, key, *, rate_per_s, name):
        rates.append(rate_per_s)
        return SharedPace(None, key, rate_per_s=0, name=name)

    monkeypatch.setattr(original, pace)
    idle_sites.site.pages = {"/": html("Home")}
    for delay, rate in (("0.1", 1 / 0.5), ("4", 1 / 4), ("1e9", 1 / 30), ("nan", 1 / 0.5)):
        idle_sites.site.robots = f"User-agent: *\nCrawl-delay: {delay}\n"
        rates.clear()
        await idle_sites.start(crawl_delay_s=0.5)
        await idle_sites.crawl()
        assert rates[0] == rate, delay
        await idle_sites.process.drain()


async def test_answer_without_a_body_that_nobody_asked_for_is_a_failure(sites):
    """A page that is not known cannot be unchanged."""
    sites.site.pages = {"/": lambda _: Response(status_code=304)}
    report = await sites.crawl()
    assert (report["failed"], report.get("unchanged", 0)) == (1, 0)
    assert report["problems"][0]["status"] == "http_304"


async def test_crawl_shares_the_cache_of_pages_and_not_its_rules(sites):
    """A page that was read is not fetched again; what a crawl refuses is no answer for others."""
    sites.site.pages = {
        "/": html("Home", "/away"), "/away": lambda _: RedirectResponse("http://www.example.net/x"),
        "/x": html("X"),
    }  # fmt: skip
    read = {"toolset": "pages", "urls": [f"{SITE}/", f"{SITE}/away"]}
    crawl, items = await asyncio.gather(
        sites.crawl(maxAgeS=600), sites.web.call("read_page", **read)
    )
    assert crawl["problems"][0]["status"] == "other_site"
    assert [item["status"] for item in items["items"]] == ["ok", "ok"]
    before = sites.site.calls["/"]
    assert (await sites.crawl(collection="other", maxAgeS=600))["stored"] == 1
    assert sites.site.calls["/"] == before
