"""A server's calls, and what the operator adds to its definitions."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_attach.definitions.describe import ServerTools
from searchbus_contracts import ErrorCode, Fault, ToolCall, ToolReply
from searchbus_testing import until

from .conftest import plain_keys

SCHEMA = {"type": "object"}


def tool(name: str, **more):
    return {"name": name, "description": name, "inputSchema": SCHEMA, **more}


async def test_binary_and_structured_content_pass_through(new_world):
    """Field by field, with the metadata."""
    world = await new_world(plain=plain_keys({"tools": [tool("binary")]}))
    await world.until_up()
    reply = await world.call("plain", "binary")
    image, audio, embedded, link = reply.content
    assert (image.data, image.mime_type) == ("iVBORw0KGgo=", "image/png")
    assert (audio.data, audio.mime_type) == ("UklGRg==", "audio/wav")
    assert (embedded.resource.uri, embedded.resource.text) == ("note:///1", "a note")
    assert (link.uri, link.name) == ("note:///2", "two")
    assert (reply.structured, reply.meta) == ({"n": 1}, {"example.org/x": 1})


async def test_a_failed_tool_is_a_reply_and_an_odd_answer_a_failure(new_world):
    """The first is the tool's own word, the second no MCP."""
    world = await new_world(plain=plain_keys({"tools": [tool("failing"), tool("odd")]}))
    await world.until_up()
    reply = await world.call("plain", "failing")
    assert (reply.is_error, reply.content[0].text) == (True, "the disk is full")
    with pytest.raises(Fault, match="not one of MCP") as fault:
        await world.call("plain", "odd")
    assert fault.value.code == ErrorCode.UPSTREAM_FAILED


async def test_progress_without_end_fails_no_good_answer(new_world):
    """The caller could not read the event, and took it for the reply."""
    world = await new_world(plain=plain_keys({"tools": [tool("endless_progress")]}))
    await world.until_up()
    events = []
    request = ToolCall(tool="endless_progress", arguments=msgspec.Raw(b"{}"))
    subject = world.bus.subjects.tool("plain", "endless_progress")
    reply = await world.ask(subject, request, ToolReply, on_event=events.append)
    assert reply.content[0].text == "done"
    assert [(event.progress, event.total) for event in events] == [(1, None)]


async def test_a_wrong_output_schema_fails_no_good_answer(new_world):
    """It is listed no more, since clients would refuse the next answer."""
    wrong = {"type": "object", "properties": {"count": {"type": "integer"}}}
    world = await new_world(plain=plain_keys({"tools": [tool("wrong_output", outputSchema=wrong)]}))
    await world.until_up()
    assert world.tools("plain")["wrong_output"].output_schema == wrong
    reply = await world.call("plain", "wrong_output")
    assert (reply.is_error, reply.content[0].text) == (False, "a good answer")
    await until(lambda: world.tools("plain")["wrong_output"].output_schema is None)
    attached = world.gateway._attached["plain"]
    attached.review()  # as after every approval
    assert attached.descriptors[0].output_schema is None


async def test_a_tool_that_its_connection_does_not_have_is_not_found(new_world):
    """Without asking the server: a session of a caller may have another list."""
    world = await new_world(plain=plain_keys())
    await world.until_up()
    world.gateway._attached["plain"].upstream.lists.tools = ServerTools()
    with pytest.raises(Fault, match="no such tool any more") as fault:
        await world.call("plain", "echo", text="x")
    assert fault.value.code == ErrorCode.NOT_FOUND


async def test_required_roles_are_the_operators(new_world):
    """They are in the descriptors, and do not count as a change of the server's definitions."""
    keys = plain_keys(policy="hold")
    world = await new_world(plain=keys)
    await world.until_up()
    world.write(plain={**keys, "required_roles": ["FILES"], "call_timeout_s": 5})
    await until(lambda: world.tools("plain")["echo"].required_roles == ("FILES",))
    assert world.tools("plain")["echo"].timeout_ms == 5000
    await world.until_up()
    assert (await world.status()).servers[0].held == 0


async def test_a_call_carries_the_trace(new_world):
    """In `_meta`, so that the server can continue it."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import set_span_in_context, use_span

    world = await new_world(plain=plain_keys({"tools": [tool("meta")]}))
    await world.until_up()
    span = TracerProvider().get_tracer("test").start_span("call", set_span_in_context(None))
    with use_span(span):
        reply = await world.call("plain", "meta")
    assert format(span.get_span_context().trace_id, "032x") in reply.content[0].text


async def test_a_problem_of_a_server_that_starts_is_one_of_the_last_try(new_world):
    """It has not failed this time."""
    world = await new_world(plain=plain_keys())
    await world.until_up()
    attached = world.gateway._attached["plain"]
    attached.upstream._become("down", "it ended")
    assert attached.status(with_tools=False).problem == "it ended"
    attached.upstream._become("starting", "it ended")
    assert attached.status(with_tools=False).problem == "the last try: it ended"
    attached.upstream._become("starting")
    assert attached.status(with_tools=False).problem == ""
