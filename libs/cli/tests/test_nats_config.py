"""`searchbus nats-config`."""

from __future__ import annotations

import base64
import json
import shutil
import stat
from contextlib import suppress
from itertools import count

import pytest
import typer
import yaml

from searchbus_bus import ActorSigner, public_actor_key
from searchbus_bus.identity import Sent
from searchbus_cli import installation
from searchbus_cli.installation import secret_manifests
from searchbus_cli.nats_config import nats_config
from searchbus_cli.secure import public_key
from searchbus_contracts import Actor, encode
from searchbus_contracts.services import Service
from searchbus_runtime.files import write_atomically
from searchbus_runtime.services import bus_users
from searchbus_testing import run_command

SEED = "SEARCHBUS_NATS_NKEY_SEED"
STORE_SEED = "SEARCHBUS_NATS_STORE_NKEY_SEED"
PRIVATE = "SEARCHBUS_ACTOR_PRIVATE_KEY"


def run(out, *arguments):
    done = run_command("nats-config", "--out", out, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def test_each_service_has_a_folder_of_secrets(tmp_path):
    """Files that only the owner reads; the private key for those who sign."""
    run(tmp_path)
    config = (tmp_path / "nats" / "nats.conf").read_text()
    for name, service in bus_users().items():
        files = {path.name: path for path in (tmp_path / name).iterdir()}
        assert {SEED, "SEARCHBUS_NATS_INBOX_PREFIX", "SEARCHBUS_ACTOR_PUBLIC_KEY"} <= set(files)
        assert service.signs_callers == (PRIVATE in files)
        assert bool(service.buckets) == (STORE_SEED in files)
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files.values())
        for seed in (path.read_text() for name, path in files.items() if "NKEY_SEED" in name):
            assert public_key(seed) in config
            assert seed not in config
    assert (tmp_path / "edge" / "SEARCHBUS_STATE_KEY").exists()


def test_second_run_keeps_every_key_and_adds_new_services(tmp_path, monkeypatch):
    """Running services keep their connections."""
    run(tmp_path)
    before = {path: path.read_text() for path in tmp_path.glob("*/SEARCHBUS_*")}
    listed = tmp_path / "declarations.json"
    listed.write_bytes(encode({"toy": Service(name="toy", toolsets=("dice",))}))
    monkeypatch.setenv("SEARCHBUS_DECLARATIONS", str(listed))
    run(tmp_path)
    assert before == {path: path.read_text() for path in before}
    config = (tmp_path / "nats" / "nats.conf").read_text()
    assert public_key((tmp_path / "toy" / SEED).read_text()) in config
    assert "sb.v1.tool.dice.*" in config


def test_prefix_and_tls_are_written(tmp_path):
    """As the server reads them."""
    run(tmp_path, "--prefix", "acme", "--tls-cert", "/tls/crt", "--tls-key", "/tls/key")
    config = (tmp_path / "nats" / "nats.conf").read_text()
    assert 'tls { cert_file: "/tls/crt", key_file: "/tls/key" }' in config
    assert "acme.v1.tool.web.*" in config
    assert "sb.v1" not in config


def test_kubernetes_gets_a_secret_for_each_service_and_the_accounts(tmp_path):
    """Their contents are those of the folders and of the configuration."""
    run(tmp_path, "--kubernetes")
    path = tmp_path / "secrets.yaml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = {one["metadata"]["name"]: one["data"] for one in yaml.safe_load_all(path.read_text())}
    assert {*(f"searchbus-{name}" for name in bus_users()), "nats-users"} == set(found)
    assert (tmp_path / "web" / SEED).read_bytes() == base64.b64decode(found["searchbus-web"][SEED])
    accounts = json.loads(base64.b64decode(found["nats-users"]["auth.conf"]))
    assert len(bus_users()) == len(accounts["BUS"]["users"])
    assert "STORE_web" in accounts


@pytest.mark.parametrize(
    ("prepare", "arguments", "said"),
    [
        (None, ["--tls-cert", "/x"], "--tls-cert and --tls-key belong together."),
        (None, ["--tls-verify"], "--tls-verify needs certificates"),
        (None, ["--tls", "--tls-name", "a b"], "--tls-name a b: give a host name"),
        (None, ["--tls", "--tls-name", "é.example"], "--tls-name é.example: give a host name"),
        (None, ["--prefix", "a.b"], "--prefix a.b: use 1 to 64 letters"),
        (None, ["--to", "blue"], "--to and --as belong to --lend or --withdraw."),
        (None, ["--as", "web2"], "--to and --as belong to --lend or --withdraw."),
        (None, ["--remove-tenant", "blue"], "--remove-tenant blue: there is none."),
        (None, ["--remove-worker", "dice"], "--remove-worker dice: there is none."),
        ("file", [], "cannot be written"),
        ("seed", [], "Delete it to make a new one."),
        ("declarations", [], "SEARCHBUS_DECLARATIONS names a file that cannot be read"),
    ],
)
def test_mistakes_are_named(tmp_path, monkeypatch, prepare, arguments, said):
    """No traceback, an exit code that is not 0."""
    out = tmp_path / "out"
    if prepare == "file":
        out.write_text("")
    elif prepare == "seed":
        (out / "web").mkdir(parents=True)
        (out / "web" / SEED).write_text("not a seed")
    elif prepare == "declarations":
        monkeypatch.setenv("SEARCHBUS_DECLARATIONS", str(tmp_path / "missing.json"))
    done = run_command("nats-config", "--out", out, *arguments)
    assert done.returncode != 0
    assert said in " ".join(done.stderr.split())


def test_a_refused_name_of_a_server_leaves_no_authority(tmp_path):
    """By which the next run would take its certificates for there."""
    assert (
        run_command("nats-config", "--out", tmp_path, "--tls", "--tls-name", "a b").returncode == 2
    )
    assert not (tmp_path / "tls").exists()


def test_each_folder_becomes_a_secret(tmp_path):
    """Named after the service, with a key for each file; the accounts beside them."""
    for name in ("web", "ddg", "not-asked-for"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SEED").write_text(f"seed of {name}")
    accounts = {"BUS": {"users": [{"nkey": "UA"}]}}
    found = list(yaml.safe_load_all(secret_manifests(tmp_path, ["web", "ddg"], accounts)))
    names = [manifest["metadata"]["name"] for manifest in found]
    assert names == ["searchbus-web", "searchbus-ddg", "nats-users"]
    assert {"Secret"} == {manifest["kind"] for manifest in found}
    assert base64.b64decode(found[0]["data"]["SEED"]) == b"seed of web"
    assert accounts == json.loads(base64.b64decode(found[2]["data"]["auth.conf"]))


def test_a_key_is_rotated_in_two_steps(tmp_path):
    """The server accepts both keys between them; the service's file has the old one first."""
    run(tmp_path)
    old = (tmp_path / "web" / SEED).read_text()
    public = (tmp_path / "ddg" / "SEARCHBUS_ACTOR_PUBLIC_KEY").read_text()
    run(tmp_path, "--rotate", "web", "--rotate", "actor")
    run(tmp_path)  # as for a new service
    both = (tmp_path / "web" / SEED).read_text().split()
    assert (both[0], len(both)) == (old, 2)
    config = (tmp_path / "nats" / "nats.conf").read_text()
    assert all(public_key(seed) in config for seed in both)
    users = json.loads(config[config.index("accounts: ") + len("accounts: ") :])["STORE_web"][
        "users"
    ]
    assert len(users) == 2
    for name in bus_users():
        publics = (tmp_path / name / "SEARCHBUS_ACTOR_PUBLIC_KEY").read_text().split()
        assert (publics[0], len(publics)) == (public, 2)
    run(tmp_path, "--retire", "web", "--retire", "actor")
    config = (tmp_path / "nats" / "nats.conf").read_text()
    assert public_key(old) not in config
    assert (tmp_path / "web" / SEED).read_text() == both[1]
    assert (tmp_path / "web" / "SEARCHBUS_ACTOR_PUBLIC_KEY").read_text() == publics[1]
    private = (tmp_path / "edge" / PRIVATE).read_text()
    assert ActorSigner(private).headers(Actor(subject="a"), Sent.of("s", "r", b""))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--retire", "web"), "web has one value only"),
        (("--rotate", "ddg", "--rotate", "nobody"), "nobody is not a secret that can be rotated"),
        (("--rotate", "retrieval/qdrant_api_key"), "is not a secret that can be rotated"),
        (("--rotate", "web/brave_api_keys"), "The new value of web/brave_api_keys is empty."),
    ],
)
def test_a_name_that_cannot_be_rotated_changes_nothing(tmp_path, arguments, said):
    """Also where another name beside it could."""
    run(tmp_path)
    before = {path: path.read_text() for path in tmp_path.glob("*/*")}
    done = run_command("nats-config", "--out", tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert before == {path: path.read_text() for path in tmp_path.glob("*/*")}


class CutError(BaseException):
    """The command is killed."""


@pytest.mark.parametrize("step", ["rotating", "retiring"])
def test_a_change_of_the_key_that_signs_may_be_cut_off_anywhere(tmp_path, monkeypatch, step):
    """The same two steps afterwards end with one new key, by which all are verified."""
    first = tmp_path / "first"
    nats_config(first)
    old = (first / "edge" / PRIVATE).read_text()
    if step == "retiring":
        nats_config(first, rotating=["actor"])
    for writes in count():
        out = shutil.copytree(first, tmp_path / f"{writes}")
        left = iter(range(writes))

        def write(path, text, *, mode=None, left=left):
            if next(left, None) is None:
                raise CutError
            write_atomically(path, text, mode=mode)

        with monkeypatch.context() as patch, suppress(CutError):
            patch.setattr(installation, "write_atomically", write)
            nats_config(out, **{step: ["actor"]})
            break
        for change in ({"rotating": ["actor"]}, {"retiring": ["actor"]}):
            with suppress(typer.Exit):  # done already, which it says
                nats_config(out, **change)
        (private,) = (out / "edge" / PRIVATE).read_text().split()
        assert private != old
        for name, service in bus_users().items():
            public = (out / name / "SEARCHBUS_ACTOR_PUBLIC_KEY").read_text()
            assert public == public_actor_key(private), (writes, name)
            if service.signs_callers:
                assert (out / name / PRIVATE).read_text() == private
    assert writes > 10


def test_keys_of_other_servers_are_added_to_their_list(tmp_path):
    """Read from the input, not from the command line, which others see."""
    run(tmp_path)
    for key in ("first", "second"):
        done = run_command(
            "nats-config", "--out", tmp_path, "--rotate", "web/brave_api_keys", typed=f"{key}\n"
        )
        assert done.returncode == 0, done.stderr
    file = tmp_path / "web" / "SEARCHBUS_BRAVE_API_KEYS"
    assert json.loads(file.read_text()) == ["first", "second"]
    run(tmp_path, "--retire", "web/brave_api_keys")
    assert json.loads(file.read_text()) == ["second"]
