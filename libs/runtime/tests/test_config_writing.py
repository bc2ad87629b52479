"""Writing searchbus.toml: comments stay, only the owner reads it, nothing else changes."""

from __future__ import annotations

import stat
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_runtime.config_file import WrongSettingsError, config_text, toml, write_config
from searchbus_runtime.setting_list import SHARED, listed_settings


def test_new_file_has_every_setting_as_a_comment_with_its_default(tmp_path):
    """Without the signs of comments it is TOML, and sets the defaults."""
    write_config(tmp_path / "new.toml", {})
    text = (tmp_path / "new.toml").read_text()
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


def test_new_file_has_the_values_in_place_of_their_comments(tmp_path):
    """For all services at the top, for one in its table."""
    path = tmp_path / "searchbus.toml"
    write_config(path, {"log_level": "debug", "edge": {"port": 9090, "audiences": ["a", "b"]}})
    text = path.read_text()
    assert "# log_level =" not in text
    assert "# host =" in text
    read = tomllib.loads(text)
    assert (read["log_level"], read["edge"]) == ("debug", {"port": 9090, "audiences": ["a", "b"]})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_file_that_exists_keeps_comments_order_and_other_settings(tmp_path):
    """Also where the table is missing, or the setting stands nowhere yet."""
    path = tmp_path / "searchbus.toml"
    path.write_text('# mine\nlog_level = "info"  # why\n\n[web]\n# my key\nextract_processes = 3\n')
    write_config(
        path, {"nats_url": "nats://x:1", "web": {"extract_processes": 4}, "edge": {"port": 1}}
    )
    assert path.read_text() == (
        '# mine\nlog_level = "info"  # why\n\nnats_url = "nats://x:1"\n\n[web]\n# my key\n'
        "extract_processes = 4\n\n[edge]\nport = 1\n"
    )


def test_entry_of_several_lines_is_not_damaged(tmp_path):
    """The message says what to write by hand; the file is as it was."""
    path = tmp_path / "searchbus.toml"
    path.write_text('[edge]\naudiences = [\n  "a",\n]\n')
    with pytest.raises(WrongSettingsError, match=r"by hand: audiences = \[\"b\"\]"):
        write_config(path, {"edge": {"audiences": ["b"]}})
    assert path.read_text() == '[edge]\naudiences = [\n  "a",\n]\n'


def test_a_secret_is_not_shown_where_it_cannot_be_written(tmp_path):
    """The message reaches terminals and logs."""
    path = tmp_path / "searchbus.toml"
    path.write_text('[web]\nbrave_api_keys = [\n  "a",\n]\n')
    with pytest.raises(WrongSettingsError, match="by hand: brave_api_keys = …") as caught:
        write_config(path, {"web": {"brave_api_keys": ["hidden"]}})
    assert "hidden" not in str(caught.value)


def test_file_that_is_no_toml_is_not_overwritten(tmp_path):
    """It is refused with its line."""
    path = tmp_path / "searchbus.toml"
    path.write_text("a = 1\nb\n")
    with pytest.raises(WrongSettingsError, match=r"searchbus\.toml:2"):
        write_config(path, {"log_level": "debug"})
    assert path.read_text() == "a = 1\nb\n"


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
