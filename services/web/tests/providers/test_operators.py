"""Domain filters as search operators."""

from __future__ import annotations

import pytest

from searchbus_web.providers.base import Query
from searchbus_web.providers.operators import with_domains


@pytest.mark.parametrize(
    ("included", "excluded", "text"),
    [
        ((), (), "cats"),
        (("a.org",), (), "cats site:a.org"),
        (("a.org", "b.org"), ("c.org",), "cats (site:a.org OR site:b.org) -site:c.org"),
        (("a.org/docs",), ("c.org/x", "d.org"), "cats site:a.org/docs -site:d.org"),
    ],
)
def test_filters_become_operators(included, excluded, text):
    """One domain needs no brackets."""
    query = Query("cats", 5, include_domains=included, exclude_domains=excluded)
    assert with_domains(query) == text


def test_number_of_operators_is_limited():
    """The results are filtered afterwards as well."""
    many = tuple(f"d{n}.org" for n in range(20))
    assert with_domains(Query("cats", 5, exclude_domains=many)).count("-site:") == 8
