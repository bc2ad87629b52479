"""searchbus.toml: where it is found, whose values count, on which line they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import Field

from searchbus_runtime import ServiceSettings, data_folder, find_bus, load_settings
from searchbus_runtime.config_check import check_config
from searchbus_runtime.config_file import WrongSettingsError, entry_lines, find_config
from searchbus_runtime.config_sources import Sources
from searchbus_runtime.services import is_wanted
from searchbus_runtime.setting_list import EXTRA, listed_settings
from searchbus_runtime.settings import read_settings


class EdgeLike(ServiceSettings):
    """Some settings of the edge."""

    port: int = 8080
    connector_sources: dict[str, float] = Field(default_factory=dict)
    keys_file: Path | None = None


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Without the settings of this machine; `.env` is looked for in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SEARCHBUS_")]:
        monkeypatch.delenv(name)


def write(folder: Path, text: str) -> Path:
    """The configuration file of a folder."""
    path = folder / "searchbus.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_table_of_the_service_comes_before_the_top_of_the_file(tmp_path):
    """Another service's table does not count."""
    write(tmp_path, 'log_level = "debug"\nport = 1\n[edge]\nport = 2\n[web]\nlog_level = "error"\n')
    read = read_settings(EdgeLike, "edge", data_dir=tmp_path)
    assert (read.port, read.log_level) == (2, "debug")
    assert read_settings(ServiceSettings, "web", data_dir=tmp_path).log_level == "error"
    assert read_settings(EdgeLike, data_dir=tmp_path).port == 1


def test_command_line_and_environment_come_before_the_file(tmp_path, monkeypatch):
    """In this order, for tables of settings as a whole."""
    write(tmp_path, "[edge]\nport = 2\nconnector_sources = {documents = 1.0}\n")
    monkeypatch.setenv("SEARCHBUS_PORT", "3")
    monkeypatch.setenv("SEARCHBUS_CONNECTOR_SOURCES", '{"web": 0.5}')
    read = read_settings(EdgeLike, "edge", data_dir=tmp_path)
    assert (read.port, read.connector_sources) == (3, {"web": 0.5})
    assert read_settings(EdgeLike, "edge", data_dir=tmp_path, port=4).port == 4


def test_file_of_the_variable_comes_before_the_one_in_the_data_folder(tmp_path, monkeypatch):
    """As `--config` sets it for children; an empty variable names none."""
    write(tmp_path, "port = 1\n")
    other = tmp_path / "other.toml"
    other.write_text("port = 2\n")
    monkeypatch.setenv("SEARCHBUS_DATA_DIR", str(tmp_path))
    assert read_settings(EdgeLike, "edge").port == 1
    monkeypatch.setenv("SEARCHBUS_CONFIG", str(other))
    assert read_settings(EdgeLike, "edge").port == 2
    monkeypatch.setenv("SEARCHBUS_CONFIG", "")
    assert read_settings(EdgeLike, "edge").port == 1


def test_named_file_may_name_the_data_folder(tmp_path, monkeypatch):
    """Relative to its own folder; the variable comes before it."""
    path = write(tmp_path, 'data_dir = "docs"\nkeys_file = "keys.json"\n')
    monkeypatch.setenv("SEARCHBUS_CONFIG", str(path))
    assert data_folder() == tmp_path / "docs"
    assert read_settings(EdgeLike, "edge").keys_file == tmp_path / "keys.json"
    monkeypatch.setenv("SEARCHBUS_DATA_DIR", str(tmp_path / "elsewhere"))
    assert data_folder() == tmp_path / "elsewhere"


def test_empty_text_sets_nothing(tmp_path):
    """As an empty variable does; also where a number is expected."""
    write(tmp_path, 'log_level = ""\nport = ""\n')
    read = read_settings(EdgeLike, "edge", data_dir=tmp_path)
    assert (read.port, read.log_level) == (8080, "info")


def test_bus_of_the_file_is_used_by_commands(tmp_path):
    """As the variable is."""
    write(tmp_path, 'nats_url = "nats://cluster:4222"\n')
    found = find_bus(tmp_path)
    assert found is not None
    assert found.url == "nats://cluster:4222"


def test_service_is_started_by_the_file_that_the_configuration_names(tmp_path):
    """`attach_file`, as its variable."""
    from searchbus_contracts.services import Service

    service = Service(name="attach", started_by=("SEARCHBUS_ATTACH_FILE", "attach.toml"))
    write(tmp_path, '[attach]\nattach_file = "mine.toml"\n')
    assert not is_wanted(service, tmp_path, find_config(tmp_path))
    (tmp_path / "mine.toml").write_text("")
    assert is_wanted(service, tmp_path, find_config(tmp_path))
    assert not is_wanted(service, tmp_path)


LINES = '''\
# port = 0
port = 1
"log_level" = "debug"
edge.host = "x"
role_paths = [
  "a = b",
  "port=9",
]
key = """
port = 3
[web]
"""
[ web ]  # [ddg]
port=4
'connector_sources' = {documents = 1}
'''


def test_line_of_each_entry_is_found():
    """Not in comments, lists or texts of several lines."""
    found = [(number, way) for number, way in entry_lines(LINES)]
    assert found == [
        (2, ("port",)), (3, ("log_level",)), (4, ("edge", "host")), (5, ("role_paths",)),
        (9, ("key",)), (13, ("web",)), (14, ("web", "port")), (15, ("web", "connector_sources")),
    ]  # fmt: skip


def faults(tmp_path: Path, text: str) -> list[str]:
    """The faults of a file."""
    write(tmp_path, text)
    try:
        check_config(Sources("", find_config(tmp_path)), tmp_path)
    except WrongSettingsError as error:
        return list(error.faults)
    return []


@pytest.mark.parametrize(
    "text",
    [
        "", "# only a comment", "[edge]", "edge.port = 1", "edge = {port = 1}",
        '[connector_sources]\ndocuments = 1', '[edge.connector_sources]\ndocuments = 1',
        "[edge]\ndrain_timeout_s = 1", "trace_sample_ratio = 1", 'embedder = "hash"',
    ],
)  # fmt: skip
def test_forms_of_toml_are_understood(tmp_path, text):
    """Dotted keys, inline tables, tables of settings, whole numbers for numbers."""
    assert faults(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("edge = 3", "edge is a service. Write a table: [edge]"),
        ("edge.prt = 3", "Did you mean port?"),
        ("port = true", "not a whole number"),
        ("port = 2026-01-01", "not a whole number"),
        ("issuer = 3", 'not a text. Write issuer = "…"'),
        ("[issuer]\nx = 1", "not a text"),
        ("[[edge]]\nport = 1", "edge is a service"),
        ('keys_file = "a\\u0000b"', "null character"),
        ("zzzzzz = 3", "`searchbus config show` lists all"),
    ],
)
def test_wrong_forms_are_named(tmp_path, text, said):
    """One line each."""
    (fault,) = faults(tmp_path, text)
    assert fault.startswith(str(tmp_path / "searchbus.toml"))
    assert said in fault


@pytest.mark.parametrize("setting", ["keys_file", "data_dir"])
def test_a_home_that_is_not_there_is_named_with_its_line(tmp_path, monkeypatch, setting):
    """Of no user, or of one whom the system does not know."""
    path = write(tmp_path, f'port = 1\n{setting} = "~no-such-user/keys"\n')
    monkeypatch.setenv("SEARCHBUS_CONFIG", str(path))
    with pytest.raises(WrongSettingsError, match=rf"{path}:2: ~no-such-user/keys: .* whole path"):
        read_settings(EdgeLike, "edge", data_dir=None if setting == "data_dir" else tmp_path)


def test_file_of_thousands_of_faults_names_the_first(tmp_path):
    """And says that there are more."""
    found = faults(tmp_path, "".join(f"name_{number} = 1\n" for number in range(5_000)))
    assert len(found) == 21
    assert found[-1] == "There are more faults. Correct these first."


def test_control_characters_of_names_are_not_printed(tmp_path):
    """Nor line feeds: one fault is one line."""
    (fault,) = faults(tmp_path, '"a\\nb\\u001b[31m" = 1')
    assert "\\n" in fault
    assert "\x1b" not in fault
    assert "\n" not in fault


def test_names_of_services_beside_the_stack_are_known(monkeypatch, tmp_path):
    """`searchbus up --service` tells its processes."""
    assert faults(tmp_path, "[toy]\nsides = 6")
    monkeypatch.setenv(EXTRA, '{"toy": ["sides"]}')
    monkeypatch.setenv("SEARCHBUS_SIDES", "6")
    assert faults(tmp_path, "[toy]\nsides = 6") == []
    assert faults(tmp_path, "[toy]\nside = 6")


@pytest.mark.parametrize(
    "name",
    [
        "SEARCHBUS_EDGE_SERVICE_HOST", "SEARCHBUS_EDGE_SERVICE_PORT_HTTP",
        "SEARCHBUS_EDGE_PORT_8080_TCP_ADDR", "SEARCHBUS_SERVICE_PORT", "searchbus_port",
        "SEARCHBUS_BRAVE_RPM", "SEARCHBUS_TOKEN",
    ],
)  # fmt: skip
def test_variables_of_others_are_no_fault(monkeypatch, tmp_path, name):
    """What Kubernetes sets for Services of that name, other services' settings, clients' tokens."""
    monkeypatch.setenv(name, "1")
    assert faults(tmp_path, "") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_file_without_permission_is_refused(tmp_path):
    """With the remedy."""
    write(tmp_path, "port = 1").chmod(0)
    with pytest.raises(WrongSettingsError, match="chmod u"):
        find_config(tmp_path)


def test_dotenv_that_is_not_text_is_refused(tmp_path, capsys):
    """In one line."""
    (tmp_path / ".env").write_bytes(b"SEARCHBUS_PORT=\xff\n")
    with pytest.raises(SystemExit) as end:
        load_settings(EdgeLike, "edge", data_dir=tmp_path)
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: .env: not UTF-8. Save the file as UTF-8.\n"


def test_reading_the_file_imports_no_pydantic(tmp_path):
    """`searchbus up` and clients check it before they load anything large."""
    write(tmp_path, "[edge]\nport = 1\n")
    code = (
        "import sys; from pathlib import Path\n"
        "from searchbus_runtime.config_check import check_config\n"
        "from searchbus_runtime.config_file import find_config\n"
        "from searchbus_runtime.config_sources import Sources\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "assert check_config(Sources('edge', find_config(folder)), folder).find('port').value == 1\n"
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_setting_has_a_description_and_numbers_have_limits():
    """What docs/settings.md, the file and the errors show."""
    for service, table in listed_settings().items():
        for name, setting in table.items():
            assert setting.description, f"{service} {name}"
            assert setting.kind, f"{service} {name}"
            if setting.kind in ("number", "whole number"):
                assert setting.range, f"{service} {name}"
