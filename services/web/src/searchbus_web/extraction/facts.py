"""What a page says in a structured form: JSON-LD, microdata, meta elements, tables, links.

    facts = read_facts(html, url)
    facts.items     # [Item("json-ld", "Product", {"name": …, "offers": {…}}), …]

Everything is bounded: a page may hold megabytes of JSON, or objects nested without end. It runs in
the processes that parse pages, which are limited in time and memory as well. No XML parser is used,
so there are no entities to expand.

Sources: JSON-LD 1.1, only as JSON (contexts are never fetched); the HTML standard's microdata;
tables with a row of headings, or with two columns; definition lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from searchbus_pages import check_html
from searchbus_upstream import read_json
from searchbus_upstream.text import inert, plain

MAX_DEPTH = 12
MAX_VALUES = 20_000
MAX_TEXT_CHARS = 5_000
MAX_JSON_CHARS = 2_000_000
MAX_LINKS = 1_000
MAX_FACTS_BYTES = 4 * 2**20
MAX_ITEMS = 200
_MAX_URL_CHARS = 2_000
_MAX_TABLES = 50
_MAX_ROWS = 300
_MAX_CELLS = 30
_MAX_NODES = 20_000
"""Elements of a page that may belong to its microdata."""
_ADDRESSES = {
    "a": "href", "area": "href", "link": "href", "audio": "src", "embed": "src", "iframe": "src",
    "img": "src", "source": "src", "track": "src", "video": "src", "object": "data",
}  # fmt: skip
_VALUES = {"meta": "content", "data": "value", "meter": "value", "time": "datetime"}


class Link(msgspec.Struct):
    """A link of the page: an absolute http or https URL, and its text on one line."""

    url: str
    text: str


class Item(msgspec.Struct):
    """An object that the page states.

    Args:
        origin: json-ld, microdata, json, table 1, list 1, …
        kind: the last part of its type, such as Product; may be empty.
    """

    origin: str
    kind: str
    value: dict[str, Any]


class Records(msgspec.Struct):
    """The rows of a table with headings, as objects."""

    origin: str
    rows: list[dict[str, str]]


class Facts(msgspec.Struct):
    """Everything structured of one page.

    Args:
        broken: JSON-LD scripts that cannot be read.
        cut: whether there was more than the limits admit.
    """

    title: str = ""
    meta: dict[str, str] = {}
    items: list[Item] = []
    records: list[Records] = []
    links: list[Link] = []
    broken: int = 0
    cut: bool = False


def read_facts(html: str, url: str) -> Facts:
    """The facts of an HTML page.

    Raises:
        TooComplexError: it nests too deeply, or has too many attributes.
    """
    check_html(html)
    tree = LexborHTMLParser(html)
    facts = Facts(title_of(tree))
    facts.meta = dict(_meta(tree, url))
    limits = _Limits()
    _read_json_ld(tree, facts, limits)
    _read_microdata(tree, url, facts, limits)
    _read_tables(tree, facts)
    facts.links = _links(tree, url)
    facts.cut = limits.cut
    return facts


def title_of(tree: LexborHTMLParser) -> str:
    """The title of a page on one line; empty where it has none."""
    node = tree.css_first("head > title")  # a drawing in the body may have one too
    return clean_title(node.text()) if node is not None else ""


def clean_title(text: str) -> str:
    """A title without live markup and what people do not see, at most 500 characters."""
    return inert(plain(text))[:500]


def json_facts(text: str) -> Facts:
    """The facts of a page that is JSON itself."""
    facts = Facts()
    limits = _Limits()
    _add_json(text, "json", facts, limits)
    facts.cut = limits.cut
    return facts


def encoded(facts: Facts) -> bytes:
    """Facts as JSON of at most MAX_FACTS_BYTES: what makes them longer is left out as a whole."""
    for name in ("records", "items", "links", "meta"):
        body = msgspec.json.encode(facts)
        if len(body) <= MAX_FACTS_BYTES:
            return body
        setattr(facts, name, type(getattr(facts, name))())
        facts.cut = True
    return msgspec.json.encode(facts)


class _Limits:
    """How many values may still be kept, of all sources together."""

    def __init__(self) -> None:
        self._left = MAX_VALUES
        self.cut = False

    def bounded(self, value: Any, depth: int = 0) -> Any:
        """A copy without what lies too deep or is too much; None stands for that."""
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            self.cut = True
            return None
        if isinstance(value, dict):
            return {
                str(key)[:200]: self.bounded(part, depth + 1)
                for key, part in value.items()
                if self._left > 0
            }
        if isinstance(value, list):
            return [self.bounded(part, depth + 1) for part in value if self._left > 0]
        if isinstance(value, str):
            self.cut = self.cut or len(value) > MAX_TEXT_CHARS
            return value[:MAX_TEXT_CHARS]
        return value if isinstance(value, bool | int | float) else None


def _meta(tree: LexborHTMLParser, url: str) -> Iterator[tuple[str, str]]:
    """Names in lower case; of several with one name the last in this order of the page counts."""
    for node in reversed(tree.css("meta")[:500]):
        names = (node.attributes.get(key) for key in ("property", "name", "itemprop"))
        name = next(filter(None, names), None)
        content = node.attributes.get("content")
        if name and content:
            yield name.lower()[:200], content[:MAX_TEXT_CHARS]
    root, canonical = tree.css_first("html[lang]"), tree.css_first('link[rel="canonical"]')
    if root is not None and (language := root.attributes.get("lang")):
        yield "language", language[:40]
    if canonical is not None and (address := joined(url, canonical.attributes.get("href"))):
        yield "canonical", address


def _read_json_ld(tree: LexborHTMLParser, facts: Facts, limits: _Limits) -> None:
    left = MAX_JSON_CHARS
    for node in tree.css('script[type="application/ld+json"]')[:MAX_ITEMS]:
        text = node.text()
        left -= len(text)
        if left < 0:
            limits.cut = True
            break
        _add_json(text, "json-ld", facts, limits)


def _add_json(text: str, origin: str, facts: Facts, limits: _Limits) -> None:
    try:
        read: Any = read_json(text.strip().removesuffix(";"), Any)
    except (ValueError, RecursionError):
        facts.broken += 1
        return
    found = read if isinstance(read, list) else [read]
    for one in found[:MAX_ITEMS]:
        graph = one.get("@graph") if isinstance(one, dict) else None
        for item in graph[:MAX_ITEMS] if isinstance(graph, list) else [one]:
            if isinstance(item, dict) and len(facts.items) < MAX_ITEMS:
                value = limits.bounded(item)
                if isinstance(value, dict):
                    facts.items.append(Item(origin, kind_of(value.get("@type")), value))


def kind_of(named: Any) -> str:
    """`Product` of `https://schema.org/Product`, of `schema:Product`, or of a list with it."""
    first = named[0] if isinstance(named, list) and named else named
    return first.replace(":", "/").rsplit("/", 1)[-1][:100] if isinstance(first, str) else ""


def _read_microdata(tree: LexborHTMLParser, url: str, facts: Facts, limits: _Limits) -> None:
    budget = [_MAX_NODES]
    for node in tree.css("[itemscope]")[:MAX_ITEMS]:
        if "itemprop" in node.attributes or len(facts.items) >= MAX_ITEMS:
            continue  # a part of another item
        value = limits.bounded(_item(node, url, 0, budget))
        if isinstance(value, dict) and len(value) > 1:
            facts.items.append(Item("microdata", kind_of(value.get("@type")), value))


def _item(node: LexborNode, url: str, depth: int, budget: list[int]) -> dict[str, Any]:
    found: dict[str, Any] = {"@type": kind_of((node.attributes.get("itemtype") or "").split())}
    stack = list(node.iter())[::-1]
    while stack and budget[0] > 0:
        inner = stack.pop()
        budget[0] -= 1
        names = (inner.attributes.get("itemprop") or "").split()
        scoped = "itemscope" in inner.attributes
        if names and depth < MAX_DEPTH:
            value = _item(inner, url, depth + 1, budget) if scoped else _value(inner, url)
            for name in names[:10]:
                before = found.get(name)
                if before is None:
                    found[name] = value
                elif isinstance(before, list):
                    before.append(value)
                else:
                    found[name] = [before, value]
        if not scoped:
            stack += list(inner.iter())[::-1]
    return found


def _value(node: LexborNode, url: str) -> str:
    tag = node.tag or ""
    if tag in _ADDRESSES:
        return joined(url, node.attributes.get(_ADDRESSES[tag])) or ""
    given = node.attributes.get(_VALUES.get(tag, "content"))
    return (given if given is not None else plain(node.text(separator=" ")))[:MAX_TEXT_CHARS]


def _read_tables(tree: LexborHTMLParser, facts: Facts) -> None:
    number = 0
    for table in tree.css("table")[:_MAX_TABLES]:
        if len(table.css("table")) > 1:
            continue  # a layout
        number += 1
        rows = [row.css("th, td")[: _MAX_CELLS + 1] for row in table.css("tr")[: _MAX_ROWS + 1]]
        rows = [row for row in rows if row]
        texts = _grid(rows)
        if len(rows) < 2 and not (rows and len(texts[0]) == 2):
            continue
        if len(rows) > 1 and len(rows[0]) > 1 and all(cell.tag == "th" for cell in rows[0]):
            named = [dict(zip(texts[0], row, strict=False)) for row in texts[1 : _MAX_ROWS + 1]]
            facts.records.append(Records(f"table {number}", named))
        elif all(len(row) == 2 for row in texts):
            pairs = {name: value for name, value in texts if name}
            facts.items.append(Item(f"table {number}", "", dict(pairs)))
    for number, listed in enumerate(tree.css("dl")[:_MAX_TABLES], 1):
        names = [plain(node.text(separator=" "))[:200] for node in listed.css("dt")[:_MAX_ROWS]]
        values = [plain(node.text(separator=" "))[:1000] for node in listed.css("dd")[:_MAX_ROWS]]
        if names and len(names) == len(values):
            pairs = dict(zip(names, values, strict=True))
            facts.items.append(Item(f"list {number}", "", dict(pairs)))


def _grid(rows: Sequence[Sequence[LexborNode]]) -> list[list[str]]:
    """The texts of rows; that of a cell that spans others stands in each of them."""
    found: list[list[str]] = []
    below: dict[int, tuple[int, str]] = {}  # column → rows that are left, and the text
    for row in rows:
        cells, texts = iter(row), list[str]()
        while len(texts) <= _MAX_CELLS:
            left, text = below.pop(len(texts), (0, ""))
            columns = 1
            if not left:
                if (cell := next(cells, None)) is None:
                    break
                text = plain(cell.text(separator=" "))[:1000]
                left, columns = _span(cell, "rowspan"), _span(cell, "colspan")
            for _ in range(columns):
                if left > 1:
                    below[len(texts)] = (left - 1, text)
                texts.append(text)
        found.append(texts)
    return found


def _span(cell: LexborNode, name: str) -> int:
    """How many rows or columns a cell spans; 1 where it does not say that in digits."""
    number = (cell.attributes.get(name) or "").strip()[:4]
    return max(1, min(_MAX_ROWS, int(number))) if number.isascii() and number.isdigit() else 1


def _links(tree: LexborHTMLParser, url: str) -> list[Link]:
    """Each address once, in the order of the page."""
    base = tree.css_first("base[href]")
    start = (joined(url, base.attributes.get("href")) if base is not None else None) or url
    found: dict[str, str] = {}
    for node in tree.css("a[href]")[: 5 * MAX_LINKS]:
        address = joined(start, node.attributes.get("href"))
        if address is not None and address.partition("#")[0] != url.partition("#")[0]:
            text = inert(plain(node.text(separator=" "), max_chars=1_000))[:200]
            if not found.get(address):
                found[address] = text
        if len(found) == MAX_LINKS:
            break
    return [Link(address, text) for address, text in found.items()]


def joined(url: str, href: str | None) -> str | None:
    """The absolute http or https URL; None for every other address."""
    try:
        address = urljoin(url, (href or "").strip())
        parts = urlsplit(address)
    except ValueError:
        return None
    wanted = href and parts.scheme in ("http", "https") and parts.hostname
    return address if wanted and len(address) <= _MAX_URL_CHARS else None
