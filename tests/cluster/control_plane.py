"""A Kubernetes API server with its controllers on this machine, without kubelets; see nodes.py."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from searchbus_testing import eventually, free_port

from ..integration.binaries import binary
from ..integration.documents import Document, name_of

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "helm")
_TOKEN = "operator"
_FIRST = ("Namespace", "CustomResourceDefinition")
_START_S = 120


class Refused(Exception):
    """The API server refuses an object or a request; `status` is that of HTTP."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        super().__init__(f"{self.status}: {response.json().get('message', response.text)}")


class ControlPlane:
    """etcd, API server and controller manager as processes.

    Args:
        folder: for data, keys and logs.
        options: further ones of the controller manager.
    """

    def __init__(self, folder: Path, options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._options = options
        self._processes: list[subprocess.Popen[bytes]] = []
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    def start(self) -> None:
        """Start all, and return when the API server is ready."""
        keys = self.folder / "keys"
        keys.mkdir()
        signing = keys / "sa.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", signing, "2048"], check=True, capture_output=True
        )
        (keys / "tokens.csv").write_text(f'{_TOKEN},admin,admin,"system:masters"\n')
        etcd, peers, secure = free_port(), free_port(), free_port()
        self._run(
            "etcd", f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-cluster=default=http://127.0.0.1:{peers}",
        )  # fmt: skip
        self._run(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--secure-port={secure}", "--bind-address=127.0.0.1", f"--cert-dir={keys}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={signing}",
            f"--service-account-signing-key-file={signing}",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--token-auth-file={keys / 'tokens.csv'}", "--authorization-mode=RBAC",
            "--enable-admission-plugins=NodeRestriction,PodSecurity",
            "--disable-admission-plugins=ServiceAccount",
        )  # fmt: skip
        self.client = httpx.Client(
            base_url=f"https://127.0.0.1:{secure}",
            headers={"Authorization": f"Bearer {_TOKEN}"},
            verify=False,
            timeout=30,
        )
        eventually(self._ready, timeout_s=_START_S)
        self.kubeconfig.write_text(json.dumps(self._kubeconfig(secure)))
        self._run(
            "kube-controller-manager", f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={signing}", "--leader-elect=false",
            # Nodes that are played send no heartbeats.
            "--secure-port=0", "--node-monitor-grace-period=24h", *self._options,
        )  # fmt: skip

    def stop(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def get(self, path: str, **parameters: str) -> Document:
        """GET of a path of the API.

        Raises:
            Refused: with the status of HTTP.
        """
        return self._checked(self.client.get(path, params=parameters))

    def post(self, path: str, body: Mapping[str, Any]) -> Document:
        """POST to a path of the API; raises as `get`."""
        return self._checked(self.client.post(path, json=body))

    def patch(self, path: str, body: Mapping[str, Any], kind: str = "merge-patch") -> Document:
        """PATCH of a path of the API; raises as `get`."""
        headers = {"Content-Type": f"application/{kind}+json"}
        return self._checked(self.client.patch(path, content=json.dumps(body), headers=headers))

    def apply(self, documents: list[Document], namespace: str) -> None:
        """Server-side apply with strict validation, as `kubectl apply --server-side --validate=strict`.

        Args:
            namespace: in place of the one that the documents name.

        Raises:
            Refused: for the first document that the server does not accept.
        """
        for document in sorted(documents, key=lambda d: d["kind"] not in _FIRST):
            placed = {**document, "metadata": {**document["metadata"]}}
            placed["metadata"].pop("namespace", None)
            if document["kind"] == "Namespace":
                placed["metadata"]["name"] = namespace
            response = self.client.patch(
                f"{self.path_of(placed, namespace)}/{name_of(placed)}",
                params={"fieldManager": "test", "fieldValidation": "Strict", "force": "true"},
                content=json.dumps(placed),
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
            self._checked(response)
            if document["kind"] == "CustomResourceDefinition":
                self._established(name_of(document))

    def path_of(self, document: Document, namespace: str) -> str:
        """The path of the collection that a document belongs to."""
        group, kind = document["apiVersion"], document["kind"]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        if (group, kind) not in self._plurals:
            for resource in self.get(root)["resources"]:
                if "/" not in resource["name"]:
                    found = resource["name"], resource["namespaced"]
                    self._plurals[group, resource["kind"]] = found
        plural, namespaced = self._plurals[group, kind]
        return f"{root}/namespaces/{namespace}/{plural}" if namespaced else f"{root}/{plural}"

    def helm(self, *arguments: str) -> str:
        """Run helm against this server; its output."""
        done = subprocess.run(
            [binary("helm"), "--kubeconfig", self.kubeconfig, *arguments],
            capture_output=True, text=True, timeout=200,
            env={**os.environ, "HELM_CACHE_HOME": str(self.folder / "helm")},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _ready(self) -> bool:
        for process in self._processes:
            assert process.poll() is None, self._logs()
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def _established(self, name: str) -> None:
        """Wait until the objects of a definition can be sent."""
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"

        def served() -> bool:
            found = self.get(path)
            version = found["spec"]["versions"][0]["name"]
            answer = self.client.get(f"/apis/{found['spec']['group']}/{version}")
            plural = found["spec"]["names"]["plural"]
            # The list of resources may lag behind the route by a moment.
            return answer.is_success and plural in {r["name"] for r in answer.json()["resources"]}

        eventually(served, timeout_s=_START_S)

    def _run(self, program: str, *arguments: str) -> None:
        log = (self.folder / f"{program}.log").open("wb")
        self._processes.append(
            subprocess.Popen([binary(program), *arguments], stdout=log, stderr=log)
        )

    def _logs(self) -> str:
        return "\n".join(p.read_text(errors="replace")[-800:] for p in self.folder.glob("*.log"))

    def _checked(self, response: httpx.Response) -> Document:
        if response.is_error:
            raise Refused(response)
        found: Document = response.json()
        return found

    @staticmethod
    def _kubeconfig(port: int) -> Document:
        cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "here", "user": {"token": _TOKEN}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
        }  # fmt: skip
