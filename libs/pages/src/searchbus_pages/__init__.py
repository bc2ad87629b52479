"""The text of pages: bytes of any charset to text, HTML to Markdown; what lists or forbids them."""

from .charset import charset_of, decode_text, detect_charset, looks_binary
from .feeds import FeedEntry, FeedError, read_feed
from .html import HtmlText, TooComplexError, check_html, fenced, read_html
from .robots import MAX_ROBOTS_BYTES, read_robots
from .sitemaps import Sitemap, read_sitemap

__all__ = [
    "MAX_ROBOTS_BYTES",
    "FeedEntry",
    "FeedError",
    "HtmlText",
    "Sitemap",
    "TooComplexError",
    "charset_of",
    "check_html",
    "decode_text",
    "detect_charset",
    "fenced",
    "looks_binary",
    "read_feed",
    "read_html",
    "read_robots",
    "read_sitemap",
]
