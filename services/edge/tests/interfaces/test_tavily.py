"""Tavily's API: answers, chunks."""

from __future__ import annotations

import uuid
from datetime import date

import msgspec
import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.interfaces.tavily import (
    MAX_CHUNK_CHARS,
    chunks,
    chunks_of_page,
    extract,
    search,
)
from searchbus_edge.interfaces.web_tools import ReadPage

TODAY = date(2026, 3, 20)


async def found(tools, **body):
    return msgspec.to_builtins(await search(tools, {"query": "whales", **body}, TODAY))


async def test_answer_has_the_fields_of_the_api(tools):
    """And what is added to them: that the text is of strangers."""
    tools.rows["web_search_advanced"][0]["publishedAt"] = "2026-03-02"
    tools.rank((1.0, {"brave": 1, "ddg": 2}), (0.4, {"ddg": 3}))
    answer = await found(tools, max_results=2)
    assert uuid.UUID(answer.pop("request_id"))
    assert answer.pop("response_time") >= 0
    assert answer == {
        "query": "whales", "answer": None, "follow_up_questions": None, "images": (),
        "untrusted": True,
        "results": [
            {"title": "Page 1", "url": "https://p1.example/", "content": "Text 1.", "score": 1.0,
             "raw_content": None, "published_date": "2026-03-02"},
            {"title": "Page 2", "url": "https://p2.example/", "content": "Text 2.", "score": 0.4,
             "raw_content": None},
        ],
    }  # fmt: skip


async def test_score_without_a_ranking_is_of_the_position(tools):
    """A service of another version says no more."""
    answer = await found(tools, max_results=3)
    assert [result["score"] for result in answer["results"]] == [1.0, 0.5, 0.3333]


async def test_no_results_are_an_empty_list(tools):
    """Also where none are asked for; the search is made all the same."""
    assert (await found(tools, max_results=0))["results"] == []
    tools.rows = {}
    assert (await found(tools))["results"] == []
    assert len(tools.calls) == 2


async def test_notes_name_what_was_not_done(tools):
    """Of the request, of the search and of the period."""
    tools.notes = ["brave failed."]
    answer = await found(tools, include_answer=True, days=3, country="france", max_results=30 - 10)
    assert answer["notes"] == [
        "include_answer: no language model writes answers here; answer is null.",
        "Not applied: country.",
        "brave failed.",
        "No result has a date: they may be of other days.",
    ]


async def test_usage_is_of_no_credits(tools):
    """Only where it is asked for."""
    assert (await found(tools, include_usage=True))["usage"] == {"credits": 0}
    assert "usage" not in await found(tools)


async def test_raw_content_is_the_marked_text_of_the_page(tools):
    """A page that cannot be read has none, and a note says why."""
    tools.texts = {"https://p1.example/": "All of it."}
    answer = await found(tools, include_raw_content=True, max_results=2)
    first, second = answer["results"]
    assert first["raw_content"] == "<untrusted_text_ab>\nAll of it.\n</untrusted_text_ab>"
    assert (first["content"], second["raw_content"]) == ("Text 1.", None)
    assert answer["notes"] == ["https://p2.example/ could not be read: http_404: Gone."]


async def test_advanced_search_shows_chunks_of_the_pages(tools):
    """A page that cannot be read keeps its snippet."""
    tools.texts = {"https://p1.example/": "Whales sing.\n\nShips do not.\n\nMany whales swim."}
    answer = await found(tools, search_depth="advanced", chunks_per_source=2, max_results=2)
    first, second = answer["results"]
    assert "Whales sing. [...] Many whales swim." in first["content"]
    assert (first["raw_content"], second["content"]) == (None, "Text 2.")


async def test_results_stay_where_the_pages_fail(tools):
    """The call for the pages was refused as a whole."""
    tools.failures["web_extract_content"] = Fault(ErrorCode.RATE_LIMITED, "Wait.")
    answer = await found(tools, include_raw_content=True, max_results=2)
    assert len(answer["results"]) == 2
    assert answer["notes"] == ["The pages could not be read: Wait."]


async def test_failed_search_is_a_failure(tools):
    """Never an empty answer."""
    tools.failures["web_search_advanced"] = Fault(ErrorCode.UPSTREAM_FAILED, "No.")
    with pytest.raises(Fault):
        await found(tools)


async def test_extraction_lists_pages_that_failed(tools):
    """Each with its reason."""
    tools.texts = {"https://a.org/": "Text."}
    body = {"urls": ["https://a.org/", "https://b.org/"], "include_usage": True}
    answer = msgspec.to_builtins(await extract(tools, body))
    assert answer["results"] == [
        {"url": "https://a.org/", "title": None, "images": (),
         "raw_content": "<untrusted_text_ab>\nText.\n</untrusted_text_ab>"},
    ]  # fmt: skip
    assert answer["failed_results"] == [{"url": "https://b.org/", "error": "http_404: Gone."}]
    assert (answer["usage"], answer["untrusted"]) == ({"credits": 0}, True)
    assert tools.calls[0][2] == 10.0


async def test_extraction_with_a_query_gives_chunks(tools):
    """The parts that speak to it."""
    tools.texts = {"https://a.org/": "Ships do not.\n\nWhales sing.\n\nMore ships."}
    body = {"urls": "https://a.org/", "query": "whales", "chunks_per_source": 1}
    (result,) = (await extract(tools, body)).results
    assert result.raw_content == "<untrusted_text_ab>\nWhales sing.\n</untrusted_text_ab>"


TEXT = """Whales are large animals of the sea.

The songs of blue whales travel for hundreds of miles through the ocean.

Ships are built of steel in many harbours of the world.
"""


def test_chunk_with_most_words_is_first():
    """Parts without a word of the query are left out."""
    assert chunks("songs of whales", TEXT, most=3) == [
        "The songs of blue whales travel for hundreds of miles through the ocean.",
        "Whales are large animals of the sea.",
    ]
    assert len(chunks("songs of whales", TEXT, most=1)) == 1


def test_text_beside_the_point_gives_its_beginning():
    """A page that was asked for is never answered with nothing."""
    assert chunks("volcanoes", TEXT, most=3) == ["Whales are large animals of the sea."]
    assert chunks("volcanoes", "", most=3) == []


def test_no_chunk_is_longer_than_its_limit():
    """Neither of many sentences nor of one."""
    sentences = "The whale sings a song of the sea every night. " * 100
    endless = "whale " * 1000
    for text in (sentences, endless):
        found = chunks("whale", text, most=3)
        assert found
        assert all(len(chunk) <= MAX_CHUNK_CHARS for chunk in found)


def test_many_short_paragraphs_are_compared_in_part():
    """Comparing all of them with each other would take the square of their number."""
    text = "\n\n".join(f"whale {n}" for n in range(20_000))
    assert len(chunks("whale", text, most=3)) <= 3


def test_chunks_stand_between_the_marks_of_their_page():
    """Joined as Tavily joins them."""
    page = ReadPage("u", "ok", f"<untrusted_text_ab>\n{TEXT}\n</untrusted_text_ab>\n[A notice.]")
    found = chunks_of_page("songs of whales", page, most=2)
    opening, text, closing = found.splitlines()
    assert (opening, closing) == ("<untrusted_text_ab>", "</untrusted_text_ab>")
    assert text.count(" [...] ") == 1
    assert "notice" not in found


def test_page_without_marks_gets_them():
    """Its text is of strangers all the same."""
    assert chunks_of_page("whales", ReadPage("u", "ok", TEXT), most=1).startswith(
        "<untrusted_text_"
    )
    assert chunks_of_page("whales", ReadPage("u", "ok", ""), most=1) == ""
