"""`python reaper.py STARTER [every]`: ends what commands started, also what left their sessions.

It does so when a command has ended or starts too many processes, and when the process STARTER is
gone, also killed. Standard input gives `>` before a command is started, one line for its group,
`+<id> <most processes> <mark>`, then `<`, and `-<id>` when it has ended; its end is the end of the
starter. Standard output names a group that was ended because of too many processes, `<id>`; an
orphan that the starter adopted and should collect, `z<id>`; a process of no known command that was
killed, `?<id>`; and `e` says that nothing is left of any group.

A process belongs to a group by its session, its parent, or the mark in its environment, whichever
is found first, and from then on whatever it does. `every`: the starter has no other children, so
one that is found by none of these was started by a command all the same, and is killed. Without
/proc (macOS) only the groups themselves are ended.

Where the kernel shares CPU time among sessions (`sched_autogroup`), a nice value counts only within
one: each session of a group is given it as well.

It imports nothing but what it needs: it is one small process for all commands.
"""

import io
import os
import select
import signal
import sys
import time
from collections.abc import Callable

MARK = "ATTACHED_BY_SEARCHBUS"
NICE = 5
"""Where all CPUs are busy, a process of searchbus gets three times as much as one of a command."""
GRACE_S = 2.0
POLL_S = 0.05
LOOK_EVERY_S = 0.5
_ENVIRONMENT_BYTES = 2**20


class Process:
    """What /proc says of a process.

    Attributes:
        key: its id and start: an id is used again.
    """

    __slots__ = ("has_ended", "key", "parent", "session")

    def __init__(self, pid: int, stat: bytes) -> None:
        # Behind the name, which may contain anything: state, parent, group, session.
        fields = stat.rpartition(b")")[2].split()
        self.has_ended = fields[0] in (b"Z", b"X")
        self.parent, self.session = int(fields[1]), int(fields[3])
        self.key = (pid, int(fields[19]))


class Groups:
    """The groups of commands, the children of `starter` (`every`: it has no others), and which of
    them a process belongs to."""

    def __init__(self, starter: int, *, every: bool) -> None:
        self.most: dict[int, int] = {}
        self._starter = starter
        self._every = every
        self._marks: dict[bytes, int] = {}
        self._ending: dict[int, float | None] = {}
        self._processes: dict[int, Process] = {}
        self._owners: dict[tuple[int, int], int] = {}
        self._seen: set[tuple[int, int]] = set()
        self._starting = 0

    def read(self, line: bytes) -> None:
        """A line of standard input."""
        if line in (b">", b"<"):
            self._starting += 1 if line == b">" else -1
            return
        group, *more = line[1:].split()
        if line.startswith(b"+"):
            self.most[int(group)] = int(more[0])
            self._marks[more[1]] = int(group)
        elif self.most.pop(int(group), None) is not None:
            self._ending[int(group)] = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look for."""
        return not (self.most or self._ending or self._starting or self._seen)

    def look(self) -> None:
        """Find the processes of each group, and end those that it should not have."""
        members = self._members()
        self._hold_back({pid for found in members.values() for pid in found})
        for group in [one for one, most in self.most.items() if len(members[one]) > most]:
            _say(b"%d\n" % group)
            _signal(os.killpg, group, signal.SIGKILL)
            for pid in members[group]:
                _signal(os.kill, pid, signal.SIGKILL)
        for group, kill_s in [*self._ending.items()]:
            if group not in self._owners.values():  # what has ended is collected first
                del self._ending[group]
                self._marks = {mark: one for mark, one in self._marks.items() if one != group}
                continue
            now_s = time.monotonic()
            if kill_s is None:
                self._ending[group] = now_s + GRACE_S
            number = signal.SIGKILL if kill_s is not None and now_s >= kill_s else signal.SIGTERM
            for pid in members[group]:
                _signal(os.kill, pid, number)
        self._look_at_adopted()

    def end(self, number: int) -> bool:
        """Signal all that is left of all groups; False where that is nothing."""
        members = self._members(orphans=True)
        groups = [_signal(os.killpg, one, number) for one in self.most]
        left = [_signal(os.kill, pid, number) for found in members.values() for pid in found]
        return any(groups + left)

    def _members(self, *, orphans: bool = False) -> dict[int, list[int]]:
        """The processes of each group; for orphans marks are looked for everywhere, since the
        starter may have ended before."""
        self._processes = _processes()
        found: dict[int, int] = {self._starter: 0}
        for pid in self._processes:
            self._find(pid, found, orphans=orphans)
        members: dict[int, list[int]] = {one: [] for one in (*self.most, *self._ending)}
        self._owners = {}
        for pid, process in self._processes.items():
            if (owner := found[pid]) in members:
                self._owners[process.key] = owner
                if not process.has_ended:
                    members[owner].append(pid)
        return members

    def _find(self, pid: int, found: dict[int, int], *, orphans: bool) -> int:
        """The group of a process, 0 where it has none; what is found is kept in `found`."""
        chain = []
        while pid not in found and (process := self._processes.get(pid)) is not None:
            chain.append(pid)
            found[pid] = self._owners.get(process.key, 0)
            if not found[pid] and process.session in self.most:
                found[pid] = process.session
            if not found[pid] and (orphans or process.parent == self._starter):
                found[pid] = self._marks.get(_mark(pid), 0)
            if found[pid]:
                break
            pid = process.parent
        owner = found.get(pid, 0)
        for one in chain:
            found[one] = found[one] or owner
        return owner

    def _hold_back(self, pids: set[int]) -> None:
        """Give the sessions of these processes less CPU time, also those that undid it."""
        for pid in {self._processes[pid].session: pid for pid in pids}.values():
            hold_back(pid)

    def _look_at_adopted(self) -> None:
        """Children of the starter that are not commands; each at the second sight: one that ends
        right now is the starter's business, as is one that starts."""
        seen = set()
        if os.getppid() != self._starter:
            return  # it has just ended: its id may soon be that of another one
        for pid, process in self._processes.items():
            if process.parent != self._starter or pid in self.most or pid == os.getpid():
                continue
            owned, again = process.key in self._owners, process.key in self._seen
            if process.has_ended and (owned or self._every):
                if again:
                    _say(b"z%d\n" % pid)
            elif self._every and not owned:
                if self._starting:
                    continue
                if again and _signal(os.kill, pid, signal.SIGKILL):
                    _say(b"?%d\n" % pid)
            else:
                continue
            seen.add(process.key)
        self._seen = seen


def main() -> None:
    """Follow the groups until standard input ends, then end those that are left."""
    # Ctrl-C in a terminal, and the end of the service's own group, are not the end of its work.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups = Groups(int(sys.argv[1]), every="every" in sys.argv)
    rest = b""
    next_look_s = 0.0
    rests = True
    while True:
        if select.select([0], [], [], None if rests else LOOK_EVERY_S)[0]:
            rests = False
            data = os.read(0, 65_536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                groups.read(line)
        if time.monotonic() >= next_look_s:
            groups.look()
            next_look_s = time.monotonic() + LOOK_EVERY_S
            if rests := groups.empty:
                _say(b"e\n")
    left = groups.end(signal.SIGTERM)
    give_up_s = time.monotonic() + GRACE_S
    while left and time.monotonic() < give_up_s:
        time.sleep(POLL_S)
        left = groups.end(0)
    if left:
        groups.end(signal.SIGKILL)


def hold_back(pid: int) -> None:
    """Give the session of a process less CPU time, unless it has that already."""
    path = f"/proc/{pid}/autogroup"  # "/autogroup-25 nice 0", or no such file
    found = _read(path, 100)
    if found and not found.endswith(b" nice %d\n" % NICE):
        _write(path, b"%d" % NICE)


def _processes() -> dict[int, Process]:
    try:
        with os.scandir("/proc") as entries:
            names = [entry.name for entry in entries if entry.name.isdigit()]
    except OSError:
        return {}
    found = {}
    for name in names:
        stat = _read(f"/proc/{name}/stat", 4096)
        if stat:
            found[int(name)] = Process(int(name), stat)
    return found


def _mark(pid: int) -> bytes:
    for one in _read(f"/proc/{pid}/environ", _ENVIRONMENT_BYTES).split(b"\0"):
        name, _, value = one.partition(b"=")
        if name == MARK.encode():
            return value
    return b""


def _read(path: str, most_bytes: int) -> bytes:
    """A file; empty where it is of a process that has ended, or of another user."""
    try:
        with io.FileIO(path) as file:
            return file.read(most_bytes)
    except OSError:
        return b""


def _write(path: str, data: bytes) -> None:
    try:
        with io.FileIO(path, "r+") as file:
            file.write(data)
    except OSError:
        # It has ended, or hides from its own user. Or the next look does it: without CAP_SYS_ADMIN
        # the kernel takes ten a second of all users.
        return


def _signal(send: Callable[[int, int], None], target: int, number: int) -> bool:
    """Signal a process or a group; False where none of it is left."""
    try:
        send(target, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _say(line: bytes) -> None:
    try:
        os.write(1, line)
    except OSError:
        return  # the starter has ended


if __name__ == "__main__":
    main()
