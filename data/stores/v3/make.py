"""Write the archived store of format 3: ``python data/stores/v3/make.py FOLDER``.

It has a snapshot with notes, vectors and cue links: taught by questions, good and bad, made by hand
from a concept and from a word, some of a note that was forgotten later, and a stem that no link
holds any more; and operations in the journal after the snapshot that teach more.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastassoc as fa

START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = START + timedelta(days=500)
ASKED = "why does the deploy keep timing out?"


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
        {"query": ASKED, "rank": "flat"},
        {"query": "storms of retries", "rank": "flat"},
        {"concepts": ["timeout"], "hops": 2, "rank": "counts"},
        {"vector": [3, 1, 4], "k": 5, "rank": "flat"},
    ]
    recalls = [mem.read(**question) for question in questions]
    found = {
        "reads": [recall.to_dicts() for recall in recalls],
        "expanded": [recall.expanded_concepts for recall in recalls],
        "links": mem.links.to_arrow().to_pylist(),
        "note_links": mem.note_links.to_arrow().to_pylist(),
        "cue_links": mem.cue_links.to_arrow().to_pylist(),
        "stats": mem.stats(),
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

    rows: list[dict[str, Any]] = [
        {"text": "Deploy hit the gateway timeout.", "concepts": ["timeout", "Deploy"]},
        {"text": "A retry got past the timeout.", "concepts": ["timeout", "retry"]},
        {"text": "Timeout again, one retry.", "concepts": ["timeout", "retry"], "session": "s"},
        {"text": "Retry storms need backoff.", "concepts": ["retry", "backoff"], "session": "s"},
        {"text": "Backoff with jitter: Łódź, 日本語, 🙂.", "vector": [3, 1, 4]},
        {"text": "The cold gateway answers late.", "concepts": ["gateway"], "vector": [2, 7, 1]},
        {"text": "To be forgotten.", "concepts": ["gone"]},
        {"text": "Tea is hot.", "concepts": ["tea"], "domain": "kitchen"},
    ]
    path = folder / "store"
    with fa.open(path, clock=clock) as mem:
        mem.write_batch([{"id": f"n{n}", **row} for n, row in enumerate(rows)])
        recall = mem.read(ASKED, rank="bridge")
        mem.feedback(recall, used=["n5", "n3", "n6"], outcome=1.0)
        mem.feedback(recall, used=["n0"], outcome=-0.7)
        mem.link("backoff", "n5", 0.75, layer="cue")
        mem.link("storms", "n5", -0.5, layer="cue")
        mem.link("oolong", "n7", 2.0, layer="cue")
        mem.unlink("oolong", "n7", layer="cue")
        mem.forget(["n6"])
        mem.snapshot()
        mem.feedback(mem.read("a hot drink", rank="bridge"), used=["n7"], outcome=0.3)
        mem.feedback(recall, used=["n5"], outcome=1.0)
        mem.write("The last one.", id="n8", vector=[1, 2, 3], session="s")
    with opened(path, read_only=True) as mem:
        found = answers(mem)
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    (folder / "answers.json").write_text(text.replace('},{"', '},\n{"') + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
