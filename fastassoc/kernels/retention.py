"""How much of a note is still retained: the forgetting curve over many notes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import inline, jit

DAY = 86_400_000_000.0  # microseconds


def _time_constant(stability: float, importance: float, beta: float) -> float:
    """Days in which a note falls to 1/e."""
    return max(stability, 0.01) * min(3.0, 1.0 + 2.0 * importance) * beta


time_constant = inline(_time_constant)


def _retentions(
    notes: NDArray[Any],
    now: int,
    betas: NDArray[np.float64],
    floors: NDArray[np.float64],
    power: float,
    out: NDArray[np.float64],
) -> None:
    """Retention at `now` of each note to the `power`, into `out` float64 [n].

    The power is taken here, by the C library: NumPy's differs in bits from one processor to the
    next, and near-equal scores would change places.

    `notes` is a structured array [n] with stability, importance, last_access and category;
    `betas` (infinite: no fading) and `floors` are float64 [categories].
    """
    for i in range(len(notes)):
        category = notes[i]["category"]
        beta = betas[category]
        if beta == math.inf:
            out[i] = 1.0
            continue
        days = max(0, now - notes[i]["last_access"]) / DAY
        fades = time_constant(notes[i]["stability"], notes[i]["importance"], beta)
        out[i] = math.pow(max(floors[category], math.exp(-days / fades)), power)


retentions = jit(_retentions)


def _overdue(
    notes: NDArray[Any],
    now: int,
    betas: NDArray[np.float64],
    floors: NDArray[np.float64],
    cold_days: float,
    out: NDArray[np.bool_],
) -> None:
    """Whether each note has been at its floor for `cold_days`, into `out` bool [n].

    Notes that never fade and those of a category whose floor is negative are never overdue.
    """
    for i in range(len(notes)):
        category = notes[i]["category"]
        beta, floor = betas[category], floors[category]
        out[i] = False
        if beta < math.inf and floor >= 0.0:
            days = max(0, now - notes[i]["last_access"]) / DAY
            fades = time_constant(notes[i]["stability"], notes[i]["importance"], beta)
            out[i] = days >= fades * -math.log(floor) + cold_days


overdue = jit(_overdue)
