"""Random ids."""

from __future__ import annotations

import re

from searchbus_bus.client.inbox import RandomIds


def test_ids_are_hex_and_never_equal():
    """Also across refills of the pool."""
    ids = RandomIds()
    made = [ids.next() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(re.fullmatch("[0-9a-f]{32}", text) for text in made)
