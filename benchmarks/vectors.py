"""The vector index beside plain FAISS: ``python -m benchmarks.vectors --notes 100000 --dim 384``.

For each size: which index was chosen and what was tried, seconds of the build, bytes, recall@10
against exact on fresh questions (never those that the choice was made with), p50 and p99 of a
question with its exact cosines, on one thread; the same with filters that leave 50, 20 and 11 %,
at random and along the clusters. In the same run: FAISS's flat scan, and its IVF of as many lists,
searched with 8 of them, trained on as many vectors with its own number of rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from fastassoc.recall import unit
from fastassoc.vectors import PER_LIST, VectorIndex, scans

Floats = NDArray[np.float32]
QUESTIONS = 200
FILTERED = 60  # of them are asked with each filter
SIZES = (10_000, 100_000, 1_000_000)
PROBES = 8
THREADS = faiss.omp_get_max_threads()


def data(kind: str, notes: int, dim: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Vectors, fresh questions, and the cluster of each vector.

    Clustered: one centre for 250 notes, as much noise as centre. Isotropic: no structure at all;
    then a "cluster" is a slice along one axis.
    """
    rng = np.random.default_rng(11)
    asked = rng.standard_normal((QUESTIONS, dim), dtype=np.float32)
    table = np.empty((notes, dim), np.float32)
    for first in range(0, notes, 65_536):
        block = table[first : first + 65_536]
        block[:] = rng.standard_normal(block.shape, dtype=np.float32)
    if kind == "isotropic":
        return unit(table), unit(asked), np.argsort(np.argsort(table[:, 0]))
    clusters = max(10, notes // 250)
    centres = rng.standard_normal((clusters, dim), dtype=np.float32)
    mine = rng.integers(0, clusters, notes)
    for first in range(0, notes, 65_536):
        table[first : first + 65_536] += centres[mine[first : first + 65_536]]
    asked += centres[rng.integers(0, clusters, QUESTIONS)]
    return unit(table), unit(asked), mine


def filters(mine: NDArray[np.int64]) -> dict[str, NDArray[np.uint8] | None]:
    rng = np.random.default_rng(12)
    out: dict[str, NDArray[np.uint8] | None] = {"all": None}
    for share in (0.5, 0.2, 0.11):
        out[f"random {share:.0%}"] = (rng.random(len(mine)) < share).astype(np.uint8)
        out[f"clusters {share:.0%}"] = (mine < share * (mine.max() + 1)).astype(np.uint8)
    return out


def score(
    find: Callable[[Floats], NDArray[np.int64]], asked: Floats, truth: Floats, table: Floats
) -> dict[str, float]:
    """Recall@10 by similarity (equals count as equal) and microseconds a question."""
    spent, hits = [], 0.0
    find(asked[0])
    for query, best in zip(asked, truth, strict=True):
        start = time.perf_counter()
        found = find(query)
        spent.append(time.perf_counter() - start)
        hits += min(10, int((table[found] @ query >= best[9] - 1e-6).sum())) / 10
    return {
        "recall": round(hits / len(asked), 4),
        "p50_us": round(float(np.percentile(spent, 50)) * 1e6, 1),
        "p99_us": round(float(np.percentile(spent, 99)) * 1e6, 1),
    }


def measure(kind: str, notes: int, dim: int, plain: bool) -> dict[str, Any]:
    table, asked, mine = data(kind, notes, dim)
    start = time.perf_counter()
    ours = VectorIndex.build(table)
    built = time.perf_counter() - start
    flat = faiss.IndexFlatIP(dim)
    flat.add(table)
    choice = ours.choice.to_dict() | {"build_s": round(built, 2)}
    out: dict[str, Any] = {"kind": kind, "notes": notes, "dim": dim, "choice": choice, "rows": []}
    print(f"built in {built:.1f} s: {choice['kind']}", file=sys.stderr, flush=True)
    for name, mask in filters(mine).items():
        kept = np.arange(notes) if mask is None else np.flatnonzero(mask)
        if mask is not None and scans(len(kept), notes):
            continue
        sel = None if mask is None else faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        options = {} if sel is None else {"params": faiss.SearchParameters(sel=sel)}
        some = asked if mask is None else asked[:FILTERED]
        faiss.omp_set_num_threads(THREADS)
        truth, _ = flat.search(some, 10, **options)
        faiss.omp_set_num_threads(1)
        exact = 0

        def scan(query: Floats, options: dict[str, Any] = options) -> NDArray[np.int64]:
            return flat.search(query[None], 10, **options)[1][0]

        def find(
            query: Floats,
            mask: NDArray[np.uint8] | None = mask,
            scan: Callable[[Floats], NDArray[np.int64]] = scan,
        ) -> NDArray[np.int64]:
            nonlocal exact
            found = ours.candidates(query, 100, mask)
            if found is None:
                exact += 1
                return scan(query)
            near = table[found].astype(np.float64) @ query.astype(np.float64)
            return found[np.argsort(-near)[:10]]

        row = {"filter": name, "index": ours.choice.kind} | score(find, some, truth, table)
        out["rows"].append(row | {"scanned": round(exact / (len(some) + 1), 3)})
        if plain and mask is None:
            out["rows"].append(
                {"filter": name, "index": "faiss flat"} | score(scan, some, truth, table)
            )
    faiss.omp_set_num_threads(THREADS)
    if plain:
        out["rows"].insert(2, plain_ivf(table, asked, flat, ours))
    return out


def plain_ivf(table: Floats, asked: Floats, flat: Any, ours: VectorIndex) -> dict[str, Any]:
    notes, dim = table.shape
    lists = int(ours.choice.parameters.get("lists", 1 << round(np.log2(2 * np.sqrt(notes)))))
    start = time.perf_counter()
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = PER_LIST
    rows = np.random.default_rng(1).choice(notes, min(notes, lists * PER_LIST), replace=False)
    index.train(table[np.sort(rows)])
    index.add(table)
    built = time.perf_counter() - start
    index.nprobe = PROBES
    faiss.omp_set_num_threads(1)
    truth, _ = flat.search(asked, 10)
    row = score(lambda query: index.search(query[None], 10)[1][0], asked, truth, table)
    faiss.omp_set_num_threads(THREADS)
    return {"filter": "all", "index": f"faiss IVF{lists}/{PROBES}"} | row | {"build_s": built}


def show(out: dict[str, Any]) -> None:
    choice = out["choice"]
    tried = ", ".join(f"{kind} {recall:.4f}" for kind, recall in choice["tried"]) or "nothing"
    print(f"\n{out['kind']}, {out['notes']:,} x {out['dim']}: {choice['kind']} (tried: {tried})")
    print(f"  build {choice['build_s']} s, {choice['bytes']:,} bytes, {choice['parameters']}")
    print(f"  {'filter':14}{'index':18}{'recall@10':>10}{'p50 us':>10}{'p99 us':>10}  scanned")
    for row in out["rows"]:
        rest = f"{row['scanned']:9.1%}" if "scanned" in row else ""
        rest += f"  built in {row['build_s']:.1f} s" if "build_s" in row else ""
        print(
            f"  {row['filter']:14}{row['index']:18}{row['recall']:10.4f}"
            f"{row['p50_us']:10.1f}{row['p99_us']:10.1f}{rest}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--notes", type=int, action="append", help="10000, 100000, 1000000 ...")
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--kind", choices=["clustered", "isotropic"], action="append")
    parser.add_argument("--json", action="store_true", help="one line of JSON a size")
    parser.add_argument("--ours", action="store_true", help="leave plain FAISS out")
    args = parser.parse_args()
    for notes in args.notes or SIZES:
        for kind in args.kind or ["clustered", "isotropic"]:
            out = measure(kind, notes, args.dim, not args.ours)
            if args.json:
                print(json.dumps(out), flush=True)
            else:
                show(out)


if __name__ == "__main__":
    main()
