"""A container as the manifests describe it, run as a process: its volumes are folders of one folder.

Only what a machine has otherwise than a cluster is replaced: the root of mounted paths, names of
servers and ports. All else, the environment, the arguments and each file, is as it was rendered.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path

from .documents import Document, name_of, pod_of

Secrets = Mapping[str, Mapping[str, bytes]]


def secrets_of(documents: list[Document]) -> dict[str, dict[str, bytes]]:
    """Name → entry → content, of the Secrets among these documents."""
    return {
        name_of(d): {key: base64.b64decode(text) for key, text in d["data"].items()}
        for d in documents
        if d["kind"] == "Secret"
    }


class LaidOut:
    """The files, the environment and the arguments of one container.

    Args:
        folder: stands for the root of the container.
        secrets: the Secrets of the namespace; one that is not optional has to be there.
        replaced: text → text, in the environment, the arguments and ConfigMaps that are mounted.
    """

    def __init__(
        self, documents: list[Document], workload: str, folder: Path, secrets: Secrets,
        replaced: Mapping[str, str], container: str | None = None,
    ) -> None:  # fmt: skip
        self._maps = {name_of(d): d.get("data", {}) for d in documents if d["kind"] == "ConfigMap"}
        self._secrets = secrets
        self._folder = folder
        (found,) = (
            d
            for d in documents
            if d["kind"] in ("Deployment", "StatefulSet") and name_of(d) == workload
        )
        pod = pod_of(found)
        every = [*pod["containers"], *pod.get("initContainers", [])]
        self.container = next(c for c in every if container in (None, c["name"]))
        self._mounts = {m["name"]: m["mountPath"] for m in self.container["volumeMounts"]}
        self._replaced = {path: f"{folder}{path}" for path in self._mounts.values()} | dict(
            replaced
        )
        for volume in pod["volumes"]:
            if volume["name"] in self._mounts:
                self.lay(volume)
        for name, path in self._mounts.items():
            assert name in {v["name"] for v in pod["volumes"]} | {
                c["metadata"]["name"] for c in found["spec"].get("volumeClaimTemplates", [])
            }
            (folder / path[1:]).mkdir(parents=True, exist_ok=True)

    @property
    def arguments(self) -> list[str]:
        """Command and arguments; without a command, those of the image are before them."""
        every = [*self.container.get("command", []), *self.container.get("args", [])]
        return [self._local(each) for each in every]

    @property
    def environment(self) -> dict[str, str]:
        """All variables that the pod sets."""
        found: dict[str, str] = {}
        for source in self.container.get("envFrom", []):
            found |= self._maps.get(source["configMapRef"]["name"], {})
        for each in self.container.get("env", []):
            if "value" in each:
                found[each["name"]] = each["value"]
            elif key := each["valueFrom"].get("secretKeyRef"):
                content = self._secrets.get(key["name"], {}).get(key["key"])
                assert content is not None or key.get("optional"), key
                found |= {each["name"]: content.decode()} if content is not None else {}
        return {name: self._local(text) for name, text in found.items()}

    def path(self, inside: str) -> Path:
        """Where a path of the container is on this machine."""
        return self._folder / inside[1:]

    def lay(self, volume: Document) -> None:
        """Write the files of a volume, as the kubelet does."""
        folder = self.path(self._mounts[volume["name"]])
        folder.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            for name, text in self._maps[volume["configMap"]["name"]].items():
                (folder / name).write_text(self._local(text))
        sources = volume.get("projected", {}).get("sources", [])
        if "secret" in volume:
            sources = [{"secret": {**volume["secret"], "name": volume["secret"]["secretName"]}}]
        for source in sources:
            secret = source["secret"]
            entries = self._secrets.get(secret["name"])
            assert entries is not None or secret.get("optional"), f"{secret['name']} is missing"
            items = secret.get("items") or [{"key": k, "path": k} for k in entries or ()]
            for item in items:
                (folder / item["path"]).write_bytes((entries or {})[item["key"]])

    def _local(self, text: str) -> str:
        longest_first = sorted(self._replaced, key=len, reverse=True)
        any_of = "|".join(map(re.escape, longest_first))
        return re.sub(any_of, lambda found: self._replaced[found[0]], text)
