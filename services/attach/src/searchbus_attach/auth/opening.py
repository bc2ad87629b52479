"""Credentials from the settings, for the service and for commands."""

from __future__ import annotations

from ..settings import AttachSettings
from .credentials import Credentials
from .http import AuthHttp
from .identity import Identity
from .login import Logins
from .sealing import Sealer, key_from_text
from .vault import Vault

__all__ = ["credentials_of", "identity_of"]


def credentials_of(settings: AttachSettings) -> Credentials:
    """The credentials of all attached servers."""
    http = AuthHttp()
    logins = None
    if settings.attach_vault_key is not None and settings.login_address:
        sealer = Sealer(key_from_text(settings.attach_vault_key.get_secret_value()))
        vault = Vault(settings.logins, sealer)
        logins = Logins(http, vault, sealer, settings.login_address)
    return Credentials(http, logins=logins, identity=identity_of(settings))


def identity_of(settings: AttachSettings) -> Identity | None:
    """What states callers; None where there is no key."""
    key = settings.attach_identity_key
    if key is None:
        return None
    return Identity(key.get_secret_value(), settings.attach_identity_issuer)
