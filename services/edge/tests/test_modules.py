"""Every module of the edge has unit tests beside it in this folder."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "searchbus_edge"
TOO_SHORT = {"__init__.py", "__main__.py"}


def test_every_module_has_a_test_module():
    """calls/limits.py is tested in calls/test_limits.py."""
    missing = [
        str(module.relative_to(PACKAGE))
        for module in sorted(PACKAGE.rglob("*.py"))
        if module.name not in TOO_SHORT
        and not (TESTS / module.relative_to(PACKAGE)).with_name(f"test_{module.name}").exists()
    ]
    assert missing == []


def test_every_test_module_has_a_module():
    """A renamed module takes its tests along."""
    own = {"test_modules.py"}
    stray = [
        str(test.relative_to(TESTS))
        for test in sorted(TESTS.rglob("test_*.py"))
        if test.name not in own
        and not (PACKAGE / test.relative_to(TESTS)).with_name(test.name[5:]).exists()
    ]
    assert stray == []
