"""A listing follows another one where something has changed."""

from __future__ import annotations

from searchbus_bus.catalog.services import Listing
from searchbus_contracts import Catalog

ONE, TWO = Catalog(service="one"), Catalog(service="two")


def test_equal_content_has_no_following_listing():
    """Catalogues are compared by identity: comparing fifty thousand tools takes long."""
    listing = Listing(7, (ONE, TWO), {"a": "one"})
    assert listing.following((ONE, TWO), {"a": "one"}) is None


def test_any_change_has_the_next_generation():
    """Of a catalogue, of their number, of an owner."""
    listing = Listing(7, (ONE, TWO), {"a": "one"})
    for catalogs, owners in (
        ((ONE, Catalog(service="two")), {"a": "one"}),
        ((ONE,), {"a": "one"}),
        ((ONE, TWO), {"a": "two"}),
        ((ONE, TWO), {}),
    ):
        assert listing.following(catalogs, owners) == Listing(8, catalogs, owners)
