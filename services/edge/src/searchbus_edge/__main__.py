"""`python -m searchbus_edge`: the edge."""

import sys

from searchbus_runtime import load_settings, run

from .service import start
from .settings import EdgeSettings


def main() -> int:
    """Run until SIGTERM."""
    return run("edge", load_settings(EdgeSettings), start)


if __name__ == "__main__":
    sys.exit(main())
