"""What an import loads: commands and tests start quickly, and the in-memory broker needs no NATS."""

from __future__ import annotations

import subprocess
import sys

import pytest

import searchbus_bus

_HEAVY = ("nats", "cryptography", "opentelemetry", "msgspec", "asyncio", "ssl")
_PROGRAM = """
import sys
{statement}
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


def loaded(statement: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(statement=statement)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_importing_the_package_loads_none_of_its_libraries():
    """`searchbus --help` imports it."""
    assert not loaded("import searchbus_bus") & set(_HEAVY)


@pytest.mark.parametrize(
    "statement",
    [
        "from searchbus_bus import Bus, Call, KeyValue, MemoryBroker, Toolset, Worker, tool",
        "from searchbus_bus import MemoryBroker; MemoryBroker()",
        "from searchbus_bus import connect",
        "import searchbus_bus.store.keyvalue, searchbus_bus.memory",
        "import searchbus_bus.worker.serving, searchbus_bus.catalog.directory",
    ],
)
def test_only_a_connection_loads_nats(statement):
    """The in-memory broker and everything above the transport do without."""
    modules = loaded(statement)
    assert "searchbus_bus" in modules
    assert "nats" not in modules


def test_every_exported_name_exists():
    """In the module that the table names for it."""
    for name in searchbus_bus.__all__:
        assert getattr(searchbus_bus, name) is not None
    assert set(searchbus_bus.__all__) <= set(dir(searchbus_bus))


def test_a_missing_name_is_an_attribute_error():
    """As in any module."""
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        searchbus_bus.Missing  # noqa: B018
