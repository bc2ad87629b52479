"""Nodes as the API server sees them: they take pods, call them ready, and let go of deleted ones."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress

import httpx

from ..integration.documents import Document, name_of
from .control_plane import ControlPlane, Refused

NODES = ("node-0", "node-1", "node-2")
_CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "400"}
_TURN_S = 0.1


class PlayedNodes:
    """A thread that plays scheduler and kubelets; no container runs.

    `paused` is set while pods are to stay as they are.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._next = itertools.cycle(NODES)
        self._addresses = itertools.count(1)
        self._stopped = threading.Event()
        self.paused = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def start(self) -> None:
        """Announce the nodes, and play them."""
        for zone, name in enumerate(NODES):
            labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{zone}"}
            self._plane.post(
                "/api/v1/nodes",
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}},
            )
            status = {
                "capacity": _CAPACITY,
                "allocatable": _CAPACITY,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            self._plane.patch(f"/api/v1/nodes/{name}/status", {"status": status})
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def _play(self) -> None:
        while not self._stopped.wait(_TURN_S):
            if self.paused.is_set():
                continue
            # A store that is slow for a moment: the next turn asks again.
            with suppress(Refused, httpx.TransportError):
                self._play_once()

    def _play_once(self) -> None:
        closed = {
            name_of(n)
            for n in self._plane.get("/api/v1/nodes")["items"]
            if n["spec"].get("unschedulable")
        }
        for pod in self._plane.get("/api/v1/pods")["items"]:
            # Somebody else may have changed or removed it meanwhile: the next turn sees that.
            with suppress(Refused, httpx.TransportError):
                self._turn(pod, closed)

    def _turn(self, pod: Document, closed: set[str]) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            self._plane.client.request("DELETE", path, json={"gracePeriodSeconds": 0})
        elif "nodeName" not in pod["spec"]:
            node = next(name for name in self._next if name not in closed)
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            self._plane.post(
                f"{path}/binding",
                {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]},
                 "target": target},
            )  # fmt: skip
        elif pod["status"].get("phase") != "Running":
            self._plane.patch(f"{path}/status", {"status": self._running(pod)})

    def _running(self, pod: Document) -> Document:
        number = next(self._addresses)
        address = f"10.244.{number // 250}.{number % 250 + 1}"
        return {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": pod["metadata"]["creationTimestamp"],
            "conditions": [
                {"type": kind, "status": "True",
                 "lastTransitionTime": pod["metadata"]["creationTimestamp"]}
                for kind in ("Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [
                {"name": c["name"], "ready": True, "restartCount": 0, "image": c["image"],
                 "imageID": "", "state": {"running": {}}}
                for c in pod["spec"]["containers"]
            ],
        }  # fmt: skip
