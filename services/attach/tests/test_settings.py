"""Where the files are, and how people and callers are signed in."""

from __future__ import annotations

import base64

import pytest
from joserfc.jwk import ECKey
from pydantic import ValidationError

from searchbus_attach.settings import AttachSettings, files

KEY = base64.b64encode(bytes(32)).decode()


def test_the_files_are_in_the_data_folder(tmp_path):
    """The file of servers may be elsewhere."""
    settings = AttachSettings(data_dir=tmp_path)
    assert settings.file == tmp_path / "attach.toml"
    assert settings.pins == tmp_path / "attach-pins.json"
    assert AttachSettings(attach_file=tmp_path / "a.json").file == tmp_path / "a.json"


async def test_people_sign_in_where_there_is_a_key_and_an_address(tmp_path):
    """Otherwise not."""
    for keys in ({}, {"attach_vault_key": KEY}, {"attach_login_port": 8080}):
        assert AttachSettings(data_dir=tmp_path, **keys).credentials().logins is None
    settings = AttachSettings(data_dir=tmp_path, attach_vault_key=KEY, attach_login_port=8080)
    logins = settings.credentials().logins
    assert logins.redirect_uri("a") == "http://127.0.0.1:8080/servers/a/callback"
    assert logins.vault.path == tmp_path / "attach-logins.json"
    behind = AttachSettings(
        attach_vault_key=KEY,
        attach_login_port=8080,
        attach_login_url="https://x.example/signin",
        attach_client_metadata_url="https://y.example/{server}.json",
    )
    logins = behind.credentials().logins
    assert logins.redirect_uri("a") == "https://x.example/signin/servers/a/callback"
    assert logins.document("a") == "https://y.example/a.json"


def test_callers_are_stated_where_there_is_a_key():
    """Otherwise not."""
    assert AttachSettings().identity is None
    pem = ECKey.generate_key("P-256").as_pem(private=True).decode()
    assert AttachSettings(attach_identity_key=pem).identity is not None


@pytest.mark.parametrize(
    "keys",
    [
        {"attach_vault_key": "word"},
        {"attach_identity_key": "word"},
        {"attach_login_url": "https://x.example/?a=word"},
        {"attach_login_port": 0},
        {"attach_client_metadata_url": "http://x.example/{server}.json"},
        {"attach_client_metadata_url": "https://x.example/client.json"},
        {"attach_client_metadata_url": "https://{server}.example/client.json"},
        {"attach_client_metadata_url": "https://user@x.example/{server}.json"},
    ],
)
def test_wrong_settings_are_refused(keys):
    """When the service starts."""
    with pytest.raises(ValidationError):
        AttachSettings(**keys)


@pytest.mark.parametrize("name", ["attach.toml", "attach-pins.json"])
def test_doctor_names_a_damaged_file(tmp_path, name):
    """An absent one is in order."""
    assert files(tmp_path)[1]
    (tmp_path / name).write_text("[servers")
    check, ok, message = files(tmp_path)
    assert (check, ok) == ("attached servers", False)
    assert str(tmp_path / name) in message
