"""Power cuts of a real file system: its image is copied while it is mounted and written to.

The copy is what the disk holds at that moment, the page cache left out; mounting it replays the
file system's own journal, as after a loss of power.
"""

from __future__ import annotations

import filecmp
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import fastassoc as fa
from fastassoc.journal import Journal

from .judge import Violation, require
from .real import mounted, unmount
from .script import NOW, Ledger, row, small, strict, told

SIZE = 24 << 20


@dataclass
class Tally:
    cuts: int = 0
    skipped: str = ""
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0


def work(path: Path, seed: int) -> None:
    """Write for ever; each acknowledged position is told on standard output."""
    draw = random.Random(seed)
    with small(), told(Ledger()) as ledger:
        ledger.listeners.append(lambda n: os.write(1, b"%d\n" % n) and None)
        with fa.open(path, clock=lambda: NOW) as mem:
            number = mem.position
            while True:
                number += 1
                kind = draw.choice("wwwbfsv")
                if kind == "w":
                    mem.write(f"Cup {number}.", concepts=["cup", f"c{number % 5}"])
                elif kind == "b":
                    rows = [row(f"b{number}-{i}", "Steam.", "steam") for i in range(8)]
                    mem.write_batch(rows)
                elif kind == "f":
                    mem.feedback(asked=["cup"], used_concepts=[f"c{number % 5}"], outcome=1.0)
                elif kind == "s":
                    mem.snapshot()
                else:
                    mem.forget([f"b{number - 1}-0"])
                    mem.vacuum()


def run(
    cuts: int = 200, seed: int = 1, kind: str = "ext4", tell: Callable[[str], None] | None = None
) -> Tally:
    """Cut the power so many times, a few of them in each life of a file system."""
    tally, draw, begun = Tally(), random.Random(seed), time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="cuts-", dir="/dev/shm"))
    try:
        while tally.cuts < cuts and not tally.skipped:
            _life(place, draw, kind, cuts, tally, tell)
    finally:
        for name in ("live", "dead"):
            unmount(place / name)
        shutil.rmtree(place, ignore_errors=True)
    tally.seconds = time.monotonic() - begun
    return tally


def _life(
    place: Path,
    draw: random.Random,
    kind: str,
    cuts: int,
    tally: Tally,
    tell: Callable[[str], None] | None,
) -> None:
    """One file system, one writer, ten cuts."""
    image, copied = place / "image", place / "copied"
    image.write_bytes(b"")
    os.truncate(image, SIZE)
    try:
        made = subprocess.run(
            [f"mkfs.{kind}", "-q", "-F", str(image)], capture_output=True, text=True, check=False
        )
    except OSError as error:
        tally.skipped = f"no mkfs.{kind} ({error})"
        return
    why = made.stderr if made.returncode else mounted(place / "live", "-o", "loop", str(image))
    if why:
        tally.skipped = why
        return
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "tests.faults", "cutwriter", str(place / "live" / "s.fa")]
    command.append(str(draw.randrange(1 << 30)))
    writer = subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], env=environment
    )
    assert writer.stdout is not None
    os.set_blocking(writer.stdout.fileno(), False)
    told_text = b""
    try:
        while not told_text and writer.poll() is None:
            told_text += writer.stdout.read() or b""
            time.sleep(0.05)
        for _ in range(min(10, cuts - tally.cuts)):
            time.sleep(draw.uniform(0.02, 0.3))
            told_text += writer.stdout.read() or b""
            acked = last_of(told_text)
            frozen(writer.pid, image, copied)
            told_text += writer.stdout.read() or b""
            later = last_of(told_text)
            tally.cuts += 1
            try:
                _look(place, copied, acked, later)
            except Exception as error:
                name = "" if isinstance(error, Violation) else f"{type(error).__name__}: "
                tally.violations.append(f"cut {tally.cuts}: {name}{error}")
                if tell is not None:
                    tell(f"VIOLATION {tally.violations[-1]}")
            if writer.poll() is not None:
                break
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
        unmount(place / "live")


def frozen(writer: int, image: Path, copied: Path) -> None:
    """Copy an image as of one moment: the writer stands still, and what the system itself
    still writes back is over when two copies are the same.
    """
    os.kill(writer, signal.SIGSTOP)
    try:
        while True:
            shutil.copyfile(image, copied)
            if filecmp.cmp(image, copied, shallow=False):
                return
    finally:
        os.kill(writer, signal.SIGCONT)


def last_of(text: bytes) -> int:
    whole = text.rpartition(b"\n")[0].split()
    return max(map(int, whole), default=0)


def _look(place: Path, copied: Path, acked: int, later: int) -> None:
    why = mounted(place / "dead", "-o", "loop", str(copied))
    require(why is None, f"the copy cannot be mounted: {why}")
    try:
        path = place / "dead" / "s.fa"
        with strict() as warned:
            with Journal.open(path) as journal:
                found = journal.head()
                require(acked <= found <= later + 1, f"found {found}, told {acked} to {later}")
                require(not journal.verify(), f"verify found {journal.verify()}")
            with fa.open(path, clock=lambda: NOW) as mem:
                require(mem.verify(digest=True).ok, "verify found something")
                require(mem.position == found, "another position")
                mem.read("cup")
                mem.write("Written afterwards.", id="afterwards")
                mem.snapshot()
        require(not warned, f"warned: {warned}")
    finally:
        unmount(place / "dead")


__all__ = ["Tally", "run", "work"]
