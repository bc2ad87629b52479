"""Unit tests mirror modules. (tests/contract/test_unit_tests.py lists modules without tests.)"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "searchbus_edge"


def test_every_test_module_has_a_module():
    """A renamed module takes its tests along."""
    own = {"test_modules.py", "test_revisions.py"}  # of the package as a whole
    stray = [
        str(test.relative_to(TESTS))
        for test in sorted(TESTS.rglob("test_*.py"))
        if test.name not in own
        and not (PACKAGE / test.relative_to(TESTS)).with_name(test.name[5:]).exists()
    ]
    assert stray == []
