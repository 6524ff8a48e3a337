"""The vector index: which notes may be nearest. The only importer of FAISS.

An index names candidates; whoever asks takes the best of them by exact cosine. So an index can
miss a note and never gives a wrong similarity. Places are positions in the table that was indexed,
never FAISS's own numbers. The kind is chosen by size and by the recall measured on the table.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc import openblas
from fastassoc import recall as measure
from fastassoc.files import CHUNK, Sink

__all__ = ["EXACT_BELOW", "PQ_BELOW", "Choice", "VectorIndex", "openblas_advice"]
__all__ += ["scans", "versions"]

EXACT_BELOW = 20_000  # notes up to which a scan is as quick as any index
PQ_BELOW = 200_000
SEED = 1234
PER_LIST = 32  # training vectors for each list
ROUNDS = 5  # of k-means
PQ_SAMPLE = 8_192
PQ_ROUNDS = 12
PROBES = 4  # lists searched before the bound is known
SCANNED = 0.4  # of the matches: beyond it an exact scan is as quick
WORTH = 1 / 4  # of the lists for stored vectors: beyond it no index is worth having
WORTH_CODES = 1 / 32  # the same of the table, whose rows are read one by one
FETCH = 400  # by codes, at first
FETCHED = 1 / 16  # of the table by codes at most: beyond it an exact scan is as quick
LEAST = 100  # candidates asked for when recall is measured
SURE = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)  # of the nearest within the margin: in turn
MASKS = 4  # filters whose counts are kept


def _faiss() -> Any:
    import faiss

    return faiss


def versions() -> dict[str, str]:
    """Return the versions on which the bytes of an index depend."""
    return {"faiss": str(_faiss().__version__), "numpy": np.__version__}


def openblas_advice() -> str | None:
    """Load FAISS, and say so if its OpenBLAS runs on kernels older than the processor.

    Examples
    --------
    >>> advice = openblas_advice()
    >>> advice is None or "OPENBLAS_CORETYPE" in advice
    True
    """
    _faiss()
    return openblas.advice(openblas.kernel(), openblas.flags())


def scans(n_allowed: int, n: int) -> bool:
    """Tell whether the notes that a filter leaves are scanned exactly, whatever the index.

    Examples
    --------
    >>> scans(20_000, 1_000_000), scans(100_000, 1_000_000), scans(100_001, 1_000_000)
    (True, True, False)
    """
    return n_allowed <= max(EXACT_BELOW, n // 10)


@dataclass(frozen=True)
class Choice:
    """Which index was chosen for a table, and why.

    Attributes
    ----------
    kind : str
        `"exact"` (no index), `"pq"` or `"ivf"`.
    recall : float
        Share of the true first 10 that it finds, in its worst group of questions; 1.0 for exact.
    parameters : dict
        `lists`, `probes`, `margin` of ivf; `parts`, `margin` of pq.
    notes, dim, bytes : int
        Size of the table and of the index.
    seconds : float
        What the build took.
    tried : tuple of (str, float)
        Every kind that was tried, with the recall it reached at a cost worth paying.
    """

    kind: str
    recall: float
    parameters: dict[str, float]
    notes: int
    dim: int
    bytes: int
    seconds: float
    tried: tuple[tuple[str, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self) | {"tried": [list(one) for one in self.tried]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Choice:
        """Take it back from `to_dict`; ValueError if it is nothing of the kind."""
        try:
            tried = tuple((str(kind), float(recall)) for kind, recall in data["tried"])
            made = cls(**{**data, "tried": tried})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a choice of an index: {error}") from error
        if made.kind not in ("exact", "pq", "ivf"):
            raise ValueError(f"found the kind of index {made.kind!r}, expected exact, pq or ivf")
        return made


class _Mask(NamedTuple):
    """What a filter means for an index."""

    allowed: NDArray[np.uint8]  # held, so that its identity stays its own
    total: int
    counts: NDArray[np.int64]  # matches in each list (ivf)
    selector: Any
    bits: NDArray[np.uint8]  # the selector points into it


class VectorIndex:
    """Candidates for the nearest of a table of vectors; immutable, safe in many threads.

    Attributes
    ----------
    choice : Choice
        What was chosen.
    """

    def __init__(self, choice: Choice, index: Any = None) -> None:
        self.choice = choice
        self._index = index
        self._masks: tuple[_Mask, ...] = ()
        self._numbers: NDArray[np.int32] | None = None
        if choice.kind == "ivf":
            lists = index.invlists
            self._sizes = np.array([lists.list_size(i) for i in range(index.nlist)], np.int64)

    def __len__(self) -> int:
        return self.choice.notes

    # -- asking ----------------------------------------------------------------------------------

    def candidates(
        self,
        query: NDArray[np.float32],
        k: int,
        allowed: NDArray[np.uint8] | None = None,
        *,
        first: int = measure.DEPTH,
    ) -> NDArray[np.int64] | None:
        """Name places that may be nearest, or None if scanning them all is the better way.

        Parameters
        ----------
        query : numpy.ndarray
            float32 [dim], of any length but 0.
        k : int
            How many are wanted at least.
        allowed : numpy.ndarray, optional
            uint8 [n] by place, 0 = does not match. Must not be changed after the call: what it
            means for the index is kept under its identity.
        first : int
            For how many of the nearest, 10 or more, the recall is promised.

        Returns
        -------
        numpy.ndarray or None
            int64 [m] distinct places that match, m >= k where so many match.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> centres = rng.standard_normal((40, 32))[rng.integers(0, 40, 4000)]
        >>> table = (centres + rng.standard_normal((4000, 32)) / 4).astype(np.float32)
        >>> index = VectorIndex.build(table, exact_below=1000, pq_below=1000)
        >>> index.choice.kind, 7 in index.candidates(table[7], 20)
        ('ivf', True)
        """
        if self._index is None:
            return None
        mask = None if allowed is None else self._mask(allowed)
        if mask is not None and mask.total == 0:
            return np.empty(0, np.int64)
        asked = measure.unit(np.asarray(query, np.float32)[None, :])
        rank = max(measure.DEPTH, first)
        if self.choice.kind == "pq":
            return self._by_codes(asked, k, mask, rank)
        return self._by_lists(asked, k, mask, rank)

    def _mask(self, allowed: NDArray[np.uint8]) -> _Mask:
        for mask in self._masks:
            if mask.allowed is allowed:
                return mask
        if allowed.shape != (len(self),):
            raise ValueError(f"allowed: found the shape {allowed.shape}, expected ({len(self)},)")
        flags = allowed != 0
        counts, selector, bits = np.empty(0, np.int64), None, np.empty(0, np.uint8)
        if self.choice.kind == "ivf":
            counts = np.bincount(self._list_numbers()[flags], minlength=self._index.nlist)
            bits = np.packbits(flags, bitorder="little")
            selector = _faiss().IDSelectorBitmap(bits)
        mask = _Mask(allowed, int(np.count_nonzero(flags)), counts, selector, bits)
        self._masks = (mask, *self._masks[: MASKS - 1])
        return mask

    def _list_numbers(self) -> NDArray[np.int32]:
        """Return the list of each place, int32 [n]."""
        if self._numbers is None:
            faiss, lists = _faiss(), self._index.invlists
            numbers = np.zeros(len(self), np.int32)
            for number, size in enumerate(self._sizes.tolist()):
                if size:
                    ids = lists.get_ids(number)
                    numbers[faiss.rev_swig_ptr(ids, size)] = number
                    lists.release_ids(number, ids)
            self._numbers = numbers
        return self._numbers

    def _by_codes(
        self, asked: NDArray[np.float32], k: int, mask: _Mask | None, rank: int
    ) -> NDArray[np.int64] | None:
        """PQ: all that their codes place near enough to the best at `rank`.

        Codes place few of the true nearest (measured: some in a thousand) more than `margin`
        below the last of them that codes know.
        """
        n, margin = len(self), self.choice.parameters["margin"]
        total = n if mask is None else mask.total
        least, rank = min(k, total), min(rank, total)
        most = int(n * FETCHED)
        asking = math.ceil(max(FETCH, 2 * k) * n / total)
        while True:
            asking = min(asking, most)
            scores, places = self._fetched(asked, asking)
            lowest = scores[-1] if len(scores) else -math.inf
            if mask is not None:
                kept = mask.allowed[places] != 0
                scores, places = scores[kept], places[kept]
            if len(places) >= max(least, rank):
                bound = scores[rank - 1] - margin
                if lowest < bound:
                    return places[: max(k, int(np.searchsorted(-scores, -bound, "right")))]
            if asking == most:
                return None
            asking *= 4

    def _fetched(
        self, asked: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        pad = self._index.d - asked.shape[1]
        scores, found = self._index.search(_widened(asked, pad), k)
        real = found[0] >= 0
        return scores[0][real], found[0][real]

    def _by_lists(
        self, asked: NDArray[np.float32], k: int, mask: _Mask | None, rank: int
    ) -> NDArray[np.int64] | None:
        """IVF: nearest lists first, until no other list can hold one of the best.

        A vector is at most `margin` more similar to the query than its list's centre is (measured:
        but for a few in a thousand of the nearest). So lists whose centre is less similar than the
        best found at `rank`, less the margin, are left out.
        """
        counts = self._sizes if mask is None else mask.counts
        total = len(self) if mask is None else mask.total
        margin, n_lists = self.choice.parameters["margin"], self._index.nlist
        least = min(k, total)
        batch = max(int(self.choice.parameters["probes"]), math.ceil(k / (total / n_lists) / 8))
        width = min(max(64, 2 * batch), n_lists)
        near, lists = self._centres(asked, width)
        scores, places = np.empty(0, np.float32), np.empty(0, np.int64)
        open_lists = counts > 0
        seen = 0  # matches in the lists that were searched
        while True:
            bound = -math.inf
            if len(scores) >= max(least, min(rank, total)):
                bound = float(np.partition(scores, -min(rank, total))[-min(rank, total)]) - margin
            ahead = lists[(near >= bound) & open_lists[lists]]
            if width < n_lists and near[-1] >= bound and (bound > -math.inf or len(ahead) < batch):
                width = min(4 * width, n_lists)
                near, lists = self._centres(asked, width)
                continue
            if not len(ahead):
                break
            chosen = ahead[:batch]
            needed = ahead if bound > -math.inf else chosen
            if seen + int(counts[needed].sum()) > SCANNED * total:
                return None
            batch *= 2
            open_lists[chosen] = False
            seen += int(counts[chosen].sum())
            more, found = self._search(asked, k, chosen, mask)
            scores, places = np.concatenate([scores, more]), np.concatenate([places, found])
        if len(places) > k:
            best = np.argpartition(-scores, k - 1)[:k]
            places = places[np.sort(best)]
        return places

    def _centres(
        self, asked: NDArray[np.float32], width: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        near, lists = self._index.quantizer.search(asked, width)
        return near[0], lists[0]

    def _search(
        self, asked: NDArray[np.float32], k: int, lists: NDArray[np.int64], mask: _Mask | None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        faiss = _faiss()
        options: dict[str, Any] = {"nprobe": len(lists)}
        if mask is not None:
            options["sel"] = mask.selector
        params = faiss.SearchParametersIVF(**options)
        lists, near = np.ascontiguousarray(lists), np.zeros(len(lists), np.float32)
        scores, places = np.empty(k, np.float32), np.empty(k, np.int64)
        pointers = map(faiss.swig_ptr, (asked, lists, near, scores, places))
        q, which, where, out, ids = pointers
        self._index.search_preassigned_c(1, q, k, which, where, out, ids, False, params, None)
        real = places >= 0
        return scores[real], places[real]

    # -- building --------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        vectors: NDArray[np.float32],
        *,
        floor: float = 0.98,
        exact_below: int = EXACT_BELOW,
        pq_below: int = PQ_BELOW,
    ) -> VectorIndex:
        """Choose and build the index of a table: a pure function of it, whatever the threads.

        Parameters
        ----------
        vectors : numpy.ndarray
            float32 [n, dim], finite, no row of zeros, of any lengths.
        floor : float
            The least recall of the first 10; measured with some room to spare.
        exact_below, pq_below : int
            Sizes up to which nothing is built, and up to which codes are tried first.

        Returns
        -------
        VectorIndex
            Kind exact where no index keeps the floor at a cost worth paying.

        Examples
        --------
        >>> VectorIndex.build(np.eye(3, dtype=np.float32)).choice.kind
        'exact'
        """
        start = time.perf_counter()
        n, dim = vectors.shape
        choice = Choice("exact", 1.0, {}, n, dim, 0, 0.0)
        if n <= exact_below:
            return cls(choice)
        truth = measure.Truth(vectors, exact_below)
        ways: list[tuple[str, Callable[[Choice, measure.Truth, float], VectorIndex | float]]] = [
            ("pq", _build_pq),
            ("ivf", _build_ivf),
        ]
        tried: list[tuple[str, float]] = []
        need = floor + (1 - floor) / 2  # fresh questions differ from those of the measure
        for kind, way in ways if n <= pq_below else ways[::-1]:
            made = way(replace(choice, kind=kind), truth, need)
            tried.append((kind, made if isinstance(made, float) else made.choice.recall))
            if isinstance(made, VectorIndex):
                break
        else:
            made, tried = cls(choice), [*tried, ("exact", 1.0)]
        seconds = time.perf_counter() - start
        made.choice = replace(made.choice, tried=tuple(tried), seconds=seconds)
        return made

    # -- files -----------------------------------------------------------------------------------

    def save(self, sink: Sink) -> dict[str, Any]:
        """Write the index; an exact one is an empty file. Returns the choice, for `load`."""
        if self._index is not None:
            faiss = _faiss()
            faiss.write_index(self._index, faiss.PyCallbackIOWriter(sink.write, CHUNK))
        return self.choice.to_dict()

    @classmethod
    def load(cls, path: Path, choice: Mapping[str, Any]) -> VectorIndex:
        """Open a file whose bytes were checked; lists are mapped, so that processes share them.

        Raises
        ------
        ValueError
            The file holds another index than `choice` says.
        RuntimeError
            FAISS cannot read it.
        """
        made = Choice.from_dict(choice)
        if made.kind == "exact":
            return cls(made)
        faiss = _faiss()
        mapped = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP)
        flags = mapped | faiss.IO_FLAG_READ_ONLY if made.kind == "ivf" else 0
        index = faiss.read_index(str(path), flags)
        expected = faiss.IndexIVFFlat if made.kind == "ivf" else faiss.IndexPQFastScan
        width = made.dim if made.kind == "ivf" else _padded(made.dim)
        if not isinstance(index, expected) or (index.ntotal, index.d) != (made.notes, width):
            raise ValueError(f"found {type(index).__name__} of {index.ntotal} x {index.d}")
        return cls(made, index)


def _padded(dim: int) -> int:
    return -(-dim // 4) * 4


def _widened(rows: NDArray[np.float32], pad: int) -> NDArray[np.float32]:
    """Rows with so many zeros behind each; the rows themselves where there are none."""
    return np.pad(rows, ((0, 0), (0, pad))) if pad else rows


def _size(index: Any) -> int:
    """Bytes of what an index holds."""
    if hasattr(index, "invlists"):
        held = index.ntotal * (index.code_size + 8) + index.nlist * index.d * 4
    else:
        held = index.codes.size() + 16 * index.d * 4
    return int(held)


def _sample(vectors: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    rows = np.random.default_rng(SEED).choice(len(vectors), min(size, len(vectors)), replace=False)
    return measure.unit(vectors[np.sort(rows)])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let FAISS use one thread for what this thread calls."""
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _measured(index: VectorIndex, truth: measure.Truth, shares: NDArray[np.float64]) -> float:
    return truth.recall(lambda query, mask: index.candidates(query, LEAST, mask), shares)


def _build_pq(choice: Choice, truth: measure.Truth, need: float) -> VectorIndex | float:
    """Four bits for four numbers, and the margin that keeps the recall."""
    faiss, vectors = _faiss(), truth.vectors
    pad = _padded(choice.dim) - choice.dim
    index = faiss.IndexPQFastScan(
        choice.dim + pad, (choice.dim + pad) // 4, 4, faiss.METRIC_INNER_PRODUCT
    )
    index.pq.cp.niter, index.pq.cp.seed = PQ_ROUNDS, SEED
    index.pq.cp.min_points_per_centroid = 1
    index.pq.cp.max_points_per_centroid = PQ_SAMPLE // 16
    with _one_thread():  # thousands of tiny steps: beside a busy neighbour two threads crawl
        index.train(_widened(_sample(vectors, PQ_SAMPLE), pad))
    for _, rows in measure.blocks(vectors):
        index.add(_widened(rows, pad))
    parameters: dict[str, float] = {"parts": (choice.dim + pad) // 4}
    return _tuned(index, choice, parameters, truth, need, _shortfall(index, truth, pad))


class _Measured(NamedTuple):
    """What the questions say of an index before it is asked."""

    excess: list[float]  # by which each of the true nearest lies beyond what the index knows
    share: Callable[[float], float]  # of the table, searched for stored vectors with a margin
    promised: float  # recall of the share that is worth it


def _shortfall(index: Any, truth: measure.Truth, pad: int) -> _Measured:
    """Measure how far below the 10th best that codes know they place the true nearest."""
    asked, n = truth.asked, len(truth.vectors)
    most, worth = int(n * FETCHED), int(n * WORTH_CODES)
    short: list[float] = []
    gaps: list[NDArray[np.float32]] = []
    kept: list[bool] = []
    for row, query in enumerate(_widened(asked.vectors, pad)):
        scores, places = index.search(query[None, :], most)
        scores = scores[0][places[0] != asked.own[row]]
        _, wanted = truth.wanted(0, row)
        known = index.reconstruct_batch(wanted) @ query
        short.extend((scores[measure.DEPTH - 1] - known).tolist())
        if asked.group[row] < 2:
            kept.extend((known >= scores[worth]).tolist())
            gaps.append(scores[measure.DEPTH - 1] - scores)

    def share(margin: float) -> float:
        return float(np.mean([np.searchsorted(one, margin, "right") for one in gaps])) / n

    return _Measured(short, share, float(np.mean(kept)))


def _build_ivf(choice: Choice, truth: measure.Truth, need: float) -> VectorIndex | float:
    """Lists around centres; nothing is added where too many lists would have to be searched."""
    faiss, vectors = _faiss(), truth.vectors
    lists = 1 << round(math.log2(4 * math.sqrt(len(vectors))))
    index = faiss.IndexIVFFlat(
        faiss.IndexFlatIP(choice.dim), choice.dim, lists, faiss.METRIC_INNER_PRODUCT
    )
    index.cp.niter, index.cp.seed, index.cp.spherical = ROUNDS, SEED, True
    index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, PER_LIST
    index.train(_sample(vectors, lists * PER_LIST))
    measured = _excess(index, truth)
    if measured.share(float(np.quantile(measured.excess, SURE[0]))) > WORTH:
        return measured.promised
    for _, rows in measure.blocks(vectors):
        index.add(rows)
    parameters: dict[str, float] = {"lists": lists, "probes": PROBES}
    return _tuned(index, choice, parameters, truth, need, measured)


def _tuned(
    index: Any,
    choice: Choice,
    parameters: dict[str, float],
    truth: measure.Truth,
    need: float,
    measured: _Measured,
) -> VectorIndex | float:
    """Find the least margin that keeps the recall; else the recall of what is worth it."""
    worth = WORTH if choice.kind == "ivf" else WORTH_CODES
    shares = truth.shares()  # a wider margin finds whatever a narrower one did
    for sure in SURE:
        margin = float(np.quantile(measured.excess, sure))
        if measured.share(margin) > worth:
            return measured.promised
        made = replace(choice, parameters=parameters | {"margin": margin}, bytes=_size(index))
        tuned = VectorIndex(made, index)
        reached = _measured(tuned, truth, shares)
        if reached >= need:
            tuned.choice = replace(made, recall=reached)
            return tuned
    return reached


def _excess(index: Any, truth: measure.Truth) -> _Measured:
    """Measure how much more similar the nearest are than the centres of their lists."""
    centres = index.quantizer.reconstruct_n(0, index.nlist)
    near = truth.asked.vectors @ centres.T
    excess: list[float] = []
    kept: list[bool] = []
    worth = max(1, int(WORTH * index.nlist))
    pairs = [truth.wanted(w, q) for w in range(len(truth.masks)) for q in range(len(near))]
    _, numbers = index.quantizer.search(
        measure.unit(truth.vectors[np.concatenate([places for _, places in pairs])]), 1
    )
    start = 0
    for i, (best, places) in enumerate(pairs):
        row = near[i % len(near)]
        mine = numbers[start : start + len(places), 0]
        start += len(places)
        excess.extend((best - row[mine]).tolist())
        if i < len(near) and truth.asked.group[i] < 2:
            kept.extend((row[mine] >= np.partition(row, -worth)[-worth]).tolist())

    def share(margin: float) -> float:
        asked = np.flatnonzero(truth.asked.group < 2)
        return float(np.mean([(near[i] >= pairs[i][0][-1] - margin).mean() for i in asked]))

    return _Measured(excess, share, float(np.mean(kept)))
