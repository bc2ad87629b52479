"""The main job: a client asks, a worker on the bus answers from real documents."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import PIPE

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from searchbus_testing import SEARCHBUS

DOCUMENTS = Path(__file__).parents[1] / "fixtures" / "fomc.jsonl"


@pytest.fixture(scope="module")
def fomc(stack, tmp_path_factory):
    """Minutes and statements of seven meetings, with one broken line among them."""
    rows = DOCUMENTS.read_text().splitlines()
    path = tmp_path_factory.mktemp("fomc") / "docs.jsonl"
    path.write_text("\n".join([*rows[:3], '{"id": "broken"', *rows[3:]]) + "\n")
    done = stack.command("ingest", path, "--collection", "fomc", "--json")
    summary = json.loads(done.stdout)
    assert done.returncode == 1  # one line was skipped, and the exit code says so
    # A part that is sent twice, on a busy machine, is unchanged the second time.
    assert summary["stored"] + summary["unchanged"] == len(rows)
    assert len(summary["skipped"]) == 1
    assert "docs.jsonl:4: not valid JSON" in summary["skipped"][0]
    return path


@pytest.mark.parametrize("path", ["/mcp", "/mcp/fomc"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_sdk_client_lists_and_calls_both_tools(stack, fomc, path, mode):
    """The results have exactly the fields of the contract."""
    async with Client(stack.url + path, mode=mode) as client:
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
                "chunk_text", "relevance_score", "cosine_similarity", "relevance_probability", "start", "end",
                "content_hash",
            ]  # fmt: skip
            assert result["document_date"].startswith("2022-")
            assert 0 <= result["relevance_score"] <= 1
        assert results[0]["document_date"] == "2022-03-16"
        whole = await client.call_tool("get_document", {"document_id": results[0]["document_id"]})
        document = whole.structured_content
        assert list(document) == [
            "id", "title", "date", "document_type", "source_url", "full_text", "chunk_count"
        ]  # fmt: skip
        part = slice(results[0]["start"], results[0]["end"])
        assert document["full_text"][part] == results[0]["chunk_text"]
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
    async with Client(stack.url + "/mcp/fomc") as client:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert result.content[0].text.startswith(text)
        assert result.structured_content["error"]["code"] == text.split(":")[0]


def test_command_line_calls_and_traces(stack, fomc):
    """`tools call` answers from 2022 and `trace --last` shows one connected tree."""
    # A query of its own: the vector of a repeated one is kept, and no span would embed it.
    done = stack.command(
        "tools", "call", "search_fomc", "query=why did the Committee raise interest rates in March 2022",
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
    assert json.loads(done.stdout)["unchanged"] == len(DOCUMENTS.read_text().splitlines())


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


@pytest.mark.parametrize("toolset", [pytest.param("nope", marks=pytest.mark.slow), "nope\nmore"])
def test_stdio_refuses_a_toolset_that_the_running_stack_has_not(stack, toolset):
    """With the toolsets that it has."""
    process = stack.spawn("stdio", "--toolset", toolset, stdin=PIPE, stderr=PIPE)
    # Its standard input stays open: at the end of it the command ends without an error.
    assert process.wait(300) == 1
    said = process.stderr.read()
    assert "There is no toolset nope" in said
    assert "fomc" in said


@pytest.fixture(scope="module")
def real_fomc(stack, reference, tmp_path_factory):
    """A dozen real documents of 2022 in a collection of their own."""
    rows = (reference / "data" / "fomc" / "docs-2021on.jsonl").read_text().splitlines()
    short = sorted((row for row in rows if '"date": "2022-' in row), key=len)[:12]
    path = tmp_path_factory.mktemp("real") / "docs.jsonl"
    path.write_text("\n".join(short) + "\n")
    done = stack.command("ingest", path, "--collection", "real_fomc", "--json")
    summary = json.loads(done.stdout)
    assert (summary["stored"] + summary["unchanged"], done.returncode) == (12, 0)
    return "real_fomc"


@pytest.mark.slow
def test_real_documents_are_found(stack, real_fomc):
    """The statement of the first increase is among the first five of a dozen.

    Third and fourth are .002 apart, which the processor's arithmetic decides.
    """
    done = stack.command(
        "search", "why did the Committee raise rates in March 2022", "--collection", real_fomc,
        "--limit", "5", "--json",
    )  # fmt: skip
    titles = [hit["title"] for hit in json.loads(done.stdout)["hits"]]
    assert "FOMC Statement, March 16, 2022" in titles
