"""`python -m searchbus_toolindex`: the tool index."""

import sys

from searchbus_runtime import load_settings, run

from .service import start
from .settings import ToolindexSettings


def main() -> int:
    """Run until SIGTERM."""
    return run("toolindex", load_settings(ToolindexSettings), start)


if __name__ == "__main__":
    sys.exit(main())
