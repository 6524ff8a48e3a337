"""Slow twins of the vectors: pure Python floats (which are float64), lists and sorting."""

from __future__ import annotations

import math


def square(vector):
    """Squared norm, every product and the sum exact until the end."""
    return math.fsum(float(x) * float(x) for x in vector)


def cosine(one, other):
    """Cosine in [-1, 1]; NaN with a zero vector."""
    a, b = square(one), square(other)
    if a == 0.0 or b == 0.0:
        return math.nan
    product = math.fsum(float(x) * float(y) for x, y in zip(one, other, strict=True))
    return min(1.0, max(-1.0, product / math.sqrt(a * b)))


class NaivePoints:
    """Vectors by note row."""

    def __init__(self):
        self.table = {}

    def append(self, rows, vectors):
        for row, vector in zip(rows, vectors, strict=True):
            assert row > max(self.table, default=-1)
            self.table[int(row)] = [float(x) for x in vector]

    def replace(self, rows, vectors):
        self.table = {}
        self.append(rows, vectors)

    def similarities(self, query, rows):
        return [cosine(query, self.table[r]) if r in self.table else math.nan for r in rows]

    def nearest(self, query, k, allowed, among=None):
        """Every allowed row with its cosine, best first, cut at k."""
        rows = sorted(self.table)
        if among is not None:
            rows = [rows[place] for place in sorted(set(among))]
        rows = [row for row in rows if row < len(allowed) and allowed[row]]
        scored = [(row, cosine(query, self.table[row])) for row in rows]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:k]


def tags(vectors, first, window, least):
    """(newer, older, cosine) of every pair in the window that is similar enough."""
    found = []
    for i in range(max(first, 0), len(vectors)):
        for j in range(max(0, i - window), i):
            value = cosine(vectors[i], vectors[j])
            if value >= least:  # never with NaN
                found.append((i, j, value))
    return found
