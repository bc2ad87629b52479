"""Engines without a key beside DuckDuckGo's web search, and searches with them."""
