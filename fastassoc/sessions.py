"""Which notes belong to one session, in order of writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sessions"]


class Sessions:
    """Rows of notes by session.

    Rows of forgotten notes are dropped when they are met; no row is ever used again.

    Examples
    --------
    >>> sessions, alive = Sessions(), np.ones(3, np.uint8)
    >>> list(sessions.extend(0, ["s", None, "s"], alive))
    [(0, 2)]
    >>> sessions.last("s", 5, alive)
    [0, 2]
    """

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] = {}

    def extend(
        self, first: int, names: Sequence[str | None], alive: NDArray[np.uint8]
    ) -> Iterator[tuple[int, int]]:
        """Take in new rows from `first` on; yields each with the live row before it, if any."""
        for row, name in enumerate(names, first):
            if name is None:
                continue
            held = self._rows.setdefault(name, [])
            while held and not alive[held[-1]]:
                held.pop()
            if held:
                yield held[-1], row
            held.append(row)

    def live(self, alive: NDArray[np.uint8]) -> Iterator[NDArray[np.int64]]:
        """Yield the live rows of each session, int64 [m] ascending."""
        for held in self._rows.values():
            rows = np.array(held, np.int64)
            yield rows[alive[rows] == 1]

    def last(self, name: str, n: int, alive: NDArray[np.uint8]) -> list[int]:
        """The last `n` live rows of a session, ascending."""
        held = self._rows.get(name, [])
        found: list[int] = []
        for row in reversed(held):
            if alive[row]:
                found.append(row)
                if len(found) == n:
                    break
        return found[::-1]
