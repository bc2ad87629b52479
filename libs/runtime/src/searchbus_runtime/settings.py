"""Settings from the environment, `.env`, files of secrets and `searchbus.toml`.

    class DdgSettings(ServiceSettings):
        ddg_egress: tuple[str, ...] = ("direct",)      # SEARCHBUS_DDG_EGRESS, or [ddg] ddg_egress

All faults are reported at once, a line for each. A secret may be a file in the folder
SEARCHBUS_SECRETS_DIR, named like its variable, as containers mount them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from searchbus_bus import ActorSigner, ActorVerifier, TlsFiles
from searchbus_contracts.services import Service

from .config_check import check_config
from .config_file import EXIT_BAD_SETTINGS, WrongSettingsError, find_config
from .config_sources import SECRETS_DIR, Sources, secret_files
from .secret import Secret, values_of
from .setting_list import PREFIX, SHARED, Setting
from .state import data_folder
from .wording import without_credentials

S = TypeVar("S", bound="ServiceSettings")


def each_value(check: Callable[[str], object]) -> AfterValidator:
    """Checks each value of a setting, see `values_of`; `check` raises ValueError."""

    def checked(given: Any) -> Any:
        text = given.get_secret_value() if isinstance(given, SecretStr) else given
        for value in values_of(text) if text is not None else ():
            check(value)
        return given

    return AfterValidator(checked)


def check_seed(seed: str) -> None:
    """Raise ValueError unless it is the seed of a user's nkey."""
    if not re.fullmatch(r"SU[A-Z2-7]{56}", seed):
        raise ValueError("is not the seed of a user's nkey; `searchbus nats-config` makes them")


def check_public_key(key: str) -> None:
    """Raise ValueError unless it verifies the Actor header."""
    _check_actor_key(ActorVerifier, key)


def check_private_key(key: str) -> None:
    """Raise ValueError unless it signs the Actor header."""
    _check_actor_key(ActorSigner, key)


def _check_actor_key(use: Callable[[str], object], key: str) -> None:
    try:
        use(key)
    except ValueError:
        raise ValueError(
            "is not a key of the Actor header; `searchbus nats-config` makes both"
        ) from None


class ServiceSettings(BaseSettings):
    """The settings of every searchbus process; a service adds its own fields."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        extra="ignore",
        allow_inf_nan=False,
    )

    nats_url: str = "nats://127.0.0.1:4222"
    """One URL, or several with commas."""
    subject_prefix: str = Field("sb", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """First token of every subject; installations on one NATS server have different ones."""
    nats_nkey_seed: Annotated[SecretStr | None, each_value(check_seed)] = None
    """Seed of this service's nkey, where the server demands one; two lines while it is rotated."""
    nats_store_nkey_seed: Annotated[SecretStr | None, each_value(check_seed)] = None
    """Seed of the nkey for this service's buckets, where they are in an account of their own."""
    nats_inbox_prefix: str = Field("_INBOX", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """Prefix of the subjects of replies, which a secured bus gives to each service."""
    nats_ca_file: Path | None = None
    """Certificate authority of a TLS server."""
    nats_cert_file: Path | None = None
    """Certificate of this client, where the server demands one."""
    nats_key_file: Path | None = None
    """Its key."""
    actor_public_key: Annotated[str | None, each_value(check_public_key)] = None
    """Requests must be signed with its private key; two, one a line, while it is rotated."""
    connect_timeout_s: Annotated[float, Field(gt=0, le=600)] = 30.0
    """How long a process waits for NATS when it starts; retrieval then as long for its store."""
    drain_timeout_s: Annotated[float, Field(ge=0, le=600)] = 10.0
    """How long requests in progress may take when a process stops."""
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Requests that a process works on at the same time, at most four fifths of them for one
    caller; more are refused as `overloaded`."""
    data_dir: Path | None = None
    """Folder for documents, traces and state."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe messages that are logged."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """auto: for people on a terminal, else JSON. `searchbus up` sets console by default."""
    health_host: str = "127.0.0.1"
    """Address of /healthz, /readyz and /metrics."""
    health_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Port of /healthz, /readyz and /metrics; 0 takes a free one."""
    otlp_endpoint: str | None = None
    """Base URL of an OTLP/HTTP collector. Default: traces are in <data>/traces.jsonl."""
    otlp_metrics: bool = False
    """Whether metrics are pushed there too; /metrics always has them."""
    trace_sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the traces that are recorded."""
    trace_file_bytes: Annotated[int, Field(ge=65_536)] = 16 * 1024 * 1024
    """Size at which the trace file starts again; the file before it is kept."""

    _secret_files: dict[str, Path] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _tls_files_can_be_used(self) -> ServiceSettings:
        if self.nats_tls is not None:
            self.nats_tls.context()
        return self

    @property
    def nats_tls(self) -> TlsFiles | None:
        """The files of TLS to NATS; `None` where no setting names one."""
        files = (self.nats_ca_file, self.nats_cert_file, self.nats_key_file)
        return TlsFiles("NATS", *files) if any(files) else None

    def secret(self, name: str, check: Callable[[str], object] = str) -> Secret | None:
        """A secret that is read again when its file changes; None where it is not set. `check`
        raises ValueError for a value that cannot be used."""
        given = getattr(self, name)
        if isinstance(given, tuple):
            values = tuple(value.get_secret_value() for value in given)
        else:
            text = given.get_secret_value() if isinstance(given, SecretStr) else given
            values = values_of(text) if text is not None else ()
        if not values:
            return None
        return Secret(name, values, self._secret_files.get(name), check=check)

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *sources: Any, **named: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The configuration file comes last."""
        return (*sources, *named.values(), _FileSource(settings_cls))

    @property
    def trace_file(self) -> Path | None:
        """The local trace file: only with a data folder and without a collector."""
        if self.data_dir is None or self.otlp_endpoint:
            return None
        return self.data_dir / "traces.jsonl"


class FollowingSettings(ServiceSettings):
    """Settings of the processes that follow the catalogues of all services."""

    required_services: tuple[str, ...] | None = None
    """The services of this installation, by their names on the bus: they stay listed however long
    they are away. Default: those that are declared and always started."""
    grace_s: Annotated[float, Field(ge=0, le=86_400)] = 30.0
    """How long another service stays listed after it was stopped."""
    lost_grace_s: Annotated[float, Field(ge=0, le=30 * 86_400)] = 86_400.0
    """How long another service stays listed after it was lost."""

    def expected(self, declared: Iterable[Service]) -> tuple[str, ...]:
        """Names on the bus of the services of this installation."""
        if self.required_services is not None:
            return self.required_services
        return tuple(s.group for s in declared if s.serves and not s.started_by)


class SigningSettings(ServiceSettings):
    """Settings of the processes that sign callers: the edge, and the operator's commands."""

    actor_private_key: Annotated[SecretStr | None, each_value(check_private_key)] = None
    """Signs the caller of each request, where workers check signatures."""


_file_values: ContextVar[Mapping[str, Any]] = ContextVar("file_values", default={})  # noqa: B039
"""What the configuration file sets for the class that is read."""


class _FileSource(InitSettingsSource):
    """The values of the configuration file that nothing before it sets."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, init_kwargs=dict(_file_values.get()))

    def __call__(self) -> dict[str, Any]:
        # Tables of two sources would be merged.
        return {n: v for n, v in super().__call__().items() if n not in self.current_state}


def load_settings(cls: type[S], service: str = SHARED, /, **overrides: Any) -> S:
    """Read settings, by a service's table (SHARED: a command's) and the command line (`overrides`,
    which come first); print a line for each fault and exit with code 2 if there are any."""
    try:
        return read_settings(cls, service, **overrides)
    except WrongSettingsError as error:
        sys.stderr.write("".join(f"error: {fault}\n" for fault in error.faults))
        raise SystemExit(EXIT_BAD_SETTINGS) from None


def read_settings(cls: type[S], service: str = SHARED, /, **overrides: Any) -> S:
    """Read settings; see `load_settings`. Raises WrongSettingsError with all faults."""
    return validated(cls, find_sources(cls, service, overrides.get("data_dir")), **overrides)


def find_sources(cls: type[ServiceSettings], service: str, data: Path | None = None) -> Sources:
    """The sources of a class's settings, checked by `check_config`; raises WrongSettingsError."""
    folder = data_folder(data)
    sources = Sources(service, find_config(folder))
    known = {**sources.settings[SHARED], **sources.settings.get(service, {})}
    if service not in sources.settings or not known.keys() >= cls.model_fields.keys():
        from .setting_classes import describe

        own = {**sources.settings.get(service, {}), **describe(cls)}
        sources = Sources(service, sources.config, {**sources.settings, service: own})
    return check_config(sources, folder)


def validated(cls: type[S], sources: Sources, **overrides: Any) -> S:
    """Settings of their sources; raises WrongSettingsError with all faults."""
    token = _file_values.set(sources.file_values)
    try:
        settings = cls(_secrets_dir=os.environ.get(SECRETS_DIR) or None, **overrides)
    except ValidationError as error:
        raise WrongSettingsError(*_faults(cls, sources, error, overrides)) from None
    except SettingsError as error:
        # Raised before any value is checked, for the first one that is not JSON where it must be.
        named = re.search(r'field "(\w+)"', str(error))
        place = _place(named[1], sources, ()) if named else "A setting"
        reason = error.__cause__ or error
        raise WrongSettingsError(
            f'{place}: must be JSON ({reason}). Write a list as ["a"], a table as {{"a": "b"}}.'
        ) from None
    finally:
        _file_values.reset(token)
    # Kept: the environment that comes before the files is forgotten once it was read.
    for path in secret_files():
        name = path.name.upper().removeprefix(PREFIX).lower()
        found = sources.find(name) if name in cls.model_fields and name not in overrides else None
        if found is not None and found.place == str(path):
            settings._secret_files[name] = path
    return settings


def forget_secrets(cls: type[ServiceSettings]) -> None:
    """Remove secrets from `os.environ` once they are read: no child process inherits them."""
    secret = {f"{PREFIX}{n}".lower() for n, field in cls.model_fields.items() if _is_secret(field)}
    for name in [name for name in os.environ if name.lower() in secret]:  # read in any case
        del os.environ[name]


def _is_secret(field: FieldInfo | None) -> bool:
    return field is not None and "Secret" in str(field.annotation)


def _faults(
    cls: type[ServiceSettings],
    sources: Sources,
    error: ValidationError,
    overrides: Mapping[str, Any],
) -> Iterator[str]:
    """A line for each, by the places where the user sets them."""
    known = {**sources.settings[SHARED], **sources.settings.get(sources.service, {})}
    for fault in error.errors():
        message = fault["msg"].removeprefix("Value error, ")
        if not fault["loc"]:  # of several settings together: its input is all of them
            yield message
            continue
        name = str(fault["loc"][0])
        secret = _is_secret(cls.model_fields.get(name))
        given = "" if secret or isinstance(fault["input"], SecretStr) else f" (got {_short(fault)})"
        remedy = "" if fault["type"] == "value_error" else _remedy(known.get(name))
        yield " ".join(f"{_place(name, sources, overrides)}: {message}{given}{remedy}".split())


def _place(name: str, sources: Sources, overrides: Iterable[str]) -> str:
    found = None if name in overrides else sources.find(name)
    if found is None:
        return f"{PREFIX}{name.upper()}"
    return f"{found.place}: {name}" if found.source in ("file", "secret file") else found.place


def _remedy(setting: Setting | None) -> str:
    """What to write instead; a sentence."""
    if setting is None or not setting.kind:
        return ""
    wanted = (
        setting.range if setting.choices else ", ".join(filter(None, (setting.kind, setting.range)))
    )
    article = "" if setting.choices or setting.kind == "true or false" else "a "
    return f". Use {article}{wanted}."


def _short(fault: Any) -> str:
    text = without_credentials(repr(fault["input"]))
    return text if len(text) <= 60 else text[:57] + "..."
