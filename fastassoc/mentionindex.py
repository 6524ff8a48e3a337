"""The mention index: which concepts each note mentions in its text or carries.

An index, never truth: it is derived from the notes and can be built anew at any time. Its answers
depend on the live notes alone, not on the order in which they were written and forgotten.

A concept counts where it is *eligible*: given to a live note, or found in two live notes or more.
A note mentions the eligible concepts whose names a longest-match scan of its text finds, by their
looser keys, and those that it carries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastassoc.columns import ArrowColumn, Growable
from fastassoc.cutting import cut, pieces
from fastassoc.errors import InvalidInput
from fastassoc.kernels import mentions as kernels
from fastassoc.postings import Postings, PostingsView, gather, list_sizes
from fastassoc.scripts import JOINED, is_unspaced
from fastassoc.words import tokens, units, units_of

__all__ = ["RULES", "Corpus", "MentionIndex", "MentionView"]

RULES = 3  # to be raised whenever other names are found in a text, or other arrays are kept

CHUNK = 4096  # texts tokenised at once; bounds the memory of a scan
MAX_TOKENS = 6  # the longest name, in tokens, that is found in a text
NOTES_PER_NAME = 8  # to look for the notes that may hold a name costs as much as scanning so many
COMPACT_LEAST = 1024  # scans from which on the index is made anew when half of them are void

_T = TypeVar("_T", bound=np.generic)


class Corpus(NamedTuple):
    """What the index is derived from, at one moment.

    Attributes
    ----------
    texts : ArrowColumn
        The text of each row.
    alive : uint8 [n]
    df, declared : int64 [concepts]
        Live notes that carry a concept, and those among them that were given it.
    carried : PostingsView
        Concepts of each row.
    n_ids : int
        Concept ids given so far.
    keys : sequence of str or None
        The folded name of each concept, None where it was dropped.
    holding : callable
        From tokens to rows, int32 ascending, among which are all whose texts hold each of them;
        None where any row may.
    """

    texts: ArrowColumn
    alive: NDArray[np.uint8]
    df: NDArray[np.int64]
    declared: NDArray[np.int64]
    carried: PostingsView
    n_ids: int
    keys: Sequence[str | None]
    holding: Callable[[Sequence[str]], NDArray[np.int32] | None]

    def kept(self) -> Corpus:
        """The same, whatever happens to the notes afterwards."""
        return self._replace(
            alive=self.alive.copy(), df=self.df.copy(), declared=self.declared.copy()
        )


@dataclass(frozen=True, eq=False)
class MentionView:
    """The index at one moment; never changes, safe in many threads.

    Attributes
    ----------
    n_rows, n_live : int
        Rows of notes, and those alive.
    n_ids : int
        Concept ids given so far.
    postings : PostingsView
        Concepts of each scan, ascending. A note that was scanned again has its last scan only.
    rows_of : int32 [postings.n_rows]
        The row of each scan, -1 where it is void.
    scan_of : int32 [n_rows]
        The scan of each row, -1 where the note is dead.
    void : int32 [ids or fewer]
        Void scans of each concept.
    """

    n_rows: int
    n_live: int
    n_ids: int
    postings: PostingsView
    rows_of: NDArray[np.int32]
    scan_of: NDArray[np.int32]
    void: NDArray[np.int32]

    def of(self, row: int) -> NDArray[np.uint32]:
        """Concepts of a row, uint32 [m], ascending; none where the note is dead."""
        scan = self.scan_of[row]
        if scan < 0:
            return np.empty(0, np.uint32)
        return self.postings.row(scan)[0]

    def rows(self, concept: int) -> NDArray[np.int32]:
        """Live rows of a concept, int32 [m], ascending."""
        rows = self.rows_of[self.postings.rows(concept)]
        rows = rows[rows >= 0]
        rows.sort()
        return rows

    def df(self, concept: int) -> int:
        """How many live rows a concept has."""
        void = int(self.void[concept]) if 0 <= concept < self.void.size else 0
        return self.postings.count(concept) - void

    def dfs_of(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """How many live rows each of some concepts has, int64 [len(ids)]."""
        sizes = list_sizes(self.postings, ids)
        if self.void.size:
            known = ids < self.void.size
            sizes[known] -= self.void[ids[known]]
        return sizes

    def idfs(self, ids: NDArray[np.uint32]) -> NDArray[np.float64]:
        """``ln(1 + (N - df + 0.5) / (df + 0.5))`` of concepts, float64 [len(ids)]."""
        df = self.dfs_of(ids)
        idf: NDArray[np.float64] = np.log(1.0 + (self.n_live - df + 0.5) / (df + 0.5))
        return idf

    @cached_property
    def dfs(self) -> NDArray[np.int64]:
        """How many live rows each concept has, int64 [n_ids]; made when it is first asked."""
        dfs = np.zeros(self.n_ids, np.int64)
        counts = self.postings.counts()
        dfs[: counts.size] = counts
        dfs[: self.void.size] -= self.void
        return dfs

    def gather(
        self, ids: NDArray[np.uint32], weights: NDArray[np.float64], allowed: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Sum, for each allowed row, the weights of its concepts among `ids`; see `gather`.

        Raises
        ------
        InvalidInput
            Arrays that do not fit.
        """
        if allowed.size < self.n_rows:
            raise InvalidInput(
                f"allowed has {allowed.size} rows, the index {self.n_rows}; give one value a row."
            )
        return gather(self.postings, ids, weights, allowed, self.rows_of)


class MentionIndex:
    """Finds the concepts of each note, and keeps up with what is written and forgotten.

    Whoever calls `catch_up` and `view` holds a lock; views need none.
    """

    def __init__(self) -> None:
        self._names = _Names()
        self._postings = Postings(with_values=False)
        self._rows_of = Growable(np.int32)
        self._scan_of = Growable(np.int32)
        self._void: NDArray[np.int32] = np.zeros(0, np.int32)  # void scans of each concept
        self._n_void = 0
        self._n_live = 0
        self._n_ids = 0
        self._view: MentionView | None = None

    @property
    def n_rows(self) -> int:
        """Rows that it has caught up with."""
        return len(self._scan_of)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the table of tokens."""
        arrays = (self._rows_of.array, self._scan_of.array, self._void)
        return self._postings.nbytes + self._names.nbytes + sum(a.nbytes for a in arrays)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that the index is, for `from_arrays`."""
        return {
            **self._postings.arrays(),
            "rows_of": self._rows_of.array,
            "scan_of": self._scan_of.array,
            "void": self._void,
            **self._names.arrays(),
        }

    @classmethod
    def of(cls, corpus: Corpus) -> MentionIndex:
        """The index of a whole corpus."""
        new = cls()
        new.catch_up(corpus, ())
        return new

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> MentionIndex:
        """The index that `arrays` gave, which goes on in these arrays.

        Raises
        ------
        InvalidInput
            They do not belong together.
        """
        new = cls()
        new._postings = Postings.from_arrays(arrays, with_values=False)
        new._rows_of.replace(arrays["rows_of"])
        new._scan_of.replace(arrays["scan_of"])
        new._void = arrays["void"]
        new._names = _Names.from_arrays(arrays)
        scans, live = arrays["rows_of"], arrays["scan_of"]
        new._n_void = int(np.count_nonzero(scans < 0))
        new._n_live = int(np.count_nonzero(live >= 0))
        if not scans.size == new._postings.n_rows == new._n_live + new._n_void:
            raise InvalidInput(
                f"a mention index: found {scans.size} scans and {new._n_live} rows with one, "
                f"expected {new._postings.n_rows}, void ones apart."
            )
        return new

    def catch_up(self, corpus: Corpus, removed: Sequence[int]) -> None:
        """Take in new rows, and the rows `removed` since the last call.

        Notes are scanned again where a concept of theirs became eligible, or ceased to be.
        """
        first, stop = self.n_rows, corpus.alive.size
        self._n_ids = corpus.n_ids
        gone = np.unique(np.array([row for row in removed if row < first], np.int64))
        if first == stop and not gone.size:
            if self._view is not None and self._view.n_ids != self._n_ids:
                self._view = None
            return
        again = self._turn(corpus, first, gone)
        self._view = None
        gone = gone[self._scan_of.array[gone] >= 0]
        self._n_live -= gone.size
        self._drop(gone)
        again = again[corpus.alive[again] != 0]
        for start in range(0, again.size, CHUNK):
            self._scan_again(corpus, again[start : start + CHUNK])
        for start in range(first, stop, CHUNK):
            self._scan_new(corpus, start, min(stop, start + CHUNK))
        self._compact()

    def view(self) -> MentionView:
        """Publish what was changed; cheap when nothing was."""
        view = self._view
        if view is None:
            view = self._view = MentionView(
                self.n_rows, self._n_live, self._n_ids, self._postings.view(),
                self._rows_of.array, self._scan_of.array, self._void,
            )  # fmt: skip
        return view

    # -- which concepts are eligible --------------------------------------------------------------

    def _turn(self, corpus: Corpus, first: int, gone: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bring eligibility up to date; rows below `first` that must be scanned again."""
        carried, names = corpus.carried, self._names
        parts = [carried.flat[carried.ptr[first] :], *(carried.row(row)[0] for row in gone)]
        changed = np.unique(np.concatenate(parts)).astype(np.int64)
        now = (corpus.declared[changed] > 0) | (corpus.df[changed] >= 2)
        names.reserve(corpus.n_ids)
        before = names.eligible[changed] != 0
        lost, won = changed[before & ~now], changed[now & ~before]
        again: list[NDArray[np.int32]] = []
        if lost.size:
            view = self.view()
            again += [view.rows(concept) for concept in lost.tolist()]
            names.take(lost)
        if won.size:
            names.put(won, corpus.keys)
            again += self._holding(corpus, first, won)
        if not again:
            return np.empty(0, np.int64)
        rows = np.unique(np.concatenate(again))
        return rows[: np.searchsorted(rows, first)].astype(np.int64)

    def _holding(
        self, corpus: Corpus, first: int, won: NDArray[np.int64]
    ) -> list[NDArray[np.int32]]:
        """Rows below `first` that carry any of some concepts, or whose texts may name one."""
        if not first:
            return []
        every = [np.arange(first, dtype=np.int32)]
        if won.size * NOTES_PER_NAME > first:
            return every
        rows = []
        for concept in won.tolist():
            rows.append(corpus.carried.rows(concept))
            name = tokens(corpus.keys[concept] or "")
            if 0 < len(name) <= MAX_TOKENS:
                held = corpus.holding(name)
                held = every[0] if held is None else held[: np.searchsorted(held, first)]
                rows.append(_with_run(corpus, held, name))
        return rows

    # -- scans ------------------------------------------------------------------------------------

    def _scan_again(self, corpus: Corpus, rows: NDArray[np.int64]) -> None:
        """Scan rows that were scanned, and keep what differs."""
        flat, ptr = self._scan(corpus, rows, corpus.texts.take(rows))
        scans = self._scan_of.array[rows].tolist()
        old, keep = self._postings.row, []
        for place, scan in enumerate(scans):
            if not np.array_equal(old(scan)[0], flat[ptr[place] : ptr[place + 1]]):
                keep.append(place)
        if not keep:
            return
        places = np.array(keep)
        lengths = np.diff(ptr)
        self._drop(rows[places])
        kept = np.zeros(rows.size, np.bool_)
        kept[places] = True
        scan_of = self._scan_of.array  # a copy since `_drop`
        scan_of[rows[places]] = self._postings.n_rows + np.arange(places.size)
        self._add(rows[places], flat[np.repeat(kept, lengths)], lengths[places])

    def _scan_new(self, corpus: Corpus, start: int, stop: int) -> None:
        rows = np.flatnonzero(corpus.alive[start:stop]) + start
        if rows.size == stop - start:
            texts = corpus.texts.to_arrow(start, stop).to_pylist()
        else:
            texts = corpus.texts.take(rows)
        flat, ptr = self._scan(corpus, rows, texts)
        scan_of = np.full(stop - start, -1, np.int32)
        scan_of[rows - start] = self._postings.n_rows + np.arange(rows.size)
        self._scan_of.append(scan_of)
        self._n_live += rows.size
        self._add(rows, flat, np.diff(ptr))

    def _scan(
        self, corpus: Corpus, rows: NDArray[np.int64], texts: Sequence[str]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Concepts of rows with these texts: flat, and where each row begins."""
        carried = corpus.carried
        starts, lengths = carried.ptr[rows], carried.ptr[rows + 1] - carried.ptr[rows]
        own_ptr = pointers(lengths)
        places = np.arange(own_ptr[-1]) + np.repeat(starts - own_ptr[:-1], lengths)
        return self._names.scan(texts, carried.flat[places], own_ptr)

    def _add(
        self, rows: NDArray[np.int64], flat: NDArray[np.uint32], lengths: NDArray[np.int64]
    ) -> None:
        self._postings.append(flat, pointers(lengths))
        self._rows_of.append(rows.astype(np.int32))

    def _drop(self, rows: NDArray[np.int64]) -> None:
        """Make the scans of rows void; views keep what they have."""
        if not rows.size:
            return
        scan_of, rows_of = self._scan_of.array.copy(), self._rows_of.array.copy()
        scans = scan_of[rows]
        scan_of[rows] = -1
        rows_of[scans] = -1
        self._scan_of.replace(scan_of)
        self._rows_of.replace(rows_of)
        self._n_void += rows.size
        void = np.zeros(self._postings.n_terms, np.int32)
        void[: self._void.size] = self._void
        for scan in scans.tolist():
            void[self._postings.row(scan)[0]] += 1
        self._void = void

    def _compact(self) -> None:
        """Leave void scans out once they are the larger half."""
        n = self._postings.n_rows
        if n < COMPACT_LEAST or 2 * self._n_void <= n:
            return
        scan_of = self._scan_of.array.copy()
        rows = np.flatnonzero(scan_of >= 0)
        scans = scan_of[rows]
        flat, ptr = self._postings.forward()
        lengths = ptr[scans + 1] - ptr[scans]
        new_ptr = pointers(lengths)
        places = np.arange(new_ptr[-1]) + np.repeat(ptr[scans] - new_ptr[:-1], lengths)
        scan_of[rows] = np.arange(rows.size)
        flat = flat[places]
        self._postings = Postings(with_values=False)
        self._rows_of = Growable(np.int32)
        self._scan_of.replace(scan_of)
        self._void, self._n_void = np.zeros(0, np.int32), 0
        self._add(rows, flat, lengths)


def _with_run(corpus: Corpus, rows: NDArray[np.int32], words: Sequence[str]) -> NDArray[np.int32]:
    """Those of some rows that may hold these tokens side by side; quicker than their tokens."""
    rows = rows[corpus.alive[rows] != 0]
    run = "[^a-z0-9]+".join(map(re.escape, words))
    search = re.compile(run + "(?![a-z0-9])").search  # no look behind: it begins with a word
    keep: list[bool] = []
    for start in range(0, rows.size, CHUNK):
        texts = corpus.texts.take(rows[start : start + CHUNK])
        keep += [not text.isascii() or bool(search(text.lower())) for text in texts]
    return rows[np.array(keep, np.bool_)]


def pointers(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where runs of these lengths begin, and the end, int64 [n + 1]."""
    ptr = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=ptr[1:])
    return ptr


class _Names:
    """Names of concepts that are or were eligible, as a tree of tokens; see `kernels.mentions`.

    A name is never taken out: a concept is eligible or not. Names without tokens and those of more
    than 6 are found in no text.

    Numbers are even; a character that follows another of its run has the odd one behind its own.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._edges = np.full(1024, kernels.NONE, np.uint64)
        self._behind: NDArray[np.int32] = np.zeros(1024, np.int32)
        self._heads: NDArray[np.int32] = np.zeros(512, np.int32)
        self._counts: NDArray[np.int32] = np.zeros(512, np.int32)  # eligible ones at a node
        self._n_nodes = 1
        self._nexts: NDArray[np.int32] = np.zeros(0, np.int32)
        self._ends: NDArray[np.int32] = np.zeros(0, np.int32)
        self._known: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.eligible: NDArray[np.uint8] = np.zeros(0, np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (self._edges, self._behind, self._heads, self._counts)
        by_id = (self._nexts, self._ends, self._known, self.eligible)
        return sum(a.nbytes for a in (*arrays, *by_id))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that the names are, for `from_arrays`."""
        texts = "".join(unit + "\n" for unit in self._numbers)  # no unit holds a new line
        return {
            "edges": self._edges, "behind": self._behind, "heads": self._heads,
            "counts": self._counts, "nexts": self._nexts, "ends": self._ends,
            "known": self._known, "eligible": self.eligible,
            "nodes": np.array([self._n_nodes]),
            "units": np.frombuffer(texts.encode(), np.uint8),
            "numbers": np.fromiter(self._numbers.values(), np.int32, len(self._numbers)),
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> _Names:
        """The names that `arrays` gave, which go on in these arrays."""
        new = cls()
        units = arrays["units"].tobytes().decode().split("\n")[:-1]
        new._numbers = dict(zip(units, arrays["numbers"].tolist(), strict=True))
        new._edges, new._behind = arrays["edges"], arrays["behind"]
        new._heads, new._counts = arrays["heads"], arrays["counts"]
        new._nexts, new._ends = arrays["nexts"], arrays["ends"]
        new._known, new.eligible = arrays["known"], arrays["eligible"]
        new._n_nodes = int(arrays["nodes"][0])
        by_id = {new._nexts.size, new._ends.size, new._known.size, new.eligible.size}
        by_node, edges = {new._heads.size, new._counts.size}, new._edges.size
        whole = len(by_id) == len(by_node) == 1 and edges == new._behind.size
        if not whole or new._n_nodes > min(by_node) or edges & (edges - 1):
            raise InvalidInput("a mention index: its names do not belong together.")
        return new

    def reserve(self, n_ids: int) -> None:
        """Make room for concept ids below `n_ids`."""
        if n_ids > self.eligible.size:
            size = n_ids + n_ids // 8 + 64
            self._nexts, self._ends = enlarged(self._nexts, size), enlarged(self._ends, size)
            self._known, self.eligible = enlarged(self._known, size), enlarged(self.eligible, size)

    def put(self, concepts: NDArray[np.int64], keys: Sequence[str | None]) -> None:
        """Make concepts eligible."""
        new = concepts[~self._known[concepts]]
        done = 0
        for names in pieces([keys[concept] or "" for concept in new.tolist()]):
            self._grow(new[done : done + len(names)], names)
            done += len(names)
        self._mark(concepts, 1)

    def take(self, concepts: NDArray[np.int64]) -> None:
        """Make concepts ineligible."""
        self._mark(concepts, -1)

    def _mark(self, concepts: NDArray[np.int64], step: int) -> None:
        self.eligible[concepts] = step > 0
        np.add.at(self._counts, self._ends[concepts], step)
        self._counts[0] = 0  # those whose name ends nowhere

    def _grow(self, concepts: NDArray[np.int64], names: Sequence[str]) -> None:
        words, flat, _, ptr = cut(names, _name_units)
        flat = np.array([self._number(word) for word in words], np.int32)[flat]
        sizes = np.diff(ptr)
        long = [at for at in np.flatnonzero(sizes > MAX_TOKENS).tolist() if names[at].isascii()]
        if long:  # no text can name them
            found = np.ones(len(names), np.bool_)
            found[long] = False
            flat, ptr = flat[np.repeat(found, sizes)], pointers(np.where(found, sizes, 0))
        most = self._n_nodes + len(flat)
        if 2 * most > self._edges.size:
            size = 1 << (2 * most).bit_length()
            edges, behind = np.full(size, kernels.NONE, np.uint64), np.zeros(size, np.int32)
            kernels.move_edges(self._edges, self._behind, edges, behind)
            self._edges, self._behind = edges, behind
        if most > self._heads.size:
            size = most + most // 4
            self._heads, self._counts = enlarged(self._heads, size), enlarged(self._counts, size)
        self._n_nodes = kernels.put_names(
            flat, ptr, concepts, self._edges, self._behind, self._heads, self._nexts, self._ends,
            self._n_nodes,
        )  # fmt: skip
        self._known[concepts] = True

    def _number(self, unit: str) -> int:
        numbers = self._numbers
        number = numbers.get(unit)
        if number is None:
            plain = unit.removeprefix(JOINED)
            first = numbers[plain] = 2 * len(numbers)  # some numbers are left out
            if is_unspaced(unit):
                numbers[JOINED + plain] = first + 1
            number = numbers[unit]
        return number

    def scan(
        self, texts: Sequence[str], own: NDArray[np.uint32], own_ptr: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Eligible concepts of texts and those among `own`: flat, and where each text begins."""
        found, sizes = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for piece in pieces(texts):
            words, numbers, _, ptr = cut(piece, _units)
            known = [self._numbers.get(word, -1) for word in words]
            found.append(np.array(known, np.int32)[numbers])
            sizes.append(np.diff(ptr))
        scanned: tuple[NDArray[np.uint32], NDArray[np.int64]] = kernels.scan_texts(
            np.concatenate(found), pointers(np.concatenate(sizes)), own, own_ptr, self._edges,
            self._behind, self._heads, self._nexts, self._counts, self.eligible,
        )  # fmt: skip
        return scanned


def _units(text: str) -> tuple[list[str], list[bool]]:
    """The `units` of a text; how they are written makes no difference here."""
    words = units(text)
    return words, [False] * len(words)


def _name_units(name: str) -> tuple[list[str], list[bool]]:
    """The same of a name, none of one that no text can name."""
    words = tokens(name)
    words = units_of(words) if len(words) <= MAX_TOKENS else []
    return words, [False] * len(words)


def enlarged(values: NDArray[_T], size: int) -> NDArray[_T]:
    """A copy with zeros behind it, shape [size]."""
    out = np.zeros(size, values.dtype)
    out[: values.size] = values
    return out
