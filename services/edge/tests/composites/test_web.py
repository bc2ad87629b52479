"""The web as a source: pages, passages, quotations."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest
from msgspec import to_builtins

from searchbus_contracts import Fault, ToolReply
from searchbus_contracts.coverage import COVERAGE
from searchbus_edge.composites.briefing import Brief
from searchbus_edge.composites.connector import Connector, Search
from searchbus_edge.composites.sources import Fetch, FetchedSource, Quoted, SourceHit
from searchbus_edge.composites.web import found_in
from searchbus_edge.tools.limits import LocalLimiter
from searchbus_passages import count, find_quote

from .conftest import IDS, OPTIONS, OTHER, SEARCHER


async def test_web_is_left_out_for_callers_without_its_role(setup):
    """They learn the role; ids of pages look unknown to them."""
    _, web, *_ = setup
    assert web.absence(SEARCHER) is None
    why = web.absence(OTHER)
    assert (why.code, why.retryable) == ("forbidden", False)
    assert "does not have the role WEB" in why.message
    with pytest.raises(Fault, match="no such id"):
        await web.fetch(IDS.of_page("https://x"), actor=OTHER, timeout_s=5.0)


async def test_web_results_become_hits(setup):
    """Without an address there is no hit; without a title the address is one."""
    _, web, _, replies = setup
    rows = [{"title": "", "url": "https://x", "snippet": "s"}, {"title": "n", "url": ""}]
    replies["web_search"] = ToolReply(structured={"results": rows})
    (hit,) = (await web.search("q", 10, passages=1, **OPTIONS)).hits
    assert (hit.title, hit.url, hit.source) == ("https://x", "https://x", "web")
    assert hit.passages == (Quoted("s"),)
    assert IDS.page(hit.id) == "https://x"


async def test_providers_that_failed_are_parts_of_the_web(setup):
    """The web's answer names them where not all gave fresh results."""
    _, web, _, replies = setup
    given = [
        {"source": "tavily", "state": "blocked", "code": "quota_exhausted"},
        {"source": "ddg", "state": "stale", "results": 3},
    ]
    replies["web_search"] = ToolReply(structured={"results": [], "coverage": given})
    parts = (await web.search("q", 10, passages=1, **OPTIONS)).parts
    assert [(part.source, part.state) for part in parts] == [
        ("web/tavily", "blocked"),
        ("web/ddg", "stale"),
    ]


OUTCOMES = ["answered", "empty", "failed"]


@pytest.mark.parametrize("one", OUTCOMES)
@pytest.mark.parametrize("other", OUTCOMES)
@pytest.mark.parametrize("method", ["search", "brief"])
async def test_providers_that_failed_are_never_no_results(setup, one, other, method):
    """The connector has the rule of the web search, also with a web service that has not."""
    _, web, _, replies = setup
    codes = {"failed": {"code": "quota_exhausted", "message": "No credit."}}
    given = [{"source": n, "state": s, **codes.get(s, {})} for n, s in (("a", one), ("b", other))]
    page = {
        "title": "T",
        "url": "https://x",
        "snippet": "They sing, these whales, from dusk until morning.",
    }
    rows = [page] if "answered" in (one, other) else []
    replies["web_search"] = ToolReply(structured={"results": rows, "coverage": given})
    item = {
        "url": "https://x",
        "content": "They sing, these whales, from dusk until morning.",
        "status": "ok",
    }
    replies["web_extract_content"] = ToolReply(structured={"items": [item]})

    async def progress(*_: object) -> None: ...

    call = SimpleNamespace(actor=SEARCHER, remaining_s=5.0, progress=progress)
    connector = Connector([(web, 1.0)])
    asked = connector.search(call, Search("whales")) if method == "search" else (
        connector.research_brief(call, Brief("Which whales sing?"))
    )  # fmt: skip
    if not rows and "failed" in (one, other):
        with pytest.raises(Fault, match="Nothing was found, because sources failed") as caught:
            await asked
        assert caught.value.code == "quota_exhausted"
        return
    found = await asked
    assert bool(found.value.results if method == "search" else found.value.passages) == bool(rows)
    shown = [(part["source"], part["state"]) for part in found.meta[COVERAGE]]
    assert shown == [("web/a", one), ("web/b", other)]


@pytest.mark.parametrize(
    ("status", "retryable"), [("timeout", True), ("http_503", True), ("http_404", False)]
)
async def test_unreadable_page_is_a_typed_failure(setup, status, retryable):
    """It is retryable where another attempt may help."""
    _, web, _, replies = setup
    items = [{"url": "https://x", "content": "", "status": status, "message": "Why."}]
    replies["web_extract_content"] = ToolReply(structured={"items": items})
    with pytest.raises(Fault, match=rf"could not be read \({status}\)\. Why\.") as caught:
        await web.fetch(IDS.of_page("https://x"), **OPTIONS)
    assert caught.value.failure.retryable is retryable


async def test_failed_tool_is_a_failed_source(setup):
    """Not an empty result."""
    _, web, _, replies = setup
    replies["web_search"] = ToolReply(structured={"error": {}}, is_error=True)
    with pytest.raises(Fault) as caught:
        await web.search("q", 10, passages=1, **OPTIONS)
    assert caught.value.code == "upstream_failed"


async def test_failure_of_the_tool_keeps_its_code(setup):
    """A limit is a limit for whoever meets it."""
    _, web, _, replies = setup
    error = {"code": "quota_exhausted", "message": "No credit.", "retryable": False}
    replies["web_search"] = ToolReply(structured={"error": error}, is_error=True)
    with pytest.raises(Fault, match="No credit") as caught:
        await web.search("q", 10, passages=1, **OPTIONS)
    assert caught.value.code == "quota_exhausted"


async def test_passages_are_those_of_the_page(setup):
    """Its best paragraph and the snippet, between the marks of the page's text."""
    _, web, _, replies = setup
    text = "<untrusted_text_a>\nWhales sing long songs in the sea at night.\n</untrusted_text_a>"
    items = [{"url": "https://x", "content": text, "status": "ok"}]
    replies["web_extract_content"] = ToolReply(structured={"items": items})
    hit = SourceHit(
        IDS.of_page("https://x"),
        "X",
        "https://x",
        "web",
        (Quoted("They sing, these whales, from dusk until morning."),),
    )
    found = await web.passages("Which whales sing?", hit, **OPTIONS)
    assert [quoted.text for quoted in found] == [
        "<untrusted_text_a>\nThey sing, these whales, from dusk until morning.\n</untrusted_text_a>",
        "<untrusted_text_a>\nWhales sing long songs in the sea at night.\n</untrusted_text_a>",
    ]


async def test_passages_far_from_the_question_are_left_out(setup):
    """By the retrieval service's model; without it the words decide alone."""
    _, web, retrieval, replies = setup
    text = (
        "Whales sing long songs in the far sea.\n\nThey sing for hours at night, these big whales."
    )
    replies["web_extract_content"] = ToolReply(
        structured={"items": [{"url": "https://x", "content": text, "status": "ok"}]}
    )
    hit = SourceHit(IDS.of_page("https://x"), "X", "https://x", "web")
    (near,) = await web.passages("Which whales sing?", hit, **OPTIONS)
    assert "They sing for hours" in near.text
    assert len(retrieval.compared[0].texts) == 2
    assert len(await web.passages("Which whales sing? fail", hit, **OPTIONS)) == 2


def page(text: str, start: int = 0, most: int = 40):
    """Replies of web_extract_content for the parts of one page."""
    end = min(len(text), start + most)
    content = f"<untrusted_text_a>\n{text[start:end]}\n</untrusted_text_a>\n[Characters of it.]"
    item = {
        "url": "https://x", "content": content, "status": "ok", "start": start, "end": end,
        "chars": len(text), "content_hash": hashlib.sha256(text.encode()).hexdigest(),
    }  # fmt: skip
    return ToolReply(structured={"items": [item]})


WHALES = "Whales sing long songs in the sea at night.\n\nNobody knows why they do it for hours."


def parts(start: int = 0) -> tuple[ToolReply, ...]:
    """The parts of the page, each from the last character of the one before."""
    return tuple(page(WHALES, at) for at in range(start, len(WHALES) - 1, 39))


async def test_fetched_page_has_its_place_and_hash(setup):
    """The text without marks and notices, which the answer puts around it."""
    _, web, _, replies = setup
    replies["web_extract_content"] = page(WHALES, 7)
    found = await web.fetch(IDS.of_page("https://x"), start=7, end=22, **OPTIONS)
    assert (found.text, found.start, found.chars) == ("sing long songs", 7, len(WHALES))
    assert (found.mark, found.content_hash) == (
        "untrusted_text_a",
        hashlib.sha256(WHALES.encode()).hexdigest(),
    )


async def test_fetched_page_has_its_title(setup):
    """Its address where it has none."""
    _, web, _, replies = setup
    for given, title in (({"title": "Whales"}, "Whales"), ({}, "https://x")):
        replies["web_extract_content"] = reply = page(WHALES, most=1000)
        reply.structured["items"][0] |= given
        found = await web.fetch(IDS.of_page("https://x"), **OPTIONS)
        assert (found.title, found.url) == (title, "https://x")


async def test_fetched_page_has_its_whole_text(setup):
    """The web service gives it in parts; no more of them are read than were asked for."""
    _, web, _, replies = setup
    replies["web_extract_content"] = parts()
    found = await web.fetch(IDS.of_page("https://x"), **OPTIONS)
    assert (found.text, found.start, found.chars) == (WHALES, 0, len(WHALES))
    replies["web_extract_content"] = parts(7)[:2]
    found = await web.fetch(IDS.of_page("https://x"), start=7, end=60, **OPTIONS)
    assert (found.text, found.start) == (WHALES[7:60], 7)


@pytest.mark.parametrize(
    "lie", [{"content_hash": "other"}, {"start": 0}, {"start": 40}, {"content": ""},
            {"status": "http_500"}],
)  # fmt: skip
async def test_fetched_page_ends_where_it_cannot_be_read_further(setup, lie):
    """What was read is not lost, and nothing else is put behind it."""
    _, web, _, replies = setup
    replies["web_extract_content"] = parts()
    replies["web_extract_content"][1].structured["items"][0] |= lie
    found = await web.fetch(IDS.of_page("https://x"), **OPTIONS)
    assert (found.text, found.chars) == (WHALES[:40], len(WHALES))


async def test_no_part_is_read_that_an_answer_has_no_room_for(setup):
    """Prose has about four characters a token, and an answer could have eight of them."""
    _, web, _, replies = setup
    prose = "The whales of the north sing long songs in the cold sea at night. " * 300
    given = tuple(page(prose, at, most=400) for at in range(0, len(prose) - 1, 399))
    replies["web_extract_content"] = given
    call, hit = SimpleNamespace(actor=SEARCHER, remaining_s=60.0), IDS.of_page("https://x")
    found = await Connector([(web, 1.0)]).fetch(call, Fetch(hit, max_tokens=2000))
    read = prose[: (len(given) - len(replies["web_extract_content"])) * 399 + 1]
    assert found.metadata["truncated"] == "true"
    assert 2000 < count(read) < 2000 + 200


async def test_parts_of_one_page_are_one_call_of_their_reader(setup, monkeypatch):
    """But of a tool that costs money, of which each part may."""
    _, web, _, replies = setup
    quote, hit = "Nobody knows why they do it", IDS.of_page("https://x")
    for read in (web.fetch(hit, **OPTIONS), web.quote(hit, quote, **OPTIONS)):
        replies["web_extract_content"] = parts()
        monkeypatch.setattr(web._calls, "_limiter", LocalLimiter(0.001, 1))
        found = await read
        assert quote in found.text
        with pytest.raises(Fault) as caught:
            await web.fetch(hit, **OPTIONS)
        assert caught.value.code == "rate_limited"


async def test_quotation_fails_as_the_part_that_could_not_be_read(setup):
    """With its wait; a page that changed meanwhile can be read again at once."""
    _, web, _, replies = setup
    wait = {"code": "upstream_limited", "message": "Wait.", "retryable": True,
            "retry_after_ms": 60_000}  # fmt: skip
    limited = ToolReply(structured={"error": wait}, is_error=True)
    gone = {"url": "https://x", "content": "", "status": "invalid_url"}
    changed = ToolReply(structured={"items": [gone]})
    for second, code, wait_ms in (
        (limited, "upstream_limited", 60_000),
        (changed, "unavailable", None),
    ):
        replies["web_extract_content"] = parts()[0], second
        with pytest.raises(Fault) as caught:
            await web.quote(IDS.of_page("https://x"), "Nobody", **OPTIONS)
        failure = caught.value.failure
        assert (failure.code, failure.retryable, failure.retry_after_ms) == (code, True, wait_ms)


async def test_quotation_of_a_page_that_is_too_long_is_not_asked_for_again(setup):
    """No later time makes it shorter."""
    _, web, _, replies = setup
    replies["web_extract_content"] = long = page(WHALES)
    long.structured["items"][0]["chars"] = 4_000_001
    with pytest.raises(Fault, match="more than 4,000,000 characters") as caught:
        await web.quote(IDS.of_page("https://x"), "Nobody", **OPTIONS)
    assert not caught.value.failure.retryable


async def test_passages_are_of_one_part_of_a_page(setup):
    """Reading for a brief has no time for all parts of a book."""
    _, web, _, replies = setup
    replies["web_extract_content"] = page(WHALES, most=44), page(WHALES, 43)
    hit = SourceHit(IDS.of_page("https://x"), "X", "https://x", "web")
    (found,) = await web.passages("Which whales sing songs?", hit, **OPTIONS)
    assert "long songs in the sea" in found.text
    assert len(replies["web_extract_content"]) == 1


async def test_passages_of_a_page_have_their_places(setup):
    """A snippet has none."""
    _, web, _, replies = setup
    replies["web_extract_content"] = page(WHALES, most=1000)
    hit = SourceHit(
        IDS.of_page("https://x"),
        "X",
        "https://x",
        "web",
        (Quoted("Whales sing, as some say, too."),),
    )
    found = await web.passages("Which whales sing songs?", hit, **OPTIONS)
    places = {quoted.text.split("\n")[1]: quoted.anchor for quoted in found}
    assert places.pop("Whales sing, as some say, too.", None) is None
    ((text, anchor),) = places.items()
    assert WHALES[anchor.start : anchor.end] == text


async def test_quotation_is_compared_with_the_whole_page(setup):
    """Its parts are read one after the other."""
    _, web, _, replies = setup
    replies["web_extract_content"] = parts()
    found = await web.quote(IDS.of_page("https://x"), "Nobody knows when they do it", **OPTIONS)
    assert (found.match, found.text) == ("nearest", "Nobody knows why they do it")
    assert WHALES[found.start : found.end] == found.text
    assert await web.quote("doc:books:1", "x", **OPTIONS) is None
    replies["web_extract_content"] = page(WHALES, most=1000)
    with pytest.raises(Fault, match="at most 2000"):
        await web.quote(IDS.of_page("https://x"), "x" * 2001, **OPTIONS)


@pytest.mark.parametrize("lie", [{"start": 0}, {"start": 10**15}, {"chars": 10**15}])
async def test_a_worker_that_lies_about_its_parts_is_not_read_on(setup, lie):
    """Neither text twice, nor white space without end."""
    _, web, _, replies = setup
    replies["web_extract_content"] = parts()
    lying = replies["web_extract_content"]["chars" not in lie]
    lying.structured["items"][0] |= lie
    with pytest.raises(Fault, match="cannot be read to its end"):
        await web.quote(IDS.of_page("https://x"), "Nobody knows when they do it", **OPTIONS)


TEXT = "Rates rose in March. They fell in June."


@pytest.mark.parametrize(
    ("quote", "match", "found_id", "text"),
    [
        ("Rates rose in March.", "exact", "web:x#0-20", "Rates rose in March."),
        ("rates  ROSE", "equivalent", "web:x#0-10", "Rates rose"),
        ("They rose in June", "nearest", "web:x#21-38", "They fell in June"),
        ("quokkas", "none", "web:x", ""),
    ],
)
def test_place_has_an_id_for_fetch(quote, match, found_id, text):
    """Without a place it is the page's own."""
    page = FetchedSource("web:x", "T", TEXT, "https://x", content_hash="h")
    found = found_in(page, find_quote(TEXT, quote))
    assert (found.match, found.id, found.text) == (match, found_id, text)
    if match == "none":
        assert "start" not in to_builtins(found)
    else:
        assert TEXT[found.start : found.end] == text
        assert to_builtins(found)["start"] == found.start  # also where it is 0
    assert found.content_hash == "h"


def test_empty_fields_are_left_out():
    """An exact quotation has no differences."""
    found = found_in(FetchedSource("web:x", "T", TEXT, "https://x"), find_quote(TEXT, "June"))
    assert "differences" not in to_builtins(found)
