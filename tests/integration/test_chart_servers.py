"""NATS and Qdrant as parts of a release: their objects, and their TLS with real servers."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from searchbus_cli.nats_config import nats_config
from searchbus_runtime.files import write_atomically
from searchbus_testing import NatsServer, eventually, free_port
from searchbus_testing.processes import NATS_SERVER

from .binaries import why_no_binary
from .chart import CHART, helm, rendered_chart
from .documents import Document, name_of
from .laid_out import LaidOut, secrets_of
from .manifests import VERSIONS, Manifests, render, renderer, schema_faults
from .qdrant import QdrantServer, knows, peers_of, qdrant_binary
from .rules import faults

pytestmark = pytest.mark.skipif(
    why_no_binary("helm") is not None, reason=str(why_no_binary("helm"))
)
CLIENTS_SHOW_ONE = "--set=tls.nats.clientCertificates=true"
SIGN_IN = "--set=settings.edge.SEARCHBUS_AUTH=none"
KINDS = {
    "one server each": (SIGN_IN,),
    "three servers each": (SIGN_IN, "--set=nats.replicas=3,qdrant.replicas=3"),
    "one server each, without TLS": (SIGN_IN, "--set=tls.enabled=false"),
    "certificates of an issuer": (SIGN_IN, "--set=tls.issuer.name=company"),
}


def named(documents: list[Document], kind: str) -> dict[str, Document]:
    return {name_of(d): d for d in documents if d["kind"] == kind}


@pytest.mark.skipif(renderer() is None, reason="neither kustomize nor kubectl")
@pytest.mark.parametrize("kind", KINDS)
def test_a_release_by_the_defaults_is_whole_and_obeys_the_rules_of_the_overlays(kind):
    """Both servers are in it: selectors, ports, probes, settings, policies and volumes agree."""
    documents = rendered_chart("defaults", *KINDS[kind])
    for document in documents:
        document["metadata"]["namespace"] = "searchbus"
    space = [d for d in render("dev") if d["kind"] == "Namespace"]
    found = faults(Manifests([*space, *documents]))
    # Files of Secrets: the tests below read them where they are mounted.
    assert [fault for fault in found if "cannot be read (No such file" not in fault] == []
    assert list(schema_faults(documents, VERSIONS[0])) == []
    assert set(named(documents, "StatefulSet")) == {"nats", "qdrant"}
    # One server alone has no budget: it would keep its node from being drained.
    budgets = {"nats", "qdrant"} & set(named(documents, "PodDisruptionBudget"))
    assert budgets == ({"nats", "qdrant"} if "three" in kind else set())


def test_documents_are_in_one_place():
    """Qdrant and the embedded engine together are refused with the names of both values."""
    done = helm("template", "x", str(CHART), "--kube-version=1.34", "--set=documents.enabled=true")
    assert done.returncode != 0
    assert "qdrant.enabled and documents.enabled exclude each other" in done.stderr


def test_the_engine_inside_retrieval_has_one_owner():
    """Neither the usual number of pods nor KEDA gives it a second one; no server is looked for."""
    documents = rendered_chart("prod", "--set=documents.enabled=true")
    assert named(documents, "Deployment")["retrieval"]["spec"]["replicas"] == 1
    assert "retrieval" not in named(documents, "ScaledObject")
    assert named(documents, "ConfigMap")["retrieval"]["data"]["SEARCHBUS_QDRANT_URL"] == ""


def test_both_servers_are_reached_by_tls_unless_it_is_turned_off():
    """Every URL of a server is one of TLS; without it, no object mentions it."""
    maps = named(rendered_chart("defaults", SIGN_IN), "ConfigMap")
    assert maps["settings"]["data"]["SEARCHBUS_NATS_URL"] == "tls://nats:4222"
    assert maps["retrieval"]["data"]["SEARCHBUS_QDRANT_URL"] == "https://qdrant:6333"
    plain = yaml.safe_dump_all(rendered_chart("defaults", *KINDS["one server each, without TLS"]))
    assert "tls" not in plain.replace("toolset", "").lower()


def test_an_issuer_makes_the_secrets_that_the_servers_mount():
    """For the names by which clients and other servers reach them."""
    kind = (*KINDS["certificates of an issuer"], "--set=nats.replicas=3,qdrant.replicas=3")
    documents = rendered_chart("defaults", *kind)
    for name, certificate in named(documents, "Certificate").items():
        server = name.removesuffix("-tls")
        peers = named(documents, "StatefulSet")[server]["spec"]["serviceName"]
        names = [server, *(f"{server}-{number}.{peers}" for number in range(3))]
        assert certificate["spec"]["dnsNames"] == names
        assert certificate["spec"]["issuerRef"] == {"kind": "Issuer", "name": "company"}
        volumes = named(documents, "StatefulSet")[server]["spec"]["template"]["spec"]["volumes"]
        mounted = [v["secret"]["secretName"] for v in volumes if v["name"] == "tls"]
        assert mounted == [certificate["spec"]["secretName"]]
    assert len(named(documents, "Certificate")) == 2


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ("tls.enabled=false", "clientCertificates needs TLS"),
        ("nats.enabled=false", "clientCertificates needs TLS"),
        ("tls.issuer.name=company", "exclude each other"),
    ],
)
def test_certificates_of_clients_that_nobody_could_verify_are_refused(values, what):
    """With the names of the values."""
    given = f"{CLIENTS_SHOW_ONE},{values}"
    done = helm("template", "x", str(CHART), "--kube-version=1.34", given)
    assert done.returncode != 0
    assert what in done.stderr


class Release:
    """A release with TLS on this machine: NATS and Qdrant run, services are started by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.documents = rendered_chart("defaults", SIGN_IN, CLIENTS_SHOW_ONE)
        self.monitor = free_port()
        self.configure()
        self.nats, self.qdrant = NatsServer(folder), QdrantServer(folder / "qdrant")
        self._processes: list[subprocess.Popen[bytes]] = []

    def configure(self, **options: Any) -> None:
        """Run `searchbus nats-config`; its Secrets are those of the namespace."""
        out = self.folder / "keys"
        nats_config(out, kubernetes=True, tls=True, tls_verify=True, **options)
        made = yaml.safe_load_all((out / "secrets.yaml").read_text())
        self.secrets = secrets_of([d for d in made if d])

    def of(self, workload: str, container: str | None = None) -> LaidOut:
        replaced = {"http: 8222": f"http: {self.monitor}"}
        if workload not in ("nats", "qdrant"):
            replaced = {"nats:4222": f"localhost:{self.nats.port}"}
            replaced |= {"qdrant:6333": f"localhost:{self.qdrant.port}"}
        folder = self.folder / workload
        return LaidOut(self.documents, workload, folder, self.secrets, replaced, container)

    def start_servers(self) -> None:
        server = self.of("nats")
        self.nats.arguments = tuple(server.arguments)
        self.nats.start()
        store = self.of("qdrant")
        self.qdrant.options = {
            name.removeprefix("QDRANT__"): value for name, value in store.environment.items()
        }
        self.qdrant.start(wait=False)

    def start(self, service: str, pod: LaidOut) -> str:
        """Start a service as its Deployment says; the address of its probes."""
        port = free_port()
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **pod.environment}
        environment |= {
            "SEARCHBUS_HEALTH_PORT": str(port), "SEARCHBUS_HEALTH_HOST": "127.0.0.1",
            "SEARCHBUS_EMBEDDER": "hash",
        }  # fmt: skip
        self.run([sys.executable, "-m", "searchbus_runtime", service], service, environment)
        return f"http://127.0.0.1:{port}"

    def run(self, command: list[str], name: str, environment: dict[str, str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self.nats.stop()
        self.qdrant.kill()


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    if qdrant_binary() is None:
        pytest.skip("there is no qdrant program, neither on the PATH nor beside the checkout")
    found = Release(tmp_path)
    try:
        found.start_servers()
        yield found
    finally:
        found.stop()


def is_ready(url: str) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            return httpx.get(f"{url}/readyz", timeout=10).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    return ask


@pytest.mark.slow
def test_a_release_by_tls_runs_and_another_authority_is_named(release, tmp_path):
    """The rendered files and variables of retrieval, at real servers that demand certificates."""
    pod = release.of("retrieval")
    url = release.start("retrieval", pod)
    eventually(is_ready(url), timeout_s=120, message=lambda: release.log("retrieval"))
    shown = httpx.get(f"{url}/metrics", timeout=10).text
    ends = set(re.findall(r'searchbus_certificate_end_seconds\{.*server="([^"]+)"', shown))
    assert ends == {f"localhost:{server.port}" for server in (release.nats, release.qdrant)}
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://127.0.0.1:{release.qdrant.port}/", timeout=10).raise_for_status()

    other = tmp_path / "other"
    nats_config(other, tls=True)
    for server, name in (("nats", "nats"), ("qdrant", "Qdrant")):
        wrong = release.of("retrieval")
        place = wrong.path(f"/etc/searchbus-tls/{server}/ca.crt")
        right = place.read_bytes()
        place.write_bytes((other / "tls" / "ca.crt").read_bytes())
        started = f"retrieval-{server}"
        release.run([sys.executable, "-m", "searchbus_runtime", "retrieval"], started, {
            "PATH": os.environ["PATH"], **wrong.environment,
            "SEARCHBUS_HEALTH_PORT": "0", "SEARCHBUS_EMBEDDER": "hash",
        })  # fmt: skip
        eventually(
            lambda s=started, p=place: str(p) in release.log(s),
            timeout_s=120, message=lambda s=started: release.log(s),
        )  # fmt: skip
        print(name, release.log(started)[-1500:])
        place.write_bytes(right)


@pytest.mark.slow
def test_the_container_beside_nats_reloads_new_users(release):
    """A rotated key is admitted without a restart, and the connection of a service stays."""
    url = release.start("ddg", release.of("ddg"))
    eventually(is_ready(url), timeout_s=120, message=lambda: release.log("ddg"))
    connected = connections(release)
    beside = release.of("nats", "reload")
    path = f"{NATS_SERVER.parent}:{os.environ['PATH']}"
    # The wheel's program: other packages have other names for it.
    release.run(beside.arguments, "reload", {"PATH": path})
    seen = (release.nats.folder / "nats.log").read_text
    release.configure(rotating=["ddg"])

    # Anew until the container has read the files of before. Whole, as the kubelet does it: a server
    # that reads an empty file has no users, and ends the connections.
    def reloaded() -> bool:
        users = beside.path("/etc/nats-users/auth.conf")
        write_atomically(users, release.secrets["nats-users"]["auth.conf"])
        return "Reloaded server configuration" in seen()

    eventually(reloaded, timeout_s=120, message=seen)
    assert connections(release) >= connected
    pod = release.of("ddg")
    seed = pod.path("/run/secrets/searchbus/SEARCHBUS_NATS_NKEY_SEED")
    _, second = seed.read_text().split()
    seed.write_text(second)
    url = release.start("ddg", pod)
    eventually(is_ready(url), timeout_s=120, message=lambda: release.log("ddg"))


@pytest.mark.slow
def test_three_servers_of_each_kind_find_each_other(tmp_path):
    """By TLS with each other, too: the rendered configuration, at addresses of this machine."""
    if qdrant_binary() is None:
        pytest.skip("there is no qdrant program, neither on the PATH nor beside the checkout")
    documents = rendered_chart("defaults", *KINDS["three servers each"])
    nats_config(tmp_path / "keys", kubernetes=True, tls=True)
    made = yaml.safe_load_all((tmp_path / "keys" / "secrets.yaml").read_text())
    secrets = secrets_of([d for d in made if d])
    routes, peers, monitors = ([free_port() for _ in range(3)] for _ in range(3))
    buses, stores = [], []
    try:
        for number in range(3):
            replaced = {
                "http: 8222": f"http: {monitors[number]}",
                "port: 6222": f"host: 127.0.0.1, port: {routes[number]}",
            }
            replaced |= {f"nats-{n}.nats:6222": f"127.0.0.1:{routes[n]}" for n in range(3)}
            pod = LaidOut(documents, "nats", tmp_path / f"nats-{number}", secrets, replaced)
            port = str(free_port())
            buses.append(
                subprocess.Popen(
                    [NATS_SERVER, "-a", "127.0.0.1", "-p", port, *pod.arguments],
                    env={"POD_NAME": f"nats-{number}"},
                )
            )
            replaced = {
                "$POD_NAME.qdrant-peers:6335": f"127.0.0.1:{peers[number]}",
                "qdrant-0.qdrant-peers:6335": f"127.0.0.1:{peers[0]}",
                "/dev/tcp/qdrant-0.qdrant-peers/6335": f"/dev/tcp/127.0.0.1/{peers[0]}",
                "./entrypoint.sh": str(qdrant_binary()),
            }
            pod = LaidOut(documents, "qdrant", tmp_path / f"qdrant-{number}", secrets, replaced)
            store = QdrantServer(tmp_path / f"qdrant-{number}")
            store.options = {
                **{key.removeprefix("QDRANT__"): text for key, text in pod.environment.items()},
                "CLUSTER__P2P__PORT": str(peers[number]),
            }
            store.command = tuple(pod.arguments)
            store.variables = {"POD_NAME": f"qdrant-{number}"}
            stores.append(store)
            store.start(wait=False)
        for monitor in monitors:
            eventually(lambda m=monitor: routed(m) == 2, timeout_s=120)
        # Two of three suffice, and the service is healthy only with JetStream's leader.
        eventually(lambda: httpx.get(f"http://127.0.0.1:{monitors[0]}/healthz").is_success)
        trusted = ssl.create_default_context(cafile=tmp_path / "keys" / "tls" / "ca.crt")
        eventually(lambda: all(knows(store, 3, trusted) for store in stores), timeout_s=120)
        assert all(uri.startswith("https://") for uri in peers_of(stores[0], trusted))
        state = httpx.get(f"http://127.0.0.1:{monitors[0]}/varz", timeout=10).json()
        assert state["cluster"]["tls_required"]
    finally:
        for bus in buses:
            bus.kill()
            bus.wait()
        for store in stores:
            store.kill()


def routed(monitor: int) -> int:
    """How many other servers this one has routes to."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{monitor}/routez", timeout=10)
    except httpx.TransportError:
        return 0
    return len({each["remote_id"] for each in answer.json()["routes"]})


def connections(release: Release) -> set[int]:
    """The numbers that NATS gave to its connections."""
    answer = httpx.get(f"http://127.0.0.1:{release.monitor}/connz", timeout=10)
    return {each["cid"] for each in answer.json()["connections"]}
