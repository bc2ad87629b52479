"""`searchbus plan` and what it calculates."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from searchbus_cli.plan import Wanted, planned
from searchbus_testing import run_command


def parts(**wanted):
    return {part.name: part for part in planned(Wanted(**wanted)).parts}


def test_more_requests_need_more_replicas_and_one_always_has_a_second():
    """Of what keeps no state; a replica is one event loop."""
    few, many = parts(rps=1), parts(rps=10_000)
    assert few["edge"].replicas == few["web"].replicas == 2
    assert many["edge"].replicas > 10 * few["edge"].replicas
    # 18 cores of work at 65 %.
    assert many["edge"].replicas == pytest.approx(10_000 * 0.00182 / 0.65, rel=0.1)


def test_documents_move_to_a_server_when_they_are_many():
    """Its memory is that of three copies, and a node has at most 32 GiB."""
    small, large = parts(rps=10, passages=100_000), parts(rps=10, passages=100_000_000)
    assert "qdrant" not in small
    assert small["retrieval"].replicas == 1
    assert small["retrieval"].disk_gib > 0.5
    assert large["qdrant"].replicas * large["qdrant"].memory_gib > 3 * 100_000_000 * 1536 / 2**30
    assert large["qdrant"].memory_gib <= 32


def test_a_region_that_is_lost_is_carried_by_the_others():
    """With two regions each has all of the load."""
    assert parts(rps=5000, regions=2)["edge"] == parts(rps=5000)["edge"]
    assert parts(rps=5000, regions=3)["edge"].replicas < parts(rps=5000)["edge"].replicas


def test_tools_cost_memory_where_they_are_indexed():
    """As measured up to 50,000; beyond it is an estimate."""
    few, many = parts(rps=1, tools=1000), parts(rps=1, tools=50_000)
    assert many["toolindex"].memory_gib > few["toolindex"].memory_gib
    assert many["toolindex"].basis == "measured"
    assert parts(rps=1, tools=200_000)["toolindex"].basis == "estimated"


def test_the_first_limit_is_what_is_used_up_first():
    """One address searches 24 times a minute; an API key has no such limit here."""
    first, second, *_ = planned(Wanted(rps=10, scrapers=1)).limits
    assert (first.name, first.rps) == ("searches of DuckDuckGo", pytest.approx(4.0))
    assert second.rps > first.rps
    without = planned(Wanted(rps=10, passages=1000, mix={"documents": 1.0})).limits
    assert without[0].name == "the document engine inside retrieval"


def test_the_command_prints_a_table_or_json():
    """Both have every part."""
    done = run_command("plan", "--rps", 1000, "--passages", 1_000_000, "--regions", 3)
    assert done.returncode == 0, done.stderr
    assert "in each of 3 regions" in done.stdout
    assert "first: searches of DuckDuckGo" in done.stdout
    done = run_command("plan", "--rps", 1000, "--passages", 1_000_000, "--json")
    found = json.loads(done.stdout)
    assert [part["name"] for part in found["parts"]][-1] == "qdrant"
    assert found["limits"][0]["rps"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("mix", "said"),
    [("web=.5", "not 1"), ("mail=1", "write KIND=SHARE"), ("web=x", "write KIND=SHARE")],
)
def test_a_wrong_mix_is_named(mix, said):
    done = run_command("plan", "--rps", 1, "--mix", mix)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "options", [("--rps", "inf"), ("--rps", 1e308), ("--rps", 1, "--passages", "9" * 400)]
)
def test_more_than_a_computer_counts_is_named(options):
    """No traceback."""
    done = run_command("plan", *options)
    assert done.returncode == 2
    assert options[-2] in done.stderr


def test_the_page_shows_what_the_command_prints():
    """docs/scale.md, as it stands."""
    page = (Path(__file__).parents[3] / "docs" / "scale.md").read_text()
    found = re.findall(r"```sh\nsearchbus (plan [^\n]*)\n```\n\n```text\n(.*?)\n```", page, re.S)
    assert len(found) == 2
    for command, shown in found:
        printed = run_command(*command.split()).stdout
        assert [line.rstrip() for line in printed.rstrip().splitlines()] == shown.splitlines()
