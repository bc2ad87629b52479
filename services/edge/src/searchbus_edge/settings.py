"""Settings of the edge (environment prefix SEARCHBUS_)."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

from searchbus_contracts import is_token
from searchbus_runtime import FollowingSettings, SigningSettings
from searchbus_runtime.addresses import url_host, url_of
from searchbus_runtime.loans import Loan
from searchbus_runtime.settings import each_value

from .auth.identity import DEFAULT_PATHS
from .tools.budgets import BUDGETS

# Validators are built at their first use: few of MCP's and OpenAPI's models are ever used, and all
# of them are an eighth of the CPU time of the edge's start.
BaseModel.model_config["defer_build"] = True

_OWN_ENDPOINTS = ("connector", "web", "fomc", "ddg", "lazy", "bulk")
"""What these list is promised to clients."""
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def check_state_key(key: str) -> None:
    """Raise ValueError for a key that could be guessed."""
    if len(key) < 32:
        raise ValueError("must have 32 characters or more; `searchbus nats-config` makes one")


class EdgeSettings(SigningSettings, FollowingSettings):
    """Settings of the edge. Lists are JSON: SEARCHBUS_ALLOWED_HOSTS='["search.example.org"]'."""

    host: str = "127.0.0.1"
    """Address to listen on. Beyond loopback callers must sign in, unless `auth` is none."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """Port to listen on; 0 takes a free one."""
    port_file: Path | None = None
    """A file to write the bound port into."""
    reuse_port: bool = False
    """Whether several edges of this machine listen on the port; `up --scale edge=N` sets it."""
    processes: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes on the port, one for each core; the health port answers for all."""
    auth: Literal["jwt", "static", "none"] | None = None
    """jwt: tokens of an identity provider; static: keys from a file; none: every caller may use
    every tool. Default: none on loopback, jwt elsewhere."""
    issuer: str | None = None
    """The identity provider, exactly as `iss` in its tokens."""
    jwks_url: str | None = None
    """Address of its keys; by default taken from its metadata."""
    audiences: tuple[str, ...] = ()
    """Accepted values of `aud`, besides the addresses of the endpoints."""
    role_paths: tuple[str, ...] = DEFAULT_PATHS
    """Claims that hold roles, see docs/guides/keys.md."""
    keys_file: Path | None = None
    """The file of static keys, which `searchbus keys` writes; default <data>/keys.json."""
    hold_changes: tuple[str, ...] = ()
    """Toolsets whose tools are held when their definitions change, until `searchbus pins approve`;
    '*' is every toolset."""
    pins_file: Path | None = None
    """The file of approved definitions, the same for all edges; default <data>/pins.json."""
    share_files: bool = False
    """Whether the files of keys and of approved definitions are the same for all edges: then they
    are copies of what the key-value store has on its disks, which then also has the counts of
    budgets."""
    audit_arguments: bool = False
    """Whether the audit log holds arguments."""
    allowed_hosts: tuple[str, ...] = ()
    """Accepted Host headers besides loopback and HOST; 'name:*' allows any port."""
    allowed_origins: tuple[str, ...] = ()
    """Accepted Origin headers besides loopback and HOST."""
    toolset_order: tuple[str, ...] = ("connector", "web", "fomc", "ddg")
    """The toolsets that get a shared tool name on /mcp first; the others in alphabetical order."""
    body_limit_bytes: Annotated[int, Field(ge=1024)] = 4 * 1024 * 1024
    """The largest request."""
    call_limit_bytes: Annotated[int, Field(ge=1024)] = 256 * 1024
    """The largest request, unless its tool declares a larger one; at most BODY_LIMIT_BYTES."""
    body_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """Time from the head of a request to the end of its body; then HTTP 408."""
    max_connections: Annotated[int, Field(ge=1)] = 4096
    """Open connections. A further one takes the place of the one that has been idle longest; where
    none is idle it is answered by HTTP 503."""
    max_connections_per_address: Annotated[int, Field(ge=1)] = 1024
    """Open connections from one address. Behind a proxy all clients have its address."""
    large_answer_bytes: Annotated[int, Field(ge=1)] = 32 * 1024 * 1024
    """Bytes of answers over 512 KiB that this edge receives and sends at the same time. A larger
    one is admitted alone; the edge needs about five times as much memory."""
    large_answer_bytes_per_caller: Annotated[int, Field(ge=1)] = 16 * 1024 * 1024
    """The same for one caller."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose X-Forwarded-For names the client; those of all others
    are ignored."""
    search: bool = True
    """Offer search while a tool index is on the bus."""
    search_rate_per_s: Annotated[float, Field(ge=0)] | None = None
    """Sustained searches per caller; 0: no limit. Default: 100, and 500 without access control,
    where all callers share one count."""
    search_burst: Annotated[int, Field(ge=1, le=1_000_000)] = 5_000
    """Searches of a caller at once, before the sustained rate counts."""
    call_rate_per_s: Annotated[float, Field(ge=0)] | None = None
    """Sustained calls per caller: of tools, and of prompts and resources that services answer; 0:
    no limit. Default: 50, and no limit without access control."""
    call_burst: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    """Calls of a caller at once, before the sustained rate counts."""
    costly_rate_per_s: Annotated[float, Field(ge=0)] = 5.0
    """Sustained calls per caller to each tool that costs money; 0: no limit."""
    costly_burst: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Calls of a caller to a tool that costs money at once, before the sustained rate counts."""
    daily_budgets: dict[str, Annotated[int, Field(ge=0)]] = Field({})
    """Budgets of a day (UTC) of each caller and of all, JSON: calls, costly_calls (that cost
    money), credits (of paid providers) and tokens (of answers, estimated): {"caller_calls": 2000,
    "tenant_tokens": 5000000}."""
    abuse_rate_per_s: Annotated[float, Field(ge=0)] | None = None
    """Sustained HTTP requests per caller before HTTP 429, and messages of each tenant that
    borrows; 0: no limit. Default: 500, and no limit without access control."""
    abuse_burst: Annotated[int, Field(ge=1, le=1_000_000)] = 5_000
    """HTTP requests of a caller at once, before the sustained rate counts."""
    http_interfaces: tuple[Literal["api", "console", "searxng", "tavily", "read"], ...] = (
        "api",
        "console",
        "searxng",
        "tavily",
        "read",
    )
    """Interfaces of plain HTTP that are served beside MCP. api: /api/v1, /openapi.json and /docs;
    each other one: the paths below its name."""
    console_trace_link: str = ""
    """The address of a trace in the collector's pages, with {trace_id}. Default: the console shows
    the traces of this machine's file."""
    pinned_tools: tuple[str, ...] = ()
    """Tools that /mcp/lazy lists beside find_tools and call_tool."""
    call_tool_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "call_tool"
    """The name of call_tool for clients. Semantic Kernel drops this one: set e.g. run_tool."""
    joined_endpoints: dict[str, Annotated[tuple[str, ...], Field(min_length=1, max_length=100)]] = (
        Field({}, max_length=100)
    )
    """Endpoints that join toolsets, JSON: {"desk": ["web", "files"]} is /mcp/desk, with the names
    of /mcp. A tool there that calls others finds only those of these toolsets."""
    connector_sources: dict[str, float] = Field({"documents": 1.0, "web": 0.7})
    """Sources of the connector's search with their weights; 0 or absent: not used."""
    public_url: str | None = None
    """The address of this edge for clients: audience of tokens, in citations of documents."""
    server_name: (
        Annotated[str, Field(max_length=200, pattern=r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$")] | None
    ) = None
    """The name under which the edge describes itself to everybody, at /mcp/server-card and
    /.well-known/ai-catalog.json: com.example/search, for an owner of example.com. Default: it does
    not."""
    server_description: Annotated[str, Field(min_length=1, max_length=100)] = (
        "Search and retrieval tools for agents."
    )
    """What these say that it is for."""
    page_size: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Entries on a page of a list."""
    list_ttl_ms: Annotated[int, Field(ge=0)] = 5_000
    """How long clients may reuse a list."""
    state_key: Annotated[SecretStr | None, each_value(check_state_key)] = None
    """Signs cursors, ids and the state that clients carry; all edges share it. Of 32 characters or
    more. Default: one that is kept in the data folder."""
    loans: Annotated[SecretStr | None, each_value(Loan.parse)] = None
    """Toolsets lent to other tenants of the NATS server, by `searchbus nats-config --lend`."""
    trust_traces: bool | None = None
    """Whether the trace context of a client, or of a tenant that borrows, becomes the parent of our
    spans, or only a link. Default: parent on loopback, link elsewhere."""
    call_timeout_cap_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    """The longest time that a call may take."""
    skills_dir: Path | None = None
    """A folder of skills for agents, each a folder with a SKILL.md; read when the edge starts."""
    task_after_s: Annotated[float, Field(ge=0, le=600)] = 5.0
    """A call that takes longer becomes a task, for clients that declare tasks. 0: never."""

    @field_validator("daily_budgets")
    @classmethod
    def _budgets_exist(cls, given: dict[str, int]) -> dict[str, int]:
        for name in given:
            if name not in BUDGETS:
                raise ValueError(f"there is no budget {name[:40]!r}: use {', '.join(BUDGETS)}")
        return given

    @field_validator("joined_endpoints")
    @classmethod
    def _endpoints_have_names(cls, given: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for name, toolsets in given.items():
            for text in (name, *toolsets):
                if not is_token(text):
                    raise ValueError(f"{text[:40]!r} cannot be the name of a toolset")
            if name in _OWN_ENDPOINTS:
                raise ValueError(f"/mcp/{name} is a toolset of its own: choose another name")
        return given

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies_are_addresses(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for text in given:
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise ValueError(
                    f"{text!r} is not an address or a network such as 10.0.0.0/8"
                ) from None
        return given

    @model_validator(mode="after")
    def _several_share_a_port(self) -> EdgeSettings:
        if self.processes > 1 and not self.port:
            raise ValueError("port 0 is a free one, and several processes need one port: set PORT")
        return self

    @model_validator(mode="after")
    def _check_access_control(self) -> EdgeSettings:
        if self.mode == "jwt" and not self.issuer:
            raise ValueError(
                f"host {self.host} is reachable from outside, and no identity provider is "
                "configured. Set SEARCHBUS_ISSUER, or SEARCHBUS_AUTH=static for keys of a file, or "
                "SEARCHBUS_AUTH=none to give every caller access"
            )
        if self.mode != "jwt" and self.issuer:
            raise ValueError(
                f"SEARCHBUS_ISSUER names an identity provider, and access control is {self.mode}: "
                "set SEARCHBUS_AUTH=jwt, or unset SEARCHBUS_ISSUER"
            )
        if self.mode == "jwt" and not (self.public_url or self.audiences):
            raise ValueError(
                "tokens are checked for their audience: set SEARCHBUS_PUBLIC_URL to the address "
                "that clients use, or SEARCHBUS_AUDIENCES"
            )
        if self.mode == "static" and self.key_file is None:
            raise ValueError("static keys need a file: set SEARCHBUS_KEYS_FILE")
        if self.hold_changes and self.pin_file is None:
            raise ValueError("held definitions need a file: set SEARCHBUS_PINS_FILE")
        return self

    def base_url(self, port: int) -> str:
        """Where clients reach this edge, by the bound port."""
        return (self.public_url or url_of(self.host, port)).rstrip("/")

    @property
    def mode(self) -> Literal["jwt", "static", "none"]:
        """The access control in force."""
        return self.auth or ("none" if self.on_loopback else "jwt")

    @property
    def trusts_traces(self) -> bool:
        """Whether a client may continue its trace here."""
        return self.on_loopback if self.trust_traces is None else self.trust_traces

    @property
    def rates_per_s(self) -> tuple[float, float, float]:
        """The limits in force: searches, calls and HTTP requests per caller."""
        known = self.mode != "none"
        given = (self.search_rate_per_s, self.call_rate_per_s, self.abuse_rate_per_s)
        defaults = (100.0, 50.0, 500.0) if known else (500.0, 0.0, 0.0)
        search, call, abuse = (
            default if rate is None else rate for rate, default in zip(given, defaults, strict=True)
        )
        return search, call, abuse

    @property
    def key_file(self) -> Path | None:
        """The file of static keys."""
        return self.keys_file or (self.data_dir / "keys.json" if self.data_dir else None)

    @property
    def pin_file(self) -> Path | None:
        """The file of approved definitions."""
        return self.pins_file or (self.data_dir / "pins.json" if self.data_dir else None)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    @property
    def _own(self) -> list[str]:
        """Loopback, and the one address to listen on: no page of others can give itself that."""
        names = (*_LOOPBACK_NAMES, url_host(self.host))
        return [form for name in names for form in (name, f"{name}:*")]

    @property
    def hosts(self) -> list[str]:
        """Allowed Host headers, with and without a port."""
        return [*self._own, *self.allowed_hosts]

    @property
    def origins(self) -> list[str]:
        """Allowed Origin headers."""
        own = [f"{scheme}://{form}" for form in self._own for scheme in ("http", "https")]
        return [*own, *self.allowed_origins]
