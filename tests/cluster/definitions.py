"""Custom resource definitions of what the manifests use of others: KEDA, Gateway API, operators.

Each is made of a schema in tests/integration/schemas; a field outside of it is refused.
"""

from __future__ import annotations

import json
from typing import Any

from ..integration.documents import Document
from ..integration.engine import ROOT

_SCHEMAS = ROOT / "tests" / "integration" / "schemas"


def definitions() -> list[Document]:
    """One definition for each schema."""
    return [_definition(json.loads(path.read_text())) for path in sorted(_SCHEMAS.glob("*.json"))]


def _definition(schema: dict[str, Any]) -> Document:
    kind = schema["properties"]["kind"]["const"]
    group, version = schema["properties"]["apiVersion"]["const"].split("/")
    plural = f"{kind.lower()}s"
    spec = _structural(schema["properties"]["spec"])
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # Names that end in k8s.io and gateway.networking.k8s.io need it.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }


def _structural(schema: Any) -> Any:
    """The part of JSON Schema that Kubernetes knows: unknown fields are refused there anyway."""
    if isinstance(schema, list):
        return [_structural(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _structural(value)
        for key, value in schema.items()
        if key not in ("$comment", "const")
        and not (key == "additionalProperties" and value is False)
    }
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if ("enum" in found or "pattern" in found) and "type" not in found:
        found["type"] = "string"
    return found
