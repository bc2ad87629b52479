"""Which trace context becomes the parent, and what spans and metrics hold."""

from __future__ import annotations

from types import SimpleNamespace

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools import telemetry

TRACE, SPAN = "11111111111111111111111111111111", "2222222222222222"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def spans(monkeypatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", lambda: provider.get_tracer("test"))
    return exporter


def context(method="tools/call", meta=None, request_id=7, header=""):
    head = SimpleNamespace(traceparent=header, tracestate="")
    return SimpleNamespace(
        method=method,
        protocol_version="2026-07-28",
        request_id=request_id,
        meta=meta,
        request=SimpleNamespace(head=head),
    )


async def answer(ctx):
    return types.CallToolResult(content=[])


@pytest.mark.parametrize("by", ["header", "meta"])
@pytest.mark.parametrize("trusted", [True, False])
async def test_trusted_client_is_the_parent_and_a_stranger_is_a_link(spans, by, trusted):
    """By the HTTP header or by the message's own `_meta`; a stranger's trace is only named."""
    tracing = telemetry.Tracing(trust=trusted)
    meta = {"traceparent": PARENT} if by == "meta" else None
    header = PARENT if by == "header" else ""
    await tracing.middleware(context(meta=meta, header=header), answer)
    (span,) = spans.get_finished_spans()
    assert (format(span.context.trace_id, "032x") == TRACE) is trusted
    assert (span.parent and format(span.parent.span_id, "016x")) == (SPAN if trusted else None)
    links = [format(link.context.trace_id, "032x") for link in span.links]
    assert links == ([] if trusted else [TRACE])


@pytest.mark.parametrize(
    "meta", [{"traceparent": "nonsense"}, {"traceparent": 7}, "text", {"traceparent": "00-0-0-01"}]
)
async def test_bad_context_starts_a_trace(spans, meta):
    """No error, no parent, no link."""
    await telemetry.Tracing(trust=True).middleware(context(meta=meta), answer)
    (span,) = spans.get_finished_spans()
    assert span.parent is None


async def test_error_says_its_code_and_not_its_words(spans):
    """Messages repeat arguments: they stay out of spans."""

    async def refuse(ctx):
        raise MCPError(-32602, "Invalid arguments: 'my secret question' is not a number")

    with pytest.raises(MCPError):
        await telemetry.Tracing(trust=True).middleware(context(), refuse)
    (span,) = spans.get_finished_spans()
    assert span.attributes["error.type"] == "-32602"
    assert not span.status.is_ok
    assert "secret" not in repr(span.to_json())


def test_trust_follows_the_address_unless_told():
    """Loopback is trusted; others only by the operator's word."""
    assert EdgeSettings(_env_file=None).trusts_traces
    assert not EdgeSettings(_env_file=None, host="0.0.0.0", auth="none").trusts_traces
    assert EdgeSettings(
        _env_file=None, host="0.0.0.0", auth="none", trust_traces=True
    ).trusts_traces


def test_span_of_plain_http_has_no_revision(spans):
    """It does what a method of MCP does, without a message of MCP."""
    with telemetry.Tracing(trust=True).message(
        "tools/call", None, None, header=(PARENT, ""), meta={}
    ):
        pass
    (span,) = spans.get_finished_spans()
    assert dict(span.attributes) == {"mcp.method.name": "tools/call"}
    assert format(span.context.trace_id, "032x") == TRACE
