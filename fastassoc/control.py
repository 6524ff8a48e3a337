"""The control: a memory's notes with links recomputed from them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fastassoc.answers import Recall
from fastassoc.cues import Cues
from fastassoc.embed import Embedder
from fastassoc.errors import InvalidInput
from fastassoc.joining import tag_weights
from fastassoc.kernels.links import pair_keys
from fastassoc.links import LinkMatrix, keys_of
from fastassoc.notes import NotesView
from fastassoc.reader import Reader
from fastassoc.settings import Settings
from fastassoc.state import StateView
from fastassoc.tagging import cosine_tags

__all__ = ["Control"]


class Control(Reader):
    """A read-only memory: what it would know if no outcome had ever taught it anything.

    Parameters
    ----------
    view : StateView
        The memory whose notes are taken, as it is then.
    settings : Settings
    now : callable
        Gives microseconds UTC.
    embedder : Embedder, optional
        The memory's.
    """

    def __init__(
        self,
        view: StateView,
        settings: Settings,
        now: Callable[[], int],
        embedder: Embedder | None = None,
    ) -> None:
        self._settings = settings
        self._clock = now
        self._embedder = embedder
        self._fixed = replace(
            view,
            links=written_links(view.notes, view.settings).view(),
            note_links=session_links(view).view(),
            cues=Cues(view.settings.cue_links, view.settings.valence_rate).view(),
        )

    @property
    def settings(self) -> Settings:
        """Those of the memory when the control was made."""
        return self._settings

    def _view(self, *, text: bool = False, at_least: int | None = None) -> StateView:
        return self._fixed

    def _now(self) -> int:
        return self._clock()

    def _may_reinforce(self) -> None:
        raise InvalidInput("reinforce: the control only reads; leave it out.")

    def _reinforce(self, recall: Recall, session: str | None) -> None:
        self._may_reinforce()

    def __repr__(self) -> str:
        return "<fastassoc control: links rebuilt from the notes alone>"


def written_links(notes: NotesView, settings: Settings) -> LinkMatrix:
    """The links that the live notes write, at the times when they were written."""
    links = LinkMatrix(settings.concept_links, settings.valence_rate)
    flat, ptr = notes.table.postings.forward()
    lengths = np.diff(ptr[: notes.n + 1]) * notes.alive
    kept = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    concepts = flat[: ptr[notes.n]][np.repeat(notes.alive, np.diff(ptr[: notes.n + 1])) == 1]
    at = notes.table.written_at.array[: notes.n]
    # notes of one operation share their time and are written together
    cuts = np.flatnonzero(at[1:] != at[:-1]) + 1
    for start, stop in pairwise([0, *cuts.tolist(), notes.n] if notes.n else []):
        spans = kept[start : stop + 1]
        part = concepts[spans[0] : spans[-1]]
        links.write(pair_keys(part, spans - spans[0]), int(at[start]))
    return links


def session_links(view: StateView) -> LinkMatrix:
    """The links that the sessions of the live notes write between them."""
    settings, notes = view.settings, view.notes
    links = LinkMatrix(settings.note_links, settings.valence_rate)
    found = [session_pairs(view, rows) for rows in notes.table.sessions.live(notes.alive)]
    newer, older, steps = map(np.concatenate, zip(NO_PAIRS, *found, strict=True))
    at = notes.table.written_at.array
    order = np.argsort(newer, kind="stable")
    newer, older, steps = newer[order], older[order], steps[order]
    cuts = np.flatnonzero(np.diff(at[newer])) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(newer)] if len(newer) else []):
        keys = keys_of(newer[start:stop], older[start:stop])
        links.write(keys, int(at[newer[start]]), steps[start:stop])
    return links


NO_PAIRS = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def session_pairs(
    view: StateView, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Pairs (newer, older) of a session's rows that are linked, and the weight of each."""
    settings = view.settings
    if settings.session_links == "consecutive":
        return rows[1:], rows[:-1], np.full(max(0, len(rows) - 1), settings.note_links.write_step)
    vectors, _ = view.points.take(rows)
    if settings.session_links != "cosine" or not vectors.shape[1]:
        return NO_PAIRS
    newer, older, cosines = cosine_tags(vectors, 0, settings.tag_window, settings.tag_least)
    return rows[newer], rows[older], tag_weights(settings, cosines)
