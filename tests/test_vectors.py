"""The vector index: candidates that hold the nearest, whatever the data and the filter."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastassoc import files, openblas, recall, vectors
from fastassoc.cache import Cache
from fastassoc.vectors import Choice, VectorIndex, scans

N, DIM = 20_000, 32
SMALL = {"pq": {"exact_below": 2000}, "ivf": {"exact_below": 2000, "pq_below": 2000}}
Floats = NDArray[np.float32]


@cache
def centres() -> Floats:
    return np.random.default_rng(1).standard_normal((80, DIM)).astype(np.float32)


def clustered(n: int, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    mine = rng.integers(0, 80, n)
    noise = rng.standard_normal((n, DIM)) * 0.7
    lengths = np.exp(rng.standard_normal((n, 1)))  # the index must not care
    return ((centres()[mine] + noise) * lengths).astype(np.float32), mine


@cache
def table() -> tuple[Floats, NDArray[np.int64]]:
    return clustered(N, 2)


@cache
def index(kind: str) -> VectorIndex:
    made = VectorIndex.build(table()[0], **SMALL[kind])
    assert made.choice.kind == kind
    return made


def nearest(
    rows: Floats, query: Floats, allowed: NDArray[np.uint8] | None, among: Any = None, k: int = 10
) -> list[int]:
    """Cosines in float64, best first, equals by place: the exact answer, or that of candidates."""
    places = np.arange(len(rows)) if among is None else np.sort(among)
    if allowed is not None:
        places = places[allowed[places] != 0]
    wide = rows[places].astype(np.float64)
    asked = query.astype(np.float64)
    near = (wide @ asked) / np.linalg.norm(wide, axis=1) / np.linalg.norm(asked)
    return places[np.argsort(-near, kind="stable")[:k]].tolist()


def share(made: VectorIndex, rows: Floats, asked: Floats, allowed: Any) -> float:
    found = 0
    for query in asked:
        places = made.candidates(query, 100, allowed)
        best = nearest(rows, query, allowed)
        found += len(set(best) & set(nearest(rows, query, allowed, places)))
    return found / len(asked) / 10


def masks(mine: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[np.uint8] | None]]:
    rng = np.random.default_rng(4)
    yield "none", None
    for part in (0.5, 0.2, 0.11):
        yield f"random {part}", (rng.random(len(mine)) < part).astype(np.uint8)
        yield f"clusters {part}", (mine < part * (mine.max() + 1)).astype(np.uint8)


# -- recall --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_fresh_questions_keep_the_recall_under_any_filter(kind: str) -> None:
    rows, mine = table()
    asked, _ = clustered(100, 3)
    for name, allowed in masks(mine):
        assert share(index(kind), rows, asked, allowed) >= 0.98, name
    scanned = [index(kind).candidates(query, 100) is None for query in asked]
    assert np.mean(scanned) < 0.1  # it is an index, not a scan


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_questions_far_from_everything_keep_it_too(kind: str) -> None:
    rows, mine = table()
    strange = np.random.default_rng(5).standard_normal((60, DIM)).astype(np.float32)
    for name, allowed in masks(mine):
        assert share(index(kind), rows, strange, allowed) >= 0.98, name


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_vectors_without_clusters(kind: str) -> None:
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((12_000, 48), dtype=np.float32)
    asked = rng.standard_normal((40, 48), dtype=np.float32)
    made = VectorIndex.build(rows, **SMALL[kind])
    first = made.choice.tried[0]
    assert first[0] == kind
    assert made.choice.kind == kind or first[1] < 0.98
    allowed = (rows[:, 0] > 0).astype(np.uint8)
    assert share(made, rows, asked, None) >= 0.98
    assert share(made, rows, asked, allowed) >= 0.98


def test_where_no_index_keeps_the_floor_none_is_built() -> None:
    rows = np.random.default_rng(7).standard_normal((6000, 64), dtype=np.float32)
    made = VectorIndex.build(rows, exact_below=1000)
    assert made.choice.kind == "exact"
    assert made.choice.recall == 1.0
    assert [kind for kind, _ in made.choice.tried] == ["pq", "ivf", "exact"]
    assert made.candidates(rows[0], 10) is None


def test_small_tables_are_scanned() -> None:
    made = VectorIndex.build(table()[0])
    assert (made.choice.kind, made.choice.tried, len(made)) == ("exact", (), N)
    empty = VectorIndex.build(np.empty((0, 3), np.float32))
    assert empty.candidates(np.ones(3, np.float32), 5) is None


def test_few_matches_are_scanned() -> None:
    assert scans(0, 0)
    assert scans(20_000, 10**7)
    assert scans(10**6, 10**7)
    assert not scans(10**6 + 1, 10**7)
    assert not scans(20_001, 50_000)


# -- what is named -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_candidates_are_distinct_allowed_and_enough(kind: str) -> None:
    _, mine = table()
    asked, _ = clustered(20, 8)
    made = index(kind)
    rng = np.random.default_rng(9)
    sparse = [np.zeros(N, np.uint8) for _ in range(3)]
    sparse[1][rng.choice(N, 5, replace=False)] = 1
    sparse[2][rng.choice(N, 300, replace=False)] = 1
    for allowed in [mask for _, mask in masks(mine)] + sparse:
        for query in asked:
            for k in (1, 10, 100, 700, N + 5):
                places = made.candidates(query, k, allowed)
                if places is None:
                    continue
                assert places.dtype == np.int64
                assert len(set(places.tolist())) == len(places)
                assert places.min(initial=0) >= 0
                assert allowed is None or allowed[places].all()
                total = N if allowed is None else int(allowed.sum())
                assert len(places) >= min(k, total)


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_l24_everything_finds_itself(kind: str) -> None:
    rows, _ = table()
    for place in range(0, N, 97):
        places = index(kind).candidates(rows[place], 100)
        assert places is None or place in places


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_l20_what_is_removed_takes_no_place(kind: str) -> None:
    rows = table()[0].copy()
    same = np.arange(100, 120)
    rows[same] = rows[100] * (1 + np.random.default_rng(1).random((20, DIM)) * 1e-3)
    made = VectorIndex.build(rows, **SMALL[kind])
    alive = np.ones(N, np.uint8)
    alive[same[::2]] = 0
    found = nearest(rows, rows[100], alive, made.candidates(rows[100], 100, alive))
    assert set(found) == set(same[1::2].tolist())


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_a_length_changes_nothing(kind: str) -> None:
    query = clustered(1, 10)[0][0]
    found = index(kind).candidates(query, 100)
    assert found is not None
    for factor in (2.0**-40, 4.0, 2.0**60):
        assert np.array_equal(found, index(kind).candidates(query * np.float32(factor), 100))


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_l52_what_else_is_asked_changes_nothing(kind: str) -> None:
    asked, _ = clustered(60, 11)
    made = index(kind)
    allowed = (np.arange(N) % 3 > 0).astype(np.uint8)

    def digest(order: Any) -> list[bytes]:
        out = [(i, made.candidates(asked[i], 100, allowed)) for i in order]
        return [b"" if p is None else p.tobytes() for _, p in sorted(out, key=lambda one: one[0])]

    expected = digest(range(60))
    assert digest(reversed(range(60))) == expected
    found: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: found.append(digest(range(60)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_more_filters_than_are_remembered() -> None:
    query = clustered(1, 12)[0][0]
    every = [(np.arange(N) % 7 != i).astype(np.uint8) for i in range(7)]
    for _ in range(2):
        for i, allowed in enumerate(every):
            places = index("ivf").candidates(query, 100, allowed)
            assert places is None or not (places % 7 == i).any()


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="expected"):
        index("ivf").candidates(table()[0][0], 10, np.ones(5, np.uint8))


# -- odd tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pq", "ivf"])
@pytest.mark.parametrize("dim", [1, 2, 3, 5, 30])
def test_any_width(kind: str, dim: int) -> None:
    rng = np.random.default_rng(dim)
    rows = rng.standard_normal((8000, dim), dtype=np.float32)
    made = VectorIndex.build(rows, **SMALL[kind])
    query = rng.standard_normal(dim).astype(np.float32)
    places = made.candidates(query, 100)
    assert places is None or len(places) >= 100


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_equal_vectors(kind: str) -> None:
    rows = np.ones((5000, 8), np.float32)
    rows[2500:] = -1
    made = VectorIndex.build(rows, **SMALL[kind])
    places = made.candidates(rows[0], 100)
    assert places is None or (places < 2500).all()


def test_lengths_beyond_float32() -> None:
    rows = table()[0].copy()
    rows[::2] *= np.float32(1e30)
    rows[1::2] *= np.float32(1e-30)
    made = VectorIndex.build(rows, **SMALL["ivf"])
    assert made.choice.kind == "ivf"
    places = made.candidates(rows[0], 100)
    assert places is not None
    assert 0 in places


# -- the same everywhere -------------------------------------------------------------------------

PROCESS = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import faiss
faiss.omp_set_num_threads(int(sys.argv[2]))
from test_vectors import body
print(body(sys.argv[3]))
"""


def body(kind: str) -> str:
    """Hash of the index and of how it is asked."""

    class Digest:
        state = hashlib.sha256()

        def write(self, data: bytes) -> int:
            self.state.update(data)
            return len(data)

    sink: Any = Digest()
    sink.state = hashlib.sha256()
    choice = index(kind).save(sink)
    del choice["seconds"]
    return str(sink.state.hexdigest() + json.dumps(choice))


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_one_table_gives_one_index_in_every_process_and_number_of_threads(kind: str) -> None:
    here = str(Path(__file__).parent)
    said = {
        subprocess.run(
            [sys.executable, "-c", PROCESS, here, str(threads), kind],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for threads in (1, 2, 3)
    }
    assert said == {body(kind)}


def test_faiss_is_loaded_when_it_is_needed() -> None:
    code = "import sys, fastassoc.vectors; print('faiss' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


# -- files ---------------------------------------------------------------------------------------


def cached(root: Path, kind: str, **options: Any) -> VectorIndex:
    return Cache(root, **options).index(
        "vectors", "abcd", VectorIndex.load, lambda: index(kind), VectorIndex.save
    )


def answers(made: VectorIndex) -> list[bytes]:
    asked, _ = clustered(30, 13)
    allowed = (np.arange(N) % 2).astype(np.uint8)
    found = [made.candidates(q, 100, mask) for q in asked for mask in (None, allowed)]
    return [b"" if places is None else places.tobytes() for places in found]


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_an_index_comes_back_from_its_file(tmp_path: Path, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cached(tmp_path, kind)
        again = cached(tmp_path, kind, read_only=True)
    assert again is not index(kind)
    assert again.choice == index(kind).choice
    assert answers(again) == answers(index(kind))
    if kind == "ivf":
        assert "vectors-abcd.bin" in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("kind", ["pq", "ivf"])
@pytest.mark.parametrize("harm", ["truncated", "zeroed", "flipped"])
def test_l33_a_damaged_index_is_made_again(tmp_path: Path, kind: str, harm: str) -> None:
    cached(tmp_path, kind)
    path = tmp_path / "cache" / "vectors-abcd.bin"
    data = bytearray(path.read_bytes())
    if harm == "truncated":
        del data[len(data) // 2 :]
    elif harm == "zeroed":
        data[:] = bytes(len(data))
    else:
        data[len(data) // 3] ^= 1
    path.unlink()
    path.write_bytes(data)
    with pytest.warns(RuntimeWarning, match=r"vectors-abcd\.bin") as told:
        again = cached(tmp_path, kind)
    assert len(told) == 1
    assert answers(again) == answers(index(kind))


@pytest.mark.parametrize("kind", ["pq", "ivf"])
def test_l35_a_full_disk_does_not_leave_half_an_index(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(files.Disk):
        left = 30_000

        def write(self, fd: int, data: memoryview) -> int:
            Full.left -= len(data)
            if Full.left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(fd, data)

    monkeypatch.setattr(files, "disk", Full())
    with pytest.warns(RuntimeWarning, match="could not be saved"):
        made = cached(tmp_path, kind)
    assert answers(made) == answers(index(kind))
    assert not list((tmp_path / "cache").glob("*.bin"))
    assert not list((tmp_path / "cache").glob("tmp-*"))


def test_an_exact_choice_is_remembered(tmp_path: Path) -> None:
    rows = np.random.default_rng(7).standard_normal((3000, 64), dtype=np.float32)
    made = VectorIndex.build(rows, exact_below=1000)
    cache = Cache(tmp_path)
    for _ in range(2):
        found = cache.index("vectors", "abcd", VectorIndex.load, lambda: made, VectorIndex.save)
        assert found.choice == made.choice
        assert found.candidates(rows[0], 10) is None


def test_a_file_of_another_index_is_refused(tmp_path: Path) -> None:
    cached(tmp_path, "ivf")
    path = tmp_path / "cache" / "vectors-abcd.bin"
    choice = index("ivf").choice.to_dict()
    for change in ({"notes": 7}, {"dim": 8}, {"kind": "pq"}):
        with pytest.raises(ValueError, match="found"):
            VectorIndex.load(path, choice | change)
    for wrong in ({}, choice | {"kind": "hnsw"}, choice | {"more": 1}):
        with pytest.raises(ValueError, match=r"index|choice"):
            VectorIndex.load(path, wrong)


def test_a_choice_survives_json() -> None:
    choice = index("pq").choice
    assert Choice.from_dict(json.loads(json.dumps(choice.to_dict()))) == choice


# -- measuring -----------------------------------------------------------------------------------


def test_the_measure_knows_the_truth() -> None:
    rows, _ = table()
    truth = recall.Truth(rows, 2000)
    assert len(truth.masks) == 3
    for which, mask in enumerate(truth.masks):
        for row in range(0, len(truth.asked.vectors), 9):
            allowed = np.ones(N, np.uint8) if mask is None else mask.copy()
            if truth.asked.own[row] >= 0:
                allowed[truth.asked.own[row]] = 0
            _, places = truth.wanted(which, row)
            assert places.tolist() == nearest(rows, truth.asked.vectors[row], allowed)
    few = np.arange(0, N, 2)
    half = truth.recall(lambda _, mask: few if mask is None else few[mask[few] != 0])
    assert 0.2 < half < 0.6


def test_the_measure_asks_no_question_again_whose_nearest_were_found() -> None:
    rows, _ = table()
    truth = recall.Truth(rows, 2000)

    asked: list[int] = []

    def find(n: int) -> Callable[[Any, Any], np.ndarray]:
        def first(_: Any, mask: Any) -> np.ndarray:
            asked.append(n)
            return np.arange(n) if mask is None else np.flatnonzero(mask[:n])

        return first

    shares = truth.shares()
    before = np.zeros(shares.size)
    for n in (N // 4, N // 2, N - 5, N):
        after = truth.recall(find(n), shares)
        assert asked.count(n) == np.count_nonzero(before < 1.0)
        assert after == truth.recall(find(n))
        before = shares.ravel().copy()
    assert before.all()


def test_the_advice_on_kernels_names_what_to_set() -> None:
    wide = frozenset(["avx2", "fma", "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"])
    said = openblas.advice("Prescott", wide)
    assert said is not None
    assert "Prescott" in said
    assert "OPENBLAS_CORETYPE=SkylakeX" in said
    assert "OPENBLAS_CORETYPE=Haswell" in str(
        openblas.advice("Nehalem", frozenset({"avx2", "fma"}))
    )
    assert openblas.advice("Zen", wide) is None
    assert openblas.advice("Prescott", frozenset({"sse2"})) is None
    assert openblas.advice(None, wide) is None


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell")
def test_the_kernels_that_faiss_uses_are_found() -> None:
    code = "from fastassoc import vectors; print(vectors.openblas_advice())"
    env = os.environ | {"OPENBLAS_CORETYPE": "Prescott"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env
    )
    vectors.openblas_advice()
    able = openblas.kernel() is not None and {"avx2", "fma"} <= openblas.flags()
    assert ("OPENBLAS_CORETYPE" in done.stdout) == able
