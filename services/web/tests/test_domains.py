"""Domain filters: a host, or a host with a path."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from searchbus_contracts import Fault
from searchbus_web.domains import read_domains, within


@pytest.mark.parametrize(
    ("given", "domains"),
    [
        (UNSET, ()),
        ([], ()),
        (["https://www.Example.org/", "*.example.org", "example.net"],
         ("example.org", "example.net")),
        (["Bücher.example"], ("xn--bcher-kva.example",)),
        (["https://GitHub.com/Python/", "linkedin.com/in//"],
         ("github.com/Python", "linkedin.com/in")),
        (["a.org/b%20c"], ("a.org/b%20c",)),
    ],
)  # fmt: skip
def test_domains_are_hosts_in_lower_case_with_their_path(given, domains):
    """Each of them once."""
    assert read_domains("includeDomains", given) == domains


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["localhost"], "'localhost' is not a domain"),
        (["a b.org"], "not a domain"),
        (["example.net:8080"], "example.org/path"),
        (["user@example.net"], "example.org/path"),
        (["a.org/x?y=1"], "example.org/path"),
        (["a.org/x#y"], "example.org/path"),
        (["a.org/*"], "example.org/path"),
        (["a.org/x y"], "example.org/path"),
        (["a.org/../x"], "example.org/path"),
        (["ftp://a.org"], "example.org/path"),
        (["[::1"], "example.org/path"),
    ],
)
def test_invalid_domains_name_field_and_remedy(given, said):
    """What could not be filtered by is refused, never ignored."""
    for field in ("includeDomains", "excludeDomains"):
        with pytest.raises(Fault) as caught:
            read_domains(field, given)
        assert caught.value.code == "invalid_argument"
        assert caught.value.failure.message.startswith(field)
        assert said in caught.value.failure.message


@pytest.mark.parametrize(
    ("url", "domain", "inside"),
    [
        ("https://a.org/", "a.org", True),
        ("https://Sub.A.org/x", "a.org", True),
        ("https://nota.org/", "a.org", False),
        ("https://a.org/docs", "a.org/docs", True),
        ("https://www.a.org/docs/x?y", "a.org/docs", True),
        ("https://a.org/Docs/", "a.org/docs", True),
        ("https://a.org/d%6Fcs/x", "a.org/docs", True),
        ("https://a.org/docsother", "a.org/docs", False),
        ("https://a.org/docs/../x", "a.org/docs", False),
        ("https://a.org/x/../docs/y", "a.org/docs", True),
        ("https://a.org/", "a.org/docs", False),
        ("https://b.org/docs", "a.org/docs", False),
    ],
)
def test_url_is_within_a_domain(url, domain, inside):
    """Subdomains belong to it; the path is compared by whole segments, without case."""
    assert within(url, domain) is inside
