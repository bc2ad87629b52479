"""Parts of Kubernetes documents that the checks look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

Document = dict[str, Any]
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C is ten times as fast; not every build of PyYAML has it."""


def parsed(text: str) -> list[Document]:
    """The documents of a rendered text; each call makes new ones."""
    return [document for document in yaml.load_all(text, _LOADER) if document]


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
