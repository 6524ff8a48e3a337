"""Many at once: processes, threads, forks, frozen holders of locks; and the two traps of SQLite."""

from __future__ import annotations

import ast
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import fastassoc as fa
from fastassoc import files, saving
from fastassoc.errors import StoreError, StoreLocked, VacuumIncomplete
from fastassoc.journal import Draft, Journal
from fastassoc.journal.transaction import Transaction
from fastassoc.settings import Settings

from .children import start
from .client import QUESTIONS, answer
from .script import NOW, Ledger, Model, told

SEED = int(os.environ.get("FASTASSOC_SEED", "1"))
FULL = bool(os.environ.get("FASTASSOC_FULL"))
ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "fastassoc"


def opened(path: Path, **more: Any) -> Any:
    return fa.open(path, clock=lambda: NOW, **{"settings": Settings.cognitive(), **more})


def python(*args: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=ROOT,
        env=os.environ | more,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# -- processes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [SEED, SEED + 1])  # both presets
def test_l40_many_processes_some_of_them_killed(seed: int) -> None:
    told = ("--seed", str(seed), "--processes", "4", "--ops", "40", "--repeats", "1")
    out = python("-m", "tests.faults", "many", *told, "--rough", "0.7")
    assert "0 violations" in out


@contextmanager
def child(act: Callable[[], None]) -> Iterator[int]:
    """A process that does this; killed at the end where it still is."""
    pid = start(act)
    try:
        yield pid
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def until_stopped(pid: int) -> None:
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])


def goes_on(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
    assert os.waitpid(pid, 0)[1] == 0


def stand_still(owner: Any, name: str, *, after: bool = False) -> None:
    """Have this process stop at its next call of a function."""
    held = getattr(owner, name)

    def stopped(*args: Any, **more: Any) -> Any:
        setattr(owner, name, held)
        if not after:
            os.kill(os.getpid(), signal.SIGSTOP)
        done = held(*args, **more)
        if after:
            os.kill(os.getpid(), signal.SIGSTOP)
        return done

    setattr(owner, name, stopped)


def test_l43_a_frozen_writer_holds_up_writers_alone(path: Path) -> None:
    opened(path).close()

    def act() -> None:
        with opened(path) as mem:
            stand_still(Transaction, "append", after=True)
            mem.write("By the frozen one.", id="frozen", concepts=["tea"])

    with child(act) as pid:
        until_stopped(pid)
        with opened(path, timeout=0.2) as mem:
            with pytest.raises(StoreLocked) as caught:
                mem.write("Meanwhile.", id="meanwhile")
            assert caught.value.holder in (pid, None)
            assert mem.read(concepts=["tea"]).hits == []
            with opened(path, timeout=0.2) as another:  # an open needs no lock of writers
                assert len(another) == 0
            goes_on(pid)
            assert mem.write("Meanwhile.", id="meanwhile").report.written == 1
            assert {"frozen", "meanwhile"} == {note.id for note in mem.recent()}
            assert mem.verify().ok


def test_a_frozen_snapshotter_holds_up_snapshots_alone(path: Path) -> None:
    with opened(path) as mem:
        mem.write("Tea.", id="one", concepts=["tea"])

    def act() -> None:
        with opened(path) as mem:
            stand_still(saving.disk, "write_manifest")
            assert mem.snapshot()

    with child(act) as pid:
        until_stopped(pid)
        with opened(path, timeout=0.2) as mem:
            mem.write("Meanwhile.", id="meanwhile")
            assert not mem.snapshot()
            for verb in (mem.vacuum, mem.verify, lambda: mem.backup(path.parent / "copy.fa")):
                with pytest.raises(StoreError, match="another process is taking a snapshot"):
                    verb()
            goes_on(pid)
            assert mem.snapshot()
            assert mem.verify().ok
            assert len(mem) == 2


def test_a_frozen_holder_of_head_costs_a_warning(path: Path, monkeypatch: Any) -> None:
    opened(path).close()
    monkeypatch.setattr("fastassoc.journal.headfile.PATIENCE", 0.2)

    def act() -> None:
        with opened(path) as mem:
            stand_still(files.disk, "pwrite")
            mem.write("By the frozen one.", id="frozen")

    with child(act) as pid:
        until_stopped(pid)
        with opened(path) as mem:
            with pytest.warns(RuntimeWarning, match="head could not be written"):
                mem.write("Meanwhile.", id="meanwhile")
            goes_on(pid)
            mem.write("Afterwards.", id="afterwards")
            assert mem.verify().ok
    with opened(path) as mem:
        assert len(mem) == 3


def test_a_frozen_reader_holds_up_the_vacuum_alone(path: Path) -> None:
    with opened(path) as mem:
        mem.write("Tea.", id="one", concepts=["tea"])

    def act() -> None:
        with Journal.open(path) as journal, journal._connections.guard() as conn:
            conn.execute("BEGIN")
            conn.execute("SELECT count(*) FROM journal").fetchall()
            os.kill(os.getpid(), signal.SIGSTOP)
            conn.execute("COMMIT")

    with child(act) as pid:
        until_stopped(pid)
        with opened(path, timeout=0.2) as mem:
            mem.write("Meanwhile.", id="meanwhile")
            with pytest.raises(VacuumIncomplete):
                mem.vacuum()
            goes_on(pid)
            mem.vacuum()
            assert len(mem) == 2


# -- threads, forks, many opens --------------------------------------------------------------------


def test_l46_sixteen_threads_read_while_one_writes(path: Path) -> None:
    """Every answer is the one of the operation that it names."""
    rounds, found, failed = (400 if FULL else 60), [], []
    over = threading.Event()
    with told(Ledger()) as ledger, opened(path, sync="normal") as mem:

        def look(number: int) -> None:
            draw, last, n = random.Random(number), 0, 0
            try:
                while not over.is_set() or not n:
                    n += 1
                    place = draw.randrange(len(QUESTIONS))
                    position, hits = answer(mem, QUESTIONS[place])
                    assert position >= last
                    last = position
                    found.append((position, place, hits))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=look, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        draw = random.Random(SEED)
        for n in range(rounds):
            vector = [draw.uniform(-1, 1) for _ in range(4)]
            names = ["tea", f"c{n % 9}"]
            mem.write(f"steam {n % 7} and tea", id=f"n{n}", concepts=names, vector=vector)
            if n % 5 == 4:
                mem.feedback(asked=["tea"], used=[f"n{n - 2}"], outcome=1.0)
                mem.forget([f"n{n - 3}"])
            if n % 20 == 19:
                mem.snapshot()
        over.set()
        for thread in threads:
            thread.join()
    assert not failed
    model = Answers(ledger.operations, {position for position, _, _ in found})
    for position, place, hits in found:
        assert hits == model.found[position, place]


class Answers(Model):
    """What a state says at some positions."""

    def __init__(self, operations: Any, positions: set[int]) -> None:
        from fastassoc.ports import InMemory
        from fastassoc.state import State

        self.found: dict[tuple[int, int], Any] = {}
        state = State(Settings.from_dict(operations[1].body["settings"]))
        for position in sorted(operations):
            state.apply(operations[position], position)
            if position in positions:
                memory = fa.Memory(clock=lambda: NOW)
                memory._setup(InMemory(), state, None, lambda: NOW)
                for place, question in enumerate(QUESTIONS):
                    self.found[position, place] = answer(memory, question)[1]


def test_l45_a_fork_after_every_operation(path: Path) -> None:
    """The child's inherited handle says what it is; one of its own works; the parent goes on."""
    out = python("-m", "tests.faults.forks", str(path), "64" if FULL else "8")
    assert "well" in out


def test_l48_opens_and_closes_leave_nothing_open() -> None:
    """Descriptors are flat; memory too, once the allocator has seen the most."""
    code = """
import gc, os, sys, tempfile
import fastassoc as fa
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def descriptors():
    return len(os.listdir("/proc/self/fd"))
path = tempfile.mkdtemp() + "/s.fa"
with fa.open(path) as mem:
    mem.write_batch([{"text": f"text {n}", "concepts": ["a", f"b{n % 9}"]} for n in range(200)])
    mem.snapshot()
cycles = int(sys.argv[1])
for n in range(cycles):
    reads = n % 3 == 1
    with fa.open(path, read_only=reads) as mem:
        assert len(mem.read("text 7", k=3)) == 3
        if n % 10 == 0 and not reads:
            mem.write("more", id="more")
            mem.forget(["more"])
        if n % 200 > 197 and not reads:
            mem.snapshot()
    if n == cycles // 4:
        gc.collect()
        first = resident(), descriptors()
gc.collect()
last = resident(), descriptors()
assert last[1] == first[1], (first, last)
assert last[0] <= 1.05 * first[0], (first, last)
print(first, last)
"""
    python("-c", code, "2000" if FULL else "160")


def test_l47_first_uses_of_the_kernels_at_once(tmp_path: Path) -> None:
    """Processes that fill one empty cache together, one of them killed, all answer rightly."""
    whole = """
import fastassoc as fa
mem = fa.Memory()
mem.write_batch([{"text": f"some text {n}", "concepts": ["a", f"c{n}"]} for n in range(9)])
print([hit.id for hit in mem.read(concepts=["c1"])] == [mem.recent(9)[7].id])
"""
    part = """
import numpy as np
from fastassoc.kernels.links import pair_keys
print(pair_keys(np.array([2, 1, 3], np.uint32), np.array([0, 3], np.int64)).tolist())
"""
    code, count = (whole, 8) if FULL else (part, 4)
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-c", code]
    running = [
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        for _ in range(count)
    ]
    while not list((tmp_path / "kernels").rglob("*.nb?")) and running[0].poll() is None:
        time.sleep(0.01)
    running[0].kill()
    running[0].communicate()
    said = set()
    for process in running[1:]:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        said.add(out)
    again = subprocess.run(line, capture_output=True, text=True, check=True, env=env)
    assert said == {again.stdout}


# -- the first trap: a descriptor of the journal beside SQLite's -----------------------------------

OPENS = {
    "open",
    "read_bytes",
    "read_text",
    "write_bytes",
    "write_text",
    "copyfile",
    "copy",
    "copy2",
}
OPENS |= {"copytree", "memmap", "fromfile", "memory_map", "OSFile", "touch", "FileIO", "move"}
JOURNAL = ("NAME", "journal.db", "connections.file", "self.file", "-wal", "-shm")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.stem)
def test_nothing_opens_the_journal_beside_sqlite(path: Path) -> None:
    """Closing any descriptor of a file cancels all locks that the process has on it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        where = f"{path.name}, line {node.lineno}"
        if name.endswith(("apsw.Connection", ".blob_open", "sqlite3.connect")):
            assert path.name == "sqlite.py", f"{where}: only journal/sqlite.py opens databases"
        if name.rpartition(".")[2] in OPENS:
            given = ast.unparse(node)
            assert not any(f"{said}" in given for said in JOURNAL), f"{where}: {given}"


def test_no_descriptor_of_the_journal_while_it_is_open() -> None:
    """Python tells of every open; none is of the journal, but for the making of a new one."""
    code = """
import os, sys, tempfile, warnings
seen, names = [], []
def hook(event, args):
    if event == "open" and "journal.db" in str(args[0]) and not (args[2] or 0) & os.O_EXCL:
        seen.append(str(args[0]))
    if event == "open" and str(args[0]).endswith("head"):
        names.append(str(args[0]))
sys.addaudithook(hook)
from datetime import timedelta
from pathlib import Path
from tests.faults import script
from tests.faults.script import SCENES, NOW, Stage, base, small
root = Path(tempfile.mkdtemp())
with small():
    for scene in SCENES:
        place = root / scene.name.replace(" ", "-") / "in"
        base(scene.base, place)
        lines = place.parent / "export.jsonl"
        lines.write_text('{"kind": "store"}')
        if scene.name == "import":
            continue
        seen.clear()
        stage = Stage(place)
        if scene.opens:
            stage.open()
        scene.act(stage)
        stage.close()
        assert not seen, (scene.name, seen)
assert names, "the hook sees nothing"
open(place / "s.fa" / "journal.db", "rb").close()
assert seen
print("well")
"""
    assert "well" in python("-c", code)


# -- the second trap: one connection for several threads -------------------------------------------


def test_connections_are_used_under_their_guard_alone() -> None:
    """Who takes a connection from a guard holds it: `.conn` is for those that do the guarding."""
    free = {"connections.py", "transaction.py"}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("conn", "reader", "counter"):
                owner = ast.unparse(node)
                mine = path.parent.name == "journal"
                assert not mine or path.name in free or owner == "connections.counter", (
                    f"{path.name}, line {node.lineno}: {owner}"
                )


def test_one_journal_for_many_threads(path: Path) -> None:
    """apsw raises where two threads meet in one connection; no thread may see that."""
    failed: list[BaseException] = []
    with Journal.create(path, sync="off") as journal:
        with journal.locked() as transaction:
            transaction.append([Draft("first", "write", 0, "{}")])
        over = threading.Event()

        def look(verb: Callable[[], Any]) -> None:
            try:
                while not over.is_set():
                    verb()
            except BaseException as error:
                failed.append(error)

        def write() -> None:
            with journal.locked() as transaction:
                transaction.append([Draft(None, "write", 0, "x" * 500)])

        def behind() -> Any:
            return journal.read(max(0, journal.head() - 5))

        looks: list[Callable[[], Any]] = [
            *(lambda: journal.changed(0), journal.head, behind, journal.current, journal.size),
            *(lambda: journal.done("first"), write, write, journal.verify),
        ]
        threads = [threading.Thread(target=look, args=(verb,)) for verb in looks]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for thread in threads:
                thread.start()
            time.sleep(5.0 if FULL else 0.7)
            over.set()
            for thread in threads:
                thread.join()
        assert not failed
        assert len(journal.read(0)) == journal.head()
