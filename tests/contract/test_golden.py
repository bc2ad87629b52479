"""Frozen messages: what an older version sent, today's code must read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import searchbus_contracts
from searchbus_contracts import (
    Failure,
    Fault,
    attach,
    decode,
    decode_catalog,
    encode,
    engines,
    ingest,
    resources,
    retrieval,
    toolindex,
    web,
)
from searchbus_contracts.headers import Actor, Parts

from .exchange import covers

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "proto" / "golden"
EXTRA = {"Actor": Actor, "Parts": Parts, "Failure": Failure}


def kind_of(name: str):
    modules = (
        searchbus_contracts,
        attach,
        engines,
        ingest,
        resources,
        retrieval,
        toolindex,
        web,
    )
    return EXTRA.get(name) or next(getattr(m, name) for m in modules if hasattr(m, name))


CASES = sorted(GOLDEN.glob("*.json"))


def test_there_are_golden_messages():
    """Every request and reply of the bus is frozen at least once."""
    from searchbus_contracts.channels import CHANNELS

    frozen = {path.name.split(".")[0] for path in CASES}
    kinds = {c.message.__name__ for c in CHANNELS} | {c.reply.__name__ for c in CHANNELS if c.reply}
    assert kinds | {"Failure", "ToolEvent", "Actor", "Parts"} <= frozen


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden_message_decodes_to_the_same_values(path: Path):
    """Every field of the frozen message arrives; encoding again loses none of them."""
    frozen = json.loads(path.read_text())
    message = decode(path.read_bytes(), kind_of(path.name.split(".")[0]))
    assert covers(json.loads(encode(message)), frozen), "a field of the frozen message was lost"


def released(root: Path) -> Iterator[tuple[str, bytes]]:
    """Name and text of each frozen message of the newest release, as its tag has them."""

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True).stdout

    tags = git("tag", "--list", "v*", "--sort=-v:refname").decode().split()
    for path in git("ls-tree", "--name-only", tags[0], "proto/golden/").split() if tags else ():
        yield Path(path.decode()).name, git("show", f"{tags[0]}:{path.decode()}")


def check_released(root: Path) -> int:
    """Read each message of the newest release; how many there are."""
    count = 0
    for name, text in released(root):
        message = decode(text, kind_of(name.split(".")[0]))
        assert covers(json.loads(encode(message)), json.loads(text)), name
        count += 1
    return count


def test_messages_of_the_newest_release_decode():
    """Both are on the bus during an upgrade, whatever became of the files here since then."""
    if not check_released(ROOT):
        pytest.skip("there is no release yet, or its tag is not here")


def test_a_message_that_only_a_release_had_is_read(tmp_path):
    """A field that is no longer known is found, though the file of today does not have it."""

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    folder = tmp_path / "proto" / "golden"
    folder.mkdir(parents=True)
    git("init", "--quiet")
    assert check_released(tmp_path) == 0
    for version, text in (("v1.9.0", '{"req_id": "a"}'), ("v1.10.0", '{"req_id": "a", "gone": 1}')):
        (folder / "Cancel.json").write_text(text)
        git("add", ".")
        git("commit", "--quiet", "--message", version)
        git("tag", version)
        if version == "v1.9.0":
            assert check_released(tmp_path) == 1
    with pytest.raises(AssertionError, match=r"Cancel\.json"):
        check_released(tmp_path)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_message_of_a_newer_peer_decodes(path: Path):
    """A field that today's code does not know is ignored."""
    frozen = json.loads(path.read_text())
    if isinstance(frozen, dict):
        newer = json.dumps({**frozen, "added_in_v9": [1]}).encode()
        assert decode(newer, kind_of(path.name.split(".")[0])) is not None


def test_catalogue_decodes_descriptor_by_descriptor():
    """The frozen catalogue is read without a refusal."""
    catalog, refusals = decode_catalog((GOLDEN / "Catalog.json").read_bytes())
    assert refusals == []
    assert [tool.name for tool in catalog.tools] == ["look_up"]


@pytest.mark.parametrize(
    ("kind", "body", "named"),
    [
        (retrieval.SearchRequest, b'{"query":"a","limit":51}', "limit"),
        (retrieval.SearchRequest, b'{"query":"a","limit":"5"}', "limit"),
        (retrieval.SearchRequest, b'{"limit":5}', "query"),
        (ingest.IngestRequest, b'{"collection":"a b","documents":[]}', "collection"),
        (Parts, b'{"subject":"s","count":0,"size_bytes":1,"sha256":""}', "count"),
    ],
)
def test_message_outside_its_limits_is_refused_by_name(kind, body, named):
    """The refusal names the field."""
    with pytest.raises(Fault, match=named) as caught:
        decode(body, kind)
    assert caught.value.code == "invalid_argument"


def test_struct_decoding_is_closed_over_bad_bytes():
    """Bytes that are no JSON, no UTF-8 or too deep give a Fault and nothing else."""
    for body in (b"", b"\xff", b'"\xff"', b'{"query":"\xff"}', b'{"query":' + b"[" * 100_000):
        with pytest.raises(Fault):
            decode(body, retrieval.SearchRequest)
    assert issubclass(msgspec.DecodeError, msgspec.MsgspecError)
