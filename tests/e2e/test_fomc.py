"""The main job: a client asks, a worker on the bus answers from real documents."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from .conftest import ROOT, SEARCHBUS

DOCUMENTS = 14


@pytest.fixture(scope="module")
def fomc(stack, reference, tmp_path_factory):
    """A part of the corpus (2022 and some statements), with one broken line in it."""
    rows = (reference / "data" / "fomc" / "docs-2021on.jsonl").read_text().splitlines()
    of_2022 = [row for row in rows if '"date": "2022-' in row]
    short = sorted(of_2022, key=len)[:DOCUMENTS]
    path = tmp_path_factory.mktemp("fomc") / "docs.jsonl"
    path.write_text("\n".join([*short[:3], '{"id": "broken"', *short[3:]]) + "\n")
    done = stack.command("ingest", str(path), "--collection", "fomc", "--json", timeout_s=300)
    summary = json.loads(done.stdout)
    assert done.returncode == 1  # one line was skipped, and the exit code says so
    assert summary["stored"] == DOCUMENTS
    assert len(summary["skipped"]) == 1
    assert "docs.jsonl:4: not valid JSON" in summary["skipped"][0]
    return path


@pytest.mark.parametrize("path", ["/mcp", "/mcp/fomc"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_sdk_client_lists_and_calls_both_tools(stack, fomc, path, mode):
    """The results have exactly the fields of the contract."""
    async with Client(stack.state["url"] + path, mode=mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"search_fomc", "get_document"} <= names
        found = await client.call_tool(
            "search_fomc",
            {
                "query": "why did the Committee raise rates in March 2022",
                "where": {"document_date": {"$lte": "2022-12-31"}},
                "top_k": 3,
            },
        )
        results = json.loads(found.content[0].text)
        assert found.structured_content == {"results": results}
        assert len(results) == 3
        for result in results:
            assert list(result) == [
                "chunk_id", "document_name", "document_date", "document_id", "section_header",
                "chunk_text", "relevance_score",
            ]  # fmt: skip
            assert result["document_date"].startswith("2022-")
            assert 0 <= result["relevance_score"] <= 1
        assert results[0]["document_date"] == "2022-03-16"
        whole = await client.call_tool("get_document", {"document_id": results[0]["document_id"]})
        document = whole.structured_content
        assert list(document) == [
            "id", "title", "date", "document_type", "source_url", "full_text", "chunk_count"
        ]  # fmt: skip
        assert results[0]["chunk_text"] in document["full_text"]
        assert document["source_url"].startswith("https://www.federalreserve.gov/")


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("search_fomc", {"query": ""}, "invalid_query: "),
        ("search_fomc", {"query": "x" * 1001}, "invalid_query: "),
        (
            "search_fomc",
            {"query": "a", "where": {"foo": 1}},
            "invalid_argument: Unknown field 'foo'",
        ),
        (
            "search_fomc",
            {"query": "a", "where": {"document_date": {"$x": 1}}},
            "invalid_argument: ",
        ),
        ("get_document", {"document_id": "nope"}, "not_found: "),
    ],
)
async def test_failures_have_the_contracts_codes(stack, fomc, name, arguments, text):
    """isError with the code in front and in the structure."""
    async with Client(stack.state["url"] + "/mcp/fomc") as client:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert result.content[0].text.startswith(text)
        assert result.structured_content["error"]["code"] == text.split(":")[0]


def test_command_line_calls_and_traces(stack, fomc):
    """`tools call` answers from 2022 and `trace --last` shows one connected tree."""
    done = stack.command(
        "tools", "call", "search_fomc", "query=why did the Committee raise rates in March 2022",
        "--json", '{"where":{"document_date":{"$lte":"2022-12-31"}}}',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {row["document_date"][:4] for row in json.loads(done.stdout)} == {"2022"}
    tree = stack.command("trace", "--last")
    lines = tree.stdout.splitlines()
    depth = {
        name: next((len(line) - len(line.lstrip(" │├└─")), line) for line in lines if name in line)[0]
        for name in ("tools/call search_fomc", "request retrieval", "tool.fomc.search_fomc",
                     "store search", "embed query")
    }  # fmt: skip
    assert (
        depth["tools/call search_fomc"]
        < depth["request retrieval"]
        < depth["tool.fomc.search_fomc"]
        < depth["store search"]
        == depth["embed query"]
    )
    spans = json.loads(stack.command("trace", "--last", "--json").stdout)
    assert len({span["trace_id"] for span in spans}) == 1


def test_second_ingest_changes_nothing(stack, fomc):
    """Everything is unchanged."""
    done = stack.command("ingest", str(fomc), "--collection", "fomc", "--json")
    assert json.loads(done.stdout)["unchanged"] == DOCUMENTS


async def test_stdio_joins_the_running_stack(stack, fomc):
    """The same tools over standard input and output."""
    parameters = StdioServerParameters(
        command=str(SEARCHBUS), args=["stdio", "--toolset", "fomc", "--data", str(stack.data)]
    )
    async with Client(parameters) as client:
        assert {t.name for t in (await client.list_tools()).tools} == {
            "search_fomc",
            "get_document",
        }
        result = await client.call_tool("search_fomc", {"query": "inflation", "top_k": 1})
        assert not result.is_error


def test_kill_minus_nine_in_the_middle_ends_with_the_same_ids(start_stack, reference, tmp_path):
    """A killed service and a killed ingest, run again, leave what an undisturbed run leaves."""
    rows = (reference / "data" / "fomc" / "docs-2021on.jsonl").read_text().splitlines()
    path = tmp_path / "docs.jsonl"
    path.write_text("\n".join(sorted(rows, key=len)[:40]) + "\n")
    stack = start_stack(tmp_path / "data")

    def ingest() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [SEARCHBUS, "ingest", path, "--collection", "fomc", "--data", stack.data],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT,
        )  # fmt: skip

    for victim in ("ingest", "retrieval"):
        running = ingest()
        time.sleep(2.5)
        before = stack.state["processes"]["retrieval"]
        if victim == "ingest":
            running.send_signal(signal.SIGKILL)
        else:
            subprocess.run(["kill", "-9", str(before)], check=True)
        running.wait(120)
        if victim == "retrieval":
            give_up_s = time.monotonic() + 60
            while stack.state["processes"]["retrieval"] == before:
                assert time.monotonic() < give_up_s, stack.log
                time.sleep(0.2)
    give_up_s = time.monotonic() + 60
    while (done := stack.command("ingest", str(path), "--collection", "fomc", "--json")).returncode:
        assert time.monotonic() < give_up_s, done.stderr
    summary = json.loads(done.stdout)
    assert summary["stored"] + summary["replaced"] + summary["unchanged"] == 40
    disturbed = _ids(stack)
    fresh = start_stack(tmp_path / "fresh")
    assert fresh.command("ingest", str(path), "--collection", "fomc").returncode == 0
    assert _ids(fresh) == disturbed


def _ids(stack) -> set[tuple[str, str]]:
    """Every chunk's id with its document's, from the store itself, once the owner has gone."""
    stack.process.terminate()
    stack.process.wait(40)
    program = (
        "import asyncio, json, sys\n"
        "from pathlib import Path\n"
        "from searchbus_vectors import Equals, open_store\n"
        "async def main():\n"
        "    store = await open_store(folder=Path(sys.argv[1]))\n"
        "    page = await store.scroll('fomc', where=Equals('kind', 'chunk'), limit=100000)\n"
        "    print(json.dumps([[r.id, r.payload['document_id'], r.payload['live']] for r in page.records]))\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, stack.data / "qdrant"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(done.stdout)
    assert rows
    assert all(live for _, _, live in rows)
    return {(chunk, document) for chunk, document, _ in rows}
