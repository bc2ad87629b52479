"""Settings as their pydantic classes declare them, read by way of the JSON Schema.

A field's description is the text below it. It is read from the source, and only here: by pydantic
(`use_attribute_docstrings`) it would be read at each start, for a tenth of the settings' time.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel

from .setting_list import Setting

_KINDS = {
    "boolean": "true or false", "integer": "whole number", "number": "number", "string": "text",
    "array": "list", "object": "table",
}  # fmt: skip


def describe(cls: type[BaseModel]) -> dict[str, Setting]:
    """Name → setting, of all fields of a class."""
    schema, texts = cls.model_json_schema(), _texts(cls)
    return {
        name: _setting(name, {"description": texts.get(name, ""), **field}, schema.get("$defs", {}))
        for name, field in schema["properties"].items()
    }


def _texts(cls: type[BaseModel]) -> dict[str, str]:
    """Field → the text below it, of the class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(BaseModel)]):
        try:
            (declared,) = ast.parse(dedent(inspect.getsource(base))).body
        except (OSError, SyntaxError):  # made without a source file
            continue
        assert isinstance(declared, ast.ClassDef)
        for field, text in pairwise(declared.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(about))),
                ):
                    found[name] = " ".join(about.split())
    return found


def _setting(name: str, field: dict[str, Any], named: dict[str, Any]) -> Setting:
    value = _without_null(field, named)
    inner = _without_null(value.get("items") or {}, named)
    ends = {"array": "Items", "string": "Length"}.get(value.get("type", ""), "imum")
    return Setting(
        name=name,
        kind=_kind(value, named),
        description=field["description"] or value.get("description", ""),
        default=field.get("default"),
        least=value.get(f"min{ends}"),
        most=value.get(f"max{ends}"),
        above=value.get("exclusiveMinimum"),
        choices=tuple(value.get("enum") or inner.get("enum") or ()),
        pattern=value.get("pattern", ""),
        secret="password" in (value.get("format"), inner.get("format")),
    )


def _without_null(field: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """The schema of the value where one is given."""
    if "$ref" in field:
        field = {**named[field["$ref"].rpartition("/")[2]], **field}
    others = [one for one in field.get("anyOf", ()) if one.get("type") != "null"]
    return _without_null(others[0], named) if len(others) == 1 else field


def _kind(value: dict[str, Any], named: dict[str, Any]) -> str:
    kind = _KINDS.get(value.get("type", ""), "text")
    if value.get("format") in ("path", "file-path", "directory-path"):
        return "path"
    inner = value.get("items") or value.get("additionalProperties")
    if isinstance(inner, dict) and kind in ("list", "table"):
        return f"{kind} of {_kind(_without_null(inner, named), named).partition(' of ')[0]}s"
    return kind
