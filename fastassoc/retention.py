"""What being returned and being left alone make of a note: retention, core notes, the cold tier."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastassoc.columns import Growable, Pages, PagesView
from fastassoc.errors import InvalidInput
from fastassoc.jsontext import loads
from fastassoc.kernels.retention import DAY, overdue, retentions

if TYPE_CHECKING:
    from fastassoc.settings import RetentionRule

__all__ = ["STATE_COLUMNS", "NoteState", "NoteStates", "StatesView"]

CATEGORIES = ("episodic", "semantic", "procedural", "core")
EPISODIC, SEMANTIC, PROCEDURAL, CORE, PROMOTED = range(5)  # PROMOTED: a core note by its accesses
CODES = {name: code for code, name in enumerate(CATEGORIES)}
SESSIONS = 2  # distinct sessions that are remembered of a note

NOTE = np.dtype(
    [
        ("stability", np.float64),
        ("importance", np.float64),
        ("last_access", np.int64),
        ("accesses", np.int64),
        ("category", np.uint8),
    ],
    align=True,
)

STATE_COLUMNS: dict[str, pa.DataType] = {
    "stability": pa.float64(),
    "last_access": pa.int64(),
    "accesses": pa.int64(),
    "tier": pa.string(),
    "category": pa.string(),
    "sessions": pa.string(),
}


class NoteState(NamedTuple):
    """One note's state; `category` is one of CATEGORIES, "core" once it was promoted."""

    stability: float
    importance: float
    last_access: int
    accesses: int
    category: str
    cold: bool


def fading(rule: RetentionRule) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Beta in days and the least retention by category code, float64 [5] each."""
    core = rule.core_days, rule.core_floor
    by_code = [
        (rule.episodic_days, rule.floor),
        (rule.semantic_days, rule.floor),
        (math.inf, rule.floor),
        core,
        core,
    ]
    betas, floors = zip(*by_code, strict=True)
    return np.array(betas, np.float64), np.array(floors, np.float64)


@dataclass(frozen=True)
class StatesView:
    """The states of all notes as one read sees them; nothing in it changes afterwards.

    Attributes
    ----------
    cold : uint8 [n]
        Notes of the cold tier, forgotten ones included.
    """

    notes: PagesView
    cold: NDArray[np.uint8]
    rule: RetentionRule

    @cached_property
    def any_cold(self) -> bool:
        """Whether there is a cold note."""
        return bool(self.cold.any())

    def __len__(self) -> int:
        return len(self.notes)

    def retention(
        self, rows: NDArray[np.int64], now: int, power: float = 1.0
    ) -> NDArray[np.float64]:
        """How much of each note is retained at `now` (microseconds UTC), float64 [m] in (0, 1].

        ``max(floor, exp(-dt / (S B beta)))`` by `RetentionRule`, to the `power`; dt is never
        negative, so a clock set back raises nothing. `rows` are int64 [m], in any order.
        """
        out = np.empty(len(rows), np.float64)
        retentions(self.notes.take(rows), now, *fading(self.rule), float(power), out)
        return out

    def hot_of(self, allowed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Those of the allowed rows, uint8 [n], that are hot; the same array where all are."""
        return allowed & (1 - self.cold[: len(allowed)]) if self.any_cold else allowed

    def cold_mask(self, n: int) -> NDArray[np.uint8]:
        """Which of the first `n` rows are cold, uint8 [n]; not to be written to."""
        return self.cold[:n]

    def count_core(self, rows: NDArray[np.int64]) -> int:
        """How many of the rows are core notes."""
        return int(np.count_nonzero(self.notes.take(rows)["category"] >= CORE))

    def get(self, row: int) -> NoteState:
        """One note's state."""
        stability, importance, last_access, accesses, code = self.notes[row].tolist()
        category = CATEGORIES[min(code, CORE)]
        return NoteState(
            stability, importance, last_access, accesses, category, bool(self.cold[row])
        )


class NoteStates:
    """Stability, accesses, category and tier of every note by row, forgotten ones included.

    Deterministic: only what `reinforce`, `cool` and `forget` are told changes anything, and time
    comes in as a number.

    Parameters
    ----------
    rule : RetentionRule
        Its state fields are those of the store, for good.

    Examples
    --------
    >>> from fastassoc.settings import RetentionRule
    >>> states = NoteStates(RetentionRule())
    >>> states.append(np.array([0.5]), [None], at=0)
    >>> states.view().get(0).stability
    0.25
    >>> week = 7 * 86_400_000_000
    >>> round(float(states.view().retention(np.array([0]), week)[0]), 6)
    0.732632
    >>> states.reinforce([0], [], session=None, at=week)
    [0]
    >>> states.view().get(0).stability
    0.35
    """

    def __init__(self, rule: RetentionRule) -> None:
        self.rule = rule
        self._notes = Pages(NOTE)
        self._cold = Growable(np.uint8)
        self._sessions: dict[int, tuple[str, ...]] = {}  # the first distinct ones that returned it
        self._view: StatesView | None = None

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return self._notes.nbytes + len(self._cold)

    # -- changes --------------------------------------------------------------------------------

    def append(
        self,
        importance: NDArray[np.float64],
        categories: pa.Array | Sequence[str | None] | None,
        at: NDArray[np.int64] | int,
    ) -> None:
        """Add notes at the end, hot and never accessed.

        Parameters
        ----------
        importance : float64 [n]
            In [0, 1].
        categories : sequence of str or None [n], or None
            Any text; what is not one of CATEGORIES fades as ``"episodic"``.
        at : int64 [n] or int
            When each was written, microseconds UTC.
        """
        rule, n = self.rule, len(importance)
        new = np.zeros(n, NOTE)
        first = rule.base_stability + rule.importance_stability * importance
        new["stability"] = np.minimum(1.0, first)
        new["importance"] = importance
        new["last_access"] = at
        new["category"] = codes(categories, n)
        self._notes.append(new)
        self._cold.extend_to(len(self._notes))
        self._view = None

    def reinforce(
        self, direct: Sequence[int], associated: Sequence[int], session: str | None, at: int
    ) -> list[int]:
        """Strengthen the notes that a read returned, by row, and bring cold ones back.

        Stability grows by the boost times ``min(boost_most, days since the last access /
        boost_days)`` and stays at 1. A note becomes core, for good, once it has the accesses, the
        stability and the distinct sessions that the rule asks for. Each note counts once, as a
        direct hit if it is both.

        Returns
        -------
        list of int
            The rows that were strengthened.
        """
        boosts = dict.fromkeys(associated, self.rule.associated_boost)
        boosts.update(dict.fromkeys(direct, self.rule.direct_boost))
        for row, boost in boosts.items():
            self._access(row, boost, session, at)
        warm = [row for row in boosts if self._cold.array[row]]
        if warm:
            self._set_cold(warm, 0)
        self._view = None
        return list(boosts)

    def _access(self, row: int, boost: float, session: str | None, at: int) -> None:
        rule = self.rule
        page, place = self._notes.change(row)
        stability, importance, last, accesses, category = page[place].tolist()
        days = max(0, at - last) / DAY
        stability = min(1.0, stability + boost * min(rule.boost_most, days / rule.boost_days))
        sessions = self._sessions.get(row, ())
        if session is not None and session not in sessions and len(sessions) < SESSIONS:
            sessions = self._sessions[row] = (*sessions, session)
        accesses += 1
        if (
            category < PROCEDURAL  # which does not fade, and would as a core note
            and accesses >= rule.core_accesses
            and stability >= rule.core_stability
            and len(sessions) >= rule.core_sessions
        ):
            category = PROMOTED
        page[place] = (stability, importance, max(last, at), accesses, category)

    def due(self, now: int) -> NDArray[np.int64]:
        """Rows that time moves to the cold tier at `now`, int64 [m] ascending.

        Hot episodic and semantic notes that have been at the least retention for ``cold_days``,
        forgotten ones included. It depends on the state and on `now` only, not on how often it is
        asked.
        """
        betas, floors = fading(self.rule)
        floors[CORE:] = -1.0  # never
        found = [np.empty(0, np.int64)]
        for start, page in self._notes.view().parts():
            late = np.empty(len(page), np.bool_)
            overdue(page, now, betas, floors, self.rule.cold_days, late)
            late &= self._cold.array[start : start + len(page)] == 0
            found.append(np.flatnonzero(late) + start)
        return np.concatenate(found)

    def cool(self, rows: Sequence[int] | NDArray[np.int64]) -> None:
        """Move notes to the cold tier."""
        if len(rows):
            self._set_cold(rows, 1)
            self._view = None

    def forget(self, rows: Sequence[int]) -> None:
        """Drop what could name anything of forgotten notes."""
        for row in rows:
            self._sessions.pop(row, None)

    def _set_cold(self, rows: Sequence[int] | NDArray[np.int64], value: int) -> None:
        cold = self._cold.array.copy()  # views keep theirs
        cold[np.asarray(rows, np.int64)] = value
        self._cold.replace(cold)

    # -- looking --------------------------------------------------------------------------------

    def view(self) -> StatesView:
        """The states as they are now."""
        if self._view is None:
            self._view = StatesView(self._notes.view(), self._cold.array, self.rule)
        return self._view

    def copy(self) -> NoteStates:
        """The states as they are now; what is done to either does not reach the other."""
        other = copy(self)
        other._notes, other._cold = self._notes.copy(), Growable(np.uint8)
        other._cold.append(self._cold.array)
        other._sessions = dict(self._sessions)
        return other

    # -- disk -----------------------------------------------------------------------------------

    def changed(self) -> NDArray[np.int64]:
        """Rows that are not as they were written, int64 [m] ascending, forgotten ones included."""
        found = [np.flatnonzero(self._cold.array)]
        for start, page in self._notes.view().parts():
            found.append(np.flatnonzero(page["accesses"]) + start)
        return np.unique(np.concatenate(found))

    def to_columns(self, rows: Sequence[int] | NDArray[np.int64]) -> dict[str, pa.Array]:
        """The states of rows as STATE_COLUMNS, parallel to `rows`; null where nothing changed.

        ``tier`` is "cold" or null, ``category`` "core" for a promoted note, else null,
        ``sessions`` a JSON list or null.
        """
        index = np.asarray(rows, np.int64)
        notes, cold = self._notes.view().take(index), self._cold.array[index] != 0
        untouched = notes["accesses"] == 0
        sessions = [self._sessions.get(row) for row in index.tolist()]
        columns = {
            name: pa.array(np.ascontiguousarray(notes[name]), STATE_COLUMNS[name], mask=untouched)
            for name in ("stability", "last_access", "accesses")
        }
        columns["tier"] = marked("cold", cold)
        columns["category"] = marked("core", notes["category"] == PROMOTED)
        columns["sessions"] = pa.array(
            [json.dumps(names, ensure_ascii=False) if names else None for names in sessions],
            pa.string(),
        )
        return columns

    def restore(
        self,
        rows: Sequence[int] | NDArray[np.int64],
        columns: Mapping[str, pa.Array | pa.ChunkedArray] | pa.Table,
    ) -> None:
        """Take what `to_columns` gave for rows that are appended already; no column is needed."""
        index = np.asarray(rows, np.int64)
        names = columns.column_names if isinstance(columns, pa.Table) else columns
        held = {name: columns[name] for name in STATE_COLUMNS if name in names}
        known = {name: np.flatnonzero(np.asarray(held[name].is_valid())) for name in held}
        if "accesses" in held:
            which = known["accesses"]
            numbers = ("stability", "last_access", "accesses", "category")
            values = (
                held[name].take(pa.array(which)).to_pylist()
                if name in held
                else [None] * len(which)
                for name in numbers
            )
            for row, *state in zip(index[which].tolist(), *values, strict=True):
                self._set(row, *state)
        if "sessions" in held:
            told = held["sessions"].take(pa.array(known["sessions"])).to_pylist()
            for row, text in zip(index[known["sessions"]].tolist(), told, strict=True):
                self._sessions[row] = _named(text)
        if "tier" in held:
            self.cool(index[known["tier"]])
        self._view = None

    def _set(
        self, row: int, stability: float, last_access: int, accesses: int, category: str | None
    ) -> None:
        page, place = self._notes.change(row)
        _, importance, _, _, code = page[place].tolist()
        code = code if category is None else PROMOTED
        page[place] = (stability, importance, last_access, accesses, code)


def _named(text: str) -> tuple[str, ...]:
    names = loads(text)
    if type(names) is not list or not all(type(name) is str for name in names):
        raise InvalidInput(f"sessions: found {text[:40]!r}, expected a list of names.")
    return tuple(names)


def codes(categories: pa.Array | Sequence[str | None] | None, n: int) -> NDArray[np.uint8]:
    """Category codes, uint8 [n]; None and names that are not known are episodic."""
    if categories is None:
        return np.zeros(n, np.uint8)
    if isinstance(categories, pa.Array):
        encoded = categories.dictionary_encode()
        table = [*(CODES.get(name, EPISODIC) for name in encoded.dictionary.to_pylist()), EPISODIC]
        places: NDArray[np.int64] = encoded.indices.fill_null(len(table) - 1).to_numpy()
        return np.array(table, np.uint8)[places]
    return np.array([CODES.get(name or "", EPISODIC) for name in categories], np.uint8)


def marked(text: str, which: NDArray[Any]) -> pa.Array:
    """`text` where `which` is true, null elsewhere; both [n]."""
    return pc.if_else(pa.array(which), pa.scalar(text), pa.scalar(None, pa.string()))
