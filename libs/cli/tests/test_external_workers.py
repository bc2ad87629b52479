"""Workers that `searchbus nats-config --worker` admits."""

from __future__ import annotations

import json

import pytest
import yaml

from searchbus_cli.secure import public_key
from searchbus_testing import run_command

SEED = "SEARCHBUS_NATS_NKEY_SEED"


def run(out, *arguments):
    done = run_command("nats-config", "--out", out, *arguments)
    assert done.returncode == 0, done.stderr


def users(out):
    """The permissions in the server's configuration, by nkey."""
    text = (out / "nats" / "nats.conf").read_text()
    accounts = json.loads(text[text.index("accounts: ") + len("accounts: ") :])
    return {user["nkey"]: user["permissions"] for user in accounts["BUS"]["users"]}


def of(out, name):
    """The permissions of a service; None where the server does not know its key."""
    return users(out).get(public_key((out / name / SEED).read_text()))


def test_a_worker_has_a_key_and_its_own_subjects_now_and_in_later_runs(tmp_path):
    """Its callees may reply to it, and its callers give it credit."""
    run(tmp_path, "--worker", "dice", "--toolset", "dice", "--calls", "retrieval.search")
    run(tmp_path, "--worker", "primes", "--toolset", "primes")
    run(tmp_path)
    dice = of(tmp_path, "dice")
    assert "sb.v1.tool.dice.*" in dice["subscribe"]["allow"]
    assert "sb.v1.retrieval.search" in dice["publish"]["allow"]
    assert "_INBOX_dice.*.retrieval.>" in of(tmp_path, "retrieval")["publish"]["allow"]
    assert "_INBOX_primes.*.$PART.*" in of(tmp_path, "edge")["publish"]["allow"]
    assert "sb.v1.tool.dice.*" in of(tmp_path, "attach")["subscribe"]["deny"]
    assert not (tmp_path / "dice" / "SEARCHBUS_ACTOR_PRIVATE_KEY").exists()


def test_a_removed_worker_is_unknown_to_the_server(tmp_path):
    """The others stay, and its key admits nobody."""
    for name in ("dice", "primes"):
        run(tmp_path, "--worker", name, "--toolset", name)
    run(tmp_path, "--remove-worker", "dice")
    assert of(tmp_path, "dice") is None
    assert of(tmp_path, "primes") is not None
    assert "dice" not in (tmp_path / "nats" / "workers.compose.yaml").read_text()


def test_compose_and_kubernetes_get_what_they_need(tmp_path):
    """Compose makes the keys of all workers; a Deployment reads its Secret."""
    run(tmp_path, "--worker", "primes", "--toolset", "primes")
    run(tmp_path, "--kubernetes", "--worker", "dice", "--toolset", "dice", "--calls", "tool.web.*")
    compose = yaml.safe_load((tmp_path / "nats" / "workers.compose.yaml").read_text())
    commands = compose["services"]["keys"]["environment"]["WORKERS"].split(" && ")
    assert [command.partition("/keys ")[2] for command in commands] == [
        "--worker primes --toolset primes",
        "--worker dice --toolset dice --calls 'tool.web.*'",
    ]
    assert compose["services"]["dice"]["environment"]["SEARCHBUS_NATS_URL"] == "tls://nats:4222"
    assert {"keys-dice", "keys-primes"} == set(compose["volumes"])
    assert compose["services"]["dice"]["volumes"] == ["keys-dice:/run/secrets/searchbus:ro"]
    deployment = tmp_path / "nats" / "workers.kubernetes.yaml"
    text = deployment.read_text()
    deployments = {one["metadata"]["name"]: one for one in yaml.safe_load_all(text)}
    assert {"dice", "primes"} == set(deployments)
    assert "value: tls://" not in text.replace('"', "")
    run(tmp_path, "--tls")
    assert "value: tls://nats" in deployment.read_text().replace('"', "")
    pod = deployments["dice"]["spec"]["template"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/part-of"] == "searchbus"
    secret = pod["spec"]["volumes"][0]["secret"]["secretName"]
    made = yaml.safe_load_all((tmp_path / "secrets.yaml").read_text())
    assert secret in [one["metadata"]["name"] for one in made]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--worker", "web", "--toolset", "x"], "is a name of searchbus"),
        (["--worker", "connector", "--toolset", "x"], "is a name of searchbus"),
        *(
            (["--worker", name, "--toolset", "x"], "is a name of searchbus")
            for name in ("tls", "tenants", "qdrant")
        ),
        (["--worker", "Dice", "--toolset", "x"], "lower-case letters"),
        (["--worker", "dice"], "needs --toolset"),
        (["--worker", "dice", "--toolset", "web"], "belongs to web"),
        (["--worker", "dice", "--toolset", "lazy"], "belongs to connector"),
        (["--worker", "dice", "--toolset", "a.b"], "letters, digits"),
        (
            ["--worker", "dice", "--toolset", "x", "--calls", "retrieval.>"],
            "does not name an endpoint of",
        ),
        (
            ["--worker", "dice", "--toolset", "x", "--calls", "tool.>"],
            "does not name an endpoint of",
        ),
        (["--toolset", "x"], "belong to a --worker"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(tmp_path, arguments, said):
    """An exit code of 2, one sentence that says what to do."""
    done = run_command("nats-config", "--out", tmp_path, *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_of_declarations_is_named(tmp_path):
    """The configuration is not written without its workers."""
    (tmp_path / "nats").mkdir()
    (tmp_path / "nats" / "workers.json").write_text("{")
    done = run_command("nats-config", "--out", tmp_path)
    assert done.returncode == 2
    assert "workers.json is damaged" in " ".join(done.stderr.split())
