"""The connector in a whole stack: local files, FOMC-like documents and the web, in one answer."""

from __future__ import annotations

import json
import os
import signal

import httpx
import pytest
from mcp import Client

from searchbus_testing import eventually


@pytest.fixture(scope="module")
def filled(stack, tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes")
    (folder / "okapi.md").write_text(
        "# Okapis\n\nThe okapi browses leaves in the rain forest of Ituri.\n"
    )
    (folder / "bus.md").write_text("# Timetable\n\nThe bus to Oxford leaves at noon.\n")
    done = stack.command("ingest", str(folder), "--collection", "notes")
    assert done.returncode == 0, done.stderr
    return stack


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_own_folder_shows_up_in_search_with_no_other_step(filled, mode):
    """First, with a url that opens, beside results of the web; fetch gives the whole text."""
    async with Client(filled.url + "/mcp/connector", mode=mode) as client:
        found = await client.call_tool("search", {"query": "what does an okapi browse"})
        results = found.structured_content["results"]
        assert results[0]["source"] == "documents/notes"
        assert "web" in {r["source"] for r in results}
        page = httpx.get(results[0]["url"])
        assert "rain forest of Ituri" in page.text
        fetched = await client.call_tool("fetch", {"id": results[0]["id"]})
        assert "rain forest of Ituri" in fetched.structured_content["text"]
        web = next(r for r in results if r["source"] == "web")
        assert not (await client.call_tool("fetch", {"id": web["id"]})).is_error


async def test_quotation_is_verified_and_its_part_fetched(filled):
    """Of a document and of a page, through every process; passages of a brief say where they stand."""
    async with Client(filled.url + "/mcp/connector") as client:

        async def call(name: str, **arguments) -> dict:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        results = (await call("search", query="what does an okapi browse"))["results"]
        for source, quote in (
            ("documents/notes", "browses grass in the rain forest"),
            ("web", None),
        ):
            found = next(r for r in results if r["source"] == source)
            whole = await call("fetch", id=found["id"])
            text = whole["text"]
            if quote is None:  # of the page itself, between its marks
                text = text.split("\n", 1)[1]
                quote = text[:40]
            verified = await call("verify_quote", id=found["id"], quote=quote)
            assert verified["match"] == ("nearest" if source != "web" else "exact")
            assert verified["content_hash"] == whole["metadata"]["content_hash"]
            assert text[verified["start"] : verified["end"]] == verified["text"]
            part = await call("fetch", id=verified["id"])
            assert verified["text"] in part["text"]
            assert part["metadata"]["start"] == str(verified["start"])
        brief = await call("research_brief", question="what does an okapi browse")
        anchored = [p for p in brief["passages"] if "start" in p]
        assert anchored
        for passage in anchored:
            source = next(s for s in brief["sources"] if s["citation"] == passage["citation"])
            part = await call("fetch", id=f"{source['id']}#{passage['start']}-{passage['end']}")
            shown = (
                passage["text"].split("\n")[1]
                if "untrusted_text" in passage["text"]
                else passage["text"]
            )
            assert shown.splitlines()[0] in part["text"]
            assert part["metadata"]["content_hash"].startswith(source["content_hash"])


def test_one_trace_shows_the_legs_side_by_side(filled):
    """Under one parent, both before either ended."""
    called = filled.command(
        "tools", "call", "search", "query=okapi traces", "--toolset", "connector"
    )
    assert called.returncode == 0, called.stderr
    shown = filled.command("trace", "--last").stdout
    for span in ("tools/call search", "tool.connector.search", "retrieval.search", "tool.web.web_search",
                 "ddg.search"):  # fmt: skip
        assert span in shown, shown


def test_ids_outlive_a_restart_of_the_edge(filled):
    """The key is in the data folder: what was found before is fetched after."""
    found = filled.command("tools", "call", "search", "query=okapi ids", "--toolset", "connector")
    ids = [r["id"] for r in json.loads(found.stdout)["results"]]
    web = next(i for i in ids if i.startswith("web:"))
    before = filled.state["processes"]["edge"]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: filled.state["processes"]["edge"] != before, timeout_s=300)

    def fetch():
        again = filled.command("tools", "call", "fetch", f"id={web}", "--toolset", "connector")
        return again if again.returncode == 0 else None

    assert "untrusted_text" in eventually(fetch, timeout_s=300).stdout
