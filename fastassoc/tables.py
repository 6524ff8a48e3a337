"""The links and the notes of a memory as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.links import Link, LinkView
from fastassoc.settings import LinkRule
from fastassoc.state import StateView
from fastassoc.times import moment

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Concepts", "LinksTable", "Notes", "NotesTable", "edge_rows"]

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


class Layer(Protocol):
    """What the links of a layer join: numbers inside, names outside."""

    def links(self, view: StateView) -> LinkView:
        """The links."""

    def find(self, view: StateView, name: str) -> int | None:
        """The number of a name, None where there is none."""

    def name(self, view: StateView, number: int) -> str:
        """The name of a number."""

    def size(self, view: StateView) -> int:
        """One more than the largest number."""

    def row(self, view: StateView, link: Link) -> dict[str, Any]:
        """A link as a row of `LinksTable.to_arrow`."""


class Concepts:
    """The concept layer."""

    def links(self, view: StateView) -> LinkView:
        """The links between concepts."""
        return view.links

    def find(self, view: StateView, name: str) -> int | None:
        """A concept by any spelling."""
        return view.vocabulary.find(name)

    def name(self, view: StateView, number: int) -> str:
        """The name as it is shown."""
        return view.vocabulary.name(number)

    def size(self, view: StateView) -> int:
        """Concepts so far."""
        return view.vocabulary.n_ids

    def row(self, view: StateView, link: Link) -> dict[str, Any]:
        """A link with its concepts."""
        return edge_row(view.vocabulary.name, link)


class Notes:
    """The note layer."""

    def links(self, view: StateView) -> LinkView:
        """The links between notes."""
        return view.note_links

    def find(self, view: StateView, name: str) -> int | None:
        """A live note by its id."""
        row = view.notes.table.rows.get(name) if isinstance(name, str) else None
        return row if row is not None and row < view.notes.n and view.notes.alive[row] else None

    def name(self, view: StateView, number: int) -> str:
        """A note's id."""
        return view.notes.table.ids[number]

    def size(self, view: StateView) -> int:
        """Notes so far."""
        return view.notes.n

    def row(self, view: StateView, link: Link) -> dict[str, Any]:
        """A link with its notes."""
        return edge_row(view.notes.table.ids.__getitem__, link)


class LinksTable:
    """The links of one layer of a memory; every look sees the memory as it is then.

    Concepts go by name, notes by id. Rows hold weights as they were at ``updated_at``; `weight`
    and `to_scipy` give effective ones, faded to now where the layer fades.
    """

    def __init__(
        self,
        view: Callable[[], StateView],
        now: Callable[[StateView], int],
        rule: LinkRule,
        layer: Layer,
    ) -> None:
        self._view = view
        self._now = now
        self._us = rule.decay_us
        self._layer = layer

    def __len__(self) -> int:
        return len(self._layer.links(self._view()))

    def weight(self, a: str, b: str) -> float:
        """Return the effective weight between two concepts (or notes), 0.0 without a link.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Coffee with milk.", concepts=["coffee", "milk"])
        >>> mem.links.weight("coffee", "milk"), mem.links.weight("coffee", "tea")
        (1.0, 0.0)
        """
        view = self._view()
        link = self._link(view, a, b)
        if link is None:
            return 0.0
        return float(link.weight * math.exp(-max(0, self._now(view) - link.updated_at) / self._us))

    def get(self, a: str, b: str) -> dict[str, Any] | None:
        """Return a link as a row of `to_arrow`, None where there is none."""
        view = self._view()
        link = self._link(view, a, b)
        return None if link is None else self._layer.row(view, link)

    def _link(self, view: StateView, a: str, b: str) -> Link | None:
        x, y = self._layer.find(view, a), self._layer.find(view, b)
        if x is None or y is None or x == y:
            return None
        return self._layer.links(view).get(min(x, y), max(x, y))

    def top(self, limit: int = 20) -> list[dict[str, Any]]:
        """Return the heaviest links as rows of `to_arrow`, heaviest first, then by name."""
        table = self.to_arrow()
        order = [("weight", "descending"), ("a", "ascending"), ("b", "ascending")]
        rows: list[dict[str, Any]] = table.sort_by(order).slice(0, limit).to_pylist()
        return rows

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the links by number: ``a, b`` uint32 [m], ``weight`` float64 [m], ..."""
        return self._layer.links(self._view()).columns()._asdict()

    def names(self) -> list[str]:
        """Return what each row of `to_scipy` stands for, in order; "" for a dropped concept."""
        view = self._view()
        return [self._layer.name(view, n) for n in range(self._layer.size(view))]

    def to_scipy(self) -> csr_array:
        """Return the effective weights as a symmetric matrix, float64 [concepts, concepts].

        Row i is the concept (or the note) ``names()[i]``.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Coffee with milk.", concepts=["coffee", "milk"])
        >>> mem.links.to_scipy().toarray().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        from scipy.sparse import coo_array

        view = self._view()
        columns, n = self._layer.links(view).columns()._asdict(), self._layer.size(view)
        ages = np.maximum(0, self._now(view) - columns["updated_at"])
        columns["weight"] = columns["weight"] * np.exp(-ages / self._us)
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
        view = self._view()
        columns = self._layer.links(view).columns()._asdict()
        ids, places = np.unique(np.concatenate([columns["a"], columns["b"]]), return_inverse=True)
        names = [self._layer.name(view, number) for number in ids.tolist()]
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
        columns["metadata"] = view.notes.table.with_updates(columns["metadata"])
        for name in ("seq", "bucket", "extracted"):
            del columns[name]
        return pa.table(columns)


def named_lists(lists: pa.Array, names: pa.Array) -> pa.Array:
    """A list<uint32> of concept ids as a list<string> of names."""
    offsets = lists.offsets.to_numpy()
    flat = lists.flatten()
    values = names.take(flat) if len(flat) else pa.array([], pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), values)


def edge_row(name: Callable[[int], str], link: Link) -> dict[str, Any]:
    """A row of `LinksTable.to_arrow`."""
    a, b = sorted((name(link.a), name(link.b)))
    return {"a": a, "b": b, **link_values(link)}


def link_values(link: Link) -> dict[str, Any]:
    """What a row tells of a link but for its ends."""
    return {
        "weight": link.weight,
        "written": link.written,
        "taught": link.weight - link.written,
        "count": link.count,
        "valence": link.valence,
        "created_at": moment(link.created_at),
        "updated_at": moment(link.updated_at),
    }


def edge_rows(view: StateView, pairs: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """Rows of `LinksTable.to_arrow` for pairs of concept ids; pairs without a link are left out."""
    links = (view.links.get(a, b) for a, b in pairs)
    return [edge_row(view.vocabulary.name, link) for link in links if link is not None]
