"""Two tenants on one NATS server: neither receives anything of the other, on any subject."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from nats.aio.client import Client

from searchbus_bus import Bus, Call, Worker, connect, endpoint
from searchbus_bus.nats.overrides import BusClient
from searchbus_cli.secure import bus_account, new_seed, public_key, store_account, with_buckets
from searchbus_contracts.retrieval import Document, GetRequest
from searchbus_contracts.services import publishes, subscribes
from searchbus_runtime import ServiceSettings, bus_options, load_settings
from searchbus_runtime.services import bus_users
from searchbus_testing import run_command, until

from .locked_bus import quiet

TENANTS = ("red", "blue")


@pytest.fixture
def shared(own_nats_server: Callable, tmp_path: Path):
    """A server with two tenants, whose accounts have a witness each, who may do everything."""
    out = tmp_path / "secrets"
    for tenant in TENANTS:
        done = run_command(
            "nats-config", "--out", out, "--tenant", tenant, "--prefix", f"{tenant}p"
        )
        assert done.returncode == 0, done.stderr
    text = (out / "nats" / "nats.conf").read_text()
    head, _, accounts = text.partition("accounts: ")
    found = json.loads(accounts)
    seeds = {account: new_seed() for account in found}
    for account, seed in seeds.items():
        found[account]["users"].append({"nkey": public_key(seed)})
    config = tmp_path / "with-witnesses.conf"
    config.write_text(f"{head}accounts: {json.dumps(found)}")
    server = own_nats_server("-c", str(config), "-sd", str(tmp_path / "js"))
    return server.url, out, seeds


async def witness(url: str, seed: str) -> Client:
    client = BusClient()
    await client.connect(url, nkeys_seed_str=seed, inbox_prefix="_INBOX_witness", error_cb=quiet)
    return client


async def member(url: str, out: Path, tenant: str, name: str, monkeypatch) -> Bus:
    """As the process of a tenant's service connects: with nothing but its folder of secrets."""
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(out / "tenants" / tenant / name))
    options = bus_options(load_settings(ServiceSettings))
    assert options["prefix"] == f"{tenant}p"
    return await connect(url, name=name, **options)


def every_subject(*prefixes: str) -> set[str]:
    """Of all declarations: what any service may publish or subscribe to, under each prefix."""
    services = bus_users()
    patterns: set[str] = set()
    for prefix in prefixes:
        for service in services.values():
            patterns |= {
                *publishes(service, services.values(), prefix),
                *subscribes(service, prefix),
            }
        patterns |= {f"$KV.{prefix}_{bucket}.x" for s in services.values() for bucket in s.buckets}
    patterns |= {"$JS.API.INFO", "$JS.API.STREAM.NAMES"}
    return {
        ".".join({"*": "x", ">": "x"}.get(token, token) for token in pattern.split("."))
        for pattern in patterns
    }


async def test_no_subject_of_any_declaration_reaches_another_tenant(shared):
    """Each is published by one who may do everything in its account; the witness of its own account
    receives it, and those of all other accounts receive nothing.
    """
    url, _, seeds = shared
    subjects = every_subject("redp", "bluep", "sb")
    plain = {subject for subject in subjects if not subject.startswith("$JS")}
    assert len(plain) > 200
    heard: dict[str, set[str]] = {account: set() for account in seeds}
    listening = []
    for account, seed in seeds.items():
        client = await witness(url, seed)

        async def note(message, account=account):
            heard[account].add(message.subject)

        await client.subscribe(">", cb=note)
        await client.flush()
        listening.append(client)
    for sender in (bus_account("red"), bus_account("blue"), store_account("web", "red")):
        client = await witness(url, seeds[sender])
        for subject in subjects:
            await client.publish(subject, b"secret")
        await client.flush()
        await until(lambda sender=sender: plain <= heard[sender])
        for one in listening:
            await one.flush()
        for account, received in heard.items():
            assert account == sender or not received & subjects, account
            received.clear()
        await client.close()
    for one in listening:
        await one.close()


class Texts:
    """The endpoint of retrieval that returns a document: here, whose it is."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    @endpoint
    async def get(self, call: Call, request: GetRequest) -> Document:
        return Document(
            collection="c",
            document_id=request.document_id,
            title=self._owner,
            text="",
            chunk_count=1,
        )


async def test_services_of_a_tenant_find_each_other_and_nobody_else(shared, monkeypatch):
    """Discovery, requests and buckets, with the keys and settings that were written."""
    url, out, _ = shared
    edges, workers = {}, []
    for tenant in TENANTS:
        retrieval = await member(url, out, tenant, "retrieval", monkeypatch)
        worker = Worker("retrieval")
        worker.add(Texts(tenant))
        workers.append((await retrieval.serve(worker), retrieval))
        edges[tenant] = await member(url, out, tenant, "edge", monkeypatch)
    for tenant, edge in edges.items():
        assert len(await edge.workers(quiet_s=3.0)) == 1
        document = await edge.request(
            edge.subjects.endpoint("retrieval", "get"), GetRequest(document_id="x"), Document,
            service="retrieval", timeout_s=60,
        )  # fmt: skip
        assert document.title == tenant
        bucket = await edge.key_value("limits", ttl_s=60, max_bytes=10_000)
        assert await bucket.get("who") is None
        await bucket.put("who", tenant.encode())
    for tenant, edge in edges.items():
        bucket = await edge.key_value("limits", ttl_s=60, max_bytes=10_000)
        assert (await bucket.get("who")).value == tenant.encode()
    for serving, bus in workers:
        await serving.drain()
        await bus.close()
    for edge in edges.values():
        assert edge.transport.async_errors == 0
        await edge.close()


def test_tenants_are_kept_and_removed(tmp_path):
    """Their keys stay; a removed one has no account; a rotation is of one tenant."""
    out = tmp_path / "secrets"

    def run(*arguments):
        return run_command("nats-config", "--out", out, *arguments)

    def accounts():
        text = (out / "nats" / "nats.conf").read_text()
        return json.loads(text[text.index("accounts: ") + len("accounts: ") :])

    assert run("--prefix", "own").returncode == 0
    assert run("--tenant", "red").returncode == 0
    before = {path: path.read_text() for path in out.glob("**/SEARCHBUS_*")}
    assert run("--kubernetes").returncode == 0
    assert before == {path: path.read_text() for path in before}
    assert {"BUS", "BUS_red", *(store_account(s, "red") for s in with_buckets(bus_users()))} <= set(
        accounts()
    )
    assert '"own.v1.' in json.dumps(accounts()["BUS"])
    assert '"own.v1.' not in json.dumps(accounts()["BUS_red"])
    assert "nats-users" not in (out / "tenants" / "red" / "secrets.yaml").read_text()
    assert run("--tenant", "red", "--rotate", "web").returncode == 0
    seed = "web/SEARCHBUS_NATS_NKEY_SEED"
    assert len((out / "tenants" / "red" / seed).read_text().split()) == 2
    assert len((out / seed).read_text().split()) == 1
    for arguments, said in (
        (("--tenant", "blue", "--prefix", "red"), "belongs to the tenant red"),
        (("--tenant", "blue", "--prefix", "own"), "belongs to the installation itself"),
        (("--tenant", "Red_x"), "lower-case letters"),
        (("--tenant", "blue", "--prefix", "a.b"), "letters, digits"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert said in done.stderr
    assert run("--remove-tenant", "red").returncode == 0
    assert not [name for name in accounts() if "red" in name]
