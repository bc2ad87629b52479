"""Admits HTTP requests by one rule for all interfaces; each shows a refusal in its own form.

`HttpPolicy.admit` reads from top to bottom: head → caller → abuse limit → addresses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from searchbus_bus.client.parts import Transit
from searchbus_contracts import Actor, Fault, ToolDescriptor

from ..auth.authenticator import Authenticator
from ..auth.identity import Unauthenticated
from ..catalog.visible import missing_role
from ..mcp.kernel import Received
from ..tools.limits import LocalLimiter
from ..tools.telemetry import Tracing
from .body import BodyLimits
from .head import AddressRules, Refusal, parse_head

__all__ = ["HttpPolicy"]


@dataclass(frozen=True, slots=True)
class HttpPolicy:
    """Which HTTP requests are accepted.

    Args:
        abuse: limits requests per caller before anything is read.
    """

    authenticator: Authenticator
    abuse: LocalLimiter
    tracing: Tracing
    addresses: AddressRules
    limits: BodyLimits

    async def admit(self, scope: Any, resource: str) -> Received | Refusal:
        """The head and the caller of a request, or why it is refused.

        Args:
            scope: of the ASGI request.
            resource: the path of the MCP endpoint whose tokens are accepted, e.g. `/mcp`.
        """
        head = parse_head(scope["headers"])
        if "authorization" in head.repeated:
            # A proxy before the edge may have checked another one than the edge would.
            return Refusal(400, "Send one Authorization header.")
        try:
            actor = await self.authenticator.identify(head.authorization, resource)
        except Unauthenticated as error:
            challenge = self.authenticator.challenge(resource, error)
            return Refusal(401, error.message, -31401, ((b"www-authenticate", challenge),))
        caller = self._caller(scope, actor)
        Transit.name(caller)
        try:
            await self.abuse.admit(caller)
        except Fault as fault:
            return self._too_many(fault)
        return self.addresses.check(head) or Received(head, actor, caller=caller)

    def check_role(
        self, actor: Actor, resource: str, descriptor: ToolDescriptor | None
    ) -> Refusal | None:
        """Why a call is refused whose tool needs a role that an identified caller lacks
        (RFC 6750, 3.1).

        Args:
            descriptor: of the tool; None for an unknown one.
        """
        if self.authenticator.open or descriptor is None:
            return None
        role = missing_role(actor, descriptor)
        if role is None:
            return None
        challenge = self.authenticator.insufficient(resource, role)
        message = f"forbidden: The role {role} is needed."
        return Refusal(403, message, -31403, ((b"www-authenticate", challenge),))

    def _caller(self, scope: Any, actor: Actor) -> str:
        """Whose request it is: the identified caller, else the client's address."""
        if self.authenticator.open:
            return str((scope.get("client") or ("",))[0])
        return actor.subject

    def _too_many(self, fault: Fault) -> Refusal:
        """HTTP 429 with Retry-After (RFC 9110) and the RateLimit headers (IETF httpapi draft)."""
        wait_s = max(1, math.ceil((fault.failure.retry_after_ms or 1000) / 1000))
        message = f"rate_limited: {fault.failure.message} At most {self.abuse.burst} at once."
        headers = (
            (b"retry-after", b"%d" % wait_s),
            (b"ratelimit-policy", b'"requests";q=%d;w=1' % int(self.abuse.rate_per_s)),
            (b"ratelimit", b'"requests";r=0;t=%d' % wait_s),
        )
        return Refusal(429, message, -31429, headers)
