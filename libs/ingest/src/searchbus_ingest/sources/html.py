"""HTML to Markdown-like text: headings, paragraphs, lists; no scripts, menus or footers."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["html_to_markdown"]

MAX_HTML_BYTES = 32 * 1024 * 1024
_DROPPED = ["script", "style", "noscript", "template", "svg", "nav", "header", "footer", "aside",
            "form", "iframe", "button"]  # fmt: skip
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = frozenset(
    "p div section article main ul ol table tr blockquote pre dl dt dd figure figcaption".split()
)


def html_to_markdown(data: bytes, *, selector: str | None = None) -> tuple[str | None, str]:
    """Title and text of a page.

    Args:
        selector: CSS selector of the part that holds the content; the body where it is absent.

    Raises:
        ValueError: the page is larger than 32 MiB.
    """
    if len(data) > MAX_HTML_BYTES:
        raise ValueError("the page is larger than 32 MiB")
    tree = LexborHTMLParser(data)
    title_node = tree.css_first("title")
    title = title_node.text(strip=True) if title_node is not None else None
    root = (tree.css_first(selector) if selector else None) or tree.body
    if root is None:
        return title, ""
    root.strip_tags(_DROPPED)
    lines: list[str] = []
    _walk(root, lines)
    paragraphs = (" ".join(line.split()) for line in "".join(lines).split("\n\n"))
    return title, "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _walk(root: LexborNode, out: list[str]) -> None:
    """Iterative, since a page may nest deeper than Python's stack."""
    stack: list[tuple[LexborNode | None, str]] = [(root, "")]
    while stack:
        node, closing = stack.pop()
        if node is None:
            out.append(closing)
            continue
        tag = node.tag
        if tag == "-text":
            out.append(node.text_content or "")
            continue
        if tag == "br":
            out.append("\n")
            continue
        opening = ending = ""
        if tag in _HEADINGS:
            opening, ending = f"\n\n{_HEADINGS[tag]} ", "\n\n"
        elif tag == "li":
            opening, ending = "\n\n- ", "\n\n"
        elif tag in _BLOCKS:
            opening = ending = "\n\n"
        elif tag in ("td", "th"):
            ending = " | "
        out.append(opening)
        stack.append((None, ending))
        children = list(node.iter(include_text=True))
        stack.extend((child, "") for child in reversed(children))
