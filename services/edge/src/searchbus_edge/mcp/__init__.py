"""The path of a request, from HTTP to the bus and back; `endpoint` is its table of contents.

| step | module |
| --- | --- |
| parse: HTTP head, body, JSON-RPC message | `http`, `messages` |
| identify the caller, admit the request | `endpoint` (abuse), `tools.call` (limits of a caller) |
| resolve the tool, validate its arguments, ask the bus, record | `tools.call` |
| render and send | `results`, `http.answer` |

A message takes one of two ways. `fast` serves tools/call, the lists and ping where it understands
every field. `kernel` serves everything else by the MCP SDK. Both call tools through `tools.call`,
as do `call_tool`, batches (`batch`) and the composites.
"""
