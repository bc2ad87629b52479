"""`python -m searchbus_ddg`: the DuckDuckGo service."""

import sys

from searchbus_runtime import load_settings, run

from .service import start
from .settings import DdgSettings


def main() -> int:
    """Run until SIGTERM."""
    return run("ddg", load_settings(DdgSettings), start)


if __name__ == "__main__":
    sys.exit(main())
