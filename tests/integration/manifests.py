"""The manifests of an overlay as kustomize renders them, and their validation by schemas."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import kubernetes_validate

from .documents import Document, name_of, parsed, pod_of
from .engine import ROOT

K8S = ROOT / "deploy" / "k8s"
VERSIONS = ("1.35.0", "1.37.0")
# It would read all definitions, 1.5 MB, again for each document.
kubernetes_validate.utils.schema_contents = functools.cache(
    kubernetes_validate.utils.schema_contents
)


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
    return parsed(_rendered(K8S / "overlays" / overlay))


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
    """A rendered overlay; `rules` says what is wrong with it."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents
        self.workloads = [d for d in documents if d["kind"] in ("Deployment", "StatefulSet")]
        self.names = {(d["kind"], name_of(d)) for d in documents}

    def of(self, kind: str) -> list[Document]:
        return [d for d in self.documents if d["kind"] == kind]

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
