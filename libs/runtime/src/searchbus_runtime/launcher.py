"""`python -m searchbus_runtime.launcher MODULE...`: starts services by fork, imports done once.

Most of a service's start is the import of packages that every service needs. The launcher imports
them (and the given modules, where they are installed), and forks for each request. Linux only.

It is started with a socket (SOCK_SEQPACKET) as standard input. A request is a JSON object

    {"arguments": ["ddg"], "environment": {"SEARCHBUS_NATS_URL": "..."}, "preload": ["module"]}

and one file descriptor, for the output of the service. The modules to preload are imported before
the fork, and stay imported for later requests. The reply is the process id in decimal. The service
is a child of the launcher's parent, which must adopt orphans (`parent.adopt_orphans`). The
launcher ends when the socket is closed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import time
from importlib import import_module
from typing import Any

from .__main__ import main as run_service
from .parent import end_with_parent
from .secrecy import hide_environment

MAX_REQUEST_BYTES = 1024 * 1024
_EVERY_SERVICE = ("searchbus_runtime.process", "searchbus_bus.nats.transport", "nkeys")
_POLL_S = 0.001


def main(modules: list[str]) -> int:
    """Serve requests until the socket is closed; in a forked process, run the service."""
    parent = os.getppid()
    # The services have this process's block, whatever their environment becomes.
    hide_environment()
    end_with_parent()
    # numpy's threads would not live on in the forked processes, nor do the services need them.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # As in __main__.
    gc.disable()
    _import([*_EVERY_SERVICE, *modules])
    with socket.socket(fileno=os.dup(0)) as requests:
        arguments = _serve(requests, parent)
    if arguments is None:
        os._exit(0)  # nothing is to be flushed, and freeing all modules takes a while
    return run_service(arguments)


def _import(modules: list[str]) -> None:
    """Import the modules that are installed and not imported yet."""
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        with contextlib.suppress(ModuleNotFoundError):
            import_module(name)
    # Objects that no collection visits stay shared between the processes.
    gc.freeze()


def _serve(requests: socket.socket, parent: int) -> list[str] | None:
    """The arguments of a service, in the process that is to run it; None at the end."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 1)
        if not data:
            return None
        request = json.loads(data)
        _import(request.get("preload", []))
        between = os.fork()
        if between == 0:
            # Its child is an orphan as soon as it ends, and then a child of the launcher's parent.
            between = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == between:
                time.sleep(_POLL_S)
            # Not before: who ends it at once could not wait for what is not its child yet.
            try:
                requests.send(str(os.getpid()).encode())
            except OSError:
                os._exit(1)  # nobody waits for it any more
            _become(request, descriptors[0], parent)
            return list(request["arguments"])
        os.waitpid(between, 0)
        os.close(descriptors[0])


def _become(request: dict[str, Any], output: int, parent: int) -> None:
    """Take environment, session, streams and parent, as a process has them that was started."""
    os.setsid()
    end_with_parent()
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
    os.environ.clear()
    os.environ.update(request["environment"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    for descriptor in (nothing, output):
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
