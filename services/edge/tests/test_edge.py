"""The facade: the parts of a running edge, not to be changed from outside."""

from __future__ import annotations

import dataclasses

import pytest

from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings


async def test_parts_cannot_be_replaced_after_the_start(bus, tmp_path):
    """Replacements go to the bootstrap."""
    async with open_edge(bus, EdgeSettings(_env_file=None, data_dir=tmp_path)) as edge:
        with pytest.raises(dataclasses.FrozenInstanceError):
            edge.settings = None
        assert await edge.ready()
        await edge.end_streams()
