"""Wrong settings: one line that names the file, the line or the variable, and what to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

UP = ("-m", "searchbus_cli", "up", "--port", "0", "--data", "{data}")
CHECK = ("-m", "searchbus_cli", "config", "check", "--data", "{data}")
STDIO = ("-m", "searchbus_cli", "stdio", "--data", "{data}")
ALONE = ("-m", "searchbus_runtime", "ddg")


@dataclass(frozen=True)
class Wrong:
    """A wrong configuration.

    Args:
        says: the fault, a regular expression; {file} is the configuration file.
        text: of the configuration file; `None` writes none.
        variables: set for the command.
        mode: permissions of the file.
    """

    says: str
    text: str | bytes | None = None
    variables: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = UP
    mode: int = 0o600


WRONG = {
    "unknown name in the file": Wrong(
        r"{file}:2: isuer: there is no such setting\. Did you mean issuer\?", '\nisuer = "x"'
    ),
    "unknown name in a table": Wrong(
        r"{file}:2: prt: there is no such setting\. Did you mean port\?", "[edge]\nprt = 1"
    ),
    "hyphens": Wrong(r"{file}:1: log-level: .* Did you mean log_level\?", 'log-level = "info"'),
    "name of a variable in the file": Wrong(
        r"{file}:1: SEARCHBUS_LOG_LEVEL: .* Did you mean log_level\?", 'SEARCHBUS_LOG_LEVEL = "info"'
    ),
    "setting of another service": Wrong(
        r"{file}:2: port: a setting of edge\. Move it to \[edge\]", "[web]\nport = 1"
    ),
    "unknown service": Wrong(
        r"{file}:1: \[edg\]: there is no such service\. Did you mean edge\?", "[edg]\nport = 1"
    ),
    "unknown variable": Wrong(
        r"SEARCHBUS_ISUER: .* Did you mean SEARCHBUS_ISSUER\?", variables={"SEARCHBUS_ISUER": "x"}
    ),
    "unknown variable of a service alone": Wrong(
        r"SEARCHBUS_DDG_EGRES: .* Did you mean SEARCHBUS_DDG_EGRESS\?",
        variables={"SEARCHBUS_DDG_EGRES": "x"},
        command=ALONE,
    ),
    "unknown variable of a client": Wrong(
        r"SEARCHBUS_ISUER: .* Did you mean SEARCHBUS_ISSUER\?",
        variables={"SEARCHBUS_ISUER": "x"},
        command=STDIO,
    ),
    "list where a number is expected": Wrong(
        r"{file}:1: port: not a whole number\. Write port = 8", "port = [8080]"
    ),
    "text where a number is expected": Wrong(r"{file}:1: port: not a whole number", 'port = "8080"'),
    "number where true or false is expected": Wrong(
        r"{file}:2: search: not true or false\. Write search = true", "[edge]\nsearch = 1"
    ),
    "number out of range": Wrong(
        r"{file}:2: port: .* 65535 \(got 70000\)\. Use a whole number, 0 to 65535", "[edge]\nport = 70000"
    ),
    "number out of range, of a service that starts later": Wrong(
        r"{file}:2: ddg_burst: .* \(got 99\)\. Use a whole number, 1 to 10",
        "[ddg]\nddg_burst = 99",
        command=ALONE,
    ),
    "variable of another kind": Wrong(
        r"SEARCHBUS_PORT: .*integer.* \(got 'abc'\)\. Use a whole number, 0 to 65535",
        variables={"SEARCHBUS_PORT": "abc"},
    ),
    "variable that is not JSON": Wrong(
        r'SEARCHBUS_ALLOWED_HOSTS: must be JSON .* Write a list as \["a"\]',
        variables={"SEARCHBUS_ALLOWED_HOSTS": "a,b"},
        command=CHECK,
    ),
    "word that is not a choice": Wrong(
        r"{file}:1: log_level: .*\(got 'loud'\)\. Use debug or info or warning or error",
        'log_level = "loud"',
        command=CHECK,
    ),
    "no TOML": Wrong(r"{file}:2: not TOML, column 8: .* Write name = value", 'port = 1\nhost = a.b'),
    "key set twice": Wrong(r"{file}:2: .* set twice\. Remove one", "port = 1\nport = 2"),
    "table set twice": Wrong(r"{file}:3: .* set twice\. Remove one", "[edge]\nport = 1\n[edge]"),
    "not UTF-8": Wrong(r"{file}:2: not UTF-8\. Save the file as UTF-8", b'port = 1\nhost = "\xff"'),
    "enormous file": Wrong(r"{file}: larger than 1024 KiB", "#" * 2**20 + "\n"),
    "deep nesting": Wrong(r"{file}: .*nested too deeply\. Shorten it", "x = " + "[" * 20_000),
    "number of thousands of digits": Wrong(r"{file}: a value is too long", "port = " + "9" * 5_000),
    "secret in a file of everybody": Wrong(
        r"{file}:2: tavily_api_keys: a secret .* Run: chmod 600 {file}",
        '[web]\ntavily_api_keys = ["canary"]',
        mode=0o644,
    ),
    "password of a proxy in a file of everybody": Wrong(
        r"{file}:2: ddg_egress: a secret .* Run: chmod 600 {file}",
        '[ddg]\nddg_egress = ["http://ada:canary@proxy.example:1"]',
        mode=0o644,
    ),
    "missing file": Wrong(
        r"/nowhere/x\.toml: there is no such file\. .*searchbus config init",
        variables={"SEARCHBUS_CONFIG": "/nowhere/x.toml"},
    ),
    "missing file of an option": Wrong(
        r"/nowhere/x\.toml: there is no such file\. Correct the path in --config",
        command=(*UP, "--config", "/nowhere/x.toml"),
    ),
    "folder in place of a file": Wrong(
        r"{data}: a folder, not a file\. Correct the path", variables={"SEARCHBUS_CONFIG": "{data}"}
    ),
    "device in place of a file": Wrong(
        r"/dev/null: not a regular file\. Correct the path", variables={"SEARCHBUS_CONFIG": "/dev/null"}
    ),
    "file that cannot be read": Wrong(
        r"{data}/loop\.toml: cannot be read \(.*\)\. .*chmod u\+r {data}/loop\.toml",
        variables={"SEARCHBUS_CONFIG": "{data}/loop.toml"},
    ),
    "other data folder": Wrong(
        r"{file}:1: data_dir names another folder .* Name the folder with --data", 'data_dir = "/tmp"'
    ),
    "one variable twice": Wrong(
        r"SEARCHBUS_PORT and searchbus_port are both set, differently\. Unset one",
        variables={"SEARCHBUS_PORT": "1", "searchbus_port": "2"},
    ),
    "access control off with an identity provider": Wrong(
        r"SEARCHBUS_ISSUER names an identity provider, .*set SEARCHBUS_AUTH=jwt, or unset",
        '[edge]\nauth = "none"\nissuer = "https://login.example"',
        command=CHECK,
    ),
    "folder of secrets that is missing": Wrong(
        r"SEARCHBUS_SECRETS_DIR: there is no folder /nowhere\. Mount",
        variables={"SEARCHBUS_SECRETS_DIR": "/nowhere"},
    ),
}  # fmt: skip


def run(wrong: Wrong, data: Path) -> subprocess.CompletedProcess[str]:
    """The command with its configuration."""
    file = data / "searchbus.toml"
    if wrong.text is not None:
        file.write_bytes(wrong.text if isinstance(wrong.text, bytes) else wrong.text.encode())
        file.chmod(wrong.mode)
    (data / "loop.toml").symlink_to("loop.toml")
    inherited = {k: v for k, v in os.environ.items() if not k.upper().startswith("SEARCHBUS_")}
    given = {name: text.format(data=data) for name, text in wrong.variables.items()}
    return subprocess.run(
        [sys.executable, *(word.format(data=data) for word in wrong.command)],
        env={**inherited, "SEARCHBUS_DATA_DIR": str(data), **given},
        cwd=data,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("name", WRONG)
def test_wrong_configuration_ends_in_one_line_with_the_remedy(name, tmp_path):
    """Exit code 2, no traceback, no value of a secret."""
    wrong = WRONG[name]
    done = run(wrong, tmp_path)
    faults = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, len(faults)) == (2, 1), done.stderr
    others = set(done.stderr.splitlines()) - set(faults)
    assert all(re.match(r"starting on |stopped$", line) for line in others), done.stderr
    data = re.escape(str(tmp_path))
    pattern = wrong.says.replace("{data}", data).replace("{file}", f"{data}/searchbus\\.toml")
    assert re.match(f"error: {pattern}", faults[0]), faults[0]
    assert "canary" not in done.stderr + done.stdout


def test_all_faults_are_named_at_once(tmp_path):
    """A line for each of them."""
    done = run(Wrong("", "isuer = 1\nport = []\n[edg]\n", {"SEARCHBUS_X": "1"}), tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 4
