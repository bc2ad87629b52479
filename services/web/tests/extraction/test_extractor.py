"""Several pages at once, each with its own status."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import SharedCache
from searchbus_web.extraction.extractor import Extractor
from searchbus_web.extraction.fetching import FetchedPage, NotFetched
from searchbus_web.extraction.reading import PageText
from searchbus_web.providers.tavily import Extracted


class FakeFetcher:
    """Every URL is a page, but those whose path names a failure."""

    def __init__(self) -> None:
        self.fetched: list[str] = []

    async def fetch(self, url: str, *, timeout_s: float, caller: str = "") -> FetchedPage:
        self.fetched.append(url)
        await asyncio.sleep(0.01)
        name = url.rpartition("/")[2]
        if name == "hang":
            await asyncio.sleep(3600)
        if name in ("challenge", "robots", "http_404"):
            raise NotFetched(name, f"{name} it is.")
        return FetchedPage(url, name.encode(), "text/plain", None)


class FakePool:
    """The text of a page is its name; `encrypted` has none."""

    async def read(self, page, *, caller="") -> PageText:
        name = page.body.decode()
        if page.media_type == "text/markdown":
            return PageText(name)
        return PageText(problem=name) if name == "encrypted" else PageText(f"Text of {name}.")


class FakeTavily:
    """Reads every page, or fails."""

    usable = True

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        self.urls: list[str] = []

    async def extract(self, urls, *, timeout_s):
        self.urls += urls
        if self.fault is not None:
            raise self.fault
        return [Extracted(url, f"Tavily read {url}.") for url in urls]


def extractor_of(*, tavily=None, cache=None) -> tuple[Extractor, FakeFetcher]:
    fetcher = FakeFetcher()
    return Extractor(fetcher, FakePool(), cache or SharedCache(), tavily=tavily), fetcher


async def statuses(extractor: Extractor, *names: str, timeout_s: float = 60.0) -> list[str]:
    pages = await extractor.extract([f"http://a.org/{name}" for name in names], timeout_s=timeout_s)
    assert [page.url for page in pages] == [f"http://a.org/{name}" for name in names]
    return [page.status for page in pages]


async def test_pages_are_in_order_and_fetched_once():
    """A failure of one does not concern the others."""
    extractor, fetcher = extractor_of()
    found = await statuses(extractor, "one", "http_404", "one", "encrypted")
    assert found == ["ok", "http_404", "ok", "encrypted"]
    assert sorted(fetcher.fetched) == [
        f"http://a.org/{n}" for n in ("encrypted", "http_404", "one")
    ]


async def test_failure_has_a_message_and_no_content():
    """The message is that of the fetch or of the parser."""
    extractor, _ = extractor_of()
    urls = ["http://a.org/robots", "http://a.org/encrypted"]
    robots, encrypted = await extractor.extract(urls, timeout_s=60.0)
    assert (robots.text, robots.message) == ("", "robots it is. Use another page.")
    assert (encrypted.text, encrypted.message) == ("", "The PDF is encrypted. Use another page.")


async def test_texts_are_cached_and_failures_are_not():
    """The next request tries again."""
    extractor, fetcher = extractor_of()
    for _ in range(2):
        await statuses(extractor, "one", "http_404")
    assert fetcher.fetched.count("http://a.org/one") == 1
    assert fetcher.fetched.count("http://a.org/http_404") == 2


async def test_failure_is_shared_by_replicas_that_wait_for_it():
    """With its status and message."""
    buckets = MemoryKeyValue(ttl_s=60), MemoryKeyValue(ttl_s=20)
    replicas = [extractor_of(cache=SharedCache(*buckets)) for _ in range(3)]
    found = await asyncio.gather(*(statuses(extractor, "robots") for extractor, _ in replicas))
    assert found == [["robots"]] * 3
    assert sum(len(fetcher.fetched) for _, fetcher in replicas) == 1


@pytest.mark.slow
async def test_slow_page_ends_at_the_deadline():
    """The others are returned with it."""
    extractor, _ = extractor_of()
    assert await statuses(extractor, "hang", "one", timeout_s=1.5) == ["timeout", "ok"]


async def test_start_beyond_the_text_is_refused():
    """The message says how long the text is."""
    extractor, _ = extractor_of()
    url = "http://a.org/one#searchbus-start="
    rest, beyond = await extractor.extract([f"{url}5", f"{url}500"], timeout_s=60.0)
    assert (rest.text[rest.start :], rest.page_url) == ("of one.", "http://a.org/one")
    assert (beyond.status, beyond.message) == (
        "invalid_url",
        "The text has only 12 characters. Start before its end.",
    )


async def test_tavily_extracts_some_failed_pages():
    """Not those that the site forbids or does not have."""
    tavily = FakeTavily()
    extractor, _ = extractor_of(tavily=tavily)
    found = await statuses(extractor, "challenge", "robots", "http_404", "one")
    assert found == ["ok", "robots", "http_404", "ok"]
    assert tavily.urls == ["http://a.org/challenge"]


@pytest.mark.parametrize("usable", [True, False])
async def test_failure_of_tavily_leaves_the_status(usable):
    """Also while its key is cooling down."""
    tavily = FakeTavily(Fault(ErrorCode.QUOTA_EXHAUSTED, "used up"))
    tavily.usable = usable
    extractor, _ = extractor_of(tavily=tavily)
    assert await statuses(extractor, "challenge") == ["challenge"]
    assert len(tavily.urls) == usable
