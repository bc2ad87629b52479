"""`python -m searchbus_retrieval`: the retrieval service."""

import sys

from searchbus_runtime import load_settings, run

from .service import start
from .settings import RetrievalSettings


def main() -> int:
    """Run until SIGTERM."""
    return run("retrieval", load_settings(RetrievalSettings), start)


if __name__ == "__main__":
    sys.exit(main())
