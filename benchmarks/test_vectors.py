"""Reads by vector, whole, beside FAISS alone and stores of vectors; filters by metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import fastassoc as fa
from benchmarks.asked import Asked
from benchmarks.case import OURS, measure, peer
from benchmarks.topics import SIZES, table
from benchmarks.vectors import data

DIM = 384
GROUPS = 10  # a filter by metadata leaves a tenth
CHROMA = 5_000
KINDS = ("clustered", "isotropic")
BATCHES = (64, 1_024)


class Near(NamedTuple):
    """A store with vectors, the vectors, fresh questions, and their true first ten."""

    mem: fa.Memory
    vectors: np.ndarray
    asked: np.ndarray
    truth: np.ndarray  # similarity of the tenth


@pytest.fixture(scope="module", params=KINDS)
def near(request: pytest.FixtureRequest, size: str, notes: int, work: Path) -> Iterator[Near]:
    kind = request.param
    if notes > SIZES["large"] or (notes == SIZES["large"] and kind == "isotropic"):
        pytest.skip("a million clustered vectors are the most that is measured")
    vectors, asked, _ = data(kind, notes, DIM)
    path = work / f"{kind}.fa"
    with fa.open(path, sync="normal") as mem:
        said = table(notes)
        for first in range(0, notes, 100_000):
            mem.ingest(rows(said, vectors, first, 100_000))
        del said
        mem.snapshot()
    with fa.open(path, read_only=True) as mem:
        mem.warm()
        yield Near(mem, vectors, asked, np.array([tenth(vectors, one) for one in asked]))


def rows(said: pa.Table, vectors: np.ndarray, first: int, many: int) -> pa.Table:
    some, made = vectors[first : first + many], said.slice(first, many)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(some.ravel()), DIM)
    kept = pa.array([json.dumps({"group": n % GROUPS}) for n in range(first, first + len(some))])
    return made.append_column("vector", flat).append_column("metadata", kept)


def tenth(vectors: np.ndarray, query: np.ndarray) -> float:
    return float(np.partition(vectors @ query, len(vectors) - 10)[-10])


def recall(found: list[list[float]], truth: np.ndarray) -> float:
    """Share of the true first ten, by similarity: equal ones count as equal."""
    good = [
        sum(one >= least - 1e-5 for one in some) for some, least in zip(found, truth, strict=True)
    ]
    return round(float(np.minimum(good, 10).mean() / 10), 4)


def test_vector(benchmark: Any, size: str, request: Any, near: Near) -> None:
    kind = request.node.callspec.params["near"]
    found: list[list[float]] = []

    def call(query: np.ndarray) -> Any:
        return near.mem.read(vector=query, rank="flat")

    measure(
        benchmark, f"vector-{kind}", OURS, size, call, [(one,) for one in near.asked], warm=20,
        unit="reads",
    )  # fmt: skip
    found = [[hit.similarity for hit in call(one)] for one in near.asked]
    index = near.mem.info()["index"]
    benchmark.extra_info |= {
        "recall": recall(found, near.truth),
        "index": "exact" if index is None else index["kind"],
    }


def test_vector_with_words(benchmark: Any, size: str, request: Any, near: Near, notes: int) -> None:
    """By vector, words and the concepts that the words name: expansion and path included."""
    kind = request.node.callspec.params["near"]
    texts = Asked(near.mem, notes).sentences(len(near.asked))
    queries = list(zip(texts, near.asked, strict=True))
    measure(
        benchmark, f"vector-words-{kind}", OURS, size,
        lambda text, query: near.mem.read(text, vector=query), queries, warm=20, unit="reads",
    )  # fmt: skip


@pytest.mark.parametrize("many", BATCHES)
def test_vector_batch(benchmark: Any, size: str, request: Any, near: Near, many: int) -> None:
    kind = request.node.callspec.params["near"]
    queries = [{"vector": near.asked[n % len(near.asked)], "rank": "flat"} for n in range(many)]
    measure(
        benchmark, f"vector-batch-{many}-{kind}", OURS, size, lambda: near.mem.read_batch(queries),
        work=many, unit="reads",
    )  # fmt: skip


def test_filtered(benchmark: Any, size: str, request: Any, near: Near) -> None:
    kind = request.node.callspec.params["near"]
    queries = [(one,) for one in near.asked[:100]]
    measure(
        benchmark, f"vector-where-{kind}", OURS, size,
        lambda query: near.mem.read(vector=query, rank="flat", where={"group": 3}), queries,
        warm=10, unit="reads",
    )  # fmt: skip


# -- beside ---------------------------------------------------------------------------------------


class Alone(NamedTuple):
    call: Callable[[np.ndarray], Any]
    similar: Callable[[Any], list[float]]


def flat(near: Near, work: Path, where: bool) -> Alone:
    import faiss

    index = faiss.IndexFlatIP(DIM)
    index.add(near.vectors)
    return threaded(index, where, len(near.vectors))


def ivf(near: Near, work: Path, where: bool) -> Alone:
    import faiss

    lists = 1 << round(np.log2(2 * np.sqrt(len(near.vectors))))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(DIM), DIM, lists, faiss.METRIC_INNER_PRODUCT)
    some = np.random.default_rng(1).choice(len(near.vectors), min(len(near.vectors), 50 * lists))
    index.train(near.vectors[np.sort(some)])
    index.add(near.vectors)
    index.nprobe = 8
    return threaded(index, where, len(near.vectors))


def threaded(index: Any, where: bool, notes: int) -> Alone:
    import faiss

    options = {}
    if where:
        mask = np.packbits(np.arange(notes) % GROUPS == 3, bitorder="little")
        chosen = faiss.IDSelectorBitmap(mask)
        ivf = isinstance(index, faiss.IndexIVF)
        options["params"] = (
            faiss.SearchParametersIVF(sel=chosen, nprobe=index.nprobe)
            if ivf
            else faiss.SearchParameters(sel=chosen)
        )
    faiss.omp_set_num_threads(1)
    return Alone(
        lambda query: index.search(query[None], 10, **options), lambda found: found[0][0].tolist()
    )


def lancedb(near: Near, work: Path, where: bool) -> Alone:
    db = peer("lancedb").connect(str(work / "lance"))
    count = len(near.vectors)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(near.vectors.ravel()), DIM)
    made = pa.table({"n": np.arange(count), "group": np.arange(count) % GROUPS, "vector": flat})
    kept = db.create_table("notes", made, mode="overwrite")

    def call(query: np.ndarray) -> Any:
        search = kept.search(query).distance_type("dot").limit(10)
        return (search.where("`group` = 3", prefilter=True) if where else search).to_arrow()

    return Alone(call, lambda found: [1 - d for d in found.column("_distance").to_pylist()])


def chroma(near: Near, work: Path, where: bool) -> Alone:
    chromadb = peer("chromadb")
    options = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(path=str(work / "chroma"), settings=options)
    name = f"notes-{len(client.list_collections())}"
    kept = client.create_collection(name, embedding_function=None, metadata={"hnsw:space": "ip"})
    many = min(CHROMA, len(near.vectors))
    for first in range(0, many, 2_000):
        some = range(first, min(many, first + 2_000))
        kept.add(
            ids=[str(n) for n in some],
            embeddings=near.vectors[first : first + len(some)],
            metadatas=[{"group": n % GROUPS} for n in some],
        )
    only = {"where": {"group": 3}} if where else {}
    return Alone(
        lambda query: kept.query(query_embeddings=query[None], n_results=10, **only),
        lambda found: [1 - d for d in found["distances"][0]],
    )


def duckdb(near: Near, work: Path, where: bool) -> Alone:
    db = peer("duckdb").connect()
    count = len(near.vectors)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(near.vectors.ravel()), DIM)
    made = pa.table({"n": np.arange(count), "g": np.arange(count) % GROUPS, "vector": flat})
    db.register("made", made)
    db.execute(f"CREATE TABLE notes AS SELECT n, g, vector::FLOAT[{DIM}] AS vector FROM made")
    db.execute("SET threads = 1")
    only = "WHERE g = 3" if where else ""
    text = f"SELECT n, array_inner_product(vector, ?::FLOAT[{DIM}]) AS s FROM notes {only}"
    text += " ORDER BY s DESC LIMIT 10"
    return Alone(
        lambda query: db.execute(text, [query.tolist()]).fetchall(),
        lambda found: [s for _, s in found],
    )


BESIDE = {
    "faiss flat alone": flat,
    "faiss IVF alone": ivf,
    "LanceDB": lancedb,
    "Chroma": chroma,
    "DuckDB": duckdb,
}


@pytest.mark.parametrize("where", [False, True], ids=["all", "where"])
@pytest.mark.parametrize("who", BESIDE)
def test_beside(
    benchmark: Any, size: str, request: Any, near: Near, work: Path, who: str, where: bool
) -> None:
    kind = request.node.callspec.params["near"]
    if kind == "isotropic" and not who.startswith("faiss"):
        pytest.skip("stores of vectors are measured on clustered ones")
    if who == "faiss IVF alone" and size == "small":
        pytest.skip("too few for lists")
    alone = BESIDE[who](near, work, where)
    row = f"vector-where-{kind}" if where else f"vector-{kind}"
    less = {"few": CHROMA} if who == "Chroma" and len(near.vectors) > CHROMA else {}
    said = f"{who}, {CHROMA:,} notes" if less else who
    few = [(one,) for one in near.asked[:50]]
    measure(benchmark, row, said, size, alone.call, few, warm=5, unit="reads", **less)
    if not where and who != "Chroma":
        found = [alone.similar(alone.call(one)) for (one,) in few]
        benchmark.extra_info["recall"] = recall(found, near.truth[: len(few)])
