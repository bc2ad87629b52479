"""`<data>/secure/keys.json`: the keys of a stack that runs with `--secure`, by service.

A key that is rotated has two values there, with a blank between them: the old one, then the new.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .secret import Secret, values_of

STACK_KEYS = Path("secure", "keys.json")
_OF: dict[str, Callable[[Any, str], str]] = {
    "nats_nkey_seed": lambda keys, service: keys["seeds"][service],
    "nats_store_nkey_seed": lambda keys, service: keys["store_seeds"][service],
    "actor_private_key": lambda keys, _: keys["actor_private"],
    "actor_public_key": lambda keys, _: keys["actor_public"],
}
"""Setting → its text in the file."""


def stack_secret(
    data: Path, service: str, name: str, check: Callable[[str], object] = str
) -> Secret | None:
    """A key of a service, which is read again when the file changes; `None` where it has none.

    Args:
        data: the data folder of the stack.
        name: of the setting that has the key elsewhere.
        check: raises ValueError for a value that cannot be used.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    path, find = data / STACK_KEYS, _OF.get(name)
    if find is None or not path.is_file():
        return None

    def parsed(text: str) -> tuple[str, ...]:
        try:
            return values_of(find(json.loads(text), service))
        except (KeyError, TypeError, AttributeError):
            raise ValueError(f"has no {name} of {service}") from None

    values = parsed(path.read_text(encoding="utf-8"))
    for value in values:
        check(value)
    return Secret(name, values, path, check=check, parse=parsed)


def of_stack(
    data: Path | None,
    inbox: str,
    name: str,
    values: tuple[str, ...],
    check: Callable[[str], object] = str,
) -> Secret | None:
    """A key that `searchbus up --secure` gave to the service of these inboxes, where the setting's
    `values` are among the file's; `None` where it is from elsewhere."""
    if data is None:
        return None
    with suppress(OSError, ValueError):
        found = stack_secret(data, inbox.removeprefix("_INBOX_"), name, check)
        if found is not None and {*found.values()} & {*values}:
            return found
    return None
