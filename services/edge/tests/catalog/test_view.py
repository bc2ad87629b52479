"""Views: which toolsets list or search resources for a caller."""

from __future__ import annotations

import dataclasses
import re

import pytest

from searchbus_contracts import ResourceTemplate
from searchbus_edge.catalog.view import View, validator


def template(toolset: str, **options):
    found = ResourceTemplate(
        uri_template=f"{toolset}://{{a}}", name="a", toolset=toolset, **options
    )
    return re.compile(""), found


def test_toolsets_are_named_once_in_order_with_their_service(reader):
    """Those that the caller may use."""
    view = View(
        (0, True),
        services={"b": "service-b", "a": "service-a"},
        templates=(
            template("b", lists=True),
            template("b", lists=True, searches=True),
            template("a", searches=True),
            template("a", lists=True, required_roles=("NOBODY",)),
        ),
    )
    assert view.listed_toolsets(reader) == [("b", "service-b")]
    assert view.searched_toolsets(reader) == [("b", "service-b"), ("a", "service-a")]


def test_view_is_immutable():
    """Requests keep the one that they started with."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        View((0, True)).version = (1, True)


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/x", "file:///etc/hostname"])
def test_a_validator_fetches_nothing(reference):
    """A schema comes from a worker."""
    with pytest.raises(ValueError, match="Retrieval is disabled"):
        validator({"type": "object", "$ref": reference})


def test_pattern_has_few_steps_back_for_each_text():
    """A text that needs more is not valid: with thousands of them a call would hold the loop."""
    checked = validator({"items": {"pattern": r"^(?:(a|aa)+\1c|a*)$"}})
    assert checked.is_valid(["a" * 5])
    assert not checked.is_valid(["a" * 20])
    ordinary = validator({"items": {"pattern": r"^(?=.*[a-z])(?!.*--).{1,500}$"}})
    assert ordinary.is_valid(["aB" * 200])
