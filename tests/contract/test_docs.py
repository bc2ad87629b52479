"""The documentation: links lead somewhere, and every decision has its line in the index."""

from __future__ import annotations

import re
import subprocess
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
    assert 0 < len(numbered) <= 15


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


@pytest.mark.parametrize("page", [p for p in pages() if not p.startswith("docs/performance")])
def test_paragraphs_are_short(page):
    """At most 80 words; tables and code are no paragraphs."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.S)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) )", text)
    long = [p for p in paragraphs if len(p.split()) > 80 and not p.lstrip().startswith("|")]
    assert long == []


def test_readme_fits_on_one_screen():
    """What is more stands in the pages that it leads to."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 60


def test_every_folder_of_tests_that_is_described_is_committed():
    """A pattern of .gitignore once left one out, and a target of make had no tests."""
    described = re.findall(r"`([a-z0-9]+)`", "".join(_first_cells("tests/README.md")))
    tracked = subprocess.check_output(["git", "ls-files", "tests"], cwd=ROOT, text=True).split()
    folders = {Path(name).parts[1] for name in tracked if name.count("/") > 1}
    assert "dist" in described
    assert set(described) == folders


def _first_cells(page: str) -> list[str]:
    return re.findall(r"^\| (`.*?) \|", (ROOT / page).read_text(), re.MULTILINE)


def test_comparison_names_a_source_for_each_statement():
    """Every number has a row, every row is used, every system has what it does better."""
    text, _, sources = (ROOT / "docs/comparison.md").read_text().partition("## Sources")
    used = {int(number) for number in re.findall(r"\\\[(\d+)\]", text)}
    rows = [int(number) for number in re.findall(r"^\| (\d+) \| \S", sources, re.M)]
    assert used == set(rows)
    assert len(rows) == len(used) >= 15
    for section in text.split("\n## ")[2:]:
        better = re.search(r"^- \*\*Better there\*\*:(.*?)(?=^- |\Z)", section, re.M | re.S)
        assert better, section.partition("\n")[0]
        assert re.search(r"\\\[\d+\]", better[1]), section.partition("\n")[0]
