"""`searchbus nats-config --lend` and `--withdraw`."""

from __future__ import annotations

import base64
import json

import pytest
import yaml

from searchbus_runtime.loans import NONE, Loan
from searchbus_testing import run_command

LOANS = "SEARCHBUS_LOANS"


def run(out, *arguments):
    return run_command("nats-config", "--out", out, *arguments)


def done(out, *arguments):
    finished = run(out, *arguments)
    assert finished.returncode == 0, finished.stderr


def accounts(out):
    text = (out / "nats" / "nats.conf").read_text()
    return json.loads(text[text.index("accounts: ") + len("accounts: ") :])


def lent_by(folder):
    """The loans that an edge reads."""
    lines = (folder / "edge" / LOANS).read_text().splitlines()
    return [loan for loan in map(Loan.parse, lines) if loan.service]


def pass_time(out):
    """As if what was withdrawn had been so long ago."""
    path = out / "nats" / "loans.json"
    loans = json.loads(path.read_text())
    for lent in loans:
        lent["withdrawn_s"] = dict.fromkeys(lent["withdrawn_s"], 1.0)
    path.write_text(json.dumps(loans))


def seed_of(folder, service):
    return (folder / service / "SEARCHBUS_NATS_NKEY_SEED").read_text()


def public_key_of(folder):
    return (folder / "edge" / "SEARCHBUS_ACTOR_PUBLIC_KEY").read_text()


@pytest.fixture
def out(tmp_path):
    """A folder with two tenants."""
    done(tmp_path, "--tenant", "red")
    done(tmp_path, "--tenant", "blue", "--prefix", "b")
    return tmp_path


def test_the_lenders_edge_has_what_it_needs_to_serve_the_borrower(out):
    """Keys, prefix, names; for tenants and the installation itself, in either direction."""
    done(out, "--tenant", "red", "--lend", "crm", "--lend", "wiki", "--to", "blue")
    done(out, "--tenant", "red", "--lend", "web", "--as", "paid_web")
    done(out, "--lend", "handbook", "--to", "blue")
    red, blue = out / "tenants" / "red", out / "tenants" / "blue"
    to_blue, to_all = sorted(lent_by(red), key=lambda loan: loan.prefix)
    assert to_blue == Loan(
        borrower="blue", service="loan-red", prefix="b", inbox_prefix="_INBOX_loan-red",
        seeds=(seed_of(blue, "loan-red"),), public_keys=(public_key_of(blue),),
        toolsets={"crm": "crm", "wiki": "wiki"},
    )  # fmt: skip
    assert (to_all.borrower, to_all.prefix, to_all.toolsets) == ("sb", "sb", {"paid_web": "web"})
    assert to_all.public_keys == (public_key_of(out),)
    (own,) = lent_by(out)
    assert (own.service, own.toolsets) == ("loan", {"handbook": "handbook"})
    assert '"b.v1.tool.handbook.*"' in json.dumps(accounts(out)["BUS_blue"])


def test_loans_are_kept_rotated_and_withdrawn(out):
    """Later runs change no key; a withdrawn toolset keeps its permissions until the lender's edge has
    surely said that its tools are gone, however often the command is run."""
    red, blue = out / "tenants" / "red", out / "tenants" / "blue"
    done(out, "--tenant", "red", "--lend", "crm", "--lend", "wiki", "--to", "blue")
    before = lent_by(red)
    done(out)
    assert lent_by(red) == before
    done(out, "--tenant", "blue", "--rotate", "loan-red", "--rotate", "actor")
    (loan,) = lent_by(red)
    assert len(loan.seeds) == len(loan.public_keys) == 2
    done(out, "--tenant", "blue", "--retire", "loan-red", "--retire", "actor")
    (loan,) = lent_by(red)
    assert loan.seeds == (seed_of(blue, "loan-red"),)
    assert loan.seeds != before[0].seeds

    def permitted():
        return {t for t in ("crm", "wiki") if f'"b.v1.tool.{t}.*"' in json.dumps(accounts(out))}

    done(out, "--tenant", "red", "--withdraw", "crm", "--to", "blue")
    assert lent_by(red)[0].toolsets == {"wiki": "wiki"}
    done(out)
    assert permitted() == {"crm", "wiki"}
    done(out, "--tenant", "red", "--lend", "crm", "--to", "blue")
    pass_time(out)
    done(out)
    assert permitted() == {"crm", "wiki"}
    done(out, "--tenant", "red", "--withdraw", "crm", "--to", "blue")
    pass_time(out)
    done(out)
    assert permitted() == {"wiki"}
    done(out, "--tenant", "red", "--withdraw", "wiki", "--to", "blue")
    assert (red / "edge" / LOANS).read_text() == NONE
    done(out)
    assert permitted() == {"wiki"}
    pass_time(out)
    done(out)
    assert "loan-red" not in json.dumps(accounts(out))


def test_a_removed_tenant_lends_and_borrows_no_more(out):
    """Of the one that stays, no loan is left, and its own services keep their users."""
    done(out, "--tenant", "red", "--lend", "crm", "--to", "blue")
    done(out, "--lend", "handbook", "--to", "blue")
    done(out, "--remove-tenant", "blue")
    assert lent_by(out) == lent_by(out / "tenants" / "red") == []
    assert "loan" not in json.dumps(accounts(out))


def test_a_tenant_that_lends_is_not_removed(out):
    """Its edge has to say first that the tools are gone: they would stay listed for a day."""
    done(out, "--tenant", "red", "--lend", "crm", "--to", "blue")
    failed = run(out, "--remove-tenant", "red")
    assert failed.returncode == 2
    assert "it lends crm to blue. Withdraw it first" in " ".join(failed.stderr.split())
    done(out, "--tenant", "red", "--withdraw", "crm", "--to", "blue")
    done(out, "--remove-tenant", "red")
    assert "loan" not in json.dumps(accounts(out))


def test_an_edge_without_loans_gets_no_file_of_them(out):
    """Nor one that only borrows."""
    done(out, "--tenant", "red", "--lend", "crm", "--to", "blue")
    assert not (out / "edge" / LOANS).exists()
    assert not (out / "tenants" / "blue" / "edge" / LOANS).exists()


def test_what_is_borrowed_is_not_lent_on(out):
    """Otherwise a call could go in a circle; nor is a toolset borrowed by the name of one that is
    lent."""
    done(out, "--tenant", "red", "--lend", "b", "--to", "blue", "--as", "a")
    for arguments, said in (
        (("--tenant", "blue", "--lend", "a", "--to", "red", "--as", "c"), "belongs to loan-red"),
        (("--tenant", "blue", "--lend", "a"), "Use one of the lender's own"),
        (("--tenant", "blue", "--lend", "x", "--to", "red", "--as", "b"), "red, which lends it"),
    ):
        failed = run(out, *arguments)
        assert failed.returncode == 2
        assert said in " ".join(failed.stderr.split())


def test_no_tenant_has_the_prefix_of_the_installation_as_its_name(out):
    """As borrower the installation is named by it, in limits and the audit log of the lender."""
    for arguments in (("--tenant", "sb", "--prefix", "other"), ("--prefix", "blue")):
        failed = run(out, *arguments)
        assert failed.returncode == 2
        assert "names the installation itself" in " ".join(failed.stderr.split())
    assert not (out / "tenants" / "sb").exists()


def test_kubernetes_gets_the_loan_in_the_secret_of_the_lenders_edge(out):
    """The borrower has no Secret of the lender's user."""
    done(out, "--tenant", "red", "--lend", "crm", "--to", "blue", "--kubernetes")

    def secrets(tenant):
        text = (out / "tenants" / tenant / "secrets.yaml").read_text()
        return {one["metadata"]["name"]: one["data"] for one in yaml.safe_load_all(text)}

    text = base64.b64decode(secrets("red")["searchbus-edge"][LOANS]).decode()
    assert Loan.parse(text).toolsets == {"crm": "crm"}
    assert not [name for name in secrets("blue") if "loan" in name]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tenant", "red", "--lend", "lazy", "--to", "blue"), "belongs to connector"),
        (("--tenant", "red", "--lend", "crm", "--to", "blue", "--as", "bulk"), "connector"),
        (("--tenant", "red", "--lend", "web", "--to", "blue"), "Give a name by --as"),
        (("--tenant", "red", "--lend", "a b", "--to", "blue"), "letters, digits"),
        (("--tenant", "red", "--lend", "crm", "--to", "green"), "no such tenant"),
        (("--tenant", "red", "--lend", "crm", "--to", "red"), "two tenants"),
        (("--lend", "crm"), "two tenants"),
        (("--tenant", "red", "--lend", "a", "--lend", "b", "--as", "c"), "one toolset at a time"),
        (("--tenant", "red", "--withdraw", "crm", "--to", "blue"), "wiki is lent there"),
        (("--lend", "wiki", "--to", "blue"), "--lend wiki belongs to loan-red. Give a name"),
    ],
)
def test_a_wrong_loan_is_refused(out, arguments, said):
    """With the remedy, and nothing is written."""
    done(out, "--tenant", "red", "--lend", "wiki", "--to", "blue")
    before = (out / "nats" / "loans.json").read_text()
    failed = run(out, *arguments)
    assert failed.returncode == 2
    assert said in " ".join(failed.stderr.replace("│", " ").split())
    assert (out / "nats" / "loans.json").read_text() == before


def test_a_worker_cannot_take_a_borrowed_toolset(out):
    """Nor the name of the lender's worker."""
    done(out, "--tenant", "red", "--lend", "crm")
    for name, toolset, said in (("dice", "crm", "belongs to loan-red"), ("loan-red", "x", "name")):
        failed = run(out, "--worker", name, "--toolset", toolset)
        assert failed.returncode == 2
        assert said in failed.stderr
