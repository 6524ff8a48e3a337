"""How sure a score is: the documented formula, from plain texts; and settings that are gone."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastassoc as fa
from fastassoc.changes import Operation
from fastassoc.errors import InvalidInput
from fastassoc.settings import RETIRED, BridgeRule
from fastassoc.state import State

WORDS = ("amber", "basil", "cedar", "delta", "ember", "flint", "grove")  # each its own stem
texts = st.lists(st.sampled_from(WORDS[:6]), min_size=1, max_size=5, unique=True).map(" ".join)
vectors = st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any)


def sure(rule: BridgeRule, notes: list[str], query: str, cosines: list[float] | None) -> float:
    """The formula of `BridgeRule` over notes of distinct words."""
    n = len(notes)
    words = sorted(set(query.split()))
    df = {word: sum(word in note.split() for note in notes) for word in words}
    idf = {word: math.log(1 + (n - df[word] + 0.5) / (df[word] + 0.5)) for word in words}
    asked = sum(idf.values())
    known = sum(idf[word] for word in words if df[word])
    shares = [sum(idf[w] for w in words if w in note.split()) / asked for note in notes]
    most = max(sum(w in note.split() for w in words) for note in notes)
    share, weight = max(rule.sure_known_least, known / asked), known / math.log(1 + n)
    if cosines is None:
        total = rule.sure_text_base + rule.sure_text_note * max(shares)
        total += rule.sure_text_words * most + rule.sure_text_known * share
        total += rule.sure_text_weight * weight + rule.sure_text_asked * math.sqrt(asked)
    else:
        near = [max(0.0, cosine) for cosine in cosines]
        best = max(
            s + rule.sure_note_cosine * c - rule.sure_note_both * s * c
            for s, c in zip(shares, near, strict=True)
        )
        total = rule.sure_base + rule.sure_note * max(best, 0.0)
        total += rule.sure_far * sorted(near)[::-1][:100][-1] + rule.sure_known * share
        total += rule.sure_weight * weight + rule.sure_asked * math.sqrt(asked)
    return 1 / (1 + math.exp(-total))


@given(
    st.lists(st.tuples(texts, vectors), min_size=1, max_size=9, unique_by=lambda row: row[0]),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True).map(" ".join),
    st.none() | vectors,
)
def test_a_score_is_as_sure_as_the_formula_says(
    rows: list[tuple[str, list[int]]], query: str, vector: list[int] | None
) -> None:
    notes = [f"{text} tin{number}" for number, (text, _) in enumerate(rows)]
    mem = fa.Memory(settings=fa.Settings(extract=False))
    mem.write_batch([{"text": text, "vector": v} for text, (_, v) in zip(notes, rows, strict=True)])
    cosines = None
    if vector is not None:
        sizes = [math.hypot(*v) * math.hypot(*vector) for _, v in rows]
        cosines = [
            sum(a * b for a, b in zip(v, vector, strict=True)) / size
            for (_, v), size in zip(rows, sizes, strict=True)
        ]
    want = sure(mem.settings.bridge, notes, query, cosines)
    for hit in mem.read(query, vector=vector):
        part = hit.rank_score / (1 + hit.rank_score)
        assert hit.score == pytest.approx(want * part, rel=1e-4, abs=1e-6)


def test_a_store_of_six_notes_knows_what_it_knows() -> None:
    mem = fa.Memory(settings=fa.Settings(extract=False))
    notes = (
        "A retry got past the timeout.",
        "Retry storms need backoff.",
        "The cache broke the deploy.",
        "Anna lives by the harbour and likes tea.",
        "Backoff wants jitter.",
        "The gateway answers late.",
    )
    vectors = [[float(row == at) for at in range(8)] for row in range(6)]
    mem.write_batch([{"text": t, "vector": v} for t, v in zip(notes, vectors, strict=True)])
    known = [0.1, 0.9, 0.1, 0.1, 0.3, 0.1, 0.2, 0.1]
    foreign = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.7, 0.7]
    assert mem.read("Do retry storms need backoff?", vector=known).hits[0].score > 0.3
    assert mem.read("Do retry storms need backoff?").hits[0].score > 0.3
    for off in ("Who won the football match in Lisbon?", "Wie spät ist es heute Abend?"):
        assert max((hit.score for hit in mem.read(off, vector=foreign)), default=0.0) < 0.1
        assert max((hit.score for hit in mem.read(off)), default=0.0) < 0.1


def test_settings_that_only_earlier_versions_had_are_left_out() -> None:
    """Of those alone: any other unknown name is still an error, and nobody can set them."""
    settings = fa.Settings(hop_factor=0.25)
    whole, old = settings.to_dict(), dict.fromkeys(RETIRED, 3.85)
    assert not RETIRED & set(whole)
    assert fa.Settings.from_dict({**whole, **old}) == settings
    state = State(fa.Settings())
    changes: dict[str, Any] = {"hop_factor": 0.25, "bridge.sure_share": 4.0}
    state.apply(Operation("configure", 1, {"changes": changes}), 1)
    assert state.settings == settings
    with pytest.raises(InvalidInput, match="unknown settings"):
        fa.Settings.from_dict({**whole, "bridge.sure_else": 1.0})
    with pytest.raises(InvalidInput, match="unknown settings"):
        fa.Memory().configure(**changes)
