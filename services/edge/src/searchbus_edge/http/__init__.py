"""HTTP: routes, checks before the MCP transport, batches, one transport per endpoint."""
