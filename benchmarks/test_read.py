"""Reads by every rank, one by one and in batches, beside the plain ways and the peers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastassoc as fa
from benchmarks import plain
from benchmarks.asked import DRAWS, Asked
from benchmarks.case import FLOOR, OURS, measure, peer
from benchmarks.topics import SIZES, concept_ids, table

READS = 400
LISTS = 100_000
CAP = 32
FEW = 300  # notes in a peer that takes milliseconds a note; its reads grow with their number
BATCHES = (64, 1_024)
TWIN = 1_000


@pytest.fixture(scope="module")
def capped(store: Path) -> Iterator[fa.Memory]:
    with fa.open(store, read_only=True) as mem:
        settings = mem.settings.with_changes({"max_fanout": CAP}, read_only=True)
    with fa.open(store, read_only=True, settings=settings) as mem:
        yield mem


# -- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("way", ["exact", "capped"])
@pytest.mark.parametrize("many", [1, 3])
def test_counts(
    benchmark: Any, size: str, request: Any, mem: fa.Memory, asked: Asked, draw: str, way: str,
    many: int,
) -> None:  # fmt: skip
    memory = mem if way == "exact" else request.getfixturevalue("capped")
    queries = [(one,) for one in asked.concepts(draw, many, READS)]
    measure(
        benchmark, f"counts-{many}-{draw}-{way}", OURS, size,
        lambda names: memory.read(concepts=names), queries, warm=50, unit="reads",
    )  # fmt: skip


@pytest.mark.parametrize("hops", [2, 3])
@pytest.mark.parametrize("draw", DRAWS)
def test_counts_hops(
    benchmark: Any, size: str, capped: fa.Memory, asked: Asked, draw: str, hops: int
) -> None:
    queries = [(one,) for one in asked.concepts(draw, 1, 100)]
    measure(
        benchmark, f"counts-1-{draw}-{hops}hops", OURS, size,
        lambda names: capped.read(concepts=names, hops=hops), queries, warm=10, unit="reads",
    )  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
def test_counts_bound(benchmark: Any, size: str, mem: fa.Memory, asked: Asked, draw: str) -> None:
    """One gather for each posting of what is asked and of what its links reach."""
    view = mem._view()
    numbers = {f"concept {n:06d}": n for n in asked.known.tolist()}
    carried = np.bincount(asked.ids.ravel(), minlength=max(numbers.values()) + 1)
    names, find = view.vocabulary.name, view.vocabulary.find
    rng, memory, touched = np.random.default_rng(3), np.zeros(len(mem)), []
    for (one,) in asked.concepts(draw, 1, 100):
        reached = view.links.expand([find(one)], threshold=2.0).ids.tolist()
        some = [numbers[name] for name in (one, *map(names, reached)) if name in numbers]
        touched.append((rng.integers(0, len(memory), int(carried[some].sum())),))
    who = FLOOR + "a gather for each posting"
    row = f"counts-1-{draw}-exact"
    measure(benchmark, row, who, size, memory.take, touched, unit="reads")


@pytest.mark.parametrize("draw", DRAWS)
def test_counts_by_a_scan(
    benchmark: Any, size: str, notes: int, mem: fa.Memory, asked: Asked, draw: str
) -> None:
    rows = [[f"concept {n:06d}" for n in one] for one in asked.ids[:LISTS].tolist()]
    queries = []
    for (one,) in asked.concepts(draw, 1, 3):
        edges = mem.graph([one], limit=1_000, min_weight=2.0).edges
        linked = {(e["b"] if e["a"] == one else e["a"]): e["weight"] for e in edges}
        queries.append((rows, one, linked))
    measure(
        benchmark, f"counts-1-{draw}-exact", "a scan of every note", size, plain.scan, queries,
        unit="reads", scale=max(1.0, notes / LISTS),
    )  # fmt: skip


def test_counts_by_the_twin(benchmark: Any, size: str) -> None:
    if size != "small":
        pytest.skip("naive.py looks at every link for every concept")
    from naive import NaiveMemory

    twin = NaiveMemory(lambda: 0)
    twin.write_batch(table(TWIN).to_pylist())
    queries = [([f"concept {n:06d}"],) for n in concept_ids(3)[:, 0].tolist()]
    measure(
        benchmark,
        "counts-1-frequent-exact",
        f"naive.py, {TWIN:,} notes",
        size,
        twin.read,
        queries,
        unit="reads",
    )


@pytest.mark.parametrize("many", BATCHES)
@pytest.mark.parametrize("draw", DRAWS)
def test_counts_batch(
    benchmark: Any, size: str, mem: fa.Memory, asked: Asked, draw: str, many: int
) -> None:
    queries = [{"concepts": one} for one in asked.concepts(draw, 1, many)]
    measure(
        benchmark, f"counts-batch-{many}-{draw}", OURS, size, lambda: mem.read_batch(queries),
        rounds=3, work=many, unit="reads",
    )  # fmt: skip


# -- text: flat, bridge, ppr ----------------------------------------------------------------------

RANKS = ("flat", "bridge", "ppr")


@pytest.fixture(scope="module")
def texts(mem: fa.Memory, asked: Asked) -> list[str]:
    mem.warm()
    return asked.sentences(READS)


@pytest.mark.parametrize("rank", RANKS)
def test_text(benchmark: Any, size: str, mem: fa.Memory, texts: list[str], rank: str) -> None:
    queries = [(text,) for text in texts[: READS if rank == "flat" else 100]]
    measure(
        benchmark, f"text-{rank}", OURS, size, lambda text: mem.read(text, rank=rank), queries,
        warm=10, unit="reads",
    )  # fmt: skip


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("many", BATCHES)
def test_text_batch(
    benchmark: Any, size: str, mem: fa.Memory, asked: Asked, texts: list[str], rank: str, many: int
) -> None:
    if size != "small" and rank != "flat" and many > BATCHES[0]:
        pytest.skip("64 at a time tell as much")
    queries = asked.sentences(many)
    measure(
        benchmark, f"text-batch-{many}-{rank}", OURS, size,
        lambda: mem.read_batch(queries, rank=rank), work=many, unit="reads",
    )  # fmt: skip


@pytest.mark.parametrize("who", ["bm25s", "tantivy"])
def test_text_beside(
    benchmark: Any, size: str, notes: int, asked: Asked, work: Path, who: str
) -> None:
    package = peer(who)
    if notes > SIZES["large"]:
        pytest.skip("measured up to a million notes")
    said = table(notes).column("text").to_pylist()
    if who == "bm25s":
        index = package.BM25()
        index.index(package.tokenize(said, show_progress=False), show_progress=False)

        def call(text: str) -> Any:
            tokens = package.tokenize(text, show_progress=False)
            return index.retrieve(tokens, k=10, show_progress=False)
    else:
        schema = package.SchemaBuilder()
        schema.add_text_field("text", stored=False, tokenizer_name="en_stem")
        index = package.Index(schema.build())
        writer = index.writer(200_000_000, 1)
        for text in said:
            writer.add_document(package.Document(text=text))
        writer.commit()
        index.reload()
        searcher = index.searcher()
        call = lambda text: searcher.search(index.parse_query(text, ["text"]), 10)  # noqa: E731
    queries = [(text,) for text in asked.sentences(100)]
    measure(benchmark, "text-flat", who, size, call, queries, warm=5, unit="reads")


# -- personalised PageRank ------------------------------------------------------------------------

PAGED = SIZES["medium"]  # the most notes of those who look at the whole graph


def test_ppr(benchmark: Any, size: str, mem: fa.Memory, asked: Asked) -> None:
    """The stage that ranks, as the read itself tells."""
    mem.warm()
    queries = [(one,) for one in asked.concepts("frequent", 1, 100)]
    measure(
        benchmark, "ppr", OURS, size,
        lambda names: mem.read(concepts=names, rank="ppr").timings["score"], queries, warm=10,
        told=True, unit="reads",
    )  # fmt: skip


@pytest.fixture(scope="module")
def graph(asked: Asked, notes: int) -> Any:
    return plain.bipartite(asked.ids[: min(notes, PAGED)])


def by_igraph(graph: Any) -> Callable[[int], Any]:
    igraph = peer("igraph")
    ends = np.array(graph.nonzero()).T
    made = igraph.Graph(n=graph.shape[0], edges=ends[ends[:, 0] < ends[:, 1]])
    return lambda n: made.personalized_pagerank(reset_vertices=[n], damping=0.85)


def by_sknetwork(graph: Any) -> Callable[[int], Any]:
    from scipy import sparse

    ranking = peer("sknetwork.ranking")
    made = sparse.csr_matrix(graph)
    return lambda n: ranking.PageRank().fit_predict(made, weights={n: 1.0})


def by_networkx(graph: Any) -> Callable[[int], Any]:
    networkx = peer("networkx")
    made = networkx.from_scipy_sparse_array(graph)
    return lambda n: networkx.pagerank(made, personalization={n: 1.0})


def by_the_twin(graph: Any) -> Callable[[int], Any]:
    from naive_ppr import pagerank

    edges = {
        ("node", n): {
            ("node", int(m)): 1.0 for m in graph.indices[graph.indptr[n] : graph.indptr[n + 1]]
        }
        for n in range(graph.shape[0])
    }
    return lambda n: pagerank(edges, {("node", n): 1.0}, 0.15, 3)


PAGERANKS = {
    "igraph": by_igraph,
    "scikit-network": by_sknetwork,
    "networkx": by_networkx,
    "naive.py, 3 rounds": by_the_twin,
}


@pytest.mark.parametrize("who", PAGERANKS)
def test_ppr_beside(
    benchmark: Any, size: str, notes: int, asked: Asked, graph: Any, who: str
) -> None:
    if notes > PAGED:
        pytest.skip("those who look at the whole graph are measured up to 100,000 notes")
    call = PAGERANKS[who](graph)
    carried = graph[:5].indices  # as often as notes carry them
    some = carried[:: max(1, len(carried) // 5)][:5]
    slow = who in {"networkx", "naive.py, 3 rounds"}
    queries = [(int(n),) for n in (some[:2] if slow else some)]
    measure(benchmark, "ppr", who, size, call, queries, unit="reads")


# -- small peers ----------------------------------------------------------------------------------


def in_hebbmem(rows: list[dict[str, Any]], work: Path) -> Callable[[str], Any]:
    mem = peer("hebbmem").HebbMem(encoder="hash")
    mem.store_batch([row["text"] for row in rows])
    return lambda text: mem.recall(text, top_k=10)


def in_hyperrecall(rows: list[dict[str, Any]], work: Path) -> Callable[[str], Any]:
    mem = peer("hyperrecall").HyperRecall.open(os.fspath(work / "hyperrecall.db"))
    for row in rows:
        mem.remember(row["text"], participants=row["concepts"])
    return mem.recall


def in_cognitive_memory(rows: list[dict[str, Any]], work: Path) -> Callable[[str], Any]:
    mem = peer("cognitive_memory").SyncCognitiveMemory(embedder="hash")
    for row in rows:
        mem.add(row["text"])
    return lambda text: mem.search(text, top_k=10)


PEERS = {
    "hebbmem": in_hebbmem,
    "hyperrecall": in_hyperrecall,
    "cognitive-memory": in_cognitive_memory,
}


@pytest.mark.parametrize("who", PEERS)
def test_peers(benchmark: Any, size: str, work: Path, who: str) -> None:
    """A read of a memory of 300 notes only: with more they take longer than a suite may."""
    if size != "small":
        pytest.skip("measured once, on few notes")
    call = PEERS[who](table(FEW).to_pylist(), work)
    queries = [(row["text"][:40],) for row in table(5, seed=5).to_pylist()]
    said = f"{who}, {FEW} notes"
    measure(benchmark, "vector-clustered", said, size, call, queries, unit="reads", few=FEW)
