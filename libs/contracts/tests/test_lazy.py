"""Names of a package that are imported at their first use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PACKAGE = """
from searchbus_contracts.lazy import lazy_exports
__getattr__, __dir__ = lazy_exports(__name__, {"heavy": ("Heavy",)})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "lazily"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "heavy.py").write_text("class Heavy: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import lazily  # type: ignore[import-not-found]

    yield lazily
    for name in ("lazily", "lazily.heavy"):
        sys.modules.pop(name, None)


def test_a_module_is_imported_when_a_name_of_it_is_used(package):
    assert "lazily.heavy" not in sys.modules
    assert package.Heavy is sys.modules["lazily.heavy"].Heavy
    assert vars(package)["Heavy"] is package.Heavy


def test_names_are_listed_before_they_are_imported(package):
    assert "Heavy" in dir(package)
    assert "lazily.heavy" not in sys.modules


def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="'lazily' has no attribute 'Light'"):
        _ = package.Light
