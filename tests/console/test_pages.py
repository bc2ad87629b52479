"""Every page of the console in a real browser, at an edge whose services attack it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from msgspec import structs

from searchbus_edge.auth.static_keys import KeyFile
from searchbus_runtime.pins import PinFile
from searchbus_testing import until

from .hostile import CORPUS, EVIL

pytestmark = pytest.mark.slow
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e0fff]"
)
"""What the page shows by its number, as dom.js has it."""
PAGES = [
    "overview",
    "connect",
    "catalogue",
    "catalogue/tool/say",
    "catalogue/prompt/ask",
    "search",
    "search?q=gloves",
    "documents",
    "documents/hostile",
    "documents/hostile/d1",
    "traces",
    f"traces/{'ab' * 16}",
    "attached",
    "attached/odd",
]


OF_THEMES = ("color-contrast", "link-in-text-block")
"""Rules of axe-core that look at colors: a theme changes nothing else."""


@pytest.mark.parametrize("width", [390, 800, 1280])
async def test_page_is_accessible_and_keeps_its_policy(serve_console, visit, axe, width, tmp_path):
    """In both themes and three widths: nothing is blocked, asked elsewhere, or cut off."""
    _write_trace(tmp_path / "traces.jsonl")
    console = await serve_console()
    tab = await visit(console.url, console.token, width=width)
    for path in PAGES:
        await tab.page.emulate_media(color_scheme="light")
        await tab.go(path)
        await tab.page.wait_for_timeout(300)
        await tab.accessible(axe)
        await tab.page.emulate_media(color_scheme="dark")
        await tab.accessible(axe, *OF_THEMES)
        await tab.check()
        assert await tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


async def test_tool_is_called_by_its_form(serve_console, visit):
    """Its progress, its log and its result are text, whatever they hold."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    await tab.go("catalogue/tool/say")
    page = tab.page
    await page.fill("#f-text", "hello")
    await page.get_by_text("more arguments").click()
    await page.fill("#f-times", "3")
    await page.fill("#f-tags", "a\nb")
    await page.get_by_role("button", name="Call", exact=True).click()
    await page.wait_for_selector(".badge.ok >> text=ok")
    answer = await page.inner_text("[aria-live=polite][aria-busy]")
    assert '"times": 3' in answer
    for text in CORPUS:
        assert json.dumps(as_shown(text), ensure_ascii=False)[1:-1] in answer, text
    await tab.check()
    await page.fill("#f-times", "9")
    await page.evaluate("document.querySelector('form').noValidate = true")
    await page.get_by_role("button", name="Call", exact=True).click()
    await page.wait_for_selector(".badge.bad >> text=invalid_argument")


def as_shown(text: str) -> str:
    """How a page shows text of others: controls and invisible characters by their number."""
    return HIDDEN.sub(lambda c: f"\u27e8{ord(c[0]):04X}\u27e9", text)


async def test_prompt_is_filled_in_by_its_form(serve_console, visit, axe):
    """Its messages are text."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    await tab.go("catalogue/prompt/ask")
    await page.fill("#f-word", f"gloves {CORPUS[0]}")
    await page.get_by_role("button", name="Fill in", exact=True).click()
    await page.wait_for_selector(".badge.ok >> text=ok")
    answer = page.locator("[aria-live=polite][aria-busy]")
    assert f"<b>gloves {CORPUS[0]}</b>" in await answer.locator("pre").last.inner_text()
    await tab.accessible(axe)
    await tab.check()


async def test_resource_of_a_template_is_read_by_its_variables(serve_console, visit, axe):
    """Each is a field; the URI has them as RFC 6570 says. The reason of a failure is text, too."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    await tab.go(f"catalogue/resource/{quote('hostile://{+path}/x{?q}', safe='')}")
    await page.fill("#f-path", "a/b c")
    await page.fill("#f-q", "1&2")
    await page.get_by_role("button", name="Read", exact=True).click()
    await page.wait_for_selector(".badge.ok >> text=ok")
    answer = page.locator("[aria-live=polite][aria-busy]")
    await answer.get_by_role("heading", name="hostile://a/b%20c/x?q=1%262").wait_for()
    await answer.get_by_text("3 bytes").wait_for()
    for text in CORPUS:
        assert as_shown(text) in await answer.inner_text(), text
    await tab.accessible(axe)
    await page.fill("#f-path", "fail")
    await page.fill("#f-q", "")
    await page.get_by_role("button", name="Read", exact=True).click()
    await page.wait_for_selector(".badge.bad >> text=invalid_argument")
    assert CORPUS[0] in await answer.inner_text()
    await tab.check()


async def test_held_change_is_read_and_approved(serve_console, visit, tmp_path):
    """Only with the token that the command adds to the address."""
    console = await serve_console(hold_changes=("*",))
    view = console.edge.registry.view("hostile")
    pins = PinFile(tmp_path / "pins.json")
    before = structs.replace(view.tools["say"].descriptor, description="Harmless.")
    with pins.changing() as pinned:
        pinned.toolsets["hostile"].tools.pop("say", None)
        pinned.approve("hostile", "hostile", [before])
    stranger = await visit(console.url)
    button = stranger.page.get_by_role("button", name="Review")
    await button.click()
    assert await stranger.page.get_by_role("button", name="Approve").is_disabled()
    tab = await visit(console.url, console.token)
    await tab.page.get_by_role("button", name="Review").click()
    assert "Harmless." in await tab.page.inner_text(".diff .del >> nth=1")
    await tab.page.get_by_role("button", name="Approve").click()
    await tab.page.locator("tr", has_text="hostile.say").wait_for(state="detached")
    assert pins.read().toolsets["hostile"].tools["say"].tool.description != "Harmless."
    await tab.check()


async def test_held_change_is_refused_and_waits_for_nobody(serve_console, visit, tmp_path):
    """Its calls stay refused; another held change still waits."""
    console = await serve_console(hold_changes=("*",))
    view = console.edge.registry.view("hostile")
    pins = PinFile(tmp_path / "pins.json")
    with pins.changing() as pinned:
        for name in ("say", "whisper"):
            before = structs.replace(view.tools[name].descriptor, description="Harmless.")
            pinned.approve("hostile", "hostile", [before])
    tab = await visit(console.url, console.token)
    page = tab.page
    row = page.locator("tr", has_text="hostile.say")
    await row.get_by_role("button", name="Review").click()
    await page.get_by_role("button", name="Refuse").click()
    await row.wait_for(state="detached")
    assert await page.locator("tr", has_text="hostile.whisper").count() == 1
    read = pins.read().toolsets["hostile"]
    assert set(read.refused) == {"say"}
    assert read.tools["say"].tool.description == "Harmless."
    await tab.check()


async def test_key_is_made_shown_once_and_revoked(serve_console, visit, tmp_path):
    """The page signs in by a key; the new one works until it is revoked."""
    admin, _ = KeyFile(tmp_path / "keys.json").add("admin", ("*",))
    console = await serve_console(auth="static")
    tab = await visit(console.url)
    page = tab.page
    await page.fill("#key", admin)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_selector(".page.overview h1")
    await tab.go("connect")
    await page.fill("#key-name", "<b>laptop</b>")
    await page.fill("#key-roles", "SECRET-ROLE")
    await page.get_by_role("button", name="What would it see?").click()
    await page.wait_for_selector(".chips >> text=secret_tool")
    await page.get_by_role("button", name="Make a key").click()
    await page.wait_for_selector(".note.ok")
    key = (await page.inner_text(".note.ok pre")).strip()
    await page.get_by_role("tab", name="Cursor").click()
    assert key in await page.inner_text("#snippet")
    async with httpx.AsyncClient(base_url=console.url) as http:
        sent = {"Authorization": f"Bearer {key}"}

        async def answers(status: int) -> bool:
            # A change of the file counts within a second.
            return (await http.get("/console/api/me", headers=sent)).status_code == status

        await until(lambda: answers(200))
        assert (await http.get("/console/api/me", headers=sent)).json()["sees"] is False
        await page.locator("tr", has_text="<b>laptop</b>").get_by_text("Revoke").click()
        await page.get_by_role("button", name="Revoke it").click()
        await page.locator("tr", has_text="<b>laptop</b>").wait_for(state="detached")
        await until(lambda: answers(401))
    await tab.check()


async def test_client_that_arrives_is_shown(serve_console, visit):
    """Live, with the name that it gives itself, as text."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    await tab.go("connect")
    await tab.page.wait_for_selector("text=Waiting for a client")
    async with httpx.AsyncClient(headers={"User-Agent": f"Evil {CORPUS[0]}"}) as http:
        await _list_tools(http, console.url)
    await tab.page.wait_for_selector(f"text=Evil {CORPUS[0]}")
    await tab.check()


async def _list_tools(http: httpx.AsyncClient, url: str) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    return await http.post(f"{url}/mcp", json=body, headers=accept)


async def test_keyboard_alone_reaches_everything(serve_console, visit):
    """`?` lists the keys, `g` goes to pages, `/` filters, `j` and `k` move, Enter opens."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    await page.wait_for_selector(".page.overview h1")
    await page.keyboard.press("?")
    await page.wait_for_selector("dialog[open] >> text=Keys")
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await page.wait_for_selector(".page.catalogue h1")
    await page.keyboard.press("/")
    await page.keyboard.type("whis")
    await until(lambda: page.locator("tbody tr").count(), message="the filter")
    await page.locator("tbody tr >> nth=1").wait_for(state="detached")
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("h1 >> text=whisper")
    await tab.check()


async def test_page_that_is_still_read_does_not_take_the_focus(serve_console, visit):
    """Whoever writes into its filter meanwhile goes on there."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    await page.wait_for_selector(".page.overview h1")
    held = asyncio.Event()

    async def hold(route: Any) -> None:
        await held.wait()
        await route.continue_()

    await page.route("**/console/api/catalogue?*", hold)
    await tab.go("catalogue")
    await page.keyboard.press("/")
    held.set()
    await page.wait_for_selector("tbody tr")
    await page.wait_for_timeout(200)
    assert await page.evaluate("document.activeElement.matches('[data-search]')")
    await tab.check()


async def test_search_shows_why_and_keeps_judgements(serve_console, visit, axe, tmp_path):
    """Each part by itself: a part that fails says why. A judgement is a line that the bench reads."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    await tab.go("search")
    await page.fill("#query", "gloves <b>needed</b>")
    await page.get_by_role("button", name="Search", exact=True).click()
    documents = page.locator("section", has=page.get_by_role("heading", name="Documents"))
    await documents.locator(".passage").first.wait_for()
    assert await documents.locator("mark").first.inner_text() == "gloves"
    await documents.locator("summary", has_text="Score").first.click()
    scores = await documents.locator(".scores").first.inner_text()
    assert "meaning" in scores
    assert "literal" in scores
    tools = page.locator("section", has=page.get_by_role("heading", name="Tools"))
    await tools.get_by_text("No tool index is running").wait_for()
    await documents.get_by_role("button", name="Fits").first.click()
    await page.wait_for_selector(".toast.ok")
    file = tmp_path / "judgements" / "documents" / "queries.jsonl"
    line = json.loads(file.read_text())
    assert line == {
        "text": "gloves <b>needed</b>", "relevant": ["hostile/d1/c1"], "irrelevant": [],
    }  # fmt: skip
    await documents.get_by_role("button", name="Fits").first.click()
    await until(lambda: file.read_text() == "")
    await page.get_by_role("button", name="Compare two settings").click()
    filters = page.get_by_label("Filter of documents, second")
    await filters.fill("[1]")
    await page.get_by_role("button", name="Search", exact=True).click()
    await page.get_by_text("The filter is not a JSON object").wait_for()
    await filters.fill('{"year": 2020}')
    await page.get_by_label("One of each document").nth(1).check()
    await page.get_by_role("button", name="Search", exact=True).click()
    second = page.locator("section", has=page.get_by_role("heading", name="Documents, second"))
    await second.get_by_text("{'year': 2020} True").wait_for()
    assert await page.locator("section.card", has_text="None False").count() == 1
    await tab.accessible(axe)
    await tab.check()


async def test_passages_of_a_document_are_read_and_the_document_is_deleted(
    serve_console, visit, axe
):
    """Page by page, each as text; deleted only after a question."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    await tab.go("documents/hostile/d1")
    passages = page.locator("section", has=page.get_by_role("heading", name="Passages"))
    await passages.locator(".hit").first.wait_for()
    assert await passages.locator(".hit").count() == 20
    for text in CORPUS:
        if text.isprintable():
            assert text in await passages.locator(".passage").first.inner_text()
    await passages.get_by_role("button", name="Next").click()
    await passages.get_by_text("passage 20 ").wait_for()
    await passages.get_by_role("button", name="Next").click()
    await passages.get_by_text("passage 44 ").wait_for()
    assert await passages.get_by_role("button", name="Next").is_disabled()
    await tab.accessible(axe)
    await passages.get_by_role("link").first.click()
    await page.locator(".text mark").wait_for()
    await page.get_by_role("button", name="Delete this document").click()
    await page.get_by_role("button", name="Keep it").click()
    await page.get_by_role("button", name="Delete this document").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_text("The collection is empty.").wait_for()
    await tab.check()


_DROP = """names => {
    const files = new DataTransfer();
    for (const name of names) files.items.add(new File(["x"], name));
    const event = new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
    document.querySelector(".drop").dispatchEvent(event);
}"""


async def test_dropped_file_with_a_hostile_name_is_refused_by_name(
    serve_console, visit, axe, tmp_path
):
    """What leads elsewhere, hides or is too long is refused and says which; markup is a name."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    await tab.go("documents")
    long = "<b>" * 1333 + "x"
    refused = {
        "\u202egnp.exe": "U+202E",
        "a\u2066b.md": "U+2066",
        "\x1b[31mred.md": "U+001B",
        "\x1b]8;;http://evil.example\x07link.md": "U+001B",
        "../../keys.json": "a path",
        "a\\..\\b.md": "a path",
        long: "longer than 200 bytes",
        "\U0001f512" * 51: "longer than 200 bytes",
    }
    markup = [text for text in CORPUS if text.isprintable() and "/" not in text]
    assert len(markup) >= 5
    await page.evaluate(_DROP, [*refused, *markup])
    rows = page.locator(".files li")
    await until(lambda: _count_is(rows.locator(".badge"), len(refused) + len(markup)))
    shown = [await row.inner_text() for row in await rows.all()]
    for row, (name, why) in zip(shown, refused.items(), strict=False):
        assert row.startswith(as_shown(name[:120])), name
        assert "is not stored" in row, row
        assert why in row, row
        assert repr(name[:60])[1:-1] in row.partition("failed")[2], row
        assert len(row) < 800
    for row, name in zip(shown[len(refused) :], markup, strict=True):
        assert row.startswith(name), row
        assert f"{name} was not stored" in row, row  # there is no stack behind this edge
    kept = [file.name for file in (tmp_path / "dropped" / "docs").iterdir()]
    assert sorted(kept) == sorted(markup)
    await tab.accessible(axe)
    await tab.check()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def _count_is(locator: Any, wanted: int) -> bool:
    return await locator.count() == wanted


async def test_attached_server_that_attacks_is_shown_as_text(serve_console, visit):
    """Its state, its tools, its held change, what it printed, and its view."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    await tab.go("attached/odd")
    await page.get_by_role("button", name="Read its log").click()
    log = await page.locator("pre[aria-label='Standard error']").inner_text()
    diff = await page.locator(".diff").inner_text()
    state = await page.locator(
        "section", has=page.get_by_role("heading", name="State")
    ).inner_text()
    for text in CORPUS:
        assert as_shown(text) in log, text
        assert as_shown(text) in diff, text
        assert as_shown(text).split("<")[0] in state, text
    view = page.locator("section", has=page.get_by_role("heading", name="What callers see"))
    await view.get_by_text("This is what callers see now.").wait_for()
    assert await page.input_value("#view") == EVIL
    shown = await view.inner_text()
    for text in CORPUS:
        assert shown.count(as_shown(text)) >= 5, text
    await page.get_by_role("button", name="Show all").click()
    await tab.check()


async def test_change_that_was_folded_stays_folded_when_the_page_is_drawn_again(
    serve_console, visit
):
    """Nothing moves under the hand of somebody who reads."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    await tab.go("attached/odd")
    change = tab.page.locator("details:has(.diff)")
    await change.locator("summary").click()
    async with tab.page.expect_response(
        lambda answer: "diff" in (answer.request.post_data or "")
    ) as drawn:
        await tab.page.get_by_role("button", name="Restart").click()
    await (await drawn.value).finished()
    await tab.page.evaluate("() => new Promise((done) => setTimeout(done, 100))")
    assert await change.get_attribute("open") is None


async def test_view_that_somebody_changes_is_not_overwritten_by_a_late_reply(serve_console, visit):
    """The text that counts is asked for when the page opens, and at each event."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    asked, held = asyncio.Event(), asyncio.Event()

    async def hold(route: Any) -> None:
        if route.request.post_data_json["action"] == "view":
            asked.set()
            await held.wait()
        await route.continue_()

    await page.route("**/console/api/attached", hold)
    await tab.go("attached/odd")
    await asked.wait()
    async with page.expect_response(_is_view):
        await page.fill("#view", "deny = []")
        held.set()
    view = page.locator("section", has=page.get_by_role("heading", name="What callers see"))
    await view.get_by_text("saved yet").or_(view.get_by_text("callers see now")).wait_for()
    assert await page.input_value("#view") == "deny = []"
    await tab.check()


async def test_view_that_somebody_goes_on_changing_while_it_is_saved_can_be_saved_again(
    serve_console, visit
):
    """What is typed before the saved view is read again stays, and its next save is no conflict."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    texts, refused = [""], []
    asked, held = asyncio.Event(), asyncio.Event()

    async def answer(route: Any) -> None:
        request = route.request.post_data_json
        if request["action"] == "save_view":
            if request["digits"] == [str(len(texts))]:
                texts.append(request["text"])
            else:
                refused.append(request)
        elif request["action"] == "view" and len(texts) == 2:
            asked.set()
            await held.wait()
        elif request["action"] not in ("view", "preview"):
            return await route.continue_()
        found = {"text": texts[-1], "stamp": str(len(texts)), "view": {}}
        return await route.fulfill(json=found)

    await page.route("**/console/api/attached", answer)
    await tab.go("attached/odd")
    view = page.locator("section", has=page.get_by_role("heading", name="What callers see"))
    save = view.get_by_role("button", name="Save the view")
    await view.get_by_text("This is what callers see now.").wait_for()
    await page.fill("#view", "deny = []")
    await save.click()
    await asked.wait()
    await page.fill("#view", "deny = [1]")
    async with page.expect_response(_is_view):
        held.set()
    await save.click()
    await until(lambda: len(texts) == 3 or refused)
    assert (texts[1:], refused) == (["deny = []", "deny = [1]"], [])


async def test_view_of_a_server_without_tools_is_edited_too(serve_console, visit):
    """Of what is empty a reply has nothing, as here the preview."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page

    async def answer(route: Any) -> None:
        if route.request.post_data_json["action"] not in ("view", "preview"):
            return await route.continue_()
        return await route.fulfill(json={"stamp": "1"})

    await page.route("**/console/api/attached", answer)
    await tab.go("attached/odd")
    view = page.locator("section", has=page.get_by_role("heading", name="What callers see"))
    await view.get_by_text("This is what callers see now.").wait_for()
    await page.fill("#view", "deny = []")
    await view.get_by_text("No tool changes. Nothing is saved yet.").wait_for()
    await tab.check()


async def test_saved_view_counts_where_reading_it_again_failed_once(serve_console, visit):
    """The service may start again meanwhile."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    texts, failed = [""], []

    async def answer(route: Any) -> None:
        request = route.request.post_data_json
        if request["action"] == "save_view":
            texts.append(request["text"])
        elif request["action"] == "view" and len(texts) == 2 and not failed:
            failed.append(request)
            return await route.fulfill(status=503, json={"detail": "It starts."})
        elif request["action"] not in ("view", "preview"):
            return await route.continue_()
        found = {"text": texts[-1], "stamp": str(len(texts)), "view": {}}
        return await route.fulfill(json=found)

    await page.route("**/console/api/attached", answer)
    await tab.go("attached/odd")
    view = page.locator("section", has=page.get_by_role("heading", name="What callers see"))
    await view.get_by_text("This is what callers see now.").wait_for()
    await page.fill("#view", "deny = []")
    await view.get_by_text("Nothing is saved yet.").wait_for()
    await view.get_by_role("button", name="Save the view").click()
    await until(lambda: bool(failed))
    await view.get_by_text("This is what callers see now.").wait_for()
    assert await page.input_value("#view") == "deny = []"


def _is_view(response: Any) -> bool:
    asked = response.request.post_data_json
    return isinstance(asked, dict) and asked.get("action") == "view"


async def test_page_is_live_again_after_a_new_sign_in(serve_console, visit, tmp_path):
    """A token expires while the page is open; the next one is given in the same tab."""
    key, _ = KeyFile(tmp_path / "keys.json").add("admin", ("*",))
    console = await serve_console(auth="static")
    tab = await visit(console.url)
    page = tab.page
    refused = {"events", "entry"}

    async def answer(route: Any) -> None:
        name = route.request.url.partition("?")[0].rpartition("/")[2]
        if name not in refused:
            return await route.continue_()
        return await route.fulfill(status=401, json={"detail": "Expired. Sign in again."})

    await page.route("**/console/api/*", answer)
    await page.fill("#key", key)
    async with page.expect_response("**/console/api/events"):
        await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_selector(".page.overview h1")
    await page.evaluate("location.hash = '#/catalogue/tool/say'")
    await page.get_by_role("heading", name="Sign in").wait_for()
    refused.clear()
    await page.fill("#key", key)
    await page.get_by_role("button", name="Sign in").click()
    await page.locator("#state", has_text="for you").wait_for()


async def test_address_that_was_typed_wrongly_is_answered(serve_console, visit):
    """A percent sign alone is no encoded character."""
    console = await serve_console()
    tab = await visit(console.url, console.token)
    await tab.go("overview")
    await tab.page.evaluate("location.hash = '#/catalogue/tool/100%'")
    await tab.page.get_by_text("There is no such tool.").wait_for()
    await tab.check()


async def test_trace_is_a_waterfall(serve_console, visit, axe, tmp_path):
    """From the list to a span; names, errors and attributes of others are text."""
    _write_trace(tmp_path / "traces.jsonl")
    console = await serve_console()
    tab = await visit(console.url, console.token)
    page = tab.page
    await tab.go("traces")
    await page.fill("[data-search]", "say")
    await page.locator("tbody tr", has_text="tools/call say").get_by_role("link").click()
    await page.wait_for_selector("svg.waterfall")
    assert await page.locator(".spans tbody tr").count() == 3
    widths = await page.locator(".waterfall rect").evaluate_all(
        "all => all.map(r => r.width.baseVal.value)"
    )
    assert widths[0] > widths[1] > widths[2] > 0
    await page.locator(".span").nth(2).click()
    await page.get_by_text("evil.attribute").wait_for()
    await tab.accessible(axe)
    await tab.check()


def _write_trace(file: Path) -> None:
    evil = EVIL
    spans = [
        ("aa", None, "tools/call say", "edge", 0, 100, None),
        ("bb", "aa", f"request {evil}", "edge", 10, 80, None),
        ("cc", "bb", f"tool.hostile.say {CORPUS[5]}", "<b>hostile</b>", 20, 30, evil),
    ]
    lines = [
        {
            "trace_id": "ab" * 16, "span_id": span, "parent_id": parent, "name": name,
            "kind": "server", "service": service, "start_ns": start * 10**6,
            "end_ns": (start + length) * 10**6, "error": error,
            "attributes": {"evil.attribute": evil, "number": 1},
        }
        for span, parent, name, service, start, length, error in spans
    ]  # fmt: skip
    file.write_text(
        "".join(json.dumps(line) + "\n" for line in lines) + '{"name": "\\ud800"}\n{"torn": '
    )
