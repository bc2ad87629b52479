"""Calls that outlive their request: the Tasks extension of MCP (SEP-2663)."""
