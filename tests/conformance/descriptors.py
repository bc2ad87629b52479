"""Tools of the conformance suite with schemas that no Struct describes, or that come and go."""

from __future__ import annotations

from searchbus_contracts import ToolDescriptor

from .replies import TOOLSET

APPEARING_TOOL = ToolDescriptor(
    name="test_appearing_tool", toolset=TOOLSET, title="test_appearing_tool",
    description="Conformance fixture test_appearing_tool.", input_schema={"type": "object"},
)  # fmt: skip
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {
        "properties": {"contactMethod": {"const": "phone"}},
        "required": ["contactMethod"],
    },
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
JSON_SCHEMA_TOOL = ToolDescriptor(
    name="json_schema_2020_12_tool", toolset=TOOLSET, title="JSON Schema 2020-12",
    description="Tool with JSON Schema 2020-12 features", input_schema=SCHEMA_2020_12,
)  # fmt: skip
HEADER_TOOL = ToolDescriptor(
    name="test_custom_header", toolset=TOOLSET, title="Custom header",
    description="A parameter that clients repeat in a header",
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
)  # fmt: skip
