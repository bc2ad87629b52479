"""Results about resources and prompts, as the bus knows them."""

from __future__ import annotations

import pytest

from searchbus_attach.definitions.content_replies import (
    completion_of,
    passed_on,
    prompt_of,
    resource_of,
)
from searchbus_contracts import ErrorCode, Fault, ImageContent, ResourceBody, ResourceLink
from searchbus_contracts.tools import EmbeddedResource

RAW = {
    "contents": [
        {"uri": "a:t", "mimeType": "text/plain", "text": "x", "_meta": {"k": 1}},
        {"uri": "a:b", "mimeType": "image/png", "blob": "aGk="},
    ],
    "_meta": {"of": "all"},
}


def test_text_and_binary_content_of_resources_pass_through():
    """Under their addresses on the bus, with metadata."""
    reply = resource_of("s", RAW)
    text, binary = reply.contents
    assert (text.uri, text.text, text.meta) == ("searchbus://attach/s/a:t", "x", {"k": 1})
    assert (binary.mime_type, binary.blob) == ("image/png", "aGk=")
    assert reply.meta == {"of": "all"}


def test_messages_of_prompts_pass_through():
    """With content of every kind."""
    content = {"type": "resource_link", "uri": "a:b", "name": "b"}
    raw = {"messages": [{"role": "assistant", "content": content}], "description": "d\u200b"}
    reply = prompt_of("s", raw, links=True)
    (message,) = reply.messages
    assert (message.role, reply.description) == ("assistant", "d")
    assert message.content == ResourceLink(uri="searchbus://attach/s/a:b", name="b")


def test_links_are_of_the_bus_only_where_the_resource_can_be_read():
    """Hints that are wrong are left out in any case."""
    link = ResourceLink(uri="a:b", name="b")
    embedded = EmbeddedResource(resource=ResourceBody(uri="a:b", text="x"))
    image = ImageContent(data="aGk=", mime_type="image/png", annotations={"priority": 7})
    assert passed_on("s", link, links=False) == link
    assert passed_on("s", embedded, links=True).resource.uri == "searchbus://attach/s/a:b"
    assert passed_on("s", image, links=True).annotations is None


def test_a_hundred_values_are_suggested_at_most():
    """And it is said that there are more."""
    reply = completion_of("s", {"completion": {"values": ["x"] * 101, "total": 500}})
    assert (len(reply.values), reply.total, reply.has_more) == (100, 500, True)
    assert completion_of("s", {"completion": {"values": []}}).has_more is None


@pytest.mark.parametrize(
    ("reply_of", "raw"),
    [
        (resource_of, {"contents": [{"text": "x"}]}),
        (resource_of, []),
        (lambda s, raw: prompt_of(s, raw, links=False), {"messages": [{"role": "x"}]}),
        (completion_of, {}),
    ],
)
def test_an_answer_that_is_not_of_mcp_is_a_failure(reply_of, raw):
    """Of the server."""
    with pytest.raises(Fault) as fault:
        reply_of("s", raw)
    assert fault.value.code == ErrorCode.UPSTREAM_FAILED
