"""Keys of a stack that trusts nobody on its bus (`searchbus up --secure`): `<data>/secure`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from searchbus_bus import new_actor_keys
from searchbus_contracts.permissions import inbox_prefix
from searchbus_runtime.services import bus_users

from .nats_config import authorization, new_seed, public_key, write_secret

__all__ = ["Security"]


@dataclass(frozen=True)
class Security:
    """Seeds by service, and the keys of the actor header."""

    seeds: dict[str, str]
    actor_private: str
    actor_public: str

    @classmethod
    def of(cls, data: Path) -> Security:
        """The keys of a data folder, made where there are none."""
        path = data / "secure" / "keys.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            private, public = new_actor_keys()
            seeds = {service: new_seed() for service in bus_users()}
            found = {"seeds": seeds, "actor_private": private, "actor_public": public}
            write_secret(path, json.dumps(found))
        return cls(**json.loads(path.read_text()))

    @property
    def server_block(self) -> str:
        """For the server's configuration."""
        users = bus_users()
        keys = {name: public_key(self.seeds[name]) for name in users if name in self.seeds}
        return authorization(keys, users)

    def environment(self, service: str) -> dict[str, str]:
        """A service's own settings; services that are not in the table get none and stay out."""
        if service not in self.seeds:
            return {}
        found = {
            "SEARCHBUS_NATS_NKEY_SEED": self.seeds[service],
            "SEARCHBUS_NATS_INBOX_PREFIX": inbox_prefix(service),
            "SEARCHBUS_ACTOR_PUBLIC_KEY": self.actor_public,
        }
        if bus_users()[service].signs_callers:
            found["SEARCHBUS_ACTOR_PRIVATE_KEY"] = self.actor_private
        return found
