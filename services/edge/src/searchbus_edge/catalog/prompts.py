"""prompts/get and completion/complete.

A prompt with messages is filled in and completed from its descriptor; any other by its worker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from searchbus_bus import Bus, Request
from searchbus_contracts import Actor, PromptDescriptor, PromptMessage, ResourceTemplate
from searchbus_contracts.resources import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
)

from .render import content_block, marked_untrusted
from .view import View

GET_TIMEOUT_S = 30.0
MAX_ARGUMENT_CHARS = 100_000
MAX_PROMPT_CHARS = 1_000_000
"""Length of a whole prompt: one that repeats a long argument would be many times the request."""
_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_-]+)\}")
_MAX_COMPLETIONS = 100


T = TypeVar("T")


class Read(Protocol):
    """Sends a request that counts as a call of its actor; raises Fault."""

    async def __call__(self, what: str, actor: Actor, request: Request[T], arguments: Any) -> T:
        """The reply to a request, which the audit log calls `what`."""


class Prompts:
    """Fills in and completes the prompts of a view, and completes its resource templates; `read`
    asks their workers for those that they fill in or complete."""

    def __init__(self, bus: Bus, read: Read) -> None:
        self._bus = bus
        self._read = read

    async def get(
        self, actor: Actor, view: View, name: str, arguments: Mapping[str, str]
    ) -> types.GetPromptResult:
        """A prompt filled in; raises MCPError(-32602), or Fault where its worker cannot."""
        descriptor = _prompt(actor, view, name)
        if descriptor.messages:
            return fill(descriptor, arguments, tools=view.prompt_tools(actor))
        _check(descriptor, arguments)
        request = Request(
            self._bus.subjects.prompt(descriptor.toolset, "get"),
            PromptGetRequest(prompt=descriptor.name, arguments=dict(arguments)),
            PromptGetReply,
            service=view.services.get(descriptor.toolset, descriptor.toolset),
            timeout_s=GET_TIMEOUT_S,
        )
        reply = await self._read(f"prompts/get {name}", actor, request, arguments)
        return types.GetPromptResult(
            description=reply.description,
            messages=[
                types.PromptMessage(role=message.role, content=content_block(message.content))
                for message in reply.messages
            ],
            _meta=marked_untrusted(reply.meta) if descriptor.untrusted else reply.meta,
        )

    async def complete(
        self, actor: Actor, view: View, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Values suggested for an argument, if any; raises MCPError(-32602), Fault."""
        argument, ref = params.argument, params.ref
        if isinstance(ref, types.PromptReference):
            prompt = _prompt(actor, view, ref.name)
            if not prompt.completes:
                return complete(prompt, argument.name, argument.value)
            subject = self._bus.subjects.prompt(prompt.toolset, "complete")
            toolset, name = prompt.toolset, prompt.name
        else:
            template = _template(actor, view, ref.uri)
            if template is None:
                return complete(None, argument.name, argument.value)
            subject = self._bus.subjects.resource(template.toolset, "complete")
            toolset, name = template.toolset, template.uri_template
        known = params.context.arguments if params.context is not None else None
        wanted = CompleteRequest(
            name=name, argument=argument.name, value=argument.value, arguments=known or {}
        )
        request = Request(
            subject,
            wanted,
            CompleteReply,
            service=view.services.get(toolset, toolset),
            timeout_s=GET_TIMEOUT_S,
        )
        reply = await self._read(f"completion/complete {name}", actor, request, wanted)
        return types.CompleteResult(
            completion=types.Completion(
                values=list(reply.values), total=reply.total, has_more=reply.has_more
            )
        )


def _prompt(actor: Actor, view: View, name: str) -> PromptDescriptor:
    descriptor = view.prompts.get(name)
    if descriptor is None or not actor.holds(descriptor.required_roles):
        raise _invalid(f"Unknown prompt: {name[:64]}. Take a name from prompts/list.")
    return descriptor


def _template(actor: Actor, view: View, uri_template: str) -> ResourceTemplate | None:
    """The template of that text, if it completes."""
    for _, template in view.templates:
        if template.uri_template == uri_template and template.completes:
            return template if template.listed and actor.holds(template.required_roles) else None
    return None


def fill(
    descriptor: PromptDescriptor, arguments: Mapping[str, str], *, tools: Sequence[str] = ()
) -> types.GetPromptResult:
    """A prompt with its arguments in place of `{name}`, and at its end the tools that the model may
    call; raises MCPError(-32602) naming a missing, unknown or too long argument."""
    _check(descriptor, arguments)
    values = {argument.name: arguments.get(argument.name, "") for argument in descriptor.arguments}
    if _filled_chars(msgspec.to_builtins(descriptor.messages), values) > MAX_PROMPT_CHARS:
        raise _invalid(
            f"Prompt {descriptor.name} would have over {MAX_PROMPT_CHARS} characters. Shorten its "
            "arguments.",
        )
    messages = [_message(message, values) for message in descriptor.messages]
    if tools:
        _append(messages, f"Tools that you may call for this: {', '.join(tools)}.")
    return types.GetPromptResult(description=descriptor.description, messages=messages)


def _check(descriptor: PromptDescriptor, arguments: Mapping[str, str]) -> None:
    """Raise MCPError(-32602) for an argument that is missing, unknown or too long."""
    known = {argument.name: argument for argument in descriptor.arguments}
    for argument in descriptor.arguments:
        if argument.required and argument.name not in arguments:
            raise _invalid(
                f"Prompt {descriptor.name} needs the argument {argument.name}. Give it.",
            )
    for name, value in arguments.items():
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise _invalid(f"Unknown prompt argument {name[:64]!r}. Allowed: {allowed}.")
        if len(value) > MAX_ARGUMENT_CHARS:
            raise _invalid(
                f"Prompt argument {name} is over {MAX_ARGUMENT_CHARS} characters. Shorten it.",
            )


def _invalid(message: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, message)


def _append(messages: list[types.PromptMessage], text: str) -> None:
    """Add to the last text of the user; as a message of its own where that is no text."""
    last = messages[-1]
    if last.role == "user" and isinstance(last.content, types.TextContent):
        last.content.text += f"\n\n{text}"
    else:
        content = types.TextContent(type="text", text=text)
        messages.append(types.PromptMessage(role="user", content=content))


def complete(
    descriptor: PromptDescriptor | None, argument: str, typed: str
) -> types.CompleteResult:
    """The declared values of an argument that begin with `typed`, ignoring case."""
    declared = descriptor.arguments if descriptor is not None else ()
    choices = (value for known in declared if known.name == argument for value in known.values)
    values = [value for value in choices if value.lower().startswith(typed.lower())]
    shown = values[:_MAX_COMPLETIONS]
    return types.CompleteResult(
        completion=types.Completion(
            values=shown, total=len(values), has_more=len(values) > len(shown)
        )
    )


def _message(message: PromptMessage, values: Mapping[str, str]) -> types.PromptMessage:
    filled = msgspec.convert(_replace(msgspec.to_builtins(message), values), PromptMessage)
    return types.PromptMessage(role=filled.role, content=content_block(filled.content))


def _filled_chars(node: Any, values: Mapping[str, str]) -> int:
    """Characters of all texts after the replacement, before anything is made of that size."""
    if isinstance(node, str):
        known = [name for name in _PLACEHOLDER.findall(node) if name in values]
        return len(node) + sum(len(values[name]) - len(name) - len("{}") for name in known)
    inner = (
        node.values() if isinstance(node, dict) else node if isinstance(node, list | tuple) else ()
    )
    return sum(_filled_chars(value, values) for value in inner)


def _replace(node: Any, values: Mapping[str, str]) -> Any:
    if isinstance(node, str):
        # One pass: braces inside a value are not replaced again.
        return _PLACEHOLDER.sub(lambda m: values.get(m[1], m[0]), node)
    if isinstance(node, dict):
        return {key: _replace(value, values) for key, value in node.items()}
    return node
