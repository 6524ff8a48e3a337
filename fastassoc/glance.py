"""What `Memory.info` tells of vectors: embedder, move under way, index. It makes nothing."""

from __future__ import annotations

from typing import Any

from fastassoc import vectors
from fastassoc.moving import left
from fastassoc.ports import Port
from fastassoc.state import StateView
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
    return port.choice(view, floor)
