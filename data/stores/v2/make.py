"""Write the archived store of format 2: ``python data/stores/v2/make.py FOLDER``.

It has a snapshot with notes with and without vectors, tagged sessions, links between notes that
were written, taught and made by hand, notes that reads kept, one of them in the core, a cold one,
a forgotten and a superseded one, and a move to another embedder that is under way; and operations
in the journal after the snapshot, one of them a bulk segment with vectors.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

import fastassoc as fa

START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = START + timedelta(days=500)  # answers fade with time


class Letters:
    """Counts letters: an embedder that every version can have."""

    def __init__(self, dim: int) -> None:
        self.name, self.dim = f"letters-{dim}", dim

    def embed(self, texts: list[str]) -> Any:
        """A vector of each text, float32 [n, dim]."""
        out = np.full((len(texts), self.dim), 0.5, np.float32)
        for row, text in enumerate(texts):
            for letter in text:
                out[row, ord(letter) % self.dim] += 1
        return out


class Stop(Exception):
    """Cuts a move off after its first batch."""


def opened(path: Path, **options: Any) -> Any:
    """The store at the time of the answers."""
    return fa.open(path, clock=lambda: LATER, **options)


def plain(value: Any) -> Any:
    """JSON values; numbers as far as every processor agrees on them."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {str(key): plain(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [plain(held) for held in value]
    return value if isinstance(value, int | None) else str(value)


def answers(mem: Any) -> dict[str, Any]:
    """What the store says, as JSON values."""
    questions: list[dict[str, Any]] = [
        {"query": "why does the deploy keep timing out?", "rank": "retention"},
        {"concepts": ["timeout"], "hops": 2, "rank": "counts"},
        {"vector": [3, 1, 4, 1, 5, 9], "k": 5, "rank": "retention"},
        {"vector": [3, 1, 4, 1, 5, 9], "k": 5, "domain": "kitchen", "rank": "flat"},
        {"like": "n4", "k": 6, "rank": "retention"},
        {"query": "storm warnings", "rank": "flat", "include_superseded": True},
    ]
    recalls = [mem.read(**question) for question in questions]
    notes = [mem.get(f"n{n}") for n in range(12) if f"n{n}" in mem]
    found = {
        "reads": [recall.to_dicts() for recall in recalls],
        "expanded": [recall.expanded_concepts for recall in recalls],
        "links": mem.links.to_arrow().to_pylist(),
        "note_links": mem.note_links.to_arrow().to_pylist(),
        "stats": mem.stats(),
        "notes": {
            note.id: [note.tier, note.category, note.session, note.superseded_by] for note in notes
        },
        "vectors": {
            note.id: None if note.vector is None else note.vector.tolist()
            for note in [*notes, *(mem.get(f"b{n}") for n in (0, 7, 1099))]
        },
    }
    result: dict[str, Any] = plain(found)
    return result


def make(folder: Path) -> None:
    """Write ``store`` and ``answers.json`` into the folder."""
    now = START

    def clock() -> datetime:
        nonlocal now
        now += timedelta(minutes=1)
        return now

    path = folder / "store"
    with fa.open(path, clock=clock, settings=fa.Settings.cognitive()) as mem:
        mem.write("Deploy hit the gateway timeout.", id="n0", concepts=["timeout", "Deploy"])
        mem.write("A retry got past the timeout.", id="n1", concepts=["timeout", "retry"])
    with fa.open(path, clock=clock, embedder=Letters(4)) as mem:
        rows: list[dict[str, Any]] = [
            {"text": "Timeout again, one retry.", "concepts": ["timeout", "retry"]},
            {"text": "Retry storms need backoff.", "concepts": ["retry", "backoff"]},
            {"text": "Retry storms need a longer backoff.", "concepts": ["retry", "backoff"]},
            {"text": "Backoff with jitter: Łódź, 日本語, 🙂.", "category": "semantic"},
            {"text": "How to restart the gateway.", "category": "procedural"},
        ]
        mem.write_batch(
            [{"id": f"n{n}", "session": "incident", **row} for n, row in enumerate(rows, 2)]
        )
        mem.write("Tea is hot.", id="n7", concepts=["tea"], domain="kitchen", category="procedural")
        mem.write("To be forgotten.", id="n8", concepts=["gone"], session="incident")
        mem.reembed(Letters(6))
    with fa.open(path, clock=clock) as mem:
        mem.write("Deploys now wait for the gateway.", id="n9", supersedes=["n0"])
        mem.write(
            "Coffee.", id="n10", concepts=["tea"], domain="kitchen", vector=[3, 1, 4, 1, 5, 8]
        )
        mem.feedback(asked=["timeout"], used=["n1", "n3", "n6"], outcome=1.0)
        mem.feedback(asked=["timeout"], used=["n1", "n2"], outcome=-0.5)
        mem.link("n2", "n10", 0.6)
        mem.link("n3", "n10", 0.6)
        mem.unlink("n3", "n10")
        mem.forget(["n8"])
        for day in range(12):
            now += timedelta(days=14)
            session = "first" if day < 6 else "second"
            mem.read(concepts=["backoff"], k=3, reinforce=True, session=session)
        now += timedelta(days=200)
        mem.tick()
        mem.read(vector=[3, 1, 4, 1, 5, 8], k=1, reinforce=True)

        def stop(done: int, total: int) -> None:
            raise Stop

        with suppress(Stop):
            mem.reembed(Letters(3), progress=stop)
        mem.snapshot()
        vectors = np.arange(1100 * 6, dtype=np.float32).reshape(1100, 6) % 11 + 1
        mem.write_batch(
            [
                {"id": f"b{n}", "text": f"bulk {n}", "concepts": [f"c{n % 9}"]}
                | ({"session": "incident"} if n < 4 else {})
                | ({"vector": vectors[n]} if n % 7 else {})
                for n in range(1100)
            ]
        )
        mem.link("b1", "n4", 0.5)
        mem.read(vector=vectors[1], k=2, reinforce=True, session="third")
        mem.write("The last one.", id="n11", vector=[1, 2, 3, 4, 5, 6], session="incident")
        mem.forget(["b5"])
    with opened(path, read_only=True) as mem:
        found = answers(mem)
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    (folder / "answers.json").write_text(text.replace('},{"', '},\n{"') + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
