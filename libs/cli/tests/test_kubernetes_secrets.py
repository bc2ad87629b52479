"""Kubernetes Secrets from folders of secrets."""

from __future__ import annotations

import base64
import json

import yaml

from searchbus_cli.kubernetes_secrets import secret_manifests


def test_each_folder_becomes_a_secret(tmp_path):
    """Named after the service, with a key for each file; the accounts beside them."""
    for name in ("web", "ddg", "not-asked-for"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SEED").write_text(f"seed of {name}")
    accounts = {"BUS": {"users": [{"nkey": "UA"}]}}
    found = list(yaml.safe_load_all(secret_manifests(tmp_path, ["web", "ddg"], accounts)))
    names = [manifest["metadata"]["name"] for manifest in found]
    assert names == ["searchbus-web", "searchbus-ddg", "nats-users"]
    assert {"Secret"} == {manifest["kind"] for manifest in found}
    assert base64.b64decode(found[0]["data"]["SEED"]) == b"seed of web"
    assert accounts == json.loads(base64.b64decode(found[2]["data"]["auth.conf"]))
