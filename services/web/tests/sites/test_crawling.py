"""crawl over the bus, against a made-up site."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import RedirectResponse, Response

from searchbus_contracts import Fault
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_testing import until
from searchbus_web.sites import records
from searchbus_web.tools import ROLE

from .conftest import SITE, html, with_etag


async def test_pages_of_a_site_become_documents(sites):
    """Links are followed to the depth; each page is stored once, with its title and address."""
    sites.site.pages = {
        "/": html("Home", "/a", "/a#part", "/b?utm_source=x", "http://other.example.net/x", "/p.png"),
        "/a": html("A", "/", "/deep"),
        "/b": html("B"),
        "/deep": html("Deep", "/deeper"),
        "/deeper": html("Deeper"),
    }  # fmt: skip
    await sites.start()
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
    await sites.start()
    report = await sites.crawl(include=["/docs/*"], exclude=["*/old/*"])
    assert sites.documents.pages() == {"/docs/a": "A"}
    assert (report["stored"], report["skipped"]) == (1, 1)


async def test_unchanged_pages_are_neither_sent_nor_stored_again(sites):
    """By ETag where the site has one, else by the text; what has changed is replaced."""
    sites.site.pages = {
        "/": with_etag(html("Home", "/a", "/b"), '"1"'), "/a": html("A"), "/b": html("B"),
    }  # fmt: skip
    await sites.start()
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
    await sites.start()
    assert (await sites.crawl(depth=0))["stored"] == 1
    report = await sites.crawl(depth=1)
    assert (report["unchanged"], report["stored"]) == (1, 1)
    assert sites.site.statuses[304] == 0


async def test_pages_that_are_gone_are_deleted(sites):
    """Also where no page links to them any more; other documents of the collection stay."""
    sites.site.pages = {
        "/": html("Home", "/a", "/b"), "/a": html("A"), "/b": html("B"),
    }  # fmt: skip
    await sites.start()
    await sites.crawl()
    del sites.site.pages["/a"]
    sites.site.pages["/b"] = lambda _: Response(status_code=410)
    sites.site.pages["/"] = html("Home")
    report = await sites.crawl()
    assert report["deleted"] == 2
    assert sites.documents.pages() == {"/": "Home"}


async def test_error_of_the_site_deletes_nothing(sites):
    """A failure of the server says nothing of the page."""
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A")}
    await sites.start()
    await sites.crawl()
    sites.site.pages["/a"] = lambda _: Response(status_code=500)
    report = await sites.crawl()
    assert report["failed"] == 1
    assert report["problems"][0]["status"] == "http_500"
    assert sites.documents.pages() == {"/": "Home", "/a": "A"}


async def test_equal_texts_are_stored_once(sites):
    """And the other address is stored once the first is gone."""
    same = html("Same", text="One text that has several addresses of its own. " * 5)
    sites.site.pages = {"/": html("Home", "/a", "/b"), "/a": same, "/b": same}
    await sites.start()
    report = await sites.crawl()
    assert (report["stored"], report["duplicates"]) == (2, 1)
    (kept,) = sites.documents.pages().keys() - {"/"}
    del sites.site.pages[kept]
    report = await sites.crawl()
    assert report["deleted"] == 1
    assert sites.documents.pages().keys() == {"/", *({"/a", "/b"} - {kept})}


async def test_page_that_moved_is_stored_at_its_new_address(sites):
    """A redirect to another site is not followed."""
    sites.site.pages = {
        "/": html("Home", "/old", "/away"), "/old": html("Old"), "/away": html("Away"),
    }  # fmt: skip
    await sites.start()
    await sites.crawl()
    sites.site.pages |= {
        "/old": lambda _: RedirectResponse(f"{SITE}/new", 301), "/new": html("New"),
        "/away": lambda _: RedirectResponse("http://www.example.net/"),
    }  # fmt: skip
    report = await sites.crawl()
    assert sites.documents.pages() == {"/": "Home", "/new": "New", "/away": "Away"}
    assert (report["stored"], report["deleted"]) == (1, 1)
    assert [p["status"] for p in report["problems"]] == ["other_site"]
    assert sites.site.calls["/"] == 2


def down(request):
    """The page of a site that is being mended."""
    return Response(html("Down", text="We are back soon. " * 20), media_type="text/html")


def redirect(code):
    """Every page leads to the maintenance page."""

    def answer(request):
        if request.url.path == "/maintenance":
            return down(request)
        return RedirectResponse(f"{SITE}/maintenance", code)

    return answer


@pytest.mark.parametrize(
    ("otherwise", "held"),
    [(redirect(302), 0), (redirect(307), 0), (redirect(301), 30), (down, 29),
     (lambda _: Response(status_code=404), 30), (lambda _: Response(status_code=410), 30)],
    ids=["302", "307", "301", "equal", "404", "410"],
)  # fmt: skip
async def test_site_that_is_down_keeps_its_documents(sites, otherwise, held):
    """Whatever it answers meanwhile; what looks gone is counted, and deleted on demand only."""
    pages = {"/": html("Home", *(f"/{n}" for n in range(29)))}
    pages |= {f"/{n}": html(f"Page {n}") for n in range(29)}
    sites.site.pages = pages
    await sites.start()
    assert (await sites.crawl())["stored"] == 30
    kept = sites.documents.pages().keys()
    sites.site.pages, sites.site.otherwise = {}, otherwise
    report = await sites.crawl()
    assert kept <= sites.documents.pages().keys()
    assert (report.get("deleted", 0), report.get("held", 0)) == (0, held)
    assert ["allowDeletes" in note for note in report.get("notes", [])] == [True] * bool(held)
    report = await sites.crawl(allowDeletes=True)
    assert report.get("deleted", 0) == held
    sites.site.pages = pages
    await sites.crawl()
    assert pages.keys() <= sites.documents.pages().keys()


async def test_calls_over_a_part_of_a_site_delete_no_more_than_one_over_all_of_it(sites):
    """A site that answers 404 everywhere loses nothing call by call either."""
    sites.site.pages = {"/": html("Home", *(f"/{n}" for n in range(29)))}
    sites.site.pages |= {f"/{n}": html(f"Page {n}") for n in range(29)}
    await sites.start()
    await sites.crawl()
    sites.site.pages = {}
    cursor = {}
    for _ in range(4):
        report = await sites.crawl(maxPages=10, **cursor)
        cursor = {"cursor": report["cursor"]} if "cursor" in report else {}
    assert len(sites.documents.pages()) == 30


async def test_redirect_that_is_temporary_or_leads_to_a_failure_moves_no_page(sites):
    """The document stays at the address that the site still uses."""
    sites.site.pages = {
        "/": html("Home", "/a", "/b", "/c"), "/a": html("A"), "/b": html("B"), "/c": html("C"),
    }  # fmt: skip
    await sites.start()
    await sites.crawl()
    sites.site.pages |= {
        "/a": lambda _: RedirectResponse(f"{SITE}/new", 302), "/new": html("New"),
        "/b": lambda _: RedirectResponse(f"{SITE}/lost", 301),
        "/lost": lambda _: Response(status_code=500),
        "/c": lambda _: RedirectResponse(f"{SITE}/step", 308),
        "/step": lambda _: RedirectResponse(f"{SITE}/new", 307),
    }  # fmt: skip
    report = await sites.crawl()
    assert report.get("deleted", 0) == 0
    assert sites.documents.pages() == {"/": "Home", "/a": "A", "/b": "B", "/c": "C", "/new": "New"}


async def test_page_that_got_the_text_of_another_is_deleted_at_the_end(sites):
    """Once the other page is sure to have it; the text that it had may be another page's."""
    sites.site.pages = {
        "/": html("Home", "/a", "/b"), "/a": html("A"), "/b": html("B"),
    }  # fmt: skip
    await sites.start()
    await sites.crawl()
    sites.site.pages["/b"] = html("A")
    report = await sites.crawl()
    assert (report["duplicates"], report["deleted"]) == (1, 1)
    assert sites.documents.pages() == {"/": "Home", "/a": "A"}


async def test_duplicate_of_a_page_that_cannot_be_stored_is_not_deleted(sites):
    """Its text would be nowhere."""
    sites.site.pages = {"/": html("Home", "/b"), "/b": html("B")}
    await sites.start()
    await sites.crawl()
    sites.site.pages |= {"/": html("Home", "/a", "/b"), "/a": html("New"), "/b": html("New")}
    sites.site.gates["/b"] = asyncio.Event()
    sites.documents.refused = {f"{SITE}/a"}
    running = asyncio.create_task(sites.crawl())
    await until(lambda: sites.documents.refusals)
    sites.site.gates["/b"].set()
    assert (await running)["replaced"] == 1
    assert sites.documents.pages() == {"/": "Home", "/b": "New"}


async def test_interrupted_crawl_deletes_what_it_found_gone_when_it_goes_on(sites):
    """What was not deleted yet is visited again."""
    sites.site.pages = {"/": html("Home", *(f"/{n}" for n in range(5)))}
    sites.site.otherwise = lambda request: Response(html(request.url.path), media_type="text/html")
    await sites.start()
    await sites.crawl()
    sites.site.pages["/0"] = lambda _: Response(status_code=404)
    sites.site.gates["/3"] = asyncio.Event()
    running = asyncio.create_task(sites.crawl())
    await until(lambda: sites.site.calls["/4"] == 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert "/0" in sites.documents.pages()
    sites.site.gates["/3"].set()
    assert (await sites.crawl())["deleted"] == 1
    assert "/0" not in sites.documents.pages()


@pytest.mark.parametrize("target", ["http://127.0.0.1:8080/", "http://169.254.169.254/latest"])
async def test_redirect_to_a_private_address_is_not_followed(sites, target):
    """The guard of all pages holds for crawls too."""
    sites.site.pages = {"/": html("Home", "/in"), "/in": lambda _: RedirectResponse(target)}
    await sites.start()
    report = await sites.crawl()
    assert report["stored"] == 1
    assert report["problems"][0]["status"] in ("blocked_by_policy", "other_site")


async def test_robots_are_obeyed_also_where_pages_for_people_need_not(sites):
    """And what a page itself asks of robots."""
    sites.site.robots = "User-agent: *\nDisallow: /private\n"
    sites.site.pages = {
        "/": html("Home", "/private", "/noindex", "/nofollow"),
        "/private": html("Private"),
        "/noindex": html("Hidden", "/behind", head='<meta name="robots" content="noindex">'),
        "/behind": html("Behind"),
        "/nofollow": html("Leaf", "/never", head='<meta name="robots" content="nofollow">'),
        "/never": html("Never"),
    }
    await sites.start(extract_robots=False)
    report = await sites.crawl(depth=3)
    assert sites.documents.pages() == {"/": "Home", "/behind": "Behind", "/nofollow": "Leaf"}
    assert {p["status"] for p in report["problems"]} == {"robots", "noindex"}
    assert {"/private", "/never"}.isdisjoint(sites.site.calls)


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
    await sites.start()
    await sites.crawl(depth=3)
    assert sites.documents.pages().keys() == stored


async def test_robots_that_hang_forbid_the_site(sites, monkeypatch):
    """After their time; no page is requested."""
    monkeypatch.setattr("searchbus_web.extraction.fetching._ROBOTS_TIMEOUT_S", 0.2)
    sites.site.gates["/robots.txt"] = asyncio.Event()
    sites.site.pages = {"/": html("Home")}
    await sites.start()
    report = await sites.crawl()
    assert [p["status"] for p in report["problems"]] == ["robots"]
    assert sites.site.calls.keys() == {"/robots.txt"}
    sites.site.gates["/robots.txt"].set()


async def test_maps_and_crawls_leave_room_for_searches(sites, monkeypatch):
    """A worker takes a part of its calls for what runs for minutes."""
    monkeypatch.setattr("searchbus_web.sites.tools.MAX_RUNNING", 2)
    sites.site.gates["/"] = asyncio.Event()
    sites.site.pages = {"/": html("Home")}
    await sites.start()
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
    await sites.start()
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
    await sites.start()
    report = await sites.crawl()
    assert (report["stored"], report["truncated"]) == (5, True)
    assert "cursor" not in report


async def test_site_that_refuses_is_left_alone(sites):
    """After three refusals in a row; the pages wait for the next call."""
    sites.site.pages = {"/": html("Home", *(f"/{n}" for n in range(9)))}
    sites.site.otherwise = lambda _: Response(status_code=429, headers={"retry-after": "0"})
    await sites.start()
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
    await sites.start()
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
    await sites.start()
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
    process = await sites.start()
    for name in ("web_crawls", "web_hosts"):
        (await process.bus.key_value(name, ttl_s=600.0, max_bytes=2**20)).away = True
    report = await sites.crawl(maxPages=3)
    assert report["stored"] == 3
    assert "cursor" not in report
    assert "store is away" in report["notes"][0]


async def test_documents_that_cannot_be_stored_end_the_crawl(sites):
    """With the failure of the retrieval service; the next call goes on."""
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A")}
    await sites.start()
    sites.documents.failures = [Fault("storage_full", "The disk is full.")]
    with pytest.raises(Fault, match="disk is full"):
        await sites.crawl()
    assert (await sites.crawl())["stored"] == 2


async def test_crawl_waits_for_a_retrieval_service_that_is_away(sites):
    """For a while; no page is lost."""
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A")}
    await sites.start()
    sites.documents.failures = [Fault("unavailable", "Away.") for _ in range(2)]
    assert (await sites.crawl())["stored"] == 2


@pytest.mark.parametrize("roles", [(), (ROLE,), (OPERATOR_ROLE,)])
async def test_crawl_needs_the_role_of_those_who_store_documents(sites, roles):
    """And that of web search; nothing is fetched without both."""
    sites.site.pages = {"/": html("Home")}
    await sites.start()
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
    await sites.start()
    with pytest.raises(Fault) as caught:
        await sites.crawl(**arguments)
    assert caught.value.code == "invalid_argument"
    assert field in str(caught.value)
    assert not sites.site.calls


async def test_progress_tells_each_page(sites):
    """As events of the call."""
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A")}
    await sites.start()
    events = []
    await sites.crawl(on_event=events.append)
    assert [(e.progress, e.total) for e in events] == [(1, 50), (2, 50)]
    assert events[0].message == f"stored: {SITE}/"


async def test_crawl_delay_of_the_site_is_kept_up_to_a_limit(sites, monkeypatch):
    """The pace is that of the longer of both delays."""
    rates = []
    original = "searchbus_web.sites.politeness.SharedPace"
    from searchbus_upstream import SharedPace

    def pace(kv, key, *, rate_per_s, name):
        rates.append(rate_per_s)
        return SharedPace(None, key, rate_per_s=0, name=name)

    monkeypatch.setattr(original, pace)
    sites.site.pages = {"/": html("Home")}
    for delay, rate in (("0.1", 1 / 0.5), ("4", 1 / 4), ("1e9", 1 / 30), ("nan", 1 / 0.5)):
        sites.site.robots = f"User-agent: *\nCrawl-delay: {delay}\n"
        rates.clear()
        process = await sites.start(crawl_delay_s=0.5)
        await sites.crawl()
        assert rates[0] == rate, delay
        await process.drain()


async def test_answer_without_a_body_that_nobody_asked_for_is_a_failure(sites):
    """A page that is not known cannot be unchanged."""
    sites.site.pages = {"/": lambda _: Response(status_code=304)}
    await sites.start()
    report = await sites.crawl()
    assert (report["failed"], report.get("unchanged", 0)) == (1, 0)
    assert report["problems"][0]["status"] == "http_304"


async def test_crawl_shares_the_cache_of_pages_and_not_its_rules(sites):
    """A page that was read is not fetched again; what a crawl refuses is no answer for others."""
    sites.site.pages = {
        "/": html("Home", "/away"), "/away": lambda _: RedirectResponse("http://www.example.net/x"),
        "/x": html("X"),
    }  # fmt: skip
    await sites.start()
    read = {"toolset": "pages", "urls": [f"{SITE}/", f"{SITE}/away"]}
    crawl, items = await asyncio.gather(
        sites.crawl(maxAgeS=600), sites.web.call("read_page", **read)
    )
    assert crawl["problems"][0]["status"] == "other_site"
    assert [item["status"] for item in items["items"]] == ["ok", "ok"]
    before = sites.site.calls["/"]
    assert (await sites.crawl(collection="other", maxAgeS=600))["stored"] == 1
    assert sites.site.calls["/"] == before
