"""Attributes of spans and metrics are those of OpenTelemetry's semantic conventions, where these have one.

The definitions are those of the installed package, whose version the lock pins.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating import attributes as incubating
from opentelemetry.semconv._incubating.attributes import (
    error_attributes,
    gen_ai_attributes,
    mcp_attributes,
    messaging_attributes,
    peer_attributes,
    rpc_attributes,
    service_attributes,
)
from opentelemetry.trace import SpanKind, StatusCode

from searchbus_bus import telemetry
from searchbus_bus.worker.handling import _name
from searchbus_contracts import ErrorCode, Fault

ROOT = Path(__file__).parents[3]
REPLACED = "Deprecated: Replaced"
"""Others that are called deprecated are stable now, or in another repository, under the same name."""


def definitions() -> dict[str, str]:
    """Attribute → the text behind it, of every module of the conventions."""
    found: dict[str, str] = {}
    for module in pkgutil.iter_modules(incubating.__path__):
        source = Path(importlib.import_module(f"{incubating.__name__}.{module.name}").__file__)
        body = ast.parse(source.read_text()).body
        for one, other in zip(body, [*body[1:], None], strict=True):
            if isinstance(one, ast.AnnAssign) and isinstance(one.value, ast.Constant):
                text = other.value.value if isinstance(other, ast.Expr) else ""
                found[str(one.value.value)] = str(text)
    return found


def used() -> dict[str, set[str]]:
    """Attribute with dots → the files that write it, in a dict or by set_attribute."""
    found: dict[str, set[str]] = {}
    for path in [*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")]:
        text = path.read_text()
        if "opentelemetry" not in text and "gen_ai." not in text:
            continue
        keys = re.findall(r'"([a-z_]+(?:\.[a-z_]+)+)"(?:: |\] = |, )', text)
        for key in keys:
            found.setdefault(key, set()).add(str(path.relative_to(ROOT)))
    return found


KNOWN = definitions()
OWN = re.compile(r"searchbus\.|dev\.searchbus")
"""Metrics and attributes of our own."""


def test_every_attribute_is_defined_and_not_deprecated():
    """What has the form of the conventions is one of them."""
    spaces = {name.split(".")[0] for name in KNOWN}
    names = {name for name in used() if name.split(".")[0] in spaces and not OWN.match(name)}
    # A metric, and what the specification of the SDK names.
    names -= {"mcp.server.operation.duration", "otel.metric.overflow"}
    assert {"service.peer.name", "messaging.destination.name", "gen_ai.tool.name"} <= names
    unknown = {name: used()[name] for name in names - KNOWN.keys()}
    assert unknown == {}
    assert {name for name in names if REPLACED in KNOWN[name]} == set()
    assert REPLACED in KNOWN[peer_attributes.PEER_SERVICE]
    assert peer_attributes.PEER_SERVICE not in used()


@pytest.fixture
def spans(monkeypatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", lambda: provider.get_tracer("test"))
    return exporter


def test_a_request_is_a_producer_and_its_work_a_consumer(spans):
    """The name is the operation and a destination of few values; the context goes along."""
    headers: dict[str, str] = {}
    with telemetry.client_span(
        "sb.v1.tool.web.search", "web", req_id="a" * 32, size_bytes=1
    ) as span:
        telemetry.inject(headers, span)
    with telemetry.server_span("tool.web.search", headers, "sb.v1.at.i1.tool.web.search"):
        pass
    sent, processed = spans.get_finished_spans()
    assert (sent.kind, processed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert processed.parent.span_id == sent.context.span_id
    for span, operation in ((sent, "send"), (processed, "process")):
        attributes = span.attributes
        assert attributes[messaging_attributes.MESSAGING_OPERATION_TYPE] == operation
        assert span.name.startswith(attributes[messaging_attributes.MESSAGING_OPERATION_NAME])
    assert sent.attributes[service_attributes.SERVICE_PEER_NAME] == "web"
    template = processed.attributes[messaging_attributes.MESSAGING_DESTINATION_TEMPLATE]
    assert processed.name == f"process {template}"


def test_a_failure_is_an_error_with_its_type(spans):
    """On both sides."""
    with pytest.raises(Fault), telemetry.client_span("s", "web", req_id="", size_bytes=0):
        raise Fault(ErrorCode.NOT_FOUND, "Unknown. Check it.")
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes[error_attributes.ERROR_TYPE] == "not_found"


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("sb.v1.tool.web.web_search", "tool.web.web_search"),
        ("sb.v1.at.i1.tool.web.web_search", "tool.web.web_search"),
        ("sb.v1.catalog.web.0123456789abcdef0123456789abcdef", "catalog.web"),
        ("sb.v1.retrieval.search", "retrieval.search"),
    ],
)
def test_no_hash_and_no_instance_is_in_a_spans_name(subject, name):
    """Each would be an operation of its own in a list of operations."""
    assert name == _name(subject)


def test_the_conventions_have_what_the_edge_writes():
    """Of tools, and of MCP, under the names of today."""
    assert gen_ai_attributes.GEN_AI_TOOL_NAME == "gen_ai.tool.name"
    assert gen_ai_attributes.GenAiOperationNameValues.EXECUTE_TOOL.value == "execute_tool"
    assert mcp_attributes.MCP_METHOD_NAME == "mcp.method.name"
    assert rpc_attributes.RPC_RESPONSE_STATUS_CODE == "rpc.response.status_code"
