"""`python -m searchbus_runtime NAME`: run one service until SIGTERM.

NAME is an installed service (`ddg`) or a module that declares one in `SERVICE` (`my.search`).
"""

import gc
import os
import signal
import sys

if __name__ == "__main__":
    # The kernel drops a signal to the first process of a container that has no handler for it.
    # Imports and settings may take seconds; then `run` sets handlers of its own.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))

from searchbus_contracts.services import Service

from .secrecy import take_settings
from .services import ServiceDeclarationError, declared_in, installed_services, run_service

EXIT_WRONG_DECLARATION = 2


def main(arguments: list[str]) -> int:
    """Find the declaration and run it; returns the exit code."""
    # A module that declares a service may read settings when it is imported.
    take_settings()
    try:
        return run_service(_find(arguments))
    except ServiceDeclarationError as fault:
        sys.stderr.write(f"{fault}\n")
        return EXIT_WRONG_DECLARATION


def _find(arguments: list[str]) -> Service:
    installed = installed_services()
    known = ", ".join(installed)
    if len(arguments) != 1:
        raise ServiceDeclarationError(f"usage: python -m searchbus_runtime NAME   ({known})")
    name = arguments[0]
    if name in installed:
        return installed[name]
    try:
        service = declared_in(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, name.partition(".")[0]):
            raise
        raise ServiceDeclarationError(
            f"There is no service and no module {name}. Installed services: {known}."
        ) from None
    if service is None:
        raise ServiceDeclarationError(
            f"The module {name} declares no service. Add SERVICE = Service(...)."
        )
    return service


if __name__ == "__main__":
    # What is made while a service starts stays: collections take time and find nothing. `run`
    # enables them when the service is up.
    gc.disable()
    sys.exit(main(sys.argv[1:]))
