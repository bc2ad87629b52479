"""The ranking of a result on the wire."""

from __future__ import annotations

from searchbus_contracts import decode, encode
from searchbus_contracts.coverage import Ranked


def test_ranking_is_the_same_after_the_wire():
    """Also of a result that no provider counts for."""
    for ranked in (Ranked(0.92, {"brave": 1, "ddg": 3}), Ranked(0.0, {})):
        assert decode(encode(ranked), Ranked) == ranked
