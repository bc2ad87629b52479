"""map_site over the bus, against a made-up site."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from starlette.responses import Response

from searchbus_contracts import Fault
from searchbus_web.sites import mapping, tools
from searchbus_web.sites.scope import ADDRESSES_A_TURN

from .conftest import SITE, html, most_in_a_turn


def sitemap(*urls: str, kind: str = "url", modified: str = "") -> str:
    """A sitemap, or an index where the kind is sitemap."""
    root = "urlset" if kind == "url" else "sitemapindex"
    lastmod = f"<lastmod>{modified}</lastmod>" if modified else ""
    entries = "".join(f"<{kind}><loc>{url}</loc>{lastmod}</{kind}>" for url in urls)
    return f'<{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</{root}>'


def found(answer) -> list[str]:
    """The paths of an answer."""
    return [a["url"].removeprefix(SITE) for a in answer["addresses"]]


async def test_sitemaps_and_links_are_joined(sites):
    """Of robots.txt, of an index and in gzip; then links, breadth first; each address once."""
    sites.site.robots = f"Sitemap: {SITE}/index.xml\n"
    sites.site.pages = {
        "/index.xml": sitemap(f"{SITE}/one.xml", f"{SITE}/two.xml.gz", kind="sitemap"),
        "/one.xml": sitemap(f"{SITE}/a", f"{SITE}/b", modified="2026-03-01"),
        "/two.xml.gz": lambda _: Response(gzip.compress(sitemap(f"{SITE}/c").encode()),
                                          media_type="application/gzip"),
        "/": html("Home", "/a", "/d"), "/d": html("D", "/e"), "/e": html("E", "/f"),
    }  # fmt: skip
    answer = await sites.map(depth=2)
    assert found(answer) == ["/a", "/b", "/c", "/", "/d", "/e"]
    assert [a["origin"] for a in answer["addresses"]] == ["sitemap"] * 3 + ["link"] * 3
    assert answer["addresses"][0]["lastModified"] == "2026-03-01"
    assert answer["addresses"][4] == {
        "url": f"{SITE}/d", "origin": "link", "text": "to /d", "depth": 1,
    }  # fmt: skip
    assert (answer["total"], answer.get("truncated", False)) == (6, False)


async def test_answer_is_bounded_and_goes_on_with_its_cursor(sites):
    """By number and by tokens; the site is read once for all of its pages."""
    sites.site.pages = {"/sitemap.xml": sitemap(*(f"{SITE}/page/{n}" for n in range(300)))}
    paths, cursor, answers = [], {}, 0
    while True:
        answer = await sites.map(depth=0, maxPages=100, maxTokens=1500, **cursor)
        paths += found(answer)
        answers += 1
        if "cursor" not in answer:
            break
        cursor = {"cursor": answer["cursor"]}
    assert paths == [f"/page/{n}" for n in range(300)]
    assert answers > 3
    assert sites.site.calls["/sitemap.xml"] == 1
    with pytest.raises(Fault, match="maxTokens"):
        await sites.map(depth=0, maxTokens=50)


async def test_addresses_with_the_words_of_the_query_come_first(sites):
    """Words of the address and of the link."""
    sites.site.pages = {
        "/sitemap.xml": sitemap(*(f"{SITE}/news/{n}" for n in range(30)), f"{SITE}/plans-prices"),
    }  # fmt: skip
    answer = await sites.map(depth=0, query="what are the prices of the plans", maxPages=2)
    assert found(answer)[0] == "/plans-prices"


async def test_sitemaps_and_addresses_of_others_are_left_out(sites):
    """Of other sites, private addresses, other schemes; none of them is requested."""
    sites.site.robots = (
        "Sitemap: http://www.example.net/sitemap.xml\nSitemap: http://127.0.0.1/sitemap.xml\n"
        f"Sitemap: {SITE}/mine.xml\nSitemap: file:///etc/passwd\n"
    )
    sites.site.pages = {"/mine.xml": sitemap(
        "http://10.0.0.1/", "http://[::1]/", "file:///etc/passwd", "http://www.example.net/x",
        "http://user@www.example.org.evil.example.com/", "not an address", f"{SITE}/good",
    )}  # fmt: skip
    answer = await sites.map(depth=0)
    assert found(answer) == ["/good"]
    assert len(answer["notes"]) == 3
    assert all("another site" in note for note in answer["notes"])
    assert sites.site.calls.keys() == {"/robots.txt", "/mine.xml"}


async def test_nesting_and_number_of_sitemaps_are_bounded(sites):
    """An index that lists itself, one that goes on and on, and one with thousands."""
    sites.site.robots = f"Sitemap: {SITE}/i/0.xml\n"

    def index(request):
        number = int(request.url.path[3:-4])
        more = [f"{SITE}/i/{number}.xml", *(f"{SITE}/i/{number * 50 + n}.xml" for n in range(50))]
        return Response(sitemap(*more, kind="sitemap"), media_type="text/xml")

    sites.site.otherwise = index
    answer = await sites.map(depth=0)
    assert answer["truncated"]
    assert sites.site.calls.total() <= mapping.MAX_SITEMAPS + 1


async def test_robots_forbid_pages_and_sitemaps(sites):
    """A page that may not be fetched is listed where a page links to it, and is not read."""
    sites.site.robots = f"User-agent: *\nDisallow: /private\nSitemap: {SITE}/private/map.xml\n"
    sites.site.pages = {
        "/": html("Home", "/private/a"), "/private/map.xml": sitemap(f"{SITE}/x"),
    }  # fmt: skip
    answer = await sites.map(depth=3)
    assert found(answer) == ["/", "/private/a"]
    assert sites.site.calls.keys() == {"/robots.txt", "/"}
    assert "robots.txt" in answer["notes"][0]


@pytest.mark.parametrize("size_bytes", [9 * 2**20, 50 * 2**20])
async def test_sitemap_that_is_too_large_is_named(sites, size_bytes):
    """Without compression it is not read to its end."""
    sites.site.pages = {"/sitemap.xml": b"<urlset>" + b" " * size_bytes, "/": html("Home", "/a")}
    answer = await sites.map()
    assert found(answer) == ["/", "/a"]
    assert "8 MiB" in answer["notes"][0]
    assert answer["truncated"]


async def test_hostile_sitemaps_stop_nobody(sites_with_processes):
    """Entities, a bomb in gzip, and elements without end; in the processes that parse pages."""
    sites = sites_with_processes
    lol = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
    bombs = {
        "/laughs.xml": f'<!DOCTYPE u [<!ENTITY l0 "ha">{lol}]><urlset><url><loc>{SITE}/&l9;</loc></url></urlset>',
        "/file.xml": f'<!DOCTYPE u [<!ENTITY f SYSTEM "file:///etc/passwd">]><urlset><url><loc>{SITE}/&f;</loc></url></urlset>',
        "/bomb.xml": lambda _: Response(gzip.compress(b"<urlset>" + b" " * (300 * 2**20), 1)),
        "/deep.xml": "<a>" * 2_000_000,
        "/many.xml": sitemap(*(f"{SITE}/p/{n}" for n in range(60_000))),
    }  # fmt: skip
    sites.site.robots = "".join(f"Sitemap: {SITE}{path}\n" for path in bombs)
    sites.site.pages = bombs
    await sites.start(extract_page_timeout_s=60.0)
    answer = await sites.map(depth=0, maxPages=5, timeout_s=200.0)
    assert (len(found(answer)), answer["total"]) == (5, mapping.MAX_ADDRESSES)
    assert answer["truncated"]
    notes = "\n".join(answer["notes"])
    for path in ("/laughs.xml", "/file.xml"):
        assert f"{SITE}{path}: It is no sitemap" in notes


async def test_endless_links_end_at_the_limits(sites):
    """A calendar of links: a number of pages is read, and the answer says so."""
    sites.site.otherwise = lambda request: Response(
        html(request.url.path, *(f"{request.url.path}/{n}" for n in range(100))),
        media_type="text/html",
    )
    answer = await sites.map("/", depth=3)
    assert answer["truncated"]
    assert answer["total"] <= mapping.MAX_ADDRESSES
    assert sites.site.calls.total() <= mapping.MAX_MAP_PAGES + 2


@pytest.mark.parametrize("depth", [0, 1])
async def test_few_addresses_are_looked_at_in_one_turn_of_the_loop(sites, monkeypatch, depth):
    """Of a sitemap and of a page: with the globs of a caller each takes up to 2 ms."""
    paths = [f"/{n}" for n in range(300)]
    sites.site.pages = {"/": html("Home", *paths)} if depth else {
        "/sitemap.xml": sitemap(*(f"{SITE}{path}" for path in paths))
    }  # fmt: skip
    mapping_it = sites.map(depth=depth, exclude=["*a*b*"])
    most = await most_in_a_turn(mapping_it, monkeypatch)
    assert 0 < most <= 2 * ADDRESSES_A_TURN
    assert set(paths) <= set(found(await sites.map(depth=depth, maxPages=500, exclude=["*a*b*"])))


async def test_map_that_the_limits_have_cut_is_kept(sites, monkeypatch):
    """Nobody would get more of it."""
    monkeypatch.setattr(mapping, "MAX_MAP_PAGES", 1)
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A", "/b"), "/b": html("B")}
    for _ in range(2):
        assert (await sites.map(depth=2))["truncated"]
    assert sites.site.calls["/"] == 1


@pytest.mark.parametrize("refusing", ["/a", "/sitemap.xml"])
async def test_map_that_a_refusal_has_cut_is_not_kept(sites, refusing):
    """The next caller gets the whole map."""
    pages = {
        "/sitemap.xml": sitemap(f"{SITE}/s"), "/": html("Home", "/a"), "/a": html("A", "/b"),
        "/b": html("B"),
    }  # fmt: skip
    sites.site.pages = pages | {
        refusing: lambda _: Response(status_code=429, headers={"retry-after": "0"})
    }
    answer = await sites.map(depth=2)
    assert answer["truncated"]
    sites.site.pages = pages
    answer = await sites.map(depth=2)
    assert (found(answer), answer.get("truncated", False)) == (["/s", "/", "/a", "/b"], False)


async def test_map_that_the_time_of_its_caller_has_cut_is_not_kept(sites, monkeypatch):
    """The next caller has more time."""
    monkeypatch.setattr(tools, "_RESERVE_SHARE", 0.7)  # for the reply on a busy machine
    sites.site.gates["/a"] = asyncio.Event()
    sites.site.pages = {"/": html("Home", "/a"), "/a": html("A", "/b"), "/b": html("B")}
    answer = await sites.map(depth=2, timeout_s=15.0)
    assert (found(answer), answer["truncated"]) == (["/", "/a"], True)
    sites.site.gates["/a"].set()
    answer = await sites.map(depth=2)
    assert (found(answer), answer.get("truncated", False)) == (["/", "/a", "/b"], False)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "ftp://www.example.org/", "nothing", "http://[", "http://10.1/"]
)
async def test_start_that_is_not_of_the_public_web_is_refused(sites, url):
    """It names the field."""
    with pytest.raises(Fault, match="url"):
        await sites.web.call("map_site", toolset="sites", url=url)


async def test_caller_without_the_role_fetches_nothing(sites):
    """Checked by the worker itself."""
    with pytest.raises(Fault) as caught:
        await sites.map(roles=())
    assert caught.value.code == "forbidden"
    assert not sites.site.calls
