"""Failures that users of comparable systems reported, each as a test by its code."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from worker import Clock, Worker, plain_links, plain_recall

import fastassoc as fa
from fastassoc.errors import FastAssocError, StoreLocked
from fastassoc.settings import LinkRule

DAY = 86_400_000_000
FULL = bool(os.environ.get("FASTASSOC_FULL"))  # the sizes of the reports, not those of a quick run


def made(count: int, seed: int = 0, concepts: int = 60, prefix: str = "n") -> list[dict[str, Any]]:
    """Notes with a few concepts each, some of them much more common than others."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        names = {f"c{int(concepts * draw.random() ** 2)}" for _ in range(draw.randint(0, 6))}
        rows.append(
            {
                "id": f"{prefix}{number}",
                "text": f"note {draw.randrange(count)}",
                "concepts": sorted(names),
            }
        )
    return rows


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    pairs: Counter[str] = Counter()
    for row in rows:
        for a, b in itertools.combinations(sorted(set(row["concepts"])), 2):
            pairs[f"{a}\0{b}"] += 1
    return pairs


def links(mem: Any) -> dict[str, list[Any]]:
    return plain_links(mem.links.to_arrow())


def counts(mem: Any) -> dict[str, int]:
    return {key: row[3] for key, row in links(mem).items()}


def read(mem: Any, *names: str, **how: Any) -> list[tuple[str, float]]:
    return [(hit.id, hit.rank_score) for hit in mem.read(concepts=list(names), **how)]


def python(code: str, *args: Any, **how: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        **how,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(*args: Any, status: int = 0, **how: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "fastassoc", *map(str, args)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        **how,
    )
    assert done.returncode == status, done.stderr
    return done


# -- links, writing, learning ----------------------------------------------------------------------


@pytest.mark.parametrize("batched", [False, True])
def test_l1_writing_twice_as_much_is_twice_the_work(batched: bool) -> None:
    def work(count: int) -> int:
        """Python calls that it takes; they repeat exactly, unlike seconds."""
        rows, events = made(count), itertools.count()
        mem = fa.Memory()
        mem.write_batch(made(50, prefix="warm"))
        sys.setprofile(lambda *_: next(events) and None)
        try:
            if batched:
                for start in range(0, count, 20):
                    mem.write_batch(rows[start : start + 20])
            else:
                for row in rows:
                    mem.write(row["text"], id=row["id"], concepts=row["concepts"])
        finally:
            sys.setprofile(None)
        return next(events)

    work(800)  # compiles what it meets, which is work of Python, too
    assert work(800) <= 2.5 * work(400)


def test_l1_a_batch_equals_one_by_one(mem: Any, store: Any) -> None:
    rows = made(200)
    mem.write_batch(rows)
    for row in rows:
        store.write(row["text"], id=row["id"], concepts=row["concepts"])
    assert links(mem) == links(store)
    assert (
        mem.notes.to_arrow()
        .select(["id", "text"])
        .equals(store.notes.to_arrow().select(["id", "text"]))
    )
    for name in ("c0", "c1", "c30"):
        assert read(mem, name) == read(store, name)


def test_l2_any_split_order_or_repeat_gives_the_same() -> None:
    rows, draw = made(300), random.Random(7)
    whole = fa.Memory()
    whole.write_batch(rows)
    for _ in range(6):
        order = draw.sample(rows, len(rows))
        mem, start = fa.Memory(), 0
        while start < len(order):
            size = draw.choice([1, 2, 7, 50])
            part = order[start : start + size]
            mem.write_batch(part, on_duplicate="skip")
            repeated = mem.write_batch(part, on_duplicate="skip")
            assert (repeated.written, repeated.skipped) == (0, len(part))
            start += size
        assert counts(mem) == counts(whole) == counted(rows)
        assert {key: row[:4] for key, row in links(mem).items()} == {
            key: row[:4] for key, row in links(whole).items()
        }
        assert mem.read(concepts=["c0"]).expanded_concepts == pytest.approx(
            whole.read(concepts=["c0"]).expanded_concepts
        )
        assert len(mem) == len(whole)


def test_l3_a_note_with_too_many_concepts_is_refused_alone(mem: Any) -> None:
    rows = made(10_000 if FULL else 2_000, concepts=500)
    long = {"id": "long", "text": "long", "concepts": [f"x{n}" for n in range(2000)]}
    report = mem.write_batch([*rows[:900], long, *rows[900:]], on_error="reject")
    assert (report.written, report.rejected) == (len(rows), 1)
    assert report.reasons[0][0] == 900
    assert "256" in report.reasons[0][1]
    assert "2000" in report.reasons[0][1].replace(",", "").replace("_", "")
    assert counts(mem) == counted(rows)
    full = {"id": "full", "text": "full", "concepts": [f"y{n}" for n in range(256)]}
    assert mem.write_batch([full]).links_created == 256 * 255 // 2


HASHES = """
import hashlib, json, sys
from pathlib import Path
root = Path(sys.argv[1])
print(json.dumps({
    str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
    for p in sorted(root.rglob("*"))
    if p.is_file() and not p.name.endswith(("-wal", "-shm"))
    and p.relative_to(root).parts[0] != "cache"
}))
"""


def test_l4_reading_changes_nothing(store: Any, path: Path, clock: Clock) -> None:
    store.write_batch(made(50))
    store.snapshot()
    store.write_batch(made(20, seed=1, prefix="m"))
    before, files = links(store), python(HASHES, path)
    position = store.read(concepts=["c0"]).position
    asks: list[dict[str, Any]] = [
        {"concepts": ["c0"]},
        {"concepts": ["c1", "c5"], "hops": 3},
        {"query": "note 7"},
        {"query": "nothing of the kind"},
    ]
    for number in range(1000):
        clock.advance(minutes=1)
        recall = store.read(**asks[number % 4])
        if number % 100 == 0:
            store.graph(["c0"], depth=2)
            store.associate(["c1"])
            store.recent()
            store.rebuild_links()
    assert links(store) == before
    assert python(HASHES, path) == files
    assert recall.position == position
    (a, b), weight = before.popitem()[0].split("\0"), 0.0
    weight = store.links.weight(a, b)
    store.feedback(asked=[a], used_concepts=[b], outcome=1.0)
    assert store.links.weight(a, b) == weight + 1
    store.feedback(asked=[a], used_concepts=[b], outcome=-1.0)
    assert store.links.weight(a, b) == weight


FADING = fa.Settings.counts(
    concept_links=LinkRule(floor=0.0, ceiling=1.0, threshold=0.01, decay_days=90.0)
)


def strength(mem: Any) -> float:
    return mem.read(concepts=["a"]).expanded_concepts.get("b", 0.0)


@pytest.mark.parametrize("way", ["one look", "many looks", "opened each day"])
def test_l5_looking_does_not_hasten_the_fading(path: Path, clock: Clock, way: str) -> None:
    mem = fa.open(path, settings=FADING, clock=clock)
    mem.write("there", id="there", concepts=["b"])
    mem.link("a", "b", 0.9)
    stored = {key: row[3:] for key, row in links(mem).items()}
    for _ in range(30):
        clock.advance(days=1)
        if way != "one look":
            strength(mem)
        if way == "opened each day":
            mem.close()
            mem = fa.open(path, clock=clock)
    assert strength(mem) == pytest.approx(0.644878, abs=1e-6)
    assert strength(mem) == pytest.approx(0.9 * math.exp(-30 / 90), abs=1e-6)
    assert {key: row[3:] for key, row in links(mem).items()} == stored
    mem.close()


def test_l5_a_change_comes_after_the_fading(clock: Clock) -> None:
    mem = fa.Memory(settings=FADING, clock=clock)
    mem.write("there", id="there", concepts=["b"])
    mem.link("a", "b", 0.5)
    clock.advance(days=360)
    mem.link("a", "b", 0.1)
    assert strength(mem) == pytest.approx(0.109158, abs=1e-6)


def test_l6_a_clock_set_back_raises_no_weight(path: Path, clock: Clock) -> None:
    with fa.open(path, settings=FADING, clock=clock) as mem:
        mem.write("there", id="there", concepts=["b"])
        mem.link("a", "b", 0.9)
        clock.advance(days=30)
        mem.link("a", "c", 0.5)
        at_most, weight = strength(mem), mem.links.weight("a", "b")
        stored = links(mem)
        for days in (-1, -29, -370):
            clock.advance(days=days)
            assert strength(mem) <= at_most + 1e-9
            assert mem.links.weight("a", "b") <= weight + 1e-9
        mem.link("a", "d", 0.5)  # the clock says the past; the operation is not in it
        assert links(mem)["a\0d"][6] == stored["a\0c"][6]
        mem.link("a", "b", 0.0)
        assert strength(mem) <= at_most + 1e-9
    with fa.open(path, clock=clock) as mem:
        assert strength(mem) <= at_most + 1e-9
        mem.write("from the future", id="f", concepts=["b"], created_at=datetime(2090, 1, 1))
        assert strength(mem) <= at_most + 1e-9


def test_l7_naive_and_aware_times_in_any_order() -> None:
    noon = datetime(2024, 3, 1, 12)
    stamps = [
        noon,
        noon.replace(tzinfo=UTC) + timedelta(hours=1),
        (noon + timedelta(hours=7)).replace(tzinfo=timezone(timedelta(hours=5))),
        "2024-03-01T15:00:00",
        "2024-03-01T16:00:00Z",
        "2024-03-01T18:00:00+01:00",
    ]
    rows = [
        {"id": f"n{n}", "text": "t", "concepts": ["a"], "created_at": stamp}
        for n, stamp in enumerate(stamps)
    ]
    for order in (rows, rows[::-1], rows[3:] + rows[:3]):
        mem = fa.Memory()
        mem.write_batch(order)
        assert [note.id for note in mem.recent()] == ["n5", "n4", "n3", "n2", "n1", "n0"]
        assert all(note.created_at.tzinfo is not None for note in mem.recent())
        late = {hit.id for hit in mem.read(concepts=["a"], since=noon + timedelta(hours=3))}
        assert late == {"n3", "n4", "n5"}
        aware = noon.replace(tzinfo=UTC)
        assert {hit.id for hit in mem.read(concepts=["a"], until=aware)} == {"n0"}


def test_l8_the_hop_factor_counts_steps() -> None:
    rule = LinkRule(threshold=0.25)
    for top in (4.0, 0.5):
        mem = fa.Memory(settings=fa.Settings.counts(concept_links=rule, hop_factor=0.5))
        for a, b in ("ab", "bc", "cd"):
            mem.link(a, b, top)
        for name in "abcd":
            mem.write(f"about {name}", concepts=[name])
        found = mem.read(concepts=["a"], hops=3).expanded_concepts
        assert found == {"b": top, "c": top / 2, "d": top / 4}
        mem.link("d", "b", top)
        mem.link("c", "c2", top)
        cyclic = mem.read(concepts=["a"], hops=3).expanded_concepts
        assert {name: cyclic[name] for name in "bcd"} == {"b": top, "c": top / 2, "d": top / 2}


def test_l9_the_fan_out_cap_bounds_what_a_hub_leads_to() -> None:
    mem = fa.Memory()
    mem.write_batch({"text": f"n{n}", "concepts": ["hub", f"c{n % 50}"]} for n in range(200))
    mem.write_batch({"text": f"m{n}", "concepts": ["rare", "pair"]} for n in range(3))
    asked: dict[str, Any] = {"concepts": ["hub", "rare"], "k": 300}
    assert len(mem.read(**asked).expanded_concepts) == 51
    mem.configure(max_fanout=4)
    capped = mem.read(**asked).expanded_concepts
    assert capped == {"c0": 4.0, "c1": 4.0, "c2": 4.0, "c3": 4.0, "pair": 3.0}


def test_l10_equal_scores_keep_their_order(path: Path) -> None:
    draw = random.Random(3)
    words = ["same", "same", "other", "Zebra"]
    rows = [
        {"id": f"{draw.random()}", "text": draw.choice(words), "concepts": ["a", f"b{n}"]}
        for n in range(100)
    ]
    order = sorted(rows, key=lambda row: row["text"], reverse=True)
    want = [row["id"] for row in order[:25]]

    def ask(mem: Any) -> list[str]:
        return [hit.id for hit in mem.read(concepts=["a"], k=25)]

    def flat(mem: Any) -> list[str]:
        return [hit.id for hit in mem.read("same words", k=25, rank="flat")]

    with fa.open(path) as mem:
        mem.write_batch(rows)
        first = flat(mem)
        assert [ask(mem) for _ in range(20)] == [want] * 20
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(lambda _: ask(mem), range(20))) == [want] * 20
            assert list(pool.map(lambda _: flat(mem), range(20))) == [first] * 20
        mem.snapshot()
        assert ask(mem) == want
    with fa.open(path) as mem:
        assert [ask(mem) for _ in range(20)] == [want] * 20
        assert flat(mem) == first
        assert ask(mem.rebuild_links()) == want


# -- delete ----------------------------------------------------------------------------------------


def test_l20_forgotten_notes_take_no_place(path: Path) -> None:
    with fa.open(path) as mem:
        for n in range(20):
            mem.write(f"the cat sat on mat {n}", id=f"n{n:02}", concepts=["cat", "mat"])
        mem.forget([f"n{n:02}" for n in range(0, 20, 2)])
        live = {f"n{n:02}" for n in range(1, 20, 2)}

        def check(mem: Any) -> None:
            for asked in ({"concepts": ["cat"]}, {"query": "cat on the mat"}, {"query": "sat"}):
                assert {hit.id for hit in mem.read(**asked, k=10)} == live
            assert {note.id for note in mem.recent()} == live
            assert mem.notes.to_arrow().num_rows == len(mem) == 10
            assert counts(mem) == {"cat\0mat": 10}
            exact = mem.read("the cat sat on mat 0", k=10)
            assert {hit.id for hit in exact} == live
            assert all(hit.source != "exact" for hit in exact)

        check(mem)
    with fa.open(path) as mem:
        check(mem)
        mem.snapshot()
        mem.vacuum()
        check(mem)
    with fa.open(path) as mem:
        check(mem)
        mem.write("the cat sat on mat 0", id="n00", concepts=["cat"])
        assert mem.read("the cat sat on mat 0")[0].id == "n00"


def test_l21_no_link_leads_to_nothing(path: Path) -> None:
    with fa.open(path) as mem:
        mem.write("lone", id="lone", concepts=["a", "b", "c"])
        mem.write("other", id="other", concepts=["a", "d"])
        mem.forget(["lone"])
        for again in (False, True):
            assert counts(mem) == {"a\0d": 1}
            assert mem.links.weight("a", "b") == 0
            assert read(mem, "b") == []
            assert mem.read(concepts=["b"]).reason
            assert list(mem.graph(["b"]).nodes) == []
            assert {name for name, _ in mem.graph(["a"]).nodes} == {"a", "d"}
            assert [name for name, _ in mem.associate(["a"])] == ["d"]
            stats = mem.stats()
            assert (stats["notes"], stats["concepts"], stats["links"]) == (1, 2, 1)
            if not again:
                mem.vacuum()


def test_l22_a_link_outlives_one_of_its_supporters(mem: Any) -> None:
    mem.write("one", id="one", concepts=["a", "b"])
    mem.write("two", id="two", concepts=["b", "a"])
    mem.forget(["one"])
    assert links(mem)["a\0b"][:4] == [1, 1, 0, 1]
    mem.forget(["two"])
    assert links(mem) == {}


SEARCH = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
found = []
for path in Path(sys.argv[1]).rglob("*"):
    if path.is_file():
        if sys.argv[2].encode() in path.read_bytes():
            found.append(path.name)
        if path.suffix == ".parquet" and sys.argv[2] in str(
            pq.read_table(path, use_threads=False).to_pydict()
        ):
            found.append(path.name + " (decoded)")
print(found)
"""


@pytest.mark.parametrize("way", ["journal", "snapshot", "bulk", "update", "reject"])
def test_l23_vacuum_erases(path: Path, way: str) -> None:
    canary = "kanarienvogel7391"
    row = {"id": f"id-{canary}", "text": f"A {canary} sang.", "concepts": ["a", f"name {canary}"]}
    with fa.open(path) as mem:
        mem.write("before", id="before", concepts=["a", "b"])
        rows: list[dict[str, Any]] = [{**row, "metadata": {"k": canary}, "author": canary}]
        if way == "bulk":
            rows += [{"id": f"f{n}", "text": f"{n}" * 700, "concepts": []} for n in range(3000)]
        if way == "reject":
            source = path.with_suffix(".jsonl")
            bad = {"text": f"bad {canary}", "concepts": canary}
            good = [{"id": f"g{n}", "text": "good", "concepts": []} for n in range(200)]
            source.write_text("\n".join(map(json.dumps, [*good, bad])) + "\n")
            mem.ingest(str(source))
            source.unlink()
        mem.write_batch(rows)
        if way == "update":
            mem.update(row["id"], metadata={"other": canary})
        if way == "snapshot":
            mem.snapshot()
            mem.write("between", id="between", concepts=["a"])
            mem.snapshot()
        mem.read(canary)
        assert python(SEARCH, path, canary).strip() != "[]"
        mem.forget([row["id"]])
        mem.vacuum()
        assert mem.read(canary).hits == [] or canary not in mem.read(canary)[0].text
        assert python(SEARCH, path, canary).strip() == "[]"
        assert links(mem)["a\0b"][:4] == [1, 1, 0, 1]
    assert python(SEARCH, path, canary).strip() == "[]"
    with fa.open(path) as mem:
        assert "before" in mem
        mem.write(row["text"], id=row["id"], concepts=row["concepts"])
        assert links(mem)[f"a\0name {canary}"][:4] == [1, 1, 0, 1]


def test_l25_a_refused_replacement_leaves_the_old_note(store: Any) -> None:
    store.write("old text", id="x", concepts=["a", "b"], metadata={"v": 1})
    before = links(store)
    bad_rows: list[dict[str, Any]] = [
        {"vector": [math.nan, 1.0]},
        {"concepts": [""]},
        {"metadata": {"v": math.nan}},
        {"importance": 7},
    ]
    for bad in bad_rows:
        row = {"id": "x", "text": "new text", "concepts": ["c", "d"], **bad}
        with pytest.raises(ValueError):
            store.write_batch([row], on_duplicate="replace")
        report = store.write_batch([row], on_duplicate="replace", on_error="reject")
        assert (report.replaced, report.rejected) == (0, 1)
        assert (store.get("x").text, store.get("x").metadata) == ("old text", {"v": 1})
        assert links(store) == before
        assert store.read("old text")[0].id == "x"


# -- restart, several processes and threads --------------------------------------------------------


def test_l30_what_was_taught_is_there_in_a_new_process(
    path: Path, clock: Clock, worker: Worker
) -> None:
    questions: list[dict[str, Any]] = [
        {"concepts": ["c0"]},
        {"concepts": ["c3", "c50"], "hops": 2},
        {"query": "what about c1 and c7?"},
        {"query": "note 12"},
    ]
    with fa.open(path, clock=clock) as mem:
        mem.write_batch(made(120))
        untaught = [plain_recall(mem.read(**q)) for q in questions]
        written = {key: row[:4] for key, row in links(mem).items()}
        mem.feedback(asked=["c0"], used_concepts=["c50", "c51"], outcome=1.0)
        mem.feedback(asked=["c0"], used_concepts=["c50"], outcome=1.0)
        mem.feedback(asked=["c3"], used=["n5", "n6"], outcome=-1.0)
        mem.link("c50", "c44", 7.0)
        taught = [plain_recall(mem.read(**q)) for q in questions]
        state = links(mem)
    assert taught != untaught
    for question, answer in zip(questions, taught, strict=True):
        again = worker.ask(path, clock.stamp, "read", **question)
        assert again == json.loads(json.dumps(answer))
    assert worker.ask(path, clock.stamp, "links") == json.loads(json.dumps(state))
    control = worker.ask(path, clock.stamp, "control")
    assert {key: row[:4] for key, row in control.items()} == written
    for question, answer in zip(questions[:2], untaught[:2], strict=True):
        again = worker.ask(path, clock.stamp, "control_read", **question)
        for hit in [*again["hits"], *answer["hits"]]:
            del hit["valence"]  # what notes were rated is not a link
        assert again["hits"] == json.loads(json.dumps(answer["hits"]))
    worker.ask(path, clock.stamp, "close")


MIX = """
import random, sys
import fastassoc as fa
me, count = sys.argv[2], int(sys.argv[3])
draw = random.Random(me)
mine = []
with fa.open(sys.argv[1], sync="normal", timeout=120) as mem:
    for n in range(count):
        kind = draw.random()
        if kind < 0.5 or not mine:
            names = draw.sample([f"c{i}" for i in range(12)], 3)
            mine.append((mem.write(f"{me} {n}", id=f"{me}-{n}", concepts=names), names))
            print("note", *names)
        elif kind < 0.65:
            rows = []
            for i in range(5):
                names = draw.sample([f"c{i}" for i in range(12)], 2)
                rows.append({"id": f"{me}-{n}-{i}", "text": "t", "concepts": names})
                mine.append((rows[-1]["id"], names))
                print("note", *names)
            mem.write_batch(rows)
        elif kind < 0.8:
            a, b = draw.sample([f"c{i}" for i in range(12)], 2)
            mem.feedback(asked=[a], used_concepts=[b], outcome=0.5)
            print("taught", a, b)
        elif kind < 0.9:
            note, names = mine.pop(draw.randrange(len(mine)))
            mem.forget([note])
            print("gone", *names)
        else:
            mem.read(concepts=["c1", "c2"])
"""
KEEP_READING = """
import sys, time
import fastassoc as fa
last = 0
with fa.open(sys.argv[1]) as mem:
    while not (mem.read(concepts=["stop"])):
        recall = mem.read(concepts=["c1"], k=5, hops=2)
        assert recall.position >= last, (recall.position, last)
        last = recall.position
"""
KEEP_SNAPPING = """
import sys, time
import fastassoc as fa
with fa.open(sys.argv[1], timeout=120) as mem:
    while not (mem.read(concepts=["stop"])):
        mem.snapshot()
        time.sleep(0.05)
"""


def test_l40_many_writers_lose_nothing(path: Path) -> None:
    writers, steps = (8, 2000) if FULL else (3, 120)
    fa.open(path).close()

    def start(code: str, *args: Any) -> subprocess.Popen[str]:
        line = [sys.executable, "-c", code, str(path), *map(str, args)]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    others = [start(KEEP_READING), start(KEEP_SNAPPING)]
    running = [start(MIX, f"w{number}", steps) for number in range(writers)]
    count: Counter[str] = Counter()
    taught: Counter[str] = Counter()
    notes = 0
    for process in running:
        out, err = process.communicate(timeout=1200)
        assert process.returncode == 0, err
        for line in out.splitlines():
            kind, *names = line.split()
            notes += {"note": 1, "taught": 0, "gone": -1}[kind]
            for a, b in itertools.combinations(sorted(names), 2):
                if kind == "taught":
                    taught[f"{a}\0{b}"] += 1
                else:
                    count[f"{a}\0{b}"] += 1 if kind == "note" else -1
    with fa.open(path) as mem:
        want = {
            key: [count[key] + taught[key] / 2, count[key]]
            for key in count | taught
            if count[key] or taught[key]
        }
        assert {key: [row[0], row[3]] for key, row in links(mem).items()} == want
        assert mem.notes.to_arrow().num_rows == mem.stats()["notes"] == len(mem) == notes
        mem.write("enough", concepts=["stop"])
    for process in others:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    with fa.open(path) as mem:
        assert {key: [row[0], row[3]] for key, row in links(mem).items()} == want


def test_l41_a_reader_sees_whole_operations_only(path: Path) -> None:
    writer = """
import sys
import fastassoc as fa
with fa.open(sys.argv[1], sync="normal") as mem:
    for n in range(60):
        rows = [{"id": f"{n}-{i}", "text": "t", "concepts": ["all", f"b{n}"]} for i in range(10)]
        mem.write_batch(rows)
        if n % 20 == 19:
            mem.snapshot()
"""
    with fa.open(path) as mem:
        process = subprocess.Popen([sys.executable, "-c", writer, str(path)])
        seen, last = 0, 0
        while process.poll() is None or seen == 0:
            recall = mem.read(concepts=["all"], k=1000)
            assert len(recall) % 10 == 0
            assert len(recall) >= last
            matrix = counts(mem)
            assert all(value == 10 for value in matrix.values())
            assert len(matrix) * 10 >= len(recall)
            seen += len(recall) != last
            last = len(recall)
        assert process.returncode == 0
        assert len(mem.read(concepts=["all"], k=1000)) == 600


def test_l42_another_process_sees_all_of_it_at_once(
    path: Path, clock: Clock, worker: Worker
) -> None:
    with fa.open(path, clock=clock) as reader:
        assert reader.read(concepts=["a"]).hits == []
        for n in range(20):
            note = f"n{n}"
            worker.ask(path, clock.stamp, "write", f"text {n}", id=note, concepts=["a", f"b{n}"])
            assert reader.get(note).text == f"text {n}"
            assert note in reader
            assert reader.read(f"text {n}")[0].id == note
            assert note in [hit.id for hit in reader.read(concepts=[f"b{n}"])]
            worker.ask(path, clock.stamp, "link", "z", f"b{n}", 3.0)
            assert reader.read(concepts=["z"], k=100).expanded_concepts[f"b{n}"] == 3
        worker.ask(path, clock.stamp, "snapshot")
        worker.ask(path, clock.stamp, "forget", ["n3"])
        assert "n3" not in reader
        assert len(reader) == 19
    worker.ask(path, clock.stamp, "close")


HOLD = """
import sys, time, apsw
db = apsw.Connection(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
db.execute("ROLLBACK")
"""


def holder(path: Path, seconds: float) -> subprocess.Popen[str]:
    line = [sys.executable, "-c", HOLD, str(path / "journal.db"), str(seconds)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_l43_a_held_lock_is_waited_for(path: Path) -> None:
    with fa.open(path) as mem:
        process = holder(path, 0.4)
        mem.write("waited", id="waited", concepts=["a", "b"])
        process.communicate()
        assert "waited" in mem


def test_l43_after_the_timeout_the_holder_is_named_and_reads_go_on(path: Path) -> None:
    with fa.open(path, timeout=0.3) as mem:
        mem.write("before", id="before", concepts=["a", "b"])
        process = holder(path, 60)
        try:
            start = time.monotonic()
            with pytest.raises(StoreLocked) as caught:
                mem.write("late", id="late", concepts=["a", "b"])
            assert 0.25 <= time.monotonic() - start < 5
            assert caught.value.waited >= 0.25
            if Path("/proc/locks").exists():
                assert caught.value.holder == process.pid
                assert str(process.pid) in str(caught.value)
            assert counts(mem) == {"a\0b": 1}
            assert "late" not in mem
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        start = time.monotonic()
        mem.write("late", id="late", concepts=["a", "b"])
        assert time.monotonic() - start < 0.3
        assert counts(mem) == {"a\0b": 2}


def test_l44_two_handles_in_one_process_leave_no_gap(path: Path) -> None:
    each = 1000 if FULL else 150
    positions: dict[int, list[int]] = {0: [], 1: []}
    with fa.open(path, sync="normal") as first, fa.open(path, sync="normal") as second:
        start = first.read(concepts=["a"]).position

        def run(number: int, mem: Any) -> None:
            for n in range(each):
                row = {"id": f"{number}-{n}", "text": "t", "concepts": ["a", "b"]}
                positions[number].append(mem.write_batch([row]).position)

        threads = [
            threading.Thread(target=run, args=(number, mem))
            for number, mem in enumerate((first, second))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        every = sorted(positions[0] + positions[1])
        assert every == list(range(start + 1, start + 2 * each + 1))
        for mem in (first, second):
            assert len(mem) == 2 * each
            assert counts(mem) == {"a\0b": 2 * each}


# -- values and names ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "vector", [[], [math.nan] * 3, [math.inf, 1.0], [0.0, 0.0], "text", [["a"]], 5, [1, None]]
)
def test_l50_bad_vectors_are_refused_and_nothing_is_half_added(mem: Any, vector: Any) -> None:
    mem.write("old", id="old", concepts=["a", "b"])
    before = links(mem)
    with pytest.raises(ValueError) as caught:
        mem.write_batch(
            [
                {"id": "good", "text": "good", "concepts": ["a", "c"]},
                {"id": "bad", "text": "bad", "concepts": ["a", "d"], "vector": vector},
            ]
        )
    assert isinstance(caught.value, FastAssocError)
    assert "vector" in str(caught.value)
    with pytest.raises(FastAssocError):
        mem.write("bad", concepts=["a", "d"], vector=vector)
    assert (links(mem), len(mem)) == (before, 1)
    assert mem.read(concepts=["d"]).hits == []


HARD = [
    *("a|b", "a b", 'a"b', "a'b", "ab", "a\\b", "a\tb|", "a,b", "a;b", "../x", "C++", "C#", "C"),
    *("日本", "日本語", "كتاب", "كتب", "🙂", "🙃", "👩\u200d👩\u200d👧", "👩\u200d👧"),
    *("ß", "ss|", "Łódź", "Lodz", "ñ", "n", "null", "NaN", "0", "-1"),
]


def test_l53_names_that_differ_are_kept_apart(path: Path, tmp_path: Path) -> None:
    def check(mem: Any) -> None:
        assert mem.stats()["concepts"] == len(HARD) + 1
        assert len(counts(mem)) == len(HARD)
        for number, name in enumerate(HARD):
            assert mem.links.weight("hub", name) == 1 + number % 3, name
            assert [hit.id for hit in mem.read(concepts=[name])] == [f"n{number}"], name
            assert mem.get(f"n{number}").concepts == ["hub", name]

    with fa.open(path) as mem:
        for number, name in enumerate(HARD):
            mem.write(f"note {number}", id=f"n{number}", concepts=["hub", name])
            mem.link("hub", name, float(number % 3))
        weak = fa.Settings.counts().with_changes({"concept_links.threshold": 1e9})
        mem.configure(**{"concept_links.threshold": weak.concept_links.threshold})
        check(mem)
        mem.snapshot()
    with fa.open(path) as mem:
        check(mem)
    out = tmp_path / "out.jsonl"
    command("export", out, "--store", path)
    command("--store", tmp_path / "copy.fa", "import", out)
    with fa.open(tmp_path / "copy.fa") as mem:
        check(mem)


def test_l54_case_variants_are_one_concept(path: Path) -> None:
    spellings = ["Straße", "STRASSE", "strasse ", " straße", "ＳＴＲＡＳＳＥ"]
    with fa.open(path) as mem:
        for number, name in enumerate(spellings):
            mem.write(f"n{number}", concepts=[name, "x"])
        assert mem.stats()["concepts"] == 2
        assert list(counts(mem).values()) == [5]
        assert mem.links.weight("X", "strasse") == 5
    exact = fa.Memory(settings=fa.Settings.counts(names="exact"))
    for name in spellings:
        exact.write("n", concepts=[name, "x"])
    assert exact.stats()["concepts"] == 6


def test_l55_empty_input(store: Any) -> None:
    def empty(recall: Any) -> None:
        assert list(recall) == []
        assert len(recall) == 0
        assert recall.expanded_concepts == {}
        assert isinstance(recall.reason, str)
        assert len(recall.reason) > 5
        assert recall.to_arrow().num_rows == 0
        assert recall.to_dicts() == []

    for _ in range(2):
        empty(store.read("anything at all"))
        empty(store.read(concepts=["unknown"]))
        empty(store.read(""))
        empty(store.read(concepts=[]))
        empty(store.read("   "))
        empty(store.read("?!"))
        empty(store.read(concepts=["known"], domain="none"))
        assert store.read_batch([]) == [] or len(store.read_batch([])) == 0
        report = store.write_batch([])
        assert (report.written, report.links_created) == (0, 0)
        assert list(store.graph(["unknown"]).nodes) == []
        assert list(store.associate(["unknown"])) == []
        assert store.forget([]).forgotten == 0
        assert links(store.rebuild_links()) == {}
        store.snapshot()
        store.verify()
        store.vacuum()
        store.write("a note without concepts", id="none", concepts=[])
        store.write("with one", id="one", concepts=["known"])
        assert links(store) == {}
        store.forget(["none", "one"])
    with pytest.raises(ValueError):
        store.write(None)
    with pytest.raises(ValueError):
        store.write_batch([None])
    with pytest.raises(ValueError):
        store.read(concepts=[None])
    with pytest.raises(KeyError):
        store.get("nobody")


def test_l57_every_stage_obeys_the_filters(mem: Any, clock: Clock) -> None:
    start = clock.stamp
    day = timedelta(days=1)
    for n in range(60):
        mem.write(
            f"apple text {n}",
            id=f"n{n}",
            concepts=[["asked"], ["linked"], ["far"]][n % 3],
            domain="a" if n % 2 else "b",
            created_at=clock() + n * day,
            metadata={"n": n % 5},
        )
    mem.link("asked", "linked", 5.0)
    mem.link("linked", "far", 4.0)
    kept: list[tuple[dict[str, Any], Any]] = [
        ({"domain": "a"}, lambda n: n % 2 == 1),
        ({"since": clock() + 40 * day}, lambda n: n >= 40),
        ({"until": clock() + 20 * day}, lambda n: n <= 20),
        ({"where": {"n": {"in": [1, 2]}}}, lambda n: n % 5 in (1, 2)),
        ({"where": {"n": 3}, "domain": "b"}, lambda n: n % 5 == 3 and n % 2 == 0),
    ]
    assert start == clock.stamp
    for how, keep in kept:
        want = {f"n{n}" for n in range(60) if keep(n)}
        found = mem.read(concepts=["asked"], hops=2, k=60, **how)
        assert {hit.id for hit in found} == want
        assert {hit.source for hit in found} == {"concept", "association"}
        assert {hit.id for hit in mem.read("apple", k=60, **how)} == want
        assert {hit.id for hit in mem.read("apple", k=60, rank="flat", **how)} == want
        few = mem.read(concepts=["asked"], hops=2, k=3, **how)
        assert [hit.id for hit in few] == [hit.id for hit in found[:3]]
        exact = mem.read("apple text 7", k=60, **how)
        assert {hit.id for hit in exact} <= want


# -- safety and comfort ----------------------------------------------------------------------------


def corpus(folder: Path, count: int, bad: int = 0) -> tuple[Path, list[dict[str, Any]]]:
    rows = made(count)
    lines = [json.dumps(row) for row in rows]
    for number in range(bad):
        lines.insert(number * 7, json.dumps({"id": f"bad{number}", "text": "t", "concepts": "x"}))
    source = folder / "corpus.jsonl"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return source, rows


INGEST = """
import os, sys
import fastassoc as fa

def progress(state):
    global calls
    calls += 1
    if calls == 3:
        os._exit(9)

calls = 0
with fa.open(sys.argv[1]) as mem:
    mem.ingest(sys.argv[2], batch_rows=100, progress=progress)
"""


def test_l64_an_interrupted_ingest_goes_on_where_it_stopped(path: Path, tmp_path: Path) -> None:
    source, rows = corpus(tmp_path, 1500, bad=5)
    line = [sys.executable, "-c", INGEST, str(path), str(source)]
    assert subprocess.run(line, check=False, timeout=120).returncode == 9
    with fa.open(path) as mem:
        between = len(mem)
        assert 0 < between < 1500
        seen = []
        report = mem.ingest(str(source), batch_rows=100, progress=seen.append)
        assert seen
        assert len(mem) == 1500
        assert report.written <= 1500
        assert counts(mem) == counted(rows)
        again = mem.ingest(str(source), batch_rows=100)
        assert (again.written, again.skipped, again.rejected) == (0, 1500, 5)
        assert counts(mem) == counted(rows)
        found = [note.id for note in mem.recent(limit=5)]
    with fa.Memory() as whole:
        whole.ingest(str(source))
        assert counts(whole) == counts(fa.open(path))
        assert whole.notes.to_arrow().column("id").to_pylist() == [row["id"] for row in rows]
    assert found


def test_l64_an_interrupted_ingest_that_ends_with_nothing_new(path: Path, tmp_path: Path) -> None:
    source, rows = corpus(tmp_path, 200)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with fa.open(path) as mem:
        with pytest.raises(KeyboardInterrupt):
            mem.ingest(str(source), batch_rows=100, progress=stop)
        mem.write_batch(rows[100:])
        mem.ingest(str(source), batch_rows=100)  # its end is an operation without a note
    with fa.open(path) as mem:
        assert len(mem) == 200
        assert counts(mem) == counted(rows)


def test_l64_rejects_are_reported_with_reasons(path: Path, tmp_path: Path) -> None:
    source, _ = corpus(tmp_path, 1000, bad=4)
    with fa.open(path) as mem:
        report = mem.ingest(str(source))
        assert (report.written, report.rejected) == (1000, 4)
        kept = [json.loads(t) for p in (path / "rejects").iterdir() for t in p.open()]
        assert len(kept) == 4
        assert all("reason" in row for row in kept)
    source, _ = corpus(tmp_path, 100, bad=20)
    with pytest.raises(FastAssocError) as caught, fa.Memory() as mem:
        mem.ingest(str(source))
    assert "max_rejects" in str(caught.value)


def test_l65_no_cap_on_a_batch_and_a_dry_run_first(mem: Any, path: Path, tmp_path: Path) -> None:
    rows = made(200_000 if FULL else 20_000)
    assert mem.write_batch(rows).written == len(rows)
    source, _ = corpus(tmp_path, 500, bad=3)
    done = command("ingest", source, "--dry-run", "--store", path)
    assert "500" in done.stdout + done.stderr
    assert "3" in done.stdout + done.stderr
    assert not path.exists() or len(fa.open(path)) == 0


def test_l66_export_and_import_lose_nothing(path: Path, tmp_path: Path, clock: Clock) -> None:
    with fa.open(path, clock=clock) as mem:
        mem.write_batch(made(80))
        clock.advance(days=1)
        mem.feedback(asked=["c0"], used=["n1", "n2"], outcome=1.0)
        mem.feedback(asked=["c9"], used_concepts=["ghost", "c2"], outcome=-0.3)
        mem.link("c0", "ghost 🙂", 3.25)
        mem.forget(["n7"])
        mem.update("n8", metadata={"a": [1, None, "ü"]})
        want, order = links(mem), mem.notes.to_arrow().column("id").to_pylist()
        answers = [plain_recall(mem.read(concepts=[f"c{n}"], hops=2))["hits"] for n in range(20)]
        valence = mem.get("n1").valence
    out, copy = tmp_path / "out.jsonl", tmp_path / "copy.fa"
    command("export", out, "--store", path)
    for _ in range(2):  # the second import changes nothing
        command("import", out, "--store", copy)
        with fa.open(copy, clock=clock) as mem:
            assert links(mem) == want
            assert mem.notes.to_arrow().column("id").to_pylist() == order
            assert mem.get("n8").metadata == {"a": [1, None, "ü"]}
            assert mem.get("n1").valence == valence
            assert [
                plain_recall(mem.read(concepts=[f"c{n}"], hops=2))["hits"] for n in range(20)
            ] == answers
    other = tmp_path / "other.fa"
    with fa.open(other) as mem:
        mem.write("something else", concepts=["a", "b"])
    command("import", out, "--store", other, status=1)
    with fa.open(other) as mem:
        assert counts(mem) == {"a\0b": 1}
    again = tmp_path / "again.jsonl"
    command("export", again, "--store", copy)
    first, second = (list(map(json.loads, p.open(encoding="utf-8"))) for p in (out, again))
    assert first[1:] == second[1:]


def test_l67_nothing_compiles_at_import() -> None:
    code = """
import sys, time
start = time.perf_counter()
import fastassoc
seconds = time.perf_counter() - start
assert not {"numba", "numpy", "pyarrow"} & set(sys.modules)
assert seconds < 0.5, seconds
import importlib, pkgutil
import fastassoc.memory, fastassoc.kernels
compiled = []
for info in pkgutil.iter_modules(fastassoc.kernels.__path__):
    module = importlib.import_module(f"fastassoc.kernels.{info.name}")
    for name, value in vars(module).items():
        if getattr(value, "signatures", None):
            compiled.append(f"{info.name}.{name}")
print(compiled)
"""
    assert python(code).strip() == "[]"


def test_l67_kernels_are_compiled_once_for_all_processes() -> None:
    code = """
import importlib, pkgutil
import fastassoc as fa
import fastassoc.kernels
mem = fa.Memory()
mem.write_batch([{"text": f"some text {n}", "concepts": ["a", "b", f"c{n}"]} for n in range(9)])
mem.read(concepts=["a"])
mem.read("some text")
missed = 0
for info in pkgutil.iter_modules(fastassoc.kernels.__path__):
    for value in vars(importlib.import_module(f"fastassoc.kernels.{info.name}")).values():
        if hasattr(value, "stats"):
            missed += sum(value.stats.cache_misses.values())
print(missed)
"""
    python(code)  # fills the cache, where it is not full yet
    assert int(python(code)) == 0
