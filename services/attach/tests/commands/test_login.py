"""`searchbus attach login`, `logins`, `logout`, `identity`."""

from __future__ import annotations

import base64
import json

import pytest
from joserfc.jwk import ECKey

from searchbus_attach.auth.keys import Sealer
from searchbus_attach.auth.vault import Tokens, Vault
from searchbus_testing import run_command

KEY = bytes(range(32))
AUTH = '[servers.far.auth]\ntype = "authorization_code"\n'


@pytest.fixture
def attach(tmp_path, monkeypatch):
    for name in ("SEARCHBUS_ATTACH_FILE", "SEARCHBUS_NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEARCHBUS_ATTACH_VAULT_KEY", base64.b64encode(KEY).decode())
    monkeypatch.setenv("SEARCHBUS_ATTACH_LOGIN_PORT", "8123")
    (tmp_path / "attach.toml").write_text(
        f'[servers.far]\nurl = "http://127.0.0.1:9/mcp"\n{AUTH}[servers.open]\ncommand = "x"\n'
    )
    return lambda *arguments: run_command("attach", *arguments, data=tmp_path)


def test_the_address_of_a_sign_in(attach):
    """At the pages of the service."""
    done = attach("login", "far")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("http://127.0.0.1:8123/login/")
    done = attach("login", "open")
    assert (done.returncode, done.stdout) == (1, "")
    assert "authorization_code" in done.stderr


def test_without_a_key_the_setting_is_named(attach, monkeypatch):
    """Nobody can sign in then."""
    monkeypatch.delenv("SEARCHBUS_ATTACH_VAULT_KEY")
    assert "SEARCHBUS_ATTACH_VAULT_KEY" in attach("login", "far").stderr


def test_sign_ins_are_listed_and_ended(attach, tmp_path):
    """Without their tokens; a provider that is away does not keep them."""
    vault = Vault(tmp_path / "attach-logins.json", Sealer(KEY))
    for caller in ("", "ann", "bob"):
        vault.put("far", caller, Tokens(access_token="word-token"))
    done = attach("logins")
    assert done.stdout.splitlines() == ["far  (searchbus)", "far  ann", "far  bob"]
    done = attach("logout", "far", "--caller", "ann")
    assert done.returncode == 0, done.stderr
    assert "far  ann: forgotten, not revoked: http://127.0.0.1:9 cannot be reached" in done.stdout
    assert "word-token" not in done.stdout + done.stderr
    assert vault.logins() == [("far", ""), ("far", "bob")]
    assert attach("logout", "far", "--all").returncode == 0
    assert vault.logins() == []
    assert "Nobody to sign out" in attach("logout", "far").stderr
    assert "There is no server fra in " in attach("logout", "fra").stderr
    (tmp_path / "attach.toml").write_text(f'[servers.far]\nurl = "https://${{NONE}}/mcp"\n{AUTH}')
    for caller in ("ann", "bob"):
        vault.put("far", caller, Tokens(access_token="word-token"))
    done = attach("logout", "far", "--all")
    assert done.stdout.count("forgotten, not revoked: ${NONE} has no value") == 2
    assert vault.logins() == []
    vault.put("gone", "", Tokens(access_token="word-token"))
    assert "the server is not declared any more" in attach("logout", "gone").stdout


def test_the_public_key_for_token_exchange(attach, monkeypatch):
    """As a JSON Web Key Set."""
    assert "SEARCHBUS_ATTACH_IDENTITY_KEY" in attach("identity").stderr
    pem = ECKey.generate_key("P-256").as_pem(private=True).decode()
    monkeypatch.setenv("SEARCHBUS_ATTACH_IDENTITY_KEY", pem)
    (key,) = json.loads(attach("identity").stdout)["keys"]
    assert (key["crv"], "d" in key) == ("P-256", False)
