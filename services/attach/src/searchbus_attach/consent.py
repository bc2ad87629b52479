"""Calls that a person approves first: by the client's question, or from the waiting list.

A call of a tool that its view marks (`approve = true`) waits in the list of operators
(`searchbus attach waiting`), for a few minutes. A client that can ask its user is asked as well; an
accepted question counts once, for this caller, tool and arguments. Where the store is away, no such
call is made.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from searchbus_bus import NEEDED_TIMEOUT_S, Bus, Call, KeyValue
from searchbus_contracts import ErrorCode, Fault, InputRequired, ToolCall, ToolReply, decode, encode
from searchbus_contracts.attach import WaitingCall
from searchbus_contracts.codec import canonical
from searchbus_runtime.pins import DIGITS

from .definitions.text import clean

TTL_S = 600.0
MAX_WAITING = 500
MAX_OF_CALLER = 20
"""Calls of one caller: nobody fills the list for the others."""
MAX_USED = 500
"""Accepted questions of one caller, each of which is remembered for `TTL_S`."""
_BUCKET = "attach-consent"
_BUCKET_BYTES = 8 * 2**20
_SHOWN_CHARS = 2_000
_LEAST_VALUE_CHARS = 8
_MOST_SHOWN = 200
"""Arguments of a call."""
_ANSWER = "approval"
_USED = "used-"
"""Begins the key of an accepted question; that of a call that waits has a dot."""


class _Waiting(Struct):
    """A call in the list.

    Args:
        state: waiting, allowed or refused.
        used_by: id of the request that an approval was for; another one waits again.
    """

    call: WaitingCall
    state: str = "waiting"
    used_by: str = ""


class _State(Struct):
    """What a client carries to its second call; the edge signs it."""

    key: str
    nonce: str
    until_s: float


class Consent:
    """Decides whether a call may be made now; `clock` gives seconds of the epoch."""

    def __init__(self, store: KeyValue, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    @classmethod
    async def over(cls, bus: Bus) -> Consent:
        """In the bucket that all workers of this bus share."""
        return cls(
            await bus.key_value(
                _BUCKET, ttl_s=TTL_S, max_bytes=_BUCKET_BYTES, timeout_s=NEEDED_TIMEOUT_S
            )
        )

    async def ask(
        self, call: Call, request: ToolCall, server: str, arguments: dict[str, Any]
    ) -> ToolReply | None:
        """None where a person approved the call; else the question for the client. Raises
        Fault(forbidden) until a person approves it, or since one refused."""
        shown = _shown(arguments)
        waiting = WaitingCall(
            id="", server=server, tool=request.tool, caller=call.actor.subject, arguments=shown,
            since_s=self._clock(),
        )  # fmt: skip
        named = [call.actor.subject, server, request.tool, arguments]
        caller = hashlib.sha256(call.actor.subject.encode()).hexdigest()[:16]
        digest = hashlib.sha256(canonical(named)).hexdigest()[:DIGITS]
        key = f"{caller}.{digest}"
        entry = await self._store.get(key)
        known = None if entry is None else decode(entry.value, _Waiting)
        if known is not None and known.state == "refused":  # also where the client's user accepts
            raise Fault(ErrorCode.FORBIDDEN, "A person refused this call. Use another tool.")
        if await self._answered(call, request, key):
            return None
        if entry is not None and known is not None and known.state == "allowed":
            used = msgspec.structs.replace(known, used_by=call.req_id)
            if known.used_by in ("", call.req_id) and (
                await self._store.update(key, encode(used), entry.revision) is not None
            ):
                return None
        if known is None or known.state != "waiting":
            keys = await self._store.keys()
            own = sum(one.startswith(f"{caller}.") for one in keys)
            accepted = sum(one.startswith(f"{_USED}{caller}") for one in keys)
            waits = sum("." in one for one in keys)
            if waits >= MAX_WAITING or own >= MAX_OF_CALLER or accepted >= MAX_USED:
                raise Fault(
                    ErrorCode.OVERLOADED, "Too many calls wait for approval. Try again later."
                )
            waiting = msgspec.structs.replace(waiting, id=digest)
            await self._store.put(key, encode(_Waiting(waiting)))
        if "elicitation" not in call.client_capabilities:
            raise Fault(
                ErrorCode.FORBIDDEN,
                f"A person has to approve this call first; it waits as {digest}. Send it "
                "again, unchanged, after that.",
            )
        state = _State(key, f"{caller}-{secrets.token_hex(8)}", self._clock() + TTL_S)
        return _question(request.tool, shown, state)

    async def waiting(self) -> list[WaitingCall]:
        """The calls that wait, the oldest first."""
        found = []
        for key in await self._store.keys():
            entry = await self._store.get(key)
            if entry is not None and "." in key:
                known = decode(entry.value, _Waiting)
                if known.state == "waiting":
                    found.append(known.call)
        return sorted(found, key=lambda call: call.since_s)

    async def decide(self, ids: tuple[str, ...], *, allowed: bool) -> list[str]:
        """Allow or refuse calls that wait; the ids of those that waited."""
        done = []
        for key in await self._store.keys():
            if key.partition(".")[2] not in ids:
                continue
            entry = await self._store.get(key)
            known = None if entry is None else decode(entry.value, _Waiting)
            if entry is not None and known is not None and known.state == "waiting":
                known.state = "allowed" if allowed else "refused"
                if await self._store.update(key, encode(known), entry.revision) is not None:
                    done.append(known.call.id)
        return done

    async def _answered(self, call: Call, request: ToolCall, key: str) -> bool:
        """Whether the client's user accepted; raises Fault(forbidden) where the user did not."""
        answer = (request.input_responses or {}).get(_ANSWER)
        if request.state is None or not isinstance(answer, dict):
            return False
        try:
            state = decode(request.state.encode(), _State)
        except Fault:  # that of another tool
            return False
        if state.key != key or state.until_s < self._clock():
            return False
        content = answer.get("content")
        accepted = isinstance(content, dict) and content.get("approve") is True
        if answer.get("action") != "accept" or not accepted:
            await self._store.delete(key)
            raise Fault(ErrorCode.FORBIDDEN, "The user refused this call. Use another tool.")
        used = f"{_USED}{state.nonce}"
        if await self._store.create(used, call.req_id.encode()) is None:
            entry = await self._store.get(used)
            if entry is None or entry.value != call.req_id.encode():
                return False
        await self._store.delete(key)
        return True


def _shown(arguments: dict[str, Any]) -> str:
    """The arguments as JSON in which long values are cut, and no name: the caller chooses their
    order. Raises Fault(invalid_argument) where there are too many for that.
    """
    if len(arguments) <= _MOST_SHOWN:
        texts = [
            (encode(name).decode(), encode(value).decode()) for name, value in arguments.items()
        ]
        chars = _SHOWN_CHARS
        while chars >= _LEAST_VALUE_CHARS:
            pairs = (f"{clean(name, _SHOWN_CHARS)}:{clean(value, chars)}" for name, value in texts)
            shown = f"{{{','.join(pairs)}}}"
            if len(shown) <= _SHOWN_CHARS:
                return shown
            chars //= 2
    raise Fault(
        ErrorCode.INVALID_ARGUMENT,
        "A person has to approve this call, and could not see all of its arguments. Send fewer.",
    )


def _question(tool: str, arguments: str, state: _State) -> ToolReply:
    schema = {
        "type": "object",
        "properties": {"approve": {"type": "boolean", "title": "Make this call"}},
        "required": ["approve"],
    }
    message = f"Approve the call of {tool} with {arguments}?"
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return ToolReply(
        input_required=InputRequired(
            requests={_ANSWER: {"method": "elicitation/create", "params": params}},
            state=encode(state).decode(),
        )
    )
