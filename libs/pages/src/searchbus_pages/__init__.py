"""The text of pages: bytes of any charset to text, HTML to Markdown."""

from .charset import decode_text
from .html import HtmlText, read_html

__all__ = ["HtmlText", "decode_text", "read_html"]
