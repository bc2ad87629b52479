"""robots.txt: rules, and files that are hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_pages import MAX_ROBOTS_BYTES, TooComplexError, read_robots


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


def test_first_500_kib_count():
    """RFC 9309, 2.5; a rule that is cut there says something else."""
    rules = b"User-agent: *\nDisallow: /a/\n"
    line = b"Disallow: /%06d\n"
    body = rules + b"".join(line % n for n in range(40_000))
    read = read_robots(body)
    assert not read.can_fetch("http://a.org/a/b", "x")
    assert not read.can_fetch("http://a.org/020000", "x")
    assert read.can_fetch("http://a.org/039999", "x")
    cut = b"User-agent: *\nDisallow: /" + b"a" * MAX_ROBOTS_BYTES
    assert read_robots(cut).can_fetch("http://a.org/a", "x")


@pytest.mark.parametrize(
    "body",
    [
        "".join(f"User-agent: bot{n}\nDisallow: /\n\n" for n in range(2000)),
        "User-agent: *\n" + "".join(f"Disallow: /agents/{n}\n" for n in range(5000)),
    ],
)
def test_long_lists_of_robots_and_paths_are_read(body):
    """Only rules that many robots share are too many."""
    assert read_robots(body.encode()).can_fetch("http://a.org/x", "y")


@given(st.binary(max_size=300) | st.text("user-agent: *$/\ndislow", max_size=300).map(str.encode))
def test_no_bytes_make_it_fail(body):
    """What is no rule is ignored."""
    assert read_robots(body).can_fetch("http://a.org/x", "x") in (True, False)
