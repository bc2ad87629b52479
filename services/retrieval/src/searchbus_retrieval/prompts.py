"""The prompts of toolset `fomc`."""

from __future__ import annotations

from searchbus_contracts import PromptArgument, PromptDescriptor, PromptMessage, TextContent

__all__ = ["PROMPTS"]

COMPARE_STATEMENTS = PromptDescriptor(
    name="compare_fomc_statements",
    toolset="fomc",
    title="Compare two FOMC statements",
    description="What changed between two statements of the Federal Open Market Committee, "
    "sentence by sentence, and what it signals.",
    arguments=(
        PromptArgument(name="earlier", description="Date of the earlier meeting.", required=True),
        PromptArgument(name="later", description="Date of the later meeting.", required=True),
        PromptArgument(name="focus", description="A topic to look at, such as inflation."),
    ),
    messages=(
        PromptMessage(
            role="user",
            content=TextContent(
                text="""Compare the FOMC statements of {earlier} and {later}.

Focus (everything, where empty): {focus}

1. Find both statements with search_fomc, filtering by document_date and document_type "statement";
   read each whole with get_document. If one is not there, name the nearest meetings and stop.
2. Go through them sentence by sentence: what was added, dropped, reworded. Quote both wordings.
3. Give the policy decision of each: target range, balance sheet, votes for and against.
4. Say what each change signals about the economy and the path of policy; keep what the text says
   apart from what you infer. Where the minutes explain a change, quote them with their date.
5. End with three lines: more hawkish or more dovish, the one most telling change, what stayed."""
            ),
        ),
    ),
    keywords=("Federal Reserve", "Fed", "monetary policy", "difference", "redline", "wording"),
)
PROMPTS = (COMPARE_STATEMENTS,)
