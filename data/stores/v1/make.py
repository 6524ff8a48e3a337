"""Write the archived store of format 1: ``python data/stores/v1/make.py FOLDER``.

It has a snapshot with forgotten, superseded and updated notes, links that notes wrote and outcomes
taught, and operations in the journal after the snapshot, one of them a bulk segment.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastassoc as fa

START = datetime(2026, 1, 1, tzinfo=UTC)


def answers(mem: Any) -> dict[str, Any]:
    """What the store says, as JSON values."""
    questions = [
        {"concepts": ["timeout"], "hops": 2, "rank": "counts"},
        {"query": "why does the Deploy keep timing out?", "rank": "counts"},
        {"query": "storm warnings", "rank": "flat"},
        {"concepts": ["tea"], "domain": "kitchen", "where": {"hot": True}, "rank": "counts"},
    ]
    recalls = [mem.read(**question) for question in questions]
    links = mem.links.to_arrow().to_pylist()
    return json.loads(
        json.dumps(
            {
                "reads": [recall.to_dicts() for recall in recalls],
                "expanded": [recall.expanded_concepts for recall in recalls],
                "links": links,
                "stats": mem.stats(),
                "chain": mem.get("n9").supersedes,
            },
            default=str,
        )
    )


def make(folder: Path) -> None:
    """Write ``store`` and ``answers.json`` into the folder."""
    ticks = iter(range(10**6))
    clock = lambda: START + timedelta(minutes=next(ticks))  # noqa: E731
    with fa.open(folder / "store", clock=clock) as mem:
        rows: list[dict[str, Any]] = [
            {"text": "Deploy hit the gateway timeout.", "concepts": ["timeout", "Deploy"]},
            {"text": "A retry got past the timeout.", "concepts": ["timeout", "retry"]},
            {"text": "Timeout again, one retry.", "concepts": ["timeout", "retry"]},
            {"text": "Retry storms need backoff.", "concepts": ["retry", "backoff"]},
            {"text": "Backoff with jitter: Łódź, 日本語, 🙂.", "concepts": ["backoff", "jitter|x"]},
            {"text": "Tea is hot.", "concepts": ["tea"], "domain": "kitchen", "session": "s"},
            {"text": "Ada Lovelace met Charles Babbage in London.", "subjects": ["Meeting"]},
        ]
        mem.write_batch([{"id": f"n{n}", **row} for n, row in enumerate(rows)])
        mem.update("n5", metadata={"hot": True, "sugar": 2})
        mem.write("To be forgotten.", id="n8", concepts=["timeout", "gone"])
        mem.forget(["n8"])
        mem.feedback(asked=["timeout"], used_concepts=["retry", "backoff"], outcome=1.0)
        mem.feedback(asked=["timeout"], used=["n0"], outcome=-0.5)
        mem.write("Deploys now wait for the gateway.", id="n9", supersedes=["n0"])
        mem.snapshot()
        mem.link("tea", "backoff", 2.5)
        mem.write_batch(
            [
                {"id": f"b{n}", "text": f"bulk {n}", "concepts": ["bulk", f"c{n % 9}"]}
                for n in range(1100)
            ]
        )
        mem.unlink("bulk", "c8")
        found = answers(mem)
    (folder / "answers.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
