"""Manifests: valid, in agreement with each other and with the code, clean for the linter."""

from __future__ import annotations

import base64
import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from searchbus_cli.nats_config import nats_config
from searchbus_contracts import VERSION
from searchbus_runtime.services import bus_users
from searchbus_toolindex.vector_file import MOST_RECORDS, VectorFile
from searchbus_vectors import DIMENSIONS

from .documents import name_of, parsed, pod_of
from .engine import ROOT, SERVICES
from .manifests import VERSIONS, Manifests, render, renderer, schema_faults
from .pod_rules import MADE_ELSEWHERE
from .rules import faults

OVERLAYS = ("dev", "prod", "attached")
POLICY = ROOT / "build" / "policy"
NOT_FOLLOWED = {
    # Tags stand in the tree; a release pins digests by `kustomize edit set image`.
    "prod": "CKV_K8S_43",
    "attached": "CKV_K8S_43",
    # kind has its images already: they cannot be pulled.
    "dev": "CKV_K8S_43,CKV_K8S_15",
}

needs_kustomize = pytest.mark.skipif(renderer() is None, reason="neither kustomize nor kubectl")
pytestmark = needs_kustomize


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.slow
def test_every_document_is_strictly_valid(overlay, version):
    """No unknown field, no wrong type, in two versions of Kubernetes."""
    documents = render(overlay)
    assert len(documents) > 30
    assert list(schema_faults(documents, version)) == []


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.slow
def test_manifests_agree_with_each_other_and_with_the_code(overlay):
    """Selectors, ports, probes, settings, policies, images, metrics."""
    assert faults(Manifests(render(overlay))) == []


def at(kind: str, name: str, *path: str | int) -> Callable[[list[dict]], tuple[Any, Any]]:
    """Where a fault is put: the holder of the last key, and that key."""

    def find(documents: list[dict]) -> tuple[Any, Any]:
        place: Any = next(d for d in documents if d["kind"] == kind and name_of(d).startswith(name))
        for key in path[:-1]:
            place = place[key]
        return place, path[-1]

    return find


POD = ("spec", "template", "spec")
FAULTS = {
    "Namespace without Pod Security": (
        "prod", at("Namespace", "searchbus", "metadata", "labels"), {}),
    "ServiceAccount with a token": (
        "prod", at("ServiceAccount", "edge", "automountServiceAccountToken"), True),
    "Deployment with a foreign selector": (
        "prod", at("Deployment", "web", "spec", "selector", "matchLabels"), {"app.kubernetes.io/name": "wbe"}),
    "Deployment with a probe at no port": (
        "prod", at("Deployment", "ddg", *POD, "containers", 0, "readinessProbe", "httpGet", "port"), "http"),
    "Deployment with an unknown field": (
        "prod", at("Deployment", "ddg", *POD, "restartPolcy"), "Always"),
    "Deployment with a short grace time": (
        "prod", at("Deployment", "edge", *POD, "terminationGracePeriodSeconds"), 20),
    "Deployment with a Secret of nobody": (
        "prod", at("Deployment", "edge", *POD, "volumes", 2, "projected", "sources", 0, "secret", "name"), "searchbus-egde"),
    "Deployment with another's image": (
        "prod", at("Deployment", "edge", *POD, "containers", 0, "image"), "registry.example.org/searchbus/web:0.1.0"),
    "Deployment that leaves without declaring it": (
        "prod", at("Deployment", "toolindex", "spec", "template", "metadata", "labels", "searchbus.io/internet"), "true"),
    "Deployment that cannot leave though it declares it": (
        "prod", at("Deployment", "web", "spec", "template", "metadata", "labels", "searchbus.io/internet"), "false"),
    "Deployment that no policy applies to": (
        "prod", at("Deployment", "web", "spec", "template", "metadata", "labels", "app.kubernetes.io/part-of"), "serchbus"),
    "Deployment with less memory than it declares": (
        "prod", at("Deployment", "web", *POD, "containers", 0, "resources", "limits", "memory"), "512Mi"),
    "StatefulSet with a ConfigMap that is not there": (
        "dev", at("StatefulSet", "nats", *POD, "volumes", 0, "configMap", "name"), "nats"),
    "StatefulSet with a writable root": (
        "dev", at("StatefulSet", "nats", *POD, "containers", 0, "securityContext", "readOnlyRootFilesystem"), False),
    "Service that leads nowhere": (
        "prod", at("Service", "edge", "spec", "ports", 0, "targetPort"), "htpp"),
    "Service without pods": (
        "prod", at("Service", "web", "spec", "selector"), {"app.kubernetes.io/name": "webb"}),
    "ConfigMap with an unknown setting": (
        "prod", at("ConfigMap", "ddg", "data", "SEARCHBUS_DDG_EGRES"), "[]"),
    "ConfigMap with a bad value": (
        "prod", at("ConfigMap", "ddg", "data", "SEARCHBUS_DDG_EGRESS"), '["ftp://x"]'),
    "ConfigMap that opens the edge without saying how": (
        "prod", at("ConfigMap", "edge", "data", "SEARCHBUS_ISSUER"), ""),
    "ConfigMap that no pod reads": (
        "prod", at("ConfigMap", "ddg", "metadata", "name"), "dgd"),
    "HorizontalPodAutoscaler of nobody": (
        "prod", at("HorizontalPodAutoscaler", "edge", "spec", "scaleTargetRef", "name"), "egde"),
    "PodDisruptionBudget of nobody": (
        "prod", at("PodDisruptionBudget", "web", "spec", "selector", "matchLabels"), {"app.kubernetes.io/name": "w"}),
    "PodDisruptionBudget that a service lacks": (
        "prod", at("PodDisruptionBudget", "web", "metadata", "name"), "wbe"),
    "NetworkPolicy that admits to a wrong port": (
        "prod", at("NetworkPolicy", "edge", "spec", "ingress", 0, "ports", 0, "port"), 8081),
    "NetworkPolicy that lets everybody out": (
        "prod", at("NetworkPolicy", "internet", "spec", "podSelector"), {"matchLabels": {"app.kubernetes.io/part-of": "searchbus"}}),
    "NetworkPolicy into private ranges": (
        "prod", at("NetworkPolicy", "internet", "spec", "egress", 0, "to", 0, "ipBlock", "except"), ["10.0.0.0/8"]),
    "NetworkPolicy that denies nothing": (
        "prod", at("NetworkPolicy", "default-deny", "spec", "policyTypes"), ["Ingress"]),
    "NetworkPolicy of an attached server that leads to another port": (
        "attached", at("NetworkPolicy", "attached-tracker", "spec", "egress", 0, "ports", 0, "port"), 8443),
    "NetworkPolicy of a server that is not attached": (
        "attached", at("NetworkPolicy", "attached-wiki", "metadata", "name"), "attached-wik"),
    "Deployment with attached servers that all may reach": (
        "attached", at("Deployment", "web", "spec", "template", "metadata", "labels", "searchbus.io/internet"), "servers"),
    "ConfigMap of attached servers with a wrong name": (
        "attached", at("ConfigMap", "attach-servers", "metadata", "name"), "attached-servers"),
    "PersistentVolumeClaim of nobody": (
        "dev", at("PersistentVolumeClaim", "documents", "metadata", "name"), "documnets"),
    "Ingress to a port that is not there": (
        "prod", at("Ingress", "edge", "spec", "rules", 0, "http", "paths", 0, "backend", "service", "port", "name"), "web"),
    "Ingress without a certificate": (
        "prod", at("Ingress", "edge", "spec", "rules", 0, "host"), "other.example.org"),
    "ServiceMonitor at a port that is not there": (
        "prod", at("ServiceMonitor", "searchbus", "spec", "endpoints", 0, "port"), "metricz"),
    "ServiceMonitor without the label of the alerts": (
        "prod", at("ServiceMonitor", "searchbus", "spec", "targetLabels"), []),
    "PrometheusRule about a metric that is not there": (
        "prod", at("PrometheusRule", "searchbus", "spec", "groups", 0, "rules", 3, "expr"), "rate(searchbus_worker_sheds_total[5m]) > 1"),
    "ScaledObject of nobody": (
        "prod", at("ScaledObject", "ddg", "spec", "scaleTargetRef", "name"), "dgd"),
    "ScaledObject that counts every installation": (
        "prod", at("ScaledObject", "web", "spec", "triggers", 0, "metadata", "query"), 'sum(searchbus_worker_in_flight{worker="web"})'),
    "ScaledObject with an unknown field": (
        "prod", at("ScaledObject", "ddg", "spec", "maxReplicas"), 3),
}  # fmt: skip


@pytest.mark.parametrize("title", FAULTS)
def test_planted_fault_is_caught(title):
    """One wrong value in each kind of manifest is found, and named with its kind."""
    overlay, find, value = FAULTS[title]
    whole = render(overlay)
    documents = copy.deepcopy(whole)
    holder, key = find(documents)
    holder[key] = value
    changed = [new for new, old in zip(documents, whole, strict=True) if new != old]
    assert len(changed) == 1
    found = [*schema_faults(changed, VERSIONS[0])]
    if not found:
        found = faults(Manifests(documents))
    assert found
    assert any(title.split()[0] in fault for fault in found), found


def test_every_kind_of_manifest_has_its_planted_fault():
    """A new kind wants a line above."""
    kinds = {d["kind"] for overlay in OVERLAYS for d in render(overlay)}
    assert kinds == {title.split()[0] for title in FAULTS}


def test_files_of_every_service_are_generated():
    """docker-compose.yml and services.yaml say what the declarations say: else `make proto`."""
    done = subprocess.run(
        [sys.executable, ROOT / "deploy" / "generate.py", "--check"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize(
    ("overlay", "form"),
    [
        ("dev", "searchbus/{}:dev"),
        ("prod", "registry.example.org/searchbus/{}:" + VERSION),
        ("attached", "registry.example.org/searchbus/{}:" + VERSION),
    ],
)
def test_overlays_name_the_images_of_all_services_alike(overlay, form):
    """Registry and tag are stated once, not for each service."""
    images = {
        name_of(d): d["spec"]["template"]["spec"]["containers"][0]["image"]
        for d in render(overlay)
        if d["kind"] == "Deployment"
    }
    assert images == {service: form.format(service) for service in SERVICES}


def test_a_pinned_digest_keeps_the_registry(tmp_path):
    """What `kustomize edit set image searchbus/edge=searchbus/edge@sha256:…` writes."""
    digest = "sha256:" + "a" * 64
    shutil.copytree(ROOT / "deploy" / "k8s", tmp_path / "k8s")
    overlay = tmp_path / "k8s" / "overlays" / "prod" / "kustomization.yaml"
    pin = {"name": "searchbus/edge", "newName": "searchbus/edge", "digest": digest}
    overlay.write_text(overlay.read_text() + yaml.safe_dump({"images": [pin]}))
    done = subprocess.run(
        [*renderer(), str(overlay.parent)], capture_output=True, text=True, timeout=60, check=True
    )
    assert f"image: registry.example.org/searchbus/edge@{digest}\n" in done.stdout
    assert f"image: registry.example.org/searchbus/web:{VERSION}\n" in done.stdout


@pytest.mark.parametrize(
    ("overlay", "image", "policy"),
    [
        ("dev", "searchbus/cli:dev", "IfNotPresent"),
        ("prod", f"registry.example.org/searchbus/cli:{VERSION}", "Always"),
    ],
)
@pytest.mark.slow
def test_the_backup_takes_its_image_from_where_the_others_are(tmp_path, overlay, image, policy):
    """It is a CronJob, and a component that an overlay may add."""
    shutil.copytree(ROOT / "deploy" / "k8s", tmp_path / "k8s")
    file = tmp_path / "k8s" / "overlays" / overlay / "kustomization.yaml"
    content = yaml.safe_load(file.read_text())
    content.setdefault("components", []).append("../../components/backup")
    file.write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [*renderer(), str(file.parent)], capture_output=True, text=True, timeout=60, check=True
    )
    (job,) = (d for d in parsed(done.stdout) if d["kind"] == "CronJob")
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == (image, policy)


def test_an_edge_without_sign_in_is_reached_from_its_namespace_only():
    """A policy that admits every pod of the cluster is for edges that check who calls."""
    (policy,) = (d for d in render("dev") if (d["kind"], name_of(d)) == ("NetworkPolicy", "edge"))
    assert [rule["from"] for rule in policy["spec"]["ingress"]] == [[{"podSelector": {}}]]


def test_pods_reach_an_edge_without_sign_in_by_the_name_of_its_service():
    """As docs/deploy.md says; an edge answers no other host."""
    (settings,) = (
        d["data"] for d in render("dev") if d.get("data", {}).get("SEARCHBUS_ALLOWED_HOSTS")
    )
    names = json.loads(settings["SEARCHBUS_ALLOWED_HOSTS"])
    assert {"edge:8080", "edge.searchbus:8080"} <= set(names)


def test_the_index_has_room_for_its_vectors_twice():
    """A pod that fills its volume is evicted; a large file is written anew beside the old one."""
    (pod,) = (
        pod_of(d) for d in render("prod") if (d["kind"], name_of(d)) == ("Deployment", "toolindex")
    )
    (data,) = (v["emptyDir"]["sizeLimit"] for v in pod["volumes"] if v["name"] == "data")
    # The tool index has a vector of each of two models.
    record_bytes = VectorFile(None, 2 * DIMENSIONS)._record.itemsize
    assert int(data.removesuffix("Mi")) * 2**20 > 2 * MOST_RECORDS * record_bytes


def test_prometheus_reads_the_same_alerts_everywhere():
    """The operator's rules are the groups of the plain file."""
    plain = yaml.safe_load((ROOT / "deploy/observability/alerts.yml").read_text())
    rules = next(d for d in render("prod") if d["kind"] == "PrometheusRule")
    assert rules["spec"] == plain


def test_policies_allow_the_dns_of_every_kind_of_cluster():
    """CoreDNS, its cache on the node at an address of its own, and OpenShift's on port 5353."""
    policies = {name_of(d): d["spec"] for d in render("prod") if d["kind"] == "NetworkPolicy"}
    for name in ("services", "nats", "qdrant"):
        (rule,) = (
            r for r in policies[name]["egress"] if {"port": 53, "protocol": "UDP"} in r["ports"]
        )
        assert {port["port"] for port in rule["ports"]} == {53, 5353}
        spaces = [
            peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            for peer in rule["to"]
            if "namespaceSelector" in peer
        ]
        assert spaces == ["kube-system", "openshift-dns"]
        assert {"ipBlock": {"cidr": "169.254.20.10/32"}} in rule["to"]


def test_secrets_of_the_command_are_those_that_pods_mount(tmp_path):
    """`searchbus nats-config --kubernetes` makes every Secret that is not the operator's own."""
    nats_config(tmp_path, kubernetes=True, tls=True)
    made = {
        d["metadata"]["name"] for d in yaml.safe_load_all((tmp_path / "secrets.yaml").read_text())
    }
    servers = {"nats-users", "nats-tls", "qdrant-tls"}
    assert made == {f"searchbus-{user}" for user in bus_users()} | servers
    assert MADE_ELSEWHERE - made == {"web-providers", "qdrant-client", "edge-tls", "attach-servers"}
    for document in yaml.safe_load_all((tmp_path / "secrets.yaml").read_text()):
        assert list(schema_faults([document], VERSIONS[1])) == []


def test_servers_of_both_overlays_accept_the_users(own_nats_server, tmp_path):
    """The dev overlay's configuration starts with the users that the command writes; so do the
    chart's include and limits, as the chart writes them."""
    nats_config(tmp_path / "keys", kubernetes=True)
    secrets = yaml.safe_load_all((tmp_path / "keys" / "secrets.yaml").read_text())
    users = next(d for d in secrets if d["metadata"]["name"] == "nats-users")
    for folder in ("nats-users", "nats-config"):
        (tmp_path / folder).mkdir()
    (tmp_path / "nats-users" / "auth.conf").write_bytes(
        base64.b64decode(users["data"]["auth.conf"])
    )
    text = (ROOT / "deploy/k8s/overlays/dev/nats.conf").read_text()
    text = text.replace("http: 8222\n", "").replace("/data/js", str(tmp_path / "js"))
    (tmp_path / "nats-config" / "nats.conf").write_text(text)
    assert own_nats_server("-c", str(tmp_path / "nats-config" / "nats.conf")).port > 0
    values = yaml.safe_load((ROOT / "deploy/k8s/charts/nats.yaml").read_text())
    included = values["config"]["merge"]["accounts"]["00$include"]
    assert (tmp_path / "nats-config" / included).resolve().exists()


def test_chart_of_nats_starts_and_every_container_is_restricted(own_nats_server, tmp_path):
    """The configuration as the chart writes it, on a root that is read-only but for what is mounted."""
    values = yaml.safe_load((ROOT / "deploy/k8s/charts/nats.yaml").read_text())
    mounts = {patch["value"]["mountPath"] for patch in values["container"]["patch"]}
    volumes = {patch["value"]["name"] for patch in values["podTemplate"]["patch"]}
    assert (mounts, volumes) == ({"/etc/nats-users"}, {"users"})
    files = values["config"]["jetstream"]["fileStore"]
    assert files["pvc"]["enabled"]
    pod = values["podTemplate"]["merge"]["spec"]["securityContext"]
    assert pod["runAsNonRoot"]
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in ("container", "reloader", "promExporter"):
        security = values[container]["merge"]["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
    nats_config(tmp_path / "keys", kubernetes=True)
    secrets = yaml.safe_load_all((tmp_path / "keys" / "secrets.yaml").read_text())
    users = next(d for d in secrets if d["metadata"]["name"] == "nats-users")
    for folder in ("nats-users", "nats-config", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "nats-users" / "auth.conf").write_bytes(
        base64.b64decode(users["data"]["auth.conf"])
    )
    included = values["config"]["merge"]["accounts"]["00$include"]
    (tmp_path / "nats-config" / "nats.conf").write_text(
        'max_payload: 1MB\nping_interval: "3s"\nping_max: 1\n'
        f"jetstream {{ max_memory_store: 512Mi, max_file_store: {files['maxSize']}, "
        f'store_dir: "{tmp_path}{files["dir"]}" }}\n'
        f"accounts {{ include {included} }}\n"
    )
    assert own_nats_server("-c", str(tmp_path / "nats-config" / "nats.conf")).port > 0
    assert list((tmp_path / "data").iterdir())


@pytest.fixture(scope="session")
def checkov() -> Path:
    """The linter, installed once beside the rest from its own lock."""
    lock = (ROOT / "requirements" / "policy.txt").read_text()
    stamp = POLICY / "stamp"
    if not stamp.exists() or stamp.read_text() != lock:
        venv = [sys.executable, "-m", "venv", "--without-pip", POLICY]
        subprocess.run(venv, check=True, timeout=120)
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", POLICY / "bin" / "python", "install",
             "--quiet", "--require-hashes", "--disable-pip-version-check", "--no-compile",
             "-r", ROOT / "requirements" / "policy.txt"],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"the linter cannot be installed: {done.stderr[-300:]}")
        stamp.write_text(lock)
    return POLICY / "bin" / "checkov"


def lint(checkov: Path, arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [checkov, *arguments, "--skip-download", "--compact", "--quiet", "-o", "json"],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_policy_linter_has_nothing_to_say(overlay, checkov, tmp_path):
    """0 failures; what is not followed is named above with the reason."""
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(render(overlay)))
    arguments = [
        "-d",
        str(tmp_path),
        "--framework",
        "kubernetes",
        "--skip-check",
        NOT_FOLLOWED[overlay],
    ]
    report = lint(checkov, arguments)
    assert report["summary"]["failed"] == 0, report["results"]
    assert report["summary"]["passed"] > 400
    # And it does look: a privileged container is found.
    documents = copy.deepcopy(render(overlay))
    holder, key = at("Deployment", "web", *POD, "containers", 0, "securityContext", "privileged")(
        documents
    )
    holder[key] = True
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(documents))
    assert lint(checkov, arguments)["summary"]["failed"] > 0


@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.parametrize("file", ["services/Dockerfile", "deploy/compose/attached.Dockerfile"])
def test_policy_linter_reads_the_dockerfile(checkov, file):
    """BASE is an argument with a tag, which the linter cannot see."""
    arguments = [
        "-f",
        file,
        "--framework",
        "dockerfile",
        "--skip-check",
        "CKV_DOCKER_7",
    ]
    report = lint(checkov, [*arguments])
    assert report["summary"]["failed"] == 0, report["results"]
