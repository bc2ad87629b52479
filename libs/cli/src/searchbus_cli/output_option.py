"""The option `-o json` of every command that prints data."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

FLAG = "as_json"
Output = Annotated[
    Literal["table", "json"],
    typer.Option("--output", "-o", help="json: the same as the command's own flag for JSON."),
]


def with_output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command with `-o json` beside its flag, the parameter `as_json`; others are unchanged."""
    signature = inspect.signature(function, eval_str=True)
    # A group of commands that is loaded twice in one process has the option already.
    if FLAG not in signature.parameters or "output" in signature.parameters:
        return function

    @functools.wraps(function)
    def command(*, output: str, as_json: bool, **options: Any) -> Any:
        return function(**options, as_json=as_json or output == "json")

    added = inspect.Parameter(
        "output", inspect.Parameter.KEYWORD_ONLY, default="table", annotation=Output
    )
    parameters = [*signature.parameters.values(), added]
    # Typer reads both.
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command
