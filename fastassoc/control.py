"""The control: a memory's notes with links recomputed from them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fastassoc.kernels.links import pair_keys
from fastassoc.links import LinkMatrix
from fastassoc.notes import NotesView
from fastassoc.reader import Reader
from fastassoc.settings import Settings
from fastassoc.state import StateView

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
    """

    def __init__(self, view: StateView, settings: Settings, now: Callable[[], int]) -> None:
        self._settings = settings
        self._clock = now
        self._fixed = replace(view, links=written_links(view.notes, view.settings).view())

    @property
    def settings(self) -> Settings:
        """Those of the memory when the control was made."""
        return self._settings

    def _view(self, *, text: bool = False, at_least: int | None = None) -> StateView:
        return self._fixed

    def _now(self) -> int:
        return self._clock()

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
