"""Vectors at the level of the memory: exact and indexed, mixed, refused, reembedded, damaged."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_indexes import KINDS, clustered, shrink, unit
from test_faults import python
from worker import Clock, Worker, plain_hit, plain_links

import fastassoc as fa
from fastassoc.errors import EmbedderMismatch, FastAssocError, InvalidInput
from fastassoc.read.scan import NEAREST

TESTS = str(Path(__file__).parent)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every kind of index, over stores that are small."""
    shrink(request.param, monkeypatch.setattr, monkeypatch.setitem)
    return str(request.param)


@pytest.fixture(params=["memory", "store"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(way: str, path: Path, clock: Clock, settings: Any = None) -> Any:
    if way == "memory":
        return fa.Memory(settings=settings, clock=clock)
    return fa.open(path, settings=settings, clock=clock, sync="normal")


def rows_of(vectors: Any, prefix: str = "n", **fields: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"{prefix}{n}", "text": "t", "concepts": [], "vector": vector, **fields}
        for n, vector in enumerate(vectors)
    ]


def ids(recall: Any) -> list[str]:
    return [hit.id for hit in recall]


def kind_of_index(mem: Any) -> str:
    """Which index a read of this memory goes by."""
    view = mem._view()
    index = mem._with_index(view).index
    return "exact" if index is None else str(index.index.choice.kind)


def nearest(vectors: Any, query: Any, k: int, among: Any = None) -> list[int]:
    """The exact answer: by cosine, then by order of writing."""
    cosines = unit(vectors) @ unit(query)
    places = range(len(vectors)) if among is None else among
    return sorted(places, key=lambda n: (-cosines[n], n))[:k]


# -- L20, L24, L25 ---------------------------------------------------------------------------------


def test_l20_forgotten_notes_neither_match_nor_take_a_place(
    path: Path, clock: Clock, kind: str, way: str
) -> None:
    mem = make(way, path, clock)
    draw = np.random.default_rng(1)
    centre = 3 * clustered(1, seed=7)[0]
    near = centre + 0.01 * draw.standard_normal((20, len(centre)))
    others = rows_of(clustered(600), prefix="other") if kind != "exact" else []
    mem.write_batch(others[:300] + rows_of(near) + others[300:])
    if way == "store":
        mem.snapshot()
    assert kind_of_index(mem) == kind
    assert {hit.id for hit in mem.read(vector=centre, k=20)} == {f"n{n}" for n in range(20)}
    mem.forget([f"n{n}" for n in range(0, 20, 2)])
    live = {f"n{n}" for n in range(1, 20, 2)}

    def check() -> None:
        for rank in ("flat", "retention"):
            for query in (centre, near[0], near[1]):
                assert set(ids(mem.read(vector=query, k=10, rank=rank))) == live
        assert set(ids(mem.read(like="n1", rank="flat", k=9))) == live - {"n1"}
        assert kind_of_index(mem) == kind

    check()
    if way == "store":
        for step in ("close", "snapshot", "close", "vacuum", "close"):
            if step == "close":
                mem.close()
                mem = make(way, path, clock)
            else:
                getattr(mem, step)()
            check()
        raw = near[0].astype(np.float32).tobytes()
        assert not [p for p in path.rglob("*") if p.is_file() and raw in p.read_bytes()]
    mem.write("again", id="n0", concepts=[], vector=near[0])
    assert mem.read(vector=near[0], k=1)[0].id == "n0"
    mem.close()


def test_l24_each_note_finds_itself_whatever_was_added_and_removed(
    path: Path, clock: Clock, kind: str, way: str
) -> None:
    mem, draw = make(way, path, clock), random.Random(5)
    table = clustered(2600, seed=2)
    held: dict[str, int] = {}
    fresh = iter(range(len(table)))

    def add(names: list[str], rule: str = "error") -> None:
        rows = []
        for name in names:
            held[name] = next(fresh)
            row = {"id": name, "text": "t", "concepts": [], "vector": table[held[name]]}
            rows.append(row)
        mem.write_batch(rows, on_duplicate=rule)

    def check() -> None:
        names = list(held)
        for name in draw.sample(names, 12):
            found = mem.read(vector=table[held[name]], k=20)
            assert found[0].id == name
            assert found[0].similarity == pytest.approx(1)
            assert len(set(ids(found))) == len(found) == 20
            assert set(ids(found)) <= held.keys()
        assert kind_of_index(mem) == (kind if len(held) > 200 else "exact")

    add([f"n{n}" for n in range(500)])
    for turn in range(3):
        if way == "store" and turn in (0, 2):
            mem.snapshot()
        if way == "store" and turn in (1, 2):
            mem.close()
            mem = make(way, path, clock)
        check()
        gone = draw.sample(list(held), 60)
        mem.forget(gone)
        for name in gone:
            del held[name]
        check()
        add(gone[:30])  # the same ids, other vectors
        add(draw.sample(list(held), 40), "replace")
        add([f"new{turn}-{n}" for n in range(50)])
        check()
    if way == "store":
        mem.vacuum()
        check()
    mem.close()


def test_l25_a_refused_replacement_leaves_the_old_note(
    path: Path, clock: Clock, kind: str, way: str
) -> None:
    mem = make(way, path, clock, fa.Settings.cognitive())
    mem.write_batch(rows_of(clustered(400), session="s"))
    before = plain_links(mem.note_links.to_arrow())
    old = mem.get("n3")
    for bad in (math.nan, math.inf, -math.inf):
        vector = old.vector.tolist()
        vector[2] = bad
        row = {"id": "n3", "text": "new", "concepts": ["c"], "vector": vector, "session": "s"}
        with pytest.raises(ValueError, match="vector"):
            mem.write_batch([row], on_duplicate="replace")
        report = mem.write_batch([row], on_duplicate="replace", on_error="reject")
        assert (report.replaced, report.rejected) == (0, 1)
        with pytest.raises(ValueError, match="vector"):
            mem.ingest([row], on_duplicate="replace", on_error="raise")
        assert mem.get("n3").text == old.text
        assert mem.get("n3").vector.tolist() == old.vector.tolist()
        assert mem.read(vector=old.vector, k=1)[0].id == "n3"
        assert plain_links(mem.note_links.to_arrow()) == before
    mem.close()


# -- L33: the cache is disposable ------------------------------------------------------------------


def damage(file: Path, how: str) -> None:
    data = file.read_bytes()
    if how == "zeroed":
        file.write_bytes(bytes(len(data)))
    elif how == "truncated":
        file.write_bytes(data[: len(data) // 2])
    elif how == "a byte flipped":
        file.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elif how == "removed":
        file.unlink()
    else:
        from fastassoc.cache import _check

        sidecar = file.with_suffix(".json")
        said = json.loads(sidecar.read_text())
        del said["check"]
        said["format"] = 99
        sidecar.write_text(json.dumps(said | {"check": _check(said)}))


@pytest.mark.parametrize("how", ["zeroed", "truncated", "a byte flipped", "removed", "version"])
def test_l33_a_damaged_cache_is_made_again_with_one_warning(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    shrink("ivf", monkeypatch.setattr, monkeypatch.setitem)
    asked = clustered(8, seed=3)

    def answers(mem: Any) -> list[Any]:
        return [plain_hit(hit) for query in asked for hit in mem.read(vector=query, k=20)]

    with fa.open(path, clock=clock, sync="normal") as mem:
        mem.write_batch(rows_of(clustered(500)))
        mem.snapshot()
    with fa.open(path, clock=clock) as mem:
        want = answers(mem)
        assert kind_of_index(mem) == "ivf"
    for which in ("index-", "vectors-", "vector-seqs-", ""):
        files = [*(path / "cache").glob(f"{which}*.bin")]
        assert len(files) == (1 if which else 3)
        for file in files:
            damage(file, how)
        for again in range(2):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                with fa.open(path, clock=clock) as mem:
                    assert answers(mem) == want
                    assert answers(mem) == want
                    assert kind_of_index(mem) == "ivf"
                    assert mem.verify().ok
            named = [str(one.message) for one in told if one.category is RuntimeWarning]
            assert len(named) == (0 if again or how == "removed" else len(files)), named
            for file in files:
                assert sum(file.name in text for text in named) <= 1


def test_l33_no_cache_at_all(path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink("ivf", monkeypatch.setattr, monkeypatch.setitem)
    with fa.open(path, clock=clock, sync="normal") as mem:
        mem.write_batch(rows_of(clustered(500)))
        mem.snapshot()
        want = [plain_hit(hit) for hit in mem.read(vector=clustered(1)[0], k=20)]
    shutil.rmtree(path / "cache")
    with fa.open(path, clock=clock, read_only=True) as mem:
        assert kind_of_index(mem) == "ivf"
        assert [plain_hit(hit) for hit in mem.read(vector=clustered(1)[0], k=20)] == want
    assert not (path / "cache").exists()
    (path / "cache").write_text("in the way")
    with fa.open(path, clock=clock) as mem:
        assert [plain_hit(hit) for hit in mem.read(vector=clustered(1)[0], k=20)] == want


# -- L42, L52 and the same answer everywhere -------------------------------------------------------


def test_l42_another_process_sees_vectors_at_once(
    path: Path, clock: Clock, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink("ivf", monkeypatch.setattr, monkeypatch.setitem)
    table = clustered(460)
    with fa.open(path, clock=clock, sync="normal") as mem:
        assert mem.read(vector=table[0]).reason
        for number in range(450, 460):
            vector = table[number].tolist()
            fields = {"id": f"n{number}", "concepts": [], "vector": vector}
            worker.ask(path, clock.stamp, "write", "t", **fields)
            assert mem.get(f"n{number}").vector.tolist() == vector
            assert mem.read(vector=vector, k=1)[0].id == f"n{number}"
        rows = [{**row, "vector": row["vector"].tolist()} for row in rows_of(table[:450])]
        worker.ask(path, clock.stamp, "write_batch", rows)
        assert mem.read(vector=table[7], k=1)[0].id == "n7"
        assert worker.ask(path, clock.stamp, "snapshot") is True
        assert mem.read(vector=table[8], k=1)[0].id == "n8"
        assert kind_of_index(mem) == "ivf"
        worker.ask(path, clock.stamp, "forget", ["n8"])
        assert "n8" not in ids(mem.read(vector=table[8], k=400))
        worker.ask(path, clock.stamp, "write", "t", **{**fields, "id": "n8"})
        assert set(ids(mem.read(vector=table[459], k=2))) == {"n459", "n8"}
    worker.ask(path, clock.stamp, "close")


def test_l52_a_query_alone_and_in_a_batch(path: Path, clock: Clock, kind: str, way: str) -> None:
    mem = make(way, path, clock, fa.Settings.cognitive())
    mem.write_batch(rows_of(clustered(500), session="s"))
    if way == "store":
        mem.snapshot()
        mem.write_batch(rows_of(clustered(20, seed=8), prefix="later"))
    assert kind_of_index(mem) == kind
    asked = clustered(300, seed=3)
    for rank in ("flat", "retention"):
        alone = [
            [(hit.id, hit.rank_score, hit.score, hit.similarity) for hit in recall]
            for recall in (mem.read(vector=query, rank=rank) for query in asked[:40])
        ]
        for size in (2, 20, 300) if rank == "flat" else (20,):
            recalls = mem.read_batch([{"vector": query} for query in asked[:size]], rank=rank)
            together = [
                [(hit.id, hit.rank_score, hit.score, hit.similarity) for hit in recall]
                for recall in recalls[:40]
            ]
            assert together == alone[:size]
    mem.close()


PROCESS = """
import json, sys
sys.path.insert(0, sys.argv[3])
from small_indexes import shrink
shrink(sys.argv[2])
from test_vectors_memory import answers
print(json.dumps(answers(sys.argv[1])))
"""


def answers(path: Any) -> Any:
    """What a store answers, as JSON values, with the kind of its index."""
    with fa.open(path, clock=lambda: datetime(2030, 1, 1, tzinfo=UTC)) as mem:
        out = [
            [plain_hit(hit) for hit in mem.read(vector=query, k=15, **how)]
            for query in clustered(30, seed=3)
            for how in ({}, {"domain": "half"}, {"rank": "retention", "hops": 2})
        ]
        return json.loads(json.dumps([kind_of_index(mem), mem.position, out]))


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_three_processes_give_the_same_answer(
    path: Path, clock: Clock, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(kind, monkeypatch.setattr, monkeypatch.setitem)
    table = clustered(900)
    with fa.open(path, clock=clock, sync="normal", settings=fa.Settings.cognitive()) as mem:
        for start in range(0, 900, 100):
            domain = "half" if start % 200 else "other"
            mem.write_batch(rows_of(table[start : start + 100], f"m{start}-", domain=domain))
            if start == 300:
                mem.snapshot()
                mem.forget([f"m{start}-{n}" for n in range(0, 100, 7)])
            if start == 700:
                mem.forget(["m0-1", "m700-3"])
                mem.snapshot()
        for n in range(90):
            mem.link(f"m0-{n}", f"m800-{n + 1}", 0.9) if n != 1 else None
        mem.forget(["m100-5", "m800-5"])
        copy = mem.backup(path.with_name("copy.fa"))
        assert not (copy / "cache").exists()
    said = answers(path)  # makes the index
    assert said[0] == kind
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with ThreadPoolExecutor(2) as pool:
        mapping = pool.submit(python, PROCESS, path, kind, TESTS)
        making = pool.submit(python, PROCESS, copy, kind, TESTS, env=one_thread)
    assert json.loads(mapping.result()) == said
    assert json.loads(making.result()) == said


# -- filters, mixtures, scales ---------------------------------------------------------------------


def test_filters_of_any_selectivity_leave_a_full_page_of_the_nearest(
    path: Path, clock: Clock, kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastassoc.vectors import VectorIndex

    named: list[bool] = []  # whether the index had an answer of its own
    real = VectorIndex.candidates

    def candidates(self: Any, *args: Any, **options: Any) -> Any:
        found = real(self, *args, **options)
        named.append(found is not None)
        return found

    count, day = 1000, 86_400_000_000
    table = clustered(count)
    mem = make(way, path, clock)
    rows = rows_of(table)
    for n, row in enumerate(rows):
        row["domain"] = "few" if n % 200 == 1 else "some" if n % 20 == 2 else "many"
        row["metadata"] = {"n": n % 3}
        row["created_at"] = clock.stamp + n * day
    mem.write_batch(rows)
    if way == "store":
        mem.snapshot()
    assert kind_of_index(mem) == kind
    monkeypatch.setattr(VectorIndex, "candidates", candidates)
    filters: list[tuple[dict[str, Any], list[int]]] = [
        ({"domain": "few"}, [n for n in range(count) if n % 200 == 1]),
        ({"domain": "some"}, [n for n in range(count) if n % 20 == 2 and n % 200 != 1]),
        ({"where": {"n": 1}}, [n for n in range(count) if n % 3 == 1]),
        ({"where": {"n": {"in": [0, 2]}}}, [n for n in range(count) if n % 3 != 1]),
        ({"since": clock.stamp + 990 * day}, list(range(990, count))),
        ({"until": clock.stamp + 499 * day}, list(range(500))),
        ({}, list(range(count))),
    ]
    found = wanted = 0
    for how, among in filters:
        for query in clustered(15, seed=11):
            got = ids(mem.read(vector=query, k=10, **how))
            assert len(got) == min(10, len(among))
            assert {int(note[1:]) for note in got} <= set(among)
            want = [f"n{n}" for n in nearest(table, query, 10, among)]
            if kind == "exact" or len(among) <= 200:
                assert got == want
            found += len(set(got) & set(want))
            wanted += len(want)
    assert found >= 0.98 * wanted
    assert len(named) == (0 if kind == "exact" else 4 * 15)
    assert sum(named) >= 0.5 * len(named)
    mem.close()


def test_notes_with_and_without_vectors_live_together(
    path: Path, clock: Clock, kind: str, way: str
) -> None:
    mem = make(way, path, clock)
    table = clustered(800, seed=4)
    rows = rows_of(table)
    for n, row in enumerate(rows):
        row["text"] = f"word{n}"
        row["concepts"] = ["odd"] if n % 2 else []
        if n % 2:
            del row["vector"]
    mem.write_batch(rows)
    if way == "store":
        mem.snapshot()
    assert kind_of_index(mem) == kind
    even = list(range(0, 800, 2))
    for query in clustered(10, seed=12):
        got = ids(mem.read(vector=query, k=5))
        want = [f"n{n}" for n in nearest(table, query, 5, even)]
        assert got == want if kind == "exact" else set(got) & set(want)
    assert mem.get("n1").vector is None
    assert np.array_equal(mem.get("n2").vector, table[2])
    assert mem.stats()["vectors"] == 400
    assert ids(mem.read("word7", k=1)) == ["n7"]
    mixed = mem.read("word7", vector=table[8], k=2)
    assert set(ids(mixed)) == {"n7", "n8"}
    assert {hit.id: hit.similarity for hit in mixed} == {"n7": None, "n8": pytest.approx(1)}
    like = mem.read(like="n7", rank="retention")  # without a vector it asks its words and concepts
    assert len(like) == 10
    assert all(int(note[1:]) % 2 for note in ids(like))
    # k larger than the store: everything that the rank can find, once each
    everything = mem.read(vector=table[0], k=5000)
    assert sorted(ids(everything)) == sorted(f"n{n}" for n in even)
    assert ids(everything)[0] == "n0"
    both = mem.read(vector=table[0], concepts=["odd"], k=5000, rank="retention")
    assert len(set(ids(both))) == len(both) == 800
    mem.close()


def test_scaling_a_vector_changes_nothing(clock: Clock, kind: str) -> None:
    table = clustered(400, seed=5)
    factors = 2.0 ** np.random.default_rng(0).integers(-30, 30, (400, 1))
    answers = []
    for vectors, factor in ((table, 1.0), (table * factors, 0.25), (table, 2.0**40)):
        mem = fa.Memory(settings=fa.Settings.cognitive(), clock=clock)
        mem.write_batch(rows_of(vectors.astype(np.float32), session="s"))
        answers.append(
            (
                [
                    [plain_hit(hit) for hit in mem.read(vector=query * factor, k=20, hops=2)]
                    for query in clustered(10, seed=2).astype(np.float64)
                ],
                plain_links(mem.note_links.to_arrow()),
            )
        )
        assert kind_of_index(mem) == kind
    assert len(answers[0][1]) > 1000
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]
    odd = mem.read(vector=table[3] * 3.7, k=20)
    assert [(hit.id, hit.similarity) for hit in odd] == [
        (hit.id, pytest.approx(hit.similarity, abs=1e-6)) for hit in mem.read(vector=table[3], k=20)
    ]


def test_equal_vectors_come_in_order_of_writing(path: Path, clock: Clock, kind: str) -> None:
    with fa.open(path, clock=clock, sync="normal") as mem:
        mem.write_batch(rows_of(clustered(300), prefix="other"))
        mem.write_batch(rows_of([[9.0] * 16] * 50))
        mem.snapshot()
        want = [f"n{n}" for n in range(10)]
        assert [ids(mem.read(vector=[1] * 16)) for _ in range(5)] == [want] * 5
    with fa.open(path, clock=clock) as mem:
        assert ids(mem.read(vector=[2] * 16)) == want


# -- L50: what is no vector ------------------------------------------------------------------------

BAD: list[tuple[Any, str]] = [
    ([1.0, 2.0], r"2 numbers, expected 3"),
    ([1.0, 2.0, 3.0, 4.0], r"4 numbers, expected 3"),
    ([1.0, math.nan, 0.0], "(?i)nan"),
    ([1.0, math.inf, 0.0], "inf"),
    (np.array([1, -np.inf, 0]), "inf"),
    ([1e39, 0.0, 0.0], "float32"),
    ([0.0, 0.0, 0.0], "zero"),
    (np.zeros(3), "zero"),
    ([1e-45, 0.0, 0.0], "zero"),
    ([], "vector"),
    ("abc", "vector"),
    (b"abc", "vector"),
    (5, "vector"),
    ({"x": 1}, "vector"),
    (["1", "2", "3"], "vector"),
    ([1, None, 2], "vector"),
    ([True, False, True], "vector"),
    ([1j, 0, 0], "vector"),
    (np.array([1j, 0, 0]), "complex"),
    (np.array(["a", "b", "c"]), "vector"),
    (np.array([1, 2, 3], object), "object"),
    (np.ones((3, 1)), "shape"),
    (np.ones((1, 3)), "shape"),
    (np.array([1, 2, 3], "M8[s]"), "datetime"),
]


def test_l50_what_is_no_vector_is_refused_and_nothing_is_half_added(
    path: Path, clock: Clock, way: str
) -> None:
    mem = make(way, path, clock)
    mem.write("old", id="old", concepts=["a", "b"], vector=[1, 2, 3])
    position, links = mem.position, plain_links(mem.links.to_arrow())
    good = {"id": "good", "text": "good", "concepts": ["a", "c"], "vector": [3, 2, 1]}
    for vector, said in BAD:
        bad = {"id": "bad", "text": "bad", "concepts": ["a", "d"], "vector": vector}
        calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
            (mem.write, ("bad",), {"concepts": ["a", "d"], "vector": vector}),
            (mem.write_batch, ([good, bad],), {}),
            (mem.write_batch, ([bad] * 40 + [good],), {}),
            (mem.ingest, ([good, bad],), {"on_error": "raise"}),
            (mem.read, (), {"vector": vector}),
            (mem.read, ("old",), {"vector": vector}),
            (mem.read_batch, ([{"vector": [1, 1, 1]}, {"vector": vector}],), {}),
        ]
        for verb, args, how in calls:
            with pytest.raises(ValueError, match=said) as caught:
                verb(*args, **how)
            assert isinstance(caught.value, FastAssocError)
        assert (mem.position, len(mem), mem.stats()["vectors"]) == (position, 1, 1)
        assert plain_links(mem.links.to_arrow()) == links
        assert ids(mem.read(vector=[1, 2, 3])) == ["old"]
    for number, (vector, _) in enumerate(BAD):
        bad = {"id": "bad", "text": "bad", "concepts": ["a", "d"], "vector": vector}
        kept = [{**good, "id": f"{verb}{number}"} for verb in ("batch", "ingest")]
        report = mem.write_batch([bad, kept[0]], on_error="reject")
        assert (report.written, report.rejected, report.reasons[0][0]) == (1, 1, 0)
        report = mem.ingest([bad, kept[1]], max_rejects=1.0)
        assert (report.written, report.rejected) == (1, 1)
    assert len(mem.read(vector=[1, 2, 3], k=100)) == 1 + 2 * len(BAD)
    assert ids(mem.read(concepts=["d"])) == []
    mem.close()


def column(values: Any, dtype: Any, size: int | None = None) -> Any:
    return pa.array(values, pa.list_(dtype, size) if size else pa.list_(dtype))


@pytest.mark.parametrize("verb", ["write_batch", "ingest"])
def test_l50_columns_of_vectors(clock: Clock, verb: str) -> None:
    texts = pa.array(["one", "two"])
    ids_ = pa.array(["1", "2"])

    def put(mem: Any, vectors: Any) -> Any:
        table = pa.table({"id": ids_, "text": texts, "vector": vectors})
        return mem.ingest(table, on_error="raise") if verb == "ingest" else mem.write_batch(table)

    good = [
        column([[1, 2, 3], [3, 2, 1]], pa.float32(), 3),
        column([[1, 2, 3], [3, 2, 1]], pa.float64(), 3),
        column(np.array([[1, 2, 3], [3, 2, 1]], np.float16).tolist(), pa.float16(), 3),
        column([[1, 2, 3], [3, 2, 1]], pa.int16()),
        column([[1, 2, 3], None], pa.float32()),
        column([[9, 9, 9], [1, 2, 3], [3, 2, 1]], pa.float32(), 3)[1:],
    ]
    for vectors in good:
        mem = fa.Memory(clock=clock)
        assert put(mem, vectors).written == 2
        assert mem.get("1").vector.tolist() == [1, 2, 3]
        assert mem.read(vector=[1, 2, 3])[0].id == "1"
        assert mem.get("2").vector is None or mem.get("2").vector.tolist() == [3, 2, 1]
    bad = [
        (column([[1, 2], [3, 2]], pa.float32(), 2), "2 numbers, expected 3"),
        (column([[1, 2, 3], [3, 2]], pa.float32()), "2 numbers, expected 3"),
        (column([[1, 2, 3], [3, math.nan, 1]], pa.float32(), 3), "(?i)nan"),
        (column([[0, 0, 0], [3, 2, 1]], pa.float32(), 3), "zero"),
        (column([[1, 2, 3], [1e39, 2, 1]], pa.float64(), 3), "float32"),
        (column([["a"], ["b"]], pa.string()), "vector"),
        (pa.array(["a", "b"]), "vector"),
    ]
    for vectors, said in bad:
        mem = fa.Memory(clock=clock)
        mem.write("old", id="old", concepts=[], vector=[1, 1, 1])
        with pytest.raises(ValueError, match=said):
            put(mem, vectors)
        assert (len(mem), mem.stats()["vectors"]) == (1, 1)


def test_l50_any_layout_is_copied(path: Path, clock: Clock) -> None:
    wide = np.arange(1, 61, dtype=np.float64).reshape(6, 10)
    fortran = np.asfortranarray(wide.astype(np.float32))
    mine = np.array([1, 2, 3, 4, 5], np.float32)
    frozen = mine.copy()
    frozen.flags.writeable = False
    swapped = mine.astype(">f4")
    with fa.open(path, clock=clock) as mem:
        given = {
            "strided": wide[0, ::2],
            "backwards": wide[1, 4::-1],
            "column": fortran[:5, 3],
            "halves": mine.astype(np.float16),
            "whole": mine.astype(np.int8),
            "frozen": frozen,
            "swapped": swapped,
            "tuple": (1, 2, 3, 4, 5),
            "mine": mine,
        }
        for name, vector in given.items():
            mem.write(name, id=name, concepts=[], vector=vector)
            assert mem.read(vector=vector, k=1)[0].similarity == pytest.approx(1)
        want = {name: np.asarray(vector, np.float32).tolist() for name, vector in given.items()}
        mine[:] = 7
        mem.get("mine")
        for name, vector in want.items():
            assert mem.get(name).vector.tolist() == vector
        kept = mem.get("tuple").vector
        with pytest.raises(ValueError):
            kept[0] = 9.0
    with fa.open(path, clock=clock) as mem:
        assert {name: mem.get(name).vector.tolist() for name in want} == want


def test_l50_a_width_is_for_good(path: Path, clock: Clock) -> None:
    with fa.open(path, clock=clock) as mem:
        with pytest.raises(ValueError, match="3 numbers, expected 2"):
            mem.write_batch(rows_of([[1, 2], [1, 2, 3]]))
        assert len(mem) == 0
        mem.write("one", id="one", concepts=[], vector=[1, 2, 3])
        mem.forget(["one"])
        with pytest.raises(ValueError, match="2 numbers, expected 3"):
            mem.write("two", concepts=[], vector=[1, 2])
        mem.snapshot()
    with fa.open(path, clock=clock) as mem:
        with pytest.raises(ValueError, match="2 numbers, expected 3"):
            mem.write("two", concepts=[], vector=[1, 2])
        assert mem.read(vector=[1, 2, 3]).reason
    with fa.open(path, clock=clock) as one, fa.open(path, clock=clock) as other:
        one.write("x", id="x", concepts=[], vector=[1, 2, 3])
        with pytest.raises(ValueError, match="2 numbers, expected 3"):
            other.read(vector=[1, 2])


# -- L51: embedders --------------------------------------------------------------------------------

LETTERS = """
class Letters:
    def __init__(self, name="letters", dim=8):
        self.name, self.dim, self.texts = name, dim, []

    def embed(self, texts):
        self.texts += texts
        return [[1.0 + sum(ord(c) % self.dim == n for c in text) for n in range(self.dim)]
                for text in texts]
"""
space: dict[str, Any] = {}
exec(LETTERS, space)
Letters = space["Letters"]


def test_l51_another_embedder_is_refused_with_both_named(path: Path, clock: Clock) -> None:
    mine = Letters()
    with fa.open(path, embedder=mine, clock=clock) as mem:
        mem.write("apples and pears", id="a", concepts=["fruit"])
        mem.write("given", id="given", concepts=[], vector=[1] * 8)
        assert mine.texts == ["apples and pears"]
        assert mem.read("apples and pears again", k=1)[0].id == "a"
        mem.snapshot()
    for other in (Letters("others"), Letters(dim=9)):
        with pytest.raises(EmbedderMismatch) as caught:
            fa.open(path, embedder=other, clock=clock)
        said = str(caught.value)
        assert all(part in said for part in ("'letters'", "width 8", f"{other.name!r}"))
        assert f"width {other.dim}" in said
        assert other.texts == []
    with fa.open(path, embedder=Letters(), clock=clock) as mem:
        assert len(mem) == 2
        with pytest.raises(InvalidInput, match="9 numbers, expected 8"):
            mem.write("wide", vector=[1] * 9)


def test_l51_a_store_without_its_embedder_reads_by_text_and_concepts(
    path: Path, clock: Clock
) -> None:
    with fa.open(path, embedder=Letters(), clock=clock) as mem:
        mem.write("apples and pears", id="a", concepts=["fruit"])
        mem.write("stones", id="b", concepts=["rock"])
        assert mem.read("apples").reason is None
    with fa.open(path, clock=clock) as mem:
        recall = mem.read("apples")
        assert ids(recall) == ["a"]
        assert all(part in str(recall.reason) for part in ("letters", "8", "embedder"))
        assert ids(mem.read(concepts=["rock"])) == ["b"]
        assert mem.read(concepts=["rock"]).reason is None
        assert mem.read(vector=mem.get("b").vector, k=1)[0].id == "b"
        mem.write("late plums", id="c", concepts=["fruit"])
        assert mem.get("c").vector is None
        assert set(ids(mem.read(concepts=["fruit"]))) == {"a", "c"}
    with fa.open(path, embedder=Letters(), clock=clock) as mem:
        assert mem.reembed(Letters()).updated == 1  # what came without a vector
        assert mem.get("c").vector is not None
        assert "c" in ids(mem.read("plums late", k=3))


REEMBED = (
    LETTERS
    + """
import sys
import fastassoc as fa
from fastassoc import moving
moving.STEP_NOTES = 16
new = Letters("new", 5)
with fa.open(sys.argv[1]) as mem:
    report = mem.reembed(new)
    print(report.updated, len(new.texts), len(set(new.texts)))
"""
)


@pytest.mark.parametrize("saved", [False, True])
def test_l51_reembedding_goes_on_where_it_was_cut_off(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    from fastassoc import moving

    monkeypatch.setattr(moving, "STEP_NOTES", 16)
    rows = [{"id": f"n{n}", "text": f"text number {n}", "concepts": ["c"]} for n in range(100)]

    def stop(done: int, total: int) -> None:
        assert total == 100
        if done >= 48:
            raise KeyboardInterrupt

    with fa.open(path, embedder=Letters(), clock=clock) as mem:
        mem.write_batch(rows)
        old = [plain_hit(hit) for hit in mem.read("text number 7 or so")]
        with pytest.raises(KeyboardInterrupt):
            mem.reembed(Letters("new", 5), progress=stop)
        # until the end, all is as before
        assert [plain_hit(hit) for hit in mem.read("text number 7 or so")] == old
        assert mem.get("n3").vector.shape == (8,)
        mem.write("text number 100", id="n100", concepts=["c"])
        mem.forget(["n1", "n99"])
        if saved:
            mem.snapshot()
    with fa.open(path, embedder=Letters(), clock=clock) as mem:
        assert mem.get("n100").vector.shape == (8,)
    updated, asked, distinct = map(int, python(REEMBED, path).split())
    assert updated == asked == distinct == 100 - 48 + 1 - 1  # n100 came, n99 went
    with pytest.raises(EmbedderMismatch, match=r"'new'.*'letters'"):
        fa.open(path, embedder=Letters(), clock=clock)
    with fa.open(path, embedder=Letters("new", 5), clock=clock) as mem:
        want = {note: Letters("new", 5).embed([mem.get(note).text])[0] for note in ("n0", "n100")}
        for note, vector in want.items():
            assert mem.get(note).vector.tolist() == vector
        assert {mem.get(f"n{n}").vector.shape for n in range(2, 99)} == {(5,)}
        assert mem.stats()["vectors"] == len(mem) == 99
        assert mem.read("text number 55", k=1)[0].id == "n55"
        again = mem.reembed(Letters("new", 5))
        assert (again.updated, again.position) == (0, mem.position)


def test_l51_a_handle_that_was_left_behind_says_so(path: Path, clock: Clock) -> None:
    with fa.open(path, embedder=Letters(), clock=clock) as old:
        old.write("apples", id="a", concepts=["fruit"])
        with fa.open(path, clock=clock) as other:
            other.reembed(Letters("new", 5))
        with pytest.raises(EmbedderMismatch, match="'new'"):
            old.read("apples and pears")
        with pytest.raises(EmbedderMismatch, match="'new'"):
            old.write("pears")
        assert len(old) == 1
        assert ids(old.read(concepts=["fruit"])) == ["a"]
        old.reembed(Letters("new", 5))
        old.write("pears", id="b", concepts=["fruit"])
        assert old.get("b").vector.shape == (5,)


def test_reembedding_with_an_index(path: Path, clock: Clock, kind: str) -> None:
    draw = random.Random(1)
    words = ["".join(draw.choice("abcdefgh") for _ in range(12)) for _ in range(500)]
    rows = [{"id": f"n{n}", "text": text, "concepts": []} for n, text in enumerate(words)]
    with fa.open(path, embedder=Letters(dim=16), clock=clock, sync="normal") as mem:
        mem.write_batch(rows)
        mem.snapshot()
        mem.read(vector=[1] * 16)
        mem.reembed(Letters("new", 12))
        want = mem.get("n7").vector
    with fa.open(path, embedder=Letters("new", 12), clock=clock) as mem:
        for number in range(20):
            found = mem.read(vector=mem.get(f"n{number}").vector, k=5)
            assert found[0].similarity == pytest.approx(1)
            assert f"n{number}" in ids(mem.read(vector=mem.get(f"n{number}").vector, k=100))
        assert np.array_equal(mem.get("n7").vector, want)
        with pytest.raises(InvalidInput, match="16 numbers, expected 12"):
            mem.read(vector=[1] * 16)


def test_a_query_of_a_batch_that_the_store_refuses_is_named_by_number(clock: Clock) -> None:
    mem = fa.Memory(settings=fa.Settings.cognitive(), clock=clock)
    mem.write("old", id="old", concepts=[], vector=[1, 2, 3])
    good = {"vector": [1, 2, 3], "reinforce": True}
    with pytest.raises(InvalidInput, match="query 2: vector: found 2 numbers, expected 3"):
        mem.read_batch([good, "old", {"vector": [1, 2]}, good])
    with pytest.raises(KeyError, match=r"query 1: like: .*'nobody'"):
        mem.read_batch([good, {"like": "nobody"}])
    assert mem.get("old").accesses == 0  # none of them was strengthened


@pytest.mark.parametrize("broken", ["raises", "NaN", "width", "rows", "text"])
def test_l50_an_embedder_that_fails_leaves_everything(
    path: Path, clock: Clock, broken: str
) -> None:
    class Fails(Letters):  # type: ignore[misc, valid-type]
        def embed(self, texts: list[str]) -> Any:
            made = super().embed(texts)
            if not any("fail" in text for text in texts):
                return made
            if broken == "raises":
                raise RuntimeError("out of memory")
            if broken == "NaN":
                made[-1][2] = math.nan
            if broken == "width":
                return [row[:5] for row in made]
            if broken == "rows":
                return made[1:]
            return "no vectors" if broken == "text" else made

    def told(mem: Any) -> Any:
        links = plain_links(mem.links.to_arrow()), plain_links(mem.note_links.to_arrow())
        return mem.position, len(mem), mem.stats()["vectors"], mem.get("old").text, links

    fields = {"session": "s", "concepts": ["a", "b"]}
    with fa.open(path, embedder=Fails(), settings=fa.Settings.cognitive(), clock=clock) as mem:
        mem.write("old text", id="old", **fields)
        before = told(mem)
        rows = [{"text": "good", "id": "good", **fields}, {"text": "fail", "id": "old", **fields}]
        calls: list[Any] = [
            lambda: mem.write("to fail", **fields),
            lambda: mem.write_batch(rows, on_duplicate="replace"),
            lambda: mem.ingest(rows, on_duplicate="replace", on_error="raise"),
            lambda: mem.read("fail", reinforce=True),
        ]
        for call in calls:
            with pytest.raises(FastAssocError, match="letters"):
                call()
            assert told(mem) == before
        assert mem.write_batch(rows, on_duplicate="skip").written == 1  # "fail" is not embedded
        assert mem.read(concepts=["a"]).reason is None


def test_an_embedder_tags_sessions_as_given_vectors_do(clock: Clock) -> None:
    texts = ["abc abc", "abc abd", "xyz", "abc", "zzz zyx"]
    made = fa.Memory(settings=fa.Settings.cognitive(), embedder=Letters(), clock=clock)
    given = fa.Memory(settings=fa.Settings.cognitive(), clock=clock)
    for n, (text, vector) in enumerate(zip(texts, Letters().embed(texts), strict=True)):
        for mem, how in ((made, {}), (given, {"vector": vector})):
            mem.write(text, id=f"n{n}", session="s", concepts=[], **how)
    assert len(made.note_links) > 3
    assert plain_links(made.note_links.to_arrow()) == plain_links(given.note_links.to_arrow())


def test_info_tells_the_index_and_its_recall(path: Path, clock: Clock, kind: str, way: str) -> None:
    mem = make(way, path, clock)
    assert mem.info()["index"] is None
    mem.write_batch(rows_of(clustered(1000)))
    if way == "store":
        mem.snapshot()
    mem.read(vector=clustered(1)[0])
    told = mem.info()["index"]
    assert (told["kind"], told["notes"], told["dim"]) == (kind, 1000, 16)
    assert told["recall"] >= 0.98
    assert json.loads(json.dumps(told)) == told
    mem.close()


def test_threads_search_one_index_while_another_writes(path: Path, clock: Clock, kind: str) -> None:
    mem, table = make("store", path, clock), clustered(700)
    mem.write_batch(rows_of(table[:500]))
    mem.snapshot()
    stop = threading.Event()

    def look(seed: int) -> int:
        draw, looks = random.Random(seed), 0
        while not stop.is_set() or not looks:
            number = 1 + 2 * draw.randrange(250)  # those are never forgotten
            how = {"domain": "general"} if draw.random() < 0.5 else {}
            found = ids(mem.read(vector=table[number], k=10, **how))
            assert found[0] == f"n{number}"
            assert len(set(found)) == 10
            looks += 1
        return looks

    with ThreadPoolExecutor(4) as pool:
        looking = [pool.submit(look, seed) for seed in range(4)]
        try:
            for number in range(500, 700, 10):
                rows = rows_of(table[number : number + 10], prefix=f"m{number}-")
                mem.write_batch(rows)
                mem.forget([f"n{number - 500}"])
                if number % 50 == 0:
                    mem.snapshot()
        finally:
            stop.set()
        assert all(one.result() for one in looking)
    mem.close()


# -- moves to another embedder, as they were found to go wrong ------------------------------------


class Meddling:
    """An embedder during whose first call something else happens to the store."""

    name, dim = "meddling", 2

    def __init__(self, meddle: Any) -> None:
        self.meddle = meddle

    def embed(self, texts: list[str]) -> Any:
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        return [[1.0, len(text)] for text in texts]


@pytest.mark.parametrize("which", ["n2", "n4"])
@pytest.mark.parametrize("how", ["replace", "forget"])
def test_a_note_replaced_during_a_move(tmp_path: Path, which: str, how: str) -> None:
    path = tmp_path / "m.fa"

    def meddle() -> None:
        with fa.open(path) as other:
            if how == "forget":
                other.forget([which])
            row = {"id": which, "text": "new text"}
            other.write_batch([row], on_duplicate="replace")

    with fa.open(path) as mem:
        mem.write_batch([{"id": f"n{n}", "text": f"old {n}"} for n in range(5)])
        assert mem.reembed(Meddling(meddle)).updated == 5
    with fa.open(path) as mem:
        assert mem.get(which).vector.tolist() == [1.0, len("new text")]
        assert mem.stats()["vectors"] == 5


@pytest.mark.parametrize("texts", [[], ["??"], ["alpha", "??", "beta"], ["??", "??"]])
def test_a_move_ends_where_texts_have_no_vector(tmp_path: Path, texts: list[str]) -> None:
    class Some:
        name, dim = "some", 2

        def embed(self, texts: list[str]) -> Any:
            return [[0.0, 0.0] if text == "??" else [1.0, len(text)] for text in texts]

    path = tmp_path / "m.fa"
    for _ in range(2):  # and again, for those without one
        with fa.open(path) as mem:
            mem.write_batch([{"text": text} for text in texts])
            found = len(mem)
            mem.reembed(Some())
            before = mem.position
            assert mem.reembed(Some()).updated == 0
            assert mem.position <= before + 2
            assert mem.embedder == {"name": "some", "dim": 2}
    with fa.open(path, embedder=Some()) as mem:
        assert len(mem) == found
        assert mem.stats()["vectors"] == found - sum(
            mem.get(n.id).text == "??" for n in mem.recent(99)
        )


def test_of_two_moves_the_first_gives_up(tmp_path: Path) -> None:
    path = tmp_path / "m.fa"

    class Other(Meddling):
        name, dim = "other", 3

        def embed(self, texts: list[str]) -> Any:
            return [[1.0, 2.0, len(text)] for text in texts]

    calls: list[int] = []

    class First(Meddling):
        def embed(self, texts: list[str]) -> Any:
            calls.append(len(texts))
            if len(calls) == 6:  # in the second step: a call takes 256 texts, a step 1,024

                def stop(done: int, total: int) -> None:
                    raise KeyboardInterrupt

                with fa.open(path) as mem, pytest.raises(KeyboardInterrupt):
                    mem.reembed(Other(None), progress=stop)
            return super().embed(texts)

    with fa.open(path) as mem:
        mem.write_batch([{"text": f"note {n}"} for n in range(2500)])
        with pytest.raises(fa.errors.StoreError, match="other"):
            mem.reembed(First(None))
        assert len(calls) == 8
    with fa.open(path) as mem:
        assert mem.reembed(Other(None)).updated == 2500 - 1024
        assert mem.stats()["vectors"] == 2500


def test_notes_in_the_other_half_of_the_space_come_by_nearness() -> None:
    mem = fa.Memory()
    rows = {"far": [-1, 0], "mid": [-1, 1], "near": [-0.1, 1], "low": [-0.2, -1]}
    mem.write_batch([{"id": i, "text": i, "concepts": [], "vector": v} for i, v in rows.items()])
    for rank in (None, "flat", "retention"):
        found = [hit.id for hit in mem.read(vector=[1, 0], rank=rank)]
        assert found == ["near", "low", "mid", "far"]


@pytest.mark.parametrize("k", [20, 50, 100])
def test_an_index_keeps_its_recall_for_what_is_asked(k: int) -> None:
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((2100, 32))
    table = np.repeat(centres, 10, axis=0) + 0.3 * rng.standard_normal((21_000, 32))
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(table.ravel(), pa.float32()), 32)
    ids = [str(n) for n in range(len(table))]
    mem = fa.Memory()
    mem.write_batch(
        pa.table({"id": ids, "text": ids, "concepts": [[]] * len(ids), "vector": vectors})
    )
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    found = 0
    for row in range(0, 21_000, 1050):
        best = set(np.argsort(-(unit @ unit[row]), kind="stable")[:k].tolist())
        found += len(best & {int(hit.id) for hit in mem.read(vector=table[row], k=k)})
    assert found >= 0.98 * 20 * k


@pytest.mark.parametrize("seed", range(12))
def test_a_flat_read_by_vector_alone_needs_no_more_of_the_nearest_than_it_answers_with(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def many(view: Any, query: Any, *rest: Any) -> int:
        return max(NEAREST, 4 * query.k, rest[-1])

    rng = np.random.default_rng(seed)
    notes, dim = [3, 20, 150, 400][seed % 4], [2, 3, 8][seed % 3]
    rows = [
        {"id": f"n{n}", "text": f"text {n % 7}", "domain": "ab"[n % 2], "vector": vector.tolist()}
        for n, vector in enumerate(rng.standard_normal((notes, dim)).round(1) + 0.01)
    ]
    with fa.Memory() as mem:
        mem.write_batch(rows)
        mem.forget([f"n{n}" for n in range(0, notes, 9)])
        for more in ({}, {"domain": "a"}, {"diversity": 0.5}, {"min_score": 0.2}, {"k": 150}):
            options = {"vector": rng.standard_normal(dim), "rank": "flat", **more}
            few = mem.read(**options)
            with monkeypatch.context() as patched:
                patched.setattr("fastassoc.read.how_many", many)
                assert few.hits == mem.read(**options).hits
            assert few.reason is None or not few.hits
