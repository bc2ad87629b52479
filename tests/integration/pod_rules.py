"""What the manifests say about pods: accounts, probes, volumes, Secrets, time to stop."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from .documents import Document, fits, labels_of, name_of, pod_of
from .engine import SERVICES
from .manifests import Manifests

MADE_ELSEWHERE = {
    *(f"searchbus-{service}" for service in SERVICES), "nats-users",
    "web-providers", "qdrant-client", "edge-tls", "attach-servers",
    "nats-tls", "qdrant-tls",
}  # fmt: skip
"""Secrets: of `searchbus nats-config --kubernetes`, and those that docs/deploy.md says to create."""
AFTER_DRAIN_S = 7
"""Cancelled tasks and leaving the bus; see libs/runtime, libs/bus."""
EDGE_STREAMS_S = 12


def account_faults(manifests: Manifests) -> Iterator[str]:
    for account in manifests.of("ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            yield f"ServiceAccount {name_of(account)} mounts its token in pods"
        if all(
            pod_of(w).get("serviceAccountName") != name_of(account) for w in manifests.workloads
        ):
            yield f"ServiceAccount {name_of(account)} is used by no workload"


def pod_faults(manifests: Manifests) -> Iterator[str]:
    for workload in manifests.workloads:
        title = f"{workload['kind']} {name_of(workload)}"
        pod = pod_of(workload)
        wanted = workload["spec"]["selector"]["matchLabels"]
        if not fits(wanted, labels_of(workload)):
            yield f"{title} does not select its own pods"
        account = pod.get("serviceAccountName")
        if account is not None and ("ServiceAccount", account) not in manifests.names:
            yield f"{title} names the account {account}"
        volumes = {v["name"]: v for v in pod.get("volumes", [])}
        claims = {c["metadata"]["name"] for c in workload["spec"].get("volumeClaimTemplates", [])}
        for container in pod["containers"]:
            yield from _container_faults(manifests, title, container, {*volumes, *claims})
        for volume in volumes.values():
            yield from _volume_faults(manifests, title, volume)
        yield from _grace_faults(manifests, title, workload)


def _container_faults(
    manifests: Manifests, title: str, container: Document, volumes: Collection[str]
) -> Iterator[str]:
    ports = {p["name"] for p in container.get("ports", [])}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container.get(kind)
        if probe is None:
            yield f"{title} has no {kind}"
        elif probe["httpGet"]["port"] not in ports:
            yield f"{title}: {kind} connects to port {probe['httpGet']['port']}"
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in volumes:
            yield f"{title} mounts {mount['name']}, which is not among its volumes"
    for source in container.get("envFrom", []):
        reference = source["configMapRef"]
        # Only a service's own settings may be absent.
        absent_is_fine = reference.get("optional") and title.endswith(f" {reference['name']}")
        if ("ConfigMap", reference["name"]) not in manifests.names and not absent_is_fine:
            yield f"{title} reads the ConfigMap {reference['name']}"
    if container["securityContext"].get("readOnlyRootFilesystem") is not True:
        yield f"{title}: its root is writable"


def _volume_faults(manifests: Manifests, title: str, volume: Document) -> Iterator[str]:
    secrets = [volume["secret"]["secretName"]] if "secret" in volume else []
    for source in volume.get("projected", {}).get("sources", []):
        secrets.append(source["secret"]["name"])
    for secret in secrets:
        if secret not in MADE_ELSEWHERE:
            yield f"{title} mounts the Secret {secret}, which neither the command nor the handbook creates"
    config = volume.get("configMap", {}).get("name")
    if config is not None and ("ConfigMap", config) not in manifests.names:
        yield f"{title} mounts the ConfigMap {config}"
    claim = volume.get("persistentVolumeClaim", {}).get("claimName")
    if claim is not None and ("PersistentVolumeClaim", claim) not in manifests.names:
        yield f"{title} mounts the claim {claim}"


def _grace_faults(manifests: Manifests, title: str, workload: Document) -> Iterator[str]:
    if name_of(workload) not in SERVICES:
        return
    pod = pod_of(workload)
    pause_s = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain_s = float(manifests.environment(name_of(workload))["SEARCHBUS_DRAIN_TIMEOUT_S"])
    needed_s = pause_s + drain_s + AFTER_DRAIN_S
    needed_s += EDGE_STREAMS_S if name_of(workload) == "edge" else 0
    if pod["terminationGracePeriodSeconds"] < needed_s:
        yield f"{title} needs a grace period of {needed_s:.0f} s"


def unused_faults(manifests: Manifests) -> Iterator[str]:
    """ConfigMaps that no pod reads: their settings would be lost without a word."""
    read = {
        name
        for workload in manifests.workloads
        for name in (
            *(
                source["configMapRef"]["name"]
                for container in pod_of(workload)["containers"]
                for source in container.get("envFrom", [])
            ),
            *(v["configMap"]["name"] for v in pod_of(workload)["volumes"] if "configMap" in v),
        )
    }
    for config in manifests.of("ConfigMap"):
        if name_of(config) not in read:
            yield f"ConfigMap {name_of(config)} is read by no pod"
