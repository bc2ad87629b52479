"""Settings from the environment, `.env` and files of secrets; all faults are reported at once.

    class DdgSettings(ServiceSettings):
        ddg_egress: tuple[str, ...] = ("direct",)      # SEARCHBUS_DDG_EGRESS

    settings = load_settings(DdgSettings)

A secret may be a file in the folder SEARCHBUS_SECRETS_DIR, named like its variable, as containers
mount them. The environment overrides files.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from searchbus_bus import ActorSigner, ActorVerifier
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.services import OPERATOR, Service
from searchbus_contracts.subjects import inbox_prefix

from .state import read_state

PREFIX = "SEARCHBUS_"
EXIT_BAD_SETTINGS = 2

S = TypeVar("S", bound="ServiceSettings")


class ServiceSettings(BaseSettings):
    """The settings of every searchbus process; a service adds its own fields."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=".env", env_ignore_empty=True, extra="ignore"
    )

    nats_url: str = Field("nats://127.0.0.1:4222", description="One URL, or several with commas.")
    subject_prefix: str = Field("sb", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    nats_nkey_seed: SecretStr | None = Field(
        None, description="Seed of this service's nkey, where the server demands one."
    )
    nats_store_nkey_seed: SecretStr | None = Field(
        None,
        description="Seed of the nkey for this service's buckets, where they are in an account "
        "of their own.",
    )
    nats_inbox_prefix: str = Field("_INBOX", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    nats_ca_file: Path | None = Field(None, description="Certificate authority of a TLS server.")
    actor_public_key: str | None = Field(
        None, description="Requests are refused unless they are signed with its private key."
    )
    connect_timeout_s: Annotated[float, Field(gt=0, le=600)] = 30.0
    drain_timeout_s: Annotated[float, Field(ge=0, le=600)] = 10.0
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] = 64
    data_dir: Path | None = Field(None, description="Folder for documents, traces and state.")
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    health_host: str = "127.0.0.1"
    health_port: Annotated[int, Field(ge=0, le=65535)] | None = Field(
        None, description="Port of /healthz, /readyz and /metrics; 0 takes a free one."
    )
    otlp_endpoint: str | None = Field(None, description="Base URL of an OTLP/HTTP collector.")
    otlp_metrics: bool = Field(
        False, description="Whether metrics are pushed there too; /metrics always has them."
    )
    trace_sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    trace_file_bytes: Annotated[int, Field(ge=65_536)] = 16 * 1024 * 1024

    @field_validator("nats_nkey_seed", "nats_store_nkey_seed")
    @classmethod
    def _seed_is_a_users(cls, seed: SecretStr | None) -> SecretStr | None:
        if seed is not None and not re.fullmatch(r"SU[A-Z2-7]{56}", seed.get_secret_value()):
            raise ValueError("is not the seed of a user's nkey; `searchbus nats-config` makes them")
        return seed

    @field_validator("actor_public_key")
    @classmethod
    def _public_key_can_be_used(cls, key: str | None) -> str | None:
        if key is not None:
            _check_actor_key(ActorVerifier, key)
        return key

    @property
    def trace_file(self) -> Path | None:
        """The local trace file: only with a data folder and without a collector."""
        if self.data_dir is None or self.otlp_endpoint:
            return None
        return self.data_dir / "traces.jsonl"


class FollowingSettings(ServiceSettings):
    """Settings of the processes that follow the catalogues of all services."""

    required_services: tuple[str, ...] | None = Field(
        None,
        description="The services of this installation, by their names on the bus: they stay "
        "listed however long they are away. Default: those that are declared and always started.",
    )
    grace_s: Annotated[float, Field(ge=0, le=86_400)] = Field(
        30.0, description="How long another service stays listed after it was stopped."
    )
    lost_grace_s: Annotated[float, Field(ge=0, le=30 * 86_400)] = Field(
        86_400.0, description="How long another service stays listed after it was lost."
    )

    def expected(self, declared: Iterable[Service]) -> tuple[str, ...]:
        """Names on the bus of the services of this installation."""
        if self.required_services is not None:
            return self.required_services
        return tuple(
            service.group for service in declared if service.serves and not service.started_by
        )


class SigningSettings(ServiceSettings):
    """Settings of the processes that sign callers: the edge, and the operator's commands."""

    actor_private_key: SecretStr | None = Field(
        None, description="Signs the caller of each request, where workers check signatures."
    )

    @field_validator("actor_private_key")
    @classmethod
    def _private_key_can_be_used(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None:
            _check_actor_key(ActorSigner, key.get_secret_value())
        return key


def _check_actor_key(use: Callable[[str], object], key: str) -> None:
    try:
        use(key)
    except ValueError:
        raise ValueError(
            "is not a key of the Actor header; `searchbus nats-config` makes both"
        ) from None


def load_settings(cls: type[S], **overrides: Any) -> S:
    """Read the settings; print all faults and exit with code 2 if there are any.

    Args:
        overrides: values that override the environment.
    """
    try:
        folder = os.environ.get(f"{PREFIX}SECRETS_DIR") or None
        if folder is not None and not Path(folder).is_dir():
            sys.stderr.write(
                f"{PREFIX}SECRETS_DIR: there is no folder {folder}. Mount the service's secrets "
                "there, or unset it.\n"
            )
            raise SystemExit(EXIT_BAD_SETTINGS)
        return cls(_secrets_dir=folder, **overrides)
    except ValidationError as error:
        _refuse(_faults(cls, error))
    except SettingsError as error:
        # Raised before any value is checked, for the first one that is not JSON where it must be.
        named = re.search(r'field "(\w+)"', str(error))
        name = f"{PREFIX}{named[1].upper()}" if named else "A setting"
        _refuse([f"{name}: must be JSON ({error.__cause__ or error})"])


def forget_secrets(cls: type[ServiceSettings]) -> None:
    """Remove secrets from `os.environ` once they are read: no child process inherits them."""
    secret = {f"{PREFIX}{n}".lower() for n, field in cls.model_fields.items() if _is_secret(field)}
    for name in [name for name in os.environ if name.lower() in secret]:  # read in any case
        del os.environ[name]


def _is_secret(field: FieldInfo | None) -> bool:
    return field is not None and "Secret" in str(field.annotation)


def _refuse(faults: Sequence[str]) -> NoReturn:
    lines = [f"{len(faults)} setting(s) are wrong:", *(f"  {fault}" for fault in faults)]
    lines.append("Set them in the environment, in .env, or as files in SEARCHBUS_SECRETS_DIR.")
    sys.stderr.write("\n".join(lines) + "\n")
    raise SystemExit(EXIT_BAD_SETTINGS)


def _faults(cls: type[ServiceSettings], error: ValidationError) -> list[str]:
    """A line for each, by the names that the user sets."""
    lines = []
    for fault in error.errors():
        message = fault["msg"].removeprefix("Value error, ")
        if not fault["loc"]:  # of several settings together: its input is all of them
            lines.append(message)
            continue
        name = str(fault["loc"][0])
        secret = _is_secret(cls.model_fields.get(name))
        given = "" if secret or isinstance(fault["input"], SecretStr) else f" (got {_short(fault)})"
        lines.append(f"{PREFIX}{name.upper()}: {message}{given}")
    return lines


def _short(fault: Any) -> str:
    text = repr(fault["input"])
    return text if len(text) <= 60 else text[:57] + "..."


def bus_options(settings: ServiceSettings) -> dict[str, Any]:
    """The options of `connect` that settings ask for: prefix, credentials, TLS, actor keys."""
    options: dict[str, Any] = {
        "prefix": settings.subject_prefix,
        "inbox_prefix": settings.nats_inbox_prefix,
    }
    if settings.nats_nkey_seed is not None:
        options["nkeys_seed_str"] = settings.nats_nkey_seed.get_secret_value()
    if settings.nats_store_nkey_seed is not None:
        options["store_nkeys_seed_str"] = settings.nats_store_nkey_seed.get_secret_value()
    if settings.nats_ca_file is not None:
        options["tls"] = ssl.create_default_context(cafile=str(settings.nats_ca_file))
    if settings.actor_public_key is not None:
        options["verifier"] = ActorVerifier(settings.actor_public_key)
    if isinstance(settings, SigningSettings) and settings.actor_private_key is not None:
        options["signer"] = ActorSigner(settings.actor_private_key.get_secret_value())
    return options


def operator_options(data: Path) -> dict[str, Any]:
    """The options of `connect` with which commands on this machine join a stack.

    A secured stack (`searchbus up --secure`) keeps the operator's keys in
    `<data>/secure/keys.json`, which only its owner can read. An open stack needs none.

    Raises:
        Fault: `unavailable`, where the file is damaged.
    """
    path = data / "secure" / "keys.json"
    try:
        found = json.loads(path.read_text())
        return {
            "nkeys_seed_str": found["seeds"][OPERATOR.name],
            "inbox_prefix": inbox_prefix(OPERATOR.name),
            "signer": ActorSigner(found["actor_private"]),
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        raise Fault(
            ErrorCode.UNAVAILABLE,
            f"{path} is damaged. Delete it, and start the stack again to make new keys.",
            retryable=False,
        ) from None


@dataclass(frozen=True, slots=True)
class BusAddress:
    """The URL of a bus, and the options of `connect` for it."""

    url: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)


def find_bus(data: Path) -> BusAddress | None:
    """The bus that a command uses; `None` where none is known.

    SEARCHBUS_NATS_URL comes first, with the credentials of the settings (a cluster, containers).
    Else it is the stack that runs on the data folder, with its operator's keys.
    """
    if os.environ.get("SEARCHBUS_NATS_URL"):
        settings = load_settings(SigningSettings)
        return BusAddress(settings.nats_url, bus_options(settings))
    state = read_state(data)
    if state is None:
        return None
    return BusAddress(state.nats_url, operator_options(Path(state.data)))
