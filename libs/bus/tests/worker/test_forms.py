"""The forms of a tool's reply, and that a reply fits its annotation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Struct

from searchbus_bus import Call, MemoryBroker, Toolset, WithMeta, Worker, endpoint, tool
from searchbus_bus.worker import describe as forms
from searchbus_bus.worker.describe import ReplyForm
from searchbus_contracts import Fault, TextContent, ToolCall, ToolReply


class Entry(Struct):
    word: str
    meanings: list[str] = []


@pytest.mark.parametrize(
    ("annotation", "value", "reply", "renderer"),
    [
        (Entry, Entry("hat"), ToolReply(structured={"word": "hat", "meanings": []}), "json"),
        (
            list[Entry],
            [Entry("hat")],
            ToolReply(structured={"results": [{"word": "hat", "meanings": []}]}),
            "results",
        ),
        (list[Entry], [], ToolReply(structured={"results": []}), "results"),
        (str, "hat", ToolReply(content=(TextContent(text="hat"),)), "content"),
        (ToolReply, ToolReply(is_error=True), ToolReply(is_error=True), "content"),
        (
            WithMeta[Entry],
            WithMeta(Entry("hat"), {"source": "x"}),
            ToolReply(structured={"word": "hat", "meanings": []}, meta={"source": "x"}),
            "json",
        ),
        (
            WithMeta[list[Entry]],
            WithMeta([], {"source": "x"}),
            ToolReply(structured={"results": []}, meta={"source": "x"}),
            "results",
        ),
        (
            WithMeta[str],
            WithMeta("hat", {"source": "x"}),
            ToolReply(content=(TextContent(text="hat"),), meta={"source": "x"}),
            "content",
        ),
    ],
)
def test_the_annotation_decides_the_form(annotation, value, reply, renderer):
    """Structured content, results, or text; metadata beside it."""
    form = ReplyForm.of(annotation, "lookup")
    assert form.reply(value) == reply
    assert form.renderer == renderer
    assert (form.schema is None) is (renderer == "content")


@pytest.mark.parametrize("annotation", [int, dict, None, Any, tuple[Entry], Entry | None])
def test_other_annotations_are_refused(annotation):
    """With what is allowed."""
    with pytest.raises(TypeError, match="a tool returns a Struct, a list of Structs, str"):
        ReplyForm.of(annotation, "lookup")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Entry, [1]),
        (Entry, {"word": "hat"}),
        (str, b"hat"),
        (list[Entry], Entry("hat")),
        (Entry, None),
    ],
)
def test_a_reply_of_another_type_is_always_refused(annotation, value, monkeypatch):
    """Also in production, where its fields are not checked."""
    monkeypatch.setattr(forms, "CHECK_REPLIES", False)
    with pytest.raises(TypeError, match="the reply is"):
        ReplyForm.of(annotation, "lookup").reply(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Entry, Entry("hat", meanings="none")),  # type: ignore[arg-type]
        (list[Entry], [Entry(1)]),  # type: ignore[arg-type]
        (list[Entry], [1]),
    ],
)
def test_with_checked_replies_every_field_must_fit(annotation, value, monkeypatch):
    """SEARCHBUS_CHECK_REPLIES=1, which all tests set."""
    form = ReplyForm.of(annotation, "lookup")
    monkeypatch.setattr(forms, "CHECK_REPLIES", False)
    form.reply(value)
    monkeypatch.setattr(forms, "CHECK_REPLIES", True)
    with pytest.raises(msgspec.ValidationError):
        form.reply(value)


def test_the_tests_check_replies():
    """conftest.py sets the variable before anything is imported."""
    assert forms.CHECK_REPLIES


class Liar(Toolset, name="liar"):
    @tool(title="A wrong field")
    async def wrong_field(self, call: Call, arguments: Entry) -> Entry:
        """Look up."""
        return Entry(arguments.word, meanings="none")  # type: ignore[arg-type]

    @tool(title="Another type")
    async def another_type(self, call: Call, arguments: Entry) -> Entry:
        """Look up."""
        return [1]  # type: ignore[return-value]


class LyingEndpoint:
    @endpoint
    async def say(self, call: Call, request: Entry) -> Entry:
        return Entry(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("subject", ["tool.liar.wrong_field", "tool.liar.another_type", "liar.say"])
async def test_a_reply_that_does_not_fit_is_an_internal_error_of_the_worker(subject):
    """Of tools and of endpoints; the caller gets no text of the exception."""
    bus = MemoryBroker().connect()
    worker = Worker("liar")
    worker.add(Liar(), LyingEndpoint())
    await bus.serve(worker)
    message: Any = Entry("hat")
    if subject.startswith("tool."):
        arguments = msgspec.Raw(b'{"word":"hat"}')
        message = ToolCall(tool=subject.split(".")[-1], arguments=arguments)
    with pytest.raises(Fault) as caught:
        await bus.request(f"sb.v1.{subject}", message, msgspec.Raw, service="liar", timeout_s=60)
    assert caught.value.code == "internal"
    assert "Expected" not in str(caught.value)
    await bus.close()
