"""The prompts of toolset `fomc`."""

from __future__ import annotations

from searchbus_retrieval.service import build_worker


def test_prompt_has_a_placeholder_for_each_argument():
    """The edge fills them in."""
    (prompt,) = build_worker(None).catalog.prompts  # type: ignore[arg-type]
    assert (prompt.toolset, prompt.name) == ("fomc", "compare_fomc_statements")
    assert [(a.name, a.required) for a in prompt.arguments] == [
        ("earlier", True), ("later", True), ("focus", False)
    ]  # fmt: skip
    text = prompt.messages[0].content.text
    assert all(f"{{{argument.name}}}" in text for argument in prompt.arguments)
