"""Reply subjects name who may reply."""

from __future__ import annotations

from searchbus_contracts import is_token
from searchbus_contracts.subjects import DISCOVERY, INBOX, PART, inbox_prefix, part_subject


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
