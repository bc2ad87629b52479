"""Tool search in a whole stack, from the command line and with several replicas."""

from __future__ import annotations

import json

from searchbus_testing import eventually, messages, post


def search(url: str, query: str) -> list[str]:
    (message,) = messages(post(f"{url}/mcp", "tools/search", query=query))
    return [tool["name"] for tool in message["result"]["tools"]]


def test_command_line_searches_with_scores_and_why(stack):
    """Names, scores and the words that matched; prompts and resources as well."""

    def searched(*words: str, expected: str) -> str | None:
        # Each replica follows the catalogs by itself, and has some a moment later than others.
        done = stack.command("tools", "search", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout if expected in done.stdout else None

    query = "what did the Fed say about inflation"
    shown = eventually(lambda: searched(query, expected="search_fomc"), timeout_s=60)
    assert "Fed" in shown
    prompts = ("check a claim", "--kind", "prompt", "--json")
    found = json.loads(
        eventually(lambda: searched(*prompts, expected="verify_claim"), timeout_s=60)
    )
    assert found["matches"][0]["name"] == "verify_claim"
    assert found["matches"][0]["score"] > 0
    nothing = stack.command("tools", "search", "breed ferrets in captivity")
    assert "No tool fits that." in nothing.stdout
    wrong = stack.command("tools", "search", "x", "--kind", "spoon")
    assert wrong.returncode == 2
    assert "choose tool, prompt or resource" in wrong.stderr


def test_command_line_benchmarks_a_catalogue(stack, tmp_path):
    """Recall, nDCG and times; a bad line is named."""
    tools = [
        ("rain", "Tells whether it will rain."),
        ("mail", "Sends an email."),
        ("sum", "Adds numbers."),
    ]
    lines = [
        json.dumps({"id": f"x/{n}", "name": n, "description": d, "server": "x"}) for n, d in tools
    ]
    (tmp_path / "tools.jsonl").write_text("\n".join(lines))
    queries = [("write an email", "mail"), ("will it rain", "rain"), ("add these numbers", "sum")]
    lines = [json.dumps({"id": n, "text": q, "relevant": [f"x/{n}"]}) for q, n in queries]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    report = json.loads(stack.command("tools", "bench", str(tmp_path), "--json").stdout)
    assert (report["tools"], report["queries"]) == (3, 3)
    assert report["measures"]["recall@1"] == report["measures"]["ndcg@10"] == 1.0
    assert report["measures"]["p50 ms"] > 0
    assert "recall@5" in stack.command("tools", "bench", str(tmp_path / "tools.jsonl")).stdout
    (tmp_path / "queries.jsonl").write_text('{"text": "x", "relevant": ["none"]}')
    bad = stack.command("tools", "bench", str(tmp_path))
    assert bad.returncode == 2
    assert "queries.jsonl:1: unknown tool 'none'" in bad.stderr.replace("\n", "")


def test_replicas_answer_alike(stack):
    """Both tool indexes of a queue group give the same answer."""
    query = "passages of the Federal Reserve's minutes. Research a question in several sources."

    def alike():
        answers = {tuple(search(stack.url, query)) for _ in range(12)}
        # Each follows the catalogs by itself: the edge's own tools come last, a moment later.
        complete = len(answers) == 1 and "research_brief" in next(iter(answers))
        return next(iter(answers)) if complete else None

    assert {"search_fomc", "research_brief"} <= set(eventually(alike, timeout_s=300)[:3])
