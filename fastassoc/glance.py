"""What `Memory.info` tells of vectors: embedder, move under way, index. It makes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastassoc import vectors
from fastassoc.cache import Cache
from fastassoc.moving import left
from fastassoc.named import manifest_of, vectors_key
from fastassoc.ports import InMemory, Port
from fastassoc.state import StateView
from fastassoc.store import Store
from fastassoc.vectors import Choice

__all__ = ["vectors_at_a_glance"]


def vectors_at_a_glance(view: StateView, port: Port, floor: float) -> dict[str, Any]:
    """Tell what `Memory.info` says of vectors.

    Parameters
    ----------
    view : StateView
    port : Port
    floor : float
        The recall that an index must have.

    Returns
    -------
    dict
        ``embedder`` (name, dim), ``reembed`` (name, dim, done, total) and ``index`` (as
        `Choice.to_dict`), each None where there is none.
    """
    choice = known_index(view, port, floor)
    return {
        "embedder": view.space.embedder,
        "reembed": move_under_way(view),
        "index": None if choice is None else choice.to_dict(),
    }


def move_under_way(view: StateView) -> dict[str, Any] | None:
    """The embedder that a move goes to, with the notes it has seen, and all."""
    moving = view.space.moving
    if moving is None:
        return None
    rows, done = left(view, moving)
    return {**moving, "done": done, "total": done + len(rows)}


def known_index(view: StateView, port: Port, floor: float) -> Choice | None:
    """The index that reads by vector use; None without vectors, and before it was made."""
    n, dim = len(view.points), view.points.dim
    if not n or dim is None:
        return None
    if n <= vectors.EXACT_BELOW:
        return Choice("exact", 1.0, {}, n, dim, 0, 0.0)
    if isinstance(port, Store):
        return _of_store(view, port, floor)
    held = port._index if isinstance(port, InMemory) else None
    return None if held is None or held[2] is None else held[2].index.choice


def _of_store(view: StateView, store: Store, floor: float) -> Choice | None:
    """Of the handle, else of the cache, whose files are only looked at."""
    pointer = store._journal.current()
    if pointer is None or not view.space.since <= pointer.seq <= view.position:
        return None
    held = store._index
    if held is not None and held[0] == (pointer.digest, floor, view.notes.table) and held[1]:
        return held[1].index.choice
    names = [segment.name for segment in manifest_of(store._journal, pointer)["segments"]]
    return Cache(store.root, read_only=True).index(
        f"index-{round(floor * 10_000)}",
        vectors_key(names),
        _choice,
        lambda: None,
        lambda *_: {},
        versions=vectors.versions(),
    )


def _choice(_: Path, told: Mapping[str, Any]) -> Choice | None:
    return Choice.from_dict(told)
