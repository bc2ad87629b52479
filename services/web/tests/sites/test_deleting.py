"""Documents of pages that are gone, have moved, or whose site is out of order."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import RedirectResponse, Response

from searchbus_testing import until
from searchbus_web.sites.documents import SiteDocuments

from .conftest import SITE, html


async def test_pages_that_are_gone_are_deleted(sites):
    """Also where no page links to them any more; other documents of the collection stay."""
    sites.site.pages = {
        "/": html("Home", "/a", "/b"), "/a": html("A"), "/b": html("B"),
    }  # fmt: skip
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
    await sites.crawl()
    sites.site.pages["/a"] = lambda _: Response(status_code=500)
    report = await sites.crawl()
    assert report["failed"] == 1
    assert report["problems"][0]["status"] == "http_500"
    assert sites.documents.pages() == {"/": "Home", "/a": "A"}


async def test_page_that_moved_is_stored_at_its_new_address(sites):
    """A redirect to another site is not followed."""
    sites.site.pages = {
        "/": html("Home", "/old", "/away"), "/old": html("Old"), "/away": html("Away"),
    }  # fmt: skip
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
    await sites.crawl()
    sites.site.pages["/b"] = html("A")
    report = await sites.crawl()
    assert (report["duplicates"], report["deleted"]) == (1, 1)
    assert sites.documents.pages() == {"/": "Home", "/a": "A"}


async def test_duplicate_of_a_page_that_cannot_be_stored_is_not_deleted(sites):
    """Its text would be nowhere."""
    sites.site.pages = {"/": html("Home", "/b"), "/b": html("B")}
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


async def test_deleting_no_page_sends_no_request():
    """One without ids would delete the whole collection."""
    documents = SiteDocuments(None, None, "c", "example.org", lambda: 1.0)
    assert await documents.delete([]) == 0
