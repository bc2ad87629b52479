"""The forms of an answer of /api/v1, as Accept chooses them."""

from __future__ import annotations

import pytest

from searchbus_contracts import TextContent, ToolReply
from searchbus_contracts.tools import ImageContent
from searchbus_edge.http.faults import HttpError
from searchbus_edge.interfaces.api import form_of, result
from searchbus_edge.tools.call import Served
from searchbus_edge.tools.reply import Reply

IMAGE = ImageContent(data="aGk=", mime_type="image/png")


TEXTS = (TextContent(text="a"), TextContent(text="b"))


class Sent:
    def __init__(self):
        self.events = []

    async def __call__(self, event):
        self.events.append(event)

    @property
    def headers(self):
        return dict(self.events[0]["headers"])

    @property
    def body(self):
        return b"".join(event["body"] for event in self.events[1:])


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", (True, True, True)),
        ("*/*", (True, True, True)),
        ("application/json", (True, False, False)),
        ("application/*;q=0.5", (True, False, False)),
        ("Text/Event-Stream", (False, False, True)),
        ("text/*", (False, True, True)),
        ("text/html, text/plain", (False, True, False)),
    ],
)
def test_accept_chooses_the_forms(accept, form):
    found = form_of(accept)
    assert (found.json, found.text, found.events) == form


def test_no_form_is_acceptable():
    """406."""
    with pytest.raises(HttpError) as raised:
        form_of("text/html")
    assert raised.value.status == 406


@pytest.mark.parametrize(
    ("reply", "accept", "content_type", "body"),
    [
        (ToolReply(content=TEXTS), "", b"text/plain; charset=utf-8", b"a\n\nb"),
        (ToolReply(content=TEXTS, structured={"a": 1}), "", b"application/json", b'{"a":1}'),
        (ToolReply(content=TEXTS, structured={"a": 1}), "text/plain",
         b"text/plain; charset=utf-8", b"a\n\nb"),
        (ToolReply(content=(IMAGE,)), "", b"application/json",
         b'{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}'),
        (ToolReply(), "", b"text/plain; charset=utf-8", b""),
    ],
)  # fmt: skip
async def test_result_has_one_form(make_tool, reply, accept, content_type, body):
    sent = Sent()
    await result(Served(make_tool(), Reply.of(reply)), form_of(accept)).send(sent)
    assert (sent.headers[b"content-type"], sent.body) == (content_type, body)
    assert sent.headers[b"content-length"] == b"%d" % len(body)


async def test_text_of_a_structured_result_is_the_one_over_mcp(make_tool):
    """Made by the tool's renderer."""
    sent = Sent()
    reply = Reply(structured=b'{"results":[1]}', text=b"[1]")
    await result(Served(make_tool(), reply), form_of("text/plain")).send(sent)
    assert sent.body == b"[1]"


async def test_text_of_others_is_marked_and_inert(make_tool):
    """By a header, as `_meta` says over MCP."""
    sent = Sent()
    listed = make_tool(untrusted=True)
    await result(Served(listed, Reply.of(ToolReply(content=TEXTS))), form_of("")).send(sent)
    assert sent.headers[b"searchbus-untrusted"] == b"true"
    assert b"sandbox" in sent.headers[b"content-security-policy"]
