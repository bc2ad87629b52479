"""`searchbus tools search` in this process, on a bus in memory."""

from __future__ import annotations

import json

import pytest
from msgspec import Struct
from typer.testing import CliRunner

import searchbus_bus
from searchbus_bus import Call, MemoryBroker, Toolset, Worker, endpoint, tool
from searchbus_cli.main import app
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.toolindex import (
    Considered,
    FindExplanation,
    FindReply,
    FindRequest,
    Found,
    TextMatch,
)
from searchbus_runtime import BusAddress, connection

MATCH = TextMatch(cosine=0.61, words=3.25, coverage=0.5)
WHY = FindExplanation(
    texts=("mail", "post"), least_score=0.2, least_probability=0.25,
    considered=(
        Considered(toolset="office", name="send", score=8.9, probability=0.9, literal=8.0,
                   matches=(MATCH, MATCH)),
        Considered(toolset="office", name="chart", score=0.3, probability=0.1,
                   matches=(MATCH, MATCH), left_out="probability"),
    ),
)  # fmt: skip


class Index:
    """An index of one tool; `requests` has what it was sent."""

    def __init__(self) -> None:
        self.requests: list[FindRequest] = []

    @endpoint
    async def search(self, call: Call, request: FindRequest) -> FindReply:
        self.requests.append(request)
        if request.query == "fail":
            raise Fault(ErrorCode.INVALID_QUERY, "The query is bad.")
        if request.query == "none":
            return FindReply(generation="g", total=0)
        found = Found(toolset="office", name="send", score=0.9, cosine=0.7, matched=("mail",))
        why = WHY if request.explain else None
        return FindReply(generation="g", total=7, found=(found,), explanation=why)


class Letter(Struct):
    text: str


class Office(Toolset, name="office"):
    """A toolset with a tool."""

    @tool(title="Send")
    async def send(self, call: Call, arguments: Letter) -> Letter:
        """Send a letter."""
        return arguments


@pytest.fixture
def index(monkeypatch) -> Index:
    index = Index()

    async def connect(url, **options):
        broker, worker = MemoryBroker(), Worker("toolindex")
        worker.add(index)
        worker.add(Office())
        await broker.connect().serve(worker)
        return broker.connect()

    monkeypatch.setattr(searchbus_bus, "connect", connect)
    monkeypatch.setattr(connection, "find_bus", lambda folder: BusAddress("nats://test"))
    return index


def run(*arguments: str):
    return CliRunner().invoke(app, ["tools", "search", *arguments])


def test_matches_are_listed_with_scores_and_words(index):
    """And how many there are in all."""
    done = run("mail", "--limit", "1", "--toolset", "office")
    assert done.exit_code == 0
    assert "send" in done.stdout
    assert "0.900" in done.stdout
    assert "1 of 7" in done.stdout
    assert index.requests == [FindRequest(query="mail", limit=1, toolsets=("office",))]


def test_explanation_has_what_was_left_out(index):
    """A row for each text of the query; in JSON, all of it."""
    done = run("mail", "--explain")
    assert "a score of 0.20 and a probability of 0.25" in done.stdout
    assert "(chart: probability)" in done.stdout
    assert done.stdout.count("3.25") == 4
    explanation = json.loads(run("mail", "--json", "--explain").stdout)["explanation"]
    assert [entry["name"] for entry in explanation["considered"]] == ["send", "chart"]
    assert "considered" not in run("mail").stdout


def test_json_is_for_machines(index):
    """With everything that the table has."""
    assert json.loads(run("mail", "--json").stdout) == {
        "total": 7,
        "matches": [
            {"toolset": "office", "name": "send", "score": 0.9, "cosine": 0.7, "matched": ["mail"]}
        ],
    }


def test_no_match_is_no_failure(index):
    """The kind that was searched is named."""
    done = run("none", "--kind", "prompt")
    assert (done.exit_code, done.stdout) == (0, "No prompt fits that.\n")


def test_a_toolset_that_no_service_offers_is_a_failure(index):
    """It is named with the nearest one."""
    done = run("none", "--toolset", "offise")
    assert done.exit_code == 1
    assert "not_found: There is no toolset 'offise'. Did you mean 'office'?" in done.stderr
    done = run("none", "--toolset", "office")
    assert (done.exit_code, done.stdout) == (0, "No tool fits that.\n")


def test_failures_exit_with_a_message(index, monkeypatch):
    """A wrong kind with 2; a failed request, or no stack, with 1."""
    assert run("mail", "--kind", "server").exit_code == 2
    failed = run("fail")
    assert failed.exit_code == 1
    assert "invalid_query: The query is bad." in failed.stderr
    monkeypatch.setattr(connection, "find_bus", lambda folder: None)
    assert "searchbus up" in " ".join(run("mail").stderr.split())
