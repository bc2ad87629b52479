"""Requests for resources have limits."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts import (
    Fault,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceSearchRequest,
    decode,
    encode,
)
from searchbus_contracts.resources import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
    UriTemplate,
)


def test_defaults_are_a_page_of_fifty():
    """An empty request is valid where nothing is required."""
    assert decode(b"{}", ResourceListRequest) == ResourceListRequest(cursor=None, limit=50)


@pytest.mark.parametrize(
    ("kind", "message", "field"),
    [
        (ResourceListRequest, {"limit": 0}, "limit"),
        (ResourceListRequest, {"limit": 201}, "limit"),
        (ResourceListRequest, {"cursor": "x" * 1025}, "cursor"),
        (ResourceReadRequest, {"uri": ""}, "uri"),
        (ResourceReadRequest, {"uri": "x" * 2049}, "uri"),
        (ResourceReadRequest, {}, "uri"),
        (ResourceSearchRequest, {"query": ""}, "query"),
        (ResourceSearchRequest, {"query": "x" * 2001}, "query"),
        (ResourceSearchRequest, {"query": "x", "limit": 51}, "limit"),
    ],
)
def test_a_request_outside_its_limits_names_the_field(kind, message, field):
    """Before any worker handles it."""
    with pytest.raises(Fault, match=field):
        decode(encode(message), kind)


@pytest.mark.parametrize(
    ("template", "uri", "matches"),
    [
        ("a://x", "a://x", True),
        ("a://{x}", "a://b", True),
        ("a://{x}", "a://b/c", False),
        ("a://{x}/{y}", "a://b/c", True),
        ("a://{x}/{y}", "a:///c", False),
        ("a://{x}-{y}.md", "a://b-c-d.md", True),
        ("a://{x}-{y}.md", "a://b.md", False),
        ("a://{x}.{y}/z", "a://b.c.d/z", True),
    ],
)
def test_a_variable_matches_one_path_segment(template, uri, matches):
    """Or a part of one, and never nothing."""
    assert UriTemplate(template).matches(uri) is matches


@pytest.mark.parametrize(
    ("template", "uri", "matches"),
    [
        ("a://{+x}", "a://b/c?d", True),
        ("a://b{/x*}", "a://b/c/d", True),
        ("a://b{/x*}", "a://b", True),
        ("a://b{?q,r}", "a://b?q=1&r=2", True),
        ("a://{+x}.md", "a://b/c.md", True),
        ("a://{+x}", "b://c", False),
    ],
)
def test_an_expression_with_an_operator_matches_whatever_is_there(template, uri, matches):
    """Slashes too, and nothing."""
    assert UriTemplate(template).matches(uri) is matches


@given(
    st.lists(
        st.tuples(st.sampled_from(["{x}", "{+x}", "{?x,y}"]), st.text("ab/\n.", max_size=3)),
        max_size=4,
    ),
    st.text("ab/\n.", max_size=12),
)
def test_a_value_ends_where_the_text_behind_it_comes_first(parts, rest):
    """As with a pattern that takes the shortest value and never another."""
    pattern = "a:"
    for number, (expression, text) in enumerate(parts, start=1):
        value = "[^/]+" if expression == "{x}" else ".*"
        last = number == len(parts)
        pattern += value + re.escape(text) if last else f"(?>{value}?{re.escape(text)})"
    template = UriTemplate("a:" + "".join(expression + text for expression, text in parts))
    assert template.matches(f"a:{rest}") is bool(re.fullmatch(pattern, f"a:{rest}"))


class Asked(str):
    """A text that counts the questions to it."""

    count = 0

    def find(self, *given):
        self.count += 1
        return super().find(*given)


def test_many_variables_do_not_make_matching_slow():
    """With backtracking this would take longer than the universe has lasted."""
    template = UriTemplate("a://" + "-".join(f"{{v{n}}}" for n in range(16)) + "!")
    uri = Asked("a://" + "-".join("x" * 2000))
    assert not template.matches(uri)
    assert uri.count == 2 * 15
    long = Asked("a://" + "a" * 2000)
    assert not UriTemplate("a://{+x}" + "a" * 985 + "7").matches(long)
    assert long.count == 0


def test_a_request_without_arguments_is_short():
    """Defaults are left out, and come back."""
    request = PromptGetRequest(prompt="greet")
    assert encode(request) == b'{"prompt":"greet"}'
    assert decode(encode(request), PromptGetRequest) == request


MESSAGE = b'{"role":"user","content":{"type":"text","text":""}}'


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PromptGetRequest, b'{"prompt":"a b"}'),
        (PromptGetRequest, b'{"prompt":"a","arguments":{"x":1}}'),
        (CompleteRequest, b'{"name":"","argument":"x"}'),
        (CompleteReply, b'{"values":[%s]}' % b",".join([b'"x"'] * 101)),
        (ResourceReadReply, b'{"contents":[%s]}' % b",".join([b'{"uri":"a:b"}'] * 1001)),
        (PromptGetReply, b'{"messages":[%s]}' % b",".join([MESSAGE] * 1001)),
    ],
)
def test_a_message_outside_its_limits_is_refused(kind, body):
    """A prompt's name is a token, values are texts, and of lists nobody reads one without end."""
    with pytest.raises(Fault):
        decode(body, kind)
