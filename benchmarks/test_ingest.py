"""Parquet into a durable store, with vectors and without, and what is derived from it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastassoc as fa
from benchmarks import plain
from benchmarks.case import FLOOR, OURS, measure, peer
from benchmarks.topics import SIZES, table, write_parquet
from benchmarks.vectors import data

DIM = 384
LISTS = 100_000
ROOT = Path(__file__).parents[1]
PEAK = """
import sys
import fastassoc as fa
from benchmarks.growth import peak
path, file, rows = sys.argv[1:]
mem = fa.open(path)
mem.ingest(file, batch_rows=int(rows) or None)
print(peak())
"""


def times(size: str) -> int:
    return 3 if size == "small" else 1


def ingested(path: Path, file: Path, notes: int) -> None:
    with fa.open(path) as mem:
        assert mem.ingest(str(file)).written == notes


# -- without vectors ------------------------------------------------------------------------------


def test_parquet(
    benchmark: Any, size: str, notes: int, parquet: Path, folder: Callable[[], Path]
) -> None:
    measure(
        benchmark, "ingest", OURS, size, lambda path: ingested(path, parquet, notes),
        before=lambda: (folder(),), rounds=times(size), work=notes, unit="notes",
    )  # fmt: skip


def test_parquet_memory(
    benchmark: Any, size: str, notes: int, parquet: Path, folder: Callable[[], Path]
) -> None:
    """Peak memory of a process that does nothing else."""
    peaks = []

    def call(path: Path) -> None:
        words = [sys.executable, "-c", PEAK, str(path), str(parquet), "0"]
        done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
        peaks.append(int(done.stdout))

    measure(
        benchmark, "ingest-memory", OURS, size, call, before=lambda: (folder(),), work=notes,
        unit="notes",
    )  # fmt: skip
    benchmark.extra_info["peak_bytes"] = peaks[0]


def copied(parquet: Path, path: Path) -> None:
    made = pq.read_table(parquet)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made.schema) as out:
        out.write_table(made)
    plain.synced(path, sink.getvalue())


def into_duckdb(parquet: Path, path: Path) -> None:
    with peer("duckdb").connect(str(path)) as db:
        db.execute("CREATE TABLE notes AS SELECT * FROM read_parquet(?)", [str(parquet)])


def into_lancedb(parquet: Path, path: Path) -> None:
    peer("lancedb").connect(str(path)).create_table("notes", pq.read_table(parquet))


def into_counter(parquet: Path, path: Path) -> None:
    plain.counted(pq.read_table(parquet).slice(0, LISTS).column("concepts").to_pylist())


BESIDE = {
    FLOOR + "read and write again": copied,
    "Counter, nothing saved": into_counter,
    "DuckDB, no links": into_duckdb,
    "LanceDB, no links": into_lancedb,
}


@pytest.mark.parametrize("who", BESIDE)
def test_parquet_beside(
    benchmark: Any, size: str, notes: int, parquet: Path, folder: Callable[[], Path], who: str
) -> None:
    if notes > SIZES["large"]:
        pytest.skip("measured up to a million notes")
    for one in ("DuckDB", "LanceDB"):
        if who.startswith(one):
            peer(one.lower())
    work = min(notes, LISTS) if who.startswith("Counter") else notes
    measure(
        benchmark, "ingest", who, size, lambda path: BESIDE[who](parquet, path),
        before=lambda: (folder(),), rounds=times(size), work=work, unit="notes",
    )  # fmt: skip


# -- the index of words and mentions --------------------------------------------------------------


@pytest.fixture(scope="module")
def texts(notes: int) -> list[str]:
    return table(min(notes, SIZES["large"])).column("text").to_pylist()


def test_text_index(benchmark: Any, size: str, notes: int, parquet: Path) -> None:
    if notes > SIZES["large"]:
        pytest.skip("measured up to a million notes")

    def before() -> tuple[fa.Memory]:
        mem = fa.Memory()
        mem.ingest(str(parquet))
        return (mem,)

    measure(
        benchmark, "text-index", OURS, size, fa.Memory.warm, before=before,
        rounds=times(size), work=12 * notes, unit="tokens",
    )  # fmt: skip


def split(texts: list[str]) -> None:
    pc.split_pattern(pa.array(texts), " ").flatten().dictionary_encode()


def stemmed(texts: list[str]) -> None:
    import snowballstemmer

    stem, known = snowballstemmer.stemmer("english").stemWord, {}
    for text in texts[:LISTS]:
        for word in text.split():
            if word not in known:
                known[word] = stem(word)
            _ = known[word]


def by_bm25s(texts: list[str]) -> None:
    bm25s = peer("bm25s")
    tokens = bm25s.tokenize(texts, show_progress=False)
    bm25s.BM25().index(tokens, show_progress=False)


def by_tantivy(texts: list[str]) -> None:
    tantivy = peer("tantivy")
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False, tokenizer_name="en_stem")
    writer = tantivy.Index(schema.build()).writer(200_000_000, 1)
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()


TEXTS = {
    FLOOR + "split and encode": split,
    "a stem cache in Python": stemmed,
    "bm25s": by_bm25s,
    "tantivy": by_tantivy,
}


@pytest.mark.parametrize("who", TEXTS)
def test_text_index_beside(benchmark: Any, size: str, texts: list[str], who: str) -> None:
    if who in {"bm25s", "tantivy"}:
        peer(who)
    many = min(len(texts), LISTS) if "cache" in who else len(texts)
    measure(
        benchmark, "text-index", who, size, lambda: TEXTS[who](texts), rounds=times(size),
        work=12 * many, unit="tokens",
    )  # fmt: skip


# -- with vectors ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table384(notes: int) -> np.ndarray:
    if notes > SIZES["large"]:
        pytest.skip("vectors are measured up to a million")
    return data("clustered", notes, DIM)[0]


@pytest.fixture(scope="module")
def near(work: Path, notes: int, table384: np.ndarray) -> Path:
    file = work / "near.parquet"
    write_parquet(file, notes, table384)
    return file


def test_vectors(
    benchmark: Any, size: str, notes: int, near: Path, folder: Callable[[], Path]
) -> None:
    measure(
        benchmark, "ingest-vectors", OURS, size, lambda path: ingested(path, near, notes),
        before=lambda: (folder(),), rounds=times(size), work=notes, unit="notes",
    )  # fmt: skip


def into_chroma(file: Path, path: Path) -> None:
    chromadb = peer("chromadb")
    options = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(path=str(path), settings=options)
    made = client.create_collection("notes", embedding_function=None)
    some = pq.read_table(file).slice(0, CHROMA)
    vectors = np.stack(some.column("vector").to_numpy())
    ids, said = some.column("id").to_pylist(), some.column("text").to_pylist()
    for first in range(0, len(ids), 2_000):
        part = slice(first, first + 2_000)
        kept = [{"n": n} for n in range(first, first + len(ids[part]))]
        made.add(ids=ids[part], embeddings=vectors[part], documents=said[part], metadatas=kept)


CHROMA = 5_000  # its figures are those of its first notes: it takes milliseconds a note
STORES = {
    FLOOR + "read and write again": copied,
    "DuckDB, no links": into_duckdb,
    "LanceDB, no links": into_lancedb,
    "Chroma, no links": into_chroma,
}


@pytest.mark.parametrize("who", STORES)
def test_vectors_beside(
    benchmark: Any, size: str, notes: int, near: Path, folder: Callable[[], Path], who: str
) -> None:
    name = {"D": "duckdb", "L": "lancedb", "C": "chromadb"}.get(who[0])
    if name is not None:
        peer(name)
    many = min(notes, CHROMA) if name == "chromadb" else notes
    measure(
        benchmark, "ingest-vectors", who, size, lambda path: STORES[who](near, path),
        before=lambda: (folder(),), rounds=1, work=many, unit="notes",
    )  # fmt: skip


def test_vector_index(benchmark: Any, size: str, notes: int, near: Path) -> None:
    if size == "small":
        pytest.skip("20,000 vectors and fewer are compared one by one: there is no index")
    with fa.Memory() as mem:
        mem.ingest(str(near))
        mem.warm()  # words too; the index is made again below, and alone
        choice = mem.info()["index"]
    measure(
        benchmark, "vector-index", OURS, size, lambda: choice["seconds"], told=True, work=notes,
        unit="vectors", **{key: choice[key] for key in ("kind", "recall", "bytes")},
    )  # fmt: skip


def test_vector_index_beside(benchmark: Any, size: str, notes: int, table384: np.ndarray) -> None:
    """The plainest index of FAISS for so many: product quantisation, then inverted lists."""
    if size == "small":
        pytest.skip("20,000 vectors and fewer are compared one by one: there is no index")
    if notes >= 200_000:
        who, call = "faiss IVF alone", lambda: ivf(table384)
    else:
        who, call = "faiss PQ96x4fs alone", lambda: pq96(table384)
    measure(benchmark, "vector-index", who, size, call, work=notes, unit="vectors")


def pq96(vectors: np.ndarray) -> Any:
    import faiss

    index = faiss.index_factory(vectors.shape[1], "PQ96x4fs", faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    return index


def ivf(vectors: np.ndarray) -> Any:
    import faiss

    lists = 1 << round(np.log2(2 * np.sqrt(len(vectors))))
    index = faiss.IndexIVFFlat(
        faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], lists, faiss.METRIC_INNER_PRODUCT
    )
    index.train(vectors)
    index.add(vectors)
    return index
