"""HTTP APIs of search providers: keys in rotation, a shared rate limit, and what a reply means.

Whether a provider found nothing or failed depends on the shape of its reply: only a list without
rows says that nothing matches. A row that cannot be read costs no other row.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar

import msgspec
from opentelemetry import metrics
from pydantic import Field

from searchbus_bus import KeyValue, spend
from searchbus_bus.live import LiveParts
from searchbus_bus.telemetry import count_refused_credential
from searchbus_contracts import ErrorCode, Fault
from searchbus_runtime import Process
from searchbus_upstream import (
    Breaker,
    HttpClient,
    HttpReply,
    HttpRequest,
    OnceError,
    RetryBudget,
    SharedPace,
    UpstreamClient,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
    read_json,
    retry_after_s,
    with_retries,
)
from searchbus_upstream.text import inert, plain

from .base import Provider

log = logging.getLogger("searchbus.web")
_lost = metrics.get_meter("searchbus.web").create_counter(
    "searchbus.web.rows_lost", description="Rows of providers that could not be read."
)

RequestsPerMinute = Annotated[
    float,
    Field(ge=0, description="Requests per minute of one key; 95 % of it is used. 0: no limit."),
]
MAX_BYTES = 16 * 2**20
COOLDOWN_S = 3600.0
"""How long a key is not used that was refused or whose plan is used up; the longest pause."""
_USED_SHARE = 0.95
"""Share of the provider's rate limit that is used, since its clock and ours differ."""
_TYPICAL_REPLY_S = 1.0
"""A slot that leaves less time than this is refused: the call would be paid for and time out."""
_ATTEMPT_TIMEOUT_S = 20.0
_UNREPORTED_CREDITS = 1.0
"""What a paid request without a readable reply counts: nobody learns what it cost."""
_QUOTA = re.compile(r"quota|credit|billing|payment|usage.?limit|\bplan\b", re.I)
_LIMITED = re.compile(r"rate.?limit|too.?many.?requests|throttl|slow.?down", re.I)
_MAX_REASON_CHARS = 500


class _HasUrl(Protocol):
    url: str


T = TypeVar("T")
R = TypeVar("R", bound=_HasUrl)


class _Key:
    def __init__(self, title: str, secret: str, kv: KeyValue | None, rate_per_s: float) -> None:
        digest = hashlib.sha256(secret.encode()).hexdigest()[:8]
        self.name = f"{title}-{digest}"
        self.secret = secret
        self.pace = SharedPace(kv, f"pace-{digest}", rate_per_s=rate_per_s, burst=2, name=self.name)
        self.breaker = Breaker(self.name, kind="key", max_cooldown_s=COOLDOWN_S)
        self.credits = 0.0
        _live_keys.watch(self)

    def pay(self, credits: float) -> None:
        """Count a price, for the key and for the call at hand."""
        self.credits += credits
        spend(credits)


_live_keys: LiveParts[_Key] = LiveParts(
    lambda key: key.breaker.part("key", {"credits": key.credits})
)


class ApiProvider(Provider):
    """Base class of providers behind an HTTP API.

    Its settings are `<name>_url`, `<name>_rpm` and, where the API has keys, `<name>_api_keys`.

    Args:
        title: in messages and metrics.
        keyed: whether the API has keys.
        costly: whether a search is paid for.
        refusals: status → what it means with this provider only; {reason} is the provider's own.
        limited_s: the wait after HTTP 429 without a Retry-After.
        base_url: of the API, without the path of an endpoint.
        kv: shares the rate limit between replicas.
        rate_per_minute: the provider's limit for one key; 95 % of it is used. 0: unknown.
    """

    title: str
    has_news = True
    keyed = True
    costly = True
    refusals: ClassVar[Mapping[int, tuple[ErrorCode, str]]] = {}
    limited_s = 1.0

    def __init__(
        self,
        client: UpstreamClient,
        base_url: str,
        keys: Sequence[str] | Callable[[], Sequence[str]] = ("",),
        *,
        kv: KeyValue | None = None,
        rate_per_minute: float = 0.0,
    ) -> None:
        self._client = client
        self._base_url = base_url.rstrip("/")
        self._budget = RetryBudget()
        self._next = 0
        self._make = partial(_Key, self.title, kv=kv, rate_per_s=_USED_SHARE * rate_per_minute / 60)
        self._read_keys = keys if callable(keys) else partial(tuple, keys)
        self._made: dict[str, _Key] = {}

    @classmethod
    def required_setting(cls) -> str:
        """The setting without which the provider is not configured."""
        return f"{cls.name}_api_keys" if cls.keyed else f"{cls.name}_url"

    @classmethod
    async def open(cls, process: Process[Any]) -> Self:
        """The provider by its settings; its connections are closed with the process."""
        client = HttpClient(cls.name)
        process.resources.push_async_callback(client.close)
        secret = process.settings.secret(cls.required_setting()) if cls.keyed else None
        return cls(
            client,
            getattr(process.settings, f"{cls.name}_url"),
            secret.values if secret is not None else ("",),
            kv=await process.bus.key_value("web_pace", ttl_s=3600.0, max_bytes=2**20),
            rate_per_minute=getattr(process.settings, f"{cls.name}_rpm"),
        )

    @property
    def _keys(self) -> list[_Key]:
        """The keys of now; one that stays keeps its pace and its refusals."""
        texts = self._read_keys()
        if [*self._made] != [*texts]:
            self._made = {text: self._made.get(text) or self._make(text) for text in texts}
        return [*self._made.values()]

    @property
    def usable(self) -> bool:
        """Whether a key may be used now: False during the cooldown after a refusal."""
        return any(key.breaker.usable for key in self._keys)

    async def call(
        self, request: Callable[[str], HttpRequest], reply_type: type[T], *, timeout_s: float
    ) -> T:
        """Send `request(key)` and decode the reply. A paid request is sent again only where the
        provider surely did no work for it.

        Raises:
            Fault: upstream_limited, upstream_failed, quota_exhausted, rate_limited,
                invalid_argument; deadline_exceeded where the caller's own time was too short.
        """
        attempt = partial(self._attempt, request, reply_type)
        return await with_retries(attempt, timeout_s=timeout_s, budget=self._budget)

    async def _attempt(
        self, request: Callable[[str], HttpRequest], reply_type: type[T], left_s: float
    ) -> T:
        if self.costly and left_s < _TYPICAL_REPLY_S:
            text = f"{self.title} was not asked: less than a second was left. Try with more time."
            raise self._once(Fault(ErrorCode.DEADLINE_EXCEEDED, text))
        key = self._choose()
        await key.pace.slot(max(0.0, left_s - _TYPICAL_REPLY_S))
        if not key.breaker.usable:  # refused meanwhile, by another request's reply
            key = self._choose()
        probing = key.breaker.try_probe()
        price = _UNREPORTED_CREDITS if self.costly else 0.0
        key.pay(price)  # until there is a reply, also if the request is cancelled
        try:
            reply = await self._client.send(
                request(key.secret), timeout_s=min(left_s, _ATTEMPT_TIMEOUT_S), max_bytes=MAX_BYTES
            )
            key.pay(-price)
            return await self._read(key, reply, reply_type)
        except UpstreamTimeoutError:
            raise self._late(left_s) from None
        except UpstreamUnreachableError as error:
            fault = _failed(f"{self.title} cannot be reached ({error}).", retryable=True)
            if error.sent:
                raise self._once(fault) from None
            key.pay(-price)
            raise fault from None
        finally:
            if probing:
                key.breaker.abandon()

    def _late(self, left_s: float) -> Fault:
        # Where it was the caller's time, others who wait for the same may have more.
        own = left_s < _ATTEMPT_TIMEOUT_S
        code = ErrorCode.DEADLINE_EXCEEDED if own else ErrorCode.UPSTREAM_FAILED
        return self._once(Fault(code, f"{self.title} did not answer in time. Try again shortly."))

    def _once(self, fault: Fault) -> Fault:
        return OnceError.of(fault.failure) if self.costly else fault

    async def _read(self, key: _Key, reply: HttpReply, reply_type: type[T]) -> T:
        fault = self.fault_of(reply)
        if fault is None:
            try:
                decoded = read_json(reply.body, reply_type)
            except (ValueError, RecursionError):
                fault = self._refused_inside(reply.body)
                if self.costly and not reason_in(reply.body):
                    key.pay(_UNREPORTED_CREDITS)
            else:
                key.breaker.succeeded()
                key.pay(self.cost_of(decoded))
                return decoded
        if reply.status in (401, 403, 432, 433) or fault.code == ErrorCode.QUOTA_EXHAUSTED:
            key.breaker.refused(COOLDOWN_S)
            log.error("%s: HTTP %d; the key is not used for an hour", key.name, reply.status)
            if reply.status in (401, 403) and self.keyed:
                count_refused_credential(self.required_setting())
            if self.usable:
                # With another key the request may succeed.
                raise Fault(fault.code, fault.failure.message, retryable=True)
        elif reply.status == 429 or fault.code == ErrorCode.UPSTREAM_LIMITED:
            await key.pace.pause(min(COOLDOWN_S, retry_after_s(reply.headers) or 1.0))
        did_no_work = reply.status < 300 or reply.status in (429, 503)
        raise fault if did_no_work else self._once(fault)

    def _choose(self) -> _Key:
        """The next key that may be used."""
        keys = self._keys
        for _ in keys:
            key = keys[self._next % len(keys)]
            self._next += 1
            if key.breaker.usable:
                return key
        wait_s = min((key.breaker.remaining_s for key in keys), default=COOLDOWN_S)
        raise Fault(
            ErrorCode.QUOTA_EXHAUSTED,
            f"{self.title} refuses every configured key, or its plan is used up. The next "
            f"attempt is in {wait_s:.0f} s; the operator of this service has to check the keys.",
            retryable=False,
            retry_after_ms=int(wait_s * 1000),
        )

    @classmethod
    def cost_of(cls, reply: Any) -> float:
        """What a decoded reply cost at the provider: credits, or requests; 0: nothing is paid."""
        return 0.0

    @classmethod
    def fault_of(cls, reply: HttpReply) -> Fault | None:
        """The failure that a reply stands for; None for a success."""
        status = reply.status
        if status < 300:
            return None
        if status in cls.refusals:
            code, text = cls.refusals[status]
            reason = reason_in(reply.body) or "no reason given."
            return Fault(code, text.format(reason=reason), retryable=False)
        setting = f"SEARCHBUS_{cls.name.upper()}"
        if status in (401, 403) and cls.keyed:
            return Fault(
                ErrorCode.UPSTREAM_FAILED,
                f"{cls.title} refuses the API key. The operator of this service has to set a "
                f"valid one in {setting}_API_KEYS.",
                retryable=False,
            )
        if status == 429:
            wait_s = retry_after_s(reply.headers) or cls.limited_s
            return Fault(
                ErrorCode.UPSTREAM_LIMITED,
                f"{cls.title} limits requests. Try again in {wait_s:.0f} s.",
                retry_after_ms=int(wait_s * 1000),
            )
        if status == 408 or status >= 500:
            return _failed(f"{cls.title} answers HTTP {status}.", retryable=True)
        check = f"The operator of this service has to check {setting}_URL."
        return _failed(f"{cls.title} answers HTTP {status}. {check}")

    @classmethod
    def _refused_inside(cls, body: bytes) -> Fault:
        """The failure that a body names although its status is a success."""
        reason = reason_in(body)
        if not reason:
            return _failed(f"{cls.title} sent an answer that cannot be read.")
        if _QUOTA.search(reason):
            return Fault(
                ErrorCode.QUOTA_EXHAUSTED,
                f"The plan at {cls.title} is used up: {reason} Use another search tool.",
                retryable=False,
            )
        if _LIMITED.search(reason):
            return Fault(
                ErrorCode.UPSTREAM_LIMITED,
                f"{cls.title} limits requests: {reason} Try again in 1 s.",
                retry_after_ms=1000,
            )
        return _failed(f"{cls.title} failed: {reason}")

    def read_rows(self, rows: Sequence[Any], row_type: type[R]) -> list[R]:
        """The rows that can be read and have an http or https address; the others are counted.
        Raises Fault(upstream_failed) where none of them can be read."""
        found: list[R] = []
        for raw in rows:
            try:
                row = msgspec.convert(raw, row_type)
            except msgspec.ValidationError:
                continue
            if row.url.lower().startswith(("http://", "https://")):
                found.append(row)
        if lost := len(rows) - len(found):
            _lost.add(lost, {"provider": self.title})
            log.warning("%s: %d of %d rows cannot be read", self.title, lost, len(rows))
        if rows and not found:
            raise _failed(f"{self.title} sent rows that cannot be read.")
        return found


def _failed(what: str, *, retryable: bool = False) -> Fault:
    advice = "Try again shortly." if retryable else "Use another search tool."
    return Fault(ErrorCode.UPSTREAM_FAILED, f"{what} {advice}", retryable=retryable)


class RowsReply(msgspec.Struct):
    """A reply with rows at its top level.

    Raises:
        msgspec.ValidationError: it has no list of rows, or an error in place of rows.
    """

    results: list[Any]
    error: Any = None
    detail: Any = None

    def __post_init__(self) -> None:
        if not self.results and (self.error or self.detail):
            raise ValueError("an error in place of rows")


def reason_in(body: bytes) -> str:
    """The provider's own words about a failure, as one sentence; empty without any.

    They stand in `detail`, `error` or `message`: a text, an object of texts, or a list of
    {loc, msg}.
    """
    try:
        raw = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    if not isinstance(raw, dict):
        return ""
    told = raw.get("detail") or raw.get("error") or raw.get("message")
    text = inert(plain(_texts(told)))[:_MAX_REASON_CHARS]
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def _texts(told: Any) -> str:
    if isinstance(told, dict):
        names = ("error", "message", "detail", "code")
        text = " ".join(told[name] for name in names if isinstance(told.get(name), str))
        for item in _objects(told.get("failed_results")):
            text += f" {str(item.get('url'))[:200]}: {item.get('error')}"
        return text
    if isinstance(told, list):
        return "; ".join(f"{_path(item.get('loc'))}: {item.get('msg')}" for item in _objects(told))
    return told if isinstance(told, str) else ""


def _path(loc: Any) -> str:
    return ".".join(str(part) for part in loc) if isinstance(loc, list) else ""


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
