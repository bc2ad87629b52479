"""A tool's schema in the form that clients read: what the usual SDKs and frameworks can parse.

    client_schema({"type": ["string", "null"], "maxLength": 9})
    # {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]}

A union of types becomes `anyOf`, since converters to classes take `type` for one name and fail for
the whole list; for the same reason a property that says no type gets all of them. `definitions`
become `$defs`, OpenAPI's `nullable` a union with null; `$id`, draft 4's `id` and the `$schema` of
other drafts than 2020-12 are left out, since every reference is local. The same values are valid.

This is done where a list is shown, after the pins were compared, so that what an operator approved
stays approved when this form changes. Arguments are checked against the worker's own schema, whose
unions give shorter messages; `with_nulls` is its reading of `nullable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from searchbus_contracts.schemas import DIALECTS, LISTS, MAPS, SCHEMAS, mapped, resolved, types_of

_TYPE_OF = {
    keyword: kind
    for kind, keywords in {
        "object": "properties patternProperties additionalProperties propertyNames required "
        "minProperties maxProperties dependentRequired dependentSchemas",
        "array": "items prefixItems contains minContains maxContains minItems maxItems uniqueItems",
        "string": "minLength maxLength pattern format contentEncoding contentMediaType "
        "contentSchema",
        "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    }.items()
    for keyword in keywords.split()
}
"""Keyword → the only type whose values it limits; it moves to the branch of that type. Not the
`unevaluated…`, which look at everything beside them."""
_TYPES = ("string", "number", "boolean", "object", "array", "null")
_SAYS_A_TYPE = frozenset(
    {"type", "$ref", "$dynamicRef", "enum", "const", "anyOf", "oneOf", "allOf"}
)
_NUMBER_FORMATS = frozenset({"int32", "int64", "float", "double"})
"""Formats of OpenAPI; converters fail for a format that JSON Schema does not have."""


def client_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The form that clients read, the schema itself where it has this form; its size is linear in
    the schema's, its depth at most three times as large."""
    read = _with_types(with_nulls(schema))
    found: dict[str, Any] = _Unions(read).split(read)
    return schema if found == schema else found


def with_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a union with null for each `nullable`; the schema itself without one."""
    found: dict[str, Any] = _with_null(schema)
    return schema if found == schema else found


def _with_null(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    found = {key: mapped(key, value, _with_null) for key, value in schema.items()}
    if not isinstance(found.get("nullable"), bool) or not found.pop("nullable"):
        return found
    kind, enum = found.get("type"), found.get("enum")
    choices = next((key for key in ("anyOf", "oneOf") if isinstance(found.get(key), list)), None)
    if isinstance(enum, list) and None not in enum:
        found["enum"] = [*enum, None]
    if isinstance(kind, str | list):
        types = [kind] if isinstance(kind, str) else kind
        found["type"] = types if "null" in types else [*types, "null"]
    elif choices is not None:
        if not any("null" in types_of(choice) for choice in found[choices]):
            found[choices] = [*found[choices], {"type": "null"}]
    elif inner := {key: found.pop(key) for key in ("$ref", "allOf") if key in found}:
        found["anyOf"] = [inner, {"type": "null"}]
    return found


def _with_types(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    found = {key: mapped(key, value, _with_types) for key, value in schema.items()}
    if isinstance(named := found.get("properties"), dict):
        found["properties"] = {name: _with_type(part) for name, part in named.items()}
    if "const" in found and "type" not in found:
        found["type"] = next(kind for kind in _TYPES if has_type(found["const"], kind))
    if found.get("format") in _NUMBER_FORMATS:
        del found["format"]
    if found.get("items") is True:
        found["items"] = {}
    elif found.get("items") is False:
        del found["items"]
        first = found.get("prefixItems", ())
        found["maxItems"] = min(len(first), found.get("maxItems", len(first)))
    return found


def _with_type(schema: Any) -> Any:
    """A property with all types where it says none."""
    if schema is True:
        return {"type": list(_TYPES)}
    if not isinstance(schema, dict) or _SAYS_A_TYPE & schema.keys():
        return schema
    return {**schema, "type": list(_TYPES)}


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a schema is split.

    Args:
        branches: without the keywords that move to them; none where nothing is split.
        place: the keys that lead to the list of branches.
        branch_of: keyword → the branch that it moves to.
        replaced: keywords that the branches stand for.
    """

    branches: Sequence[Mapping[str, Any]]
    place: tuple[str, ...]
    branch_of: Mapping[str, int]
    replaced: frozenset[str]


_WHOLE = _Plan((), (), {}, frozenset())


class _Unions:
    """Splits the unions of one schema, and corrects the references to what moves."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._plans: dict[int, _Plan] = {}

    def split(self, schema: Any) -> Any:
        """The same schema without a list of types."""
        if not isinstance(schema, dict):
            return schema
        plan = self._plan(schema)
        found: dict[str, Any] = {}
        branches = [dict(branch) for branch in plan.branches]
        for key, value in schema.items():
            # Names the schema or an older draft only, which no local reference needs.
            named = key in ("$schema", "$id", "id") and isinstance(value, str)
            if key in plan.replaced or (named and value not in DIALECTS):
                continue
            if key == "$ref" and isinstance(value, str):
                found[key] = self._reference(value)
                continue
            read = mapped(key, value, self.split)
            if key in plan.branch_of:
                branches[plan.branch_of[key]][key] = read
            elif _name(schema, key) == "$defs" and isinstance(read, dict):
                found["$defs"] = found.get("$defs", {}) | read
            else:
                found[key] = read
        if len(branches) == 1:
            return found | branches[0]
        if branches and len(plan.place) == 1:
            found["anyOf"] = branches
        elif branches:
            found["allOf"] = [*found.get("allOf", ()), {"anyOf": branches}]
        return found

    def _plan(self, schema: Mapping[str, Any]) -> _Plan:
        # The schemas of the root live as long as this object: no id is used twice.
        plan = self._plans.get(id(schema))
        if plan is None:
            plan = self._plans[id(schema)] = _planned(schema)
        return plan

    def _reference(self, reference: str) -> str:
        """A reference to the place where its target is afterwards."""
        if not reference.startswith("#/"):
            return reference
        here: Any = self._root
        found, kind = ["#"], "schema"
        for part in reference[2:].split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if kind == "schema" and isinstance(here, dict):
                plan = self._plan(here)
                if name in plan.branch_of:
                    if len(plan.branches) > 1:
                        found += [*plan.place, str(plan.branch_of[name])]
                    found.append(part)
                else:
                    found.append("$defs" if _name(here, name) == "$defs" else part)
                kind = "map" if name in MAPS else "list" if name in LISTS else "schema"
                if name not in MAPS | LISTS | SCHEMAS:
                    kind = "value"
            else:
                found.append(part)
                kind = "schema" if kind in ("map", "list") else "value"
            here = resolved(f"#/{part}", here)
        return "/".join(found)


def _name(schema: Mapping[str, Any], key: str) -> str:
    """The name of a keyword afterwards: `definitions` have the names of `$defs`, or stay."""
    old, new = schema.get("definitions"), schema.get("$defs", {})
    both = isinstance(old, dict) and isinstance(new, dict) and old.keys().isdisjoint(new)
    return "$defs" if key == "$defs" or (key == "definitions" and both) else key


def _planned(schema: Mapping[str, Any]) -> _Plan:
    types = schema.get("type")
    if not isinstance(types, list) or not types:
        return _WHOLE
    if "number" in types:  # every integer is a number
        types = [kind for kind in types if kind != "integer"]
    choices = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(choices, list) and all(_is_of(choice, types) for choice in choices):
        return _Plan((), (), {}, frozenset({"type"}))
    enum = schema.get("enum")
    branches: list[dict[str, Any]] = []
    for kind in types:
        branch: dict[str, Any] = {"type": kind}
        if isinstance(enum, list):
            values = [value for value in enum if has_type(value, kind)]
            if not values:
                continue
            if kind != "null":
                branch["enum"] = values
        branches.append(branch)
    replaced = {"type", "enum"} if isinstance(enum, list) else {"type"}
    if not branches:  # it accepts nothing, which the enum says as well as before
        branches, replaced = [{"type": kind} for kind in types], {"type"}
    number_of = {str(branch["type"]): number for number, branch in enumerate(branches)}
    if "integer" in number_of:
        number_of["number"] = number_of["integer"]
    branch_of = {
        key: number_of[kind] for key in schema if (kind := _TYPE_OF.get(key, "")) in number_of
    }
    place: tuple[str, ...] = ("anyOf",)
    if "anyOf" in schema:
        place = ("allOf", str(len(schema.get("allOf", ()))), "anyOf")
    return _Plan(branches, place, branch_of, frozenset(replaced))


def _is_of(schema: Any, types: Sequence[Any]) -> bool:
    """Whether a schema accepts values of these types only, by what it says itself."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    return all(one in types or (one == "integer" and "number" in types) for one in kinds)


def has_type(value: Any, kind: str) -> bool:
    """Whether a value is of a type; 1.0 is an integer, too (JSON Schema validation, 6.1.1)."""
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    if isinstance(value, int | float):
        whole = isinstance(value, int) or value.is_integer()
        return kind == "number" or (kind == "integer" and whole)
    return isinstance(value, {"string": str, "array": list, "object": dict}.get(kind, ()))
