"""Overlays and chart at a real API server: accepted strictly, admitted, rolled out, drained, scaled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from searchbus_testing import eventually

from ..integration.binaries import why_no_binary
from ..integration.chart import CHART, rendered_chart
from ..integration.documents import Document, name_of
from ..integration.engine import ROOT, SERVICES
from ..integration.manifests import render, renderer
from .control_plane import PROGRAMS, ControlPlane, Refused
from .definitions import definitions
from .metrics_api import MetricsApi
from .nodes import NODES, PlayedNodes

_WHY_NOT = why_no_binary(*PROGRAMS) or (None if renderer() else "neither kustomize nor kubectl")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT)),
]

WAIT_S = 300
RELEASE = "searchbus"
TARGET_MILLICORES = 650
"""Of an edge, in its HorizontalPodAutoscaler."""
SPACES = {
    "overlay-dev": lambda: render("dev"),
    "overlay-prod": lambda: render("prod"),
    "overlay-attached": lambda: render("attached"),
    "chart-dev": lambda: rendered_chart("dev"),
    "chart-servers": lambda: rendered_chart(
        "defaults", "--set=settings.edge.SEARCHBUS_AUTH=none,nats.replicas=3,qdrant.replicas=3",
    ),
    "chart-plain": lambda: rendered_chart(
        "defaults", "--set=settings.edge.SEARCHBUS_AUTH=none,tls.enabled=false"
    ),
    "chart-issuer": lambda: rendered_chart(
        "defaults", "--set=settings.edge.SEARCHBUS_AUTH=none,tls.issuer.name=company"
    ),
    "chart-gateway": lambda: rendered_chart("gateway"),
    "chart-attached": lambda: rendered_chart(
        "attached", "--set=externalSecrets.enabled=true,externalSecrets.store.name=vault",
        "--set=externalSecrets.secrets.searchbus-edge=prod/edge",
        "--set=tls.nats.caSecret=nats-ca,tls.qdrant.caSecret=qdrant-ca",
    ),
}  # fmt: skip
"""Namespace → what is applied in it."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory) -> Iterator[ControlPlane]:
    found = ControlPlane(
        tmp_path_factory.mktemp("cluster"),
        ("--horizontal-pod-autoscaler-sync-period=1s",
         "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
         "--horizontal-pod-autoscaler-initial-readiness-delay=1s"),
    )  # fmt: skip
    try:
        found.start()
        found.apply(definitions(), "default")
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def nodes(plane) -> Iterator[PlayedNodes]:
    played = PlayedNodes(plane)
    played.start()
    yield played
    played.stop()


@pytest.fixture(scope="module")
def metrics(plane, tmp_path_factory) -> Iterator[MetricsApi]:
    api = MetricsApi(plane, tmp_path_factory.mktemp("metrics"))
    api.start()
    yield api
    api.stop()


def restricted(plane: ControlPlane, namespace: str) -> None:
    """The namespace that the base makes, under another name."""
    space = [d for d in render("prod") if d["kind"] == "Namespace"]
    plane.apply(space, namespace)


@pytest.fixture(scope="module")
def applied(plane, nodes) -> ControlPlane:
    """All of SPACES, applied."""
    for namespace, documents in SPACES.items():
        restricted(plane, namespace)
        plane.apply(documents(), namespace)
    return plane


def deployments(plane: ControlPlane, namespace: str) -> dict[str, Document]:
    found = plane.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")
    return {name_of(d): d for d in found["items"]}


def pods(plane: ControlPlane, namespace: str, service: str = "") -> list[Document]:
    """Those that are not being deleted."""
    selector = f"app.kubernetes.io/name={service}" if service else ""
    found = plane.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)
    return [p for p in found["items"] if "deletionTimestamp" not in p["metadata"]]


def rolled_out(plane: ControlPlane, namespace: str) -> bool:
    """Whether every workload has the replicas that it wants, all of its newest template."""
    sets = plane.get(f"/apis/apps/v1/namespaces/{namespace}/statefulsets")["items"]
    for workload in [*deployments(plane, namespace).values(), *sets]:
        status, wanted = workload.get("status", {}), workload["spec"]["replicas"]
        if status.get("observedGeneration", 0) < workload["metadata"]["generation"]:
            return False
        counts = {status.get(f"{kind}Replicas", 0) for kind in ("updated", "available", "ready")}
        if counts | {status.get("replicas", 0)} != {wanted}:
            return False
    return True


def events(plane: ControlPlane, namespace: str) -> list[str]:
    found = plane.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return [e["message"] for e in found if e["type"] == "Warning"]


@pytest.mark.parametrize("namespace", SPACES)
def test_everything_is_accepted_and_rolled_out(applied, namespace):
    """No unknown field, and restricted Pod Security admits every pod."""
    eventually(
        lambda: rolled_out(applied, namespace),
        timeout_s=WAIT_S,
        message=lambda: "\n".join(events(applied, namespace)),
    )
    found = {name_of(d) for d in deployments(applied, namespace).values()}
    assert found == set(SERVICES)
    running = Counter(
        p["metadata"]["labels"]["app.kubernetes.io/name"] for p in pods(applied, namespace)
    )
    assert running["edge"] == (1 if namespace.endswith("dev") else 2)
    assert not [e for e in events(applied, namespace) if "PodSecurity" in e]
    budgets = applied.get(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")["items"]
    several = {"nats", "qdrant"} if namespace == "chart-servers" else set()
    assert {name_of(b) for b in budgets} == {*SERVICES, *several}
    if namespace in ("chart-servers", "chart-plain", "chart-issuer"):
        assert {"nats", "qdrant"} <= set(running)


@pytest.mark.parametrize(
    ("place", "field"),
    [
        (("spec", "template", "spec"), "restartPolcy"),
        (("spec",), "replica"),
    ],
)
def test_a_field_that_does_not_exist_is_refused(applied, place, field):
    """So the validation above looks."""
    (document,) = (
        d
        for d in rendered_chart("prod", "--set=image.tag=x")
        if (d["kind"], name_of(d)) == ("Deployment", "web")
    )
    holder = document
    for key in place:
        holder = holder[key]
    holder[field] = 1
    with pytest.raises(Refused, match=field):
        applied.apply([document], "overlay-prod")


def test_a_pod_without_hardening_is_not_admitted(applied):
    """So the namespace enforces what the manifests promise."""
    pod = {"containers": [{"name": "service", "image": "searchbus/web:dev"}]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": pod}
    with pytest.raises(Refused, match="violates PodSecurity"):
        applied.apply([document], "overlay-prod")


@pytest.fixture(scope="module")
def release(plane, nodes) -> str:
    """A release of the chart, over objects that were applied by kustomize before."""
    namespace = "release"
    restricted(plane, namespace)
    plane.apply(render("prod"), namespace)
    upgrade(plane, namespace, "--install", "--take-ownership")
    # No KEDA runs here: what its ScaledObjects ask for at least is set in its place.
    for scaled in plane.get(f"/apis/keda.sh/v1alpha1/namespaces/{namespace}/scaledobjects")[
        "items"
    ]:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name_of(scaled)}/scale"
        plane.patch(path, {"spec": {"replicas": scaled["spec"]["minReplicaCount"]}})
    eventually(lambda: rolled_out(plane, namespace), timeout_s=WAIT_S)
    return namespace


def test_a_release_gets_tls_only_when_its_certificates_are_there(plane):
    """An upgrade without them is refused before anything is changed: NATS would not start again."""
    namespace = "certificates"
    restricted(plane, namespace)
    command = (
        "upgrade",
        RELEASE,
        str(CHART),
        "-n",
        namespace,
        "--set=settings.edge.SEARCHBUS_AUTH=none",
    )
    plane.helm(*command, "--install", "--set=tls.enabled=false")
    with pytest.raises(AssertionError, match="there is no Secret nats-tls"):
        plane.helm(*command)
    plane.apply([_secret(f"{server}-tls") for server in ("nats", "qdrant")], namespace)
    plane.helm(*command)
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/nats"
    volumes = plane.get(path)["spec"]["template"]["spec"]["volumes"]
    assert "nats-tls" in {v["secret"]["secretName"] for v in volumes if "secret" in v}


def _secret(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


def upgrade(plane: ControlPlane, namespace: str, *arguments: str) -> None:
    values = ROOT / "deploy" / "helm" / "values" / "prod.yaml"
    plane.helm("upgrade", RELEASE, str(CHART), "-n", namespace, "-f", str(values), *arguments)


def test_a_release_takes_over_what_kustomize_made(plane, release):
    """One Deployment of each service, and it belongs to the release."""
    found = deployments(plane, release)
    assert set(found) == set(SERVICES)
    owners = {d["metadata"]["annotations"]["meta.helm.sh/release-name"] for d in found.values()}
    assert owners == {RELEASE}


def test_a_changed_secret_replaces_the_pods_that_read_it_and_never_too_many(plane, nodes, release):
    """Both workers stay ready while new ones start; pods of other services stay."""
    before = {s: {p["metadata"]["uid"] for p in pods(plane, release, s)} for s in SERVICES}
    least = []

    def replaced() -> bool:
        status = deployments(plane, release)["web"]["status"]
        least.append(status.get("availableReplicas", 0))
        now = {p["metadata"]["uid"] for p in pods(plane, release, "web")}
        return not now & before["web"] and rolled_out(plane, release)

    upgrade(plane, release, "--set-string=secrets.web-providers.SEARCHBUS_BRAVE_API_KEYS=[]")
    eventually(replaced, timeout_s=WAIT_S)
    assert min(least) == 2
    for service in set(SERVICES) - {"web"}:
        assert {p["metadata"]["uid"] for p in pods(plane, release, service)} == before[service]


def evict(plane: ControlPlane, namespace: str, pod: Document) -> int:
    """The status that the API server answers: 201, or 429 while the budget allows no eviction."""
    eviction = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name_of(pod), "namespace": namespace},
    }  # fmt: skip
    try:
        plane.post(f"/api/v1/namespaces/{namespace}/pods/{name_of(pod)}/eviction", eviction)
    except Refused as error:
        return error.status
    return 201


def allowed(plane: ControlPlane, namespace: str, service: str) -> int:
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{service}"
    return plane.get(path)["status"].get("disruptionsAllowed", 0)


def test_a_second_pod_of_a_service_is_not_evicted_before_the_first_is_replaced(
    plane, nodes, release
):
    """The budget allows one; the API server refuses the other."""
    eventually(lambda: allowed(plane, release, "web") == 1, timeout_s=WAIT_S)
    first, second = pods(plane, release, "web")
    nodes.paused.set()
    try:
        answers = [evict(plane, release, first), evict(plane, release, second)]
    finally:
        nodes.paused.clear()
    assert answers == [201, 429]
    eventually(lambda: evict(plane, release, second) == 201, timeout_s=WAIT_S)
    eventually(lambda: rolled_out(plane, release), timeout_s=WAIT_S)


def test_a_drained_node_takes_one_worker_of_a_service_at_a_time(plane, nodes, release):
    """All of its pods leave, and each service keeps all workers but one."""
    node = NODES[0]
    wanted = {n: d["spec"]["replicas"] for n, d in deployments(plane, release).items()}
    plane.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    fewest: dict[str, int] = dict(wanted)

    def drained() -> bool:
        for service in SERVICES:
            here = [p for p in pods(plane, release, service) if _is_ready(p)]
            fewest[service] = min(fewest[service], len(here))
        there = [p for p in pods(plane, release) if p["spec"].get("nodeName") == node]
        for pod in there:
            assert evict(plane, release, pod) in (201, 404, 429)
        return not there

    eventually(drained, timeout_s=WAIT_S)
    eventually(lambda: rolled_out(plane, release), timeout_s=WAIT_S)
    plane.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": False}})
    assert all(fewest[service] >= wanted[service] - 1 for service in SERVICES)
    assert {n: d["spec"]["replicas"] for n, d in deployments(plane, release).items()} == wanted


def _is_ready(pod: Document) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)


def test_the_edge_is_scaled_by_its_cpu(plane, nodes, metrics, release):
    """Twice the target: twice the edges; more than there may be: the maximum."""
    metrics.millicores = 2 * TARGET_MILLICORES
    eventually(
        lambda: deployments(plane, release)["edge"]["spec"]["replicas"] >= 4, timeout_s=WAIT_S
    )
    metrics.millicores = 20 * TARGET_MILLICORES
    eventually(
        lambda: deployments(plane, release)["edge"]["spec"]["replicas"] == 10, timeout_s=WAIT_S
    )
    # A new version of the chart leaves the number to the autoscaler.
    upgrade(plane, release, "--set-string=settings.edge.SEARCHBUS_LOG_LEVEL=debug")
    assert deployments(plane, release)["edge"]["spec"]["replicas"] == 10
    metrics.millicores = 0
