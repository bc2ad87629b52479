"""The launcher's side of its protocol; libs/cli tests the whole."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from searchbus_runtime.parent import adopt_orphans

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the launcher needs Linux")


@pytest.fixture
def _adopting():
    """The services are children of the launcher's parent."""
    assert adopt_orphans(True)
    yield
    adopt_orphans(False)


@pytest.mark.usefixtures("_adopting")
def test_forks_for_each_request_until_its_socket_is_closed(tmp_path):
    """A service sees neither the socket nor the descriptors of other services.

    What is to be preloaded is imported once, in the launcher.
    """
    imported = tmp_path / "imported"
    (tmp_path / "slow.py").write_text(f"open({str(imported)!r}, 'a').write('x')")
    (tmp_path / "toy.py").write_text(
        "import gc, os, sys; assert 'slow' in sys.modules; assert not gc.isenabled();"
        "open_ = [fd for fd in range(3, 256) if os.path.exists(f'/proc/self/fd/{fd}')];"
        "print(*(fd for fd in open_ if not os.path.isfile(f'/proc/self/fd/{fd}'))); sys.exit(0)"
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "searchbus_runtime.launcher"],
            stdin=theirs.fileno(), cwd=tmp_path,
        )  # fmt: skip
    with ours:
        ours.settimeout(600)
        for _ in range(2):
            read, write = os.pipe()
            request = {"arguments": ["toy"], "environment": {}, "preload": ["slow", "missing"]}
            socket.send_fds(ours, [json.dumps(request).encode()], [write])
            os.close(write)
            pid = int(ours.recv(64))
            with os.fdopen(read) as output:
                # Files do not count: libffi keeps its own library open on some systems.
                assert output.read() == "\n"
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert launcher.wait(600) == 0
    assert imported.read_text() == "x"
