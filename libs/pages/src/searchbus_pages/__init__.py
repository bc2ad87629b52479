"""The text of pages: bytes of any charset to text, HTML to Markdown."""

from .charset import decode_text, detect_charset, looks_binary
from .html import HtmlText, TooComplexError, check_html, read_html

__all__ = [
    "HtmlText",
    "TooComplexError",
    "check_html",
    "decode_text",
    "detect_charset",
    "looks_binary",
    "read_html",
]
