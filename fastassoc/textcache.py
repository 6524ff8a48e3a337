"""The text index of a snapshot's notes, kept in the cache."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from numpy.typing import NDArray

from fastassoc.cache import Cache
from fastassoc.text import RULES, TextIndex

__all__ = ["index_of", "versions"]

KEPT_FROM = 1_000  # notes, which take a third of a second; a file of them 3 ms


def versions(language: str) -> dict[str, str]:
    """What the terms of a text depend on besides the text."""
    return {
        "language": language,
        "rules": str(RULES),
        "snowballstemmer": version("snowballstemmer"),
        "unicode": unicodedata.unidata_version,
    }


def index_of(
    cache: Cache, key: str, language: str, rows: int, make: Callable[[], TextIndex]
) -> TextIndex:
    """The index that `make` makes, from mapped files where it is large.

    Parameters
    ----------
    cache : Cache
    key : str
        Of the snapshot's texts.
    language : str
        A Snowball language.
    rows : int
        How many texts there are.
    make : callable
        Indexes them.
    """
    if rows < KEPT_FROM:
        return make()

    def load(arrays: dict[str, NDArray[Any]]) -> TextIndex:
        index = TextIndex.from_arrays(language, arrays)
        if index.n_rows != rows:
            raise ValueError(f"found {index.n_rows} texts, expected {rows}")
        return index

    return cache.arrays("text", key, load, make, TextIndex.arrays, versions=versions(language))
