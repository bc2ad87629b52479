"""The API of metrics-server: as much CPU for each pod as a test says, given to the API server by an APIService."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from ..integration.documents import name_of
from .control_plane import ControlPlane

_GROUP, _VERSION = "metrics.k8s.io", "v1beta1"


class MetricsApi:
    """Serves the CPU of pods; `millicores` is what each one uses."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.millicores = 0
        self._plane = plane
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
             "/CN=localhost", "-keyout", folder / "metrics.key", "-out", folder / "metrics.crt"],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "metrics.crt", folder / "metrics.key")
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(api.answer(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """No line for each request."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    def start(self) -> None:
        """Serve, and register at the API server."""
        self._thread.start()
        service = {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "metrics-server"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }  # fmt: skip
        registered = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{_VERSION}.{_GROUP}"},
            "spec": {
                "group": _GROUP, "version": _VERSION, "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": {"name": "metrics-server", "namespace": "kube-system",
                            "port": self._server.server_address[1]},
            },
        }  # fmt: skip
        self._plane.apply([service, registered], "kube-system")

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, target: str) -> object:
        """The answer to a GET of this path and query."""
        parts = urlsplit(target)
        version = f"{_GROUP}/{_VERSION}"
        if not parts.path.endswith("/pods"):
            resource = {"name": "pods", "singularName": "", "namespaced": True,
                        "kind": "PodMetrics", "verbs": ["get", "list"]}  # fmt: skip
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
                    "resources": [resource]}  # fmt: skip
        namespace = parts.path.split("/")[-2]
        selector = parse_qs(parts.query).get("labelSelector", [""])[0]
        found = self._plane.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items = [
            {"metadata": {"name": name_of(pod), "namespace": namespace}, "timestamp": now,
             "window": "15s",
             "containers": [{"name": c["name"],
                             "usage": {"cpu": f"{self.millicores}m", "memory": "64Mi"}}
                            for c in pod["spec"]["containers"]]}
            for pod in found["items"]
        ]  # fmt: skip
        return {"kind": "PodMetricsList", "apiVersion": version, "metadata": {}, "items": items}
