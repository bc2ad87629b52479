"""No JSON Schema makes a service fetch anything: of all uses of the validator, in all packages."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from searchbus_attach.definitions.schemas import Fitting, modern_schema
from searchbus_edge.catalog.view import PATTERN_OPTIONS, validator
from searchbus_edge.tools.arguments import ArgumentExplanation
from searchbus_web.extraction.facts import Facts
from searchbus_web.extraction.filling import fill

ROOT = Path(__file__).parents[2]
VALUE = {"title": 1, "a": {"b": 1}}
FOREIGN: dict[str, Callable[[str], dict[str, Any]]] = {
    "dialect": lambda url: {"$schema": url},
    "dialect of a part": lambda url: {"properties": {"title": {"$schema": url, "type": "string"}}},
    "dialect of a resource": lambda url: {"$defs": {"a": {"$id": "urn:a", "$schema": url}}},
    "reference": lambda url: {"properties": {"title": {"$ref": url}}},
    "dynamic reference": lambda url: {"properties": {"title": {"$dynamicRef": url}}},
    "reference by $id": lambda url: {"$id": url, "properties": {"title": {"$ref": "other"}}},
    "vocabulary": lambda url: {"$vocabulary": {url: True}},
}


def explain(schema: dict[str, Any]) -> None:
    ArgumentExplanation(schema, PATTERN_OPTIONS).look(VALUE)


USES: dict[str, Callable[[dict[str, Any]], object]] = {
    "arguments": lambda schema: validator(schema).is_valid(VALUE),
    "explanation of arguments": explain,
    "tools of attached servers": modern_schema,
    "answers of attached servers": lambda schema: Fitting(schema).is_missed(VALUE),
    "data of pages": lambda schema: fill(
        Facts("Title", meta={"title": "Okapi"}), schema, "https://a.example.org/"
    ),
}


@pytest.fixture
def fetched() -> Iterator[tuple[str, list[str]]]:
    """An address on loopback, and the paths that were asked for; each is a schema."""
    paths: list[str] = []

    class Schemas(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Schemas) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/schema", paths
        server.shutdown()


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("use", USES)
def test_no_schema_is_fetched(fetched, use, foreign):
    """Whatever it names, at any level; some such schemas are refused."""
    url, paths = fetched
    properties = {"title": {"type": "string"}, "a": {"type": "object"}}
    with suppress(ValueError):
        USES[use]({"type": "object", "properties": properties, **FOREIGN[foreign](url)})
    assert paths == []


def test_the_validator_does_fetch_where_nobody_forbids_it(fetched):
    """Otherwise the test above would show nothing."""
    url, paths = fetched
    jsonschema_rs.validator_for({"type": "object", **FOREIGN["dialect of a part"](url)})
    assert paths == ["/schema"]


def test_every_use_of_the_validator_forbids_it_to_fetch():
    """By `offline=True`; a registry fetches where it is given a retriever only."""
    faults = []
    for path in sorted(ROOT.glob("*/*/src/**/*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "jsonschema_rs" in text else ():
            if isinstance(node, ast.ImportFrom) and node.module == "jsonschema_rs":
                names = {alias.name for alias in node.names} - {"ValidationError", "ValidationErrorKind"}  # fmt: skip
                faults += [f"{path.name} imports {name}" for name in names]
            elif isinstance(node, ast.Call):
                name, given = ast.unparse(node.func), {ast.unparse(part) for part in node.keywords}
                offline = name.endswith("Validator") and "offline=True" in given
                harmless = name.endswith(("RegexOptions", "Registry")) and not any(
                    part.startswith("retriever") for part in given
                )
                if name.startswith("jsonschema_rs.") and not (offline or harmless):
                    faults.append(f"{path.name}:{node.lineno} calls {name}")
    assert faults == []
