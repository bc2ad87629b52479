"""`python -m searchbus_retrieval` is `python -m searchbus_runtime retrieval`."""

import sys

from searchbus_runtime.services import run_service

from . import SERVICE

if __name__ == "__main__":
    sys.exit(run_service(SERVICE))
