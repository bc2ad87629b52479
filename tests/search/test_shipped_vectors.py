"""The vectors of searchbus's own tools, which are shipped."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_testing import Stack, eventually
from searchbus_toolindex.vector_file import shipped_vectors

from .conftest import shared_tool_embedder


async def test_they_are_of_unit_length_and_of_the_model():
    """There are none of another one."""
    vectors = shipped_vectors((await shared_tool_embedder()).model)
    assert vectors
    assert [float(np.linalg.norm(v)) for v in vectors.values()] == pytest.approx([1] * len(vectors))
    assert shipped_vectors("another model") == {}


@pytest.mark.slow
def test_a_new_folder_needs_no_others(tmp_path):
    """Else run `python -m tests.search.shipped_vectors`: its start would take seconds longer."""
    stack = Stack(tmp_path / "new")
    stack.start()
    try:
        for tool in ("web_search", "search_fomc", "instant_answer", "research_brief"):
            eventually(lambda tool=tool: tool in stack.command("tools", "search", tool).stdout)
        assert list((stack.data / "toolindex").glob("*")) == []
    finally:
        stack.stop()
