"""Fake upstreams on loopback, for the tests and for `searchbus up --fake-upstreams`."""
