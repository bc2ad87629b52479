"""Interfaces of other search APIs, answered by the tools of the toolset web."""
