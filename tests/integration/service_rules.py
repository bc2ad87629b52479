"""What the manifests say about each service: how it is reached, scaled, and what it declares."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import yaml

from searchbus_runtime.services import installed_services

from .documents import fits, labels_of, name_of, pod_of
from .engine import ROOT, SERVICES
from .manifests import Manifests


def namespace_faults(manifests: Manifests) -> Iterator[str]:
    spaces = {name_of(d): d for d in manifests.of("Namespace")}
    for space in spaces.values():
        labels = space["metadata"].get("labels", {})
        if labels.get("pod-security.kubernetes.io/enforce") != "restricted":
            yield f"Namespace {name_of(space)} does not enforce restricted Pod Security"
    for document in manifests.documents:
        space = document["metadata"].get("namespace")
        if document["kind"] != "Namespace" and space not in spaces:
            yield f"{document['kind']} {name_of(document)} lies in namespace {space}"


def service_faults(manifests: Manifests) -> Iterator[str]:
    for service in manifests.of("Service"):
        behind = [w for w in manifests.workloads if fits(service["spec"]["selector"], labels_of(w))]
        if len(behind) != 1:
            yield f"Service {name_of(service)} has {len(behind)} workloads behind it"
            continue
        ports = {p["name"] for c in pod_of(behind[0])["containers"] for p in c.get("ports", [])}
        for port in service["spec"]["ports"]:
            if port["targetPort"] not in ports:
                yield f"Service {name_of(service)} leads to port {port['targetPort']}"
    for claim in manifests.of("PersistentVolumeClaim"):
        used = [
            v.get("persistentVolumeClaim", {}).get("claimName")
            for w in manifests.workloads
            for v in pod_of(w).get("volumes", [])
        ]
        if name_of(claim) not in used:
            yield f"PersistentVolumeClaim {name_of(claim)} is used by no workload"


def declaration_faults(manifests: Manifests) -> Iterator[str]:
    """What every declared service has: an account, a Service, a budget, labels, limits."""
    for name, service in installed_services().items():
        for kind in ("Deployment", "ServiceAccount", "Service", "PodDisruptionBudget"):
            if (kind, name) not in manifests.names:
                yield f"{kind} {name} is missing"
        if ("Deployment", name) not in manifests.names:
            continue
        workload = next(w for w in manifests.workloads if name_of(w) == name)
        labels = labels_of(workload)
        if labels.get("app.kubernetes.io/part-of") != "searchbus":
            yield f"Deployment {name} has no label part-of: no policy applies to it"
        allowed = {"true", "servers"} if service.attaches_toolsets else {"true"}
        if (labels.get("searchbus.io/internet") in allowed) != service.container.internet:
            yield f"Deployment {name}: its label for the internet is not what it declares"
        resources = pod_of(workload)["containers"][0]["resources"]
        needs = service.container
        if resources != {
            "requests": {"cpu": needs.cpu, "memory": needs.memory},
            "limits": {"cpu": needs.cpu_limit, "memory": needs.memory_limit},
        }:
            yield f"Deployment {name}: its resources are not what it declares"
        if pod_of(workload).get("serviceAccountName") != name:
            yield f"Deployment {name} runs under another account"


def scaling_faults(manifests: Manifests) -> Iterator[str]:
    scaled: set[str] = set()
    for kind, least, most in (
        ("HorizontalPodAutoscaler", "minReplicas", "maxReplicas"),
        ("ScaledObject", "minReplicaCount", "maxReplicaCount"),
    ):
        for scaler in manifests.of(kind):
            spec = scaler["spec"]
            target = spec["scaleTargetRef"]["name"]
            if ("Deployment", target) not in manifests.names:
                yield f"{kind} {name_of(scaler)} scales {target}"
            if target in scaled:
                yield f"{kind} {name_of(scaler)}: {target} is scaled twice"
            scaled.add(target)
            if spec[least] > spec[most]:
                yield f"{kind} {name_of(scaler)}: its minimum is above its maximum"
    for budget in manifests.of("PodDisruptionBudget"):
        wanted = budget["spec"]["selector"]["matchLabels"]
        if not any(fits(wanted, labels_of(w)) for w in manifests.workloads):
            yield f"PodDisruptionBudget {name_of(budget)} selects no pod"


@functools.cache
def _built() -> set[str]:
    """The images that Compose builds or pulls, without their tags."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return {s["image"].split(":")[0] for s in compose.values()}


def image_faults(manifests: Manifests) -> Iterator[str]:
    for workload in manifests.workloads:
        image = pod_of(workload)["containers"][0]["image"]
        name, _, tag = image.rpartition(":")
        if tag in ("", "latest"):
            yield f"{workload['kind']} {name_of(workload)} runs {image}"
        if name_of(workload) in SERVICES and (
            not name.endswith(f"searchbus/{name_of(workload)}")
            or f"searchbus/{name_of(workload)}" not in _built()
        ):
            yield f"{workload['kind']} {name_of(workload)} runs {image}"


def ingress_faults(manifests: Manifests) -> Iterator[str]:
    ports = {(name_of(s), p["name"]) for s in manifests.of("Service") for p in s["spec"]["ports"]}
    for ingress in manifests.of("Ingress"):
        hosts = {host for tls in ingress["spec"].get("tls", []) for host in tls["hosts"]}
        for rule in ingress["spec"]["rules"]:
            if rule["host"] not in hosts:
                yield f"Ingress {name_of(ingress)}: {rule['host']} has no certificate"
            for path in rule["http"]["paths"]:
                service = path["backend"]["service"]
                if (service["name"], service["port"]["name"]) not in ports:
                    yield f"Ingress {name_of(ingress)} leads to {service}"
