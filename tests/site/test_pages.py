"""The site's pages: made from the code, with links that lead to pages."""

from __future__ import annotations

import json
import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from scripts.site import check, pages, reference
from scripts.site.measured import metrics

from searchbus_cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PLACES = {"README.md": "index.md", "docs/a.md": "a.md", "libs/b/README.md": "packages/b.md"}


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """The pages that are made from the code."""
    return reference.pages()


def test_commands_are_all_described(made):
    """Those of the command line and of each package, with their options."""
    names = {*COMMANDS, *(entry.name for entry in entry_points(group="searchbus.commands"))}
    heads = re.findall(r"^## searchbus (.+)$", made["reference/commands.md"], re.M)
    assert len(heads) == len(set(heads)) > 20
    missing = {
        name for name in names if not any(head.startswith(name.replace(".", " ")) for head in heads)
    }
    assert missing == set()
    assert "| `--data` |" in made["reference/commands.md"]
    assert r"Writes \<data>/state.json" in made["reference/commands.md"], "no tag of HTML"


def test_tools_are_all_described_with_their_arguments(made):
    """Those of proto/ and the composites of the edge."""
    text = made["reference/tools.md"]
    heads = set(re.findall(r"^### (\w+): (\w+)$", text, re.M))
    assert heads >= {("connector", "search"), ("lazy", "find_tools")}
    for path in (ROOT / "proto/schema/tools").glob("*.json"):
        tool = json.loads(path.read_text())
        assert (tool["toolset"], tool["name"]) in heads
        for argument in tool["input_schema"]["properties"]:
            assert f"| `{argument}` |" in text


def test_messages_are_all_described(made):
    """Each with properties in proto/schema."""
    heads = set(re.findall(r"^## (\w+)$", made["reference/messages.md"], re.M))
    schemas = (ROOT / "proto/schema").glob("*.json")
    assert heads == {p.stem for p in schemas if "properties" in json.loads(p.read_text())}


def test_metrics_have_kind_and_description(made):
    """A table of counters, gauges of a loop and histograms in seconds among them."""
    found = metrics()
    assert {kind for kind, _, _ in found.values()} == {"counter", "gauge", "histogram"}
    assert all(text for _, text, _ in found.values())
    assert {"searchbus_tool_duration_seconds", "searchbus_attach_server_up",
            "searchbus_attach_changes_total"} <= set(found)  # fmt: skip
    assert all(f"| `{name}` |" in made["reference/metrics.md"] for name in found)


def test_every_page_is_in_the_contents(made):
    """Those of docs/, the READMEs, and those that are made from the code; each once."""
    named = [name for names in pages.CONTENTS.values() for name in names]
    assert len(named) == len(set(named))
    every = {str(Path(page).with_suffix("")) for page in (*pages.files().values(), *made)}
    parts = {name for name in every if name.startswith(("decisions/", "packages/"))}
    every -= {"index", "reference/openapi"}
    assert every - parts - set(named) == set(), "add them to CONTENTS in scripts/site/pages.py"
    assert set(named) - every == set()


@pytest.mark.parametrize(
    ("source", "text", "relinked"),
    [
        ("README.md", "[a](docs/a.md#x)", "[a](a.md#x)"),
        ("docs/a.md", "[b](../libs/b/README.md)", "[b](packages/b.md)"),
        ("docs/a.md", "[b](../libs/b)", "[b](packages/b.md)"),
        ("libs/b/README.md", "[two\nlines](../../docs/a.md)", "[two\nlines](../a.md)"),
        ("libs/b/README.md", "[`code.py`](src/code.py)", "`code.py`"),
        ("README.md", "![picture](docs/x/y.svg)", "![picture](x/y.svg)"),
        ("README.md", "[out](https://example.org/a.md) [here](#x)",
         "[out](https://example.org/a.md) [here](#x)"),
        ("README.md", "```\n[a](docs/a.md)\n```\n", "```\n[a](docs/a.md)\n```\n"),
    ],
)  # fmt: skip
def test_links_lead_to_pages(tmp_path, monkeypatch, source, text, relinked):
    """A link to a file that is no page becomes text; code stays."""
    (tmp_path / "libs/b").mkdir(parents=True)
    (tmp_path / "libs/b/README.md").touch()
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    assert pages.relinked(text, source, PLACES) == relinked


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="b.html#there">b</a>', None),
        ('<a href="#here" id="here">a</a>', None),
        ('<a href="https://example.org/">out</a>', None),
        ('<a href="c.html">c</a>', "a.html: c.html leads nowhere"),
        ('<a href="b.html#gone">b</a>', "a.html: b.html#gone names no heading"),
        ('<img src="gone.svg">', "a.html: gone.svg leads nowhere"),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "a.html: loads https://cdn.example/x.js",
        ),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "a.html: loads //cdn.example/x.css"),
    ],
)
def test_check_finds_broken_links_and_other_hosts(tmp_path, body, fault):
    """In built pages."""
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1>')
    assert list(check.faults(tmp_path)) == ([fault] if fault else [])
    assert list(check.external(tmp_path)) == (["https://example.org/"] if "out" in body else [])
