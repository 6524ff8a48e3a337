"""One figure: what is called, how often, in whose name, and beside what it stands.

Each figure carries the key of its row. `benchmarks.targets` finds it by that, and pytest-benchmark
shows the figures of one row and size as one group: ours, floors, and other ways.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

OURS = "fastassoc"
FLOOR = "floor: "  # names of what is no way to do it, but a bound of the machine for its work


def peer(name: str) -> Any:
    """Another package, or a skip that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} is not installed ({error}): pip install '.[peers]'")


def measure(
    benchmark: Any,
    row: str,
    who: str,
    size: str,
    call: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]] | None = None,
    *,
    rounds: int = 1,
    work: float = 1,
    unit: str = "call",
    before: Callable[[], Any] | None = None,
    warm: int = 0,
    told: bool = False,
    **more: Any,
) -> Any:
    """Measure `call`, once for each of the arguments, or so many rounds.

    Parameters
    ----------
    benchmark
        The fixture.
    row, who, size : str
        The key of the row, who does the work, the name of the size.
    call : callable
    arguments : list of tuple, optional
        One round for each.
    rounds : int
        Without arguments.
    work : float
        How many units one call does.
    unit : str
        Of what.
    before : callable, optional
        Gives the arguments of a round (or None); its time does not count.
    warm : int
        Calls ahead that are not counted.
    told : bool
        Whether `call` returns the seconds that count.
    **more
        Kept with the figure.
    """
    benchmark.group = f"{row} [{size}]"
    benchmark.extra_info.update(
        {"row": row, "who": who, "size": size, "work": float(work), "unit": unit, **more}
    )
    queue = iter(())
    if arguments is not None:
        rounds = len(arguments)
        for one in arguments[:warm]:
            call(*one)
        queue = iter(arguments)
    spent: list[float] = []
    worked: list[float] = []  # seconds of processor: far fewer on a machine that others use
    made = None

    def timed(*args: Any) -> Any:
        nonlocal made
        begun, start = time.process_time(), time.perf_counter()
        made = call(*args)
        spent.append(made if told else time.perf_counter() - start)
        worked.append(time.process_time() - begun)
        return made

    def setup() -> tuple[tuple[Any, ...], dict[str, Any]]:
        if arguments is not None:
            return next(queue), {}
        found = None if before is None else before()
        return (found if isinstance(found, tuple) else ()), {}

    benchmark.pedantic(timed, setup=setup, rounds=rounds)
    p50, p95, p99 = (float(v) for v in np.percentile(spent, [50, 95, 99]))
    benchmark.extra_info.update(
        {"p50": p50, "p95": p95, "p99": p99, "calls": len(spent), "rate": work / p50}
    )
    if not told:
        benchmark.extra_info["cpu"] = float(np.median(worked))
    return made
