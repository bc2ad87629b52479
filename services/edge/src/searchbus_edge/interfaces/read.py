"""A web page as Markdown: `GET /read?url=`.

The text of the page stands between marks of untrusted text. Of a long page it is the first part;
`cursor` is the URL for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request

from searchbus_contracts import ErrorCode, Failure, Fault, encode
from searchbus_contracts.queries import MAX_TOKENS, MIN_TOKENS
from searchbus_contracts.web import LATER_STATUS

from ..http.answer import PlainAnswer
from ..http.faults import PROBLEM, HttpError
from ..http.head import Headers
from .calls import HttpCalls, pairs_of, plain_app
from .web_tools import RESULT, CallWebTool, ReadPage, answer, read_pages

_MARKDOWN = b"text/markdown; charset=utf-8"
_PARAMETERS = ("url", "max_tokens")
_SHOWN_CHARS = 40
_MAX_DIGITS = 9
_STATUS = {
    "invalid_url": 400,
    "blocked_by_policy": 403,
    "robots": 403,
    "http_404": 404,
    "http_410": 404,
    "timeout": 504,
    "unsupported_type": 415,
}
_JSON_TYPES = ("application/json", "application/*")
_TEXT_TYPES = ("text/markdown", "text/plain", "text/*")


def read_app(calls: HttpCalls) -> FastAPI:
    """The application of the interface."""
    app = plain_app(calls, PROBLEM)

    @app.get("/read")
    async def read_page(request: Request) -> PlainAnswer:
        received = await calls.admit(request.scope)
        query = query_of(request.scope["query_string"])

        async def work(call: CallWebTool) -> PlainAnswer:
            page = await read(call, query)
            return _answer(page, received.head.accept, query.get("max_tokens"))

        return await answer(calls, received, request, work)

    return app


def _answer(page: ReadPage, accept: str, max_tokens: str | None) -> PlainAnswer:
    headers: Headers = (*RESULT, (b"vary", b"accept"))
    if page.cursor is not None:
        rest = f"/read?url={quote(page.cursor, safe='')}"
        rest += f"&max_tokens={max_tokens}" if max_tokens is not None else ""
        headers = (*headers, (b"link", f'<{rest}>; rel="next"'.encode("latin-1", "replace")))
    if prefers_json(accept):
        return PlainAnswer(encode(json_of(page)), headers=headers)
    return PlainAnswer(page.content.encode(), content_type=_MARKDOWN, headers=headers)


def query_of(text: bytes) -> dict[str, str]:
    """The parameters; raises Fault where an address within was not escaped: it would be another."""
    if b"+" in text:
        message = "A + stands for a blank. Write + as %2B and a blank as %20 in url."
        raise Fault(ErrorCode.INVALID_ARGUMENT, message)
    found: dict[str, str] = {}
    for name, value in pairs_of(text):
        if name in found or name not in _PARAMETERS:  # most likely of the page's own address
            wrong = "is there twice" if name in found else "is not a parameter"
            message = f"{name[:_SHOWN_CHARS]} {wrong}. Write & as %26 and # as %23 in url."
            raise Fault(ErrorCode.INVALID_ARGUMENT, message)
        found[name] = value
    return found


async def read(call: CallWebTool, query: Mapping[str, str]) -> ReadPage:
    """The page at `url`, in `max_tokens`; raises Fault, or HttpError where it cannot be read."""
    url = query.get("url", "").strip()
    if not url:
        raise Fault(ErrorCode.INVALID_ARGUMENT, "url is missing. Send GET /read?url=<address>.")
    (page,) = await read_pages(call, [url], max_tokens=_max_tokens(query.get("max_tokens")))
    if page.status != "ok":
        why = page.message or "It has no readable text."
        message = f"The page could not be read ({page.status}). {why}"
        later = LATER_STATUS.fullmatch(page.status) is not None
        failure = Failure(code=page.status, message=message, retryable=later)
        raise HttpError(_STATUS.get(page.status, 502), failure)
    return page


def json_of(page: ReadPage) -> dict[str, Any]:
    """The JSON form of a page."""
    found: dict[str, Any] = {"url": page.url, "content": page.content, "untrusted": True}
    found |= {"start": page.start, "end": page.end, "chars": page.chars}
    found["truncated"] = page.truncated
    if page.cursor is not None:
        found["cursor"] = page.cursor
    return found


def prefers_json(accept: str) -> bool:
    """Whether a client asks for JSON rather than text (RFC 9110, 12.5.1)."""
    weights = _weights(accept)
    json = max(weights.get(name, 0.0) for name in _JSON_TYPES)
    text = max(weights.get(name, 0.0) for name in _TEXT_TYPES)
    return json > text


def _weights(accept: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in accept.split(","):
        name, *parameters = (item.strip().lower() for item in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        found[name] = weight
    return found


def _max_tokens(given: str | None) -> int:
    if given is None:
        return MAX_TOKENS
    is_number = given.isascii() and given.isdigit() and len(given) <= _MAX_DIGITS
    if not is_number or not MIN_TOKENS <= int(given) <= MAX_TOKENS:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"max_tokens is out of its limits. Give a number from {MIN_TOKENS} to {MAX_TOKENS}.",
        )
    return int(given)
