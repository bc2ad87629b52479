"""`python -m searchbus_web`: the web service."""

import sys

from searchbus_runtime import load_settings, run

from .service import start
from .settings import WebSettings


def main() -> int:
    """Run until SIGTERM."""
    return run("web", load_settings(WebSettings), start)


if __name__ == "__main__":
    sys.exit(main())
