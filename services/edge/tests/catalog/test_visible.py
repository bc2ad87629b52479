"""The one access rule."""

from __future__ import annotations

import pytest

from searchbus_contracts import Actor
from searchbus_edge.catalog.visible import missing_role, visible


@pytest.mark.parametrize(
    ("held", "required", "missing"),
    [
        ((), (), None),
        (("A",), (), None),
        ((), ("A",), "A"),
        (("A",), ("A", "B"), "B"),
        (("A", "B"), ("A", "B"), None),
        (("A",), ("ROLE_A",), None),
        ((), ("ROLE_A",), "ROLE_A"),
        (("ROLE_A",), ("ROLE_A", "ROLE_B"), "ROLE_B"),
        (("*",), ("A", "B"), None),
    ],
)
def test_every_required_role_is_needed(make_tool, held, required, missing):
    """The first that is missing is named as the tool declares it."""
    descriptor = make_tool(required_roles=required).descriptor
    actor = Actor(subject="a", roles=held)
    assert visible(actor, descriptor) is (missing is None)
    assert missing_role(actor, descriptor) == missing
