"""Ids of points: frozen, since stored collections depend on them."""

from __future__ import annotations

from searchbus_retrieval import identity


def test_ids_never_change():
    """A change would orphan every stored point."""
    assert identity.chunk_id("d", "r", 0) == "3085bb98-7deb-547c-be3e-01c919884317"
    assert identity.text_id("d", "r", 0) == "ec7a2b1a-dba2-5670-a346-f3aefbe1918c"
    assert identity.record_id("d") == "fc69a3c6-0428-562f-837a-a72f18e7f7c2"
    assert identity.collection_record_id("c") == "4ba57d18-c533-5f60-bd83-12732bd8ed44"
