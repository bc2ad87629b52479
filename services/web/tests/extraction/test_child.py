"""The protocol of the process that parses pages, run in this process."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import msgspec
import pytest

from searchbus_web.extraction import child
from searchbus_web.extraction.child import LENGTH
from searchbus_web.extraction.reading import Answer, PageBytes, PageText


def run(
    monkeypatch, capfd, pages: list[PageBytes], setrlimit: Callable[..., None] = lambda *_: None
) -> list[PageText]:
    """Feed pages to `main` and decode its replies."""
    bodies = [msgspec.msgpack.encode(page) for page in pages]
    requests = b"".join(LENGTH.pack(len(body)) + body for body in bodies)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(requests)))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    replies = io.BytesIO()
    monkeypatch.setattr(os, "fdopen", lambda *_: replies)
    monkeypatch.setattr(os, "dup", lambda number: number)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    child.main()
    replies.seek(0)
    found = []
    while head := replies.read(LENGTH.size):
        body = replies.read(LENGTH.unpack(head)[0])
        found.append(msgspec.msgpack.decode(body, type=Answer))
    return found


def test_every_page_has_a_reply(monkeypatch, capfd):
    """In order, until standard input ends."""
    pages = [PageBytes("", text, "text/plain") for text in (b"one", b"", b"three")]
    assert run(monkeypatch, capfd, pages) == [
        PageText("one"), PageText(problem="empty"), PageText("three"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "problem"), [(MemoryError(), "too_complex"), (ZeroDivisionError(), "parse_error")]
)
def test_errors_of_parsers_are_problems(monkeypatch, capfd, error, problem):
    """The next page is parsed all the same."""

    def answer(page: PageBytes) -> PageText:
        if page.body == b"bad":
            raise error
        return PageText("good")

    monkeypatch.setattr(child, "answer", answer)
    pages = [PageBytes("", body, "text/plain") for body in (b"bad", b"good")]
    assert run(monkeypatch, capfd, pages) == [PageText(problem=problem), PageText("good")]


@pytest.mark.parametrize(("platform", "limits"), [("linux", ["AS", "CORE"]), ("darwin", ["CORE"])])
def test_memory_is_limited_where_the_system_can(monkeypatch, capfd, platform, limits):
    """macOS refuses every limit of the address space: no page would be parsed there."""
    found = []
    names = {resource.RLIMIT_AS: "AS", resource.RLIMIT_CORE: "CORE"}
    import trafilatura  # noqa: F401  (as this platform has it)

    monkeypatch.setattr(sys, "platform", platform)
    assert run(monkeypatch, capfd, [], lambda kind, _: found.append(names[kind])) == []
    assert found == limits


def test_parsers_alone_are_imported():
    """A process that parses pages starts in a moment, and has no client of HTTP or of the bus."""
    done = subprocess.run(
        [sys.executable, "-c", "import searchbus_web.extraction.child, sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    modules = set(done.stdout.split())
    assert "searchbus_web.extraction.reading" in modules
    assert not modules & {"asyncio", "cryptography", "httpx", "nats", "opentelemetry", "rich"}
