"""proto/ is what the code says, and the code is what proto/README.md says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from searchbus_contracts import RETRYABLE, ErrorCode, headers
from searchbus_contracts.channels import CHANNELS

PROTO = Path(__file__).parents[2] / "proto"
README = (PROTO / "README.md").read_text()


def test_generated_files_equal_the_code():
    """`make proto` would change nothing."""
    done = subprocess.run(
        [sys.executable, PROTO / "generate.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun: make proto"


def test_every_exception_ends_in_error():
    """One suffix; the failure of the wire keeps its own name. docs/errors.md has the tree."""
    page = (PROTO.parent / "docs" / "errors.md").read_text()
    names = re.findall(r"^ +- `(\w+)`", page, re.M)
    assert len(names) > 30
    assert len(names) == len(set(names))
    assert [name for name in names if not name.endswith("Error")] == ["Fault"]


def test_readme_lists_every_error_code_with_its_retryability():
    """The table of §6 is complete."""
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| [^|]+ \| (yes|no) \|$", README, re.M))
    assert rows == {str(code): "yes" if code in RETRYABLE else "no" for code in ErrorCode}


def test_readme_lists_every_subject_with_its_messages():
    """The table of §2 is complete."""
    rows = set(re.findall(r"^\| `([a-z.<>]+)` \| (\w+) (?:→ (\w+)|\(no reply\)) \|", README, re.M))
    assert rows == {
        (
            c.address.replace("{", "<").replace("}", ">"),
            c.message.__name__,
            c.reply.__name__ if c.reply else "",
        )
        for c in CHANNELS
    }


def test_readme_names_every_header():
    """The table of §4 is complete."""
    names = {
        value for key, value in vars(headers).items() if key.isupper() and isinstance(value, str)
    }
    assert {name for name in names if f"`{name}`" not in README} == set()


@pytest.mark.parametrize("path", sorted((PROTO / "schema").rglob("*.json")), ids=lambda p: p.stem)
def test_schema_is_valid(path: Path):
    """Every generated schema is JSON Schema 2020-12."""
    schema = json.loads(path.read_text())
    if isinstance(schema, dict) and "input_schema" not in schema:
        jsonschema.Draft202012Validator.check_schema(schema)
    elif isinstance(schema, dict):
        jsonschema.Draft202012Validator.check_schema(schema["input_schema"])
        jsonschema.Draft202012Validator.check_schema(schema.get("output_schema", {}))


@pytest.mark.parametrize("path", sorted((PROTO / "golden").glob("*.json")), ids=lambda p: p.stem)
def test_golden_message_fits_its_schema(path: Path):
    """The schemas describe what really travels."""
    schema = json.loads((PROTO / "schema" / f"{path.name.split('.')[0]}.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(path.read_text()))


def test_asyncapi_references_resolve():
    """Every $ref of the AsyncAPI document points to something."""
    document = yaml.safe_load((PROTO / "asyncapi.yaml").read_text())

    def check(node):
        if isinstance(node, dict):
            reference = node.get("$ref")
            if reference and reference.startswith("#/"):
                target = document
                for key in reference[2:].split("/"):
                    target = target[key]
            elif reference:
                assert (PROTO / reference).is_file(), reference
            for value in node.values():
                check(value)
        elif isinstance(node, list):
            for value in node:
                check(value)

    check(document)
    assert document["asyncapi"] == "3.0.0"
