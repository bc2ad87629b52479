"""The text of pages: bytes of any charset to text, HTML to Markdown; feeds and sitemaps."""

from .charset import decode_text, detect_charset, looks_binary
from .feeds import FeedEntry, FeedPage, ListingError, Sitemap, read_listing
from .html import HtmlText, TooComplexError, check_html, read_html

__all__ = [
    "FeedEntry",
    "FeedPage",
    "HtmlText",
    "ListingError",
    "Sitemap",
    "TooComplexError",
    "check_html",
    "decode_text",
    "detect_charset",
    "looks_binary",
    "read_html",
    "read_listing",
]
