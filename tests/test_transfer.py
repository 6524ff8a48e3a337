"""Export and import: the copy is the source, to the last bit, and behaves as it would."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_retention import DAY
from worker import Clock, ask

import fastassoc as fa
from fastassoc.exported import PART_BYTES, read_export

Lines = list[dict[str, Any]]
VECTORS = [[1, 0, 0, 0], [2, 0, -0.0, 0], [1, 1, 0, 0], [3, 4, 0, 1e-40], [1, 1, 1, 1], [0.1] * 4]
DIM = 4


def embedder(texts: list[str]) -> list[list[float]]:
    return [[len(text), 1.0, 0.5, text.count("o")] for text in texts]


def through_json(mem: fa.Memory) -> Lines:
    return [json.loads(json.dumps(line, allow_nan=False)) for line in mem.export_lines()]


def without_moment(lines: Lines) -> Lines:
    """Lines without what differs from one operation to the next."""
    gone = ("position", "digest", "time")
    return [{k: v for k, v in line.items() if k not in gone} for line in lines]


def filled(clock: Clock, preset: str = "cognitive", path: Path | None = None) -> fa.Memory:
    """A memory with something of everything: faded, promoted, cold, replaced, forgotten notes."""
    made = getattr(fa.Settings, preset)()
    mem: fa.Memory = (
        fa.Memory(settings=made, clock=clock, embedder=embedder)
        if path is None
        else fa.open(path, settings=made, clock=clock, embedder=embedder)
    )
    for n in range(24):
        mem.write(
            f"note {n} of tools",
            id=f"n{n}",
            concepts=["tea", f"c{n % 5}"],
            session=["s", "t", "", None][n % 4],
            vector=VECTORS[n % 6] if n % 3 else None,
            category=["episodic", None, "procedural", "semantic", "core", "other"][n % 6],
            importance=[None, 0.1, 1.0][n % 3],
            supersedes=["n2"] if n == 9 else None,
        )
        clock.advance(hours=7)
    mem.link("n1", "n2", 0.4)
    mem.link("n3", "n8", 0.7)
    mem.unlink("n1", "n2")
    mem.link("tea", "milk", 2.5)
    mem.feedback(asked=["tea"], used=["n1", "n3", "n5"], outcome=1.0)
    mem.feedback(asked=["tea"], used=["n3", "n6"], outcome=-0.3)
    for n in range(14):
        clock.advance(days=9)
        mem.read(vector=[1, 0, 0, 0], k=3, reinforce=True, session="uvw"[n % 3])
    clock.advance(days=700)
    assert mem.tick().updated
    mem.write("fresh", id="fresh", session="s", concepts=[])
    mem.update("n4", metadata={"ü": [1, None]})
    mem.forget(["n7"])
    mem.configure(note_threshold=0.25)
    recall = mem.read("the note of tools", rank="flat")
    mem.feedback(recall, asked=["tea"], used=["n4", "n1"], outcome=0.3)
    mem.feedback(recall, used=["n2"], outcome=-1.0)
    mem.link("tea", "n2", 0.5, layer="cue")
    return mem


def whole(mem: fa.Memory) -> dict[str, Any]:
    """All that is to be equal, from the tables themselves and not by way of an export."""
    state = mem._state
    live = np.flatnonzero(state.notes.alive.array)
    names = [state.notes.ids[row] for row in live.tolist()]
    vectors, found = state.space.points.take(live)
    sessions = {state.notes.plain["session"][row] for row in live.tolist()} - {None}
    columns = state.notes.states.to_columns(live)
    return {
        "settings": state.settings,
        "space": (state.space.embedder, state.space.points.dim),
        "notes": [mem.get(note).text for note in names],
        "links": ask(mem, "links"),
        "note links": ask(mem, "note_links"),
        "cue links": mem.cue_links.to_arrow().to_pylist(),
        "states": [state.notes.states.view().get(row) for row in live.tolist()],
        "kept": {name: column.to_pylist() for name, column in columns.items()},
        "sessions": {
            name: state.notes.named(state.notes.sessions.last(name, 99, state.notes.alive.array))
            for name in sessions
        },
        "vectors": (names, found.tolist(), vectors.tobytes()),
        "chains": [(mem.get(note).supersedes, mem.get(note).superseded_by) for note in names],
    }


def answers(mem: fa.Memory) -> Iterator[Any]:
    first = mem.recent(limit=1)[0].id
    for question in (
        {"vector": [1, 2, 0, 0]},
        {"vector": [1, 2, 0, 0], "hops": 3, "include_superseded": True},
        {"vector": [0, 1, 0, 0], "rank": "flat"},
        {"query": "note of tools"},
        {"query": "note of tools", "rank": "flat"},
        {"concepts": ["tea"], "rank": "counts"},
        {"like": first},
    ):
        yield mem.read(**question).to_dicts()


def same(source: fa.Memory, copy: fa.Memory) -> None:
    ours, theirs = whole(source), whole(copy)
    for name, value in ours.items():
        assert theirs[name] == value, name
    assert without_moment(through_json(copy)) == without_moment(through_json(source))
    assert copy.stats() == {**source.stats(), "position": copy.position}


@pytest.mark.parametrize("preset", ["counts", "cognitive"])
@pytest.mark.parametrize("rows", [3, 10_000])
def test_l66_the_copy_is_the_source(
    preset: str, rows: int, path: Path, tmp_path: Path, clock: Clock, monkeypatch: Any
) -> None:
    monkeypatch.setattr("fastassoc.exported.PART_ROWS", rows)
    source = filled(clock, preset, path)
    lines = through_json(source)
    states = [line["state"] for line in lines if "state" in line]
    assert {"tier", "sessions", "accesses"} <= set().union(*states)
    assert lines[0]["note_links"] > 5
    assert lines[0]["cue_links"] > 8
    made = {"settings": getattr(fa.Settings, preset)(), "clock": clock, "embedder": embedder}
    with fa.open(tmp_path / "copy.fa", **made) as mem:
        report = mem.import_lines(iter(lines))
        assert report.written == len(source)
        assert report.links_created == lines[0]["links"] + lines[0]["note_links"]
        assert report.cues_changed == lines[0]["cue_links"]
        same(source, mem)
        assert [*answers(mem)] == [*answers(source)]
        position = mem.position
        assert mem.import_lines(lines).repeated
        assert mem.position == position
    with fa.open(tmp_path / "copy.fa", clock=clock, embedder=embedder) as mem:
        same(source, mem)  # from the journal
        mem.snapshot()
    with fa.open(tmp_path / "copy.fa", clock=clock, embedder=embedder) as mem:
        same(source, mem)  # from a snapshot
        for one in (source, mem):  # and it goes on as the source does
            one.write("later", id="later", session="s", concepts=["tea"])
            one.read("note of tools", reinforce=True, session="w")
            one.forget(["n3"])
            one.tick("2050-01-01")
        same(source, mem)
    source.close()


fields = st.fixed_dictionaries(
    {
        "text": st.sampled_from(["same", "other words", "Zebra 狗"]),
        "concepts": st.lists(st.sampled_from(["alpha", "Beta", "c|d", "狗"]), max_size=3),
        "vector": st.sampled_from(VECTORS) | st.none(),
        "session": st.sampled_from(["s", "s", "t", ""]) | st.none(),
    },
    optional={
        "importance": st.sampled_from([0.0, 0.25, 1.0]),
        "category": st.sampled_from(["episodic", "semantic", "procedural", "core", ""]),
        "fingerprint": st.sampled_from(["f", ""]),
    },
)
notes = st.integers(0, 9).map("n{}".format)
steps = st.one_of(
    st.tuples(st.just("write"), fields),
    st.tuples(st.just("write"), fields),
    st.tuples(st.just("link"), notes, notes, st.sampled_from([0.3, 0.8, -0.2])),
    st.tuples(st.just("feedback"), st.lists(notes, min_size=2, max_size=3), st.just(1)),
    st.tuples(st.just("feedback"), st.lists(notes, min_size=2, max_size=3), st.just(-1)),
    st.tuples(st.just("read"), st.sampled_from(VECTORS), st.sampled_from(["s", "t", "", None])),
    st.tuples(st.just("habit"), st.sampled_from(VECTORS)),
    st.tuples(st.just("wait"), st.sampled_from([DAY, 30 * DAY, 500 * DAY, -90 * DAY])),
    st.tuples(st.just("forget"), notes),
)  # fmt: skip


def take(mem: fa.Memory, clock: Clock, step: tuple[Any, ...]) -> None:
    verb, *given_ = step
    if verb == "write":
        mem.write(**given_[0], id=f"n{mem._state.notes.next_seq}")
    elif (
        verb == "link" and given_[0] != given_[1] and {*given_[:2]} <= mem._state.notes.rows.keys()
    ):
        mem.link(*given_)
    elif verb == "feedback":
        mem.feedback(asked=["alpha"], used=given_[0], outcome=given_[1])
    elif verb == "read":
        mem.read(vector=given_[0], reinforce=True, session=given_[1], k=3)
    elif verb == "habit":
        for n in range(11):
            clock.stamp += 14 * DAY
            mem.read(vector=given_[0], reinforce=True, session="st"[n % 2], k=2)
    elif verb == "wait":
        clock.stamp += given_[0]
        mem.tick()
    elif verb == "forget":
        mem.forget([given_[0]])


@settings(max_examples=40)
@given(
    st.sampled_from(["counts", "cognitive"]),
    st.lists(steps, min_size=4, max_size=25),
    st.lists(steps, max_size=6),
    st.sampled_from([1, 3, 10_000]),
    st.sampled_from([200, PART_BYTES]),
)
def test_any_memory_can_be_copied(
    preset: str, before: list[Any], after: list[Any], rows: int, size: int
) -> None:
    clock = Clock()
    source = fa.Memory(settings=getattr(fa.Settings, preset)(), clock=clock)
    for step in [("write", {"text": "first", "concepts": [], "vector": VECTORS[0]}), *before]:
        take(source, clock, step)
    with (
        patch("fastassoc.exported.PART_ROWS", rows),
        patch("fastassoc.exported.PART_BYTES", size),
    ):
        lines = through_json(source)
        copy = fa.Memory(settings=getattr(fa.Settings, preset)(), clock=clock)
        copy.import_lines(lines)
        same(source, copy)
        assert copy.import_lines(lines).repeated
    lag = source._state.notes.next_seq - copy._state.notes.next_seq
    copy._state.notes.next_seq += lag  # `take` names notes by it
    source._state.time = copy._state.time  # an import is an operation of its own time
    for step in after:
        moment = clock.stamp
        take(source, clock, step)
        moment, clock.stamp = clock.stamp, moment
        take(copy, clock, step)
        assert clock.stamp == moment
    assert whole(copy) == whole(source)  # not the age of a concept that had been forgotten


def test_reads_of_the_copy_do_not_depend_on_its_clock(clock: Clock) -> None:
    source = filled(clock)
    lines = through_json(source)
    clock.advance(days=-2000)
    copy = fa.Memory(settings=fa.Settings.cognitive(), clock=clock, embedder=embedder)
    copy.import_lines(lines)
    assert [*answers(copy)] == [*answers(source)]


def test_parts_are_small_whatever_they_hold(clock: Clock) -> None:
    rng = np.random.default_rng(5)
    source = fa.Memory(clock=clock)
    source.write_batch(
        [
            {"text": f"{'狗' * 300} {n}", "concepts": [f"c{n}"], "vector": vector}
            for n, vector in enumerate(rng.normal(size=(4000, 512)).astype(np.float32))
        ]
    )
    lines = through_json(source)
    parts = read_export(lines).parts
    sizes = [len(part.rows) + len(part.vectors) for part in parts]
    assert max(sizes) <= PART_BYTES < 4 << 20
    assert len(sizes) < 2 + 1.2 * sum(sizes) / PART_BYTES
    assert b"".join(part.vectors for part in parts) == whole(source)["vectors"][2]
    copy = fa.Memory(clock=clock)
    copy.import_lines(lines)
    same(source, copy)


def test_a_width_outlives_its_vectors(clock: Clock) -> None:
    source = fa.Memory(clock=clock)
    source.write("one", id="n", vector=[1, 2, 3])
    source.forget(["n"])
    copy = fa.Memory(clock=clock)
    lines = through_json(source)
    copy.import_lines(lines)
    assert copy.import_lines(lines).repeated
    with pytest.raises(fa.errors.InvalidInput, match="3"):
        copy.write("two", vector=[1, 2])


def test_a_move_under_way_is_not_exported(clock: Clock, monkeypatch: Any) -> None:
    monkeypatch.setattr("fastassoc.moving.STEP_NOTES", 5)
    source = filled(clock)
    before = whole(source)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    def other(texts: list[str]) -> list[list[float]]:
        return [[len(text), 2.0] for text in texts]

    with pytest.raises(KeyboardInterrupt):
        source.reembed(other, progress=stop)
    assert source._state.space.moving is not None
    copy = fa.Memory(settings=fa.Settings.cognitive(), clock=clock)
    copy.import_lines(through_json(source))
    assert whole(copy) == before
    assert copy.reembed(other).updated == len(copy)


# -- what does not fit --------------------------------------------------------------------------


def test_another_embedder_is_refused_with_both_named(clock: Clock) -> None:
    lines = through_json(filled(clock))

    class Other:
        name, dim = "other-model", 4

        def embed(self, texts: list[str]) -> Any:
            return np.ones((len(texts), 4), np.float32)

    made = {"settings": fa.Settings.cognitive(), "clock": clock}
    copy = fa.Memory(**made, embedder=Other())
    with pytest.raises(fa.errors.EmbedderMismatch, match=r"embedder'.*other-model"):
        copy.import_lines(lines)
    assert len(copy) == 0
    assert fa.Memory(**made, embedder=embedder).import_lines(lines).written
    # vectors that callers gave go into the store of an embedder of their width
    given_by_hand = [{**lines[0], "embedder": None}, *lines[1:]]
    copy = fa.Memory(**made, embedder=Other())
    assert copy.import_lines(given_by_hand).written
    assert copy.import_lines(given_by_hand).repeated
    Other.dim = 5
    with pytest.raises(fa.errors.InvalidInput, match=r"4 numbers.* 5"):
        fa.Memory(**made, embedder=Other()).import_lines(given_by_hand)


def test_other_settings_are_refused(clock: Clock) -> None:
    with pytest.raises(fa.errors.SettingsMismatch, match="note_links"):
        fa.Memory(clock=clock).import_lines(through_json(filled(clock)))
    with pytest.raises(fa.errors.SettingsMismatch, match="note_links"):
        fa.Memory().import_lines(fa.Memory(settings=fa.Settings.cognitive()).export_lines())


def test_an_import_goes_on_only_where_it_was_cut_off(path: Path, clock: Clock) -> None:
    lines = through_json(filled(clock))

    def cut_off(where: Path, after: int) -> None:
        real, left = fa.Memory._change, after

        def change(self: Any, *args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return real(self, *args, **more)

        with (
            fa.open(where, settings=fa.Settings.cognitive(), clock=clock) as mem,
            patch.object(fa.Memory, "_change", change),
            pytest.raises(KeyboardInterrupt),
        ):
            mem.import_lines(lines)

    for after in (1, 2, 3, 4):
        where = path / str(after)
        cut_off(where, after)
        with fa.open(where, clock=clock) as mem:
            mem.snapshot()
            assert not mem.import_lines(lines).repeated
            assert without_moment(through_json(mem)) == without_moment(lines)
        other = path / f"changed-{after}"
        cut_off(other, after)
        with fa.open(other, clock=clock) as mem:
            mem.write("between")
            with pytest.raises(fa.errors.InvalidInput, match="new"):
                mem.import_lines(lines)
            assert mem.verify().ok


def text_of(*numbers: float) -> str:
    return b64encode(np.array(numbers, "<f4").tobytes()).decode()


Damage = Callable[[Lines, int, int], None]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda at: at("note").update(vector=text_of(1, 2, 3)), "expected base64 of 4"),
        (lambda at: at("note").update(vector="no base64"), "expected base64 of 4"),
        (lambda at: at("note").update(vector="é" * 24), "expected base64 of 4"),
        (lambda at: at("note").update(vector=[1, 2, 3, 4]), "expected base64 of 4"),
        (lambda at: at("note").update(vector=text_of(1, 2, 3, np.nan)), "NaN"),
        (lambda at: at("note").update(vector=text_of(0, 0, 0, 0)), "zero"),
        (lambda at: at("note").update(state=[]), "expected an object"),
        (lambda at: at("note").update(state={"tier": "warm"}), "tier"),
        (lambda at: at("note").update(state={"category": "semantic"}), "category"),
        (lambda at: at("note").update(state={"category": "core"}), "accesses"),
        (lambda at: at("note").update(state={"accesses": 0}), "accesses"),
        (lambda at: at("note").update(state={"accesses": 1, "stability": 2}), "stability"),
        (lambda at: at("note").update(state={"accesses": 1, "stability": 1}), "last_access"),
        (lambda at: at("note").update(state={"sessions": ["s"]}), "accesses"),
        (lambda at: at("note").update(state={"sessions": ["s", "s"]}), "sessions"),
        (lambda at: at("note").update(state={"sessions": "s"}), "sessions"),
        (lambda at: at("link").update(a="nobody"), "no note row"),
        (lambda at: at("link").update(a=at("link")["b"]), "itself"),
        (lambda at: at("link").update(layer="cues"), "layer"),
        (lambda at: at("link").update(layer="cue"), "term"),
        (lambda at: at("cue").update(layer="note"), "order"),
        (lambda at: at("cue").update(layer="note", term="concept"), "order"),
        (lambda at: at("cue").update(b="nobody"), "no note row"),
        (lambda at: at("cue").update(term="concept"), "order"),
        (lambda at: at("cue").update(term="word"), "term"),
        (lambda at: at("concept cue").update(a="unheard"), "no concept row"),
        (lambda at: at("concept cue").update(b=at("concept cue")["a"]), "no note row"),
        (lambda at: at("link").update(weight=float("nan")), "weight"),
        (lambda at: at("link").update(weight=10**400), "weight"),
        (lambda at: at("link").update(count=-1), "count"),
        (lambda at: at("store").update(dim=None), "no width"),
        (lambda at: at("store").update(dim=0), "dim"),
        (lambda at: at("store").update(time="now"), "time"),
        (lambda at: at("store").update(embedder="m"), "embedder"),
        (lambda at: at("store").update(embedder={"name": "m", "dim": 3}), "width 3"),
        (lambda at: at("end").update(note_links=0), "missing"),
        (lambda at: at("end").pop("note_links"), "missing"),
        (lambda at: at("end").update(cue_links=7), "missing"),
        (lambda at: at("end").pop("cue_links"), "missing"),
    ],
)
def test_a_bad_line_is_named(damage: Callable[[Any], None], reason: str, clock: Clock) -> None:
    lines = through_json(filled(clock))
    places = {line["kind"]: number for number, line in enumerate(lines)}
    layers = {line.get("layer"): number for number, line in enumerate(lines)}
    places.update(link=layers["note"], cue=layers["cue"])
    terms = {line.get("term"): number for number, line in enumerate(lines)}
    places["concept cue"] = terms["concept"]
    places["note"] = next(n for n, line in enumerate(lines) if "vector" in line)
    touched = []

    def at(kind: str) -> dict[str, Any]:
        touched.append(places[kind])
        return lines[places[kind]]

    damage(at)
    expected = touched[0] if reason != "no width" else places["note"]
    copy = fa.Memory(settings=fa.Settings.cognitive(), clock=clock)
    with pytest.raises(fa.errors.InvalidInput, match=reason) as caught:
        copy.import_lines(lines)
    assert f"line {expected + 1} of the export" in str(caught.value)
    assert (len(copy), copy.position) == (0, 0)


def test_layers_of_links_stand_in_order(clock: Clock) -> None:
    lines = through_json(filled(clock))
    links = [n for n, line in enumerate(lines) if line["kind"] == "link"]
    lines[links[0]], lines[links[-1]] = lines[links[-1]], lines[links[0]]
    with pytest.raises(fa.errors.InvalidInput, match=f"line {links[1] + 1} .*layer 'cue'"):
        fa.Memory(settings=fa.Settings.cognitive()).import_lines(lines)


def test_links_in_another_order_are_taken(clock: Clock) -> None:
    source = filled(clock)
    lines = through_json(source)
    shuffled = sorted(
        lines,
        key=lambda line: (
            ["store", "concept", "note", "link", "end"].index(line["kind"]),
            ["concept", "note", "cue"].index(line.get("layer", "concept")),
            line.get("term", ""),
            line.get("b", "") if line["kind"] == "link" else "",
        ),
    )
    assert shuffled != lines
    copy = fa.Memory(settings=fa.Settings.cognitive(), clock=clock)
    with patch("fastassoc.exported.PART_ROWS", 4):
        copy.import_lines(shuffled)
    same(source, copy)


OLD = [
    {"kind": "store", "format": 1, "position": 4, "digest": "d" * 32, "concepts": 2, "notes": 2,
     "links": 1, "settings": {"names": "fold", "concept_links.threshold": 3.0}},
    {"kind": "concept", "key": "tea", "name": "Tea"},
    {"kind": "concept", "key": "hot", "name": "hot"},
    {"kind": "note", "id": "a", "text": "Tea is hot.", "concepts": ["tea", "hot"],
     "domain": "general", "created_at": 5, "written_at": 7, "session": "s"},
    {"kind": "note", "id": "b", "text": "No tea.", "concepts": [], "domain": "general",
     "created_at": 6, "written_at": 8, "session": "s"},
    {"kind": "link", "layer": "concept", "a": "tea", "b": "hot", "weight": 3.5, "written": 1.0,
     "count": 1, "valence": 0.3, "created_at": 7, "updated_at": 9},
    {"kind": "end", "concepts": 2, "notes": 2, "links": 1},
]  # fmt: skip


def test_an_export_of_format_1_is_read(clock: Clock) -> None:
    copy = fa.Memory(clock=clock)
    assert copy.import_lines(OLD).written == 2
    assert copy.import_lines(OLD).repeated
    assert copy.links.weight("tea", "hot") == 3.5
    assert copy.settings.concept_links.threshold == 3.0
    assert len(copy.note_links.to_arrow()) == 0
    assert whole(copy)["sessions"] == {"s": ["a", "b"]}
    state = copy._state.notes.states.view().get(1)
    assert (state.stability, state.last_access, state.accesses) == (0.25, 8, 0)
    copy.write("More tea.", id="c", session="s", vector=[1, 2])
    assert copy.note_links.weight("b", "c") == 1.0
