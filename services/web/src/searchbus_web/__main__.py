"""`python -m searchbus_web` is `python -m searchbus_runtime web`."""

import sys

from searchbus_runtime.services import run_service

from . import SERVICE

if __name__ == "__main__":
    sys.exit(run_service(SERVICE))
