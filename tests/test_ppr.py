"""The rank by personalised PageRank against a power iteration, and what its answers say."""

from __future__ import annotations

import math
from typing import Any

import naive_ppr as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastassoc as fa
from fastassoc.kernels.push import push
from fastassoc.links import LinkMatrix
from fastassoc.postings import Postings
from fastassoc.settings import LinkRule

CONCEPTS = 6
sets = st.lists(st.sets(st.integers(0, CONCEPTS - 1), max_size=4), min_size=1, max_size=14)


@st.composite
def graphs(draw: Any) -> Any:
    notes = draw(sets)
    n = len(notes)
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] < p[1])
    links = draw(st.dictionaries(pairs, st.integers(1, 16).map(lambda w: w / 16))) if n > 1 else {}
    allowed = draw(st.sets(st.integers(0, n - 1)))
    starts = draw(st.dictionaries(st.integers(0, n + CONCEPTS - 1), st.integers(1, 4), min_size=1))
    return notes, links, allowed, starts


@given(
    made=graphs(),
    alpha=st.sampled_from([0.15, 0.5]),
    eps=st.sampled_from([1e-6, 1e-3]),
    cuts=st.sets(st.integers(0, 14)),
)
def test_push(made: Any, alpha: float, eps: float, cuts: set[int]) -> None:
    notes, links, allowed, starts = made
    n, least = len(notes), 0.3
    starts = {u: s for u, s in starts.items() if u >= n or u in allowed}
    starts = {u: s / sum(starts.values()) for u, s in starts.items()}
    lists = Postings(with_values=False)
    for i, concepts in enumerate(notes):
        lists.append(np.array(sorted(concepts), np.uint32), np.array([0, len(concepts)]))
        if i in cuts:
            lists.view()
    layer = LinkMatrix(LinkRule(write_step=0.0, ceiling=1.0), 0.3)
    for i, ((a, b), weight) in enumerate(links.items()):
        keys = np.array([a << 32 | b], np.uint64)
        layer.teach(keys, np.array([weight]), np.array([math.nan]), 0)
        if i in cuts:
            layer.view(least)
    edges = naive.graph(notes, links, least, allowed)

    def node(u: int) -> naive.Node:
        return ("note", u) if u < n else ("concept", u - n)

    want = naive.pagerank(edges, {node(u): s for u, s in starts.items()}, alpha)
    seeds = np.array(sorted(starts), np.int64)
    shares = np.array([starts[u] for u in sorted(starts)])
    mask = np.array([i in allowed for i in range(n)], np.uint8)
    size = n + CONCEPTS + 3
    scratch = np.zeros((size, 4)), np.empty(size), np.empty((3, size + 1), np.int64)
    df = np.array([sum(c in held for held in notes) for c in range(CONCEPTS)], np.int64)
    found = []
    for threshold in (least, 0.9):  # two layouts of the same links
        view, links_view = lists.view(), layer.view(threshold)
        nodes, kept, degrees = push(
            seeds, shares, alpha, eps, mask, view.flat, view.ptr, view.indptr, view.base_rows,
            view.tail, view.late, df, n - len(allowed), least, 0, links_view.tau,
            *links_view.arrays, *scratch,
        )  # fmt: skip
        found.append((nodes.tolist(), kept.tolist()))
        got = {node(u): (p, d) for u, p, d in zip(nodes.tolist(), kept, degrees, strict=True)}
        for one in {*want, *got}:
            p, _ = got.get(one, (0.0, 0.0))
            off = want.get(one, 0.0) - p
            assert -1e-12 <= off <= eps * naive.degree(edges, one) + 1e-12, one
        for one, (_, d) in got.items():
            assert d == pytest.approx(naive.degree(edges, one))
        assert not scratch[0].any()
    assert found[0] == found[1]


def store(**settings: Any) -> fa.Memory:
    mem = fa.Memory(settings=fa.Settings.counts(**settings))
    rows = [
        ("n0", ["timeout", "deploy"]),
        ("n1", ["timeout", "retry"]),
        ("n2", ["retry", "backoff"]),
        ("n3", ["backoff", "jitter"]),
        ("n4", ["alone"]),
    ]
    domains = {"n2": "other"}
    for name, concepts in rows:
        domain = domains.get(name, "general")
        mem.write(f"text of {name}", id=name, concepts=concepts, domain=domain)
    return mem


def test_a_read_walks() -> None:
    mem = store()
    recall = mem.read(concepts=["timeout"], rank="ppr")
    assert recall.rank == "ppr"
    assert [hit.id for hit in recall] == ["n0", "n1", "n2", "n3"]
    edges = naive.graph(
        [{"timeout", "deploy"}, {"timeout", "retry"}, {"retry", "backoff"}, {"backoff", "jitter"},
         {"alone"}], {}, 0.3, {0, 1, 2, 3, 4},
    )  # fmt: skip
    want = naive.pagerank(edges, {("concept", "timeout"): 1.0}, 0.5)
    for hit in recall:
        share = want["note", int(hit.id[1])]
        assert hit.parts == {"ppr": hit.rank_score}
        assert hit.rank_score == pytest.approx(share / 0.5, abs=2 * 2e-6)
        assert 0 <= hit.score <= 1
    assert [hit.source for hit in recall] == ["concept", "concept", "association", "association"]
    last = recall[3]
    steps = [(step.source, step.target, step.layer) for step in last.path]
    assert steps == [
        ("timeout", "n1", "carries"), ("n1", "retry", "carries"), ("retry", "n2", "carries"),
        ("n2", "backoff", "carries"), ("backoff", "n3", "carries"),
    ]  # fmt: skip
    assert (last.source, last.via) == ("association", ["backoff"])
    assert set(recall.expanded_concepts) == {"retry", "backoff"}
    assert [hit.id for hit in mem.read(concepts=["timeout"], rank="ppr", k=2)] == ["n0", "n1"]
    assert mem.read("nothing known", rank="ppr").hits == []


def test_filters_bar_the_way() -> None:
    mem = store()
    got = [hit.id for hit in mem.read(concepts=["timeout"], rank="ppr", domain="general")]
    assert got == ["n0", "n1"]  # n3 is beyond a note of another domain
    assert [hit.id for hit in mem.read(concepts=["timeout"], rank="ppr", domain="other")] == []
    mem.forget(["n2"])
    assert [hit.id for hit in mem.read(concepts=["timeout"], rank="ppr")] == ["n0", "n1"]


def test_walks_begin_at_flat_notes_and_go_over_links_between_notes() -> None:
    mem = store()
    recall = mem.read("n4", rank="ppr")
    assert [hit.id for hit in recall] == ["n4"]
    assert recall[0].path == []
    mem.link("n4", "n3", 0.5, layer="note")
    recall = mem.read("n4", rank="ppr")
    assert [hit.id for hit in recall] == ["n4", "n3", "n2", "n1", "n0"]
    steps = [(step.source, step.target, step.layer) for step in recall[1].path]
    assert steps == [("n4", "n4", "says"), ("n4", "n3", "note")]  # by the word, then the link
    assert recall[1].path[1].weight == 0.5
    assert recall[1].source == "association"
    mem.configure(**{"note_links.threshold": 0.6})
    assert [hit.id for hit in mem.read("n4", rank="ppr")] == ["n4"]


def test_notes_that_no_walk_reaches_come_last() -> None:
    mem = fa.Memory()
    for n in range(8):
        mem.write("same words", id=f"n{n}", concepts=[f"c{n}"])
    recall = mem.read("words", rank="ppr")
    assert [hit.id for hit in recall] == [f"n{n}" for n in range(8)]
    assert [set(hit.parts) for hit in recall] == [{"ppr"}] * 5 + [{"flat"}] * 3
    assert recall[7].rank_score < recall[4].rank_score
    again = mem.read("words", rank="ppr", k=7)
    assert [(hit.id, hit.rank_score) for hit in again] == [
        (hit.id, hit.rank_score) for hit in recall[:7]
    ]


@pytest.mark.parametrize("bad", [{"ppr_alpha": 0.0}, {"ppr_alpha": 1.0}, {"ppr_eps": 0.0}])
def test_settings(bad: dict[str, float]) -> None:
    with pytest.raises(fa.errors.InvalidInput, match=next(iter(bad))):
        fa.Settings(**bad)
