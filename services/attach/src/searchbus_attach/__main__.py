"""`python -m searchbus_attach` is `python -m searchbus_runtime attach`."""

import sys

from searchbus_runtime.services import run_service

from . import SERVICE

if __name__ == "__main__":
    sys.exit(run_service(SERVICE))
