"""The keys of a secured stack."""

from __future__ import annotations

import json
import stat

import pytest

from searchbus_cli.errors import StackError
from searchbus_cli.secure import Security
from searchbus_cli.seeds import public_key
from searchbus_contracts.services import OPERATOR, Service

FIRST = {"web": Service(name="web"), "cli": OPERATOR}
PRIVATE = "SEARCHBUS_ACTOR_PRIVATE_KEY"
STORE_SEED = "SEARCHBUS_NATS_STORE_NKEY_SEED"


def test_keys_are_made_once_and_only_the_owner_reads_them(tmp_path):
    """A second start finds the same keys."""
    security = Security.open(tmp_path, FIRST)
    path = tmp_path / "secure" / "keys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    assert security.environment("web") == Security.open(tmp_path, FIRST).environment("web")
    assert before == path.read_bytes()


def test_new_service_gets_a_key_and_the_others_keep_theirs(tmp_path):
    """An old data folder takes a service that was installed later."""
    before = Security.open(tmp_path, FIRST).environment("web")
    after = Security.open(tmp_path, {**FIRST, "toy": Service(name="toy")})
    assert before == after.environment("web")
    seed = after.environment("toy")["SEARCHBUS_NATS_NKEY_SEED"]
    assert public_key(seed) in after.authorization


def test_key_of_a_removed_service_is_not_in_the_configuration(tmp_path):
    """It stays in the file, for the day when the service comes back."""
    old = Security.open(tmp_path, {**FIRST, "toy": Service(name="toy")})
    seed = old.environment("toy")["SEARCHBUS_NATS_NKEY_SEED"]
    now = Security.open(tmp_path, FIRST)
    assert public_key(seed) not in now.authorization
    assert seed in (tmp_path / "secure" / "keys.json").read_text()


def test_private_key_goes_to_those_who_sign(tmp_path):
    """Every service gets the public one."""
    security = Security.open(tmp_path, FIRST)
    assert PRIVATE in security.environment("cli")
    assert PRIVATE not in security.environment("web")
    assert security.environment("web")["SEARCHBUS_ACTOR_PUBLIC_KEY"]
    assert security.environment("web")["SEARCHBUS_NATS_INBOX_PREFIX"] == "_INBOX_web"


def test_service_with_buckets_has_a_second_key(tmp_path):
    """Also in a data folder from before it had any; others have one only."""
    assert STORE_SEED not in Security.open(tmp_path, FIRST).environment("web")
    security = Security.open(tmp_path, {**FIRST, "web": Service(name="web", buckets=("b",))})
    environment = security.environment("web")
    assert public_key(environment[STORE_SEED]) in security.authorization
    assert environment[STORE_SEED] != environment["SEARCHBUS_NATS_NKEY_SEED"]
    assert STORE_SEED not in security.environment("cli")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({"seeds": {"web": "x"}, "actor_private": "", "actor_public": ""}),
    ],
)
def test_damaged_file_names_the_remedy(tmp_path, content):
    """New keys are not made over it: others may still hold the old ones."""
    path = tmp_path / "secure" / "keys.json"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(StackError, match=r"keys\.json is damaged .* Delete it to make new keys\."):
        Security.open(tmp_path, FIRST)
    assert content == path.read_text()
