"""The path of a request, from HTTP to the bus and back; `endpoint` is its table of contents.

| step | module |
| --- | --- |
| parse: HTTP head, body, JSON-RPC message | `head`, `messages` |
| identify the caller, admit the request | `endpoint` (abuse), `tool_calls` (limits of a caller) |
| resolve the tool, validate its arguments, ask the bus, record | `tool_calls` |
| render and send | `results`, `answers` |

A message takes one of two ways. `fast` serves tools/call, the lists and ping where it understands
every field. `kernel` serves everything else by the MCP SDK. Both call tools through `tool_calls`,
as do `call_tool`, batches (`batch`) and the composites.
"""
