"""Which addresses belong to a map or a crawl: one site, narrowed by globs.

Globs have one wildcard, `*`, which stands for any characters: there is nothing that takes long.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from msgspec import Meta

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.codec import doc
from searchbus_upstream import is_public_url, without_trackers

from ..providers.base import registrable_domain

MAX_GLOBS = 20
MAX_GLOB_CHARS = 200
MAX_ADDRESS_CHARS = 1_000
ADDRESSES_A_TURN = 10
"""Addresses that are compared with globs in one turn of the loop: each may take 2 ms."""
T = TypeVar("T")
SiteUrl = Annotated[
    str,
    doc(
        "An address of the site; the registrable domain is the site",
        min_length=1,
        max_length=MAX_ADDRESS_CHARS,
    ),
]
Globs = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=MAX_GLOB_CHARS)]],
    doc(
        "Patterns such as /docs/* for the path, or https://docs.example.org/*; only * is special",
        max_length=MAX_GLOBS,
    ),
]
_NO_TEXT = re.compile(
    r"\.(?:7z|aac|apk|avi|avif|bin|bmp|bz2|css|deb|dmg|eot|exe|flac|gif|gz|ico|iso|jar|jpe?g|js|m4a|"
    r"m4v|map|mjs|mkv|mov|mp[34]|mpe?g|msi|og[agv]|otf|png|rar|rpm|svg|tar|tgz|tiff?|ttf|wasm|wav|"
    r"web[mp]|woff2?|xz|zip)$",
    re.I,
)


class SiteScope:
    """The addresses of one site.

    Args:
        start: any address of it; its registrable domain is the site.
        include, exclude: globs of a path with its query (`/docs/*`), or of a whole address.
        allows_host: whether the operator's allowlist names a host. Links and sitemaps lead to such
            hosts only where `start` is on one: strangers would choose what is read of them.

    Raises:
        Fault: invalid_argument.
    """

    def __init__(
        self,
        start: str,
        include: Sequence[str],
        exclude: Sequence[str],
        *,
        allows_host: Callable[[str], bool],
    ) -> None:
        self._allows_host = allows_host
        self.start = cleaned(start)
        host = _host(self.start)
        self._operators = bool(host) and allows_host(host)
        for name, globs in (("include", include), ("exclude", exclude)):
            for glob in globs:
                if not glob.startswith(("/", "http://", "https://", "*")):
                    raise Fault(
                        ErrorCode.INVALID_ARGUMENT,
                        f"{name}: {glob[:80]!r} is not a pattern. Write it like /docs/* for the "
                        "path, or like https://docs.example.org/* for the whole address.",
                    )
        self._include, self._exclude = tuple(include), tuple(exclude)
        self.site = ""
        if host and self._is_fetched(self.start, host):
            self.site = _site_of(host)
        else:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"url: {start[:200]!r} is not an http or https address of the public web. "
                "Correct it.",
            )

    def has(self, url: str) -> bool:
        """Whether an address is of this site, whatever the globs say."""
        host = _host(url)
        return bool(host) and self._is_fetched(url, host) and _site_of(host) == self.site

    def admits(self, url: str) -> bool:
        """Whether an address is of this site, fits the globs, and may have text."""
        if not self.has(url):
            return False
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if _NO_TEXT.search(parts.path):
            return False
        texts = (path, url)
        if any(matches(glob, text) for glob in self._exclude for text in texts):
            return False
        return not self._include or any(
            matches(glob, text) for glob in self._include for text in texts
        )

    def _is_fetched(self, url: str, host: str) -> bool:
        if len(url) > MAX_ADDRESS_CHARS:
            return False
        return self._operators if self._allows_host(host) else is_public_url(url)


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, which have to do with one address each; other calls go on in between."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ADDRESSES_A_TURN == 0:
            await asyncio.sleep(0)


@lru_cache(4096)
def _site_of(host: str) -> str:
    return registrable_domain(host)


def cleaned(url: str) -> str:
    """An address without fragment and tracking parameters."""
    return without_trackers(url.strip().partition("#")[0])


def matches(glob: str, text: str) -> bool:
    """Whether a text fits a glob as a whole.

    `fnmatch` would keep the last 32,768 globs of callers compiled: 100 MB.
    """
    first, *rest = glob.split("*")
    if not text.startswith(first):
        return False
    if not rest:
        return text == first
    *middle, last = rest
    at = len(first)
    for piece in middle:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(text) - at >= len(last) and text.endswith(last)


def _host(url: str) -> str:
    """Empty where it is no http or https URL."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "").lower() if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""
