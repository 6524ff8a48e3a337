"""Compile every kernel now, so that no later call waits for it."""

from __future__ import annotations

from time import perf_counter

__all__ = ["warm"]


def warm() -> float:
    """Compile every kernel that the verbs use, or load it from Numba's cache.

    Returns
    -------
    float
        Seconds it took.

    Examples
    --------
    >>> warm() > 0
    True
    """
    from fastassoc.memory import Memory

    start = perf_counter()
    mem = Memory()
    rows = [{"text": f"alpha beta {n}", "concepts": ["a", "b", f"c{n % 7}"]} for n in range(600)]
    mem.write_batch(rows)
    mem.write("one more", concepts=["a", "d"])
    mem.feedback(asked=["a"], used_concepts=["b", "e"], outcome=1.0)
    mem.unlink("a", "e")
    for hops in (1, 2):
        mem.read(concepts=["a"], hops=hops)
    mem.read("beta", rank="flat")
    mem.associate(["a"])
    mem.forget([mem.recent(limit=1)[0].id])
    mem.rebuild_links().read(concepts=["a"])
    mem.links.to_arrow()
    return perf_counter() - start
