"""Unit tests mirror modules, so that one finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "libs/bus",
    "libs/cli",
    "libs/contracts",
    "libs/evaluation",
    "libs/ingest",
    "libs/runtime",
    "libs/upstream",
    "libs/vectors",
    "services/ddg",
    "services/retrieval",
    "services/toolindex",
    "services/web",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_a_test_module(package: str):
    """src/<package>/a/b.py is tested by tests/a/test_b.py."""
    (source,) = (p for p in (ROOT / package / "src").iterdir() if (p / "__init__.py").exists())
    missing = [
        str(expected.relative_to(ROOT))
        for module in sorted(source.rglob("*.py"))
        if not module.name.startswith("__")
        for expected in [
            ROOT / package / "tests" / module.parent.relative_to(source) / f"test_{module.name}"
        ]
        if not expected.exists()
    ]
    assert missing == []
