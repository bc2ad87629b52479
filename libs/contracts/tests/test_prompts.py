"""Messages about prompts that a worker fills in."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault, decode, encode
from searchbus_contracts.resources import CompleteReply, CompleteRequest, PromptGetRequest


def test_a_request_without_arguments_is_short():
    """Defaults are left out, and come back."""
    request = PromptGetRequest(prompt="greet")
    assert encode(request) == b'{"prompt":"greet"}'
    assert decode(encode(request), PromptGetRequest) == request


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PromptGetRequest, b'{"prompt":"a b"}'),
        (PromptGetRequest, b'{"prompt":"a","arguments":{"x":1}}'),
        (CompleteRequest, b'{"name":"","argument":"x"}'),
        (CompleteReply, b'{"values":[%s]}' % b",".join([b'"x"'] * 101)),
    ],
)
def test_a_message_outside_its_limits_is_refused(kind, body):
    """A prompt's name is a token, values are texts, and suggestions at most a hundred."""
    with pytest.raises(Fault):
        decode(body, kind)
