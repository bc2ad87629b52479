"""The documentation: links lead somewhere, and every decision has its line in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def pages() -> list[str]:
    """Every Markdown file of the repository."""
    folders = ("docs", "deploy", "examples", "libs", "proto", "services", "tests")
    found = [*ROOT.glob("*.md"), *(p for name in folders for p in (ROOT / name).rglob("*.md"))]
    return sorted(str(path.relative_to(ROOT)) for path in found)


@pytest.mark.parametrize("page", pages())
def test_relative_links_lead_to_files(page):
    """A link to a file or folder of the repository names one that exists."""
    path = ROOT / page
    broken = [link for link in LINK.findall(path.read_text()) if not (path.parent / link).exists()]
    assert broken == []


def test_index_of_decisions_lists_every_page_once():
    """docs/decisions/README.md has one line for each page, in order, with the page's title."""
    folder = ROOT / "docs" / "decisions"
    numbered = sorted(p.name for p in folder.glob("[0-9][0-9]-*.md"))
    listed = re.findall(r"^\| \[\d\d\]\(([^)]+)\)", (folder / "README.md").read_text(), re.M)
    assert listed == numbered
    assert 0 < len(numbered) <= 12


@pytest.mark.parametrize("page", [p for p in pages() if re.search(r"docs/decisions/\d", p)])
def test_decision_has_every_section(page):
    """Context, decision, consequences, and what would change it."""
    sections = re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.M)
    assert sections == ["Context", "Decision", "Consequences", "What would change our mind"]


def test_glossary_defines_each_term_once():
    """No term stands in two rows, unless its meanings are distinguished in brackets."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| (\*\*.+?) \| ", text, re.M)
    terms = [term for row in rows for term in row.split(", ")]
    assert len(terms) == len(set(terms))
