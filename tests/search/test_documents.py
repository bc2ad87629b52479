"""Documents as resources: listed page by page, read whole, found by content."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from .conftest import add_document
from .test_search_methods import ResourcesSearch, ask, raw


@pytest.mark.parametrize("stack", [{"page_size": 7}], indirect=True)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.slow
async def test_every_document_is_listed_once(stack, mode):
    """Over several collections and pages, whatever the ids."""
    for i in range(17):
        await add_document(stack.library, "beta", f"b {i}/ü?#", f"Beta {i}", f"Text of beta {i}.")
    for i in range(14):
        await add_document(stack.library, "alpha", f"a{i}", f"Alpha {i}", f"Text of alpha {i}.")
    async with Client(f"{stack.url}/mcp", mode=mode) as client:
        uris, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            assert len(page.resources) <= 7
            uris += [resource.uri for resource in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(uris) == len(set(uris)) == 31
        texts = {(await client.read_resource(uri)).contents[0].text for uri in uris}
        assert len(texts) == 31
        templates = (await client.list_resource_templates()).resource_templates
        assert "searchbus://{collection}/{document_id}" in [t.uri_template for t in templates]
        with pytest.raises(MCPError):
            await client.list_resources(cursor="bm9uc2Vuc2U")


@pytest.mark.parametrize(
    "uri",
    ["searchbus://zoo/none", "searchbus://none/x", "searchbus://zoo/", "searchbus://zoo", "zoo",
     "searchbus://zoo/a/b", "searchbus://../x", "searchbus://zoo/%6fkapi", "searchbus://zoo/%zz",
     "searchbus://zoo/" + "x" * 3000, "file:///etc/passwd"],
)  # fmt: skip
async def test_unknown_document_is_not_found(stack, uri):
    """Each document has one URI; every other spelling is not found."""
    await add_document(stack.library, "zoo", "okapi", "The okapi", "It eats leaves.")
    answer = await raw(f"{stack.url}/mcp", "resources/read", {"uri": uri})
    assert answer["error"]["code"] in (-32002, -32602)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_search_finds_by_content_and_pages(stack, mode):
    """Not by title alone; each document once; no match, no documents."""
    animals = {
        "okapi": "browses leaves in the rain forest",
        "penguin": "dives for fish in icy seas",
    }
    for name, habit in animals.items():
        await add_document(stack.library, "zoo", name, f"Notes {name[0]}", f"This animal {habit}.")
    for i in range(25):
        await add_document(stack.library, "log", f"d{i}", f"Day {i}", f"Fed the fish on day {i}.")
    async with Client(f"{stack.url}/mcp", mode=mode) as client:
        first = await ask(client, ResourcesSearch, "which animal browses leaves in the forest")
        assert first.resources[0].uri == "searchbus://zoo/okapi"
        assert first.resources[0].mime_type == "text/plain"
        seen, cursor = [], None
        while True:
            page = await ask(client, ResourcesSearch, "feeding the fish", cursor)
            assert len(page.resources) <= 10
            seen += [resource.uri for resource in page.resources]
            if page.next_cursor is None:
                break
            cursor = page.next_cursor
        assert len(seen) == len(set(seen)) > 20
        await add_document(stack.library, "log", "new", "Day", "Fed the fish, feeding the fish.")
        with pytest.raises(MCPError) as caught:
            await ask(client, ResourcesSearch, "feeding the fish", cursor)
        assert caught.value.error.code == -32602
        nothing = await ask(client, ResourcesSearch, "settings of the diesel engine's turbocharger")
        assert nothing.resources == []
