"""The tables together, and `apply`: the one way anything changes, the same live and replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from xxhash import xxh3_128

from fastassoc.changes import Changes, Operation
from fastassoc.columns import places_in
from fastassoc.concepts import Vocabulary
from fastassoc.cues import Cues, CueView
from fastassoc.digests import table_hashes
from fastassoc.errors import InvalidInput
from fastassoc.indexed import Indexed
from fastassoc.links import LINKS_SCHEMA, LinkMatrix, LinkView
from fastassoc.mentionindex import Corpus, MentionIndex, MentionView
from fastassoc.notes import NotesView
from fastassoc.points import Points, PointsView
from fastassoc.reports import Report
from fastassoc.settings import Settings
from fastassoc.space import SpaceView, vectors_table
from fastassoc.text import TextIndex, TextView

__all__ = ["Kept", "Operation", "State", "StateView"]


class Kept(Protocol):
    """Gives the indexes of a snapshot's rows, or lets them be made."""

    def text(self, rows: int, make: Callable[[], TextIndex], /) -> TextIndex:
        """The index of the texts."""

    def mentions(self, rows: int, make: Callable[[], MentionIndex], /) -> MentionIndex:
        """The index of what they mention."""


@dataclass(frozen=True)
class StateView:
    """The state as one read sees it; nothing in it changes afterwards.

    `text` and `mentions` are there together, or neither is.
    """

    position: int
    time: int
    settings: Settings
    vocabulary: Vocabulary
    notes: NotesView
    links: LinkView
    note_links: LinkView
    cues: CueView
    space: SpaceView
    text: TextView | None
    index: Indexed | None = None
    mentions: MentionView | None = None

    @property
    def points(self) -> PointsView:
        """The vectors."""
        return self.space.points


class State(Changes):
    """Vocabulary, notes, vectors, links and the text index, changed by operations alone.

    Not safe for threads by itself: the owner holds a lock for `apply` and `view`.

    Parameters
    ----------
    settings : Settings
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.time = 0
        self.torn = False  # an interrupt left an operation or a view half made
        self._text = TextIndex(settings.language)
        self._kept: tuple[Kept, Corpus] | None = None  # as restored; until a read needs them
        self._mentions = MentionIndex()
        self._views: dict[bool, StateView] = {}

    def apply(self, operation: Operation, position: int) -> Report:
        """Apply the operation at `position` of the journal.

        Deterministic: no clock, no random source, no order of a set, nothing from the disk.
        """
        self._views = {}
        self.torn = True
        self.time = max(self.time, operation.at)
        self.position = position
        report: Report = getattr(self, f"_apply_{operation.kind}")(operation)
        self.torn = False
        return report

    def view(self, *, text: bool = False) -> StateView:
        """The state as it is now; `text` brings text and mention index up to it as well."""
        view = self._views.get(True) or self._views.get(text)
        if view is None:
            self.torn = True
            texts, mentions = self._text_views() if text else (None, None)
            view = self._views[text] = StateView(
                position=self.position,
                time=self.time,
                settings=self.settings,
                vocabulary=self.vocabulary,
                notes=self.notes.view(),
                links=self.links.view(),
                note_links=self.note_links.view(),
                cues=self.cues.view(),
                space=self.space.view(),
                text=texts,
                mentions=mentions,
            )
            self.torn = False
        return view

    def _text_views(self) -> tuple[TextView, MentionView]:
        if self._kept is not None:
            kept, restored = self._kept
            self._kept = None
            rows = restored.alive.size
            self._text = kept.text(rows, lambda: self._indexed(self._text, rows))
            self._mentions = kept.mentions(rows, partial(MentionIndex.of, restored))
        self._indexed(self._text, len(self.notes.ids))
        if self._text_removed:
            self._text.remove(self._text_removed)
        text = self._text.view()
        self._mentions.catch_up(self._corpus(text.holding), self._text_removed)
        self._text_removed = []
        return text, self._mentions.view()

    def _corpus(self, holding: Callable[[Sequence[str]], NDArray[np.int32] | None]) -> Corpus:
        notes = self.notes
        return Corpus(
            texts=notes.texts, alive=notes.alive.array, df=notes.df.array,
            declared=notes.declared.array, carried=notes.postings.view(),
            n_ids=self.vocabulary.n_ids, keys=self.vocabulary.keys(), holding=holding,
        )  # fmt: skip

    def _indexed(self, index: TextIndex, stop: int) -> TextIndex:
        """The index with the texts of rows below `stop`."""
        for start in range(index.n_rows, stop, 1 << 16):
            rows = self.notes.texts.to_arrow(start, min(stop, start + (1 << 16)))
            index.append(rows.to_pylist())
        return index

    def digest(self) -> str:
        """A hash of everything that the operations so far have made, equal in every process."""
        notes, hashed = self.notes, xxh3_128()
        live = np.flatnonzero(notes.alive.array).tolist()
        summary = [self.position, self.time, notes.next_seq, self.settings.to_dict(), self.ingests]
        summary.append(self.space.summary())
        hashed.update(json.dumps(summary, sort_keys=True).encode())
        for part in (notes.to_arrow(), notes.state_to_arrow(), self.vocabulary.to_arrow()):
            hashed.update(np.array(table_hashes(part), np.uint64).tobytes())
        parts = [
            self.links.to_arrow(),
            self._by_seq(self.note_links.to_arrow()),
            self._vectors(self.space.points),
        ]
        parts += [self.cues.to_arrow(notes.seq.array), self.cues.stems.to_arrow()]
        if self.space.staged is not None:
            parts.append(self._vectors(self.space.staged))
        for part in parts:
            hashed.update(np.array(table_hashes(part), np.uint64).tobytes())
        hashed.update(len(live).to_bytes(8, "little"))
        return hashed.hexdigest()

    # -- disk -----------------------------------------------------------------------------------

    def capture(self, after: Mapping[str, int], dead: Sequence[int]) -> dict[str, pa.Table]:
        """Tables for a snapshot, by kind.

        Of ``notes`` and ``vectors`` only those written after the sequence that `after` says for
        the kind; all else whole. `dead` are the sequences of forgotten notes that lie in older
        segments.
        """
        tables = {
            "notes": self.notes.to_arrow(after["notes"]),
            "notestate": self.notes.state_to_arrow(),
            "dead": pa.table({"seq": pa.array(dead, pa.int64())}),
            "vocabulary": self.vocabulary.to_arrow(),
            "links-concept": self.links.captured(),
            "links-note": self._by_seq(self.note_links.captured()),
        }
        if len(self.cues.stems):
            tables["stems"] = self.cues.stems.to_arrow()
        if len(self.cues.links):
            tables["links-cue"] = self.cues.to_arrow(self.notes.seq.array)
        if self.space.points.dim is not None:
            tables["vectors"] = self._vectors(self.space.points, after["vectors"])
        if self.space.staged is not None and len(self.space.staged):
            tables["vectors-next"] = self._vectors(self.space.staged)
        return tables

    def _vectors(self, points: Points, after: int = -1) -> pa.Table:
        wanted = self.notes.alive.array.copy()
        wanted[: int(np.searchsorted(self.notes.seq.array, after, "right"))] = 0
        return vectors_table(points, self.notes.seq.array, wanted)

    def _by_seq(self, table: pa.Table) -> pa.Table:
        """A table of links between notes with their sequences, int64, in ``a`` and ``b``."""
        seqs = self.notes.seq.array
        for place, name in enumerate(("a", "b")):
            values = pa.array(seqs[table.column(name).to_numpy()])
            table = table.set_column(place, pa.field(name, pa.int64(), nullable=False), values)
        return table

    def summary(self) -> dict[str, Any]:
        """What a manifest keeps beside the tables."""
        return {
            "next_seq": self.notes.next_seq,
            "concept_ids": self.vocabulary.n_ids,
            "stem_ids": self.cues.stems.n_ids,
            "time": self.time,
            "settings": self.settings.to_dict(),
            "ingests": dict(self.ingests),  # the state goes on while a snapshot is written
            **self.space.summary(),
        }

    @classmethod
    def restore(
        cls,
        tables: Mapping[str, pa.Table],
        summary: Mapping[str, Any],
        position: int,
        kept: Kept | None = None,
    ) -> State:
        """The state that `capture` and `summary` described, dead notes taken out already.

        `kept` gives the indexes of exactly these notes, or lets them be made, when a read needs
        them.
        """
        state = cls(Settings.from_dict(summary["settings"]))
        settings = state.settings
        state.vocabulary = Vocabulary.from_arrow(
            tables["vocabulary"], settings.names, settings.language, summary["concept_ids"]
        )
        state.links = LinkMatrix.from_arrow(
            tables["links-concept"], settings.concept_links, settings.valence_rate
        )
        state.notes.restore(tables["notes"], tables["notestate"], summary["next_seq"])
        seqs = state.notes.seq.array
        if "links-note" in tables:
            state.note_links = LinkMatrix.from_arrow(
                by_row(tables["links-note"], seqs), settings.note_links, settings.valence_rate
            )
        state.cues = Cues.restored(
            tables.get("links-cue"),
            tables.get("stems"),
            seqs,
            settings.cue_links,
            settings.valence_rate,
            summary.get("stem_ids", 0),
        )
        state.space.restore(summary, seqs, tables.get("vectors"), tables.get("vectors-next"))
        if kept is not None:
            state._kept = kept, state._corpus(lambda words: None).kept()
        state.ingests = dict(summary["ingests"])
        state.position, state.time = position, summary["time"]
        return state


def by_row(links: pa.Table, seqs: NDArray[np.int64]) -> pa.Table:
    """Links between sequences as links between rows, `seqs` being those of the rows."""
    for place, name in enumerate(("a", "b")):
        ends = links.column(name).to_numpy()
        rows, known = places_in(seqs, ends)
        if not known.all():
            raise InvalidInput("a link between notes names one that is not there.")
        links = links.set_column(place, LINKS_SCHEMA.field(name), pa.array(rows.astype(np.uint32)))
    return links
