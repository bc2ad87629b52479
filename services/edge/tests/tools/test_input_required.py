"""Tools that need input from the client."""

from __future__ import annotations

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from searchbus_contracts import InputRequired
from searchbus_edge.tools.input_required import (
    client_capabilities,
    dump_responses,
    request_input,
    require_capabilities,
)

ELICITATION = types.ClientCapabilities(elicitation=types.ElicitationCapability())
REQUEST = {"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": {}}}


def test_capabilities_are_named(context):
    """None where the client declared none."""
    assert client_capabilities(context(capabilities=ELICITATION)) == ("elicitation",)
    assert client_capabilities(context()) == ()


def test_missing_capability_is_named(make_tool):
    """Before the worker is called: -32021."""
    descriptor = make_tool(client_capabilities=("sampling", "roots")).descriptor
    require_capabilities(descriptor, ("roots", "sampling"))
    with pytest.raises(MCPError) as caught:
        require_capabilities(descriptor, ("roots",))
    assert caught.value.error.code == -32021
    assert caught.value.error.data == {"requiredCapabilities": {"sampling": {}}}


def test_able_client_gets_the_request_and_the_state(context):
    """It calls again with both."""
    required = InputRequired(requests={"q": REQUEST}, state="s")
    result = request_input(context(capabilities=ELICITATION), required)
    assert isinstance(result, types.InputRequiredResult)
    dumped = result.model_dump(by_alias=True, exclude_none=True)
    assert dumped["requestState"] == "s"
    assert dumped["inputRequests"]["q"]["method"] == "elicitation/create"


@pytest.mark.parametrize(
    ("revision", "capabilities", "lacks"),
    [
        ("2026-07-28", None, "elicitation"),
        ("2025-11-25", ELICITATION, "revision 2026-07-28"),
    ],
)
def test_other_clients_get_a_typed_failure(context, revision, capabilities, lacks):
    """It names what they lack."""
    required = InputRequired(requests={"q": REQUEST}, state="s")
    result = request_input(context(revision, capabilities), required)
    assert result.is_error
    assert result.content[0].text.startswith("invalid_argument: ")
    assert f"lacks: {lacks}" in result.content[0].text


def test_responses_are_dumped_as_json():
    """None where the call carries none."""
    plain = types.CallToolRequestParams(name="t")
    assert dump_responses(plain) is None
    answered = types.CallToolRequestParams.model_validate(
        {"name": "t", "inputResponses": {"q": {"action": "accept", "content": {"a": 1}}}}
    )
    assert dump_responses(answered)["q"]["content"] == {"a": 1}
