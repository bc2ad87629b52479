"""The same requests to a server and to searchbus, and what both answer, as JSON."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from pydantic import BaseModel

_TIME = re.compile(r"\d{1,2}:\d{2}:\d{2}(\s?[AP]M)?")
_UNTRUSTED = "dev.searchbus/untrusted"


@dataclass(frozen=True)
class Script:
    """What is asked besides the lists.

    Args:
        calls: tools with their arguments.
        reads: URIs of the server.
        prompts: with their arguments.
        completions: (prompt or URI template, argument, typed, other arguments).
    """

    calls: list[tuple[str, dict[str, Any]]]
    reads: list[str] = field(default_factory=list)
    prompts: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    completions: list[tuple[str, str, str, dict[str, str]]] = field(default_factory=list)


async def ask(client: Client, script: Script, prefix: str = "") -> dict[str, Any]:
    """Answers by request; an error is its code and its text, and a call has its progress.

    Args:
        prefix: of the addresses of the server's resources.
    """
    found: dict[str, Any] = {}
    found["tools"] = _by_name((await client.list_tools()).tools)
    found["prompts"] = _by_name((await client.list_prompts()).prompts)
    found["resources"] = _by_name(await _all_resources(client))
    templates = await client.list_resource_templates()
    found["templates"] = _by_name(templates.resource_templates)
    for tool, arguments in script.calls:
        progress: list[tuple[float, float | None, str | None]] = []

        async def on_progress(
            done: float, total: float | None, message: str | None, seen: Any = progress
        ) -> None:
            seen.append([done, total, message])

        call = client.call_tool(tool, arguments, progress_callback=on_progress)
        answer = await _answer(call)
        found[f"call {tool} {json.dumps(arguments)}"] = {"answer": answer, "progress": progress}
    for uri in script.reads:
        found[f"read {uri}"] = await _answer(client.read_resource(prefix + uri))
    for prompt, given in script.prompts:
        found[f"prompt {prompt} {json.dumps(given)}"] = await _answer(
            client.get_prompt(prompt, given)
        )
    for of, argument, typed, known in script.completions:
        ref: Any = types.PromptReference(type="ref/prompt", name=of)
        if ":" in of:
            ref = types.ResourceTemplateReference(type="ref/resource", uri=prefix + of)
        found[f"complete {of} {argument} {typed}"] = await _answer(
            client.complete(ref, {"name": argument, "value": typed}, context_arguments=known)
        )
    return found


def as_direct(found: dict[str, Any], prefix: str) -> dict[str, Any]:
    """What came through searchbus, as the server itself would have said it.

    These are all the differences: addresses wrap URIs, what strangers wrote is marked, failures of
    searchbus are among the results that a tool with an output schema may have.
    """
    plain: dict[str, Any] = json.loads(json.dumps(found).replace(prefix, ""), object_hook=_unmarked)
    for tool in plain["tools"].values():
        if "outputSchema" in tool:
            tool["outputSchema"] = tool["outputSchema"]["anyOf"][0]
    return plain


def without_times(node: Any) -> Any:
    """JSON in which times of the day, also in base64, are the same."""
    if isinstance(node, dict):
        return {
            key: _decoded(value) if key == "blob" else without_times(value)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [without_times(value) for value in node]
    return _TIME.sub("TIME", node) if isinstance(node, str) else node


def _decoded(blob: str) -> str:
    try:
        return _TIME.sub("TIME", base64.b64decode(blob).decode())
    except UnicodeDecodeError:
        return blob


def _unmarked(node: dict[str, Any]) -> dict[str, Any]:
    meta = node.get("_meta")
    if isinstance(meta, dict) and meta.pop(_UNTRUSTED, None) and not meta:
        del node["_meta"]
    return node


async def _answer(request: Any) -> Any:
    try:
        return _dump(await request)
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}


async def _all_resources(client: Client) -> list[types.Resource]:
    found: list[types.Resource] = []
    cursor = None
    while True:
        page = await client.list_resources(cursor=cursor)
        found += page.resources
        cursor = page.next_cursor
        if cursor is None:
            return found


def _by_name(items: list[Any]) -> dict[str, Any]:
    return {item.name: _dump(item) for item in sorted(items, key=lambda item: item.name)}


def _dump(model: BaseModel) -> dict[str, Any]:
    found: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    for key in ("ttlMs", "cacheScope", "resultType"):  # of newer revisions only
        found.pop(key, None)
    return found
