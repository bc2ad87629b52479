"""`searchbus trace`."""

from __future__ import annotations

import fcntl
import json
import os
import time
from types import SimpleNamespace

import pytest

from searchbus_cli import trace as module
from searchbus_runtime import StackState, write_state
from searchbus_testing import run_command

MS = 1_000_000


def span(trace_id, span_id, parent_id, name, service, start_ms, end_ms, **more):
    return {
        "trace_id": trace_id * 32, "span_id": span_id, "parent_id": parent_id, "name": name,
        "kind": "server", "service": service, "start_ns": start_ms * MS, "end_ns": end_ms * MS,
        **more,
    }  # fmt: skip


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Three traces: a call with a failed search, a catalog request that came later, a search."""
    monkeypatch.setattr(module, "FLUSH_WAIT_S", 0)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0)
    spans = [
        span("a", "1", None, "tools/call search", "edge", 1000, 1100),
        span("a", "2", "1", "web search", "web", 1010, 1060, error="upstream_failed"),
        span("b", "3", None, "catalog", "edge", 3000, 3001),
        span("c", "4", None, "retrieval.search", "retrieval", 2000, 2010),
    ]
    text = "".join(json.dumps(one) + "\n" for one in spans)
    (tmp_path / "traces.jsonl").write_text(text + '{"torn')
    return tmp_path


def test_a_trace_is_listed_by_its_call(data):
    """Not by what the client asked before it, in the same trace."""
    spans = [
        span("d", "5", None, "tools/list", "edge", 4000, 4001),
        span("d", "6", None, "tools/call search", "edge", 4002, 9002),
    ]
    (data / "traces.jsonl").write_text("".join(json.dumps(one) + "\n" for one in spans))
    done = run_command("trace", "--data", data)
    assert "5000.00 ms  edge tools/call search" in done.stdout
    assert "tools/list" not in done.stdout


def test_waterfall_shows_services_durations_and_failures(data):
    """Children stand below their parent, with a bar for their time."""
    done = run_command("trace", "aaaa", "--data", data)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()[1:3]
    assert f"trace {'a' * 32}" == done.stdout.splitlines()[0]
    assert "└── edge tools/call search" in first
    assert "100.00 ms" in first
    assert "    └── web web search upstream_failed" in second
    assert "50.00 ms" in second
    assert first.count("━") > second.count("━") > 0


def test_last_is_the_newest_call_or_search(data):
    """Requests that the system makes by itself do not count."""
    done = run_command("trace", "--last", "--json", "--data", data)
    assert [one["name"] for one in json.loads(done.stdout)] == ["retrieval.search"]


def newest(data, monkeypatch, *steps) -> list[str]:
    """The spans that `--last` shows, if one of the steps happens in each of its pauses."""
    pauses = iter(steps)
    clock = SimpleNamespace(sleep=lambda _: next(pauses)(), monotonic=time.monotonic)
    monkeypatch.setattr(module, "time", clock)
    found = json.loads(run_command("trace", "--last", "--json", "--data", data).stdout)
    return [one["name"] for one in found]


def nothing() -> None:
    """A pause in which nothing is written."""


CALL = span("d", "5", "9", "tools/call search", "edge", 4000, 4100)
"""Its parent is the client's own span, which is in no file of ours."""
SEARCH = span("d", "6", "5", "process web.search", "web", 4010, 4060) | {"kind": "consumer"}


@pytest.mark.parametrize(
    ("first", "pauses", "late"), [(SEARCH, (nothing, nothing), CALL), (CALL, (), SEARCH)]
)
def test_last_is_shown_once_it_is_whole(data, monkeypatch, first, pauses, late):
    """A span's parent may come late, and a child just after the others."""

    def write(one) -> None:
        with (data / "traces.jsonl").open("a") as file:
            file.write("\n" + json.dumps(one) + "\n")

    steps = (lambda: write(first), *pauses, lambda: write(late), nothing)
    assert newest(data, monkeypatch, *steps) == [first["name"], late["name"]]


def test_last_waits_for_a_process_that_writes(data, monkeypatch):
    """While its disk is slow, no other process writes either."""
    with (data / "traces.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def written() -> None:
            with (data / "traces.jsonl").open("a") as file:
                file.writelines("\n" + json.dumps(one) + "\n" for one in (SEARCH, CALL))
            fcntl.flock(lock, fcntl.LOCK_UN)

        shown = newest(data, monkeypatch, nothing, nothing, written, nothing)
    assert shown == ["process web.search", "tools/call search"]


def test_last_is_shown_without_a_span_that_was_lost(data, monkeypatch):
    """After a while."""
    monkeypatch.setattr(module, "MOST_WAIT_S", 0)
    (data / "traces.jsonl").write_text(json.dumps(SEARCH) + "\n")
    assert newest(data, monkeypatch, nothing) == ["process web.search"]


def test_without_an_id_the_newest_traces_are_listed(data):
    """One line each, by the first span of each."""
    lines = run_command("trace", "--data", data).stdout.splitlines()
    assert [line.split("  ")[-1].split(" ", 1)[1] for line in lines] == [
        "catalog",
        "retrieval.search",
        "tools/call search",
    ]
    rows = json.loads(run_command("trace", "--json", "--data", data).stdout)
    assert [row["trace_id"] for row in rows] == ["b" * 32, "c" * 32, "a" * 32]


def test_narrow_terminal_loses_the_bar_not_the_duration(data, monkeypatch):
    """The table becomes wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(module.out, "_width", 40)
    text = run_command("trace", "aaaa", "--data", data).stdout
    assert "100.00 ms" in text
    assert "━" not in text


@pytest.mark.parametrize(
    ("arguments", "said"), [(("dddd",), "There is no trace dddd."), ((), "There are no traces at")]
)
def test_what_is_not_there_is_named(data, tmp_path, arguments, said):
    """With what to do."""
    folder = data if arguments else tmp_path / "empty"
    done = run_command("trace", *arguments, "--data", folder)
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--last",), ()])
def test_traces_that_go_to_a_collector_are_looked_for_there(data, arguments):
    """The file has only those of an earlier stack."""
    endpoint = "http://jaeger.example:4318"
    write_state(StackState("u", "n", str(data), os.getpid(), {}, otlp_endpoint=endpoint))
    done = run_command("trace", *arguments, "--data", data)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"sends its traces to {endpoint}" in done.stderr
    assert run_command("trace", "aaaa", "--data", data).returncode == 0
    assert endpoint in run_command("trace", "dddd", "--data", data).stderr


def test_folder_that_is_a_file_has_no_traces(tmp_path):
    """And no traceback."""
    path = tmp_path / "file"
    path.write_text("")
    done = run_command("trace", "--data", path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: There are no traces at")


def test_long_lines_of_the_list_are_not_broken(data, monkeypatch):
    """In a pipe."""
    monkeypatch.setattr(module.out, "_width", 40)
    assert len(run_command("trace", "--data", data).stdout.splitlines()) == 3
