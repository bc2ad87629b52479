"""The prompts of toolset `fomc`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from searchbus_bus import Toolset, prompt

__all__ = ["FomcPrompts"]


class FomcPrompts(Toolset, name="fomc"):
    """Ways of working with the FOMC tools."""

    @prompt(
        title="Compare two FOMC statements",
        keywords=("Federal Reserve", "Fed", "monetary policy", "difference", "redline", "wording"),
    )
    def compare_fomc_statements(
        self,
        earlier: Annotated[str, Meta(description="Date of the earlier meeting.")],
        later: Annotated[str, Meta(description="Date of the later meeting.")],
        focus: Annotated[str, Meta(description="A topic to look at, such as inflation.")] = "",
    ) -> str:
        """What changed between two statements of the Federal Open Market Committee, sentence by
        sentence, and what it signals."""
        return f"""Compare the FOMC statements of {earlier} and {later}.

Focus (everything, where empty): {focus}

1. Find both statements with search_fomc, filtering by document_date and document_type "statement";
   read each whole with get_document. If one is not there, name the nearest meetings and stop.
2. Go through them sentence by sentence: what was added, dropped, reworded. Quote both wordings.
3. Give the policy decision of each: target range, balance sheet, votes for and against.
4. Say what each change signals about the economy and the path of policy; keep what the text says
   apart from what you infer. Where the minutes explain a change, quote them with their date.
5. End with three lines: more hawkish or more dovish, the one most telling change, what stayed."""
