"""Points of documents, and their ids, which stored collections depend on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import searchbus_retrieval
from searchbus_contracts.ingest import hash_of_text
from searchbus_retrieval.documents.records import (
    field_specs,
    infer_fields,
    not_found_in,
    point_id,
    record_payload,
    store_fields,
    stored_revision,
    summary_of,
)
from searchbus_retrieval.documents.where import FieldSpec

from ..conftest import document

FILTERS = {"Equals", "IsIn", "NumberRange", "DateRange"}


def test_ids_never_change():
    """A change would orphan every stored point."""
    assert point_id("chunk", "d", "r", 0) == "3085bb98-7deb-547c-be3e-01c919884317"
    assert point_id("text", "d", "r", 0) == "ec7a2b1a-dba2-5670-a346-f3aefbe1918c"
    assert point_id("record", "d") == "fc69a3c6-0428-562f-837a-a72f18e7f7c2"
    assert point_id("collection", "c") == "4ba57d18-c533-5f60-bd83-12732bd8ed44"


@pytest.mark.parametrize(
    ("value", "kind"),
    [(True, "bool"), (1, "float"), (1.5, "float"), (-(2**53), "float"), (2**53 + 1, "integer"),
     ("x", "keyword"), ("2024-01-31", "datetime"),
     ("2024-01-31T10:00:00Z", "datetime"), ("2024-13-31", "keyword"), ("2024-01", "keyword"),
     ("2024-W05-3", "keyword"), ("2024-01-31T10:00:00+05:30:15", "keyword")],
)  # fmt: skip
def test_types_of_fields_come_from_values(value, kind):
    """A boolean is not a number; only a valid date is a date."""
    assert infer_fields({"f": value}) == {"f": kind}


@pytest.mark.parametrize("value", ["", " \n", None])
def test_nothing_says_no_type(value):
    """A later document may have a value; nor does it contradict any."""
    assert infer_fields({"f": value}) == {}
    assert not_found_in({"f": value}, {"f": "datetime"}) == {}


@pytest.mark.parametrize(
    ("of", "found", "not_found"),
    [
        ("integer", [1, 2**60], [1.5, "1", True, "2024-01-31"]),
        ("float", [1, 1.5, 1e300, 2**53, -(2**53)], ["1", True, 2**53 + 1, -(2**60)]),
        ("keyword", ["x", "2024-01-31"], [1, 1.5, True]),
        ("datetime", ["2024-01-31"], ["soon", 2024]),
        ("bool", [True], [1, "true"]),
    ],
)
def test_values_of_another_type_than_their_field_are_named(of, found, not_found):
    """A date is found in a field of texts, and in one of floats a number that is exact there."""
    for value in found:
        assert not_found_in({"f": value}, {"f": of}) == {}
    for value in not_found:
        assert not_found_in({"f": value}, {"f": of}).keys() == {"f"}
    assert not_found_in({"f": 1}, {}) == {}


def test_metadata_cannot_hide_a_field_of_the_document():
    """It is stored under `m`; a filter on `title` means the metadata where it has that name."""
    specs = field_specs({"year": "integer", "title": "integer"})
    assert specs["year"] == FieldSpec("m.year", "integer")
    assert specs["title"] == FieldSpec("m.title", "integer")
    assert specs["url"] == FieldSpec("url", "keyword")
    facts = field_specs({"year": "integer"}, {"dissents": "integer", "year": "integer"})
    assert facts["dissents"] == FieldSpec("f.dissents", "integer")
    assert facts["year"] == FieldSpec("m.year", "integer")


def test_record_is_read_back_as_a_summary():
    """All but the text, which has points of its own."""
    new = document("w", "x" * 250_000, url="https://example.org", metadata={"n": 1})
    payload = record_payload(new, stored_revision("r", "1"), chunks=251)
    assert (payload["text_parts"], payload["chars"]) == (3, 250_000)
    assert payload["content_hash"] == hash_of_text(new.text)
    assert summary_of("c", payload).revision == ""  # it is not searched yet
    payload["live"] = True
    summary = summary_of("c", payload)
    assert (summary.document_id, summary.title) == (new.document_id, new.title)
    assert (summary.chunk_count, summary.size_bytes, summary.revision) == (251, 250_000, "r")
    assert summary_of("c", payload, "1").revision == "r"
    assert summary_of("c", payload, "2").revision == summary_of("c", payload, "").revision == ""


def test_every_field_that_the_code_filters_by_has_an_index():
    """A server would read all passages else; callers' own fields are indexed as they are declared."""
    used = set()
    for path in Path(searchbus_retrieval.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in FILTERS:
                field = node.args[0]
                if isinstance(field, ast.Constant):
                    used.add(field.value)
    assert {"live", "kind", "document_id", "revision"} <= used
    declared = store_fields({"owner": "keyword"}, {"vote": "keyword"})  # that of memory.py
    assert used <= declared.keys()
