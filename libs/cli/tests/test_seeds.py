"""Seeds and public keys of NATS users."""

from __future__ import annotations

import re

import pytest

from searchbus_cli.seeds import new_seed, public_key


def test_seed_is_new_each_time_and_belongs_to_a_user():
    """SU… is a user's seed, U… its public key."""
    first, second = new_seed(), new_seed()
    assert first != second
    assert re.fullmatch(r"SU[A-Z2-7]{56}", first)
    assert re.fullmatch(r"U[A-Z2-7]{55}", public_key(first))
    assert public_key(first) == public_key(first)


@pytest.mark.parametrize("text", ["", "SU", "no seed", "SU" + "1" * 56, "U" + "A" * 55])
def test_anything_else_is_a_value_error(text):
    """Its text is not repeated: it may be a secret with a typing error."""
    with pytest.raises(ValueError, match="not a valid seed") as caught:
        public_key(text)
    assert not text or text not in str(caught.value)
