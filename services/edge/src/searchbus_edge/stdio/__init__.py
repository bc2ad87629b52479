"""MCP over standard input and output, by the stack that runs or is started for it."""
