"""No request holds the edge's event loop for long, whatever it contains."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json

import pytest

from .conftest import SCHEMAS
from .loop_watch import counting_lines

MAX_LINES = 400_000
"""Twenty for each of the keys and texts that a request may have; the worst one takes four."""

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
LIMIT_BYTES = 256 * 1024


def post(
    port: int, *bodies: bytes, headers: dict[str, str] = HEADERS, path: str = "/mcp"
) -> list[tuple[int, bytes]]:
    """Send requests from another thread, whose CPU time does not count."""
    answers = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    for body in bodies:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answers.append((response.status, response.read()))
    connection.close()
    return answers


def message(method: str, params: object, **more: object) -> bytes:
    found = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **more}
    return json.dumps(found, separators=(",", ":")).encode()


def keys(count: int) -> dict[str, int]:
    return {f"k{number:06d}": 1 for number in range(count)}


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def call(name: str, a: str) -> tuple[str, str]:
    return "tools/call", f'{{"name":"{name}","arguments":{{"a":{a}}}}}'


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


COUNT = 19_900
"""Keys of a body just under the limit of keys and texts."""
KEYS = compact(keys(COUNT))
TEXTS = compact({name: "v" for name in keys(9_900)})
WORST: dict[str, tuple[str, str]] = {
    **{f"arguments of {name}": ("tools/call", f'{{"name":"{name}","arguments":{KEYS}}}')
       for name in SCHEMAS},
    "array": call("lists", compact([1] * 120_000)), "lists": call("lists", compact([[]] * 80_000)),
    "nesting": call("lists", nested(60_000)), "objects": call("closed", '{"a":' * 200 + "1" + "}" * 200),
    "many nestings": call("closed", f"[{','.join([nested(200)] * 550)}]"),
    "long number": call("closed", "1" * 200_000), "long fraction": call("closed", "1." + "1" * 200_000),
    "longest integers": call("lists", f"[{','.join(['1' * 4300] * 58)}]"),
    "text": call("closed", compact("a" * 250_000)), "surrogates": call("closed", '"' + "\\ud800" * 40_000 + '"'),
    "text of JSON": call("lists", compact("[" * 120_000)), "lists for an object": (
        "tools/call", f'{{"name":"closed","arguments":{compact([[]] * 80_000)}}}'),
    "params": ("tools/call", f'{{"name":"closed","arguments":{{}},{KEYS[1:]}'),
    "answers of the client": ("tools/call", f'{{"name":"closed","inputResponses":{TEXTS}}}'),
    "state": ("tools/call", f'{{"name":"closed","requestState":"{"a" * 250_000}"}}'),
    "name": ("tools/call", f'{{"name":"{"a" * 250_000}"}}'),
    "list": ("tools/list", KEYS), "cursor": ("tools/list", f'{{"cursor":"{"a" * 250_000}"}}'),
    "initialize": ("initialize", compact({
        "protocolVersion": "2025-06-18", "capabilities": {"experimental": keys(18_000)},
        "clientInfo": {"name": "x", "version": "1"},
    })),
    "prompt": ("prompts/get", f'{{"name":"x","arguments":{TEXTS}}}'),
    "wrong prompt": ("prompts/get", f'{{"name":"x","arguments":{KEYS}}}'),
    "completion": ("completion/complete", '{"ref":{"type":"ref/prompt","name":"x"},"argument":'
                   f'{{"name":"a","value":"b"}},"context":{{"arguments":{KEYS}}}}}'),
    "address": ("resources/read", f'{{"uri":"http://{"[::]" * 60_000}"}}'),
    "query": ("tools/search", f'{{"query":"{"a " * 120_000}"}}'),
    "level": ("logging/setLevel", f'{{"level":{KEYS}}}'), "unknown": ("x/y", KEYS),
}  # fmt: skip
WHOLE = {
    "envelope": message("ping", {}, **keys(COUNT)), "batch": b"[" + b",".join([b"{}"] * 80_000) + b"]",
    "no JSON": b"[" * (LIMIT_BYTES - 1), "nested batch": f"[{nested(100)}]".encode(),
    "meta": message("tools/call", {"name": "closed", "arguments": {}, "_meta": keys(COUNT)}),
}  # fmt: skip
PLAIN = ("arguments of closed", "lists", "many nestings", "longest integers", "text")
"""Those that are also tried as bodies of plain HTTP, which take the same way from there on."""
REVISIONS = [None, "2025-11-25", "2026-07-28"]
"""Without a revision the SDK serves; with one the fast way, as far as it understands the request."""
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def worst(name: str, revision: str | None) -> tuple[bytes, dict[str, str]]:
    """The body, and the headers that its revision demands."""
    headers = dict(HEADERS)
    if revision is not None:
        headers["MCP-Protocol-Version"] = revision
    if name in WHOLE:
        return WHOLE[name], headers
    method, params = WORST[name]
    if revision == REVISIONS[-1]:
        headers["Mcp-Method"] = method
        named = params.partition('"name":"')[2].partition('"')[0]
        headers |= {"Mcp-Name": named[:1000]} if named else {}
        params = f'{{"_meta":{compact(ENVELOPE)},{params[1:]}'
    body = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}'
    return body.encode(), headers


@pytest.mark.slow
async def test_request_with_a_third_of_a_million_unknown_keys_is_not_read(port):
    """It held the loop for seconds: the validator made an error, with a copy, of each key."""
    for name in SCHEMAS:
        body = message("tools/call", {"name": name, "arguments": keys(300_000)})
        ((status, answer),) = await asyncio.to_thread(post, port, body)
        assert (status, b"over 262144 bytes" in answer) == (413, True)


@pytest.mark.parametrize("name", [*WORST, *WHOLE])
async def test_worst_requests_do_little_in_one_turn_of_the_loop(port, name, monkeypatch):
    """In lines of Python, which are as many on every machine."""
    await asyncio.to_thread(post, port, message("tools/call", {"name": "closed"}))
    for revision in REVISIONS:
        body, headers = worst(name, revision)
        assert len(body) <= LIMIT_BYTES
        await _check_turns(port, body, headers, "/mcp", monkeypatch)


@pytest.mark.parametrize("name", PLAIN)
async def test_worst_requests_of_plain_http_do_no_more(port, name, monkeypatch):
    """The same arguments as bodies."""
    await asyncio.to_thread(post, port, b"{}", path="/api/v1/tools/closed")
    tool, _, arguments = WORST[name][1].removeprefix('{"name":"').partition('","arguments":')
    body = arguments[:-1].encode()
    await _check_turns(port, body, HEADERS, f"/api/v1/tools/{tool}", monkeypatch)


async def _check_turns(port, body, headers, path, monkeypatch):
    with counting_lines(monkeypatch) as lines:
        ((status, answer),) = await asyncio.to_thread(post, port, body, headers=headers, path=path)
    assert status < 500
    assert b"internal error" not in answer
    assert len(answer) < 64 * 1024
    assert 0 < lines.worst < MAX_LINES, headers


@pytest.mark.parametrize("number", ["1" * 5000, "-" + "9" * 100_000, "1e400", "1" * 5000 + ".5"])
async def test_numbers_that_are_too_long_are_no_json(port, number):
    """They are refused while they are read, before anything is computed with them."""
    params = (call("closed", number)[1], f'{{"name":"closed","arguments":{{}},"x":{number}}}')
    for revision, given in itertools.product(REVISIONS, params):
        body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{given}}}'.encode()
        headers = HEADERS if revision is None else HEADERS | {"MCP-Protocol-Version": revision}
        ((status, answer),) = await asyncio.to_thread(post, port, body, headers=headers)
        assert (status, json.loads(answer)["error"]["code"]) == (400, -32700)


@pytest.mark.parametrize(("digits", "refused"), [(20, False), (21, True)])
async def test_integers_of_more_than_twenty_digits_are_refused_with_their_field(
    port, digits, refused
):
    """On each way; a fraction may have as many."""
    arguments = f'{{"a":{{"count":-{"7" * digits}}},"b":0.{"7" * 30}}}'
    found = []
    for revision in REVISIONS:
        headers = HEADERS if revision is None else HEADERS | {"MCP-Protocol-Version": revision}
        body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"closed","arguments":{arguments}}}}}'
        found += await asyncio.to_thread(post, port, body.encode(), headers=headers)
    plain = await asyncio.to_thread(
        post, port, arguments.encode(), headers=HEADERS, path="/api/v1/tools/closed"
    )
    for status, answer in found + plain:
        said = b"The integer in count has more than 20 digits" in answer
        assert said == refused, answer
        assert status == 400 or not refused


@pytest.mark.parametrize("depth", [64, 300, 900, 5000])
async def test_nesting_is_an_error_of_the_arguments(port, depth):
    """Not an internal error with a traceback in the log, from 255 levels on."""
    inner = b"[" * depth + b"]" * depth
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"closed","arguments":'
        b'{"a":%b}}}' % inner
    )
    ((status, answer),) = await asyncio.to_thread(post, port, body)
    assert status in (200, 400)
    assert b"internal error" not in answer
