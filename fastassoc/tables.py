"""The links and the notes of a memory as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.settings import LinkRule
from fastassoc.state import StateView
from fastassoc.times import moment

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["LinksTable", "NotesTable", "edge_rows"]

TIME = pa.timestamp("us", tz="UTC")
LINKS = pa.schema(
    [
        ("a", pa.string()),
        ("b", pa.string()),
        ("weight", pa.float64()),
        ("written", pa.float64()),
        ("taught", pa.float64()),
        ("count", pa.int64()),
        ("valence", pa.float64()),
        ("created_at", TIME),
        ("updated_at", TIME),
    ]
)


class LinksTable:
    """The concept links of a memory; every look sees the memory as it is then.

    Weights are effective: decayed to now where the layer decays.
    """

    def __init__(
        self, view: Callable[[], StateView], now: Callable[[StateView], int], rule: LinkRule
    ) -> None:
        self._view = view
        self._now = now
        self._rule = rule

    def __len__(self) -> int:
        return len(self._view().links)

    def weight(self, a: str, b: str) -> float:
        """Return the effective weight between two concepts, 0.0 where there is no link.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Coffee with milk.", concepts=["coffee", "milk"])
        >>> mem.links.weight("coffee", "milk"), mem.links.weight("coffee", "tea")
        (1.0, 0.0)
        """
        link = self.get(a, b)
        return 0.0 if link is None else float(link["weight"])

    def get(self, a: str, b: str) -> dict[str, Any] | None:
        """Return a link as a row of `to_arrow`, None where there is none."""
        view = self._view()
        x, y = view.vocabulary.find(a), view.vocabulary.find(b)
        if x is None or y is None or x == y:
            return None
        rows = edge_rows(view, [(min(x, y), max(x, y))], self._now(view), self._rule.decay_us)
        return rows[0] if rows else None

    def top(self, limit: int = 20) -> list[dict[str, Any]]:
        """Return the heaviest links as rows of `to_arrow`, heaviest first, then by name."""
        table = self.to_arrow()
        order = [("weight", "descending"), ("a", "ascending"), ("b", "ascending")]
        rows: list[dict[str, Any]] = table.sort_by(order).slice(0, limit).to_pylist()
        return rows

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the links by concept id: ``a, b`` uint32 [m], ``weight`` float64 [m], ..."""
        view = self._view()
        columns = dict(view.links.columns()._asdict())
        factors = decay_factors(columns["updated_at"], self._now(view), self._rule.decay_us)
        columns["weight"] = columns["weight"] * factors
        columns["written"] = columns["written"] * factors
        return columns

    def names(self) -> list[str]:
        """Return the name of each row of `to_scipy`: concept ids in order; "" for a dropped one."""
        view = self._view()
        return [view.vocabulary.name(c) for c in range(view.vocabulary.n_ids)]

    def to_scipy(self) -> csr_array:
        """Return the effective weights as a symmetric matrix, float64 [concepts, concepts].

        Row i is the concept ``names()[i]``.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Coffee with milk.", concepts=["coffee", "milk"])
        >>> mem.links.to_scipy().toarray().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        from scipy.sparse import coo_array

        columns, n = self.columns(), self._view().vocabulary.n_ids
        a, b = columns["a"].astype(np.int64), columns["b"].astype(np.int64)
        weights = np.concatenate([columns["weight"]] * 2)
        ends = np.concatenate([a, b]), np.concatenate([b, a])
        return coo_array((weights, ends), shape=(n, n)).tocsr()

    def to_arrow(self) -> pa.Table:
        """Return every link, a < b, sorted: ``a, b, weight, written, taught, count, valence,
        created_at, updated_at``.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Coffee with milk.", concepts=["milk", "coffee"])
        >>> mem.links.to_arrow().select(["a", "b", "weight"]).to_pylist()
        [{'a': 'coffee', 'b': 'milk', 'weight': 1.0}]
        """
        columns = self.columns()
        name = self._view().vocabulary.name
        ids, places = np.unique(np.concatenate([columns["a"], columns["b"]]), return_inverse=True)
        names = [name(int(c)) for c in ids]
        # names sort by code point, so that a < b means the same in every language
        rank = np.empty(len(ids), np.int64)
        ordered = sorted(range(len(ids)), key=names.__getitem__)
        rank[ordered] = np.arange(len(ids))
        m = len(columns["a"])
        x, y = places[:m], places[m:]
        swap = rank[x] > rank[y]
        a, b = np.where(swap, y, x), np.where(swap, x, y)
        shown = pa.array(names, pa.string())
        order = np.lexsort((rank[b], rank[a]))
        values = {
            **{key: columns[key][order] for key in columns},
            "taught": (columns["weight"] - columns["written"])[order],
        }
        arrays = [
            shown.take(pa.array({"a": a, "b": b}[f.name][order]))
            if f.name in ("a", "b")
            else pa.array(values[f.name]).cast(f.type)
            for f in LINKS
        ]
        return pa.Table.from_arrays(arrays, schema=LINKS)


class NotesTable:
    """The live notes of a memory as a table."""

    def __init__(self, view: Callable[[], StateView]) -> None:
        self._view = view

    def __len__(self) -> int:
        return self._view().notes.table.n_alive

    def to_arrow(self) -> pa.Table:
        """Return the live notes in order of writing, concepts and subjects by name.

        Columns: ``id, text, domain, created_at, written_at, session, category, importance,
        fingerprint, external_ref, author, metadata`` (JSON), ``concepts, subjects``.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Tea is hot.", id="t1", concepts=["tea"])
        >>> mem.notes.to_arrow().select(["id", "concepts"]).to_pylist()
        [{'id': 't1', 'concepts': ['tea']}]
        """
        view = self._view()
        table = view.notes.table.to_arrow()
        names = pa.array([view.vocabulary.name(c) for c in range(view.vocabulary.n_ids)])
        columns = {name: table.column(name) for name in table.column_names}
        for name in ("concepts", "subjects"):
            columns[name] = pa.chunked_array(
                [named_lists(chunk, names) for chunk in columns[name].chunks],
                pa.list_(pa.string()),
            )
        for name in ("created_at", "written_at"):
            columns[name] = columns[name].cast(TIME)
        for name in ("seq", "bucket", "extracted"):
            del columns[name]
        return pa.table(columns)


def named_lists(lists: pa.Array, names: pa.Array) -> pa.Array:
    """A list<uint32> of concept ids as a list<string> of names."""
    offsets = lists.offsets.to_numpy()
    flat = lists.flatten()
    values = names.take(flat) if len(flat) else pa.array([], pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), values)


def decay_factors(updated_at: NDArray[np.int64], now: int, decay_us: float) -> NDArray[np.float64]:
    """``exp(-age / decay)`` of each link, ones without decay, float64 [m]."""
    if math.isinf(decay_us):
        return np.ones(len(updated_at))
    return np.exp(-np.maximum(0, now - updated_at) / decay_us)


def edge_rows(
    view: StateView, pairs: Sequence[tuple[int, int]], now: int, decay_us: float
) -> list[dict[str, Any]]:
    """Rows of `LinksTable.to_arrow` for pairs of concept ids; pairs without a link are left out."""
    rows = []
    for a, b in pairs:
        link = view.links.get(a, b)
        if link is None:
            continue
        factor = math.exp(-max(0, now - link.updated_at) / decay_us)
        first, second = sorted((view.vocabulary.name(a), view.vocabulary.name(b)))
        weight, written = link.weight * factor, link.written * factor
        rows.append(
            {
                "a": first,
                "b": second,
                "weight": weight,
                "written": written,
                "taught": weight - written,
                "count": link.count,
                "valence": link.valence,
                "created_at": moment(link.created_at),
                "updated_at": moment(link.updated_at),
            }
        )
    return rows
