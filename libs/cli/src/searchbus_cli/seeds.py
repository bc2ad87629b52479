"""Seeds and public keys of the users of a NATS server (nkeys)."""

from __future__ import annotations

import os

import nkeys


def new_seed() -> str:
    """The seed of a new user: its private key, which is to be kept secret."""
    seed: bytes = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return seed.decode()


def public_key(seed: str) -> str:
    """The public key of a seed; the server knows users by it.

    Raises:
        ValueError: it is not a seed.
    """
    try:
        key: bytes = nkeys.from_seed(seed.encode()).public_key
    except nkeys.NkeysError as error:
        raise ValueError(f"not a valid seed: {error}") from None
    return key.decode()
