"""robots.txt: rules, and files that are hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_pages import TooComplexError, read_robots


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_longest_rule_counts(mark):
    """With wildcards, and behind a byte order mark."""
    rules = read_robots(mark + b"User-agent: *\nAllow: /\nDisallow: /a/*.pdf$\n")
    assert rules.can_fetch("http://a.org/a/b.html", "x")
    assert not rules.can_fetch("http://a.org/a/b.pdf", "x")


@pytest.mark.parametrize("between", ["", "disallow:/\n"])
def test_too_many_groups_are_refused(between):
    """Each has each of the rules, or is looked for among the others."""
    agents = "".join(f"USER-AGENT:a{n}\n" for n in range(5000))
    with pytest.raises(TooComplexError, match="too many rules"):
        read_robots((agents + between + agents).encode())
    assert read_robots(b"user-agent: *\n" + b"disallow: /a\n" * 40_000)


@given(st.binary(max_size=300) | st.text("user-agent: *$/\ndislow", max_size=300).map(str.encode))
def test_no_bytes_make_it_fail(body):
    """What is no rule is ignored."""
    assert read_robots(body).can_fetch("http://a.org/x", "x") in (True, False)
