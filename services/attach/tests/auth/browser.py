"""A browser that signs in: it follows redirects, keeps cookies and presses the button."""

from __future__ import annotations

import httpx


async def sign_in(address: str, *, cookies: bool = True, press: bool = True) -> httpx.Response:
    """Open the address of `login_required`, and go on to the end; the last page.

    Args:
        cookies: whether it keeps them.
        press: whether the person presses the button.
    """
    async with httpx.AsyncClient() as browser:
        page = await browser.get(address)
        if not press or page.status_code != 200:
            return page
        page = await browser.post(address)
        while page.is_redirect:
            if not cookies:
                browser.cookies.clear()
            page = await browser.get(page.headers["location"])
        return page
