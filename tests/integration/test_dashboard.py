"""The dashboard and the alerts: readable by Prometheus, about metrics that there are."""

from __future__ import annotations

import json
import re

import promql_parser
import pytest
import yaml

from .engine import ROOT
from .metrics_known import known_metrics, metrics_in

DASHBOARD = json.loads((ROOT / "deploy/observability/dashboard.json").read_text())
ALERTS = yaml.safe_load((ROOT / "deploy/observability/alerts.yml").read_text())
QUERIES = {
    **{
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", [])
    },
    **{rule["alert"]: rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]},
}


@pytest.mark.parametrize("title", QUERIES)
def test_query_is_promql_about_what_is_measured(title):
    """It parses, and every metric in it is one that the code makes."""
    promql_parser.parse(QUERIES[title].replace("$__rate_interval", "5m"))
    found = metrics_in(QUERIES[title])
    assert found
    assert found <= known_metrics()


def test_query_about_nothing_is_caught():
    """The check above can fail."""
    assert metrics_in("rate(searchbus_worker_sheds_total[5m])") - known_metrics()
    with pytest.raises(ValueError):
        promql_parser.parse("sum by (worker (rate(x[5m]))")


def test_dashboard_shows_every_metric_and_panels_do_not_overlap():
    """What is measured is seen; ids and places are unique."""
    shown = {m for query in QUERIES.values() for m in metrics_in(query)}
    families = {re.sub(r"_(bucket|count|sum|total)$", "", m) for m in shown}
    own = {
        re.sub(r"_(bucket|count|sum|total)$", "", m)
        for m in known_metrics()
        if m.startswith(("searchbus_", "mcp_"))
    }
    assert own - families == set()
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [tuple(panel["gridPos"][key] for key in "xywh") for panel in panels]
    assert len(set(places)) == len(places)
    assert all(x + w <= 24 for x, _, w, _ in places)


def test_every_metric_is_in_the_handbook():
    """docs/deploy.md names each family."""
    text = (ROOT / "docs" / "deploy.md").read_text()
    for metric in known_metrics():
        if not metric.startswith(("searchbus_", "mcp_")):
            continue
        family = re.sub(r"_(bucket|count|sum)$", "", metric)
        short = "_" + family.split("_", 2)[2]
        assert f"`{family}`" in text or f"`{short}`" in text, family
