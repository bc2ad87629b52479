"""Where traces and metrics of a process go."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The providers of a process can be set once: each case is a process.
PROGRAM = """
import sys
from opentelemetry import metrics, trace
from searchbus_runtime import load_settings, ServiceSettings
from searchbus_runtime.telemetry import configure_telemetry
shutdown = configure_telemetry("web", load_settings(ServiceSettings))
with trace.get_tracer("t").start_as_current_span("work"):
    metrics.get_meter("t").create_counter("c").add(1)
shutdown()
"""


def run(program: str = PROGRAM, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PATH": "", **environment}, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_collector_spans_go_to_the_data_folder(tmp_path):
    """With the service's name."""
    run(SEARCHBUS_DATA_DIR=str(tmp_path))
    (line,) = (tmp_path / "traces.jsonl").read_text().splitlines()
    assert (json.loads(line)["name"], json.loads(line)["service"]) == ("work", "web")


def test_unsampled_traces_are_not_written(tmp_path):
    """The ratio of sampled traces is a setting."""
    run(SEARCHBUS_DATA_DIR=str(tmp_path), SEARCHBUS_TRACE_SAMPLE_RATIO="0")
    assert not (tmp_path / "traces.jsonl").exists()


def test_collector_gets_spans_and_where_wanted_metrics(tmp_path):
    """Then no local file is written."""
    paths: list[str] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            paths.append(self.path)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    run(SEARCHBUS_DATA_DIR=str(tmp_path), SEARCHBUS_OTLP_ENDPOINT=url)
    assert paths == ["/v1/traces"]
    run(OTEL_EXPORTER_OTLP_ENDPOINT=url, SEARCHBUS_OTLP_METRICS="true")
    server.shutdown()
    server.server_close()
    assert {"/v1/traces", "/v1/metrics"} == set(paths[1:])
    assert not (tmp_path / "traces.jsonl").exists()


DROPPING = """
import threading
from opentelemetry import trace
from prometheus_client import REGISTRY, generate_latest
from searchbus_runtime import load_settings, ServiceSettings, spans, telemetry
release = threading.Event()
spans.TraceFile._append = lambda *_: release.wait()
telemetry.QUEUED_SPANS = 600
shutdown = telemetry.configure_telemetry("web", load_settings(ServiceSettings))
for _ in range(2000):
    with trace.get_tracer("t").start_as_current_span("work"):
        pass
print(generate_latest(REGISTRY).decode())
release.set()
shutdown()
"""


def test_spans_that_the_queue_drops_are_counted(tmp_path):
    """As a metric of the process, under the name that the SDK has for a collector."""
    text = run(DROPPING, SEARCHBUS_DATA_DIR=str(tmp_path))
    (line,) = [
        line for line in text.splitlines()
        if line.startswith("otel_sdk_processor_span_processed_total") and "queue_full" in line
    ]  # fmt: skip
    # At most 600 are being written, and the queue holds 600.
    assert 2000 - 600 - 600 <= float(line.split()[-1]) <= 2000 - 600
