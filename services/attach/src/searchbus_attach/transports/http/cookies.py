"""The cookies of a server, which load balancers use to find the same process again."""

from __future__ import annotations

from http.cookiejar import Cookie, CookieJar

__all__ = ["MAX_COOKIES", "MAX_COOKIE_CHARS", "FewCookies"]

MAX_COOKIES = 20
MAX_COOKIE_CHARS = 4096
"""Of name and value; browsers keep no larger ones either."""


class FewCookies(CookieJar):
    """Keeps a few small cookies: each request looks at all of them, and carries them.

    A server that sets others with each answer would hold the event loop for longer each time.
    """

    def set_cookie(self, cookie: Cookie) -> None:
        """See CookieJar; what is too large, or one too many, is not kept."""
        if len(cookie.name) + len(cookie.value or "") > MAX_COOKIE_CHARS:
            return
        known = any(
            (cookie.domain, cookie.path, cookie.name) == (one.domain, one.path, one.name)
            for one in self
        )
        if known or len(self) < MAX_COOKIES:
            super().set_cookie(cookie)
