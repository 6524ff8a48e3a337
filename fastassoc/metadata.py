"""Rows by the values of their metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MetadataIndex", "contains", "same"]


def same(value: Any) -> str:
    """A text that is equal for equal JSON values; 1 and 1.0 are one value, 1 and true are not.

    Raises TypeError or ValueError for what JSON cannot hold; a NumPy scalar is its Python value.
    """
    return json.dumps(whole_floats(value), ensure_ascii=False, sort_keys=True)


def whole_floats(value: Any) -> Any:
    """The value with NumPy scalars as Python's, and whole floats as ints, however deep."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: whole_floats(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [whole_floats(inner) for inner in value]
    return value


class MetadataIndex:
    """Rows by metadata value, one table a key, built when a filter first names the key.

    Parameters
    ----------
    metadata : callable
        Gives a row's metadata as a dict.
    """

    def __init__(self, metadata: Callable[[int], dict[str, Any]]) -> None:
        self._metadata = metadata
        self._keys: dict[str, dict[str, set[int]]] = {}
        self._values: dict[str, dict[str, Any]] = {}
        self._upto: dict[str, int] = {}
        self._lock = Lock()

    def rows(self, key: str, wanted: Any, n_rows: int) -> NDArray[np.int64]:
        """Rows below `n_rows`, dead ones included, whose metadata fits one clause of a filter."""
        with self._lock:
            table, values = self._catch_up(key, n_rows), self._values[key]
            if isinstance(wanted, Mapping) and "contains" in wanted:
                held = [
                    name for name, value in values.items() if contains(value, wanted["contains"])
                ]
            elif isinstance(wanted, Mapping):
                held = [same(value) for value in wanted["in"]]
            else:
                held = [same(wanted)]
            found = {row for name in held for row in table.get(name, ())}
        out = np.fromiter(found, np.int64, len(found))
        return out[out < n_rows]

    def _catch_up(self, key: str, n_rows: int) -> dict[str, set[int]]:
        table = self._keys.setdefault(key, {})
        self._values.setdefault(key, {})
        for row in range(self._upto.get(key, 0), n_rows):
            self._put(key, row)
        self._upto[key] = max(self._upto.get(key, 0), n_rows)
        return table

    def _put(self, key: str, row: int) -> None:
        metadata = self._metadata(row)
        if key in metadata:
            name = same(metadata[key])
            self._values[key].setdefault(name, metadata[key])
            self._keys[key].setdefault(name, set()).add(row)

    def forget(self, row: int) -> None:
        """Take a row out, before its metadata changes or goes."""
        with self._lock:
            for key, table in self._keys.items():
                metadata = self._metadata(row)
                if row < self._upto[key] and key in metadata:
                    table.get(same(metadata[key]), set()).discard(row)

    def add(self, row: int) -> None:
        """Put a row back, after its metadata changed."""
        with self._lock:
            for key in self._keys:
                if row < self._upto[key]:
                    self._put(key, row)


def contains(value: Any, part: Any) -> bool:
    """Whether a list holds `part`, or a text has it as a part."""
    if isinstance(value, str):
        return isinstance(part, str) and part in value
    return isinstance(value, list) and any(same(item) == same(part) for item in value)
