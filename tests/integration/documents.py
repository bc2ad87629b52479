"""Parts of Kubernetes documents that the checks look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Document", "fits", "labels_of", "name_of", "pod_of", "ports_of"]

Document = dict[str, Any]


def name_of(document: Document) -> str:
    return str(document.get("metadata", {}).get("name", "?"))


def pod_of(workload: Document) -> Document:
    return workload["spec"]["template"]["spec"]


def labels_of(workload: Document) -> dict[str, str]:
    return workload["spec"]["template"]["metadata"].get("labels", {})


def ports_of(workload: Document) -> set[int]:
    return {p["containerPort"] for c in pod_of(workload)["containers"] for p in c.get("ports", [])}


def fits(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
