"""What a user types, and the tool that must come first; with the real model."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.toolindex import FindRequest
from searchbus_toolindex.finder import IndexFinder

from .conftest import EVERY_ROLE

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def names(finder: IndexFinder, query: str, **options) -> list[str]:
    reply = await finder.find(FindRequest(query=query, **options), EVERY_ROLE)
    return [found.name for found in reply.found]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("will it rain in Lisbon tomorrow", "get_forecast"),
        ("write to my landlord and attach the contract", "send_message"),
        ("how much is a share of Siemens", "get_stock_price"),
        ("picture of the open tab", "take_screenshot"),
        ("dollars to euros", "convert_currency"),
        ("show what is in the folder /tmp", "list_directory"),
    ],
)
async def test_tool_is_found_by_its_purpose(finder, query, first):
    """The words need not be the description's."""
    assert (await names(finder, query))[0] == first


@pytest.mark.parametrize("query", ["search", "SEARCH", "  search ", '"search"', "`search`"])
async def test_exact_name_comes_first(finder, query):
    """Also a name that is a common word, in any case and in quotes."""
    assert (await names(finder, query))[0] == "search"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("get stock price", "get_stock_price"),
        ("get-stock-price", "get_stock_price"),
        ("getStockPrice", "get_stock_price"),
        ("please call take_screenshot for me and translate text then", "take_screenshot"),
        ("number of days", "get_forecast"),
        ("from one language into another", "translate_text"),
    ],
)
async def test_name_in_words_and_exact_phrases_come_first(finder, query, first):
    """Names in any spelling, names mentioned in a sentence, phrases of a description."""
    assert (await names(finder, query))[0] == first


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("wheather forcast", "get_forecast"),
        ("send an emial", "send_message"),
        ("create a pie chrat", "create_chart"),
        ("tarnslate text", "translate_text"),
        ("exhcange rate", "convert_currency"),
        ("take a screnshot", "take_screenshot"),
        ("list direcotry", "list_directory"),
    ],
)
async def test_typos_still_find_it(finder, query, first):
    """One slip a word, two in a long one."""
    assert (await names(finder, query))[0] == first


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Wettervorhersage für Berlin", "get_forecast"),
        ("météo à Lyon", "get_forecast"),
        ("enviar un correo electrónico", "send_message"),
        ("traduire un texte", "translate_text"),
        ("criar um gráfico de pizza", "create_chart"),
        ("cerca articoli scientifici", "search_papers"),
        ("показать файлы в папке", "list_directory"),
        ("天気予報", "get_forecast"),
        ("翻译这段文字", "translate_text"),
        ("스크린샷", "take_screenshot"),
        ("Aktienkurs von Siemens", "get_stock_price"),
        ("döviz kuru", "convert_currency"),
    ],
)
async def test_other_languages_still_find_it(finder, query, first):
    """The commonest words of what tools do, in the languages of the glossary."""
    assert (await names(finder, query))[0] == first


@pytest.mark.parametrize(
    "query",
    ["replace the brake pads of a tractor", "my cat is sleeping on the sofa", "perform heart surgery",
     "hello how are you", "breed ferrets in captivity"],
)  # fmt: skip
async def test_nothing_that_fits_is_an_empty_answer(finder, query):
    """Ten bad tools are worse than none."""
    assert await names(finder, query) == []


async def test_several_requests_in_one_query_find_all_their_tools(finder):
    """Each sentence counts by itself."""
    query = (
        "First look up the weather forecast for Oslo. Then convert 500 kroner to dollars. "
        "Finally send the result to Anna by email."
    )
    assert set((await names(finder, query))[:3]) == {
        "get_forecast", "convert_currency", "send_message"
    }  # fmt: skip


async def test_matched_words_are_returned(finder):
    """As the user wrote them; none where it was meaning alone."""
    reply = await finder.find(FindRequest(query="Weather forecasts please"), EVERY_ROLE)
    assert reply.found[0].matched == ("Weather", "forecasts")


@pytest.mark.parametrize("query", ["", "   ", "\n", "\x00", "\u202e\u200b", "x" * 2001])
async def test_query_without_words_or_too_long_is_refused(finder, query):
    """Typed, and says what is allowed."""
    with pytest.raises(Fault) as caught:
        await finder.find(FindRequest(query=query), EVERY_ROLE)
    assert caught.value.code == "invalid_query"


@pytest.mark.parametrize("query", ["%s{}$1'\"--", "🙂🙂", "a" * 2000, ". . .", "1"])
async def test_odd_queries_get_an_answer(finder, query):
    """Of whatever length; never an exception."""
    assert isinstance(await names(finder, query), list)
