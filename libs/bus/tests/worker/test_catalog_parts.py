"""A catalogue is offered whole, or in parts of which a change concerns one."""

from __future__ import annotations

import pytest
from msgspec import structs

from searchbus_bus.worker.catalog_parts import OfferedCatalog
from searchbus_contracts import (
    Catalog,
    CatalogPart,
    CatalogRequest,
    Fault,
    PromptDescriptor,
    PromptMessage,
    ResourceDescriptor,
    ResourceTemplate,
    TextContent,
    ToolDescriptor,
    encode,
)


def tool(number: int, description: str = "d" * 500) -> ToolDescriptor:
    return ToolDescriptor(
        name=f"tool_{number:05}", toolset="many", description=description,
        input_schema={"type": "object", "properties": {"b": {}, "a": {}}},
    )  # fmt: skip


def catalog(count: int) -> Catalog:
    return Catalog(
        service="many",
        tools=tuple(tool(number) for number in range(count)),
        prompts=(
            PromptDescriptor(
                name="p", toolset="many",
                messages=(PromptMessage(role="user", content=TextContent(text="x")),),
            ),
        ),
        resources=(ResourceDescriptor(uri="x:1", name="one", toolset="many"),),
        resource_templates=(ResourceTemplate(uri_template="x:{n}", name="n", toolset="many"),),
    )  # fmt: skip


def hashes(offered: OfferedCatalog) -> list[str]:
    return [part.hash for part in offered.reply(CatalogRequest(parts=())).parts]


def contents(offered: OfferedCatalog, wanted: list[str]) -> list[CatalogPart]:
    found: list[CatalogPart] = []
    while len(found) < len(wanted):
        found += offered.reply(CatalogRequest(parts=tuple(wanted[len(found) :]))).parts
    return found


@pytest.mark.parametrize("count", [0, 3, 300])
def test_hash_is_that_of_the_catalogue(count):
    """Replicas with an older version of this library have the same one."""
    assert OfferedCatalog(catalog(count)).digest == catalog(count).digest
    assert OfferedCatalog(Catalog(service="x")).digest == Catalog(service="x").digest


def test_older_reader_and_small_catalogue_get_the_whole():
    """Without the field `parts`, and where parts would save nothing."""
    assert OfferedCatalog(catalog(300)).reply(CatalogRequest()) == catalog(300)
    assert OfferedCatalog(catalog(3)).reply(CatalogRequest(parts=())) == catalog(3)


def test_parts_together_are_the_catalogue_in_its_order():
    """Every descriptor is in one part."""
    offered = OfferedCatalog(catalog(1000))
    parts = contents(offered, hashes(offered))
    for kind in ("tools", "prompts", "resources", "resource_templates"):
        joined = tuple(item for part in parts for item in getattr(part, kind))
        assert joined == getattr(catalog(1000), kind)


@pytest.mark.parametrize("change", ["description", "added", "removed"])
def test_one_changed_tool_changes_one_part(change):
    """At most two, where a boundary comes or goes."""
    before = catalog(1000)
    tools = list(before.tools)
    if change == "description":
        tools[500] = tool(500, "new")
    elif change == "added":
        tools.insert(500, structs.replace(tool(500), name="tool_00499_b"))
    else:
        del tools[500]
    after = OfferedCatalog(structs.replace(before, tools=tuple(tools)))
    new = set(hashes(after)) - set(hashes(OfferedCatalog(before)))
    assert 1 <= len(new) <= 2
    assert after.digest != OfferedCatalog(before).digest


def test_reply_with_parts_fits_into_one_message():
    """Of many wanted parts the first ones are sent; the reader asks again for the others."""
    offered = OfferedCatalog(catalog(2000))
    wanted = hashes(offered)
    sent = offered.reply(CatalogRequest(parts=tuple(wanted)))
    assert 0 < len(sent.parts) < len(wanted)
    assert len(encode(sent)) < 512 * 1024
    assert [part.hash for part in sent.parts] == wanted[: len(sent.parts)]


def test_unknown_parts_are_left_out():
    """The catalogue may have changed since they were listed."""
    offered = OfferedCatalog(catalog(300))
    first = hashes(offered)[0]
    assert [part.hash for part in offered.reply(CatalogRequest(parts=("0" * 32, first))).parts] == [
        first
    ]
    with pytest.raises(Fault, match="no such parts"):
        offered.reply(CatalogRequest(parts=("0" * 32,)))
