"""A server is asked once."""

from __future__ import annotations

import pytest

from searchbus_attach.commands.probe import probe
from searchbus_attach.declare.servers import parse_server
from searchbus_attach.faults import ProbeFault

from ..conftest import children, plain


def test_what_a_server_says():
    """Its name, its revision, its tools; its process ends."""
    found = probe(plain())
    assert (found.server_info, found.protocol) == ("plain 1.0", "2025-06-18")
    assert "echo" in {tool.name for tool in found.tools.descriptors}
    assert children() == []


def test_a_command_that_ends_early_says_why():
    """Its last lines, without the values that it was given."""
    complain = 'echo "no access with $KEY and $1" >&2; exit 3'
    keys = {"command": "/bin/sh", "args": ["-c", complain, "x", "${PLAIN_ARG}"]}
    server = parse_server("files", {**keys, "env": {"KEY": "word-of-env"}})
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ProbeFault) as error:
        patch.setenv("PLAIN_ARG", "word-of-arg")
        probe(server)
    assert str(error.value) == (
        "files: it ended with code 3. It printed last:\n  no access with *** and ***"
    )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"start": "die"}, "code 4"),
        ({"start": "hang"}, r"did not start within 1 s \(start_timeout_s\)"),
        ({"list_hang": True}, r"did not list its tools within 1.5 s \(list_timeout_s\)"),
    ],
)
def test_why_a_server_cannot_be_used(how, message):
    """And nothing is left of it."""
    with pytest.raises(ProbeFault, match=message):
        probe(plain(how, start_timeout_s=1.0, list_timeout_s=1.5))
    assert children() == []
