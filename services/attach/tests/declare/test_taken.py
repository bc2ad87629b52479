"""Names that are toolsets already."""

from __future__ import annotations

from searchbus_attach.declare.taken import taken_names
from searchbus_contracts.services import Service


def test_toolsets_of_services_and_of_the_edge_are_taken():
    """Tools, resources and prompts, and those of the edge itself."""
    services = {"a": Service(name="a", toolsets=("x",), resources=("y",), prompts=("z",))}
    assert {"x", "y", "z", "connector", "lazy"} == taken_names(services)
