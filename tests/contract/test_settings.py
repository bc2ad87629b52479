"""Names of settings in texts and deployments: each is one that a process knows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from searchbus_runtime.config_check import check_config
from searchbus_runtime.config_file import read_config_file
from searchbus_runtime.config_sources import Sources
from searchbus_runtime.setting_list import OTHER_VARIABLES, listed_settings

ROOT = Path(__file__).parents[2]
TEXTS = sorted(
    path
    for pattern in (
        "docker-compose.yml", "Makefile", "README.md", "docs/**/*.md", "deploy/**/*", "examples/**/*",
        "services/Dockerfile", "services/*/README.md", "libs/*/README.md", "scripts/*",
        "services/*/src/**/*.py", "libs/*/src/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if path.is_file() and path.suffix in ("", ".md", ".yml", ".yaml", ".env", ".py", ".toml")
)  # fmt: skip


def test_every_variable_of_texts_and_deployments_is_known():
    """Compose, Kubernetes, images, documentation, messages of the code."""
    known = {one.variable for table in listed_settings().values() for one in table.values()}
    known |= OTHER_VARIABLES | {"SEARCHBUS_NAME"}  # which stands for any of them
    found = {
        (match, path.relative_to(ROOT))
        for path in TEXTS
        for match in re.findall(r"\bSEARCHBUS_[A-Z][A-Z0-9_]*\b(?!\*|<|…)", path.read_text())
    }
    assert len(found) > 100
    assert not {(name, str(path)) for name, path in found if name not in known}


def test_example_of_the_page_is_in_order(tmp_path):
    """docs/settings.md shows a whole file."""
    page = (ROOT / "docs" / "settings.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "searchbus.toml"
    path.write_text(text)
    path.chmod(0o600)
    assert tomllib.loads(text)["edge"]
    check_config(Sources("", read_config_file(path)), tmp_path)


@pytest.mark.parametrize("name", sorted(OTHER_VARIABLES))
def test_variable_that_is_not_a_setting_is_on_the_page(name):
    """With what reads it."""
    assert f"`{name}`" in (ROOT / "docs" / "settings.md").read_text()
