"""MCP over HTTP: `endpoint` is the path of a request; see docs/architecture.md."""
