"""Cases played in a child: a crash or a hang is one more outcome, and the next case goes on.

The child says in shared memory which case it plays; the parent looks at it, kills it when it stands
still, and starts another one behind that case.
"""

from __future__ import annotations

import gc
import mmap
import os
import resource
import signal
import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from . import children
from .judge import Violation

STILL = 120.0  # seconds on the clock of one case after which its child is killed: others work, too
BUSY = 10.0  # seconds of processor
SLOW = 2.0  # seconds of processor that one case may take
PLACE = struct.Struct("<q")  # the case: 8 bytes, never half written

Play = Callable[[int], str]


@dataclass
class Played:
    """What came of the cases.

    Attributes
    ----------
    outcomes : Counter of str
        How many cases ended in each way.
    violations : list of str
    seconds : float
    slowest : float
        Seconds of processor of the slowest case.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.outcomes.values())

    def lines(self) -> list[str]:
        told = ", ".join(f"{name} {count:,}" for name, count in sorted(self.outcomes.items()))
        return [
            f"{self.count:,} cases: {told}",
            f"{self.seconds:.0f} s, {1000 * self.seconds / max(1, self.count):.1f} ms a case, "
            f"the slowest {self.slowest:.2f} s; {len(self.violations)} violations",
        ]


def play_all(
    count: int,
    play: Play,
    name: Callable[[int], str],
    log: Path,
    *,
    memory: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Played:
    """Play cases 0 to `count`, each of which returns its outcome or raises what is a violation.

    Parameters
    ----------
    count : int
    play : callable
        Plays a case, in a child.
    name : callable
        What a case is called.
    log : Path
        Where the child writes outcomes.
    memory : int, optional
        Bytes that the child may take beyond what it begins with.
    tell : callable, optional
        Is told violations and progress.
    """
    begun, found = time.monotonic(), Played()
    shared = mmap.mmap(-1, PLACE.size)
    start = 0
    log.write_text("")
    while start < count:
        PLACE.pack_into(shared, 0, start)
        child = children.start(partial(_child, start, count, play, log, shared, memory))
        ended = _watch(child, shared, count, tell)
        at = PLACE.unpack_from(shared, 0)[0]
        if ended is None:
            break
        with log.open("a") as out:
            out.write(f"VIOLATION {at} {ended}\n")
        start = at + 1
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("VIOLATION "):
            _, at, text = line.split(" ", 2)
            found.violations.append(f"{name(int(at))}: {text}")
            found.outcomes["violation"] += 1
            if tell is not None:
                tell(f"VIOLATION {found.violations[-1]}")
        elif line.startswith("slowest "):
            found.slowest = max(found.slowest, float(line.split()[1]))
        elif line:
            found.outcomes[line] += 1
    found.seconds = time.monotonic() - begun
    return found


def _child(
    start: int, count: int, play: Play, log: Path, shared: mmap.mmap, memory: int | None
) -> None:
    gc.collect()
    gc.freeze()  # else each collection walks all that the libraries hold
    if memory is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    slowest = 0.0
    for number in range(start, count):
        PLACE.pack_into(shared, 0, number)
        before = time.process_time()
        try:
            line = play(number)
        except Violation as error:
            line = f"VIOLATION {number} {error}"
        except Exception as error:
            line = f"VIOLATION {number} {type(error).__name__}: {error}"
        taken = time.process_time() - before
        slowest = max(slowest, taken)
        if taken > SLOW:
            line = f"VIOLATION {number} took {taken:.1f} s of processor ({line})"
        os.write(fd, (line.replace("\n", " ")[:600] + "\n").encode(errors="replace"))
    os.write(fd, f"slowest {slowest}\n".encode())
    PLACE.pack_into(shared, 0, count)


def _watch(
    child: int, shared: mmap.mmap, count: int, tell: Callable[[str], None] | None
) -> str | None:
    """Wait for the child; None if it came to its end, else what happened to it."""
    now = told = since = time.monotonic()
    case, before = -1, 0.0
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if os.WIFSIGNALED(status):
                return f"the process died of signal {os.WTERMSIG(status)}"
            at = PLACE.unpack_from(shared, 0)[0]
            if at >= count:
                return None
            return f"the process ended with {os.WEXITSTATUS(status)}"
        at, now = PLACE.unpack_from(shared, 0)[0], time.monotonic()
        taken = _processor(child)
        if at != case:
            case, since, before = at, now, taken
        if taken - before > BUSY or now - since > STILL:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"stood still for {now - since:.0f} s, {taken - before:.0f} s of processor"
        if tell is not None and now - told > 60:
            told = now
            tell(f"{at:,} of {count:,}")
        time.sleep(0.05)


def _processor(process: int) -> float:
    """Seconds of processor that a process took so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


__all__ = ["Played", "play_all"]
