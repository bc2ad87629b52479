"""GET /docs: Swagger UI over /openapi.json, with assets that this process serves.

Nothing is loaded from elsewhere, and nothing inline runs: the content security policy allows
scripts and styles of this address only.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

__all__ = ["send_asset", "send_page"]

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
# Addresses are relative, so that the page works behind a proxy that adds a path.
_PAGE = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>searchbus</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" href="docs/favicon-32x32.png">
</head>
<body>
<div id="tools"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START = b"""SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#tools",
  deepLinking: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
_TYPES = {
    "swagger-ui.css": b"text/css; charset=utf-8",
    "swagger-ui-bundle.js": b"text/javascript; charset=utf-8",
    "favicon-32x32.png": b"image/png",
    "start.js": b"text/javascript; charset=utf-8",
}


async def send_page(send: Any) -> None:
    """Answer with the page.

    Args:
        send: of the ASGI request.
    """
    await _send(send, b"text/html; charset=utf-8", _PAGE)


async def send_asset(send: Any, name: str) -> bool:
    """Answer with a file of the page; False, and nothing sent, where there is none of that name."""
    content_type = _TYPES.get(name)
    if content_type is None:
        return False
    await _send(send, content_type, _asset(name))
    return True


@cache
def _asset(name: str) -> bytes:
    if name == "start.js":
        return _START
    # Found here, not imported: the package's own module is of no use, and would cost time at start.
    (folder,) = (resources.files("swagger_ui_bundle") / "vendor").iterdir()
    return (folder / name).read_bytes()


async def _send(send: Any, content_type: bytes, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    headers = [(b"content-type", content_type), length, *_HEADERS]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
