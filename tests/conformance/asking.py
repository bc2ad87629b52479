"""The tools of the conformance suite that ask the client before they reply."""

from __future__ import annotations

from typing import Any

from searchbus_bus import Call, Toolset, tool
from searchbus_contracts import InputRequired, ToolReply

from .replies import TOOLSET, Nothing, text

ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}


def elicit(message: str, **properties: Any) -> dict[str, Any]:
    return {
        "method": "elicitation/create",
        "params": {
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {name: {"type": kind} for name, kind in properties.items()},
                "required": list(properties),
            },
        },
    }


def sample(prompt: str, max_tokens: int = 100) -> dict[str, Any]:
    content = {"type": "text", "text": prompt}
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": content}], "maxTokens": max_tokens},
    }


def ask(state: str | None = None, **requests: dict[str, Any]) -> ToolReply:
    return ToolReply(input_required=InputRequired(requests=requests, state=state))


def answered(call: Call, key: str, field: str) -> Any:
    """A field of the content of an accepted elicitation; None where it is missing or odd."""
    answer = (call.input_responses or {}).get(key)
    content = answer.get("content") if isinstance(answer, dict) else None
    return content.get(field) if isinstance(content, dict) else None


class AskingTools(Toolset, name=TOOLSET):
    """As the suite describes them."""

    @tool(title="test_streaming_elicitation")
    async def test_streaming_elicitation(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_streaming_elicitation."""
        return await self.test_input_required_result_elicitation(call, _)

    @tool(title="test_input_required_result_elicitation")
    async def test_input_required_result_elicitation(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_elicitation."""
        name = answered(call, "user_name", "name")
        if not isinstance(name, str):
            return ask(user_name=elicit("What is your name?", name="string"))
        return text(f"Hello, {name}!")

    @tool(title="test_input_required_result_sampling")
    async def test_input_required_result_sampling(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_sampling."""
        answer = (call.input_responses or {}).get("capital_question")
        if not isinstance(answer, dict):
            return ask(capital_question=sample("What is the capital of France?"))
        return text(str(answer.get("content", {}).get("text", answer)))

    @tool(title="test_input_required_result_list_roots")
    async def test_input_required_result_list_roots(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_list_roots."""
        answer = (call.input_responses or {}).get("client_roots")
        if not isinstance(answer, dict):
            return ask(client_roots=ROOTS)
        return text(f"Roots: {[root.get('uri') for root in answer.get('roots', [])]}")

    @tool(title="test_input_required_result_request_state")
    async def test_input_required_result_request_state(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_request_state."""
        if call.state == "round-1" and call.input_responses:
            return text("state-ok")
        return ask("round-1", confirm=elicit("Please confirm", ok="boolean"))

    @tool(title="test_input_required_result_tampered_state")
    async def test_input_required_result_tampered_state(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_tampered_state."""
        return await self.test_input_required_result_request_state(call, _)

    @tool(title="test_input_required_result_multiple_inputs")
    async def test_input_required_result_multiple_inputs(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_multiple_inputs."""
        if call.state and {"user_name", "greeting", "client_roots"} <= set(
            call.input_responses or {}
        ):
            return text("All three arrived.")
        return ask(
            "waiting",
            user_name=elicit("What is your name?", name="string"),
            greeting=sample("Generate a greeting", 50),
            client_roots=ROOTS,
        )

    @tool(title="test_input_required_result_multi_round")
    async def test_input_required_result_multi_round(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_multi_round."""
        if call.state and call.state.startswith("name:"):
            color = answered(call, "step2", "color")
            return text(f"{call.state.removeprefix('name:')} likes {color}.")
        name = answered(call, "step1", "name")
        if name is None:
            return ask("start", step1=elicit("Step 1: What is your name?", name="string"))
        return ask(
            f"name:{name}", step2=elicit("Step 2: What is your favorite color?", color="string")
        )

    @tool(title="test_input_required_result_capabilities")
    async def test_input_required_result_capabilities(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_capabilities."""
        requests = {
            "elicitation": ("user_name", elicit("What is your name?", name="string")),
            "sampling": ("greeting", sample("Generate a greeting")),
        }
        able = dict(requests[c] for c in call.client_capabilities if c in requests)
        return ask(**able) if able else text("The client can be asked nothing.")
