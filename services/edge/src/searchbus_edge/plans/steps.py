"""The arguments and the answer of run_plan."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from searchbus_contracts import Failure
from searchbus_contracts.queries import MAX_TOKENS, MIN_TOKENS
from searchbus_passages import DEFAULT_TOKENS

from .paths import MAX_CHARS, MAX_NODES

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

    path: Annotated[_Path, Meta(description="Value of the row: @.score.")]
    op: Annotated[
        Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "exists"],
        Meta(
            description="in: the value is in the list `value`; contains: the text or the list at "
            "`path` has `value`; exists: `value` says whether there is one."
        ),
    ] = "eq"
    value: Annotated[
        Any, Meta(description='Text, number, true, false, null; or {"$path": "$.step.value"}.')
    ] = None


class Join(Struct, forbid_unknown_fields=True):
    """Rows of another step, each joined to the rows with the same key."""

    rows: Annotated[_Path, Meta(description="The other rows: $.step.results[*].")]
    on: Annotated[_Path, Meta(description="The key of a row: @.id.")]
    equals: Annotated[_Path, Meta(description="The key of another row: @.product_id.")]
    name: Annotated[_Field, Meta(description="The field that gets the other row.")]


class Step(Struct, forbid_unknown_fields=True):
    """One call; or rows of earlier results; or one call for each of these rows."""

    id: Annotated[_Id, Meta(description="Its result is $.id in paths.")]
    tool: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        Meta(description="The tool to call. With `rows` it is called for each row."),
    ] = None
    arguments: Annotated[
        dict[str, Any],
        Meta(
            description='The tool\'s arguments. {"$path": "$.step.field"} anywhere in them is '
            'replaced by an earlier result, {"$path": "@.field"} by a value of the row.'
        ),
    ] = {}
    rows: Annotated[
        _Path | None, Meta(description="Rows of an earlier result: $.step.results[*].")
    ] = None
    join: Join | None = None
    where: Annotated[
        list[Condition], Meta(max_length=10, description="Only rows that fulfil all of these.")
    ] = []
    unique: Annotated[_Path | None, Meta(description="Only the first row of each value.")] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_NODES)] | None, Meta(description="The first rows only.")
    ] = None
    fields: Annotated[
        dict[_Field, _Path],
        Meta(max_length=30, description='What rows become: {"title": "@.title"}.'),
    ] = {}


class Plan(Struct, forbid_unknown_fields=True):
    """Arguments of run_plan."""

    steps: Annotated[
        list[Step],
        Meta(
            min_length=1,
            max_length=MAX_STEPS,
            description="In any order; no circles.",
            examples=[[{"id": "found", "tool": "search", "arguments": {"query": "inflation"}}]],
        ),
    ]
    output: Annotated[
        dict[_Field, _Path],
        Meta(
            min_length=1,
            max_length=MAX_STEPS,
            description="All that is returned, by name.",
            examples=[{"titles": "$.found.results[*].title"}],
        ),
    ]
    max_calls: Annotated[int, Meta(ge=1, le=MAX_CALLS, description="Of tools, in all.")] = 50
    max_tokens: Annotated[
        int, Meta(ge=MIN_TOKENS, le=MAX_TOKENS, description="The most that the answer may take.")
    ] = DEFAULT_TOKENS
    timeout_s: Annotated[
        float,
        Meta(gt=0, le=MAX_SECONDS, description="Then what is done is returned, the rest stopped."),
    ] = 60.0


class StepFailure(Struct, omit_defaults=True):
    """Why a step has no result, or a part of one."""

    step: str
    code: Annotated[str, Meta(description="One of the codes of failed calls.")]
    message: str
    rows: Annotated[int, Meta(description="How many of its rows have this failure.")] = 0
    retryable: bool = False
    retry_after_ms: int | None = None

    @classmethod
    def of(cls, step: str, failure: Failure, rows: int = 0) -> StepFailure:
        """The failure of a call; a long message is cut."""
        message = failure.message[:_MAX_MESSAGE_CHARS]
        return cls(step, failure.code, message, rows, failure.retryable, failure.retry_after_ms)


class PlanAnswer(Struct, omit_defaults=True):
    """What the output selects, and what of it is missing."""

    output: Annotated[dict[str, Any], Meta(description="By the names in the plan's output.")]
    calls: Annotated[int, Meta(description="Calls of tools that were made.")]
    failures: Annotated[list[StepFailure], Meta(description="Steps that failed.")] = []
    skipped: Annotated[list[str], Meta(description="Steps that needed these.")] = field(
        default_factory=list
    )
    truncated: Annotated[
        list[str], Meta(description="Entries of output that were cut or left out for max_tokens.")
    ] = field(default_factory=list)
