"""The arguments and the answer of run_plan, and what is refused before the first call: unknown
tools, wrong arguments, circles, sizes.

A tool that the caller may not use is unknown, as everywhere. Arguments are checked against the
tool's schema as far as their values are known; the pipeline checks each call again as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import Meta, Struct, field

from searchbus_contracts import Actor, ErrorCode, Failure, Fault
from searchbus_contracts.codec import doc
from searchbus_contracts.queries import MAX_TOKENS, MIN_TOKENS
from searchbus_passages import DEFAULT_TOKENS

from ..catalog.view import ListedTool, View
from ..composites.many import BULK
from ..tools.arguments import check_arguments
from ..tools.resolve import Resolver
from .paths import MAX_CHARS, MAX_NODES, Path, Work, bad, parse

MAX_STEPS = 50
MAX_CALLS = 200
MAX_SECONDS = 110.0
"""Less than the time limit of run_plan: the answer has to be made within it."""
REFERENCE = "$path"
_ID = r"^[A-Za-z][A-Za-z0-9_]{0,31}$"
_MAX_MESSAGE_CHARS = 300

_Path = Annotated[str, Meta(min_length=1, max_length=MAX_CHARS)]
_Id = Annotated[str, Meta(pattern=_ID)]
_Field = Annotated[str, Meta(min_length=1, max_length=64)]


class Condition(Struct, forbid_unknown_fields=True):
    """A comparison that a row has to fulfil."""

    path: Annotated[_Path, doc("Value of the row: @.score.")]
    op: Annotated[
        Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "exists"],
        doc(
            "in: the value is in the list `value`; contains: the text or the list at "
            "`path` has `value`; exists: `value` says whether there is one."
        ),
    ] = "eq"
    value: Annotated[Any, doc('Text, number, true, false, null; or {"$path": "$.step.value"}.')] = (
        None
    )


class Join(Struct, forbid_unknown_fields=True):
    """Rows of another step, each joined to the rows with the same key."""

    rows: Annotated[_Path, doc("The other rows: $.step.results[*].")]
    on: Annotated[_Path, doc("The key of a row: @.id.")]
    equals: Annotated[_Path, doc("The key of another row: @.product_id.")]
    name: Annotated[_Field, doc("The field that gets the other row.")]


class Step(Struct, forbid_unknown_fields=True):
    """One call; or rows of earlier results; or one call for each of these rows."""

    id: Annotated[_Id, doc("Its result is $.id in paths.")]
    tool: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        doc("The tool to call. With `rows` it is called for each row."),
    ] = None
    arguments: Annotated[
        dict[str, Any],
        doc(
            'The tool\'s arguments. {"$path": "$.step.field"} anywhere in them is '
            'replaced by an earlier result, {"$path": "@.field"} by a value of the row.'
        ),
    ] = {}
    rows: Annotated[_Path | None, doc("Rows of an earlier result: $.step.results[*].")] = None
    join: Join | None = None
    where: Annotated[
        list[Condition], doc("Only rows that fulfil all of these.", max_length=10)
    ] = []
    unique: Annotated[_Path | None, doc("Only the first row of each value.")] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_NODES)] | None, doc("The first rows only.")
    ] = None
    fields: Annotated[
        dict[_Field, _Path], doc('What rows become: {"title": "@.title"}.', max_length=30)
    ] = {}


class Plan(Struct, forbid_unknown_fields=True):
    """Arguments of run_plan."""

    steps: Annotated[
        list[Step],
        doc(
            "In any order; no circles.",
            min_length=1,
            max_length=MAX_STEPS,
            examples=[[{"id": "found", "tool": "search", "arguments": {"query": "inflation"}}]],
        ),
    ]
    output: Annotated[
        dict[_Field, _Path],
        doc(
            "All that is returned, by name.",
            min_length=1,
            max_length=MAX_STEPS,
            examples=[{"titles": "$.found.results[*].title"}],
        ),
    ]
    max_calls: Annotated[int, doc("Of tools, in all.", ge=1, le=MAX_CALLS)] = 50
    max_tokens: Annotated[
        int, doc("The most that the answer may take.", ge=MIN_TOKENS, le=MAX_TOKENS)
    ] = DEFAULT_TOKENS
    timeout_s: Annotated[
        float, doc("Then what is done is returned, the rest stopped.", gt=0, le=MAX_SECONDS)
    ] = 60.0


class StepFailure(Struct, omit_defaults=True):
    """Why a step has no result, or a part of one."""

    step: str
    code: Annotated[str, doc("One of the codes of failed calls.")]
    message: str
    rows: Annotated[int, doc("How many of its rows have this failure.")] = 0
    retryable: bool = False
    retry_after_ms: int | None = None

    @classmethod
    def of(cls, step: str, failure: Failure, rows: int = 0) -> StepFailure:
        """The failure of a call; a long message is cut."""
        message = failure.message[:_MAX_MESSAGE_CHARS]
        return cls(step, failure.code, message, rows, failure.retryable, failure.retry_after_ms)


class PlanAnswer(Struct, omit_defaults=True):
    """What the output selects, and what of it is missing."""

    output: Annotated[dict[str, Any], doc("By the names in the plan's output.")]
    calls: Annotated[int, doc("Calls of tools that were made.")]
    failures: Annotated[list[StepFailure], doc("Steps that failed.")] = []
    skipped: Annotated[list[str], doc("Steps that needed these.")] = field(default_factory=list)
    truncated: Annotated[
        list[str], doc("Entries of output that were cut or left out for max_tokens.")
    ] = field(default_factory=list)


MAX_PLAN_BYTES = 64 * 1024
MAX_DEPTH = 32
"""Levels of a step's arguments."""
_KNOWN_KEYWORDS = ("type", "properties", "required", "$defs", "definitions")


class CheckedStep(Struct, frozen=True):
    """A step with all its paths by their texts; `needs`: ids of the steps whose results it uses."""

    step: Step
    paths: Mapping[str, Path]
    needs: frozenset[str]

    @property
    def rows(self) -> Path | None:
        """Where its rows are."""
        return self.paths[self.step.rows] if self.step.rows is not None else None


class CheckedPlan(Struct, frozen=True):
    """Steps by id, each behind those that it needs, and what is returned."""

    steps: Mapping[str, CheckedStep]
    output: Mapping[str, Path]


def check(plan: Plan, actor: Actor, view: View, resolver: Resolver) -> CheckedPlan:
    """Check a plan, whose steps may name the view's tools but none that runs plans; raises
    Fault(invalid_argument), which names the field."""
    ids = [step.id for step in plan.steps]
    if twice := next((name for name in ids if ids.count(name) > 1), None):
        raise bad("steps", f"two steps have the id {twice}")
    steps = {step.id: _checked(step, ids) for step in plan.steps}
    if weight(msgspec.to_builtins(plan), MAX_PLAN_BYTES) > MAX_PLAN_BYTES:
        raise bad("steps", f"have more than {MAX_PLAN_BYTES} bytes")
    for checked in steps.values():
        if checked.step.tool is not None:
            _check_tool(checked, checked.step.tool, actor, view, resolver)
    output = {name: parse(text, f"output.{name}") for name, text in plan.output.items()}
    for name, path in output.items():
        _check_step(path, f"output.{name}", ids)
    return CheckedPlan({name: steps[name] for name in _ordered(steps)}, output)


def weight(value: Any, most: int, work: Work | None = None) -> int:
    """About the bytes of a value as JSON; beyond `most` nothing is counted. `work` counts what is
    looked at; it raises Fault."""
    total, left = 0, [value]
    while left and total <= most:
        one = left.pop()
        if work is not None:
            work.charge(1)
        if isinstance(one, str):
            total += len(one) + 2
        elif isinstance(one, dict):
            total += sum(map(len, one)) + 4 * len(one) + 2
            left += one.values()
        elif isinstance(one, list):
            total += len(one) + 2
            left += one
        else:
            total += 4 if isinstance(one, bool | float | None) else one.bit_length() // 3 + 1
    return total


def reference(value: Any) -> str | None:
    """The path of a reference; None for any other value."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get(REFERENCE), str):
        return str(value[REFERENCE])
    return None


def _checked(step: Step, ids: Collection[str]) -> CheckedStep:
    where = f"steps.{step.id}"
    if step.tool is None and step.rows is None:
        raise bad(where, "needs a tool to call, or rows to select")
    if step.rows is None and (step.join or step.where or step.unique or step.limit or step.fields):
        raise bad(where, "has no rows: join, where, unique, limit and fields need some")
    if step.tool is None and step.arguments:
        raise bad(where, "has arguments and no tool")
    named: dict[str, str] = {}  # path → field
    for name, text in _paths(step, where):
        named.setdefault(text, name)
    paths = {text: parse(text, name) for text, name in named.items()}
    for text, path in paths.items():
        if path.root == "$":
            _check_step(path, named[text], ids)
        elif named[text].endswith("rows"):
            raise bad(named[text], "must begin with $.step")
        elif step.rows is None:
            raise bad(named[text], "is of a row, and the step has no rows")
    needs = frozenset(path.step for path in paths.values() if path.step is not None)
    return CheckedStep(step, paths, needs)


def _paths(step: Step, where: str) -> Iterator[tuple[str, str]]:
    """(field, path) of all paths of a step."""
    if step.rows is not None:
        yield f"{where}.rows", step.rows
    if step.join is not None:
        yield f"{where}.join.rows", step.join.rows
        yield f"{where}.join.on", step.join.on
        yield f"{where}.join.equals", step.join.equals
    if step.unique is not None:
        yield f"{where}.unique", step.unique
    for name, text in step.fields.items():
        yield f"{where}.fields.{name}", text
    for number, condition in enumerate(step.where):
        yield f"{where}.where.{number}", condition.path
        for text in references(condition.value, f"{where}.where.{number}.value"):
            yield f"{where}.where.{number}.value", text
    for text in references(step.arguments, f"{where}.arguments"):
        yield f"{where}.arguments", text


def references(value: Any, field: str) -> Iterator[str]:
    """The paths in arguments; raises Fault where these are nested too deeply."""
    left = [(value, 0)]
    while left:
        one, depth = left.pop()
        if depth > MAX_DEPTH:
            raise bad(field, f"has more than {MAX_DEPTH} levels")
        if (text := reference(one)) is not None:
            yield text
        elif isinstance(one, dict | list):
            inner = one.values() if isinstance(one, dict) else one
            left += ((part, depth + 1) for part in inner)


def _check_step(path: Path, field: str, ids: Collection[str]) -> None:
    if path.step is not None and path.step not in ids:
        raise bad(field, f"there is no step {path.step[:32]}")
    if path.step is None:
        raise bad(field, "must begin with $.step")


def _check_tool(
    checked: CheckedStep, name: str, actor: Actor, view: View, resolver: Resolver
) -> None:
    step = checked.step
    where = f"steps.{step.id}"
    try:
        listed = resolver.require(resolver.target(view, name, step.arguments), actor)
    except MCPError as error:
        raise Fault(ErrorCode.INVALID_ARGUMENT, f"{where}.tool: {error.error.message}") from None
    if (listed.descriptor.toolset, listed.descriptor.name) == (BULK, "run_plan"):
        raise bad(f"{where}.tool", "a plan cannot run a plan. Add its steps to this one")
    if listed.passes_on:
        raise bad(f"{where}.tool", "name the tool itself, with its own arguments")
    if listed.descriptor.client_capabilities:
        raise bad(f"{where}.tool", "the tool asks its client. Call it outside of a plan")
    unknown = {key for key, value in step.arguments.items() if any(references(value, where))}
    arguments = {k: None if k in unknown else v for k, v in step.arguments.items()}
    try:
        check_known(listed, arguments, unknown)
    except Fault as fault:
        message = fault.failure.message
        raise Fault(ErrorCode.INVALID_ARGUMENT, f"{where}.arguments: {message}") from None


def check_known(listed: ListedTool, arguments: dict[str, Any], unknown: Collection[str]) -> None:
    """Check arguments of which some values are not known yet; raises Fault(invalid_argument)."""
    if unknown:
        schema = _of_known(listed.descriptor.input_schema, unknown)
        descriptor = msgspec.structs.replace(listed.descriptor, input_schema=schema)
        listed = ListedTool(listed.name, descriptor, listed.service)
    check_arguments(listed, arguments)


def _of_known(schema: Mapping[str, Any], unknown: Collection[str]) -> dict[str, Any]:
    """What a schema says of each argument for itself, and nothing of the unknown values."""
    kept = {key: schema[key] for key in _KNOWN_KEYWORDS if key in schema}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        kept["properties"] = {k: True if k in unknown else v for k, v in properties.items()}
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        kept["additionalProperties"] = False
    return kept


def _ordered(steps: Mapping[str, CheckedStep]) -> list[str]:
    """The ids, each behind those that it needs; raises Fault where they are in a circle."""
    # In the order of the plan, which the order of a set would not keep.
    needed = {name: [n for n in steps if n in checked.needs] for name, checked in steps.items()}
    try:
        return list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        circle = ", ".join(sorted(set(error.args[1])))
        raise bad("steps", f"{circle} need each other's results") from None
