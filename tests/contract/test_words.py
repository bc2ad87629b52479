"""Texts that models and users read: noun phrases or sentences, short, in plain words."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.contract.test_messages import texts_of

ROOT = Path(__file__).parents[2]
MOST_WORDS = 25
"""A sentence; what stands in backticks counts as one word."""
EXEMPT = {"proto/schema/tools/fomc.search_fomc.json/input_schema/properties/where/description"}
"""The tool's contract fixes this text."""
_SENTENCES = re.compile(r"(?<=[.;:!?])\s+|\n+(?=\s*(?:[-*|]|\n|$))|\n\n")
_TWISTED = re.compile(
    r"\b(?:is|are|was|were|has|have) none\b"
    r"|(?<!\bthere )(?<!\bThere )\b(?:is|are) no (?!longer\b|more\b)"
    r"|\bnone of ours\b",
)


def faults_of(text: str) -> Iterator[str]:
    """What is wrong with a text."""
    if re.match(r"of\b", text, re.IGNORECASE):
        yield "it opens with 'Of'"
    if found := _TWISTED.search(text):
        yield f"{found[0]!r} in place of 'not a'"
    for sentence in _SENTENCES.split(re.sub(r"`[^`]*`|'[^' ]*'|\"[^\"]*\"", "x", text)):
        if len(words := sentence.split()) > MOST_WORDS:
            yield f"a sentence of {len(words)} words: {' '.join(words[:8])} …"


def _descriptions(value: Any, way: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("description", "title") and isinstance(inner, str):
                yield f"{way}/{key}", inner
            else:
                yield from _descriptions(inner, f"{way}/{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _descriptions(inner, f"{way}/{number}")


def catalogue_texts() -> Iterator[tuple[str, str]]:
    """Descriptions of every tool, of its fields, and of the messages."""
    for path in sorted((ROOT / "proto" / "schema").rglob("*.json")):
        for way, text in _descriptions(json.loads(path.read_text())):
            yield f"{path.relative_to(ROOT)}{way}", text


def help_texts() -> Iterator[tuple[str, str]]:
    """Help of every command of searchbus, and of its options."""
    commands = {entry.name: entry.load() for entry in entry_points(group="searchbus.commands")}
    assert len(commands) > 3
    for name, value in commands.items():
        if not isinstance(value, typer.Typer):
            app = typer.Typer()
            app.command(name)(value)
            value = app
        yield from _help(name, typer.main.get_command(value))


def _help(name: str, command: Any) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    for option in command.params:
        yield f"{name} {option.name}", getattr(option, "help", None) or ""
    for inner, value in getattr(command, "commands", {}).items():
        yield from _help(f"{name} {inner}", value)


def failure_texts() -> Iterator[tuple[str, str]]:
    """Texts of every failure in the code."""
    for path in sorted(ROOT.glob("*/*/src/**/*.py")):
        for text in texts_of(path.read_text(), str(path.relative_to(ROOT))):
            yield text.place, text.text


def docstrings() -> Iterator[tuple[str, str]]:
    """Docstrings of the code, and strings below a constant or a field."""
    for path in sorted(ROOT.glob("*/*/src/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Expr(value=ast.Constant(value=str() as text)):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


@pytest.mark.parametrize("texts", [catalogue_texts, help_texts, failure_texts])
def test_texts_for_models_and_users_are_plain(texts):
    """Descriptions, help and failures."""
    found = list(texts())
    assert len(found) > 30
    wrong = [
        f"{place}: {fault}"
        for place, text in found
        if place not in EXEMPT
        for fault in faults_of(text)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_docstring_opens_with_of():
    """A docstring has its subject: a noun phrase or a sentence."""
    wrong = [place for place, text in docstrings() if re.match(r"\s*Of\b", text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("Budget of tokens for the whole answer.", 0),
        ("Of the answer, shared by the pages.", 1),
        ("A port that is none.", 1),
        ("The name is no time.", 1),
        ("There is no toolset x. It is no longer there.", 0),
        ("word " * 26, 1),
        ("word " * 20 + "end. " + "word " * 20, 0),
    ],
)
def test_rule_finds_what_it_should(text, faults):
    """On small examples."""
    assert len(list(faults_of(text.strip()))) == faults
