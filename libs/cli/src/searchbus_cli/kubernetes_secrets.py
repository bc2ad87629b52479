"""Kubernetes Secrets from the folders of secrets that `searchbus nats-config` writes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def secret_manifests(folder: Path, names: Iterable[str], accounts: Mapping[str, object]) -> str:
    """A Secret for each service, and one with the accounts for the NATS chart; YAML.

    Args:
        folder: with one folder of secrets for each name.
        names: of the services.
        accounts: of the NATS server.
    """
    contents = {
        f"searchbus-{name}": {path.name: path.read_text() for path in (folder / name).iterdir()}
        for name in names
    }
    # The file that the chart's configuration includes; see deploy/k8s/charts/nats.yaml.
    contents["nats-users"] = {"auth.conf": json.dumps(accounts, indent=1)}
    # JSON is YAML.
    return "".join(
        "---\n" + json.dumps(_secret(name, data), indent=1) + "\n"
        for name, data in contents.items()
    )


def _secret(name: str, data: Mapping[str, str]) -> dict[str, object]:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "searchbus"}},
        "type": "Opaque",
        "data": encoded,
    }
