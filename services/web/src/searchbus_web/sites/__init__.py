"""Addresses of a site, and its pages in a collection (toolset `sites`)."""
