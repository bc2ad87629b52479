"""The accounts of a NATS server."""

from __future__ import annotations

import json

from searchbus_cli.authorization import BUS, accounts, authorization, store_account, with_buckets
from searchbus_contracts.services import Service, publishes, subscribes

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
    name, _, value = authorization(KEYS, STORE_KEYS, SERVICES).partition(": ")
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
