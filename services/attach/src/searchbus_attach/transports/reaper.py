"""`python reaper.py`: ends process groups that start too many processes, and all of them when
whoever started it is gone, also when killed.

Standard input gives one line for each group, `+<id> <most processes>` when it is started and
`-<id>` when it has ended; the end of standard input is the end of the starter. The kernel ends the
direct children of a process that is killed, but not what these started. Standard output says which
groups started too many: all processes of a group's session count, where /proc is there to count.

It imports nothing but what it needs: it is one small process for all commands.
"""

import os
import select
import signal
import time
from collections import Counter

GRACE_S = 2.0
POLL_S = 0.05
COUNT_EVERY_S = 0.5


def main() -> None:
    """Follow the groups until standard input ends, then end those that are left."""
    # Ctrl-C in a terminal, and the end of the service's own group, are not the end of its work.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: dict[int, int] = {}
    rest = b""
    next_count_s = 0.0
    while True:
        if select.select([0], [], [], COUNT_EVERY_S if groups else None)[0]:
            data = os.read(0, 65_536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                group, _, most = line[1:].partition(b" ")
                if line.startswith(b"+"):
                    groups[int(group)] = int(most)
                else:
                    groups.pop(int(group), None)
        if groups and time.monotonic() >= next_count_s:
            _end_too_many(groups)
            next_count_s = time.monotonic() + COUNT_EVERY_S
    left = {one for one in groups if _send(one, signal.SIGTERM)}
    give_up_s = time.monotonic() + GRACE_S
    while left and time.monotonic() < give_up_s:
        time.sleep(POLL_S)
        left = {one for one in left if _send(one, 0)}
    for one in left:
        _send(one, signal.SIGKILL)


def _end_too_many(groups: dict[int, int]) -> None:
    """Kill the sessions with more processes than they may have."""
    try:
        with os.scandir("/proc") as entries:
            names = [entry.name for entry in entries if entry.name.isdigit()]
    except OSError:
        return
    sessions: dict[int, int] = {}
    for name in names:
        try:
            stat = os.open(f"/proc/{name}/stat", os.O_RDONLY)
        except OSError:
            continue  # it has ended
        try:
            # Behind the name, which may contain anything: state, parent, group, session.
            sessions[int(name)] = int(os.read(stat, 4096).rpartition(b")")[2].split()[3])
        except (OSError, IndexError):
            continue
        finally:
            os.close(stat)
    counts = Counter(sessions.values())
    for session in [group for group, most in groups.items() if counts[group] > most]:
        os.write(1, b"%d\n" % session)
        _send(session, signal.SIGKILL)
        for process in [pid for pid, found in sessions.items() if found == session]:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                continue  # it has ended


def _send(group: int, number: int) -> bool:
    """Signal a group; False where none of it is left."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    main()
