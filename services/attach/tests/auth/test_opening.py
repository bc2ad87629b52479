"""Credentials from the settings."""

from __future__ import annotations

import base64

import pytest
from joserfc.jwk import ECKey
from pydantic import ValidationError

from searchbus_attach.auth.opening import credentials_of, identity_of
from searchbus_attach.settings import AttachSettings

KEY = base64.b64encode(bytes(32)).decode()


async def test_people_sign_in_where_there_is_a_key_and_an_address(tmp_path):
    """Otherwise not."""
    for keys in ({}, {"attach_vault_key": KEY}, {"attach_login_port": 8080}):
        assert credentials_of(AttachSettings(data_dir=tmp_path, **keys)).logins is None
    settings = AttachSettings(data_dir=tmp_path, attach_vault_key=KEY, attach_login_port=8080)
    logins = credentials_of(settings).logins
    assert logins.redirect_uri == "http://127.0.0.1:8080/callback"
    assert logins.vault.path == tmp_path / "attach-logins.json"
    behind = AttachSettings(
        attach_vault_key=KEY, attach_login_port=8080, attach_login_url="https://x.example/signin"
    )
    assert credentials_of(behind).logins.redirect_uri == "https://x.example/signin/callback"


def test_callers_are_stated_where_there_is_a_key():
    """Otherwise not."""
    assert identity_of(AttachSettings()) is None
    pem = ECKey.generate_key("P-256").as_pem(private=True).decode()
    assert identity_of(AttachSettings(attach_identity_key=pem)) is not None


@pytest.mark.parametrize(
    "keys",
    [
        {"attach_vault_key": "word"},
        {"attach_identity_key": "word"},
        {"attach_login_url": "https://x.example/?a=word"},
        {"attach_login_port": 0},
    ],
)
def test_wrong_settings_are_refused(keys):
    """When the service starts."""
    with pytest.raises(ValidationError):
        AttachSettings(**keys)
