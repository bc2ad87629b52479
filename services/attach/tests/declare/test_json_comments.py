"""Comments and commas at an end are taken out, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_attach.declare.json_comments import without_comments

_TEXTS = st.text(st.sampled_from('/*",\\ \n}]{[:x\u00e9'), max_size=12)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)
_BETWEEN = st.sampled_from(
    ["", " ", "\n", "\t", '// , ] " /*\n', '/* } , " // */', "/**/", "/* two\r\nlines */"]
)


def _written(value: object, between, last_comma) -> str:
    """A value as JSON with something between all tokens, and commas after last items."""
    if isinstance(value, dict):
        items = [
            f"{json.dumps(key)}{between()}:{between()}{_written(one, between, last_comma)}"
            for key, one in value.items()
        ]
        signs = "{}"
    elif isinstance(value, list):
        items, signs = [_written(one, between, last_comma) for one in value], "[]"
    else:
        return json.dumps(value)
    comma = "," if items and last_comma() else ""
    inner = f"{between()},{between()}".join(items)
    return f"{signs[0]}{between()}{inner}{between()}{comma}{between()}{signs[1]}"


@given(_VALUES, st.sampled_from([None, 2]))
def test_json_stays_as_it_is(value, indent):
    """Also where its texts look like comments."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    assert without_comments(text) == text


@given(_VALUES, st.data())
def test_comments_and_last_commas_are_taken_out(value, data):
    """The values stay, each in its place."""
    text = _written(value, lambda: data.draw(_BETWEEN), lambda: data.draw(st.booleans()))
    stripped = without_comments(text)
    assert json.loads(stripped) == value
    assert [len(line) for line in stripped.splitlines()] == [
        len(line) for line in text.splitlines()
    ]


@given(st.text(st.sampled_from('/*",\\ \n}]{[:x'), max_size=30))
def test_any_text_keeps_its_length(text):
    """Nothing is lost, whatever it is."""
    assert len(without_comments(text)) == len(text)


@pytest.mark.parametrize(
    "text", ["[,]", "[1,,]", '{"a":,}', "[1] /* open", '["open // ]', "[1 / 2]"]
)
def test_what_is_no_json_stays_none(text):
    """It is not made into something else."""
    with pytest.raises(json.JSONDecodeError):
        json.loads(without_comments(text))
