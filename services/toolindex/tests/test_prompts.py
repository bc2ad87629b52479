"""The prompts of toolset `research`."""

from __future__ import annotations

from searchbus_toolindex.service import build_worker


def test_prompts_have_a_placeholder_for_each_argument():
    """The edge fills them in; values of an argument are listed."""
    prompts = {p.name: p for p in build_worker(None).catalog.prompts}  # type: ignore[arg-type]
    assert sorted(prompts) == ["daily_news_brief", "research_question", "verify_claim"]
    for prompt in prompts.values():
        text = prompt.messages[0].content.text
        assert prompt.toolset == "research"
        assert all(f"{{{argument.name}}}" in text for argument in prompt.arguments)
        assert [a.required for a in prompt.arguments] == [True, False]
    assert prompts["research_question"].arguments[1].values == ("brief", "thorough")
