"""The CronJob that makes backups in a cluster; kustomize is not needed to read it."""

from __future__ import annotations

import inspect

import pytest
import yaml

from searchbus_contracts import VERSION
from searchbus_ingest.backup.backup_command import backup

from .engine import ROOT, docker
from .manifests import VERSIONS, schema_faults

FILE = ROOT / "deploy" / "k8s" / "components" / "backup" / "backup.yaml"


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_are_strictly_valid(version):
    """In two versions of Kubernetes."""
    assert list(schema_faults(list(yaml.safe_load_all(FILE.read_text())), version)) == []


def test_job_calls_the_command_as_it_is():
    """With its options, on its volume, with the image and the Secret of the operator."""
    (job,) = (d for d in yaml.safe_load_all(FILE.read_text()) if d["kind"] == "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["searchbus"]  # the image's own command starts a service
    name, dest, option, _ = container["args"]
    assert (name, option.removeprefix("--")) == ("backup", "keep")
    assert option.removeprefix("--") in inspect.signature(backup).parameters
    mounted = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert mounted["backup"] == dest
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes.keys() == mounted.keys()
    sources = volumes["secrets"]["projected"]["sources"]
    assert [source["secret"]["name"] for source in sources] == ["searchbus-cli"]
    assert container["image"] == f"searchbus/cli:{VERSION}"


@pytest.mark.slow
def test_image_runs_the_command_of_the_job(images):
    """All but the bus: with `--help` the command line is read, and nothing is done."""
    (job,) = (d for d in yaml.safe_load_all(FILE.read_text()) if d["kind"] == "CronJob")
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    (program,) = container["command"]
    shown = docker(
        "run", "--rm", "--entrypoint", program, images["cli"], *container["args"], "--help"
    )
    assert "searchbus backup" in shown
