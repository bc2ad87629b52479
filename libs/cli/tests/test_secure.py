"""The keys of a secured stack."""

from __future__ import annotations

import json
import re
import stat

import pytest

from searchbus_cli.errors import StackError
from searchbus_cli.secure import (
    BUS,
    Security,
    accounts,
    authorization,
    new_seed,
    public_key,
    store_account,
    with_buckets,
)
from searchbus_contracts.services import OPERATOR, Service, publishes, subscribes

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


SERVICES = {
    "asks": Service(name="asks", calls=("answers.find",)),
    "answers": Service(name="answers", endpoints=("find",), buckets=("answers_kept",)),
}
KEYS = {"asks": "UA", "answers": "UB"}
STORE_KEYS = {"answers": "UC"}


def test_each_service_has_its_key_and_its_own_lists():
    """Those that follow from the declarations, under the prefix."""
    users = accounts(KEYS, STORE_KEYS, SERVICES, "p")[BUS]["users"]
    found = {user["nkey"]: user["permissions"] for user in users}
    assert {"UA", "UB"} == set(found)
    for name, key in KEYS.items():
        service = SERVICES[name]
        assert publishes(service, SERVICES.values(), "p") == found[key]["publish"]["allow"]
        assert subscribes(service, "p") == found[key]["subscribe"]["allow"]
    assert "p.v1.answers.find" in found["UA"]["publish"]["allow"]
    assert "p.v1.answers.find" not in found["UB"]["publish"]["allow"]


def test_block_is_one_setting_of_the_server():
    """Its value is JSON, which NATS reads too."""
    name, _, value = authorization(accounts(KEYS, STORE_KEYS, SERVICES)).partition(": ")
    assert name == "accounts"
    assert accounts(KEYS, STORE_KEYS, SERVICES) == json.loads(value)


def test_buckets_of_each_service_are_in_an_account_of_their_own():
    """The bus itself has no JetStream."""
    found = accounts(KEYS, STORE_KEYS, SERVICES)
    assert with_buckets(SERVICES) == ["answers"]
    assert set(found) == {BUS, store_account("answers")}
    assert found[store_account("answers")] == {"jetstream": "enabled", "users": [{"nkey": "UC"}]}
    assert "jetstream" not in found[BUS]


def test_what_attaches_toolsets_is_denied_the_toolsets_of_others():
    """NATS checks the list of denials after the other one."""
    services = {
        "attach": Service(name="attach", attaches_toolsets=True),
        "ddg": Service(name="ddg", toolsets=("ddg",)),
    }
    found = accounts({"attach": "UA", "ddg": "UD"}, {}, services)
    attach, ddg = (user["permissions"] for user in found["BUS"]["users"])
    assert attach["subscribe"]["deny"] == sorted(
        f"sb.v1.{to}{family}.ddg.*"
        for to in ("", "at.*.")
        for family in ("tool", "resource", "prompt")
    )
    assert attach["publish"]["deny"] == sorted(
        f"sb.v1.at.*.{family}.ddg.*" for family in ("tool", "resource", "prompt")
    )
    assert "deny" not in ddg["publish"] | ddg["subscribe"]


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
