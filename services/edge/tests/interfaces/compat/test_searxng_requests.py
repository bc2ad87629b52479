"""Requests of SearXNG's search API."""

from __future__ import annotations

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.interfaces.compat.searxng_requests import Search, read_search


def read(**form: str) -> Search:
    return read_search({"q": "whales", "format": "json", **form})


def test_defaults():
    """The first page of general results, of any time."""
    assert read() == Search(query="whales")


def test_parameters():
    """Of those that the tools have."""
    assert read(
        pageno="2", categories="news, general", time_range="month", timeout_limit="2.5",
        engines="google, bing", language="all", safesearch="0",
    ) == Search(
        query="whales", page=2, categories=("news", "general"), time_range="m", timeout_s=2.5,
        engines=("google", "bing"), notes=("engines is not applied: all providers answer.",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("form", "categories"),
    [
        ({"categories": ""}, ("general",)),
        ({"category_news": "on"}, ("news",)),
        ({"categories": "general,news", "category_general": "off"}, ("news",)),
        ({"categories": "news,news"}, ("news",)),
    ],
)
def test_categories_of_a_form(form, categories):
    """A list, or one field each, as the form of SearXNG's page sends them."""
    assert read(**form).categories == categories


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"q": ""}, "No query"),
        ({"pageno": "0"}, 'Invalid value "0" for parameter pageno'),
        ({"pageno": "x"}, 'Invalid value "x" for parameter pageno'),
        ({"pageno": "9" * 5000}, "for parameter pageno"),
        ({"time_range": "hour"}, 'Invalid value "hour" for parameter time_range'),
        ({"language": "deutsch"}, 'Invalid value "deutsch" for parameter language'),
        ({"safesearch": "3"}, 'Invalid value "3" for parameter safesearch'),
        ({"safesearch": ""}, "Empty safesearch"),
        ({"timeout_limit": "soon"}, 'Invalid value "soon" for parameter timeout_limit'),
        ({"timeout_limit": "nan"}, 'Invalid value "nan" for parameter timeout_limit'),
    ],
)
def test_wrong_value_is_refused(form, message):
    """In SearXNG's words."""
    with pytest.raises(Fault) as raised:
        read(**form)
    assert raised.value.code == ErrorCode.INVALID_ARGUMENT
    assert message in raised.value.failure.message


@pytest.mark.parametrize("form", [{"format": "csv"}, {"format": "html"}, {"format": ""}])
def test_other_formats_are_forbidden(form):
    """As with an instance that allows JSON only."""
    with pytest.raises(Fault) as raised:
        read(**form)
    assert raised.value.code == ErrorCode.FORBIDDEN


@pytest.mark.parametrize(
    ("form", "note"),
    [
        ({"language": "de-DE"}, "language=de-DE is not applied"),
        ({"safesearch": "2"}, "safesearch=2 is not applied"),
        ({"categories": "images,news"}, "ignored: images."),
    ],
)
def test_what_is_not_applied_is_named(form, note):
    """A note of the answer says it."""
    (found,) = read(**form).notes
    assert note in found


def test_unknown_parameters_are_ignored():
    """As SearXNG does."""
    assert read(theme="simple", results_on_new_tab="1", image_proxy="true") == read()


@pytest.mark.parametrize(
    ("form", "notes"),
    [
        # Open WebUI
        ({"pageno": "1", "safesearch": "1", "language": "all", "time_range": "", "categories": "",
          "theme": "simple", "image_proxy": "0"}, 1),
        # LibreChat
        ({"pageno": "1", "categories": "general", "language": "all", "safesearch": "0",
          "engines": "google,bing,duckduckgo"}, 1),
        # Vane
        ({"engines": "arxiv", "language": "en", "pageno": "1"}, 2),
        # LangChain
        ({"language": "en"}, 1),
    ],
)  # fmt: skip
def test_requests_of_front_ends_are_served(form, notes):
    """With their usual parameters; what is not applied is noted."""
    found = read(**form)
    assert (found.categories, found.page, len(found.notes)) == (("general",), 1, notes)
