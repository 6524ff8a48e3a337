"""A fork after every operation: run as a script, in a process that has only its own threads."""

from __future__ import annotations

import signal
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import fastassoc as fa
from fastassoc.errors import ForkedHandle

from .children import ended

PATIENCE = 30  # seconds until a child that hangs is an error


def act(mem: Any, n: int) -> None:
    kind = n % 8
    if kind == 0:
        mem.write("Tea.", id=f"n{n}", concepts=["tea", "cup"], vector=[1.0, n])
    elif kind == 1:
        mem.write_batch([{"id": f"b{n}-{i}", "text": "Tea.", "concepts": ["tea"]} for i in "ab"])
    elif kind == 2:
        mem.feedback(asked=["tea"], used_concepts=["cup"], outcome=1.0)
    elif kind == 3:
        mem.read("tea", vector=[1.0, 2.0], reinforce=True)
    elif kind == 4:
        mem.update("n0", metadata={"n": n})
    elif kind == 5:
        mem.snapshot()
    elif kind == 6:
        mem.forget([f"b{n - 5}-a"])
    else:
        mem.vacuum()


def child(path: Path, mem: Any, n: int) -> None:
    """What a child may do: refused on the parent's handle, free on one of its own."""
    signal.alarm(PATIENCE)
    for verb in (lambda: mem.read("tea"), lambda: mem.write("no"), lambda: len(mem), mem.snapshot):
        try:
            verb()
        except ForkedHandle:
            continue
        raise AssertionError("the parent's handle served a child")
    mem.close()
    with fa.open(path) as own:
        assert own.read("tea", vector=[1.0, 2.0]).hits
        own.write("By a child.", id=f"child{n}", concepts=["child", "tea"])
        if n % 3 == 0:
            own.snapshot()
        if n % 5 == 0:
            own.vacuum()


def main(path: Path, count: int) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
    with fa.open(path) as mem:
        mem.write("Tea at first.", id="first", concepts=["tea"], vector=[0.0, 1.0])
        mem.read("tea", vector=[1.0, 2.0])
        for n in range(count):
            act(mem, n)
            status = ended(partial(child, path, mem, n))
            assert status == 0, f"the child after operation {n} ended with {status}"
            assert f"child{n}" in mem
            assert mem.links.weight("child", "tea") == n + 1
        assert mem.verify().ok
    left = sorted(p.name for p in path.iterdir() if p.name.endswith(("-wal", "-shm")))
    assert not left, left
    print("well")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
