"""Every alert is raised by what it is about, and by nothing else; promtool runs the rules."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from searchbus_ddg.egress import Egress
from searchbus_ddg.service import _engines
from searchbus_ddg.settings import DdgSettings
from searchbus_testing.folders import locked
from searchbus_upstream import Breaker, Pace
from searchbus_upstream.breaker import _open
from searchbus_web.providers.api import _Key
from searchbus_web.providers.timeouts import ProviderTimeouts

from .engine import ROOT

RULES = ROOT / "deploy" / "observability" / "alerts.yml"
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
}
HERE = 'namespace="n"'
CALLS = "searchbus_tool_duration_seconds"
TOOL = f'{HERE}, toolset="t", tool="x"'
ADDRESS = Egress("direct", None, Pace(0.0))
OTHERS = [used.egress for used in _engines(ADDRESS, DdgSettings())._used.values()]
ENGINES = [egress.breaker for egress in OTHERS if egress is not ADDRESS]
KEY, PROVIDER = (
    _Key("Tavily", "secret", None, 0.0).breaker,
    ProviderTimeouts("ddg", time.time)._breaker,
)


def exported(job: str, breakers: Iterable[Breaker], values: str) -> dict[str, str]:
    """The series of breakers, with the labels by which a worker exports them."""
    found = {}
    for breaker in breakers:
        ((_, labels),) = _open._read(breaker)
        shown = ", ".join(f'{key}="{value}"' for key, value in {"job": job, **labels}.items())
        found[f"searchbus_breaker_open{{{HERE}, {shown}}}"] = values
    return found


@dataclass(frozen=True)
class Case:
    """Series under which an alert is raised.

    Args:
        series: name with labels → values in promtool's notation, one a minute.
        labels: of the alert, besides its severity.
        at_min: when it is looked at.
    """

    series: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)
    at_min: int = 30
    namespaced: bool = True


UP = f'up{{{HERE}, app_kubernetes_io_part_of="searchbus", job="JOB"}}'
EDGE = UP.replace("JOB", "edge")
CASES: dict[str, Case] = {
    "SearchbusServiceDown": Case(
        {UP.replace("JOB", "web"): "0x60", EDGE: "1x60"}, {"job": "web"}
    ),
    "SearchbusServiceAway": Case(
        {f'searchbus_service_away{{{HERE}, job="edge", worker="web"}}': "1x60"}, {"worker": "web"}
    ),
    "SearchbusCallsFail": Case(
        {f'{CALLS}_count{{{TOOL}, outcome="ok"}}': "0+90x60",
         f'{CALLS}_count{{{TOOL}, outcome="internal"}}': "0+10x60"},
        {"toolset": "t", "tool": "x"},
    ),
    "SearchbusCallsSlow": Case(
        {f'{CALLS}_bucket{{{TOOL}, le="10"}}': "0+90x60", f'{CALLS}_bucket{{{TOOL}, le="30"}}': "0+100x60",
         f'{CALLS}_bucket{{{TOOL}, le="+Inf"}}': "0+100x60"},
        {"toolset": "t"},
    ),
    "SearchbusSheds": Case(
        {f'searchbus_worker_shed_total{{{HERE}, worker="web"}}': "0+120x60"}, {"worker": "web"}
    ),
    "SearchbusEgressRefused": Case(
        {**exported("ddg", [ADDRESS.breaker], "1x60"), **exported("ddg", ENGINES, "0x60")}
    ),
    "SearchbusProviderRefused": Case(exported("web", [KEY], "1x60"), {"breaker": KEY.name}),
    "SearchbusProviderSilent": Case(
        exported("web", [PROVIDER], " ".join(["1 1 1 0"] * 15)), {"breaker": "web-ddg"}
    ),
    "SearchbusBusForbids": Case(
        {f'searchbus_bus_errors_total{{{HERE}, job="web", kind="permission"}}': "0x20 1x40"},
        {"job": "web"},
    ),
    "SearchbusCredentialRefused": Case(
        {f'searchbus_credential_refused_total{{{HERE}, job="web", setting="nats_nkey_seed"}}': "0+1x60"},
        {"job": "web", "setting": "nats_nkey_seed"},
    ),
    "SearchbusCertificateEnds": Case(
        {f'searchbus_certificate_end_seconds{{{HERE}, job="web", server="nats:4222"}}': "10000000x60",
         f'searchbus_certificate_end_seconds{{{HERE}, job="retrieval", server="qdrant:6333"}}': "1000000x60"},
        {"server": "qdrant:6333"},
    ),
    "SearchbusServerDown": Case(
        {f'up{{{HERE}, job="searchbus/nats", pod="nats-0"}}': "1x60",
         f'up{{{HERE}, job="searchbus/nats", pod="nats-1"}}': "0x60"},
        {"job": "searchbus/nats"},
    ),
    "SearchbusBusFallsBehind": Case({f'nats_varz_slow_consumers{{{HERE}}}': "0+1x60"}),
    "SearchbusReplicasDead": Case({f'collection_dead_replicas{{{HERE}, pod="qdrant-0"}}': "1x60"}),
    "SearchbusTokensRefused": Case(
        {f'searchbus_http_refused_total{{{HERE}, status="401"}}': "0+600x60"}
    ),
    "SearchbusAttachedServerAway": Case(
        {f'searchbus_attach_server_up{{{HERE}, server="s"}}': "0x60"}, {"server": "s"}
    ),
    "SearchbusAttachedDefinitionsHeld": Case(
        {f'searchbus_attach_held{{{HERE}, server="s"}}': "2x60"}, {"server": "s"}
    ),
    "SearchbusAttachedTokensFail": Case(
        {f'searchbus_attach_tokens_total{{{HERE}, server="s", outcome="failed"}}': "0+1x60"},
        {"server": "s"},
    ),
    "SearchbusErrorBudgetBurnsFast": Case(
        {f'{CALLS}_count{{{TOOL}, outcome="ok"}}': "0+90x90",
         f'{CALLS}_count{{{TOOL}, outcome="internal"}}': "0+10x90"},
        at_min=80,
    ),
    "SearchbusErrorBudgetBurnsSlowly": Case(
        {f'{CALLS}_count{{{TOOL}, outcome="ok"}}': "0+96x400",
         f'{CALLS}_count{{{TOOL}, outcome="overloaded"}}': "0+4x400"},
        at_min=390,
    ),
    "SearchbusTimeBudgetBurns": Case(
        {f'{CALLS}_bucket{{{TOOL}, le="10"}}': "0+90x90", f'{CALLS}_count{{{TOOL}}}': "0+100x90"},
        at_min=80,
    ),
}  # fmt: skip
HEALTHY = {
    EDGE: "1x400",
    f'searchbus_service_away{{{HERE}, job="edge", worker="web"}}': "0x400",
    f'{CALLS}_count{{{TOOL}, outcome="ok"}}': "0+1000x400",
    f'{CALLS}_count{{{TOOL}, outcome="internal"}}': "0+2x400",
    f'{CALLS}_count{{{TOOL}, outcome="not_found"}}': "0+500x400",
    **{
        f'{CALLS}_bucket{{{TOOL}, outcome="ok", le="{le}"}}': "0+1502x400"
        for le in ("10", "30", "+Inf")
    },
    f'searchbus_worker_shed_total{{{HERE}, worker="web"}}': "0+1x400",
    **exported("ddg", [ADDRESS.breaker], "0x400"),
    **exported("ddg", ENGINES, "1x400"),
    **exported("web", [KEY], "0x400"),
    **exported("web", [PROVIDER], "0x20 1x3 0x375"),
    f'searchbus_bus_errors_total{{{HERE}, job="web", kind="permission"}}': "0x400",
    f'searchbus_credential_refused_total{{{HERE}, job="web", setting="s"}}': "0x400",
    f'up{{{HERE}, job="searchbus/nats", pod="nats-0"}}': "1x400",
    f'up{{{HERE}, job="qdrant", pod="qdrant-0"}}': "1x400",
    f"nats_varz_slow_consumers{{{HERE}}}": "3x400",
    f'collection_dead_replicas{{{HERE}, pod="qdrant-0"}}': "0x400",
    f'searchbus_certificate_end_seconds{{{HERE}, job="web", server="nats:4222"}}': "10000000x400",
    f'searchbus_http_refused_total{{{HERE}, status="401"}}': "0+20x400",
    f'searchbus_attach_server_up{{{HERE}, server="s"}}': "1x400",
    f'searchbus_attach_held{{{HERE}, server="s"}}': "0x400",
    f'searchbus_attach_tokens_total{{{HERE}, server="s", outcome="ok"}}': "0+1x400",
}
"""A deployment that some calls of which fail, as they always do."""


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The installed one, or that of Debian's package, unpacked into build/ once."""
    found = shutil.which("promtool")
    if found is not None:
        return Path(found)
    folder = ROOT / "build" / "prometheus"
    program = folder / "usr" / "bin" / "promtool"
    with locked(folder.with_suffix(".lock")):
        if not program.exists():
            if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
                pytest.skip("promtool is not installed, and this is no Debian")
            folder.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(
                ["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, timeout=300
            )
            packages = list(folder.glob("prometheus_*.deb"))
            if done.returncode or not packages:
                pytest.skip("promtool is not installed, and its package cannot be fetched")
            subprocess.run(["dpkg-deb", "-x", packages[0], folder], check=True, timeout=300)
    return program


def alert(name: str, case: Case) -> dict[str, Any]:
    """The alert as promtool expects it: with all labels, and the texts filled in."""
    rule = ALERTS[name]
    labels = {"namespace": "n", **case.labels}
    texts = {
        key: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: labels[m[1]], text)
        for key, text in rule["annotations"].items()
    }
    return {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": texts}


def run(promtool: Path, folder: Path, tests: list[dict[str, Any]]) -> None:
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yml").write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [promtool, "test", "rules", folder / "tests.yml"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def series(found: dict[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in found.items()]


@pytest.mark.slow
def test_each_alert_is_raised(promtool, tmp_path):
    """With its labels and texts, also in a namespace beside a healthy one."""
    other = {name.replace(HERE, 'namespace="m"'): values for name, values in HEALTHY.items()}
    run(promtool, tmp_path, [
        {
            "interval": "1m",
            "input_series": series({**case.series, **other}),
            "alert_rule_test": [
                {"eval_time": f"{case.at_min}m", "alertname": name, "exp_alerts": [alert(name, case)]}
            ],
        }
        for name, case in CASES.items()
    ])  # fmt: skip


@pytest.mark.slow
def test_no_alert_is_raised_where_all_is_well(promtool, tmp_path):
    """Hours long."""
    checks = [
        {"eval_time": f"{at_min}m", "alertname": name, "exp_alerts": []}
        for name in ALERTS
        for at_min in (5, 60, 390)
    ]
    run(promtool, tmp_path, [
        {"interval": "1m", "input_series": series(HEALTHY), "alert_rule_test": checks}
    ])  # fmt: skip


def test_each_alert_has_a_case_and_a_runbook():
    """A section of its own that the alert names; queries are grouped by namespace."""
    assert ALERTS.keys() == CASES.keys()
    page = (ROOT / "docs" / "runbooks.md").read_text()
    assert re.findall(r"^## (\w+)$", page, re.M) == list(ALERTS)
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{name.lower()}"
        for grouped in re.findall(r"\b(?:sum|max|count|group)\b( by \([^)]*\))?", rule["expr"]):
            assert "namespace" in grouped, name
