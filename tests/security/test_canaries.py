"""Secrets and what users say appear in no log, span, error or reply."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import start_stack

__all__ = ["start_stack"]

KEY = "tvly-canary-key-4711"
WORD = "canaryquery0815"
PASSWORD = "canary-proxy-password"


@pytest.fixture(scope="module")
def stack(start_stack, tmp_path_factory):
    """A stack with a paid key, a proxy with a password, and keys of its own bus."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SEARCHBUS_TAVILY_API_KEYS", json.dumps([KEY]))
        environment.setenv("SEARCHBUS_LOG_LEVEL", "debug")
        yield start_stack(tmp_path_factory.mktemp("canaries"), "--fake-upstreams", "--secure")


def test_nothing_secret_is_told(stack):
    """Neither where all goes well nor where everything fails."""
    said = ""
    for name, argument in (
        ("web_search", f"query={WORD} whales"), ("web_search", f"query={WORD} http401"),
        ("web_search_news", f"query={WORD} http500"), ("search", f"query={WORD}"),
        ("ddg_web_search", f"query={WORD} http500"), ("instant_answer", f"query={WORD} http500"),
        ("web_extract_content", f'urls=["http://a.example.org/{WORD}", "http://user:{PASSWORD}@a.example.org/"]'),
        ("search_fomc", f"query={WORD}"), ("fetch", f"id=doc:none:{WORD}"), ("find_tools", f"query={WORD}"),
    ):  # fmt: skip
        done = stack.command("tools", "call", name, argument, "--raw")
        said += done.stdout + done.stderr
    log = stack.log
    traces = "".join(p.read_text() for p in stack.data.glob("traces*.jsonl"))
    assert "web_search" in log
    assert "tools/call web_search" in traces
    secrets = json.loads((stack.data / "secure" / "keys.json").read_text())
    hidden = [KEY, secrets["actor_private"], *secrets["seeds"].values()]
    for secret in hidden:
        for place, text in (("log", log), ("traces", traces), ("replies", said)):
            assert secret not in text, place
    for place, text in (("log", log), ("traces", traces)):
        assert WORD not in text, place
        assert PASSWORD not in text, place
