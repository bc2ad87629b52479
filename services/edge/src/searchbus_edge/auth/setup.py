"""The gate that the settings ask for."""

from __future__ import annotations

from searchbus_contracts import Actor

from ..settings import EdgeSettings
from .gate import Gate
from .jwks import Jwks
from .keys import KeyFile, StaticKeys
from .tokens import TokenVerifier

__all__ = ["open_gate"]


def open_gate(settings: EdgeSettings, everybody: Actor) -> tuple[Gate, Jwks | None]:
    """The gate, and the key source to be closed with it."""
    resource_url = settings.public_url or f"http://{settings.host}:{settings.port}"
    if settings.mode == "static":
        assert settings.key_file is not None
        keys = StaticKeys(KeyFile(settings.key_file))
        return Gate(keys=keys, resource_url=resource_url), None
    if settings.mode == "jwt":
        assert settings.issuer is not None
        source = Jwks(settings.issuer, settings.jwks_url)
        tokens = TokenVerifier(source, settings.issuer, role_paths=settings.role_paths)
        gate = Gate(tokens=tokens, resource_url=resource_url, audiences=settings.audiences)
        return gate, source
    return Gate(everybody=everybody, resource_url=resource_url), None
