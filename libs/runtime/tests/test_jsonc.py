"""JSON with comments: read, and one member changed."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_runtime.jsonc import (
    _TOKEN,
    JsonTextError,
    parse,
    with_member,
    without_comments,
    without_member,
)

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


@pytest.mark.parametrize("text", ["/*a" * 99, '"' + '\\"' * 99])
def test_what_has_no_end_is_tried_once(text):
    """Not again at each of its characters, which takes the square of their number."""
    assert [found[0] for found in _TOKEN.finditer(text)] == [text]


PATH = ("servers", "searchbus")
ENTRY = {"command": "/bin/searchbus", "args": ["stdio"]}
SETTINGS = """// mine
{
    "theme": "dark", // at night
    "servers": {
        "files": { "command": "cat" }, // read only
        /* later */
    },
    "a": [1, 2,],
}
"""
WITH_ENTRY = """// mine
{
    "theme": "dark", // at night
    "servers": {
        "files": { "command": "cat" }, // read only
        "searchbus": {
            "command": "/bin/searchbus",
            "args": [
                "stdio"
            ]
        }
        /* later */
    },
    "a": [1, 2,],
}
"""


def test_member_is_added_below_the_others_and_the_rest_stays():
    """Comments, order and indentation are a person's own."""
    assert with_member(SETTINGS, PATH, ENTRY) == WITH_ENTRY
    assert with_member(WITH_ENTRY, PATH, ENTRY) == WITH_ENTRY


def test_member_is_replaced_in_its_place():
    """There are never two of it."""
    changed = with_member(WITH_ENTRY, PATH, {"command": "other"})
    assert changed.count("searchbus") == 1
    assert parse(changed)["servers"]["searchbus"] == {"command": "other"}


@pytest.mark.parametrize(
    "text",
    ["{}", "{\n}", "{ // empty\n}", '{"servers": {}}', '{"servers": {}, "a": 1}', '{"a": 1}',
     '{\r\n\t"a": 1\r\n}\r\n', '{"a": 1 /* two\nlines */}', '  {"a": 1,}'],
)  # fmt: skip
def test_missing_objects_are_added(text):
    """A new file of a program may be empty."""
    assert parse(with_member(text, PATH, ENTRY)) == {
        **parse(text),
        "servers": {"searchbus": ENTRY},
    }


def test_line_ends_are_those_of_the_text():
    """A file of Windows stays one."""
    changed = with_member('{\r\n  "a": 1\r\n}\r\n', PATH, ENTRY)
    assert re.findall(r"(?<!\r)\n", changed) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1"),
        ('{\n  "a" 1}', "line 2, column 7"),
        ("[]", "not an object"),
        ('{"servers": []}', "not an object"),
        ('{"servers": null}', "not an object"),
        ('{"servers": {"a": {}}, "servers": {"b": {}}, "servers": 1}', "not an object"),
        ("[" * 100_000, "RecursionError"),
    ],
)
def test_what_cannot_be_changed_is_refused(text, message):
    """With the line, where it is not JSON."""
    with pytest.raises(JsonTextError, match=message):
        with_member(text, PATH, ENTRY)


def test_name_that_stands_twice_is_refused_where_the_change_would_be_hidden():
    """Parsers take the last one; without it the first would count."""
    text = '{"servers": {"searchbus": 1, "searchbus": 2}}'
    assert parse(with_member(text, PATH, 3)) == {"servers": {"searchbus": 3}}
    with pytest.raises(JsonTextError, match="twice"):
        without_member(text, PATH)


@given(st.dictionaries(_TEXTS, _VALUES, max_size=4), st.data())
def test_any_object_gets_and_loses_a_member(value, data):
    """The other members stay, and all comments when one is added."""
    text = _written(value, lambda: data.draw(_BETWEEN), lambda: data.draw(st.booleans()))
    name = data.draw(st.sampled_from(["searchbus", *value]))
    changed = with_member(text, (name,), ENTRY)
    assert parse(changed) == {**value, name: ENTRY}
    if name not in value:
        for comment in ("// , ]", '/* } , " // */', "/* two\r\nlines */"):
            assert changed.count(comment) == text.count(comment)
    without = {key: one for key, one in value.items() if key != name}
    assert parse(without_member(changed, (name,))) == without


@pytest.mark.parametrize("text", ["{}", '{"servers": {}}', SETTINGS])
def test_what_is_not_there_is_removed_by_no_change(text):
    """Not even a space."""
    assert without_member(text, PATH) == text


def test_removal_gives_back_the_text_before():
    """But for a last comma."""
    before = WITH_ENTRY.replace('" }, // read only', '" } // read only')
    start = before.index('        "searchbus"')
    end = before.index("        /* later")
    assert without_member(WITH_ENTRY, PATH) == before[:start] + before[end:]
