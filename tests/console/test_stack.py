"""The console of a whole stack: documents are dropped and deleted, servers attached and changed."""

from __future__ import annotations

import asyncio
import json
import sys
import tomllib
import webbrowser

import httpx
import pytest

from searchbus_testing import until

from .hostile import CORPUS

pytestmark = pytest.mark.slow
_SERVER = """
import json, os, sys
print({evil!r}, file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {{}}
    if message["method"] == "initialize":
        result = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
                  "serverInfo": {{"name": {evil!r}, "version": "1"}}}}
    elif message["method"] == "tools/list":
        text = open({said!r}).read()
        result = {{"tools": [{{"name": "echo", "description": text, "inputSchema": {{"type": "object"}}}}]}}
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
"""


@pytest.fixture
def stack(start_stack, tmp_path):
    """A stack whose data folder has a token for the console."""
    return start_stack(tmp_path / "data", "--fake-upstreams")


@pytest.fixture
async def tab(stack, visit, monkeypatch):
    """A tab at its console, opened as the command does it: by a file."""
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    await asyncio.to_thread(stack.command, "console")
    found = await visit(stack.url)
    await found.page.goto(opened[0])
    await found.page.wait_for_url(f"{stack.url}/console#/overview")
    found.foreign.remove(opened[0])
    return found


async def test_clients_of_every_edge_arrive_at_each_console(start_stack, tmp_path):
    """With two edges behind one port; their callers are shown to operators."""
    stack = await asyncio.to_thread(
        start_stack, tmp_path / "two", "--scale", "edge=2", "--fake-upstreams"
    )
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    wanted = {f"client-{number}" for number in range(12)}
    seen: set[str] = set()
    async with (
        httpx.AsyncClient(timeout=None) as http,
        http.stream("GET", f"{stack.url}/console/api/events") as events,
    ):
        lines = (line[6:] async for line in events.aiter_lines() if line.startswith("data: "))
        await anext(lines)

        async def arrive() -> None:
            """Until they are seen: an edge that answers its first question late notes none before."""
            while wanted - seen:
                for name in wanted - seen:  # by new connections: the kernel spreads them
                    headers = {**accept, "User-Agent": name}
                    async with httpx.AsyncClient(headers=headers, timeout=60) as client:
                        assert (await client.post(f"{stack.url}/mcp", json=body)).status_code == 200
                await asyncio.sleep(1)

        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(arrive())
            async for line in lines:
                changed = json.loads(line)
                seen |= {
                    value["program"]
                    for key, value in changed.items()
                    if key.startswith("client/") and value
                }
                if wanted <= seen:
                    break


async def test_documents_are_dropped_read_found_and_deleted(tab, axe, tmp_path):
    """By the real service; a file without text says why it is left out."""
    page = tab.page
    files = []
    for name, text in (
        ("gloves.md", f"# Gloves\n\nWear gloves when cutting metal. {CORPUS[0]} {CORPUS[1]}\n"),
        ("noise.bin", "\x00\x01"),
    ):
        file = tmp_path / name
        file.write_text(text)
        files.append(file)
    await tab.go("documents")
    await page.get_by_text("There is no collection.").wait_for()
    await page.fill("#collection", "kit")
    await page.set_input_files("#files", files)
    await page.locator("li", has_text="gloves.md").locator(".badge.ok").wait_for()
    refused = page.locator("li", has_text="noise.bin").locator(".badge")
    await refused.wait_for()
    assert await refused.inner_text() in ("skipped", "failed")
    await tab.accessible(axe)
    await page.locator("tbody").get_by_role("link", name="kit").click()
    await page.get_by_role("link", name="Gloves").click()
    await page.wait_for_selector(".text")
    assert CORPUS[1] in await page.inner_text(".text")
    await tab.accessible(axe)
    await tab.go("search?q=when%20are%20gloves%20needed")
    documents = page.locator("section", has=page.get_by_role("heading", name="Documents"))
    await documents.get_by_role("link", name="Gloves").first.click()
    await page.locator(".text mark").wait_for()
    await page.get_by_role("button", name="Delete this document").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_text("The collection is empty.").wait_for()
    await page.get_by_role("button", name="Delete the collection").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_text("There is no collection.").wait_for()
    await tab.check()


async def test_server_is_attached_changed_approved_and_removed(stack, tab, axe, tmp_path):
    """From pasted JSON on; its name, its log and its changes are text."""
    page, said, program = tab.page, tmp_path / "said", tmp_path / "server.py"
    said.write_text("Harmless.")
    program.write_text(_SERVER.format(evil=" ".join(CORPUS), said=str(said)))
    servers = {"mcpServers": {"odd": {"command": sys.executable, "args": ["-I", str(program)]}}}
    await tab.go("attached")
    await page.fill("#servers", json.dumps(servers))
    await page.get_by_role("button", name="Attach", exact=True).click()
    await page.locator("dialog").get_by_role("button", name="Attach").click()
    await page.get_by_role("link", name="odd").click(timeout=120_000)
    await page.get_by_role("link", name="odd__echo").wait_for()
    await page.get_by_role("button", name="Read its log").click()
    await page.locator("pre[aria-label='Standard error']").wait_for()
    assert CORPUS[1] in await page.inner_text("pre[aria-label='Standard error']")
    said.write_text(f"Harmful. {CORPUS[0]}")
    await page.get_by_role("button", name="Restart").click()
    await page.locator(".diff .add", has_text="Harmful.").wait_for()
    await tab.accessible(axe)
    await tab.check()
    await page.get_by_role("button", name="Refuse", exact=True).click()
    # It is folded then, and can still be approved.
    await page.locator("summary", has_text="refused").click()
    await page.get_by_role("button", name="Approve").click()
    await page.get_by_text("Nothing differs from what was approved.").wait_for()
    log = await asyncio.to_thread(stack.command, "attach", "logs", "odd")
    assert "\x1b" not in log.stdout
    assert CORPUS[1] in log.stdout
    again = await asyncio.to_thread(stack.command, "attach", "restart", "odd")
    assert again.returncode == 0, again.stderr
    await _view_is_edited(stack, tab, axe)
    await page.get_by_role("button", name="Remove").click()
    await page.get_by_role("button", name="Remove it").click()
    await page.get_by_text("No server is attached.").wait_for()
    await until(lambda: "odd" not in (stack.data / "attach.toml").read_text())
    await page.fill("#one-name", "even")
    await page.fill("#one-target", sys.executable)
    await page.fill("#one-args", f"-I\n{program}")
    await page.fill("#one-pairs", "WORD=a=b")
    await page.get_by_role("button", name="Attach it").click()
    await page.locator("dialog").get_by_role("button", name="Attach").click()
    await page.get_by_text("Attached: even.").wait_for()
    added = tomllib.loads((stack.data / "attach.toml").read_text())["servers"]["even"]
    assert (added["args"], added["env"]) == (["-I", str(program)], {"WORD": "a=b"})
    await page.get_by_role("link", name="even").wait_for(timeout=120_000)
    await tab.check()


async def _view_is_edited(stack, tab, axe):
    """What callers would see is shown before it is saved; the command line has the same view."""
    page = tab.page
    view = page.locator("section", has=page.get_by_role("heading", name="What callers see"))
    save = view.get_by_role("button", name="Save the view")
    await view.get_by_text("This is what callers see now.").wait_for()
    await page.fill("#view", "alow = []")
    await view.get_by_text("Did you mean 'allow'").wait_for()
    assert await save.is_disabled()
    text = f"[tools.echo]\nname = 'again'\ndescription = {json.dumps(CORPUS[0])}\n"
    await page.fill("#view", text)
    await view.get_by_text("1 tool changes. Nothing is saved yet.").wait_for()
    row = await view.locator("tbody tr").inner_text()
    assert "odd__again" in row
    assert CORPUS[0] in row
    assert "again" not in (stack.data / "attach.toml").read_text()
    await tab.accessible(axe)
    await save.click()
    await page.get_by_role("link", name="odd__again").wait_for()
    assert await page.input_value("#view") == text
    said = await asyncio.to_thread(stack.command, "attach", "view", "odd")
    assert "name = 'again'" in said.stdout
    file = stack.data / "view.toml"
    file.write_text("deny = ['*']\n")
    shown = await asyncio.to_thread(stack.command, "attach", "view", "odd", str(file))
    assert shown.stdout == "echo  not listed  changed: not listed any more\n", shown.stderr
    assert await page.get_by_role("link", name="odd__again").count() == 1
    saved = await asyncio.to_thread(stack.command, "attach", "view", "odd", str(file), "--save")
    assert saved.returncode == 0, saved.stderr
    await page.get_by_role("link", name="odd__again").wait_for(state="detached")
    # The list of tools is drawn first; the text of the view is asked for after it.
    await page.wait_for_function("document.getElementById('view').value === \"deny = ['*']\\n\"")
    await tab.check()
