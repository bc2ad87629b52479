"""The permissions of each service on the bus."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial

import pytest

from searchbus_attach.commands.status import ask_status
from searchbus_bus import Bus, Call, Seeds, Worker, connect, endpoint
from searchbus_bus.client.inbox import InboxQuestion
from searchbus_bus.transport import ServiceRecord
from searchbus_cli.secure import new_seed, public_key
from searchbus_contracts import (
    CATALOG_KEY,
    CONTRACT_KEY,
    Catalog,
    CatalogRequest,
    Fault,
    ToolCall,
    ToolDescriptor,
    ToolReply,
    encode,
)
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_contracts.retrieval import Document, GetRequest
from searchbus_contracts.services import publishes, subscribes
from searchbus_contracts.subjects import DISCOVERY, inbox_prefix
from searchbus_runtime import ServiceSettings, bus_options, load_settings
from searchbus_runtime.services import bus_users
from searchbus_testing import run_command, until
from searchbus_testing.certificates import self_signed

from .locked_bus import LockedBus, worker_of


async def as_service(bus: LockedBus, name: str) -> Bus:
    """With the keys of a service, as its process connects."""
    return await connect(
        bus.url, name=name, seeds=Seeds.of(bus.seeds[name]), inbox_prefix=inbox_prefix(name),
        store_seeds=Seeds.of(bus.store_seeds[name]) if name in bus.store_seeds else None,
    )  # fmt: skip


FORBIDDEN: list[tuple[str, str, str]] = [
    ("ddg", "publish", "sb.v1.tool.web.web_search"), ("ddg", "publish", "sb.v1.retrieval.search"),
    ("ddg", "publish", "sb.v1.retrieval.ingest"), ("ddg", "publish", "sb.v1.retrieval.delete"), ("ddg", "publish", "$KV.sb_web_pace.x"),
    ("ddg", "publish", "$JS.API.STREAM.DELETE.KV_sb_ddg_leases"), ("ddg", "publish", "$JS.API.STREAM.PURGE.KV_sb_ddg_answers"),
    ("ddg", "subscribe", "sb.v1.tool.web.*"), ("ddg", "subscribe", "sb.v1.tool.>"), ("ddg", "subscribe", ">"),
    ("ddg", "subscribe", "_INBOX_edge.>"), ("web", "subscribe", "sb.v1.ddg.*"), ("web", "publish", "sb.v1.retrieval.search"),
    ("web", "publish", "sb.v1.ctl.cancel.attach"), ("web", "subscribe", "_INBOX_cli.>"),
    ("web", "publish", "$KV.sb_ddg_leases.x"), ("retrieval", "publish", "sb.v1.tool.ddg.web_search"),
    ("retrieval", "publish", "$JS.API.STREAM.CREATE.evil"), ("retrieval", "subscribe", "sb.v1.toolindex.search"),
    ("toolindex", "publish", "sb.v1.retrieval.search"), ("toolindex", "subscribe", "sb.v1.tool.fomc.*"),
    ("edge", "subscribe", "sb.v1.tool.fomc.*"), ("edge", "subscribe", "sb.v1.retrieval.*"),
    ("edge", "publish", "$JS.API.STREAM.NAMES"), ("cli", "subscribe", "sb.v1.tool.>"),
    ("cli", "publish", "$SYS.REQ.SERVER.PING"),
]  # fmt: skip


async def _refused(bus: Bus, before: int) -> bool:
    await bus.transport.flush()
    return bus.transport.async_errors > before


async def test_forbidden_operations_are_refused(locked_bus):
    """Each is reported by the server, counted, and has no effect."""
    assert len(FORBIDDEN) >= 20
    for service, verb, subject in FORBIDDEN:
        bus = await as_service(locked_bus, service)
        before = bus.transport.async_errors

        async def ignore(subject: str, data: bytes) -> None:
            raise AssertionError("received a message that it must not receive")

        if verb == "publish":
            await bus.transport.publish(subject, b"{}")
        else:
            try:
                await bus.subscribe(subject, ignore)
            except Exception:  # a later flush may report it at once
                pass

        await until(partial(_refused, bus, before), message=f"{service} {verb} {subject}")
        await bus.close()


@pytest.mark.slow
async def test_unknown_client_cannot_connect(locked_bus):
    """Without an nkey, and with one that the server does not know."""
    for options in ({}, {"seeds": Seeds.of(new_seed())}):
        with pytest.raises(Fault):
            await connect(locked_bus.url, name="stranger", connect_timeout_s=2.0, **options)


def test_lists_are_closed():
    """No service may do everything; only its own inbox is its own."""
    services = bus_users()
    for name, service in services.items():
        allowed = publishes(service, services.values()) + subscribes(service)
        assert ">" not in allowed
        assert "sb.v1.>" not in allowed
        others = [inbox_prefix(other) for other in services if other != name]
        assert not any(subject.startswith(tuple(others)) for subject in subscribes(service))


def test_command_writes_a_configuration_that_the_server_accepts(
    own_nats_server: Callable, tmp_path
):
    """Seeds are the owner's only; a second run keeps them."""
    out = tmp_path / "nats"
    for _ in range(2):
        done = run_command("nats-config", "--out", out)
        assert done.returncode == 0, done.stderr
    seed = (out / "web" / "SEARCHBUS_NATS_NKEY_SEED").read_text()
    assert (out / "web" / "SEARCHBUS_NATS_NKEY_SEED").stat().st_mode & 0o077 == 0
    config = (out / "nats" / "nats.conf").read_text()
    assert seed not in config
    assert public_key(seed) in config
    own_nats_server("-c", str(out / "nats" / "nats.conf"), "-sd", str(tmp_path / "js"))


def test_doctor_names_each_key_that_the_server_refuses(
    own_nats_server: Callable, tmp_path, monkeypatch
):
    """With whose it is: here the service has a key that the server was not given yet."""
    out = tmp_path / "nats"
    assert run_command("nats-config", "--out", out).returncode == 0
    server = own_nats_server("-c", str(out / "nats" / "nats.conf"), "-sd", str(tmp_path / "js"))
    monkeypatch.setenv("SEARCHBUS_NATS_URL", server.url)
    assert run_command("nats-config", "--out", out, "--rotate", "web").returncode == 0
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(out / "cli"))
    checked = ("doctor", "--data", tmp_path / "data", "--secrets", out, "--json")
    rows = json.loads(run_command(*checked).stdout)
    keys = {row["check"]: row for row in rows if row["check"].startswith("key ")}
    assert [name for name, row in keys.items() if not row["ok"]] == ["key web"]
    assert "the key of web: nats_" in keys["key web"]["message"]
    server.reload()
    rows = json.loads(run_command(*checked).stdout)
    assert all(row["ok"] for row in rows if row["check"].startswith("key "))


async def test_written_configuration_serves_tls_and_the_settings_connect(
    own_nats_server: Callable, tmp_path, monkeypatch
):
    """The connection works with the CA file and fails without it."""
    out = tmp_path / "nats"
    cert_file, key_file = self_signed(tmp_path)
    done = run_command("nats-config", "--out", out, "--tls-cert", cert_file, "--tls-key", key_file)
    assert done.returncode == 0, done.stderr
    server = own_nats_server("-c", str(out / "nats" / "nats.conf"), "-sd", str(tmp_path / "js"))
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(out / "ddg"))
    settings = load_settings(ServiceSettings, nats_url=server.url, nats_ca_file=cert_file)
    bus = await connect(settings.nats_url, name="ddg", **bus_options(settings))
    bucket = await bus.key_value("ddg_leases", ttl_s=10, max_bytes=10_000)
    assert await bucket.create("a", b"1")
    await bus.close()
    options = bus_options(settings)
    del options["tls_files"]
    with pytest.raises(Fault):
        await connect(settings.nats_url, name="ddg", connect_timeout_s=2.0, **options)


class Texts:
    """The endpoint of retrieval that returns a document, here a text of many parts."""

    @endpoint
    async def get(self, call: Call, request: GetRequest) -> Document:
        text = "x" * 6_000_000
        return Document(
            collection="c", document_id=request.document_id, title="T", text=text, chunk_count=1
        )


async def _never(call: Call, request: ToolCall) -> ToolReply:
    raise AssertionError("no tool is called")


async def test_large_replies_and_catalogues_arrive(locked_bus):
    """Their receivers may give credit: a caller, and whoever follows the catalogue."""
    edge, retrieval, toolindex = [
        await as_service(locked_bus, name) for name in ("edge", "retrieval", "toolindex")
    ]
    worker = Worker("retrieval")
    worker.add(Texts())
    for number in range(400):
        worker.add_tool(
            ToolDescriptor(
                toolset="fomc", name=f"t{number}", title="T", description="d" * 4000,
                input_schema={"type": "object"},
            ),
            _never,
        )  # fmt: skip
    serving = await retrieval.serve(worker)
    document = await edge.request(
        edge.subjects.endpoint("retrieval", "get"), GetRequest(document_id="x"), Document,
        service="retrieval", timeout_s=120,
    )  # fmt: skip
    assert len(document.text) == 6_000_000
    for bus in (edge, toolindex):
        found = await worker_of(bus, "retrieval")
        catalog = await bus.request(
            bus.subjects.catalog("retrieval", found.catalog), CatalogRequest(), Catalog,
            service="retrieval", timeout_s=120,
        )  # fmt: skip
        assert len(encode(catalog)) > 1_000_000
    await serving.drain()
    for bus in (edge, retrieval, toolindex):
        assert bus.transport.async_errors == 0
        await bus.close()


class States:
    """The endpoint of the service `attach`, without servers."""

    @endpoint
    async def status(self, call: Call, request: StatusRequest) -> StatusReply:
        assert call.actor.roles == ()
        return StatusReply(file_problem="asked")


@pytest.mark.parametrize("holder", ["attach", "cli"])
async def test_the_state_of_attached_servers_is_asked_with_the_keys_at_hand(
    own_nats_server: Callable, tmp_path, monkeypatch, holder
):
    """`searchbus attach list` runs in the service's container, with its key, which signs no actors."""
    out = tmp_path / "nats"
    assert run_command("nats-config", "--out", out).returncode == 0
    server = own_nats_server("-c", str(out / "nats" / "nats.conf"), "-sd", str(tmp_path / "js"))
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(out / "attach"))
    options = bus_options(load_settings(ServiceSettings))
    assert options["verifier"]
    bus = await connect(server.url, name="attach", **options)
    worker = Worker("attach")
    worker.add(States())
    serving = await bus.serve(worker)
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(out / holder))
    monkeypatch.setenv("SEARCHBUS_NATS_URL", server.url)
    found = await asyncio.to_thread(ask_status, tmp_path)
    assert found is not None
    assert found.file_problem == "asked"
    await serving.drain()
    await bus.close()


async def test_buckets_work_with_the_second_key_only(locked_bus):
    """Two processes of one service share them; on the bus there is no JetStream."""
    first, second = [await as_service(locked_bus, "ddg") for _ in range(2)]
    bucket = await first.key_value("ddg_leases", ttl_s=10, max_bytes=10_000)
    revision = await bucket.create("a", b"1")
    assert await bucket.update("a", b"2", revision)
    same = await second.key_value("ddg_leases", ttl_s=10, max_bytes=10_000)
    assert (await same.get("a")).value == b"2"
    assert await same.keys() == ["a"]
    await same.delete("a")
    assert await bucket.get("a") is None
    for bus in (first, second):
        assert bus.transport.async_errors == 0
        await bus.close()
    without = await connect(
        locked_bus.url,
        name="ddg",
        seeds=Seeds.of(locked_bus.seeds["ddg"]),
        inbox_prefix="_INBOX_ddg",
    )
    bucket = await without.key_value("ddg_leases", ttl_s=10, max_bytes=10_000)
    with pytest.raises(Fault, match="no key for this service's buckets"):
        await bucket.get("a")
    assert without.transport.async_errors == 0
    await without.close()


@pytest.mark.slow
async def test_a_service_cannot_pose_as_another(locked_bus):
    """Whatever name it announces: discovery confirms it where only that service can reply."""
    ddg, edge = await as_service(locked_bus, "ddg"), await as_service(locked_bus, "edge")
    metadata = {CONTRACT_KEY: "v1", CATALOG_KEY: "d" * 32, "started_ms": "9" * 15}
    for name in ("web", "ddg"):
        await ddg.transport.announce(ServiceRecord(name, "9.0.0", "", metadata, []))
    await ddg.transport.flush()
    question = InboxQuestion("$SRV.INFO", DISCOVERY)
    (named,) = await edge._requester.inbox.collect([question], quiet_s=1.0, most_s=60)
    assert any(b'"web"' in reply for reply in named)
    assert {worker.service for worker in await edge.workers(quiet_s=1.0)} == {"ddg"}
    await ddg.close()
    await edge.close()
