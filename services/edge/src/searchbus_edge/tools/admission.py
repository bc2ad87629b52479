"""Admits HTTP requests by one rule for all interfaces; each shows a refusal in its own form.

`HttpPolicy.admit` reads from top to bottom: head → caller → abuse limit → addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from searchbus_bus.client.transit import Transit
from searchbus_contracts import Actor, ErrorCode, Fault

from ..auth.authenticator import Authenticator
from ..auth.identity import UnauthenticatedError
from ..catalog.view import ListedTool
from ..http.body import BodyLimits
from ..http.faults import HttpRefusedError, retry_after_s
from ..http.head import Head, Received, parse_head
from .arrivals import Arrivals
from .audit import AuditLog
from .limits import LocalLimiter
from .telemetry import Tracing


@dataclass(frozen=True, slots=True)
class HttpPolicy:
    """Which HTTP requests are accepted; `abuse` limits them per caller before anything is read."""

    authenticator: Authenticator
    abuse: LocalLimiter
    tracing: Tracing
    addresses: AddressRules
    limits: BodyLimits
    audit: AuditLog
    arrivals: Arrivals = field(default_factory=Arrivals)

    async def admit(self, scope: Any, resource: str) -> Received:
        """The head and the caller; `resource`: the MCP path whose tokens count. Raises
        HttpRefusedError."""
        head = parse_head(scope["headers"])
        if "authorization" in head.repeated:
            # A proxy before the edge may have checked another one than the edge would.
            raise HttpRefusedError(400, "Send one Authorization header.")
        try:
            actor = await self.authenticator.identify(head.authorization, resource)
        except UnauthenticatedError as error:
            headers = ((b"www-authenticate", self.authenticator.challenge(resource, error)),)
            raise HttpRefusedError(401, error.message, -31401, headers) from None
        caller = actor.subject
        if self.authenticator.open:
            caller = str((scope.get("client") or ("",))[0])
        Transit.name(caller)
        try:
            await self.abuse.admit(caller)
        except Fault as fault:
            raise self._too_many(fault) from None
        self.addresses.check(head)
        return Received(head, actor, caller=caller)

    async def admits(self, received: Received, resource: str) -> bool:
        """Whether the credential of a request that was admitted is still valid."""
        try:
            await self.authenticator.identify(received.head.authorization, resource)
        except UnauthenticatedError:
            return False
        return True

    def check_role(
        self, actor: Actor, resource: str, called: ListedTool | None
    ) -> HttpRefusedError | None:
        """Why a call is refused whose tool (None: unknown) needs a role that an identified caller
        lacks (RFC 6750, 3.1); that is in the audit log as any call."""
        if self.authenticator.open or called is None:
            return None
        role = actor.missing(called.required_roles)
        if role is None:
            return None
        self.audit.record(
            actor, called.name, None, outcome=ErrorCode.FORBIDDEN,
            duration_s=0.0, size_bytes=0, tokens=0,
        )  # fmt: skip
        challenge = self.authenticator.insufficient(resource, role)
        message = f"forbidden: The role {role} is needed."
        return HttpRefusedError(403, message, -31403, ((b"www-authenticate", challenge),))

    def _too_many(self, fault: Fault) -> HttpRefusedError:
        """HTTP 429 with Retry-After (RFC 9110) and the RateLimit headers (IETF httpapi draft)."""
        wait_s = retry_after_s(fault.failure.retry_after_ms or 1000)
        message = f"rate_limited: {fault.failure.message} At most {self.abuse.burst} at once."
        headers = (
            (b"retry-after", b"%d" % wait_s),
            (b"ratelimit-policy", b'"requests";q=%d;w=1' % int(self.abuse.rate_per_s)),
            (b"ratelimit", b'"requests";r=0;t=%d' % wait_s),
        )
        return HttpRefusedError(429, message, -31429, headers)


_UNKNOWN_HOST = (
    "Invalid Host header: this edge does not know the name or address that it names. "
    "Set SEARCHBUS_ALLOWED_HOSTS to those that clients use."
)


class AddressRules:
    """Allowed values of Host and Origin, against DNS rebinding; `name:*` allows any port."""

    def __init__(self, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._hosts = _Allowed(hosts)
        self._origins = _Allowed(origins)

    def check(self, head: Head) -> None:
        """Raise HttpRefusedError for another address; a missing Origin is allowed."""
        if not self._hosts.allows(head.host):
            raise HttpRefusedError(421, _UNKNOWN_HOST)
        if head.origin and not self._origins.allows(head.origin):
            raise HttpRefusedError(403, "Invalid Origin header")

    def check_probe(self, head: Head) -> None:
        """The same for probes, whose Host is an IP address or absent: no other site's name."""
        name, _, port = head.host.rpartition(":")
        host = name if port.isascii() and port.isdigit() and name[-1:] != ":" else head.host
        try:
            ipaddress.ip_address(host.removeprefix("[").removesuffix("]") or "::")
        except ValueError:
            self.check(head)


class _Allowed:
    def __init__(self, values: Sequence[str]) -> None:
        self._exact = frozenset(values)
        self._any_port = frozenset(value[:-2] for value in values if value.endswith(":*"))

    def allows(self, value: str) -> bool:
        if value in self._exact:
            return True
        name, _, port = value.rpartition(":")
        # Digits only: a browser reads `127.0.0.1:80@evil.example` as evil.example.
        return name in self._any_port and port.isascii() and port.isdigit()
