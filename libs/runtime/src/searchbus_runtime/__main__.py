"""`python -m searchbus_runtime NAME`: run one service until SIGTERM.

NAME is an installed service (`ddg`) or a module that declares one in `SERVICE` (`my.search`).
"""

import sys

from .services import declared_in, installed_services, run_service


def main(arguments: list[str]) -> int:
    """Find the declaration and run it; returns the exit code."""
    installed = installed_services()
    if len(arguments) != 1:
        sys.stderr.write(f"usage: python -m searchbus_runtime NAME ({', '.join(installed)})\n")
        return 2
    name = arguments[0]
    service = installed.get(name) or declared_in(name)
    if service is None:
        sys.stderr.write(f"The module {name} declares no service. Add SERVICE = Service(...).\n")
        return 2
    return run_service(service)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
