"""Failures of the store on the wire."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_retrieval.faults import typed
from searchbus_vectors import CollectionDamaged, CollectionMissing, StorageFull


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CollectionMissing("c"), "not_found", "searchbus ingest"),
        (CollectionDamaged("c", "it is cut"), "unavailable", "it is cut"),
        (StorageFull("0 MiB are free"), "storage_full", "Free space"),
    ],
)
def test_failures_have_a_code_and_a_remedy(error, code, said):
    """Sending the same request again does not help."""
    with pytest.raises(Fault, match=said) as raised, typed("c"):
        raise error
    assert (raised.value.code, raised.value.failure.retryable) == (code, False)


def test_other_errors_pass():
    """They are programming errors."""
    with pytest.raises(KeyError), typed("c"):
        raise KeyError
