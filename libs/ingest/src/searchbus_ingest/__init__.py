"""Reads documents, cuts them into passages and sends them to the retrieval service."""
