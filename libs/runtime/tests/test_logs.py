"""Structured logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider

from searchbus_runtime import configure_logging
from searchbus_runtime.logs import log_lines, timestamp


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """The handlers and the level of the tests come back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


OWN = {"t", "httpx", "searchbus.web", "searchbus.audit", "searchbus.other"}


def lines(capsys) -> list[dict]:
    """What these tests log; threads of other tests may still log something."""
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [line for line in found if line["logger"] in OWN]


def test_json_has_one_object_per_line(capsys):
    """Service, level, logger and time are part of each."""
    configure_logging("web", style="json")
    logging.getLogger("searchbus.web").warning("%d pages", 3)
    (line,) = lines(capsys)
    assert (
        line["service"], line["level"], line["logger"], line["event"],
    ) == ("web", "warning", "searchbus.web", "3 pages")  # fmt: skip
    assert line["timestamp"].endswith("Z")


def test_line_inside_a_span_has_its_ids(capsys):
    """They lead from a log line to the trace."""
    configure_logging("web", style="json")
    with TracerProvider().get_tracer("t").start_as_current_span("work") as span:
        logging.getLogger("t").info("inside")
    logging.getLogger("t").info("outside")
    inside, outside = lines(capsys)
    context = span.get_span_context()
    assert format(context.trace_id, "032x") == inside["trace_id"]
    assert format(context.span_id, "016x") == inside["span_id"]
    assert "trace_id" not in outside


def test_traceback_stays_in_its_line(capsys):
    """So that a collector does not split it."""
    configure_logging("web", style="json")
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("t").exception("failed")
    (line,) = lines(capsys)
    assert "ValueError: bad" in line["exception"]


@pytest.mark.parametrize("style", ["json", "console"])
def test_credentials_of_urls_are_hidden(capsys, style):
    """Also in errors of libraries; what else a line says stays."""
    configure_logging("web", style=style)
    try:
        raise ValueError("Failed to parse: https://ada:p@s3cret@otlp.example:99999/v1?to=a@b")
    except ValueError:
        logging.getLogger("t").exception("lost %s", "nats://s3cret@n1:4222,nats://ada:s3cret@n2")
    text = capsys.readouterr().err
    assert "s3cret" not in text
    assert "lost nats://…@n1:4222,nats://…@n2" in text
    assert "Failed to parse: https://…@otlp.example:99999/v1?to=a@b" in text


@pytest.mark.parametrize("style", ["json", "console"])
def test_half_a_pair_of_surrogates_is_written(capsys, style):
    """A name of a file may have one, and no line may be lost for it."""
    configure_logging("web", style=style)
    logging.getLogger("t").info("file \ud800")
    assert r"file \ud800" in capsys.readouterr().err


def test_level_and_chatty_libraries(capsys):
    """What is below the level is not printed; some libraries only warn."""
    configure_logging("web", level="info", style="json")
    logging.getLogger("t").debug("hidden")
    logging.getLogger("httpx").info("hidden")
    logging.getLogger("httpx").warning("shown")
    assert [line["event"] for line in lines(capsys)] == ["shown"]


def test_the_http_server_warns_of_no_single_request(capsys):
    """Strangers would fill the log: the watch of connections counts what is no HTTP."""
    configure_logging("web", style="json")
    assert not logging.getLogger("uvicorn.error").isEnabledFor(logging.WARNING)
    assert logging.getLogger("uvicorn.error").isEnabledFor(logging.ERROR)


def test_without_a_terminal_auto_is_json_and_console_is_for_people(capsys):
    """Standard error of a test is no terminal."""
    configure_logging("web")
    logging.getLogger("t").info("first")
    assert lines(capsys)[0]["event"] == "first"
    configure_logging("web", style="console")
    logging.getLogger("t").info("second")
    text = capsys.readouterr().err
    assert "second" in text
    assert not text.startswith("{")


FIRST = {
    "event": "a called b: ok", "timestamp": timestamp(1.5), "trace_id": "12ab",
    "arguments": {"q": ["é"]},
}  # fmt: skip
SECOND = {"event": "100 % of c", "timestamp": timestamp(2.0)}
LINES = [json.dumps(line).encode() for line in (FIRST, SECOND)]


def test_lines_logged_at_once_have_the_form_of_all_others(capsys):
    """One object each, with its own fields and its own time."""
    configure_logging("edge", style="json")
    log_lines(logging.getLogger("searchbus.audit"), LINES)
    logging.getLogger("searchbus.other").info("other")
    first, second, other = lines(capsys)
    assert {key: first[key] for key in ("event", "trace_id", "arguments")} == {
        key: FIRST[key] for key in ("event", "trace_id", "arguments")
    }
    assert (first["level"], first["logger"], first["service"]) == (
        "info",
        "searchbus.audit",
        "edge",
    )
    assert first["timestamp"] == "1970-01-01T00:00:01.500000Z"
    assert second["event"] == "100 % of c"
    assert second.keys() == other.keys()


def test_lines_logged_at_once_are_lines_for_people_too(capsys):
    """With the trace where there is one."""
    configure_logging("edge", style="console")
    log_lines(logging.getLogger("searchbus.audit"), LINES)
    first, second = capsys.readouterr().err.splitlines()
    assert "a called b: ok" in first
    assert "12ab" in first
    assert "100 % of c" in second


def test_lines_below_the_level_are_not_written(capsys):
    """They have level INFO."""
    configure_logging("edge", level="warning", style="json")
    log_lines(logging.getLogger("searchbus.audit"), LINES)
    assert lines(capsys) == []


def test_text_of_others_cannot_forge_lines_for_people(capsys):
    """Control characters are shown, also line feeds; a traceback keeps its lines."""
    configure_logging("web", style="console")
    log = logging.getLogger("searchbus.web")
    log.warning("title %s", "\x1b[2Jx\n2026-01-01 [info] forged\x9b31m")
    log_lines(log, [json.dumps({"event": "call \x1b[2J", "timestamp": timestamp(0.0)}).encode()])
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        log.exception("failed")
    written = capsys.readouterr().err
    assert "\x1b[2J" not in written
    assert "\x9b" not in written
    assert r"call \x1b[2J" in written
    assert r"\x1b[2Jx\n2026-01-01 [info] forged\x9b31m" in written
    assert "\nTraceback" in written or "Traceback (most recent call last):\n" in written


def test_lines_logged_at_once_are_text_for_every_other_handler(caplog):
    """As with any record."""
    caplog.set_level(logging.INFO)
    log_lines(logging.getLogger("searchbus.audit"), LINES)
    (record,) = caplog.records
    assert record.getMessage() == "a called b: ok\n100 % of c"
