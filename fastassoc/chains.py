"""Which notes replaced which, by row."""

from __future__ import annotations

from bisect import insort

__all__ = ["Chains"]


class Chains:
    """Both directions of "this note supersedes that one"; rows in order of writing.

    Examples
    --------
    >>> chains = Chains()
    >>> chains.add(1, 0)
    >>> chains.add(2, 1)
    >>> chains.remove(1)  # 2 replaced what replaced 0
    []
    >>> chains.older(2), chains.newer(0), chains.remove(2), chains.newer(0)
    ([0], [2], [0], [])
    """

    def __init__(self) -> None:
        self._older: dict[int, list[int]] = {}
        self._newer: dict[int, list[int]] = {}

    def older(self, row: int) -> list[int]:
        """Rows that a row replaced, ascending."""
        return list(self._older.get(row, ()))

    def newer(self, row: int) -> list[int]:
        """Rows that replaced a row, ascending."""
        return list(self._newer.get(row, ()))

    def replaced(self) -> list[int]:
        """Rows that have been replaced, ascending."""
        return sorted(self._newer)

    def replacing(self) -> list[int]:
        """Rows that replaced others, ascending."""
        return sorted(self._older)

    def add(self, newer: int, older: int) -> None:
        """Let one row replace another; saying it twice changes nothing."""
        if newer != older and older not in self.older(newer):
            insort(self._older.setdefault(newer, []), older)
            insort(self._newer.setdefault(older, []), newer)

    def remove(self, row: int) -> list[int]:
        """Take a row out; what replaced it replaces what it had replaced.

        Returns the rows that nothing replaces any more.
        """
        newer, older = self._newer.pop(row, []), self._older.pop(row, [])
        for one in newer:
            self._drop(self._older, one, row)
        for one in older:
            self._drop(self._newer, one, row)
        for one in newer:
            for other in older:
                self.add(one, other)
        return [one for one in older if one not in self._newer]

    @staticmethod
    def _drop(table: dict[int, list[int]], key: int, row: int) -> None:
        table[key].remove(row)
        if not table[key]:
            del table[key]
