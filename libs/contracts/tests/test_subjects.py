"""Subjects: every token is checked, so that no text becomes a wildcard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts import Subjects, is_token
from searchbus_contracts.subjects import (
    DISCOVERY,
    INBOX,
    PART,
    check_tokens,
    inbox_prefix,
    part_subject,
)

BUILDERS = [
    lambda subjects, token: subjects.tool(token, "x"),
    lambda subjects, token: subjects.tool("x", token),
    Subjects.toolset,
    lambda subjects, token: subjects.catalog(token, "x"),
    lambda subjects, token: subjects.catalog("x", token),
    Subjects.catalog_event,
    lambda subjects, token: subjects.endpoint(token, "x"),
    lambda subjects, token: subjects.endpoint("x", token),
    lambda subjects, token: subjects.resource(token, "read"),
    lambda subjects, token: subjects.resource("x", token),
    Subjects.cancel,
    lambda subjects, token: subjects.ping(token, "x"),
    lambda subjects, token: subjects.ping("x", token),
]


def test_subjects_are_those_of_the_wire():
    """proto/README.md §2."""
    subjects = Subjects()
    assert subjects.tool("fomc", "search_fomc") == "sb.v1.tool.fomc.search_fomc"
    assert subjects.toolset("fomc") == "sb.v1.tool.fomc.*"
    assert subjects.catalog("web", "ab12") == "sb.v1.catalog.web.ab12"
    assert subjects.endpoint("retrieval", "search") == "sb.v1.retrieval.search"
    assert subjects.resource("documents", "read") == "sb.v1.resource.documents.read"
    assert subjects.catalog_event("web") == "sb.v1.evt.catalog.web"
    assert subjects.catalog_events() == "sb.v1.evt.catalog.*"
    assert subjects.cancel("web") == "sb.v1.ctl.cancel.web"
    assert subjects.ping("web", "I1") == "sb.v1.ctl.ping.web.I1"


def test_the_prefix_keeps_two_stacks_apart():
    """It is a token as well."""
    assert Subjects("mine").catalog_events() == "mine.v1.evt.catalog.*"
    with pytest.raises(ValueError, match="subject token"):
        Subjects("a.b")


@pytest.mark.parametrize("bad", ["", ".", "a.b", "*", ">", "a b", "é", "a\n", "x" * 65, "$SRV"])
@pytest.mark.parametrize("build", BUILDERS)
def test_no_method_accepts_an_invalid_token(build, bad):
    """The message quotes the token and says what is allowed."""
    with pytest.raises(ValueError, match="subject token: use 1 to 64"):
        build(Subjects(), bad)


@given(st.text(max_size=70))
def test_a_token_has_no_character_with_a_meaning_in_subjects(text):
    """Dots separate, * and > match, white space ends a subject."""
    if is_token(text):
        assert 1 <= len(text) <= 64
        assert not set(text) & set(".*> \t\r\n")


def test_all_tokens_are_checked():
    """The first invalid one is named."""
    check_tokens("a", "b-c", "D_9")
    with pytest.raises(ValueError, match="'b c'"):
        check_tokens("a", "b c", "d e")


def test_a_request_to_one_instance_keeps_its_subject():
    """Behind the instance; a subject of another prefix is refused."""
    subjects = Subjects("sb")
    assert subjects.at("I1", subjects.endpoint("echo", "say")) == "sb.v1.at.I1.echo.say"
    with pytest.raises(ValueError, match="not a subject"):
        subjects.at("I1", "other.v1.echo.say")
    with pytest.raises(ValueError, match="token"):
        subjects.at("*", "sb.v1.echo.say")


def test_work_is_what_one_instance_can_be_asked():
    """Not its catalogue, which any replica has, nor what controls it."""
    subjects = Subjects("sb")
    assert subjects.is_work(subjects.tool("web", "search"))
    assert subjects.is_work(subjects.endpoint("retrieval", "get"))
    assert not subjects.is_work(subjects.catalog("web", "5f"))
    assert not subjects.is_work(subjects.ping("web", "I1"))


def test_the_prefix_of_a_service_is_an_inbox():
    """Workers drop a request whose reply subject is something else."""
    assert inbox_prefix("web") == "_INBOX_web"
    assert inbox_prefix("web").startswith(INBOX)


def test_no_service_can_have_the_name_of_a_replier_that_is_none():
    """Otherwise it could reply to every discovery."""
    assert not is_token(DISCOVERY)
    assert not is_token(PART)


def test_parts_are_below_the_reply_subject():
    """Where only the worker that has the request may publish."""
    assert part_subject("_INBOX_web.x.ddg.1") == "_INBOX_web.x.ddg.1.part"
