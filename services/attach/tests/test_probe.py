"""A server is asked once."""

from __future__ import annotations

import pytest

from searchbus_attach.probe import ProbeFault, probe

from .conftest import children, plain


def test_what_a_server_says():
    """Its name, its revision, its tools; its process ends."""
    found = probe(plain())
    assert (found.server_info, found.protocol) == ("plain 1.0", "2025-06-18")
    assert "echo" in {tool.name for tool in found.tools.descriptors}
    assert children() == []


@pytest.mark.parametrize(
    ("how", "message"),
    [({"start": "die"}, "code 4"), ({"start": "hang"}, "does not answer within 2 s")],
)
def test_why_a_server_cannot_be_used(how, message):
    """And nothing is left of it."""
    with pytest.raises(ProbeFault, match=message):
        probe(plain(how, start_timeout_s=1.0, list_timeout_s=1.0))
    assert children() == []
