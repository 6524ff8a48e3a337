"""The indexes of a snapshot's texts, kept in the cache."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, TypeVar

from numpy.typing import NDArray

from fastassoc import mentionindex, text
from fastassoc.cache import Cache
from fastassoc.mentionindex import MentionIndex
from fastassoc.named import Keys
from fastassoc.text import TextIndex

__all__ = ["Kept", "versions"]

KEPT_FROM = 1_000  # notes, which take a third of a second; a file of them 3 ms

Arrays = dict[str, NDArray[Any]]
_Index = TypeVar("_Index", TextIndex, MentionIndex)


def versions(kind: str, language: str) -> dict[str, str]:
    """What an index depends on besides texts and names."""
    told = {"unicode": unicodedata.unidata_version}
    if kind == "mentions":
        return told | {"rules": str(mentionindex.RULES)}
    stemmer = {"language": language, "snowballstemmer": version("snowballstemmer")}
    return told | stemmer | {"rules": str(text.RULES)}


@dataclass(frozen=True)
class Kept:
    """Indexes of a snapshot, from mapped files where they are large.

    Parameters
    ----------
    cache : Cache
    keys : Keys
    language : str
        A Snowball language.
    withdraw : callable
        By the name of a key: takes what has it out of the cache if what it was made of was swept.
    """

    cache: Cache
    keys: Keys[str]
    language: str
    withdraw: Callable[[str], None]

    def text(self, rows: int, make: Callable[[], TextIndex]) -> TextIndex:
        """The text index of so many rows, or what `make` indexes of them."""
        load = partial(TextIndex.from_arrays, self.language)
        return self._kept("text", "texts", rows, load, make)

    def mentions(self, rows: int, make: Callable[[], MentionIndex]) -> MentionIndex:
        """The mention index of so many rows, or what `make` indexes of them."""
        return self._kept("mentions", "names", rows, MentionIndex.from_arrays, make)

    def _kept(
        self,
        kind: str,
        key: str,
        rows: int,
        load: Callable[[Arrays], _Index],
        make: Callable[[], _Index],
    ) -> _Index:
        if rows < KEPT_FROM:
            return make()

        def whole(arrays: Arrays) -> _Index:
            index = load(arrays)
            if index.n_rows != rows:
                raise ValueError(f"found {index.n_rows} texts, expected {rows}")
            return index

        told = versions(kind, self.language)
        name: str = getattr(self.keys, key)
        index = self.cache.arrays(
            kind, name, whole, make, lambda made: made.arrays(), versions=told
        )
        self.withdraw(key)
        return index
