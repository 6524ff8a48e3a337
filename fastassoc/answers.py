"""What a read gives back: a recall of hits, each with its score, source and path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, overload

import pyarrow as pa

__all__ = ["Graph", "Hit", "Page", "Recall", "Step"]


class Step(NamedTuple):
    """One step of a path.

    Attributes
    ----------
    source, target : str
        Names of concepts, or a stem; a note is named by its id.
    layer : str
        ``"concept"`` for a link between concepts, ``"note"`` for one between notes, ``"cue"`` from
        a term (a concept or a stem) to a note that outcomes taught; ``"carries"`` from a concept
        into a note that carries or mentions it, and from a note to a concept of its own; ``"says"``
        the same with the stem of a word.
    weight, written, taught : float
        The link's effective weight, what notes wrote of it, and what outcomes added; 0.0 for a
        step of the layer ``carries`` or ``says``, so that the weights of a path add up.
    """

    source: str
    target: str
    layer: str
    weight: float
    written: float
    taught: float


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A note that a read returned.

    Attributes
    ----------
    id, text, domain : str
    score : float
        Absolute, in [0, 1], in the order of `rank_score`.
    rank_score : float
        What ordered the answer: the sum of `parts`. Next to 0 and below it where nothing speaks
        for the note but that its vector is among the nearest, though it points elsewhere.
    parts : dict of str to float
    similarity : float or None
        Cosine with the query's vector, where there is one.
    source : {"exact", "semantic", "concept", "association"}
        ``association``: not among the first k of the direct score, and reached over links.
    concepts : list of str
        The note's concepts.
    via : list of str
        Sorted names of the concepts that brought it; empty unless `source` is ``association``.
    path : list of Step
        From something the query named to the note.
    metadata : dict
    created_at : datetime
        Aware, UTC.
    valence, importance : float
    """

    id: str
    text: str
    score: float
    rank_score: float
    parts: dict[str, float]
    similarity: float | None
    source: str
    concepts: list[str]
    via: list[str]
    path: list[Step]
    domain: str
    metadata: dict[str, Any]
    created_at: datetime
    valence: float
    importance: float

    def to_dict(self) -> dict[str, Any]:
        """The hit as JSON values."""
        out = {name: getattr(self, name) for name in self.__dataclass_fields__}
        out["path"] = [step._asdict() for step in self.path]
        out["created_at"] = self.created_at.isoformat()
        return out


@dataclass(frozen=True, kw_only=True)
class Recall(Sequence[Hit]):
    """The answer of a read, a sequence of hits, best first.

    Attributes
    ----------
    hits : list of Hit
    query_concepts : list of str
        Concepts that were asked: those that the query named, then their variants.
    query_terms : list of str
        These, then the query's content words.
    query_stems : list of str
        Stems of the content words of the query's text, each once: what feedback teaches beside
        the named concepts.
    expanded_concepts : dict of str to float
        Concepts through which hits were reached, strongest first, with their strength.
    variants : dict of str to list of str
        What the query said, and the variants (equal stems, word by word) that were asked because
        of it. A known concept goes by its name, a name of ``concepts=`` that is not known and
        words of the text by how they were written. A variant stands under all that led to it,
        and under none where the query names it itself.
    unknown : list of str
        Names in ``concepts=`` of which the store knows neither a concept nor a variant.
    reason : str or None
        Why the answer is empty, or what it had to leave out.
    rank : str
        The rank that was used.
    position : int
        The operation that the answer reflects.
    timings : dict of str to float
        Seconds of each stage.

    Examples
    --------
    >>> Recall(hits=[], reason="the store is empty").reason
    'the store is empty'
    """

    hits: list[Hit]
    query_concepts: list[str] = field(default_factory=list)
    query_terms: list[str] = field(default_factory=list)
    query_stems: list[str] = field(default_factory=list)
    expanded_concepts: dict[str, float] = field(default_factory=dict)
    variants: dict[str, list[str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    reason: str | None = None
    rank: str = "counts"
    position: int = 0
    timings: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        return self.hits[index]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The hits as JSON values."""
        return [hit.to_dict() for hit in self.hits]

    def to_arrow(self) -> pa.Table:
        """The hits as a table, one row a hit, paths as lists of structs."""
        step = pa.struct(
            [
                *((name, pa.string()) for name in ("source", "target", "layer")),
                *((name, pa.float64()) for name in ("weight", "written", "taught")),
            ]
        )
        schema = pa.schema(
            [
                ("id", pa.string()),
                ("text", pa.string()),
                ("score", pa.float64()),
                ("rank_score", pa.float64()),
                ("similarity", pa.float64()),
                ("source", pa.string()),
                ("concepts", pa.list_(pa.string())),
                ("via", pa.list_(pa.string())),
                ("path", pa.list_(step)),
                ("domain", pa.string()),
                ("created_at", pa.timestamp("us", tz="UTC")),
                ("valence", pa.float64()),
                ("importance", pa.float64()),
            ]
        )
        rows = [
            {
                **{name: getattr(hit, name) for name in schema.names},
                "path": [step._asdict() for step in hit.path],
            }
            for hit in self.hits
        ]
        return pa.Table.from_pylist(rows, schema=schema)


class Page(list[Any]):
    """A page of notes, newest first; `next_cursor` continues it, None at the end.

    Attributes
    ----------
    next_cursor : str or None
    """

    next_cursor: str | None = None


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The surroundings of some concepts.

    Attributes
    ----------
    nodes : list of (str, int)
        Concepts with their number of links in the store.
    edges : list of dict
        ``a, b, weight, written, taught, count, valence, created_at, updated_at``, a < b.
    truncated : bool
        Whether `limit` left something out.
    min_weight_applied : float
    """

    nodes: list[tuple[str, int]]
    edges: list[dict[str, Any]]
    truncated: bool
    min_weight_applied: float

    def to_dict(self) -> dict[str, Any]:
        """The graph as JSON values."""
        return {
            "nodes": [{"concept": name, "degree": degree} for name, degree in self.nodes],
            "edges": [json_times(edge) for edge in self.edges],
            "truncated": self.truncated,
            "min_weight_applied": self.min_weight_applied,
        }


def json_times(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its times as ISO text."""
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in row.items()}
