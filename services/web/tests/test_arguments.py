"""Arguments of the tools."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from searchbus_contracts import Fault
from searchbus_web.arguments import read_time_range, read_urls


@pytest.mark.parametrize(
    ("urls", "said"),
    [([" "], "1 to 5"), (['["a","b","c","d","e","f"]'], "at most 5"), (["x" * 5000], "4096")],
)
async def test_bad_lists_of_urls(urls, said):
    """The message names the limit."""
    with pytest.raises(Fault) as caught:
        read_urls(urls)
    assert caught.value.code == "invalid_argument"
    assert said in caught.value.failure.message


def test_array_in_a_string_stands_for_its_elements():
    """Some models send it so; other text is a URL as it is."""
    assert read_urls([' ["http://a/", " http://b/ "] ', "http://c/"]) == [
        "http://a/", "http://b/", "http://c/",
    ]  # fmt: skip
    assert read_urls(["[not json"]) == ["[not json"]
    assert read_urls(["[1]"]) == ["[1]"]


@pytest.mark.parametrize(
    ("given", "found"), [(UNSET, ""), (" ", ""), ("Day", "d"), ("w", "w"), (" year ", "y")]
)
def test_time_ranges(given, found):
    """As a letter or as a word."""
    assert read_time_range(given) == found


def test_unknown_time_range_names_the_known_ones():
    """As invalid_argument."""
    with pytest.raises(Fault, match="d, w, m or y"):
        read_time_range("decade")
