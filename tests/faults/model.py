"""Recorded calls on the trusted model of tests/naive.py, and a memory compared with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .judge import require

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest finds it

from naive import NaiveMemory, fold


def play(
    model: NaiveMemory, kind: str, call: Callable[[], tuple[str, list[Any], dict[str, Any]]]
) -> None:
    """Do to the model what an operation of the journal did."""
    if kind == "create":
        return
    if kind == "purge":
        model.vacuum()
        return
    verb, args, more = call()
    more.pop("operation_id", None)
    if verb == "write":
        model.write_batch([{"text": args[0], **more}])
    elif verb == "forget":
        model.forget(args[0])
    elif kind == "nothing":
        return
    elif verb == "update":
        model.update(args[0], **more)
    else:
        getattr(model, verb)(*args, **more)


def compare(mem: Any, model: NaiveMemory) -> None:
    """Every note, every count and every weight."""
    found = {}
    for row in mem.links.to_arrow().to_pylist():
        a, b = sorted((fold(row["a"]), fold(row["b"])))
        found[a, b] = (row["weight"], row["written"], row["count"])
    want = {ab: (link.weight, link.written, link.count) for ab, link in model.links.items()}
    wrong = [ab for ab in found.keys() | want.keys() if found.get(ab) != want.get(ab)]
    require(
        not wrong,
        f"{len(wrong)} links differ, {[(w, found.get(w), want.get(w)) for w in wrong[:3]]}",
    )
    require(len(mem) == len(model.notes), f"{len(mem)} notes, the model has {len(model.notes)}")
    for note in model.notes.values():
        held = mem.get(note.id)
        got = (held.text, [fold(name) for name in held.concepts], dict(held.metadata))
        require(got == (note.text, note.concepts, note.metadata), f"note {note.id} is {got}")
        require(abs(held.valence - note.valence) < 1e-6, f"the valence of {note.id} is another")
