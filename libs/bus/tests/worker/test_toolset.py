"""Declaring tools, prompts, resources and endpoints as typed methods."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from searchbus_bus import (
    Call,
    DeclarationError,
    Toolset,
    Worker,
    endpoint,
    prompt,
    resource,
    resource_list,
    tool,
)
from searchbus_bus.client.request import Deadline
from searchbus_bus.worker.toolset import declarations
from searchbus_contracts import (
    Actor,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ToolEvent,
)

ROOT = Path(__file__).parents[4]


class Lookup(Struct):
    word: str


class Entry(Struct):
    word: str


class Dictionary(Toolset, name="dictionary"):
    @tool(title="Look up a word", keywords=("thesaurus",), timeout_ms=5_000)
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        """Look up a word."""
        return Entry(arguments.word)

    @prompt(title="Explain")
    def explain(self, word: str) -> str:
        """Explain a word."""
        return f"Explain {word}."

    @resource("dictionary://about")
    async def about(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """What this is."""
        return ResourceReadReply(contents=())

    @resource_list
    async def words(self, call: Call, request: ResourceListRequest) -> ResourceListReply:
        return ResourceListReply(resources=())

    @endpoint
    async def count(self, call: Call, request: Lookup) -> Entry:
        return Entry("1")

    def helper(self) -> None:
        """Not offered."""


def test_decorated_methods_are_found_sorted_by_name():
    """With the options of their decorators; other methods are not offered."""
    found = dict(declarations(Dictionary))
    assert {name: declaration.kind for name, declaration in found.items()} == {
        "about": "resource",
        "count": "endpoint",
        "explain": "prompt",
        "lookup": "tool",
        "words": "resource_list",
    }
    assert list(found) == sorted(found)
    assert found["lookup"].options["keywords"] == ("thesaurus",)
    assert found["lookup"].options["timeout_ms"] == 5_000


async def test_a_decorated_method_stays_a_method():
    """Tests call it directly."""
    assert await Dictionary().lookup(None, Lookup("hat")) == Entry("hat")  # type: ignore[arg-type]
    assert Dictionary().explain("hat") == "Explain hat."


def test_a_subclass_inherits_methods_and_may_have_another_name():
    """The name stays where it gives none."""

    class Same(Dictionary):
        pass

    class Other(Dictionary, name="other"):
        pass

    assert (Same.toolset, Other.toolset, Dictionary.toolset) == (
        "dictionary",
        "other",
        "dictionary",
    )
    assert [name for name, _ in declarations(Other)] == [
        name for name, _ in declarations(Dictionary)
    ]


class Undocumented(Toolset, name="undocumented"):
    @tool(title="No docstring")
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        return Entry("")


class Untyped(Toolset, name="untyped"):
    @tool(title="No annotations")
    async def lookup(self, call, arguments):  # type: ignore[no-untyped-def]
        """Look up."""


class NoReply(Toolset, name="untyped"):
    @tool(title="No reply type")
    async def lookup(self, call: Call, arguments: Lookup):  # type: ignore[no-untyped-def]
        """Look up."""


class ManyArguments(Toolset, name="many"):
    @tool(title="Two arguments")  # type: ignore[arg-type]
    async def lookup(self, call: Call, word: str, more: str) -> Entry:
        """Look up."""
        return Entry(word)


class NoStruct(Toolset, name="many"):
    @tool(title="A str")
    async def lookup(self, call: Call, word: str) -> Entry:
        """Look up."""
        return Entry(word)


class WrongReply(Toolset, name="wrong"):
    @tool(title="A number")  # type: ignore[type-var]
    async def lookup(self, call: Call, arguments: Lookup) -> int:
        """Look up."""
        return 1


class Nameless(Toolset):
    @tool(title="No toolset")
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        """Look up."""
        return Entry("")


class Plain:
    @tool(title="Not in a toolset")
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        """Look up."""
        return Entry("")


class DefaultOfPrompt(Toolset, name="prompts"):
    @prompt(title="A default")
    def explain(self, word: str = "hat") -> str:
        """Explain."""
        return word


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Undocumented, "Undocumented.lookup: it has no docstring, which is its description"),
        (Untyped, "Untyped.lookup: the signature must be"),
        (NoReply, "NoReply.lookup: the signature must be"),
        (ManyArguments, "ManyArguments.lookup: the signature must be"),
        (NoStruct, "NoStruct.lookup: the arguments must be one msgspec Struct"),
        (WrongReply, "WrongReply.lookup: a tool returns a Struct"),
        (Nameless, "Nameless has no name. Write class"),
        (Plain, "Plain.lookup: only a Toolset offers tools"),
        (DefaultOfPrompt, "DefaultOfPrompt.explain: the default of word must be None or ''"),
        (object, "object has no decorated methods. Mark them with @tool"),
    ],
)
def test_what_cannot_be_offered_is_refused_with_the_remedy(part: Any, message: str):
    """The message names class and method."""
    with pytest.raises(DeclarationError, match=re.escape(message)):
        Worker("dictionary").add(part())


_SNIPPET = '''
from msgspec import Struct
from searchbus_bus import Call, Toolset, endpoint, prompt, tool
from searchbus_contracts import ToolReply
from searchbus_contracts.retrieval import ListReply, ListRequest, SearchReply

class Lookup(Struct):
    word: str

class Entry(Struct):
    word: str

class Dictionary(Toolset, name="dictionary"):
    @tool(title="Look up")
    async def lookup(self, call: Call, arguments: Lookup) -> {tool_reply}:
        """Look up."""
        return {tool_value}

    @prompt(title="Explain")
    def explain(self, word: str) -> str:
        """Explain."""
        return {prompt_value}

class Endpoints:
    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> {endpoint_reply}:
        return {endpoint_value}
'''
_RIGHT = {
    "tool_reply": "Entry",
    "tool_value": "Entry(arguments.word)",
    "prompt_value": 'f"Explain {word}."',
    "endpoint_reply": "ListReply",
    "endpoint_value": "ListReply()",
}
_WRONG = {
    "a_number": ({"tool_value": "1"}, "return-value"),
    "another_struct": ({"tool_value": "Lookup(arguments.word)"}, "return-value"),
    "one_for_a_list": ({"tool_reply": "list[Entry]"}, "return-value"),
    "no_reply_type": ({"tool_reply": "int", "tool_value": "1"}, "type-var"),
    "a_field_that_is_missing": ({"tool_value": "Entry(arguments.name)"}, "attr-defined"),
    "a_prompt_of_bytes": ({"prompt_value": 'b"Explain"'}, "return-value"),
    "an_endpoint_of_another_reply": ({"endpoint_value": "SearchReply(hits=())"}, "return-value"),
    "an_endpoint_of_no_struct": ({"endpoint_reply": "int", "endpoint_value": "1"}, "type-var"),
}


@pytest.fixture(scope="module")
def mypy_errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Module → what mypy --strict says about it; one run for all."""
    folder = tmp_path_factory.mktemp("snippets")
    for name, changes in {"right": {}, **{n: c for n, (c, _) in _WRONG.items()}}.items():
        (folder / f"{name}.py").write_text(_SNIPPET.format(**{**_RIGHT, **changes}))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder / "cache",
         *sorted(folder.glob("*.py"))],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        found[Path(line.split(":")[0]).stem] = found.get(Path(line.split(":")[0]).stem, "") + line
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mypy_accepts_bodies_that_return_the_declared_reply(mypy_errors):
    """Tool, prompt and endpoint."""
    assert "right" not in mypy_errors


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(_WRONG))
def test_mypy_refuses_a_body_of_another_reply_type(mypy_errors, name):
    """The editor says so, before any test runs."""
    assert _WRONG[name][1] in mypy_errors.get(name, "")


def call_with(events: list[ToolEvent], timeout_s: float = 60.0) -> Call:
    async def send_event(event: ToolEvent) -> None:
        events.append(event)

    return Call(
        req_id="r", service="s", subject="sb.v1.s.v", actor=Actor(),
        deadline=Deadline.after(timeout_s), relay=send_event,
    )  # fmt: skip


def test_two_calls_of_equal_content_are_two_calls():
    """Whoever keeps those that run keeps each."""
    events: list[ToolEvent] = []
    assert len({call_with(events), call_with(events)}) == 2


def test_the_remaining_time_is_never_negative():
    """Handlers pass it on as a timeout."""
    assert 0 < call_with([]).remaining_s <= 60
    assert call_with([], timeout_s=-5).remaining_s == 0


async def test_progress_and_log_lines_are_events():
    """As in MCP."""
    events: list[ToolEvent] = []
    call = call_with(events)
    await call.progress(1, 3, "one")
    await call.log("warning", {"a": 1}, "name")
    assert events == [
        ToolEvent(kind="progress", progress=1, total=3, message="one"),
        ToolEvent(kind="log", level="warning", data={"a": 1}, logger="name"),
    ]


async def test_events_of_another_worker_are_passed_on():
    """As they came."""
    events: list[ToolEvent] = []
    event = ToolEvent(kind="progress", progress=2)
    await call_with(events).relay(event)
    assert events == [event]


async def test_a_level_that_syslog_does_not_have_is_refused():
    """The client would not understand it."""
    with pytest.raises(msgspec.ValidationError, match="level"):
        await call_with([]).log("loud", "x")


def test_a_call_without_input_has_none():
    """A tool that asks for input checks these."""
    call = call_with([])
    assert (call.input_responses, call.state, call.client_capabilities) == (None, None, ())
