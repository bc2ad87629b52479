"""`python reaper.py`: ends process groups when whoever started it is gone, also when killed.

Standard input gives one line for each group, `+<id>` when it is started and `-<id>` when it has
ended; the end of standard input is the end of the starter. The kernel ends the direct children of
a process that is killed, but not what these started.

It imports nothing but what it needs: it is one small process for all commands.
"""

import os
import signal
import sys
import time

GRACE_S = 2.0
POLL_S = 0.05


def main() -> None:
    """Follow the groups until standard input ends, then end those that are left."""
    # Ctrl-C in a terminal, and the end of the service's own group, are not the end of its work.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        if line.startswith("+"):
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    left = {group for group in groups if _send(group, signal.SIGTERM)}
    give_up_s = time.monotonic() + GRACE_S
    while left and time.monotonic() < give_up_s:
        time.sleep(POLL_S)
        left = {group for group in left if _send(group, 0)}
    for group in left:
        _send(group, signal.SIGKILL)


def _send(group: int, number: int) -> bool:
    """Signal a group; False where none of it is left."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    main()
