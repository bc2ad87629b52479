"""Texts of failures in the code: they end with what to do, and advise a retry where one may help."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from searchbus_contracts import ErrorCode
from searchbus_contracts.errors import RETRYABLE

ROOT = Path(__file__).parents[2]
DYNAMIC = "…"
IMPERATIVES = (
    "add ask change correct delete free give go ingest leave list look make omit pass put raise "
    "rephrase report restart run search say send shorten start take try use wait write"
).split()
_REMEDY = re.compile(
    rf"(?:^|[.;:] |, or |, then |, and )(?:{'|'.join(IMPERATIVES)})\b|\bhas to\b", re.IGNORECASE
)
_RETRY = re.compile(r"\btry again\b|\bwait\b|\bagain later\b", re.IGNORECASE)
EXEMPT = {
    "No query": "SearXNG's own text, which its clients compare.",
    "there is no key for this service's buckets": "A part of the text of the key-value store.",
}
SILENT = {ErrorCode.CANCELLED}
"""Nobody waits for these."""


class Text(NamedTuple):
    """The text of a failure; parts that are known only when it runs are `DYNAMIC`.

    Args:
        code, retryable: None where they are known only then.
    """

    place: str
    text: str
    code: ErrorCode | None
    retryable: bool | None


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(_text, values))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
    return DYNAMIC


def _code(node: ast.expr) -> ErrorCode | None:
    match node:
        case ast.Attribute(value=ast.Name(id="ErrorCode"), attr=name):
            return ErrorCode[name]
    return None


def _retryable(code: ErrorCode | None, node: ast.expr | None) -> bool | None:
    if node is None:
        return None if code is None else code in RETRYABLE
    return node.value if isinstance(node, ast.Constant) else None


def texts_of(source: str, place: str) -> Iterator[Text]:
    """The texts of `Fault(code, text)`, `Failure(code=…, message=text)`, `invalid_params(text)`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        if node.func.id == "Fault" and len(node.args) > 1:
            first, second = node.args[:2]
            code = _code(first)
            retryable = _retryable(code, named.get("retryable"))
        elif node.func.id == "Failure" and {"code", "message"} <= named.keys():
            second, code = named["message"], _code(named["code"])
            given = named.get("retryable")
            retryable = False if given is None else _retryable(code, given)
        elif node.func.id == "invalid_params" and node.args:
            second, code, retryable = node.args[0], None, False
        else:
            continue
        yield Text(f"{place}:{node.lineno}", _text(second), code, retryable)


def faults_of(text: Text) -> Iterator[str]:
    """What is wrong with a text."""
    shown = text.text
    if text.code in SILENT or shown in EXEMPT or not shown.strip(DYNAMIC + " .;:"):
        return
    ends_in_words = not shown.endswith((DYNAMIC, f"{DYNAMIC}."))
    if ends_in_words and not shown.endswith("."):
        yield "it does not end with a full stop"
    last = re.split(rf"(?<=[.;]) |(?<={DYNAMIC}) (?=[A-Z])", shown)[-1]
    if ends_in_words and not _REMEDY.search(f". {last}"):
        yield "its last sentence does not say what to do"
    if text.retryable is False and _RETRY.search(shown):
        yield "it advises a retry, which cannot help"
    if text.retryable and ends_in_words and not _RETRY.search(shown):
        yield "it does not say that a retry may help"


def test_every_text_of_a_failure_says_what_to_do():
    """The rest of the form, which field or server it is, no program can check."""
    sources = [*ROOT.glob("services/*/src/**/*.py"), *ROOT.glob("libs/*/src/**/*.py")]
    found = [
        text for path in sources for text in texts_of(path.read_text(), str(path.relative_to(ROOT)))
    ]
    assert len(found) > 100
    assert set(EXEMPT) <= {text.text for text in found}
    wrong = [f"{text.place} {text.text!r}: {fault}" for text in found for fault in faults_of(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("call", "faults"),
    [
        ("Fault(ErrorCode.NOT_FOUND, 'No x. Take another.')", 0),
        ("Fault(ErrorCode.NOT_FOUND, f'No {x}')", 0),
        ("Fault(ErrorCode.NOT_FOUND, 'No x.')", 1),
        ("Fault(ErrorCode.NOT_FOUND, 'No x. Try again.')", 1),
        ("Fault(ErrorCode.UNAVAILABLE, 'No x. Try again.')", 0),
        ("Fault(ErrorCode.UNAVAILABLE, 'No x. Use another.')", 1),
        ("Fault(ErrorCode.UNAVAILABLE, 'No x. Use another.', retryable=False)", 0),
        ("Fault(ErrorCode.UNAVAILABLE, f'No {x}. Try' ' again.', retryable=False)", 1),
        ("Failure(code=ErrorCode.UNAVAILABLE, message='No x.')", 1),
        ("Fault(code, text)", 0),
        ("Fault(ErrorCode.CANCELLED, 'Gone.')", 0),
    ],
)
def test_rule_finds_what_it_should(call, faults):
    """On small examples."""
    (text,) = texts_of(call, "x")
    assert len(list(faults_of(text))) == faults
