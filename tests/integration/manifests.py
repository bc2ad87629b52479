"""What the rendered manifests must agree on among themselves, and with code and Compose.

`Manifests(documents).faults()` lists what is wrong, one sentence each.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import kubernetes_validate
import yaml
from pydantic import ValidationError

from searchbus_runtime import ServiceSettings
from searchbus_runtime.services import installed_services

from .documents import Document, fits, labels_of, name_of, pod_of
from .engine import ROOT, SERVICES
from .metrics_known import known_metrics, metrics_in
from .network_rules import network_faults

K8S = ROOT / "deploy" / "k8s"
VERSIONS = ("1.35.0", "1.37.0")
MADE_ELSEWHERE = {
    *(f"searchbus-{service}" for service in SERVICES), "nats-users",
    "web-providers", "qdrant-client", "edge-tls",
}  # fmt: skip
"""Secrets: of `searchbus nats-config --kubernetes`, and those that docs/deploy.md says to create."""
AFTER_DRAIN_S = 7
"""Cancelled tasks and leaving the bus; see libs/runtime, libs/bus."""
EDGE_STREAMS_S = 11


def renderer() -> list[str] | None:
    """The command that renders a kustomization."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    return ["kubectl", "kustomize"] if shutil.which("kubectl") else None


@functools.cache
def _rendered(folder: Path) -> str:
    command = renderer()
    assert command is not None
    return subprocess.run(
        [*command, str(folder)], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def render(overlay: str) -> list[Document]:
    """The documents of an overlay."""
    return [d for d in yaml.safe_load_all(_rendered(K8S / "overlays" / overlay)) if d]


def schema_faults(documents: list[Document], version: str) -> Iterator[str]:
    """Strict validation against the schemas of a Kubernetes version, and ours of the CRDs."""
    own = {
        path.stem: json.loads(path.read_text())
        for path in (Path(__file__).parent / "schemas").glob("*.json")
    }
    for document in documents:
        kind = document.get("kind", "?")
        try:
            if kind in own:
                jsonschema.validate(document, own[kind])
            else:
                kubernetes_validate.validate(document, version, strict=True)
        except (
            jsonschema.ValidationError,
            kubernetes_validate.ValidationError,
            kubernetes_validate.SchemaNotFoundError,
        ) as error:
            yield f"{kind} {name_of(document)}: {str(error)[:300]}"


class Manifests:
    """A rendered overlay, looked at from all sides."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents
        self.workloads = [d for d in documents if d["kind"] in ("Deployment", "StatefulSet")]
        self.names = {(d["kind"], name_of(d)) for d in documents}

    def of(self, kind: str) -> list[Document]:
        return [d for d in self.documents if d["kind"] == kind]

    def faults(self) -> list[str]:
        """Everything that is wrong."""
        return [
            *self.namespace_faults(), *self.pod_faults(), *self.service_faults(),
            *self.scaling_faults(), *network_faults(self.of("NetworkPolicy"), self.workloads),
            *self.settings_faults(),
            *self.image_faults(), *self.monitoring_faults(), *self.ingress_faults(),
            *self.account_faults(), *self.unused_faults(), *self.declaration_faults(),
        ]  # fmt: skip

    def namespace_faults(self) -> Iterator[str]:
        spaces = {name_of(d): d for d in self.of("Namespace")}
        for space in spaces.values():
            labels = space["metadata"].get("labels", {})
            if labels.get("pod-security.kubernetes.io/enforce") != "restricted":
                yield f"Namespace {name_of(space)} does not enforce restricted Pod Security"
        for document in self.documents:
            space = document["metadata"].get("namespace")
            if document["kind"] != "Namespace" and space not in spaces:
                yield f"{document['kind']} {name_of(document)} lies in namespace {space}"

    def account_faults(self) -> Iterator[str]:
        for account in self.of("ServiceAccount"):
            if account.get("automountServiceAccountToken") is not False:
                yield f"ServiceAccount {name_of(account)} mounts its token in pods"
            if all(pod_of(w).get("serviceAccountName") != name_of(account) for w in self.workloads):
                yield f"ServiceAccount {name_of(account)} is used by no workload"

    def pod_faults(self) -> Iterator[str]:
        for workload in self.workloads:
            title = f"{workload['kind']} {name_of(workload)}"
            pod = pod_of(workload)
            wanted = workload["spec"]["selector"]["matchLabels"]
            if not fits(wanted, labels_of(workload)):
                yield f"{title} does not select its own pods"
            account = pod.get("serviceAccountName")
            if account is not None and ("ServiceAccount", account) not in self.names:
                yield f"{title} names the account {account}"
            volumes = {v["name"]: v for v in pod.get("volumes", [])}
            for container in pod["containers"]:
                yield from self._container_faults(title, container, volumes)
            for volume in volumes.values():
                yield from self._volume_faults(title, volume)
            yield from self._grace_faults(title, workload)

    def _container_faults(
        self, title: str, container: Document, volumes: Mapping[str, Any]
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
            if ("ConfigMap", reference["name"]) not in self.names and not absent_is_fine:
                yield f"{title} reads the ConfigMap {reference['name']}"
        if container["securityContext"].get("readOnlyRootFilesystem") is not True:
            yield f"{title}: its root is writable"

    def _volume_faults(self, title: str, volume: Document) -> Iterator[str]:
        secrets = [volume["secret"]["secretName"]] if "secret" in volume else []
        for source in volume.get("projected", {}).get("sources", []):
            secrets.append(source["secret"]["name"])
        for secret in secrets:
            if secret not in MADE_ELSEWHERE:
                yield f"{title} mounts the Secret {secret}, which neither the command nor the handbook creates"
        config = volume.get("configMap", {}).get("name")
        if config is not None and ("ConfigMap", config) not in self.names:
            yield f"{title} mounts the ConfigMap {config}"
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim is not None and ("PersistentVolumeClaim", claim) not in self.names:
            yield f"{title} mounts the claim {claim}"

    def _grace_faults(self, title: str, workload: Document) -> Iterator[str]:
        if name_of(workload) not in SERVICES:
            return
        pod = pod_of(workload)
        pause_s = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        drain_s = float(self.environment(name_of(workload))["SEARCHBUS_DRAIN_TIMEOUT_S"])
        needed_s = pause_s + drain_s + AFTER_DRAIN_S
        needed_s += EDGE_STREAMS_S if name_of(workload) == "edge" else 0
        if pod["terminationGracePeriodSeconds"] < needed_s:
            yield f"{title} needs a grace period of {needed_s:.0f} s"

    def service_faults(self) -> Iterator[str]:
        for service in self.of("Service"):
            behind = [w for w in self.workloads if fits(service["spec"]["selector"], labels_of(w))]
            if len(behind) != 1:
                yield f"Service {name_of(service)} has {len(behind)} workloads behind it"
                continue
            ports = {p["name"] for c in pod_of(behind[0])["containers"] for p in c.get("ports", [])}
            for port in service["spec"]["ports"]:
                if port["targetPort"] not in ports:
                    yield f"Service {name_of(service)} leads to port {port['targetPort']}"
        for claim in self.of("PersistentVolumeClaim"):
            used = [
                v.get("persistentVolumeClaim", {}).get("claimName")
                for w in self.workloads
                for v in pod_of(w).get("volumes", [])
            ]
            if name_of(claim) not in used:
                yield f"PersistentVolumeClaim {name_of(claim)} is used by no workload"

    def unused_faults(self) -> Iterator[str]:
        """ConfigMaps that no pod reads: their settings would be lost without a word."""
        read = {
            name
            for workload in self.workloads
            for name in (
                *(
                    source["configMapRef"]["name"]
                    for container in pod_of(workload)["containers"]
                    for source in container.get("envFrom", [])
                ),
                *(v["configMap"]["name"] for v in pod_of(workload)["volumes"] if "configMap" in v),
            )
        }
        for config in self.of("ConfigMap"):
            if name_of(config) not in read:
                yield f"ConfigMap {name_of(config)} is read by no pod"

    def declaration_faults(self) -> Iterator[str]:
        """What every declared service has: an account, a Service, a budget, labels, limits."""
        for name, service in installed_services().items():
            for kind in ("Deployment", "ServiceAccount", "Service", "PodDisruptionBudget"):
                if (kind, name) not in self.names:
                    yield f"{kind} {name} is missing"
            if ("Deployment", name) not in self.names:
                continue
            workload = next(w for w in self.workloads if name_of(w) == name)
            labels = labels_of(workload)
            if labels.get("app.kubernetes.io/part-of") != "searchbus":
                yield f"Deployment {name} has no label part-of: no policy applies to it"
            if (labels.get("searchbus.io/internet") == "true") != service.container.internet:
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

    def scaling_faults(self) -> Iterator[str]:
        scaled: set[str] = set()
        for kind, least, most in (
            ("HorizontalPodAutoscaler", "minReplicas", "maxReplicas"),
            ("ScaledObject", "minReplicaCount", "maxReplicaCount"),
        ):
            for scaler in self.of(kind):
                spec = scaler["spec"]
                target = spec["scaleTargetRef"]["name"]
                if ("Deployment", target) not in self.names:
                    yield f"{kind} {name_of(scaler)} scales {target}"
                if target in scaled:
                    yield f"{kind} {name_of(scaler)}: {target} is scaled twice"
                scaled.add(target)
                if spec[least] > spec[most]:
                    yield f"{kind} {name_of(scaler)}: its minimum is above its maximum"
        for budget in self.of("PodDisruptionBudget"):
            wanted = budget["spec"]["selector"]["matchLabels"]
            if not any(fits(wanted, labels_of(w)) for w in self.workloads):
                yield f"PodDisruptionBudget {name_of(budget)} selects no pod"

    def environment(self, service: str) -> dict[str, str]:
        """What a service's container gets from its ConfigMaps and its own list."""
        maps = {name_of(d): d["data"] for d in self.of("ConfigMap")}
        container = next(
            pod_of(w)["containers"][0] for w in self.workloads if name_of(w) == service
        )
        found: dict[str, str] = {}
        for source in container.get("envFrom", []):
            found |= maps.get(source["configMapRef"]["name"], {})
        return found | {e["name"]: e.get("value", "x") for e in container.get("env", [])}

    def settings_faults(self) -> Iterator[str]:
        for service in SERVICES:
            if ("Deployment", service) not in self.names:
                continue
            environment = self.environment(service)
            cls = settings_of(service)
            for name in environment:
                field = name.removeprefix("SEARCHBUS_").lower()
                if name != "SEARCHBUS_SECRETS_DIR" and field not in cls.model_fields:
                    yield f"ConfigMap of {service}: there is no setting {name}"
            with mock.patch.dict(os.environ, environment, clear=True):
                try:
                    cls(_env_file=None)
                except ValidationError as error:
                    yield f"ConfigMap of {service}: {error.errors()[0]['msg']}"

    def image_faults(self) -> Iterator[str]:
        compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
        built = {s["image"].split(":")[0] for s in compose.values()}
        for workload in self.workloads:
            image = pod_of(workload)["containers"][0]["image"]
            name, _, tag = image.rpartition(":")
            if tag in ("", "latest"):
                yield f"{workload['kind']} {name_of(workload)} runs {image}"
            if name_of(workload) in SERVICES and (
                not name.endswith(f"searchbus/{name_of(workload)}")
                or f"searchbus/{name_of(workload)}" not in built
            ):
                yield f"{workload['kind']} {name_of(workload)} runs {image}"

    def monitoring_faults(self) -> Iterator[str]:
        for monitor in self.of("ServiceMonitor"):
            wanted = monitor["spec"]["selector"]["matchLabels"]
            watched = [
                s for s in self.of("Service") if fits(wanted, s["metadata"].get("labels", {}))
            ]
            if {name_of(s) for s in watched} < set(SERVICES):
                yield f"ServiceMonitor {name_of(monitor)} does not watch every service"
            if "app.kubernetes.io/part-of" not in monitor["spec"].get("targetLabels", []):
                yield f"ServiceMonitor {name_of(monitor)} drops the label that alerts select by"
            for endpoint in monitor["spec"]["endpoints"]:
                for service in watched:
                    if endpoint["port"] not in {p["name"] for p in service["spec"]["ports"]}:
                        yield f"ServiceMonitor {name_of(monitor)}: {name_of(service)} has no port {endpoint['port']}"
        expressions = [
            (f"PrometheusRule {rule['alert']}", rule["expr"])
            for rules in self.of("PrometheusRule")
            for group in rules["spec"]["groups"]
            for rule in group["rules"]
        ] + [
            (f"ScaledObject {name_of(scaler)}", trigger["metadata"]["query"])
            for scaler in self.of("ScaledObject")
            for trigger in scaler["spec"]["triggers"]
        ]
        for title, expression in expressions:
            for metric in metrics_in(expression) - known_metrics():
                yield f"{title} uses {metric}, which no code measures"

    def ingress_faults(self) -> Iterator[str]:
        ports = {(name_of(s), p["name"]) for s in self.of("Service") for p in s["spec"]["ports"]}
        for ingress in self.of("Ingress"):
            hosts = {host for tls in ingress["spec"].get("tls", []) for host in tls["hosts"]}
            for rule in ingress["spec"]["rules"]:
                if rule["host"] not in hosts:
                    yield f"Ingress {name_of(ingress)}: {rule['host']} has no certificate"
                for path in rule["http"]["paths"]:
                    service = path["backend"]["service"]
                    if (service["name"], service["port"]["name"]) not in ports:
                        yield f"Ingress {name_of(ingress)} leads to {service}"


def settings_of(service: str) -> type[ServiceSettings]:
    """The settings class of a service."""
    module, _, name = installed_services()[service].settings.partition(":")
    return getattr(importlib.import_module(module), name)
