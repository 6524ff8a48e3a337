"""Compile every kernel now, so that no later call waits for it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

__all__ = ["warm"]

RANKS = ("flat", "retention", "bridge")
ROWS = 3_000  # so many that links and word lists take the ways of large batches


def warm(progress: Callable[[int, int], None] | None = None) -> float:
    """Compile every kernel that the verbs use, or load it from Numba's cache.

    Parameters
    ----------
    progress : callable, optional
        Called after each step with the steps done, and all.

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
    from fastassoc.settings import Settings

    start = perf_counter()
    steps = _steps(Memory()) + _vector_steps(Memory(settings=Settings.cognitive()))
    steps += _title_steps(Memory())
    for done, step in enumerate(steps, 1):
        step()
        if progress is not None:
            progress(done, len(steps))
    return perf_counter() - start


def _steps(mem: Any) -> list[Callable[[], object]]:
    """One way after another through the kernels; each is long only while it compiles."""
    one = {"domain": "other", "concepts": ["a", "d"]}
    return [
        lambda: mem.write_batch(_rows(0, 600)),
        lambda: mem.write("one more", **one),
        lambda: mem.read("beta", rank="flat"),
        lambda: mem.write_batch(_rows(600, ROWS)),  # large: in bulk
        lambda: mem.ingest(_rows(ROWS, 2 * ROWS)),  # and over what is there, ids made
        lambda: mem.ingest(_table(2 * ROWS, 2 * ROWS + 50)),
        lambda: [mem.write_batch(_rows(n, n + 150)) for n in (3 * ROWS, 3 * ROWS + 150)],
        lambda: mem.read("beta", rank="flat"),
        lambda: mem.feedback(asked=["a"], used_concepts=["b", "e"], outcome=1.0),
        lambda: mem.unlink("a", "e"),
        lambda: [mem.read(concepts=["a", "d"], hops=hops) for hops in (1, 2)],
        lambda: mem.read(concepts=["a"], rank="retention"),
        lambda: mem.read("alpha beta gamma", rank="flat", domain="other"),
        lambda: mem.read(like=mem.recent(limit=1)[0].id),
        lambda: mem.read(like=mem.recent(limit=1)[0].id, rank="flat"),
        lambda: mem.read_batch([{"concepts": ["a"]}, "beta"]),
        lambda: mem.read("beta", rank="ppr"),
        lambda: mem.read("beta gamma", domain="other"),
        lambda: mem.associate(["a"]),
        lambda: mem.graph(["a"]),
        lambda: mem.forget([mem.recent(limit=1)[0].id]),
        lambda: mem.rebuild_links().read(concepts=["a"]),
        lambda: mem.links.top(3),
        mem.links.to_arrow,
    ]


def _vector_steps(mem: Any) -> list[Callable[[], object]]:
    """The ways of vectors, of links between notes and of notes that fade."""
    near = {"vector": [1.0, 0.5], "session": "s"}
    return [
        lambda: mem.write("one", id="n0", concepts=["a"], **near),
        lambda: mem.write("another", id="n1", concepts=["a", "b"], **near),
        lambda: mem.write_batch([{"text": f"note {n}", **near} for n in range(140)]),
        lambda: mem.write_batch(  # many links that weigh differently
            [{"text": f"turn {n}", "session": "t", "vector": [1.0, n / 60]} for n in range(60)]
        ),
        lambda: [mem.read(vector=[1.0, 0.0], rank=rank) for rank in RANKS],
        lambda: [mem.read(like="n0", rank=rank, hops=2) for rank in RANKS],
        lambda: mem.read("another note", vector=[1.0, 0.0], rank="bridge", domain="general"),
        lambda: mem.read("note", vector=[1.0, 0.0], domain="general"),
        lambda: mem.read("note", concepts=["a"], hops=2),
        lambda: mem.read(vector=[1.0, 0.0], reinforce=True, session="s"),
        lambda: [
            mem.feedback(asked=["a"], used=["n0", "n1"], outcome=outcome) for outcome in (1.0, -1.0)
        ],
        lambda: mem.link("n0", "n1", 0.5),
        lambda: mem.unlink("n0", "n1"),
        lambda: mem.note_links.weight("n0", "n1"),
        lambda: mem.tick("2400-01-01"),  # all of it is cold then
        lambda: mem.read(vector=[1.0, 0.0]),
        lambda: mem.forget(["n0"]),
    ]


def _title_steps(mem: Any) -> list[Callable[[], object]]:
    """The ways of notes with titles, over which the first ones are chosen together."""
    return [
        lambda: mem.write_batch(
            [
                {
                    "id": f"n{n}",
                    "text": f"common w{n} w{n + 1} w{n + 2}",
                    "subjects": [f"w{n}"],
                    "vector": [1.0, n],
                }
                for n in range(70)
            ]
        ),
        lambda: mem.read("w1 w9 w17 w25", rank="bridge"),
        lambda: mem.read("w1 w9 w17 w25", vector=[1.0, 0.0], rank="bridge"),
        lambda: mem.link("n8", "n9", 0.5),
        lambda: mem.read("common", rank="bridge"),  # notes that are all alike: it looks deeper
    ]


def _rows(start: int, stop: int) -> list[dict[str, Any]]:
    return [
        {"text": f"alpha beta gamma {n}", "concepts": ["a", "b", f"c{n % 7}", f"d{n}", f"e{n}"]}
        for n in range(start, stop)
    ]


def _table(start: int, stop: int) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(_rows(start, stop))
