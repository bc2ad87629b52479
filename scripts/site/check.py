"""What must hold of the built pages: links lead somewhere, nothing is loaded from another host."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Elements whose address a browser loads at once; `link` beside them."""


class Page(HTMLParser):
    """The links, loaded addresses and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """See HTMLParser."""
        found = {name: value or "" for name, value in attributes}
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and "href" in found:
            self.loaded.append(found["href"])
        elif (name := _LOADED.get(tag)) in found:
            self.loaded.append(found[name])


def faults(folder: Path) -> Iterator[str]:
    """Broken links and loads from other hosts, one line each."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for address in dict.fromkeys(page.links + page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    yield f"{path.relative_to(folder)}: loads {address}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{path.relative_to(folder)}: {address} leads nowhere"
                continue
            anchor = unquote(parts.fragment)
            if anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{path.relative_to(folder)}: {address} names no heading"


def external(folder: Path) -> dict[str, list[str]]:
    """Addresses of other hosts → the pages that have them."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.html")):
        for address in dict.fromkeys(Page(path).links):
            if urlsplit(address).scheme in ("http", "https"):
                found.setdefault(address, []).append(str(path.relative_to(folder)))
    return dict(sorted(found.items()))
