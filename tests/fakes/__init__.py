"""Upstreams that the tests and `searchbus up --fake-upstreams` play on loopback."""
