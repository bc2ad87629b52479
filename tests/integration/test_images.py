"""Each image contains its own service and nothing to build with, and runs as its manifest says."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from . import engine
from .documents import name_of
from .engine import IMAGES, ROOT, SERVICES, docker, wait_for
from .manifests import Manifests, render, renderer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(renderer() is None, reason="neither kustomize nor kubectl"),
]
HEAVY = {
    "onnxruntime": "onnxruntime", "qdrant-client": "qdrant_client", "mcp": "mcp",
    "fastapi": "fastapi", "trafilatura": "trafilatura",
}  # fmt: skip
"""Packages that only some images carry: name in the lock → module."""
CARRIED = {
    "edge": {"mcp", "fastapi"}, "web": {"trafilatura"}, "ddg": set(), "cli": set(),
    "attach": {"mcp"},
    "retrieval": {"onnxruntime", "qdrant_client"}, "toolindex": {"onnxruntime", "qdrant_client"},
}  # fmt: skip


def locked(image: str) -> set[str]:
    """Names of the packages in an image's lock."""
    text = (ROOT / "requirements" / f"{image}.txt").read_text()
    return {line.partition("==")[0] for line in text.splitlines() if "==" in line}


def cpus(quantity: str) -> str:
    """Kubernetes' "500m" as Docker's "0.5"."""
    return str(int(quantity[:-1]) / 1000) if quantity.endswith("m") else quantity


@pytest.fixture(scope="module")
def network(images) -> Iterator[str]:
    """A network with a NATS server that is called `nats`."""
    image, why_not = engine.nats_image()
    if why_not:
        pytest.skip(why_not)
    name = f"searchbus-test-{uuid.uuid4().hex[:8]}"
    docker("network", "create", name)
    docker("run", "-d", "--name", f"{name}-nats", "--network", name, "--network-alias", "nats",
           "--tmpfs", "/tmp:mode=1777", image, "-js", "-sd", "/tmp/js")  # fmt: skip
    yield name
    docker("rm", "-f", f"{name}-nats", check=False)
    docker("network", "rm", name, check=False)


@pytest.mark.parametrize("service", IMAGES)
def test_image_holds_its_own_service_only(images, service):
    """No other service, no test helpers, no pip, no compiler, no tools that download; the model where
    it is used; the declarations of all services.
    """
    script = (
        "import glob, importlib.util, json, os, shutil;"
        "print(json.dumps({'services': sorted(os.path.basename(p) for p in glob.glob('/app/searchbus_*')"
        " if not p.endswith('.dist-info')), 'pip': bool(importlib.util.find_spec('pip')),"
        "'tools': [t for t in ('pip', 'gcc', 'cc', 'make', 'curl', 'wget', 'git') if shutil.which(t)],"
        "'uid': os.getuid(), 'model': os.listdir('/model'),"
        "'heavy': [n for n in ('onnxruntime', 'qdrant_client', 'mcp', 'fastapi', 'trafilatura')"
        " if importlib.util.find_spec(n)],"
        "'declared': sorted(json.load(open(os.environ['SEARCHBUS_DECLARATIONS'])))}))"
    )
    inside = json.loads(
        docker("run", "--rm", "--entrypoint", "python3", images[service], "-c", script)
    )
    others = {f"searchbus_{name}" for name in (*SERVICES, "testing", "evaluation")}
    others.discard(f"searchbus_{service}")
    assert not others & set(inside["services"])
    assert not inside["pip"]
    assert inside["tools"] == []
    assert inside["uid"] == 65532
    assert inside["declared"] == sorted(SERVICES)
    assert bool(inside["model"]) == ("fastembed" in locked(service))
    carried = {module for name, module in HEAVY.items() if name in locked(service)}
    assert set(inside["heavy"]) == carried == CARRIED.get(service, carried)
    labels = json.loads(
        docker("image", "inspect", "-f", "{{json .Config.Labels}}", images[service])
    )
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert "org.opencontainers.image.revision" in labels
    base, _ = engine.base_image()
    sizes = [
        int(docker("image", "inspect", "-f", "{{.Size}}", image)) / 2**20
        for image in (images[service], base)
    ]
    print(f"{service}: {sizes[0]:.0f} MiB, of which the base {sizes[1]:.0f} MiB")


def container_arguments(service: str) -> tuple[list[str], dict[str, Any]]:
    """How Docker runs what the dev overlay says about a service."""
    manifests = Manifests(render("dev"))
    workload = next(
        w for w in manifests.workloads if name_of(w) == service and w["kind"] == "Deployment"
    )
    pod = workload["spec"]["template"]["spec"]
    container = pod["containers"][0]
    security = {**pod["securityContext"], **container["securityContext"]}
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    limits = container["resources"]["limits"]
    arguments = [
        "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true",
        "--user", f"{security['runAsUser']}:{security['runAsGroup']}",
        "--cpus", cpus(limits["cpu"]), "--memory", limits["memory"].replace("Mi", "m").replace("Gi", "g"),
    ]  # fmt: skip
    for mount in container["volumeMounts"]:
        if mount["name"] != "secrets":
            arguments += ["--tmpfs", f"{mount['mountPath']}:mode=1777"]
    environment = manifests.environment(service)
    # The test's server requires no nkeys.
    del environment["SEARCHBUS_SECRETS_DIR"]
    for name, value in environment.items():
        arguments += ["-e", f"{name}={value}"]
    return arguments, container


@pytest.mark.parametrize("service", SERVICES)
def test_image_runs_as_its_manifest_says(images, network, service):
    """User, read-only root, limits, environment, probes; SIGTERM ends it with 0 within its grace."""
    arguments, container = container_arguments(service)
    name = f"{network}-{service}"
    docker("run", "-d", "--name", name, "--network", network, *arguments, images[service])
    try:
        port = next(p["containerPort"] for p in container["ports"] if p["name"] == "metrics")

        def probe(kind: str) -> int:
            path = container[kind]["httpGet"]["path"]
            assert container[kind]["httpGet"]["port"] == "metrics"
            ask = (
                "import http.client as h;"
                f"c = h.HTTPConnection('127.0.0.1', {port}, timeout=5); c.request('GET', '{path}');"
                "print(c.getresponse().status)"
            )
            done = docker("exec", name, "python3", "-I", "-S", "-c", ask, check=False)
            return int(done) if done.isdigit() else 0

        start = container["startupProbe"]
        wait_for(
            lambda: probe("startupProbe") == 200, f"{service}'s startup probe",
            start["periodSeconds"] * start["failureThreshold"],
        )  # fmt: skip
        wait_for(lambda: probe("readinessProbe") == 200, f"{service}'s readiness probe", 30)
        assert probe("livenessProbe") == 200
        state = json.loads(docker("inspect", "-f", "{{json .State}}", name))
        assert state["Running"]
        assert not state["OOMKilled"]
        docker("stop", "-t", "30", name, timeout_s=60)
        state = json.loads(docker("inspect", "-f", "{{json .State}}", name))
        logs = docker("logs", name, check=False)
        assert state["ExitCode"] == 0, logs[-2000:]
        assert "Traceback" not in logs
    finally:
        docker("rm", "-f", name, check=False)
