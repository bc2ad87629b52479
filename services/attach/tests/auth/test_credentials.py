"""Servers that take tokens only, attached, through the life of these tokens."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from joserfc.jwk import ECKey
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from searchbus_attach.auth import credentials as module
from searchbus_attach.auth.credentials import Credentials
from searchbus_attach.auth.keys import ServiceIdentity
from searchbus_attach.commands.status import masked
from searchbus_attach.declare.auth_methods import OURSELVES
from searchbus_attach.declare.servers import Server, parse_server
from searchbus_attach.service import QUIET_LOGGERS
from searchbus_attach.transports import direct
from searchbus_attach.upstream.connection import ConnectionContext
from searchbus_attach.upstream.upstream import Upstream
from searchbus_contracts import ErrorCode, Fault
from searchbus_testing import serve, until

from ..conftest import call_tool
from ..upstream.test_upstream import Caller, text
from .authorization_server import SECRET
from .browser import sign_in
from .conftest import declared

PEM = ECKey.generate_key("P-256").as_pem(private=True).decode()


@pytest.fixture
async def start(http, sign_ins) -> AsyncIterator[Callable[..., Upstream]]:
    """Attach a server, with the credentials of a caller."""
    identity = ServiceIdentity(PEM, "searchbus")
    context = ConnectionContext(
        credentials=Credentials(http, logins=sign_ins.logins, identity=identity)
    )
    async with AsyncExitStack() as ends:
        ends.push_async_callback(context.aclose)

        def new(server: Server, caller: str = OURSELVES) -> Upstream:
            upstream = Upstream(server, context, on_list=lambda _: None, caller=caller)
            ends.push_async_callback(upstream.stop)
            upstream.start()
            return upstream

        yield new


async def call(upstream: Upstream) -> str:
    return text(await call_tool(upstream, Caller(), "whoami", {}))


async def refused(upstream: Upstream) -> Fault:
    with pytest.raises(Fault) as fault:
        await call_tool(upstream, Caller(), "whoami", {})
    return fault.value


async def test_client_credentials_from_the_first_request_on(protected, start, monkeypatch):
    """One token for list and calls, counted."""
    counted: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        module, "count", lambda *name, **labels: counted.append((*name, *labels.values()))
    )
    upstream = start(declared(protected, "client_credentials"))
    assert await call(upstream) == "the client"
    assert len(protected.provider.forms) == 1
    assert counted == [("tokens", "safe", "client_credentials", "ok")]


async def test_a_token_that_ends_is_replaced_before_a_call_fails(protected, start):
    """Many calls at once ask for one."""
    upstream = start(declared(protected, "client_credentials"))
    await call(upstream)
    source = upstream._context.credentials._source(upstream.server, upstream.server.auth, OURSELVES)
    now_s = time.time()
    source._tokens = msgspec.structs.replace(
        source._tokens, issued_s=now_s - 3599, expires_s=now_s + 1
    )
    protected.provider.pause_s = 0.05
    assert set(await asyncio.gather(*(call(upstream) for _ in range(10)))) == {"the client"}
    assert len(protected.provider.forms) == 2


async def test_a_token_that_the_server_refuses_early_is_replaced_inside_the_call(
    protected, start, monkeypatch
):
    """Whatever was said of its life."""
    monkeypatch.setattr(module, "_FRESH_S", 0.0)
    upstream = start(declared(protected, "client_credentials"))
    await call(upstream)
    protected.provider.expire_all()
    assert set(await asyncio.gather(*(call(upstream) for _ in range(10)))) == {"the client"}
    assert len(protected.provider.forms) == 2


async def test_a_token_for_another_resource_is_refused_once(protected, start):
    """No loop of requests; the reason is said."""
    protected.provider.wrong_resource = "https://other.example/mcp"
    upstream = start(declared(protected, "client_credentials"))
    await until(lambda: upstream.state == "down")
    assert upstream.problem == "it refuses a token that was just issued for it"
    assert len(protected.provider.forms) == 1


async def test_another_issuer_gets_no_secret(protected, start):
    """The server names one that is not declared."""
    protected.named_server = "http://127.0.0.1:9"
    upstream = start(declared(protected, "client_credentials"))
    await until(lambda: upstream.state == "down")
    assert "not the declared issuer" in upstream.problem
    assert (await refused(upstream)).code == ErrorCode.UNAVAILABLE
    assert protected.provider.forms == []


@pytest.mark.parametrize("kind", ["auth", "headers"])
async def test_a_redirect_to_another_host_gets_no_credentials(protected, start, kind):
    """The SDK does not follow it; nothing arrives there."""
    arrived: list[Any] = []

    async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
        arrived.append(scope["headers"])
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    server = (
        declared(protected, "client_credentials")
        if kind == "auth"
        else parse_server("safe", {"url": protected.url, "headers": {"Authorization": SECRET}})
    )
    async with serve(elsewhere) as other:
        protected.redirects_to = f"{other}/mcp"
        upstream = start(server)
        await until(lambda: upstream.state == "down")
    assert arrived == []
    assert any("authorization" in headers for headers in protected.headers)


async def test_each_caller_has_an_exchanged_token(protected, start):
    """The server sees who calls, and never the caller's own token."""
    protected.provider.keys = json.loads(ServiceIdentity(PEM, "searchbus").public_keys())
    server = declared(protected, "token_exchange")
    ann, bob, ourselves = start(server, "ann"), start(server, "bob"), start(server)
    assert await asyncio.gather(call(ann), call(bob), call(ourselves)) == [
        "ann", "bob", "searchbus",
    ]  # fmt: skip


async def test_a_caller_cannot_be_searchbus_itself(protected, http):
    """Whatever its subject is: the list is read as `searchbus`."""
    credentials = Credentials(http, identity=ServiceIdentity(PEM, "searchbus"))
    with pytest.raises(Fault, match="stands for searchbus itself"):
        await credentials.check(declared(protected, "token_exchange"), "searchbus")
    assert protected.provider.forms == []


@pytest.mark.slow
async def test_variables_count_in_the_url_and_when_their_value_changes(
    protected, http, monkeypatch
):
    """A secret is replaced while the service runs."""
    monkeypatch.setenv("BASE", protected.url)
    monkeypatch.setenv("WORD", "an old secret")
    server = declared(protected, "client_credentials", client_secret="${WORD}")
    server = msgspec.structs.replace(server, url="${BASE}")
    context = ConnectionContext(credentials=Credentials(http))
    upstream = Upstream(server, context, on_list=lambda _: None)
    upstream.start()
    await until(lambda: upstream.state == "down")
    assert "invalid_client" in upstream.problem
    monkeypatch.setenv("WORD", SECRET)
    upstream.try_now()
    await until(lambda: upstream.state == "up")
    assert await call(upstream) == "the client"
    await upstream.stop()


async def test_a_caller_who_is_not_signed_in_gets_the_address_at_once(
    protected, start, sign_ins, vault, monkeypatch
):
    """And after the sign-in the same call works."""
    counted: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        module, "count", lambda *name, **labels: counted.append((*name, *labels.values()))
    )
    sign_ins.server = server = declared(protected, "authorization_code")
    upstream = start(server, "caller-1")
    fault = await refused(upstream)
    assert (fault.code, fault.failure.retryable) == (ErrorCode.LOGIN_REQUIRED, False)
    assert ("tokens", "safe", "authorization_code", "login_required") in counted
    address = fault.failure.message.rpartition(" ")[2]
    assert (await sign_in(address)).status_code == 200
    upstream.try_now()
    assert await call(upstream) == "ann"
    vault.remove("safe", "caller-1")
    assert (await refused(upstream)).code == ErrorCode.LOGIN_REQUIRED


async def test_a_sign_in_that_ends_during_a_call_is_said_by_that_call(
    protected, start, sign_ins, vault, monkeypatch
):
    """The server refuses the token, and the authorization server the refresh."""
    monkeypatch.setattr(module, "_FRESH_S", 0.0)
    sign_ins.server = server = declared(protected, "authorization_code")
    await sign_in(sign_ins.logins.ticket("safe", "caller-1"))
    upstream = start(server, "caller-1")
    assert await call(upstream) == "ann"
    protected.provider.expire_all()
    protected.provider.refuses["refresh_token"] = "invalid_grant"
    assert (await refused(upstream)).code == ErrorCode.LOGIN_REQUIRED
    assert vault.logins() == []


async def test_the_operator_signs_in_for_the_list(protected, start, sign_ins):
    """Until then the server says which command."""
    sign_ins.server = server = declared(protected, "authorization_code")
    upstream = start(server)
    await until(lambda: upstream.state == "down")
    assert "searchbus attach login safe" in upstream.problem
    fault = await refused(upstream)
    assert fault.code == ErrorCode.LOGIN_REQUIRED
    assert "by the operator" in fault.failure.message


async def test_without_a_key_nobody_can_sign_in(protected, http):
    """The settings are named."""
    credentials = Credentials(http)
    with pytest.raises(Fault, match="SEARCHBUS_ATTACH_VAULT_KEY") as fault:
        await credentials.check(declared(protected, "authorization_code"), "ann")
    assert fault.value.code == ErrorCode.UNAVAILABLE


async def test_the_call_at_the_server_has_the_trace_in_its_meta(protected, start, monkeypatch):
    """`traceparent` of the span that surrounds it (SEP-414)."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(direct, "_tracer", lambda: provider.get_tracer("attach"))
    upstream = start(declared(protected, "client_credentials"))
    await call(upstream)
    (meta,) = protected.metas
    spans = {
        (f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"): span.name
        for span in exporter.get_finished_spans()
    }
    _, trace_id, span_id, _ = meta["traceparent"].split("-")
    assert "tools/call" in spans[trace_id, span_id]


async def test_no_secret_is_in_a_log_a_span_a_failure_or_a_list(
    protected, start, sign_ins, caplog, monkeypatch
):
    """Through sign-ins, refreshes and refusals of every kind."""
    monkeypatch.setattr(module, "_FRESH_S", 0.0)
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("mcp.shared._otel._tracer", provider.get_tracer("mcp"))
    monkeypatch.setattr(direct, "_tracer", lambda: provider.get_tracer("attach"))
    caplog.set_level(logging.DEBUG)
    # As the service sets them; httpx is the browser's.
    for name in (*QUIET_LOGGERS, "httpx", "httpcore"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.CRITICAL)
    shown: list[str] = []

    client = start(declared(protected, "client_credentials"))
    await call(client)
    sign_ins.server = person = declared(protected, "authorization_code")
    await sign_in(sign_ins.logins.ticket("safe", "caller-1"))
    upstream = start(person, "caller-1")
    await call(upstream)
    protected.provider.expire_all()
    await call(client)
    await call(upstream)
    protected.provider.expire_all()
    for grant in ("client_credentials", "refresh_token"):
        protected.provider.refuses[grant] = "invalid_grant"
    for one in (client, upstream):
        fault = await refused(one)
        shown += [str(fault), repr(fault), fault.failure.message]
        shown += [one.problem, str(masked(one.server)), one.server.target]
    static = parse_server("other", {"url": protected.url, "headers": {"Authorization": SECRET}})
    third = start(static)
    await until(lambda: third.state == "down")
    shown += [third.problem, str(masked(static))]

    shown += [record.getMessage() + str(record.exc_info) for record in caplog.records]
    shown += [span.to_json() for span in exporter.get_finished_spans()]
    text = "\n".join(shown)
    assert len(protected.provider.secrets) > 8
    assert "tools/call" in text
    assert [secret for secret in protected.provider.secrets if secret in text] == []
