"""The bridge beside the flat read: ``python -m benchmarks.bridge --data DIR --notes 3k,14k,1m``.

p50 and p99 of whole reads through the public API, given a text and a vector, the median of what
the thread itself worked (on a busy machine the rest is waiting), and of each stage; the flat read
of the same questions in turn with them, and the ratio. "3k" are the passages of MuSiQue with its
questions, "14k" these among those of 2WikiMultihopQA and turns of LoCoMo (as many as the folder
holds), both from `--data` or FASTASSOC_DATA; any other size is generated, with two cases more: a
word that every note holds, and a concept that every note carries.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import fastassoc as fa
from benchmarks.topics import zipf
from fastassoc.embed import embed_texts, resolve
from fastassoc.latency.made import PER_TOPIC

VOCABULARY = 100_000
WORDS = 24  # of a note, beside its title and the names in it
NAMES = 3
PER_CLUSTER = 250  # notes of a topic
QUESTIONS = 200
HUB_WORD, HUB_NAME, HUB_SUBJECT = "chronicle", "Everywhere Office", "Common Ground"
TAUGHT = "Only Taught"
Question = dict[str, Any]


# -- generated notes ------------------------------------------------------------------------------


def spelled(numbers: NDArray[np.int64]) -> list[str]:
    """A made-up word for each number, of two to four syllables; none is a stop word."""
    syllables = [a + b for a in "bdfgklmnprtvz" for b in ("a", "e", "i", "o", "u", "an", "or")]
    out = []
    for number in numbers.tolist():
        rest, parts = number + len(syllables), []
        while rest:
            rest, at = divmod(rest, len(syllables))
            parts.append(syllables[at])
        out.append("".join(parts) + "x")
    return out


class Generated:
    """Notes with a title, names of others of their topic, and Zipf words; clustered vectors.

    The same numbers give the same notes.
    """

    def __init__(self, notes: int, dim: int, seed: int = 7) -> None:
        rng = np.random.default_rng(seed)
        self.notes, topics = notes, max(4, notes // PER_CLUSTER)
        words = pa.array(spelled(np.arange(VOCABULARY)))
        titles = [name.title() for name in spelled(VOCABULARY + np.arange(notes))]
        first = [name.title() for name in spelled(np.arange(2000) * 31)]
        surnames = pa.array([f"{first[n % 2000]} {title}" for n, title in enumerate(titles)])
        self.topic = np.sort(rng.integers(0, topics, notes))
        begins = np.searchsorted(self.topic, np.arange(topics))
        sizes = np.bincount(self.topic, minlength=topics)
        own = zipf(rng, VOCABULARY, (topics, PER_TOPIC), 0.6)  # the words of a topic
        columns: list[Any] = [surnames]
        for place in range(WORDS):
            ranks = zipf(rng, VOCABULARY, (notes,), 1.0)
            if place % 2:
                ranks = own[self.topic, zipf(rng, PER_TOPIC, (notes,), 0.8)]
            columns.append(words.take(pa.array(ranks)))
        mates = zipf(rng, PER_CLUSTER, (notes, NAMES), 0.8) % sizes[self.topic][:, None]
        mates += begins[self.topic][:, None]
        for place in range(NAMES):
            columns.insert(4 + 6 * place, surnames.take(pa.array(mates[:, place])))
        columns.append(pa.array([HUB_WORD]).take(pa.array(np.zeros(notes, np.int64))))
        named = np.concatenate([mates, np.full((notes, 1), notes)], axis=1)
        all_names = pa.concat_arrays([surnames, pa.array([HUB_NAME])])
        self.vectors = self._vectors(rng, topics, dim)
        both = np.stack([np.arange(notes), np.full(notes, notes)], axis=1)
        titled = pa.concat_arrays([surnames, pa.array([HUB_SUBJECT])]).take(pa.array(both.ravel()))
        self.table = pa.table(
            {
                "id": pc.binary_join_element_wise(
                    "n", pa.array(np.arange(notes)).cast("string"), ""
                ),
                "text": pc.binary_join_element_wise(*columns, " "),
                "subjects": lists(titled, 2),
                "concepts": lists(all_names.take(pa.array(named.ravel())), NAMES + 1),
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(self.vectors.ravel()), dim),
            }
        )
        self.rng = rng

    def _vectors(self, rng: np.random.Generator, topics: int, dim: int) -> NDArray[np.float32]:
        centres = rng.standard_normal((topics, dim), dtype=np.float32)
        out = rng.standard_normal((self.notes, dim), dtype=np.float32)
        for start in range(0, self.notes, 65_536):
            out[start : start + 65_536] += centres[self.topic[start : start + 65_536]]
        return out

    def memory(self, folder: str) -> fa.Memory:
        """A store with all indexes; an index of vectors is made of a snapshot's."""
        mem = fa.open(Path(folder) / "generated.fa", sync="off")
        mem.ingest(self.table)
        mem.snapshot()
        mem.warm()
        return mem

    def questions(self) -> Iterator[Question]:
        """Words of one note, a name in it, and a word of the note with that title."""
        texts = self.table.column("text")
        for row in self.rng.integers(0, self.notes, QUESTIONS).tolist():
            said = texts[row].as_py().split()
            picked = [said[at] for at in self.rng.integers(2, len(said) - 1, 6).tolist()]
            noise = self.rng.standard_normal(self.vectors.shape[1]).astype(np.float32)
            name = " ".join(said[5:7])
            yield {
                "query": f"Which {' '.join(picked)} of {name}",
                "vector": self.vectors[row] + noise,
            }


def lists(values: Any, width: int) -> Any:
    return pa.ListArray.from_arrays(
        pa.array(np.arange(0, len(values) + 1, width, dtype=np.int32)), values
    )


def generated(notes: int, dim: int) -> Iterator[tuple[str, fa.Memory, list[Question]]]:
    made = Generated(notes, dim)
    plain = list(made.questions())
    with tempfile.TemporaryDirectory() as folder, made.memory(folder) as mem:
        yield "generated", mem, plain
        asked = [q | {"query": f"{q['query']} {HUB_WORD}"} for q in plain]
        yield "a word on every note", mem, asked
        yield "a concept on every note", mem, [q | {"concepts": [HUB_NAME]} for q in plain]
        yield "a subject of every note", mem, [q | {"concepts": [HUB_SUBJECT]} for q in plain]
        mem.write("A note that is about it.", concepts=[TAUGHT])
        mem.feedback(asked=[TAUGHT], used_concepts=[HUB_NAME], outcome=1.0)
        asked = [q | {"concepts": [TAUGHT]} for q in plain]
        yield "taught to a concept on every note", mem, asked


# -- real notes -----------------------------------------------------------------------------------


def passages(folder: Path, more: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Titled passages, and the questions of MuSiQue."""
    rows: dict[tuple[str, str], None] = {}
    asked = []
    with open(folder / "musique" / "musique_dev200.jsonl", encoding="utf-8") as file:
        for line in file:
            one = json.loads(line)
            asked.append(one["question"])
            rows.update({(p["title"], p["paragraph_text"]): None for p in one["paragraphs"]})
    if more:
        text = (folder / "2wiki" / "2wikimultihopqa_corpus.json").read_text(encoding="utf-8")
        rows.update({(p["title"], p["text"]): None for p in json.loads(text)})
    notes = [{"text": f"{title}\n{text}", "subjects": [title]} for title, text in rows]
    if more:
        talks = json.loads((folder / "locomo" / "locomo_1to5.json").read_text(encoding="utf-8"))
        for talk in talks:
            for turns in talk["conversation"].values():
                if isinstance(turns, list):
                    notes += [{"text": f"{turn['speaker']}: {turn['text']}"} for turn in turns]
    return notes, asked


def real(folder: Path, more: bool) -> Iterator[tuple[str, fa.Memory, list[Question]]]:
    notes, asked = passages(folder, more)
    embedder = resolve("wordllama")
    assert embedder is not None
    mem = fa.Memory(embedder=embedder)
    mem.write_batch(notes)
    vectors, _ = embed_texts(embedder, asked)
    questions = [{"query": q, "vector": v} for q, v in zip(asked, vectors, strict=True)]
    yield ("MuSiQue, 2Wiki, LoCoMo" if more else "MuSiQue"), mem, questions


# -- measuring ------------------------------------------------------------------------------------


def measure(mem: fa.Memory, questions: list[Question], rounds: int) -> dict[str, dict[str, Any]]:
    """Milliseconds by rank; the ranks take turns, so that what else runs slows both."""
    spent: dict[str, list[float]] = {"flat": [], "bridge": []}
    stages: dict[str, dict[str, list[float]]] = {"flat": {}, "bridge": {}}
    worked: dict[str, list[float]] = {"flat": [], "bridge": []}
    for turn in range(rounds + 1):
        for question in questions:
            for rank, seconds in spent.items():
                own, start = time.thread_time(), time.perf_counter()
                recall = mem.read(rank=rank, **question)
                took, own = time.perf_counter() - start, time.thread_time() - own
                if turn:  # the first round warms
                    seconds.append(took)
                    worked[rank].append(own)
                    laps = recall.timings | {"rest": took - sum(recall.timings.values())}
                    for stage, lap in laps.items():
                        stages[rank].setdefault(stage, []).append(lap)
    return {
        rank: {
            "p50": round(1e3 * float(np.percentile(seconds, 50)), 3),
            "p99": round(1e3 * float(np.percentile(seconds, 99)), 3),
            "own p50": round(1e3 * float(np.percentile(worked[rank], 50)), 3),
            **{s: round(1e3 * float(np.median(laps)), 3) for s, laps in stages[rank].items()},
        }
        for rank, seconds in spent.items()
    }


def number(size: str) -> int:
    unit = {"k": 1_000, "m": 1_000_000}.get(size[-1:].lower())
    return round(float(size[:-1]) * unit) if unit else int(size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("FASTASSOC_DATA"))
    parser.add_argument("--notes", default="3k,14k,1m")
    parser.add_argument("--dim", type=int, default=256, help="width of generated vectors")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    fa.warm()
    for size in args.notes.split(","):
        if size in ("3k", "14k"):
            if args.data is None:
                print(f"{size}: left out; name the folder of the sets by --data", file=sys.stderr)
                continue
            rows = real(Path(args.data), size == "14k")
        else:
            rows = generated(number(size), args.dim)
        for name, mem, questions in rows:
            found = measure(mem, questions, args.rounds)
            ratio = found["bridge"]["p50"] / found["flat"]["p50"]
            print(f"{len(mem):,} notes, {name}: bridge / flat {ratio:.2f}")
            for rank, figures in found.items():
                told = "  ".join(f"{stage} {ms:.3f}" for stage, ms in figures.items())
                print(f"  {rank:7} {told}", flush=True)


if __name__ == "__main__":
    main()
