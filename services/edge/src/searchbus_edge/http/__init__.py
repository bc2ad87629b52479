"""HTTP around the MCP endpoints: the ASGI application, its pages, errors."""
