"""`python -m searchbus_toolindex` is `python -m searchbus_runtime toolindex`."""

import sys

from searchbus_runtime.services import run_service

from . import SERVICE

if __name__ == "__main__":
    sys.exit(run_service(SERVICE))
