"""The users of a NATS server."""

from __future__ import annotations

import json

from searchbus_cli.authorization import authorization, users
from searchbus_contracts.permissions import publishes, subscribes
from searchbus_contracts.services import Service

SERVICES = {
    "asks": Service(name="asks", calls=("answers.find",)),
    "answers": Service(name="answers", endpoints=("find",)),
}
KEYS = {"asks": "UA", "answers": "UB"}


def test_each_service_has_its_key_and_its_own_lists():
    """Those that follow from the declarations, under the prefix."""
    found = {user["nkey"]: user["permissions"] for user in users(KEYS, SERVICES, "p")}
    assert {"UA", "UB"} == set(found)
    for name, key in KEYS.items():
        service = SERVICES[name]
        assert publishes(service, SERVICES.values(), "p") == found[key]["publish"]["allow"]
        assert subscribes(service, "p") == found[key]["subscribe"]["allow"]
    assert "p.v1.answers.find" in found["UA"]["publish"]["allow"]
    assert "p.v1.answers.find" not in found["UB"]["publish"]["allow"]


def test_block_is_one_setting_of_the_server():
    """Its value is JSON, which NATS reads too."""
    name, _, value = authorization(KEYS, SERVICES).partition(": ")
    assert name == "authorization"
    assert users(KEYS, SERVICES) == json.loads(value)["users"]
