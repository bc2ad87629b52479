"""The text of a new searchbus.toml."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from searchbus_runtime.config_file import config_text, toml
from searchbus_runtime.setting_list import SHARED, listed_settings


def test_new_file_has_every_setting_as_a_comment_with_its_default():
    """Without the signs of comments it is TOML, and sets the defaults."""
    text = config_text()
    assert not any(table for table in tomllib.loads(text).values())
    entries = [
        line.removeprefix("# ") if " = " in line and line.startswith("# ") else line
        for line in text.splitlines()
        if not line.startswith("#") or line.split()[2:3] == ["="]
    ]
    read = tomllib.loads("\n".join(entries))
    for service, table in listed_settings().items():
        found = read if service == SHARED else read[service]
        for name, setting in table.items():
            assert found[name] == ("" if setting.default is None else setting.default), name


values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=8,
)  # fmt: skip


@given(values)
def test_every_value_is_read_back(value):
    """Quotes, control characters, empty names."""
    assert tomllib.loads(f"x = {toml(value)}")["x"] == value


def test_text_of_the_file_is_the_same_for_the_same_list():
    """No set, no time, no path of this machine in it."""
    assert config_text() == config_text(dict(listed_settings()))
