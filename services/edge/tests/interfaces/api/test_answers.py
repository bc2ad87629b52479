"""Answers by what a client accepts, and by what a tool replies."""

from __future__ import annotations

import json

import pytest

from searchbus_contracts import TextContent, ToolEvent, ToolReply
from searchbus_contracts.tools import ImageContent
from searchbus_edge.http.problems import Problem, ProblemError
from searchbus_edge.interfaces.api import answers as module
from searchbus_edge.interfaces.api.answers import EventStream, form_of, send_result
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
    with pytest.raises(ProblemError) as raised:
        form_of("text/html")
    assert raised.value.problem.status == 406


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
    await send_result(sent, Served(make_tool(), Reply.of(reply)), form_of(accept))
    assert (sent.headers[b"content-type"], sent.body) == (content_type, body)
    assert sent.headers[b"content-length"] == b"%d" % len(body)


async def test_text_of_a_structured_result_is_the_one_over_mcp(make_tool):
    """Made by the tool's renderer."""
    sent = Sent()
    reply = Reply(structured=b'{"results":[1]}', text=b"[1]")
    await send_result(sent, Served(make_tool(), reply), form_of("text/plain"))
    assert sent.body == b"[1]"


async def test_text_of_others_is_marked_and_inert(make_tool):
    """By a header, as `_meta` says over MCP."""
    sent = Sent()
    tool = make_tool(untrusted=True)
    await send_result(sent, Served(tool, Reply.of(ToolReply(content=TEXTS))), form_of(""))
    assert sent.headers[b"searchbus-untrusted"] == b"true"
    assert b"sandbox" in sent.headers[b"content-security-policy"]
    stream = EventStream(sent := Sent(), untrusted=True)
    await stream.finish(Served(tool, Reply.of(ToolReply(content=TEXTS))))
    assert sent.headers[b"searchbus-untrusted"] == b"true"


async def test_stream_starts_with_its_first_event(make_tool):
    """Each event has a name and one line of JSON."""
    stream = EventStream(sent := Sent(), untrusted=False)
    assert not stream.started
    await stream.ping()
    await stream.forward(ToolEvent(kind="log", data={"a": 1}, level="info"))
    await stream.fail(ProblemError(Problem.of("unavailable", "Away.")))
    assert [event["type"] for event in sent.events].count("http.response.start") == 1
    ping, log, problem, end = sent.body.decode().split("\n\n")
    assert (ping, end) == (": ping", "")
    assert log == 'event: log\ndata: {"level":"info","data":{"a":1}}'
    assert problem.startswith("event: problem\ndata: ")
    assert json.loads(problem.partition("data: ")[2])["code"] == "unavailable"
    assert not sent.events[-1]["more_body"]


def test_long_accept_headers_are_not_kept():
    """Each could be as long as a head, and a thousand of them are kept."""
    before = module._known.cache_info().currsize
    text = "application/json," + "a" * 1000
    assert form_of(text).json
    assert module._known.cache_info().currsize == before
