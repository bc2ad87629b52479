"""Arguments of the tools."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from searchbus_contracts import Fault
from searchbus_web.arguments import read_domains, read_time_range, read_urls


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
    ("given", "domains"),
    [
        (UNSET, ()),
        ([], ()),
        (["https://www.Example.org/x", "*.example.org", "example.net:8080"],
         ("example.org", "example.net")),
        (["Bücher.example"], ("xn--bcher-kva.example",)),
    ],
)  # fmt: skip
def test_domains_are_hosts_in_lower_case(given, domains):
    """Each of them once."""
    assert read_domains("includeDomains", given) == domains


@pytest.mark.parametrize(
    ("given", "said"),
    [(["localhost"], "'localhost' is not a domain"), (["a b.org"], "not a domain"),
     (["a.org"] * 101, "at most 100")],
)  # fmt: skip
def test_invalid_domains_name_field_and_remedy(given, said):
    """As invalid_argument."""
    with pytest.raises(Fault) as caught:
        read_domains("excludeDomains", given)
    assert caught.value.code == "invalid_argument"
    assert caught.value.failure.message.startswith("excludeDomains")
    assert said in caught.value.failure.message


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
