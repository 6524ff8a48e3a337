"""Personalised PageRank by power iteration over a graph in dicts, from the rule alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set

Node = tuple[str, Hashable]  # ("note", number) or ("concept", name)
Graph = dict[Node, dict[Node, float]]


def graph(
    notes: Sequence[Set[Hashable]],
    links: Mapping[tuple[int, int], float],
    least: float,
    allowed: Set[int],
) -> Graph:
    """Allowed notes and the concepts they carry (1), and links between notes from `least` up."""
    edges: Graph = {("note", i): {} for i in allowed}
    for i in sorted(allowed):
        for concept in notes[i]:
            edges["note", i]["concept", concept] = 1.0
            edges.setdefault(("concept", concept), {})["note", i] = 1.0
    for (a, b), weight in links.items():
        if weight >= least and weight > 0 and a in allowed and b in allowed:
            edges["note", a]["note", b] = weight
            edges["note", b]["note", a] = weight
    return edges


def degree(edges: Graph, node: Node) -> float:
    return sum(edges.get(node, {}).values())


def pagerank(
    edges: Graph, starts: Mapping[Node, float], alpha: float, rounds: int = 2000
) -> dict[Node, float]:
    """``x <- alpha s + (1 - alpha) P'x`` until nothing changes; who has no edge stays."""
    x = dict(starts)
    for _ in range(rounds):
        new = {node: alpha * share for node, share in starts.items()}
        for node, share in x.items():
            near = edges.get(node) or {node: 1.0}
            total = sum(near.values())
            for other, weight in near.items():
                new[other] = new.get(other, 0.0) + (1 - alpha) * share * weight / total
        moved = sum(abs(new.get(node, 0.0) - x.get(node, 0.0)) for node in {*new, *x})
        x = new
        if moved < 1e-15:
            break
    return x
