"""The text index: which stems each text holds, and BM25 over them.

An index, never truth: it is derived from the texts and can be built anew at any time. Its answers
depend on the live texts alone, not on the order in which they were appended or removed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.columns import Growable
from fastassoc.cutting import cut, pieces
from fastassoc.errors import InvalidInput
from fastassoc.kernels import postings as kernels
from fastassoc.kernels import reading
from fastassoc.kernels.texts import FEW, Terms, Texts, best_texts
from fastassoc.postings import Postings, PostingsView, list_sizes, zeros
from fastassoc.scripts import characters, is_unspaced, pairs
from fastassoc.termnumbers import TermNumbers
from fastassoc.words import terms, written_terms

__all__ = ["Asked", "TextIndex", "TextView"]

RULES = 3  # to be raised whenever other terms are counted in a text, or other numbers kept of them
MEANT = 64  # terms that a single character of a question stands for, at most
NO_IDS, NO_IDF = np.empty(0, np.uint32), np.empty(0)
NO_LISTS = Postings(with_values=False).view().lists


class Asked(NamedTuple):
    """Terms of a question that live texts hold.

    In the order of the stems, not of the numbers: numbers come from history, and a sum of floats
    must not.

    Attributes
    ----------
    ids : uint32[t]
    idf : float64[t]
    places : list of int
        Where each stands in what was given.
    """

    ids: NDArray[np.uint32]
    idf: NDArray[np.float64]
    places: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class TextView:
    """The index at one moment; never changes, safe in many threads.

    Attributes
    ----------
    n_rows, n_live : int
        Texts appended, and those not removed.
    total_length : int
        Tokens of the live texts, without stop words.
    postings : PostingsView
        Rows of each term, with its frequency in the row.
    lengths : int32[n_rows]
        Tokens of each text, without stop words.
    removed : int64 [n_terms or fewer]
        Removed texts that hold each term.
    capitals : int64 [n_terms, 2]
        How often the live texts write each term with a capital, and how often at all.
    """

    n_rows: int
    n_live: int
    total_length: int
    postings: PostingsView
    lengths: NDArray[np.int32]
    removed: NDArray[np.int64]
    capitals: NDArray[np.int64]
    _terms: TermNumbers

    @property
    def n_terms(self) -> int:
        """Terms numbered so far; those of removed texts keep their number."""
        return self.postings.n_terms

    @property
    def average(self) -> float:
        """Mean length of the live texts, 0.0 where there are none."""
        return self.total_length / self.n_live if self.n_live else 0.0

    def stem(self, term: int) -> str:
        """The stem with number `term`."""
        return self._terms.stems[term]

    def query(self, text: str) -> list[tuple[str, int]]:
        """Distinct stems of a question in their order, each with its term, -1 on no live text."""
        known = self._terms
        stem, stops, number = known.stemmer.stem, known.stops, known.of_stem.get
        stems = dict.fromkeys(stem(token) for token in terms(text) if token not in stops)
        found = [number(one, -1) for one in stems]
        n_terms = self.n_terms  # later texts may have brought more
        held = np.array([term if term < n_terms else -1 for term in found], np.int64)
        if held.size:
            held[self.dfs_of(held.astype(np.uint32)) == 0] = -1
        return list(zip(stems, held.tolist(), strict=True))

    def meant(self, stem: str, term: int) -> list[int]:
        """Terms on live texts that a stem of a question asks for, as `query` gives it.

        A single character of a script without spaces asks for the pairs that hold it, too: for the
        `MEANT` terms on most texts, by stem where equal.
        """
        n_terms, stems = self.n_terms, self._terms.stems
        held = [one for one in self._terms.of_character.get(stem, ()) if one < n_terms]
        if not held:
            return [term] if term >= 0 else []
        dfs = self.dfs_of(np.array(held, np.uint32)).tolist()
        ranked = sorted((-df, stems[one], one) for df, one in zip(dfs, held, strict=True) if df)
        return [one for _, _, one in ranked[:MEANT]]

    def holding(self, words: Iterable[str]) -> NDArray[np.int32] | None:
        """Rows that hold the stem of each of some tokens, int32 ascending, dead ones included.

        Stop words are skipped; None where there is nothing else: any row may hold them. Of runs
        without spaces a row holds each pair of characters; single ones are looked for where there
        is nothing else.
        """
        known = self._terms
        stems: set[str] = set()
        single = ""
        for word in words:
            if not is_unspaced(word):
                if word not in known.stops:
                    stems.add(known.stemmer.stem(word))
            elif len(characters(word)) > 1:
                stems.update(pairs(word))
            else:
                single = word
        if not stems:
            return self._holding_character(single) if single else None
        numbers = [known.of_stem.get(stem, self.n_terms) for stem in stems]
        lists = sorted((self.postings.rows(number) for number in numbers), key=len)
        rows = lists[0]
        for other in lists[1:]:
            if not len(rows):
                break
            places = np.searchsorted(other, rows)
            places[places == len(other)] = 0
            rows = rows[other[places] == rows]
        return rows

    def _holding_character(self, char: str) -> NDArray[np.int32]:
        """Rows that hold a character of a script without spaces, alone or in a run."""
        lists = [self.postings.rows(term) for term in self._terms.of_character.get(char, ())]
        return np.unique(np.concatenate(lists)) if lists else np.empty(0, np.int32)

    def df(self, term: int) -> int:
        """Live texts that hold `term`."""
        if not 0 <= term < self.n_terms:
            return 0
        removed = int(self.removed[term]) if term < self.removed.size else 0
        return self.postings.count(term) - removed

    def dfs_of(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Live texts that hold each of some terms, int64 [len(terms)]."""
        dfs = list_sizes(self.postings, terms)
        known = terms < self.removed.size
        dfs[known] -= self.removed[terms[known]]
        return dfs

    def capitalised(self, terms: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Which terms the live texts mostly write with a capital, bool [len(terms)]."""
        mostly: NDArray[np.bool_] = 2 * self.capitals[terms, 0] > self.capitals[terms, 1]
        return mostly

    def idf(self, term: int) -> float:
        """``ln(1 + (N - df + 0.5) / (df + 0.5))`` with N and df over the live texts."""
        df = self.df(term)
        return math.log(1.0 + (self.n_live - df + 0.5) / (df + 0.5))

    def idfs(self, terms: NDArray[np.uint32]) -> NDArray[np.float64]:
        """The `idf` of each of some terms, float64 [len(terms)]."""
        return np.array(self._idfs_at(self.dfs_of(terms).tolist()), np.float64)

    def _idfs_at(self, dfs: list[int]) -> list[float]:
        n, log = self.n_live, math.log
        return [log(1.0 + (n - df + 0.5) / (df + 0.5)) for df in dfs]

    def asked(self, terms: Iterable[int]) -> Asked:
        """Those of some distinct terms that live texts hold."""
        n_terms = self.n_terms
        known = [(t, i) for i, t in enumerate(map(int, terms)) if 0 <= t < n_terms]
        dfs = self.dfs_of(np.array([t for t, _ in known], np.uint32)).tolist()
        stems = self._terms.stems
        given = sorted((stems[t], t, i, df) for (t, i), df in zip(known, dfs, strict=True) if df)
        idf = np.array(self._idfs_at([df for _, _, _, df in given]), np.float64)
        return Asked(
            np.array([t for _, t, _, _ in given], np.uint32), idf, [i for _, _, i, _ in given]
        )

    def texts(self, k1: float, b: float) -> Texts:
        """What texts say and how it counts, as kernels take it."""
        lists = self.postings
        return Texts(
            lists.lists, lists.base_values, lists.tail_values, lists.late_values,
            lists.flat_values, self.lengths, float(self.average), float(k1), float(b),
        )  # fmt: skip

    def scores(self, terms: Iterable[int], k1: float, b: float, out: NDArray[np.float64]) -> None:
        """Add the BM25 score of each text to `out`.

        A term adds ``idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))``. Removed
        texts get a score too: the caller leaves them out.

        Parameters
        ----------
        terms : iterable of int
            Distinct terms; -1 adds nothing.
        k1, b : float
        out : float64[n_rows or more]
        """
        self._score(self.asked(terms), k1, b, out)

    def _score(self, asked: Asked, k1: float, b: float, out: NDArray[np.float64]) -> None:
        lists = self.postings
        reading.bm25(
            lists.indptr, lists.base_rows, lists.base_values, lists.tail, lists.tail_values,
            lists.late, lists.late_values, asked.ids, asked.idf, self.lengths, self.average,
            float(k1), float(b), out,
        )  # fmt: skip

    def weights(
        self, rows: NDArray[np.int64], terms: Sequence[int], k1: float, b: float
    ) -> NDArray[np.float64]:
        """BM25 weight of each term in each of some rows, float64[len(rows), len(terms)]."""
        asked = self.asked(terms)
        full = np.zeros((rows.size, len(terms)), np.float64)
        full[:, asked.places] = self.weights_of(rows, asked, k1, b)
        return full

    def weights_of(
        self, rows: NDArray[np.int64], asked: Asked, k1: float, b: float
    ) -> NDArray[np.float64]:
        """BM25 weight of each asked term in each of some rows, float64[len(rows), t]."""
        lists = self.postings
        out = np.zeros((rows.size, asked.ids.size), np.float64)
        reading.bm25_weights(
            lists.flat, lists.ptr, lists.flat_values, rows.astype(np.int64, copy=False), asked.ids,
            asked.idf, self.lengths, self.average, float(k1), float(b), out,
        )  # fmt: skip
        return out

    def best(
        self, terms: Iterable[int], k1: float, b: float, allowed: NDArray[np.uint8], k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The best allowed texts by BM25.

        Parameters
        ----------
        terms : iterable of int
            Distinct terms; -1 adds nothing.
        k1, b : float
        allowed : uint8[n_rows]
            1 where a text is alive and passes the filters.
        k : int
            At least 1.

        Returns
        -------
        rows : int32[m]
            By score descending, then row ascending; only scores above 0.
        scores : float64[m]

        Raises
        ------
        InvalidInput
            `k` below 1, or `allowed` that does not fit.
        """
        if k < 1:
            raise InvalidInput(f"k is {k}; it must be at least 1.")
        if allowed.size < self.n_rows:
            raise InvalidInput(
                f"allowed has {allowed.size} rows, the index {self.n_rows}; give one value a row."
            )
        return self.best_of(self.asked(terms), k1, b, allowed, k)

    def best_of(
        self, asked: Asked, k1: float, b: float, allowed: NDArray[np.uint8], k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """As `best`, which checks what it is given."""
        found: tuple[NDArray[np.int32], NDArray[np.float64]] = best_texts(
            self.texts(k1, b), NO_LISTS, NO_LISTS, Terms(asked.ids, asked.idf, NO_IDS, NO_IDF),
            allowed[: self.n_rows], -1, k, FEW, zeros("rows", self.n_rows),
        )  # fmt: skip
        return found


class TextIndex:
    """BM25 over the stems of the words that are no stop words, or pairs of characters; see `terms`.

    Parameters
    ----------
    language : str
        A Snowball language.

    Examples
    --------
    >>> index = TextIndex("english")
    >>> index.append(["The flaky calls failed.", "A call of the wild"])
    >>> view = index.view()
    >>> [(stem, view.df(term)) for stem, term in view.query("calling the moon")]
    [('call', 2), ('moon', 0)]
    """

    def __init__(self, language: str) -> None:
        self.postings = Postings(with_values=True)
        self._terms = TermNumbers(language)
        self._lengths = Growable(np.int32)
        self._alive = Growable(np.uint8)
        self._n_live = 0
        self._total_length = 0
        self._removed: NDArray[np.int64] = np.zeros(0, np.int64)
        self._counts: NDArray[np.int32] = np.zeros(1024, np.int32)
        self._uppers = Growable(np.uint16)  # of each posting: how often with a capital
        self._capitals: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        self._view: TextView | None = None

    @property
    def n_rows(self) -> int:
        """Texts appended so far."""
        return len(self._lengths)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the table of stems."""
        return self.postings.nbytes + len(self._lengths) * 5 + self._removed.nbytes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that the index is, for `from_arrays`; nothing in it changes afterwards."""
        stems = "".join(stem + "\n" for stem in self._terms.stems)  # no token holds a new line
        return {
            **self.postings.arrays(),
            "lengths": self._lengths.array,
            "alive": self._alive.array.copy(),
            "removed": self._removed,
            "uppers": self._uppers.array,
            "capitals": self._capitals,
            "stems": np.frombuffer(stems.encode(), np.uint8),
        }

    @classmethod
    def from_arrays(cls, language: str, arrays: Mapping[str, NDArray[Any]]) -> TextIndex:
        """The index that `arrays` gave, in the same language; the arrays are never written to.

        Raises
        ------
        InvalidInput
            They do not belong together.

        Examples
        --------
        >>> index = TextIndex("english")
        >>> index.append(["The flaky calls failed."])
        >>> TextIndex.from_arrays("english", index.arrays()).view().query("calling")
        [('call', 1)]
        """
        new = cls(language)
        new.postings = Postings.from_arrays(arrays, with_values=True)
        stems = arrays["stems"].tobytes().decode().split("\n")[:-1]
        new._terms = TermNumbers(language, stems)
        new._lengths.replace(arrays["lengths"])
        new._uppers.replace(arrays["uppers"])
        new._alive.replace(arrays["alive"].copy())  # the one that is written to
        new._removed, new._capitals = arrays["removed"], arrays["capitals"]
        rows, terms = new.postings.n_rows, new.postings.n_terms
        found = (len(new._lengths), len(new._alive), len(new._uppers), len(new._capitals))
        if found != (rows, rows, arrays["flat"].size, terms) or len(stems) != terms:
            raise InvalidInput(
                f"a text index: found {found} and {len(stems)} stems, expected "
                f"{rows} rows of {terms} terms."
            )
        live = new._alive.array != 0
        new._n_live = int(live.sum())
        new._total_length = int(new._lengths.array[live].sum(dtype=np.int64))
        return new

    def append(self, texts: Sequence[str]) -> None:
        """Index texts; their rows continue after the last one."""
        for piece in pieces(texts):
            self._append(piece)

    def _append(self, texts: Sequence[str]) -> None:
        words, numbers, upper, cuts = cut(texts, written_terms)
        terms = np.array([self._terms[word] for word in words], np.int32)[numbers]
        n_stems = len(self._terms.stems)
        if n_stems > self._counts.size:
            self._counts = np.zeros(n_stems + n_stems // 2, np.int32)
        ids, frequencies, ptr, lengths = kernels.count_rows(terms, cuts, self._counts)
        uppers = np.empty(ids.size, np.uint16)
        kernels.count_marked(terms, cuts, upper, ids, ptr, self._counts, uppers)
        self._uppers.append(uppers)
        self._count_capitals(ids, uppers, frequencies, 1)
        self.postings.append(ids, ptr, frequencies)
        self._lengths.append(lengths)
        self._alive.append(np.ones(lengths.size, np.uint8))
        self._n_live += lengths.size
        self._total_length += int(lengths.sum())
        self._view = None

    def _count_capitals(
        self,
        terms: NDArray[np.uint32],
        uppers: NDArray[np.uint16],
        frequencies: NDArray[np.float32],
        step: int,
    ) -> None:
        """Count how often terms are written with a capital, and how often at all."""
        size = len(self._terms.stems)
        counts = np.zeros((size, 2), np.int64)  # a new array: views keep the old one
        counts[: len(self._capitals)] = self._capitals
        for column, values in ((0, uppers.astype(np.float64)), (1, frequencies)):
            added = np.bincount(terms, weights=values, minlength=size)
            counts[:, column] += step * added.astype(np.int64)
        self._capitals = counts

    def remove(self, rows: Iterable[int]) -> None:
        """Leave texts out of every count; rows removed before are skipped.

        Raises
        ------
        InvalidInput
            A row that was never appended; nothing is changed.
        """
        wanted = np.unique(np.fromiter(rows, np.int64))
        if wanted.size and (wanted[0] < 0 or wanted[-1] >= self.n_rows):
            raise InvalidInput(
                f"rows {wanted[0]} to {wanted[-1]} to remove; the index has rows 0 to "
                f"{self.n_rows - 1}."
            )
        alive = self._alive.array
        wanted = wanted[alive[wanted] != 0]
        if not wanted.size:
            return
        alive[wanted] = 0  # no view holds it
        self._n_live -= wanted.size
        self._total_length -= int(self._lengths.array[wanted].sum(dtype=np.int64))
        removed = np.zeros(self.postings.n_terms, np.int64)  # a new array: views keep the old one
        removed[: self._removed.size] = self._removed
        ptr = self.postings.forward()[1]
        spans = [slice(ptr[row], ptr[row + 1]) for row in wanted.tolist()]
        lists = [self.postings.row(row) for row in wanted.tolist()]
        for numbers, _ in lists:
            removed[numbers] += 1
        self._count_capitals(
            np.concatenate([terms for terms, _ in lists]),
            np.concatenate([self._uppers.array[span] for span in spans]),
            np.concatenate([frequencies for _, frequencies in lists]),
            -1,
        )
        self._removed = removed
        self._view = None

    def view(self) -> TextView:
        """Publish what was changed; cheap when nothing was."""
        view = self._view
        if view is None:
            view = self._view = TextView(
                self.n_rows, self._n_live, self._total_length, self.postings.view(),
                self._lengths.array, self._removed, self._capitals, self._terms,
            )  # fmt: skip
        return view
