"""`searchbus web`."""

from __future__ import annotations

import json

import pytest

from searchbus_testing import run_command

VOTES = [
    {"provider": "tavily", "rank": 1, "score": 0.2},
    {"provider": "ddg", "rank": 2, "score": 0.1667},
    {"provider": "bing", "rank": 3, "score": 0.1429, "counted": False},
]
ANSWER = {
    "query": "whales",
    "results": [
        {
            "title": "Whales [1]", "url": "https://a.org/", "snippet": "They sing.",
            "explanation": {"score": 0.3667, "votes": VOTES, "copies": ["https://b.org/"],
                            "behind_others": True},
        }
    ],
    "notes": ["A note."],
    "coverage": [{"source": "brave", "state": "failed", "message": "It does not answer."}],
    "left_out": [
        {"url": "https://c.org/", "title": "Old", "reason": "older",
         "explanation": {"score": 0.2, "votes": VOTES[:1]}},
        {"url": "http://10.0.0.1/", "title": "Private", "reason": "not_public",
         "provider": "tavily"},
    ],
}  # fmt: skip


@pytest.fixture
def edge(fake_edge):
    """Answers every search with `ANSWER`; `fail` fails."""

    def answer(params):
        failed = params["arguments"]["query"] == "fail"
        content = [{"type": "text", "text": "It failed." if failed else json.dumps(ANSWER)}]
        shown = {} if failed else {"structuredContent": ANSWER}
        return {"result": {"content": content, "isError": failed, **shown}}

    fake_edge.answers["tools/call"] = answer
    return fake_edge


def test_votes_and_what_was_left_out_are_shown(edge):
    """One line for each; the parts that count are summed."""
    done = run_command("web", "whales", "--explain", "--url", edge.url)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "Whales [1] https://a.org/",
        "  They sing.",
        "  0.37 = tavily 0.20 (rank 1) + ddg 0.17 (rank 2); with the same index: bing 0.14 (rank "
        "3); also at https://b.org/; behind other domains",
        "A note.",
        "brave failed: It does not answer.",
        "left out (older): Old https://c.org/, 0.20 = tavily 0.20 (rank 1)",
        "left out (not_public): Private http://10.0.0.1/, of tavily",
    ]


def test_options_become_arguments(edge):
    """What is not given is not sent."""
    run_command("web", "whales", "--url", f"{edge.url}/mcp")
    run_command(
        "web", "whales", "--explain", "--limit", "3", "--time-range", "w", "--domain", "a.org",
        "--domain", "b.org", "--exclude-domain", "c.org", "--url", edge.url,
    )  # fmt: skip
    (path, _, plain), (_, _, full) = edge.received
    assert path == "/mcp/web"
    assert plain["params"]["name"] == "web_search_advanced"
    assert plain["params"]["arguments"] == {"query": "whales", "maxResults": 10}
    assert full["params"]["arguments"] == {
        "query": "whales", "maxResults": 3, "timeRange": "w", "includeDomains": ["a.org", "b.org"],
        "excludeDomains": ["c.org"], "explain": True,
    }  # fmt: skip


def test_json_has_the_whole_answer(edge):
    """For programs."""
    done = run_command("web", "whales", "--json", "--url", edge.url)
    assert json.loads(done.stdout) == ANSWER


def test_failures_are_shown(edge, tmp_path):
    """Of the search, and where no stack is running."""
    failed = run_command("web", "fail", "--url", edge.url)
    assert (failed.returncode, "It failed." in failed.stderr) == (1, True)
    none = run_command("web", "whales", "--data", str(tmp_path))
    assert "searchbus up" in " ".join(none.stderr.split())


def test_provider_that_failed_has_one_line(edge):
    """The note of the answer, which the coverage repeats."""
    note = "brave failed (upstream_failed): It does not answer."
    answer = {**ANSWER, "notes": [note], "left_out": []}
    edge.answers["tools/call"] = lambda params: {
        "result": {"content": [{"type": "text", "text": json.dumps(answer)}]}
    }
    lines = run_command("web", "x", "--url", edge.url).stdout.splitlines()
    assert [line for line in lines if "brave" in line] == [note]


def test_nothing_found_is_said(edge):
    """The exit code is 0."""
    edge.answers["tools/call"] = lambda params: {
        "result": {"content": [{"type": "text", "text": json.dumps({"query": "x", "results": []})}]}
    }
    done = run_command("web", "x", "--url", edge.url)
    assert (done.returncode, done.stdout) == (0, "nothing found\n")
