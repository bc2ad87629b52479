"""A page as Markdown."""

from __future__ import annotations

import pytest

from searchbus_contracts import ErrorCode, Fault, ToolReply
from searchbus_edge.http.faults import HttpError
from searchbus_edge.interfaces.read import json_of, prefers_json, query_of, read
from searchbus_edge.interfaces.web_tools import ReadPage
from searchbus_edge.tools.reply import Reply

URL = "https://a.org/"


async def test_page_is_read_by_the_tool(tools):
    """With as much text as the caller asks for."""
    tools.texts = {URL: "Text."}
    page = await read(tools, {"url": f" {URL} ", "max_tokens": "300"})
    assert page.content == "<untrusted_text_ab>\nText.\n</untrusted_text_ab>"
    await read(tools, {"url": URL})
    budgets = [arguments["max_tokens"] for _, arguments, _ in tools.calls]
    assert budgets == [300, 1_000_000]


@pytest.mark.parametrize(
    "query",
    [{}, {"url": " "}, {"url": URL, "max_tokens": "x"}, {"url": URL, "max_tokens": "99"},
     {"url": URL, "max_tokens": "9" * 5000}],
)  # fmt: skip
async def test_wrong_parameter_is_refused(tools, query):
    """Before anything is called."""
    with pytest.raises(Fault) as raised:
        await read(tools, query)
    assert raised.value.code == ErrorCode.INVALID_ARGUMENT
    assert tools.calls == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"url=https://a.org/?x=1&url=https://b.org/", "url is there twice. Write & as %26"),
        (b"url=https://a.org/?x=1&y=2", "y is not a parameter. Write & as %26"),
        (b"url=https://a.org/C++", "A + stands for a blank. Write + as %2B"),
    ],
)
def test_address_that_is_not_escaped_is_refused(text, message):
    """It would be read as another one."""
    with pytest.raises(Fault) as raised:
        query_of(text)
    assert raised.value.code == ErrorCode.INVALID_ARGUMENT
    assert raised.value.failure.message.startswith(message)


def test_escaped_address_is_taken_as_it_is():
    """Also one whose path was not escaped once more."""
    text = b"max_tokens=200&url=https://a.org/C%2B%2B?x=1%26url=2%23top"
    assert query_of(text) == {"max_tokens": "200", "url": "https://a.org/C++?x=1&url=2#top"}
    assert query_of(b"url=https://a.org/my%20file") == {"url": "https://a.org/my file"}


@pytest.mark.parametrize(
    ("page", "status"),
    [
        ("http_404", 404), ("http_500", 502), ("invalid_url", 400), ("blocked_by_policy", 403),
        ("robots", 403), ("timeout", 504), ("unsupported_type", 415), ("challenge", 502),
    ],
)  # fmt: skip
async def test_page_that_cannot_be_read_has_a_status(page, status):
    """And a message for the reader; its code is the page's own status."""

    async def call(tool, arguments, *, timeout_s=None):
        item = {"url": URL, "status": page, "message": "Why."}
        return Reply.of(ToolReply(structured={"items": [item]}))

    with pytest.raises(HttpError) as raised:
        await read(call, {"url": URL})
    assert (raised.value.status, raised.value.failure.code) == (status, page)
    assert raised.value.failure.message == f"The page could not be read ({page}). Why."


@pytest.mark.parametrize(
    ("page", "retryable"),
    [("timeout", True), ("http_429", True), ("http_503", True), ("http_404", False)],
)
async def test_failure_says_whether_the_page_may_be_readable_later(page, retryable):
    """As the tools of documents and pages say it."""

    async def call(tool, arguments, *, timeout_s=None):
        return Reply.of(ToolReply(structured={"items": [{"url": URL, "status": page}]}))

    with pytest.raises(HttpError) as raised:
        await read(call, {"url": URL})
    assert raised.value.failure.retryable is retryable


def test_json_has_the_place_of_the_text():
    """The rest of a long page has a URL of its own."""
    page = ReadPage(URL, "ok", "text", None, 0, 4, 9, True, f"{URL}#searchbus-start=4")
    assert json_of(page) == {
        "url": URL, "content": "text", "untrusted": True, "start": 0, "end": 4, "chars": 9,
        "truncated": True, "cursor": f"{URL}#searchbus-start=4",
    }  # fmt: skip
    assert "cursor" not in json_of(ReadPage(URL, "ok", "text"))


@pytest.mark.parametrize(
    ("accept", "json"),
    [
        ("", False), ("*/*", False), ("text/markdown", False), ("text/plain, */*", False),
        ("application/json", True), ("application/json, text/plain, */*", False),
        ("application/json, text/plain;q=0.5", True), ("application/json;q=0.1, text/*", False),
        ("application/json;q=0", False), ("application/*", True), ("application/json;q=x", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
    ],
)  # fmt: skip
def test_accept_decides_between_json_and_text(accept, json):
    """Text where a client takes both alike."""
    assert prefers_json(accept) is json
