"""The file of sign-ins."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from searchbus_attach.auth.keys import Sealer
from searchbus_attach.auth.vault import Registered, Tokens, Vault
from searchbus_attach.errors import AuthError
from searchbus_runtime import Secret

TOKENS = Tokens(access_token="word-a", refresh_token="word-r", issuer="https://x")


def test_tokens_are_kept_sealed_for_each_server_and_caller(vault):
    """For the owner of the file only."""
    assert vault.get("safe", "ann") is None
    before = vault.stamp()
    vault.put("safe", "ann", TOKENS)
    vault.put("safe", "", TOKENS)
    assert vault.get("safe", "ann") == TOKENS
    assert vault.get("safe", "bob") is vault.get("other", "ann") is None
    assert vault.logins() == [("safe", ""), ("safe", "ann")]
    assert "word" not in vault.path.read_text()
    assert vault.path.stat().st_mode & 0o777 == 0o600
    assert vault.stamp() != before


def test_what_is_removed_is_gone(vault):
    """From the file too."""
    vault.put("safe", "ann", TOKENS)
    assert vault.remove("safe", "ann")
    assert not vault.remove("safe", "ann")
    assert vault.get("safe", "ann") is None


def test_an_entry_that_was_moved_is_refused(vault):
    """Who can write the file cannot give one caller's tokens to another."""
    vault.put("safe", "ann", TOKENS)
    content = json.loads(vault.path.read_text())
    content["logins"]["safe"]["bob"] = content["logins"]["safe"].pop("ann")
    vault.path.write_text(json.dumps(content))
    with pytest.raises(AuthError, match="moved"):
        vault.get("safe", "bob")


def test_clients_are_kept_too(vault):
    """Sealed, and bound to their server."""
    client = Registered(issuer="https://x", redirect_uri="http://y", information={"a": "word"})
    assert vault.client("safe") is None
    vault.put_client("safe", client)
    assert vault.client("safe") == client
    assert "word" not in vault.path.read_text() + repr(client)
    content = json.loads(vault.path.read_text())
    content["clients"]["other"] = content["clients"]["safe"]
    vault.path.write_text(json.dumps(content))
    with pytest.raises(AuthError, match="moved"):
        vault.client("other")


def rotated_key(path, *keys):
    path.write_text("\n".join(base64.b64encode(key).decode() for key in keys))


def test_a_rotated_key_seals_every_entry_anew(vault, tmp_path):
    """Entries stay readable all along, also of a process that has not yet read the new key."""
    old, new, path = bytes(range(32)), bytes(range(1, 33)), tmp_path / "KEY"
    rotated_key(path, old)
    secrets = [Secret("attach_vault_key", (path.read_text(),), path) for _ in range(2)]
    first, second = [Vault(vault.path, Sealer(secret)) for secret in secrets]
    client = Registered(issuer="https://x", redirect_uri="http://y", information={"a": "word"})
    first.put("safe", "ann", TOKENS)
    first.put_client("safe", client)
    assert first.seal_anew() == 0
    assert second.get("safe", "ann") == TOKENS
    rotated_key(path, old, new)
    secrets[0].latest()
    assert first.seal_anew() == 2
    assert second.get("safe", "ann") == TOKENS
    rotated_key(path, new)
    alone = Vault(vault.path, Sealer(new))
    assert alone.get("safe", "ann") == first.get("safe", "ann") == TOKENS
    assert alone.client("safe") == client
    with pytest.raises(AuthError):
        Vault(vault.path, Sealer(old)).get("safe", "ann")


def test_entries_that_no_key_opens_stay_as_they_are(vault, tmp_path):
    """The key may be put back."""
    vault.put("safe", "ann", TOKENS)
    assert Vault(vault.path, Sealer(bytes(32))).seal_anew() == 0
    assert vault.get("safe", "ann") == TOKENS


def test_another_key_or_a_damaged_file_is_a_fault(vault):
    """That names the file and no content."""
    vault.put("safe", "ann", TOKENS)
    other = Vault(vault.path, Sealer(bytes(32)))
    with pytest.raises(AuthError, match=r"attach-logins.json cannot be used: it was not sealed"):
        other.get("safe", "ann")
    vault.path.write_text("{")
    with pytest.raises(AuthError, match="cannot be used"):
        vault.get("safe", "ann")


async def test_one_refresh_at_a_time_over_all_processes(vault, sealer):
    """Of one server: a second vault of the same file waits, and a cancelled one lets go."""
    other = Vault(vault.path, sealer)
    steps: list[str] = []

    async def refresh(one: Vault, name: str, free: asyncio.Event) -> None:
        async with one.asking("safe"):
            steps.append(name)
            await free.wait()
            steps.append(name)

    first, second = asyncio.Event(), asyncio.Event()
    second.set()
    running = asyncio.create_task(refresh(vault, "a", first))
    while not steps:
        await asyncio.sleep(0)
    waiting = asyncio.create_task(refresh(other, "b", second))
    await asyncio.sleep(0.1)
    assert steps == ["a"]
    async with asyncio.timeout(30), other.asking("other"):
        pass
    running.cancel()
    await waiting
    assert steps == ["a", "b", "b"]
