"""deploy/generate.py: what a declaration becomes in Compose and Kubernetes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from types import ModuleType

import pytest
import yaml

from searchbus_contracts import VERSION
from searchbus_contracts.services import Container, Service

from .documents import pod_of
from .engine import ROOT, SERVICES
from .manifests import render, renderer

HEAD = (ROOT / "docker-compose.yml").read_text()


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The script as a module; it changes sys.path, which is put back."""
    path = list(sys.path)
    spec = importlib.util.spec_from_file_location(
        "deploy_generate", ROOT / "deploy" / "generate.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


def documents(generate: ModuleType, service: Service) -> dict[str, dict]:
    """Kind → document of one service."""
    return {d["kind"]: d for d in yaml.safe_load_all(generate.kubernetes([service])) if d}


def composed(generate: ModuleType, service: Service, head: str | None = None) -> dict:
    """docker-compose.yml with this service alone."""
    head = HEAD.partition(generate.MARKER)[0] if head is None else head
    return yaml.safe_load(head + generate.MARKER + generate.compose([service], head))


def test_kubernetes_has_an_account_a_deployment_a_service_and_a_budget(generate):
    """All named like the service, which they select by its label."""
    found = documents(generate, Service(name="toy", description="Dice."))
    assert set(found) == {"ServiceAccount", "Deployment", "Service", "PodDisruptionBudget"}
    assert {d["metadata"]["name"] for d in found.values()} == {"toy"}
    wanted = {"app.kubernetes.io/name": "toy"}
    assert found["Service"]["spec"]["selector"] == wanted
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == wanted


@pytest.mark.parametrize(("replicas", "shown"), [(3, 3), (None, "absent")])
def test_replicas_are_left_to_an_autoscaler_where_none_are_declared(generate, replicas, shown):
    """A number in the manifest would reset what the autoscaler chose."""
    service = Service(name="toy", container=Container(replicas=replicas))
    spec = documents(generate, service)["Deployment"]["spec"]
    assert spec.get("replicas", "absent") == shown


@pytest.mark.parametrize("internet", [True, False])
def test_pods_have_the_label_of_the_internet_only_where_declared(generate, internet):
    """The network policy selects by it."""
    service = Service(name="toy", container=Container(internet=internet))
    labels = documents(generate, service)["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert ("searchbus.io/internet" in labels) == internet


def test_compose_gives_a_service_what_all_have_and_its_own_keys(generate):
    """Hardening and dependencies come from x-service."""
    toy = composed(generate, Service(name="toy", container=Container(memory_limit="2Gi")))
    service = toy["services"]["toy"]
    assert service["cap_drop"] == ["ALL"]
    assert service["mem_limit"] == "2g"
    assert service["build"]["args"]["SERVICE"] == "toy"
    assert service["volumes"] == ["keys-toy:/run/secrets/searchbus:ro"]
    assert {"keys-toy", "keys-nats", "keys-cli"} <= set(toy["volumes"])


def test_a_volume_replaces_the_data_folder_in_memory(generate):
    """What is kept survives the container."""
    toy = composed(generate, Service(name="toy", container=Container(volume="toys")))
    assert "toys:/data" in toy["services"]["toy"]["volumes"]
    assert toy["services"]["toy"]["tmpfs"] == ["/tmp:mode=1777"]
    assert "toys" in toy["volumes"]


def test_a_block_of_its_own_counts_more_than_what_all_have(generate):
    """x-<name> at the start of docker-compose.yml."""
    head = HEAD.partition(generate.MARKER)[0]
    own = "\nx-toy: &toy\n  pids_limit: 9\n\nservices:\n"
    toy = composed(generate, Service(name="toy"), head.replace("\nservices:\n", own))
    assert toy["services"]["toy"]["pids_limit"] == 9
    assert toy["services"]["toy"]["read_only"] is True


def test_an_unknown_name_in_a_template_is_an_error(generate, tmp_path, monkeypatch):
    """It does not pass as an empty text."""
    (tmp_path / "wrong.yaml").write_text("name: $nmae\n")
    monkeypatch.setattr(generate, "TEMPLATES", tmp_path)
    with pytest.raises(KeyError):
        generate.fill("wrong.yaml", {"name": "toy"})


def test_without_its_marker_docker_compose_is_not_overwritten(generate, tmp_path, monkeypatch):
    """Somebody's own file stays as it is."""
    own = tmp_path / "docker-compose.yml"
    own.write_text("services: {}\n")
    monkeypatch.setattr(generate, "COMPOSE", own)
    with pytest.raises(SystemExit, match="is missing"):
        generate.files()


@pytest.mark.parametrize(
    "name", ["Toy", "toy_box", "toy-", "nats", "prometheus", "keys", "service"]
)
def test_a_name_that_kubernetes_or_compose_cannot_have_is_refused(generate, name):
    """Two blocks of one name would hide one of them."""
    head = HEAD.partition(generate.MARKER)[0]
    with pytest.raises(SystemExit, match="needs"):
        generate.check_names([Service(name=name)], head)
    generate.check_names([Service(name="toy-box2")], head)


FAKE_COMMANDS = {
    "searchbus": f"echo searchbus {VERSION}",
    "make": 'echo "$*" >made',
    "docker": """case $1 in
    image) [ "$4" != "reference=searchbus/*:$(sed s/.*TAG=// made)" ] || printf 'searchbus/%s\\n' $BUILT ;;
    push) echo "$2" >>pushed ;;
    esac""",
}
"""As if images with the tag that `make` was given were there."""


@pytest.mark.skipif(renderer() is None, reason="neither kustomize nor kubectl")
def test_the_images_that_the_handbook_pushes_are_those_that_pods_pull(tmp_path):
    """`make images` alone makes images that only kind and Compose use."""
    text = (ROOT / "docs" / "deploy.md").read_text()
    (block,) = (part for part in text.split("```sh\n") if part.startswith("TAG="))
    for name, script in FAKE_COMMANDS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    built = " ".join(f"{service}:{VERSION}" for service in SERVICES)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", "-euc", block.split("```")[0]],
        cwd=tmp_path,
        env={"PATH": path, "BUILT": built},
        check=True,
        timeout=60,
    )
    pulled = {
        pod_of(d)["containers"][0]["image"] for d in render("prod") if d["kind"] == "Deployment"
    }
    pushed = (tmp_path / "pushed").read_text().split()
    assert pulled == set(pushed)
