"""Facts of pages, and JSON Schemas filled from them."""

from __future__ import annotations

import json

import pytest

from searchbus_pages import TooComplexError
from searchbus_web.extraction.facts import (
    MAX_FACTS_BYTES,
    MAX_ITEMS,
    MAX_LINKS,
    MAX_VALUES,
    Facts,
    encoded,
    read_facts,
)
from searchbus_web.extraction.filling import MAX_DEPTH, fill

URL = "https://shop.example.org/p/1"
PRODUCT = {
    "@context": "https://schema.org", "@type": "Product", "name": "Okapi <b>toy</b>", "sku": 17,
    "brand": {"@type": "Brand", "name": "Zoo"}, "image": ["/a.png", "/b.png"],
    "offers": {"@type": "Offer", "price": "1.299,00", "priceCurrency": "EUR",
               "availability": "https://schema.org/InStock"},
    "aggregateRating": {"ratingValue": "4.5", "reviewCount": "12"},
}  # fmt: skip


def page(body: str = "", *scripts: object, head: str = "") -> str:
    ld = "".join(f'<script type="application/ld+json">{json.dumps(s)}</script>' for s in scripts)
    return f"<html lang=en><head><title>Shop</title>{head}{ld}</head><body>{body}</body></html>"


def filled(html: str, properties: dict, **schema):
    return fill(read_facts(html, URL), {"type": "object", "properties": properties, **schema}, URL)


def test_half_a_character_costs_no_fact():
    """Sites cut texts in the middle of an escaped one; all facts, and the page, would be lost."""
    facts = read_facts(page("", {"@type": "Product", "name": "Okapi \ud83d"}), URL)
    assert b'"name":"Okapi ?"' in encoded(facts)


def test_json_ld_fills_a_schema_and_says_where_from():
    """Nested values, other names, numbers in words, addresses made absolute."""
    found = filled(
        page("", PRODUCT),
        {
            "name": {"type": "string"}, "sku": {"type": "string"}, "brand": {"type": "string"},
            "price": {"type": "number"}, "currency": {"enum": ["EUR", "USD"]},
            "image": {"type": "string", "format": "uri"}, "reviewCount": {"type": "integer"},
            "rating": {"type": "number"}, "colour": {"type": "string"},
            "images": {"type": "array", "items": {"type": "string"}},
            "offers": {"type": "object", "properties": {"price": {"type": "number"}}},
        },
        required=["name", "colour"],
    )  # fmt: skip
    assert found.data == {
        "name": "Okapi <b>toy</b>", "sku": "17", "brand": "Zoo", "price": 1299.0, "currency": "EUR",
        "image": "https://shop.example.org/a.png", "reviewCount": 12, "rating": 4.5,
        "offers": {"price": 1299.0},
    }  # fmt: skip
    assert found.sources["/price"] == "json-ld Product.offers.price"
    assert found.sources["/brand"] == "json-ld Product.brand.name"
    assert found.sources["/offers/price"] == "json-ld Product.offers.price"
    assert found.missing == ["/colour"]
    assert not found.valid


def test_microdata_meta_and_tables_are_sources():
    """Each is named; the objects of a page come before its meta elements."""
    html = page(
        """<div itemscope itemtype="https://schema.org/Book"><h1 itemprop="name">Deep sea</h1>
        <span itemprop="author" itemscope itemtype="https://schema.org/Person"><b itemprop="name">Ann</b></span>
        <time itemprop="datePublished" datetime="2026-03-02">March</time>
        <a itemprop="url" href="/book">more</a></div>
        <table><tr><th>Weight</th><td>1,2 kg</td></tr><tr><th>Pages</th><td>1,204</td></tr></table>
        <table><tr><th>Whale</th><th>Length m</th></tr><tr><td>Blue</td><td>30</td></tr>
        <tr><td>Minke</td><td>8</td></tr></table><dl><dt>ISBN</dt><dd>978-3</dd></dl>""",
        head='<meta property="og:title" content="Shop title"><meta name="description" content="D">',
    )
    found = filled(
        html,
        {
            "title": {"type": "string"}, "author": {"type": "string"},
            "published": {"type": "string", "format": "date"}, "description": {"type": "string"},
            "weight": {"type": "number"}, "pages": {"type": "integer"}, "isbn": {"type": "string"},
            "language": {"type": "string"},
            "whales": {"type": "array", "items": {"type": "object", "properties": {
                "whale": {"type": "string"}, "lengthM": {"type": "number"}}}},
        },
    )  # fmt: skip
    assert found.data == {
        "title": "Deep sea", "author": "Ann", "published": "2026-03-02", "description": "D",
        "weight": 1.2, "pages": 1204, "isbn": "978-3", "language": "en",
        "whales": [{"whale": "Blue", "lengthM": 30}, {"whale": "Minke", "lengthM": 8}],
    }  # fmt: skip
    assert found.valid
    assert {name: text.split(".")[0] for name, text in found.sources.items()} == {
        "/title": "microdata Book", "/author": "microdata Book",
        "/published": "microdata Book", "/description": "meta", "/weight": "table 1",
        "/pages": "table 1", "/isbn": "list 1", "/language": "meta",
        "/whales/0/whale": "table 2 row 1", "/whales/0/lengthM": "table 2 row 1",
        "/whales/1/whale": "table 2 row 2", "/whales/1/lengthM": "table 2 row 2",
    }  # fmt: skip


def test_cell_that_spans_others_stands_in_each():
    """Else the values of the rows below would be those of other columns."""
    html = page("""<table><tr><th>Year<th>Quarter<th>Sales</tr>
        <tr><td rowspan=2>2025<td>Q1<td>5</tr><tr><td>Q2<td>6</tr><tr><td rowspan=0>2026<td colspan=2>7</tr>
        <tr><td rowspan="x">2027<td>Q1<td colspan=99999>8</tr></table>""")
    (table,) = read_facts(html, URL).records
    assert [list(row.values()) for row in table.rows] == [
        ["2025", "Q1", "5"], ["2025", "Q2", "6"], ["2026", "7", "7"], ["2027", "Q1", "8"],
    ]  # fmt: skip


def test_address_that_is_none_costs_itself_only():
    """As templates leave them."""
    html = page("", {"@type": "Product", "name": "Okapi", "url": "http://[host]/p"})
    uri = {"type": "string", "format": "uri"}
    found = filled(html, {"name": {"type": "string"}, "url": uri})
    assert found.data == {"name": "Okapi"}


def test_list_of_objects_of_a_kind():
    """A schema of a list takes the items of its kind; references are followed."""
    events = [{"@type": "Event", "name": f"E{n}", "startDate": f"2026-0{n}-01T10:00"} for n in (1, 2)]  # fmt: skip
    schema = {"type": "array", "items": {"$ref": "#/$defs/Event"}, "$defs": {"Event": {
        "title": "Event", "type": "object",
        "properties": {"name": {"type": "string"}, "date": {"type": "string", "format": "date"}}}}}  # fmt: skip
    found = fill(read_facts(page("", {"@graph": events}), URL), schema, URL)
    assert found.data == [
        {"name": "E1", "date": "2026-01-01"},
        {"name": "E2", "date": "2026-02-01"},
    ]
    assert found.sources["/1/date"] == "json-ld Event.startDate"


@pytest.mark.parametrize(
    ("wanted", "value", "read"),
    [
        ({"type": "number"}, "$ 19.90", 19.9), ({"type": "number"}, "1 299,50 kr", 1299.5),
        ({"type": "number"}, "10 to 20", None), ({"type": "integer"}, "1.5", None),
        ({"type": "integer"}, "1,299", 1299), ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "InStock", None), ({"type": "string", "pattern": "^[0-9]+$"}, "x", None),
        ({"type": "number", "maximum": 5}, 6, None), ({"type": ["null", "integer"]}, "7", 7),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "many", "many"),
        ({"type": "string", "format": "uri"}, "javascript:alert(1)", None),
        ({"type": "string"}, {"@value": "v"}, "v"), ({"type": "string"}, {"deep": {"x": 1}}, None),
        ({"type": "array", "items": {"type": "string"}}, "one", ["one"]),
        ({"type": "string"}, "a<script src=x>b", "a< script src=x>b"),
        ({"type": "string"}, "in\u200bvisible\u202e", "invisible"),
        ({"type": "number"}, "1" * 400, None),
    ],
)  # fmt: skip
def test_value_is_read_as_the_type_or_left_out(wanted, value, read):
    """Nothing is guessed; text is made visible and inert."""
    found = filled(page("", {"@type": "T", "thing": value}), {"thing": wanted})
    assert found.data == ({} if read is None else {"thing": read})


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    "html",
    [
        page('<script type="application/ld+json">' + deep(100_000) + "</script>"),
        page('<script type="application/ld+json">' + deep(500) + "</script>"),
        page('<script type="application/ld+json">[' + "{}," * 600_000 + "{}]</script>"),
        page('<script type="application/ld+json">{"n": ' + "9" * 100_000 + "}</script>"),
        page('<script type="application/ld+json">{"n": NaN, "m": Infinity}</script>'),
        page("".join(f'<script type="application/ld+json">{{"a":{n}}}</script>' for n in range(5000))),
        page("<div itemscope itemprop=x>" * 3000), page("<b itemscope><i itemprop=a>" * 3000),
        page("<table>" + "<tr><th>a<td>b" * 20_000), page("<dl>" + "<dt>a<dd>b" * 20_000),
        page("".join(f"<a href=/{n}>x</a>" for n in range(20_000))),
        page('<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><p itemscope>&b;&b;'),
        page("", head="".join(f"<meta name=n{n} content={'x' * 9000}>" for n in range(2000))),
        page("", {"@graph": {"@graph": []}}, [[[]]], 1, None, "text", {"@type": {"x": []}}),
    ],
    ids=range(14),
)  # fmt: skip
def test_facts_of_hostile_pages_are_bounded(html):
    """Their number, their depth and their length."""
    facts = read_facts(html, URL)
    assert len(facts.items) <= MAX_ITEMS + 100
    assert len(facts.links) <= MAX_LINKS
    assert len(json.dumps([item.value for item in facts.items], default=str)) < 100 * MAX_VALUES
    fill(facts, {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}, URL)


def test_facts_that_are_too_long_are_left_out_as_a_whole():
    """Headings of tables are repeated in each row: a page of 2 MB would make a hundred."""
    row = "<tr>" + "<td>x" * 30
    table = "<table><tr>" + f"<th>{'h' * 900}" * 30 + row * 300 + "</table>"
    facts = read_facts(page(table * 20, {"@type": "T", "a": 1}), URL)
    body = encoded(facts)
    assert len(body) <= MAX_FACTS_BYTES
    assert (facts.cut, facts.records, len(facts.items)) == (True, [], 1)


def test_page_that_takes_a_parser_long_is_refused():
    """Before it is parsed."""
    with pytest.raises(TooComplexError):
        read_facts("<div>" * 50_000, URL)


def test_schema_that_refers_to_itself_ends():
    """With the page's data, and at the limit of depth."""
    node = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#"}}}
    value: dict = {"name": "leaf"}
    for n in range(30):
        value = {"name": str(n), "child": value}
    found = fill(read_facts(page("", value), URL), node, URL)
    depth, data = 0, found.data
    while "child" in data:
        depth, data = depth + 1, data["child"]
    assert 1 < depth <= MAX_DEPTH
    endless = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    }
    fill(Facts(), {"type": "object", "properties": {"x": endless}, "$defs": endless["$defs"]}, URL)


def test_links_are_absolute_and_of_the_web():
    """Each once, with its text; base is respected."""
    body = '<a href="#top">Top</a><a href="x">One <b>x</b></a><a href="x">again</a>' \
        '<a href="javascript:1">no</a><a href="mailto:a@b.c">no</a><a href="http://[b">bad</a>'  # fmt: skip
    facts = read_facts(page(body, head='<base href="/dir/">'), URL)
    assert [(link.url, link.text) for link in facts.links] == [
        ("https://shop.example.org/dir/#top", "Top"), ("https://shop.example.org/dir/x", "One x"),
    ]  # fmt: skip
