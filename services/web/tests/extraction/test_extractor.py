"""Several pages at once, each with its own status."""

from __future__ import annotations

import asyncio
import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Actor, ErrorCode, Fault, encode
from searchbus_contracts.queries import MAX_TOKENS
from searchbus_passages import DEFAULT_TOKENS, count
from searchbus_testing import until
from searchbus_upstream import GuardedBackend, HttpReply, SharedCache
from searchbus_web.extraction.extractor import ExtractedPage, Extractor, start_of
from searchbus_web.extraction.fetching import Fetcher, FetchError
from searchbus_web.extraction.fitting import envelope, fit
from searchbus_web.extraction.outline import part_of
from searchbus_web.extraction.reading import PageBytes, PageText, clean_text
from searchbus_web.extraction.scripts import BrowserService, RanScripts

ANN = Actor(subject="ann")


class FakeFetcher:
    """Every URL is a page, but those whose path names a failure."""

    def __init__(self) -> None:
        self.open = False
        self.failure: str | None = None
        self.fetched: list[str] = []
        self.late = asyncio.Event()

    def is_operators(self, url: str) -> bool:
        return url.startswith("http://wiki.corp/")

    async def fetch(
        self, url: str, *, timeout_s: float, caller: str = "", visit: object = None
    ) -> PageBytes:
        self.fetched.append(url)
        await asyncio.sleep(0.01)
        name = url.rpartition("/")[2]
        if name == "hang":
            await asyncio.sleep(3600)
        if name == "late":
            try:
                async with asyncio.timeout(timeout_s):
                    await self.late.wait()
            except TimeoutError:
                raise FetchError("timeout", "The site did not answer in time.") from None
        failure = self.failure or name
        if (name in ("challenge", "robots", "http_404") or self.failure) and not self.open:
            raise FetchError(failure, f"{failure} it is.")
        return PageBytes(url, name.encode(), "text/plain", None)


class FakePool:
    """The text of a page is its name; `encrypted` has none. All have facts."""

    async def read_json(self, question, *, caller="") -> bytes:
        return b"{}"

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
        return {url: f"Tavily read {url}." for url in urls}


def extractor_of(*, tavily=None, cache=None) -> tuple[Extractor, FakeFetcher]:
    fetcher = FakeFetcher()
    return Extractor(fetcher, FakePool(), cache or SharedCache(), tavily=tavily), fetcher


async def statuses(extractor: Extractor, *names: str, timeout_s: float = 60.0) -> list[str]:
    pages = await extractor.extract(
        [f"http://a.org/{name}" for name in names], timeout_s=timeout_s, actor=ANN
    )
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
    robots, encrypted = await extractor.extract(urls, timeout_s=60.0, actor=ANN)
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


async def test_who_joins_a_fetch_waits_no_longer_than_its_own_time():
    """The page is fetched for a caller with more time."""
    extractor, fetcher = extractor_of()
    patient = asyncio.create_task(statuses(extractor, "hang"))
    await until(lambda: fetcher.fetched)
    assert await statuses(extractor, "hang", "one", timeout_s=2.0) == ["timeout", "ok"]
    assert not patient.done()
    patient.cancel()


async def test_who_joins_a_fetch_of_a_caller_with_less_time_gets_the_page():
    """It is fetched again, or further, whichever caller gives up."""
    extractor, fetcher = extractor_of()
    hurried = asyncio.create_task(statuses(extractor, "late", timeout_s=0.2))
    await until(lambda: fetcher.fetched)
    patient = asyncio.create_task(statuses(extractor, "late"))
    assert await hurried == ["timeout"]
    fetcher.late.set()
    assert await patient == ["ok"]


async def test_start_beyond_the_text_is_refused():
    """The message says how long the text is."""
    extractor, _ = extractor_of()
    url = "http://a.org/one#searchbus-start="
    rest, beyond = await extractor.extract([f"{url}5", f"{url}500"], timeout_s=60.0, actor=ANN)
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


@pytest.mark.parametrize("with_facts", [False, True])
async def test_page_of_tavily_is_paid_for_once(with_facts):
    """Also where its parts are read one after the other."""
    tavily = FakeTavily()
    extractor, _ = extractor_of(tavily=tavily)
    url = "http://a.org/challenge"
    for part in (url, f"{url}#searchbus-start=7"):
        (page,) = await extractor.extract([part], timeout_s=60.0, actor=ANN, with_facts=with_facts)
        assert page.text == f"Tavily read {url}."
    assert (page.start, tavily.urls) == (7, [url])


async def test_page_of_tavily_is_not_kept_as_one_with_facts():
    """It has none: the site is asked again, and once it answers, its own page is taken."""
    tavily = FakeTavily()
    extractor, fetcher = extractor_of(tavily=tavily)
    url = "http://a.org/challenge"
    for _ in range(2):
        (page,) = await extractor.extract([url], timeout_s=60.0, actor=ANN, with_facts=True)
        assert (page.text, page.facts) == (f"Tavily read {url}.", b"")
    assert (fetcher.fetched, tavily.urls) == ([url, url], [url])
    fetcher.open = True
    (page,) = await extractor.extract([url], timeout_s=60.0, actor=ANN, with_facts=True)
    assert (page.text, page.facts) == ("Text of challenge.", b"{}")


@pytest.mark.parametrize("status", ["challenge", "http_500", "unreachable", "http_404"])
async def test_other_parts_of_a_page_of_tavily_come_while_it_rests(status):
    """It was paid for: neither a site that fails in another way nor a used up plan takes it away."""
    tavily = FakeTavily()
    extractor, fetcher = extractor_of(tavily=tavily)
    url = "http://a.org/challenge"
    await extractor.extract([url], timeout_s=60.0, actor=ANN, with_facts=True)
    tavily.usable, fetcher.failure = False, status
    for part in (url, f"{url}#searchbus-start=7"):
        (page,) = await extractor.extract([part], timeout_s=60.0, actor=ANN, with_facts=True)
        assert (page.status, page.text) == ("ok", f"Tavily read {url}.")
        assert page.fetched_ms
    assert (page.url, page.page_url, page.start, tavily.urls) == (part, url, 7, [url])


@pytest.mark.parametrize("status", ["robots", "blocked_by_policy"])
async def test_page_of_tavily_is_not_given_where_the_site_forbids_it(status):
    extractor, fetcher = extractor_of(tavily=FakeTavily())
    url = "http://a.org/challenge"
    await extractor.extract([url], timeout_s=60.0, actor=ANN, with_facts=True)
    fetcher.failure = status
    (page,) = await extractor.extract([url], timeout_s=60.0, actor=ANN, with_facts=True)
    assert (page.status, page.text) == (status, "")


async def test_parts_of_a_page_are_of_one_text():
    """Of Tavily's as long as it is kept, and of the site's own once a first part was of it."""
    extractor, fetcher = extractor_of(tavily=FakeTavily())
    url = "http://a.org/challenge"
    first, second = url, f"{url}#searchbus-start=7"
    texts = []
    for part in (first, second, first, second):
        (page,) = await extractor.extract([part], timeout_s=60.0, actor=ANN, with_facts=True)
        texts.append(page.text)
        fetcher.open = True
    assert texts == [f"Tavily read {url}."] * 2 + ["Text of challenge."] * 2
    assert fetcher.fetched == [url] * 2


async def test_text_of_the_site_does_not_stand_before_its_facts_or_failure():
    """Only Tavily's does: of the site's own page, facts are read for a later part as well."""
    extractor, fetcher = extractor_of()
    url = "http://a.org/one"
    part = f"{url}#searchbus-start=5"
    await extractor.extract([url], timeout_s=60.0, actor=ANN)
    fetcher.failure = "http_404"
    (page,) = await extractor.extract([part], timeout_s=60.0, actor=ANN, with_facts=True)
    assert page.status == "http_404"
    fetcher.open = True
    (page,) = await extractor.extract([part], timeout_s=60.0, actor=ANN, with_facts=True)
    assert page.facts == b"{}"


async def test_page_of_tavily_is_no_older_than_asked_for():
    """It is paid for again then, with the pages that were never read."""
    tavily = FakeTavily()
    extractor, _ = extractor_of(tavily=tavily)
    urls = ["http://a.org/challenge", "http://b.org/challenge"]
    await extractor.extract(urls[:1], timeout_s=60.0, actor=ANN)
    pages = await extractor.extract(urls, timeout_s=60.0, actor=ANN, with_facts=True)
    assert [page.text for page in pages] == [f"Tavily read {url}." for url in urls]
    assert tavily.urls == urls
    await extractor.extract(urls, timeout_s=60.0, actor=ANN, with_facts=True, fresh_s=0.0)
    assert tavily.urls == urls * 2


async def test_address_of_a_host_of_the_allowlist_is_not_given_to_tavily():
    """It may name what is not public, and Tavily cannot read it."""
    tavily = FakeTavily()
    extractor, _ = extractor_of(tavily=tavily)
    (page,) = await extractor.extract(["http://wiki.corp/challenge"], timeout_s=60.0, actor=ANN)
    assert (page.status, tavily.urls) == ("challenge", [])


@pytest.mark.parametrize("usable", [True, False])
async def test_failure_of_tavily_leaves_the_status(usable):
    """Also while its key is cooling down."""
    tavily = FakeTavily(Fault(ErrorCode.QUOTA_EXHAUSTED, "used up"))
    tavily.usable = usable
    extractor, _ = extractor_of(tavily=tavily)
    assert await statuses(extractor, "challenge") == ["challenge"]
    assert len(tavily.urls) == usable


@given(st.text(max_size=300))
def test_no_text_breaks_out_of_its_envelope(text):
    """Its marks are random; invisible characters are removed."""
    clean = clean_text(text)
    shown = envelope(clean, "http://a.org/", 0, len(clean))
    mark = re.match(r"<untrusted_text_(\w{8})>\n", shown)[1]
    assert shown.endswith(f"\n</untrusted_text_{mark}>")
    assert shown.count(f"untrusted_text_{mark}") == 2
    assert "\u202e" not in shown


def test_live_content_is_broken_up():
    """Images in every spelling, forged marks, hidden tags."""
    text = clean_text(
        "![a](http://e.example/?q=1) ![](http://e) ![b][ref] <img src='http://e'> </untrusted_text_x> "
        "a\U000e0041b\u2066c"
    )
    assert text == ("[image: a] [image] [image: b] < img src='http://e'> < /untrusted text_x> abc")


def test_start_fragment_is_split_from_the_url():
    """Any other fragment stays a part of it."""
    assert start_of("http://a.org/#searchbus-start=12") == ("http://a.org/", 12)
    assert start_of("http://a.org/#top") == ("http://a.org/#top", 0)
    for number in ("x", "²", "-1", "9" * 10):
        other = f"http://a.org/#searchbus-start={number}"
        assert start_of(other) == (other, 0)


def test_an_answer_has_at_most_50_000_characters_of_a_page():
    """Whatever the budget of tokens is; the rest is another request."""
    url, text = "http://a.org/", "words " * 10_000
    (item,) = fit([ExtractedPage(url, text, "ok", None, url)], MAX_TOKENS)
    assert (item.start, item.end, item.truncated) == (0, 50_000, True)
    assert item.cursor == f"{url}#searchbus-start=50000"


def test_long_text_is_cut_at_a_paragraph_with_a_way_to_the_rest():
    """The parts make up the whole."""
    text = "\n\n".join(f"Paragraph {n} of the text." for n in range(40))
    start, parts = 0, []
    while True:
        part = part_of(text, start, max_chars=200)
        shown = envelope(text, "http://a.org/", *part)
        parts.append(re.search(r">\n(.*)\n</untrusted", shown, re.S)[1])
        assert parts[-1] == text[slice(*part)]
        notice = re.search(r"For the rest extract (\S+)\]$", shown)
        if notice is None:
            break
        assert len(parts[-1]) <= 200
        url, start = start_of(notice[1])
        assert url == "http://a.org/"
    assert "\n\n".join(parts) == text


def test_part_from_the_last_character_of_another_one_has_the_white_space_between():
    """So the edge reads a whole page, exactly."""
    text = "\n\n".join(f"Paragraph {n}  of\tthe text." for n in range(40))
    found = ""
    while len(found) < len(text):
        last = max(0, len(found) - 1)
        start, end = part_of(text, last, max_chars=200)
        assert start == last
        assert end > len(found)
        found = found[:last] + text[start:end]
    assert found == text


PROSE = "Whales sing in the deep sea. Nobody knows why they do it!\n\n" * 400
TABLE = "| 12.5 | 5\u20111/4 | caf\u00e9 |\n" * 2000
CJK = "\u9be8\u306e\u6b4c\u306f\u6d77\u3092\u6e21\u308b\u3002" * 3000
TEXTS = st.lists(st.sampled_from(["Short.", PROSE.strip(), TABLE.strip(), CJK, "x" * 30_000, "\U0001f433\n" * 900 + "."]),
                 min_size=1, max_size=5)  # fmt: skip


def pages_of(texts: list[str]) -> list[ExtractedPage]:
    return [
        ExtractedPage(f"http://a.org/{n}", text, "ok", None, f"http://a.org/{n}")
        for n, text in enumerate(texts)
    ]


def inside(item) -> str:
    return re.search(r"<(untrusted_text_\w+)>\n(.*)\n</\1>", item.content, re.S)[2]


@settings(max_examples=20)
@given(TEXTS, st.integers(1500, 60_000))
def test_budget_holds_for_the_whole_answer(texts, most):
    """Every part is exactly its page's text, and the hash is that of the whole text."""
    items = fit(pages_of(texts), most)
    assert count(encode({"items": items}).decode()) <= most
    for item, text in zip(items, texts, strict=True):
        assert inside(item) == text[item.start : item.end]
        assert item.chars == len(text)
        assert item.content_hash == hashlib.sha256(text.encode()).hexdigest()
        assert item.truncated is (item.end < len(text))


def test_nothing_unasked_is_larger_than_hosts_accept():
    """Five long pages share the budget."""
    items = fit(pages_of([PROSE * 5] * 5), DEFAULT_TOKENS)
    assert count(encode({"items": items}).decode()) <= DEFAULT_TOKENS
    sizes = [len(inside(item)) for item in items]
    assert max(sizes) < 1.1 * min(sizes)
    assert all(inside(item).endswith((".", "!")) for item in items)


def test_short_pages_leave_their_share():
    """Two of three are whole."""
    items = fit(pages_of(["Short.", PROSE, "Also short."]), 2000)
    assert [item.truncated for item in items] == [False, True, False]
    assert len(inside(items[1])) > 2000


def test_cursor_leads_through_the_whole_page():
    """The parts make up the text."""
    text, start, parts = PROSE.strip(), 0, []
    while True:
        page = ExtractedPage("http://a.org/", text, "ok", None, "http://a.org/", start)
        (item,) = fit([page], 1000)
        parts.append(inside(item))
        assert item.start == text.index(parts[-1], start)
        if not item.truncated:
            break
        url, start = start_of(item.cursor)
        assert url == "http://a.org/"
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_budget_that_is_too_small_is_refused():
    """With what the answer takes without any text."""
    with pytest.raises(Fault, match=r"max_tokens is 100, but the answer takes \d+"):
        fit(pages_of([PROSE]), 100)


def test_failed_pages_have_no_offsets():
    """Their message stays."""
    (item,) = fit([ExtractedPage("http://a", "", "http_404", "Gone.")], 1000)
    assert encode(item) == b'{"url":"http://a","content":"","status":"http_404","message":"Gone."}'


async def test_scripts_of_a_public_page_lead_to_no_host_of_the_allowlist(monkeypatch):
    """The browser would reach all such hosts then."""
    sent = []

    async def send(request, **_):
        sent.append(request.url)
        return HttpReply(200, b"<p>x", {"content-type": "text/html"})

    async def run(page, left_s, actor):
        return RanScripts(None, moved_to="http://wiki.corp.example/x")

    async def read(page, *, caller=""):
        return PageText("x", by_scripts=True)

    fetcher = Fetcher(GuardedBackend(routes={"*.corp.example": "10.0.0.7:80"}))
    monkeypatch.setattr(fetcher._client, "send", send)
    pool, scripts = FakePool(), BrowserService(None)
    monkeypatch.setattr(pool, "read", read)
    monkeypatch.setattr(scripts, "run", run)
    extractor = Extractor(fetcher, pool, SharedCache(), scripts=scripts)
    with pytest.raises(FetchError) as caught:
        await extractor._read("http://a.org/", 60.0, ANN, None)
    assert caught.value.status == "blocked_by_policy"
    assert sent == ["http://a.org/"]
