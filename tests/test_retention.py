"""Retention against its values and its slow twin: growth, core notes, the cold tier, the disk."""

from __future__ import annotations

import math
from typing import Any

import naive_retention as naive
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_retention import DAY

from fastassoc.columns import PAGE, Pages
from fastassoc.kernels import retention as kernels
from fastassoc.retention import STATE_COLUMNS, NoteStates, StatesView
from fastassoc.settings import RetentionRule

YEARS = [0, 7, 30, 90, 365]
GOLDEN = {
    "episodic": [1.0, 0.732632, 0.263597, 0.02, 0.02],
    "semantic": [1.0, 0.943335, 0.778801, 0.472367, 0.047755],
    "core": [1.0, 0.889882, 0.606531, 0.6, 0.6],
    "procedural": [1.0] * 5,
    None: [1.0, 0.732632, 0.263597, 0.02, 0.02],
    "whatever": [1.0, 0.732632, 0.263597, 0.02, 0.02],
}


def states_of(*notes: tuple[float, str | None], at: int = 0) -> NoteStates:
    states = NoteStates(RetentionRule())
    states.append(np.array([i for i, _ in notes]), [c for _, c in notes], at)
    return states


def one(view: StatesView, row: int, now: int) -> float:
    return float(view.retention(np.array([row]), now)[0])


# -- the values of the rules -----------------------------------------------------------------------


@pytest.mark.parametrize("category", GOLDEN)
def test_golden_values(category: str | None) -> None:
    states = states_of((0.5, category))
    assert states.view().get(0).stability == 0.25
    for days, want in zip(YEARS, GOLDEN[category], strict=True):
        assert one(states.view(), 0, days * DAY) == pytest.approx(want, abs=6e-7)


def test_importance_lengthens_twice() -> None:
    states = states_of((0.0, None), (1.0, None))
    assert [states.view().get(row).stability for row in (0, 1)] == [0.1, 0.4]
    assert one(states.view(), 0, 3 * DAY) == pytest.approx(math.exp(-3 / 4.5))
    assert one(states.view(), 1, 3 * DAY) == pytest.approx(math.exp(-3 / (0.4 * 3 * 45)))


@pytest.mark.parametrize(
    ("days", "direct", "associated"),
    [(0, 0.25, 0.25), (3.5, 0.3, 0.265), (7, 0.35, 0.28), (14, 0.45, 0.31), (400, 0.45, 0.31)],
)
def test_stability_grows_with_the_time_since_the_last_access(
    days: float, direct: float, associated: float
) -> None:
    states = states_of((0.5, None), (0.5, None), (0.5, None))
    assert states.reinforce([0], [1], "s", int(days * DAY)) == [1, 0]
    found = [states.view().get(row) for row in range(3)]
    assert [note.stability for note in found] == pytest.approx([direct, associated, 0.25])
    assert [note.accesses for note in found] == [1, 1, 0]
    assert [note.last_access for note in found] == [int(days * DAY), int(days * DAY), 0]


def test_stability_ends_at_one() -> None:
    states = states_of((0.5, None))
    for number in range(1, 30):
        states.reinforce([0], [], None, number * 30 * DAY)
    assert states.view().get(0).stability == 1.0
    assert states.view().get(0).category == "episodic"  # no sessions


def test_a_note_becomes_core_after_ten_accesses_in_two_sessions() -> None:
    def after(accesses: int, sessions: list[str | None], gap: int, category: str | None) -> str:
        states = states_of((0.5, category))
        for number in range(accesses):
            states.reinforce([0], [], sessions[number % len(sessions)], (number + 1) * gap * DAY)
        return states.view().get(0).category

    assert after(10, ["a", "b"], 7, None) == "core"
    assert after(9, ["a", "b"], 7, None) == "episodic"
    assert after(10, ["a"], 7, None) == "episodic"
    assert after(30, ["a", None], 7, None) == "episodic"
    assert after(10, ["a", "b", "c"], 1, None) == "episodic"  # stability 0.39
    assert after(10, ["a", "b"], 7, "semantic") == "core"
    assert after(10, ["a", "b"], 7, "procedural") == "procedural"  # it never fades


def test_a_core_note_keeps_the_floor_of_core() -> None:
    states = states_of((0.5, "semantic"))
    for number in range(10):
        states.reinforce([0], [], "ab"[number % 2], (number + 1) * 7 * DAY)
    assert one(states.view(), 0, 5000 * DAY) == 0.6
    assert states.due(10**6 * DAY).tolist() == []


# -- the cold tier ---------------------------------------------------------------------------------


def test_seven_days_at_the_floor() -> None:
    at_floor = 0.25 * 2 * 45 * -math.log(0.02)
    states = states_of((0.5, None), (0.5, "semantic"), (0.5, "procedural"), (0.5, "core"))
    assert one(states.view(), 0, int(at_floor * DAY) + 1) == 0.02
    just = int((at_floor + 7) * DAY)
    assert states.due(just - 1000).tolist() == []
    assert states.due(just + 1000).tolist() == [0]
    assert states.due(10**6 * DAY).tolist() == [0, 1]


def test_due_counts_days_and_never_calls() -> None:
    """Asked a thousand times on the days before, it comes on the same day as asked once."""
    states, control = states_of((0.5, None)), states_of((0.5, None))
    moved = []
    for day in range(100):
        for _ in range(10):
            late = states.due(day * DAY)
            states.cool(late)
            moved += [day] * len(late)
    assert moved == [96]
    assert control.due(95 * DAY).tolist() == []
    assert control.due(96 * DAY).tolist() == [0]
    assert (states.view().cold.tolist(), control.view().cold.tolist()) == ([1], [0])


def test_cooling_twice_is_cooling_once() -> None:
    states = states_of(*[(0.5, None)] * 3)
    states.cool([1])
    states.cool(states.due(50 * DAY))
    states.cool([1])
    assert states.view().cold_mask(3).tolist() == [0, 1, 0]
    assert states.view().cold_mask(2).tolist() == [0, 1]
    states.reinforce([], [1], None, 60 * DAY)
    assert states.view().cold_mask(3).tolist() == [0, 0, 0]


def test_a_clock_set_back_raises_nothing() -> None:
    now = 1000 * DAY
    states = states_of((0.5, None), (0.5, "core"), at=now - 20 * DAY)
    view, rows = states.view(), np.array([0, 1])
    today = view.retention(rows, now)
    assert (view.retention(rows, now - 10 * DAY) >= today).all()  # no more than it was then
    assert view.retention(rows, now - 400 * DAY).tolist() == [1.0, 1.0]
    states.reinforce([0], [1], "s", now - 400 * DAY)
    assert [states.view().get(row).stability for row in (0, 1)] == [0.25, 0.25]
    assert [states.view().get(row).last_access for row in (0, 1)] == [now - 20 * DAY] * 2
    assert states.view().retention(rows, now).tolist() == today.tolist()
    assert states.due(now - 400 * DAY).tolist() == []


# -- views and the disk ----------------------------------------------------------------------------


def test_views_are_not_changed_later() -> None:
    n = 2 * PAGE + 5
    states = NoteStates(RetentionRule())
    states.append(np.full(n, 0.5), None, 0)
    rows = np.arange(n)
    first = states.view()
    assert states.view() is first
    before = first.notes.take(rows).copy()
    states.reinforce([0, PAGE, n - 1], [3], "s", 9 * DAY)
    second = states.view()
    states.cool([4])
    states.append(np.array([1.0]), ["core"], 5)
    third = states.view()
    states.reinforce([4, n], [], None, 30 * DAY)
    assert (first.notes.take(rows) == before).all()
    assert (len(first), len(second), len(third)) == (n, n, n + 1)
    assert first.cold.sum() == second.cold.sum() == 0
    assert third.cold.sum() == third.cold[4] == 1
    assert [second.get(row).accesses for row in (0, 3, 4, PAGE, n - 1)] == [1, 1, 0, 1, 1]
    assert third.get(n).accesses == 0
    assert states.view().cold.sum() == 0
    shared = sum(a is b for a, b in zip(first.notes.pages, second.notes.pages, strict=True))
    assert shared == 0  # each of the three pages had a change
    assert third.notes.pages[1] is second.notes.pages[1]


def test_a_copy_goes_its_own_way() -> None:
    states = states_of((0.5, None), (0.5, None))
    states.reinforce([0], [], "s", 7 * DAY)
    other = states.copy()
    other.reinforce([0], [], "t", 14 * DAY)
    other.cool([1])
    other.append(np.array([0.1]), None, 1)
    states.append(np.array([0.9]), None, 2)
    assert states.view().get(0).accesses == 1
    assert states.view().cold.tolist() == [0, 0, 0]
    assert (states.view().get(2).importance, other.view().get(2).importance) == (0.9, 0.1)
    assert states.to_columns([0])["sessions"].to_pylist() == ['["s"]']
    assert other.to_columns([0])["sessions"].to_pylist() == ['["s", "t"]']


def test_only_what_changed_is_saved() -> None:
    states = states_of((0.5, "semantic"), (0.5, None), (0.5, "core"), (0.2, None))
    assert states.changed().tolist() == []
    states.reinforce([2], [], "é", 7 * DAY)
    states.cool([1])
    assert states.changed().tolist() == [1, 2]
    columns = states.to_columns([0, 1, 2])
    assert {name: column.type for name, column in columns.items()} == STATE_COLUMNS
    assert columns["stability"].to_pylist() == [None, None, 0.35]
    assert columns["accesses"].to_pylist() == [None, None, 1]
    assert columns["tier"].to_pylist() == [None, "cold", None]
    assert columns["category"].to_pylist() == [None, None, None]
    assert columns["sessions"].to_pylist() == [None, None, '["é"]']
    states.forget([2])
    assert states.to_columns([2])["sessions"].to_pylist() == [None]


def test_no_notes_at_all() -> None:
    states = NoteStates(RetentionRule())
    assert states.view().retention(np.empty(0, np.int64), 5).tolist() == []
    assert states.due(10**18).tolist() == states.changed().tolist() == []
    assert [len(column) for column in states.to_columns([]).values()] == [0] * len(STATE_COLUMNS)
    states.restore([], states.to_columns([]))
    states.append(np.empty(0), [], 5)
    states.reinforce([], [], "s", 5)
    assert len(states) == len(states.view()) == 0


def test_an_older_store_has_no_columns() -> None:
    states = states_of((0.5, None))
    states.restore([0], {})
    states.restore([0], {name: pa.nulls(1, kind) for name, kind in STATE_COLUMNS.items()})
    states.restore([0], pa.table({"valence": [0.5], "tier": pa.nulls(1, pa.string())}))
    assert states.changed().tolist() == []


# -- against the twin ------------------------------------------------------------------------------

names = st.sampled_from([None, "episodic", "semantic", "procedural", "core", "other"])
new_notes = st.lists(
    st.tuples(st.sampled_from([0.0, 0.3, 0.5, 1.0]), names), min_size=1, max_size=4
)
numbers = st.lists(st.integers(0, 9), max_size=4)
sessions = st.sampled_from([None, "a", "b", "c"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), new_notes, st.booleans()),
        st.tuples(st.just("reinforce"), numbers, numbers, sessions),
        st.tuples(st.just("reinforce"), numbers, numbers, sessions),
        st.tuples(st.just("many"), st.integers(0, 9), st.integers(1, 8)),
        st.tuples(st.just("tick"), st.integers(-20, 500)),
        st.tuples(st.just("jump"), st.sampled_from([0, 1, 7, 13.5, 200, 600, -30])),
        st.tuples(st.just("view")),
        st.tuples(st.just("disk")),
    ),
    max_size=30,
)


def same(states: NoteStates, twin: list[dict[str, Any]], now: int) -> None:
    view = states.view()
    assert len(states) == len(view) == len(twin)
    for row, note in enumerate(twin):
        found = view.get(row)._asdict()
        assert found == {key: note[key] for key in found}
    rows = np.arange(len(twin))[::-1]
    for time in (now, now + 11 * DAY, now - 60 * DAY, now + 1000 * DAY):
        want = [naive.retention(twin[row], time) for row in rows]
        assert view.retention(rows, time).tolist() == want
        assert view.retention(rows, time, 0.3).tolist() == [kept**0.3 for kept in want]
        assert states.due(time).tolist() == [
            row for row, note in enumerate(twin) if naive.is_due(note, time)
        ]


def saved(states: NoteStates, twin: list[dict[str, Any]], written: list[int]) -> NoteStates:
    """What an open finds of what a snapshot kept."""
    loaded = NoteStates(states.rule)
    loaded.append(
        np.array([note["importance"] for note in twin]),
        pa.array([note["given"] for note in twin], pa.string()),
        np.array(written, np.int64),
    )
    rows = states.changed()
    columns = states.to_columns(rows)
    loaded.restore(rows, columns if len(rows) % 2 else pa.table(columns))
    assert all(
        a.equals(b)
        for a, b in zip(
            loaded.to_columns(range(len(twin))).values(),
            states.to_columns(range(len(twin))).values(),
            strict=True,
        )
    )
    return loaded


@given(steps)
@settings(max_examples=150, deadline=None)
def test_states_equal_the_twin(made: list[tuple[Any, ...]]) -> None:
    states, twin, written, now = NoteStates(RetentionRule()), [], [], 10**15
    held: list[tuple[StatesView, list[Any]]] = []
    for kind, *given_values in [("append", [(0.5, None)], False), *made]:
        if kind == "append":
            notes, as_arrow = given_values
            given_names = [category for _, category in notes]
            states.append(
                np.array([importance for importance, _ in notes]),
                pa.array(given_names, pa.string()) if as_arrow else given_names,
                now,
            )
            twin += [{**naive.new(i, c, now), "given": c} for i, c in notes]
            written += [now] * len(notes)
        elif kind == "reinforce":
            direct, associated, session = given_values
            direct = list(dict.fromkeys(n % len(twin) for n in direct))
            associated = list(dict.fromkeys(n % len(twin) for n in associated))
            states.reinforce(direct, associated, session, now)
            for row in {*direct, *associated}:
                naive.access(twin[row], row in direct, session, now)
        elif kind == "many":
            row, days = given_values[0] % len(twin), given_values[1]
            for number in range(10):
                now += days * DAY
                states.reinforce([row], [], "ab"[number % 2], now)
                naive.access(twin[row], True, "ab"[number % 2], now)
        elif kind == "tick":
            time = now + given_values[0] * DAY
            states.cool(states.due(time))
            for note in twin:
                note["cold"] = note["cold"] or naive.is_due(note, time)
        elif kind == "jump":
            now += int(given_values[0] * DAY)
        elif kind == "view":
            view = states.view()
            held.append((view, [view.get(row) for row in range(len(view))]))
        else:
            states = saved(states, twin, written)
    same(states, twin, now)
    for view, before in held:
        assert [view.get(row) for row in range(len(view))] == before


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 4)), max_size=5))
@settings(max_examples=50)
def test_kernels_are_plain_functions(made: list[tuple[float, float, int]]) -> None:
    from fastassoc.retention import NOTE, fading

    notes = np.array([(s, i, 5 * DAY, 0, c) for s, i, c in made], NOTE)
    betas, floors = fading(RetentionRule())
    plain, quick = np.empty((2, len(notes)))
    late, soon = np.empty((2, len(notes)), np.bool_)
    for now in (0, 30 * DAY, 900 * DAY):
        for power in (1.0, 0.3, 0.0, 2.5):
            kernels._retentions(notes, now, betas, floors, power, plain)
            kernels.retentions(notes, now, betas, floors, power, quick)
            assert plain.tolist() == quick.tolist()
        kernels._overdue(notes, now, betas, floors, 7.0, late)
        kernels.overdue(notes, now, betas, floors, 7.0, soon)
        assert late.tolist() == soon.tolist()
    if len(notes):
        s, i = float(notes[0]["stability"]), float(notes[0]["importance"])
        assert kernels._time_constant(s, i, 45.0) == kernels.time_constant(s, i, 45.0)


# -- pages -----------------------------------------------------------------------------------------


@given(
    st.lists(
        st.one_of(
            st.integers(0, 2 * PAGE + 3).map(lambda n: ("append", n)),
            st.lists(st.integers(0, 10**6), max_size=5).map(lambda rows: ("change", rows)),
            st.just(("view", None)),
            st.just(("copy", None)),
        ),
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_pages_equal_a_list(made: list[tuple[str, Any]]) -> None:
    pages, plain, held = Pages(np.int64), [], []
    for number, (kind, what) in enumerate(made):
        if kind == "append":
            fresh = list(range(number * 10**6, number * 10**6 + what))
            pages.append(np.array(fresh, np.int64))
            plain += fresh
        elif kind == "change" and plain:
            for row in what:
                page, place = pages.change(row % len(plain))
                page[place] = plain[row % len(plain)] = -row
        elif kind == "view":
            held.append((pages.view(), list(plain)))
        elif kind == "copy":
            held.append((pages.view(), list(plain)))
            other = pages.copy()
            pages.append(np.array([7]))
            pages = other
    held.append((pages.view(), plain))
    rng = np.random.default_rng(len(plain))
    for view, want in held:
        assert len(view) == len(want)
        assert [v for _, part in view.parts() for v in part.tolist()] == want
        assert view.take(np.empty(0, np.int64)).tolist() == []
        for size in (3, 5 * PAGE) if want else ():
            rows = rng.integers(0, len(want), size)
            assert view.take(rows).tolist() == [want[row] for row in rows]
