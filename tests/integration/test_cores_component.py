"""Several processes in a pod of the edge: component and values say the same, and what one process has, times N."""

from __future__ import annotations

from typing import Any

import yaml

from .engine import ROOT

COMPONENT = ROOT / "deploy" / "k8s" / "components" / "cores"
SCALING = ROOT / "deploy" / "k8s" / "base" / "edge-scaling.yaml"


def millicores(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


def target_of(scaler: dict[str, Any]) -> Any:
    (metric,) = scaler["spec"]["metrics"]
    return metric["resource"]["target"]["averageValue"]


def test_component_and_values_fit_the_number_of_processes():
    """The autoscaler's target follows the loops, else it would add pods of which half is idle."""
    component = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())
    deployment, scaler = yaml.safe_load_all((COMPONENT / "edge.yaml").read_text())
    values = yaml.safe_load((ROOT / "deploy" / "helm" / "values" / "cores.yaml").read_text())
    (literal,) = component["configMapGenerator"][0]["literals"]
    processes = int(values["settings"]["edge"]["SEARCHBUS_PROCESSES"])
    assert literal == f"SEARCHBUS_PROCESSES={processes}"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == values["services"]["edge"]["resources"]
    assert target_of(scaler) == values["autoscaling"]["targetCPU"]
    of_one = millicores(target_of(yaml.safe_load(SCALING.read_text())))
    assert millicores(target_of(scaler)) == processes * of_one
    limits = container["resources"]["limits"]
    assert millicores(limits["cpu"]) > millicores(target_of(scaler))
