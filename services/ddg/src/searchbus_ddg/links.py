"""Targets of a result page's links: redirects are decoded; ads and non-public URLs are left out."""

from __future__ import annotations

from urllib.parse import parse_qs, urljoin, urlsplit

from searchbus_upstream import is_public_url

__all__ = ["target_of"]

_BASE = "https://html.duckduckgo.com/html/"


def target_of(href: str | None) -> str | None:
    """The URL that a result links to; None for an ad or a URL that is not public.

    `//duckduckgo.com/l/?uddg=<encoded>&rut=…` is decoded exactly once: decoding again
    would corrupt %2F, %26 and %2B of the target.
    """
    if not href:
        return None
    try:
        url = urljoin(_BASE, href.strip())
        parts = urlsplit(url)
        if _is_duckduckgo(parts.hostname) and parts.path.rstrip("/") == "/l":
            wrapped = parse_qs(parts.query).get("uddg")
            if not wrapped:
                return None
            url = wrapped[0]
            parts = urlsplit(url)
        if _is_duckduckgo(parts.hostname) and parts.path.startswith(("/y.js", "/l/")):
            return None
    except ValueError:
        return None
    return url if is_public_url(url) else None


def _is_duckduckgo(host: str | None) -> bool:
    return host is not None and (host == "duckduckgo.com" or host.endswith(".duckduckgo.com"))
