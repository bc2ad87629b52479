"""Which services a stack runs: the installed ones, and those of `--service NAME=MODULE`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from searchbus_contracts.services import Service, needed_for
from searchbus_runtime.config_file import ConfigFile
from searchbus_runtime.services import (
    ServiceDeclarationError,
    declared_in,
    installed_services,
    is_wanted,
    named_file,
)
from searchbus_runtime.state import EVERYTHING

from .commands import assigns, is_module
from .errors import StackError

EDGE = "edge"

RUNNER = "searchbus_runtime"


@dataclass(frozen=True)
class StackService:
    """One service of a stack.

    Args:
        name: its name, also of its processes.
        arguments: of the Python interpreter that runs it.
        declaration: `None` for a module that declares no service.
    """

    name: str
    arguments: tuple[str, ...]
    declaration: Service | None = None

    @property
    def runner_arguments(self) -> tuple[str, ...]:
        """The arguments of `python -m searchbus_runtime`; empty where it is another program."""
        return self.arguments[2:] if self.arguments[:2] == ("-m", RUNNER) else ()

    @property
    def preload(self) -> tuple[str, ...]:
        """Modules that a launcher imports before it forks this service."""
        return self.declaration.preload if self.declaration is not None else ()

    @property
    def rank(self) -> int:
        """Its place in the order of starts: what every endpoint waits for, then what preloads."""
        if self.declaration is not None and self.declaration.serves_every_endpoint:
            return 0
        return 1 if self.preload else 2

    def is_wanted(self, data: Path, config: ConfigFile | None = None) -> bool:
        """Whether the file that starts it exists, where it has one (`Service.started_by`)."""
        return self.declaration is None or is_wanted(self.declaration, data, config)

    def missing_file(self, config: ConfigFile | None = None) -> str:
        """Why it does not start, where a setting names a file that is not there; else empty."""
        path = named_file(self.declaration, config) if self.declaration is not None else None
        if self.declaration is None or path is None or path.is_file():
            return ""
        return (
            f"{self.declaration.started_by[0]}: there is no file {path}, so {self.name} is not "
            "started. Correct the path, or make the file: it starts then."
        )

    @property
    def worker(self) -> str | None:
        """The name under which its worker is found on the bus; `None` where it serves nothing."""
        if self.declaration is None:
            return self.name
        return self.declaration.group if self.declaration.serves else None


def find_services(extra: Mapping[str, str]) -> dict[str, StackService]:
    """Every service of a stack by name. Of the `extra` modules one with `SERVICE` is run by its
    declaration, any other as a program (`python -m`). Raises StackError for a wrong one."""
    try:
        installed = installed_services()
    except (ServiceDeclarationError, ImportError, AttributeError) as error:
        raise StackError(f"A service cannot be loaded: {error}") from None
    found = {
        name: StackService(name, ("-m", RUNNER, name), declaration)
        for name, declaration in installed.items()
    }
    for name, module in extra.items():
        found[name] = _extra_service(name, module)
    return found


def needed_services(
    services: Mapping[str, StackService], toolsets: Iterable[str]
) -> frozenset[str]:
    """Names of the services that toolsets (or EVERYTHING) need by their declarations, the edge
    included."""
    declared = {n: s.declaration for n, s in services.items() if s.declaration is not None}
    needed = (needed_for(None if t == EVERYTHING else t, declared) for t in toolsets)
    # A module without a declaration was named on the command line: it is wanted.
    return frozenset({EDGE, *(services.keys() - declared.keys())}).union(*needed)


def _extra_service(name: str, module: str) -> StackService:
    # `python -m` finds modules in the working folder; so does this.
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if not is_module(module):
        raise StackError(
            f"--service {name}={module}: there is no module {module}. Install its package, or "
            "start searchbus in the folder that has it."
        )
    # The source is read first: a module without a declaration may start its work when imported.
    if not assigns(module, "SERVICE"):
        return StackService(name, ("-m", module))
    try:
        declaration = declared_in(module)
    except (ServiceDeclarationError, ImportError) as error:
        raise StackError(f"--service {name}={module}: {error}") from None
    if declaration is None or declaration.name != name:
        named = "nothing" if declaration is None else declaration.name
        raise StackError(f"--service {name}={module}: its SERVICE is named {named}. Use that name.")
    return StackService(name, ("-m", RUNNER, module), declaration)
