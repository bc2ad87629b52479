"""A collector of OTLP traces over HTTP: real exporters send to it, tests look at what came."""

from __future__ import annotations

import gzip
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Span:
    """One span as it came over the wire."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    kind: int
    attributes: dict[str, Any] = field(default_factory=dict)
    links: tuple[str, ...] = ()


class Collector:
    """Listens on a free port of loopback. Use as a context manager."""

    def __init__(self) -> None:
        self.spans: dict[str, list[Span]] = defaultdict(list)
        self.last_s = time.monotonic()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    collector.take(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, request: ExportTraceServiceRequest) -> None:
        self.last_s = time.monotonic()
        for resource in request.resource_spans:
            about = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans[span.trace_id.hex()].append(
                        Span(
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.name,
                            str(about["service.name"]),
                            span.kind,
                            _attributes(span.attributes),
                            tuple(link.trace_id.hex() for link in span.links),
                        )
                    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
