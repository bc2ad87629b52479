"""Interfaces of Tavily and SearXNG, for clients that have one."""
