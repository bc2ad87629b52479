"""Interfaces beside MCP: plain HTTP."""
