"""The connector in a whole stack: local files, FOMC-like documents and the web, in one answer."""

from __future__ import annotations

import httpx
import pytest
from mcp import Client

from .test_ddg import fakes

__all__ = ["fakes"]


@pytest.fixture(scope="module")
def filled(fakes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes")
    (folder / "okapi.md").write_text(
        "# Okapis\n\nThe okapi browses leaves in the rain forest of Ituri.\n"
    )
    (folder / "bus.md").write_text("# Timetable\n\nThe bus to Oxford leaves at noon.\n")
    done = fakes.command("ingest", str(folder), "--collection", "notes")
    assert done.returncode == 0, done.stderr
    return fakes


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_own_folder_shows_up_in_search_with_no_other_step(filled, mode):
    """First, with a url that opens, beside results of the web; fetch gives the whole text."""
    async with Client(filled.state["url"] + "/mcp/connector", mode=mode) as client:
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
    import json
    import os
    import signal
    import time

    found = filled.command("tools", "call", "search", "query=okapi ids", "--toolset", "connector")
    ids = [r["id"] for r in json.loads(found.stdout)["results"]]
    web = next(i for i in ids if i.startswith("web:"))
    before = filled.state["processes"]["edge"]
    os.kill(before, signal.SIGKILL)
    give_up_s = time.monotonic() + 60
    while True:
        time.sleep(0.5)
        assert time.monotonic() < give_up_s
        again = filled.command("tools", "call", "fetch", f"id={web}", "--toolset", "connector")
        if filled.state["processes"]["edge"] != before and again.returncode == 0:
            break
    assert "untrusted_text" in again.stdout
