"""`searchbus tools search` in this process, on a bus in memory."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from searchbus_bus import Call, MemoryBroker, Worker, endpoint
from searchbus_cli import tools_search
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.toolindex import FindReply, FindRequest, Found
from searchbus_runtime import BusAddress

app = typer.Typer()
app.command()(tools_search.search)


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
        return FindReply(generation="g", total=7, found=(found,))


@pytest.fixture
def index(monkeypatch) -> Index:
    index = Index()

    async def connect(url, **options):
        broker, worker = MemoryBroker(), Worker("toolindex")
        worker.add(index)
        await broker.connect().serve(worker)
        return broker.connect()

    monkeypatch.setattr(tools_search, "connect", connect)
    monkeypatch.setattr(tools_search, "find_bus", lambda folder: BusAddress("nats://test"))
    return index


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_matches_are_listed_with_scores_and_words(index):
    """And how many there are in all."""
    done = run("mail", "--limit", "1", "--toolset", "office")
    assert done.exit_code == 0
    assert "send" in done.stdout
    assert "0.900" in done.stdout
    assert "1 of 7" in done.stdout
    assert index.requests == [FindRequest(query="mail", limit=1, toolsets=("office",))]


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


def test_failures_exit_with_a_message(index, monkeypatch):
    """A wrong kind with 2; a failed request, or no stack, with 1."""
    assert run("mail", "--kind", "server").exit_code == 2
    failed = run("fail")
    assert failed.exit_code == 1
    assert "invalid_query: The query is bad." in failed.stderr
    monkeypatch.setattr(tools_search, "find_bus", lambda folder: None)
    assert "searchbus up" in " ".join(run("mail").stderr.split())
