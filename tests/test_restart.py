"""What was taught survives: three real processes on one store, and a control that forgets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTES = """
NOTES = [
    ("n1", "Deploys time out when the cache is cold.", ["timeout", "deploy"]),
    ("n2", "A timeout is retried three times.", ["timeout", "retry"]),
    ("n3", "Retry after a timeout, then give up.", ["timeout", "retry"]),
    ("n4", "Backoff of two seconds between retries.", ["retry", "backoff"]),
    ("n5", "Jitter spreads the backoff.", ["backoff", "jitter"]),
    ("n6", "The cache is warmed at deploy.", ["cache", "deploy"]),
]
"""
ASK = """
import json, sys
import fastassoc as fa

def show(mem):
    recall = mem.read(concepts=["timeout"])
    links = {}
    for row in mem.links.to_arrow().to_pylist():
        links[row["a"] + "-" + row["b"]] = [
            row["weight"], row["written"], row["taught"], row["count"], row["valence"]]
    return {
        "hits": [[h.id, h.rank_score, h.score, h.source, h.via, h.text] for h in recall],
        "paths": [[[s.source, s.target, s.layer, s.weight] for s in h.path] for h in recall],
        "expanded": recall.expanded_concepts,
        "asked": recall.query_concepts,
        "links": links,
    }

out = {}
"""
WRITE = """
with fa.open(sys.argv[1]) as mem:
    for note, text, concepts in NOTES:
        mem.write(text, id=note, concepts=concepts)
    out["before"] = show(mem)
"""
TEACH = """
with fa.open(sys.argv[1], create=False) as mem:
    out["before"] = show(mem)
    for _ in range(2):
        mem.feedback(asked=["timeout"], used_concepts=["retry", "backoff"], outcome=+1.0)
    out["after"] = show(mem)
"""
LOOK = """
with fa.open(sys.argv[1], create=False) as mem:
    out["after"] = show(mem)
    out["control"] = show(mem.rebuild_links())
    out["still"] = show(mem)
"""
SNAPSHOT = """
with fa.open(sys.argv[1], create=False) as mem:
    mem.snapshot()
"""
END = "\nprint(json.dumps(out))\n"

BEFORE = [
    ["n3", 12, "concept", []],
    ["n2", 12, "concept", []],
    ["n1", 10, "concept", []],
    ["n4", 2, "association", ["retry"]],
]
AFTER = [
    ["n3", 14, "concept", []],
    ["n2", 14, "concept", []],
    ["n1", 10, "concept", []],
    ["n4", 6, "association", ["backoff", "retry"]],
    ["n5", 2, "association", ["backoff"]],
]
WRITTEN = {
    "backoff-jitter": [1, 1, 0, 1, 0],
    "backoff-retry": [1, 1, 0, 1, 0],
    "cache-deploy": [1, 1, 0, 1, 0],
    "deploy-timeout": [1, 1, 0, 1, 0],
    "retry-timeout": [2, 2, 0, 2, 0],
}


def process(path: Path, code: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", NOTES + ASK + code + END, str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def hits(shown: Any) -> list[list[Any]]:
    return [[note, rank, source, via] for note, rank, _, source, via, _ in shown["hits"]]


def numbers(shown: Any) -> dict[str, list[float]]:
    return {key: row[:4] for key, row in shown["links"].items()}


@pytest.mark.parametrize("saved", ["in the journal", "in a snapshot"])
def test_three_processes_and_the_control(path: Path, saved: str) -> None:
    first = process(path, WRITE)["before"]
    assert hits(first) == BEFORE
    assert first["expanded"] == {"retry": 2}
    assert first["links"] == WRITTEN

    if saved == "in a snapshot":
        process(path, SNAPSHOT)
    second = process(path, TEACH)
    assert second["before"] == first
    taught = second["after"]
    assert hits(taught) == AFTER
    assert taught["expanded"] == {"backoff": 2, "retry": 4}
    assert numbers(taught) == {
        **{key: row[:4] for key, row in WRITTEN.items()},
        "retry-timeout": [4, 2, 2, 2],
        "backoff-timeout": [2, 0, 2, 0],
    }
    assert taught["links"]["retry-timeout"][4] == pytest.approx(0.51)
    assert taught["paths"][3] == [
        ["timeout", "backoff", "concept", 2],
        ["backoff", "n4", "carries", taught["paths"][3][1][3]],
        ["timeout", "retry", "concept", 4],
        ["retry", "n4", "carries", taught["paths"][3][3][3]],
    ]
    assert [step[:3] for step in taught["paths"][4]] == [
        ["timeout", "backoff", "concept"],
        ["backoff", "n5", "carries"],
    ]

    if saved == "in a snapshot":
        process(path, SNAPSHOT)
    third = process(path, LOOK)
    assert third["after"] == taught
    assert third["still"] == taught
    control = third["control"]
    assert hits(control) == BEFORE
    assert control["links"] == WRITTEN
    assert control == first


def test_the_answers_of_before_hold_after_the_other_notes_are_gone(path: Path) -> None:
    """The taught link outlives every note of the pair's first concept."""
    process(path, WRITE)
    process(path, TEACH)
    forgotten = """
with fa.open(sys.argv[1], create=False) as mem:
    mem.forget(["n1", "n2", "n3"])
    out["left"] = show(mem)
"""
    left = process(path, forgotten)["left"]
    again = process(path, LOOK)
    assert again["after"] == left
    assert hits(left) == [
        ["n4", 4, "association", ["backoff", "retry"]],
        ["n5", 2, "association", ["backoff"]],
    ]
    assert left["links"]["retry-timeout"][:4] == [2, 0, 2, 0]
    assert again["control"]["hits"] == []
