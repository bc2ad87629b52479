"""Attached servers at the endpoints of an edge, over the in-memory bus."""
