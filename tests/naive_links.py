"""The slow twin of the links: dicts and loops, importing nothing of fastassoc."""

from __future__ import annotations

import math
from itertools import combinations


def pairs_of(rows):
    """Every unordered pair of each row's ids, a < b."""
    return [tuple(sorted(pair)) for row in rows for pair in combinations(row, 2)]


class NaiveLinks:
    """One layer; a link is a dict, the pair (a, b) with a < b its key."""

    def __init__(self, *, step=1.0, floor=0.0, ceiling=None, tau=None, rate=0.3):
        self.step, self.floor, self.ceiling, self.tau, self.rate = step, floor, ceiling, tau, rate
        self.rest = 0.0 if floor is None else floor
        self.links = {}

    # ---- changes

    def _one(self, pair, at, kind, amount=0.0, outcome=math.nan, times=1):
        link = self.links.get(pair)
        if link is None:
            if kind in ("unwrite", "unlink"):
                return
            link = {
                "weight": 0.0,
                "written": 0.0,
                "count": 0,
                "valence": 0.0,
                "created_at": at,
                "updated_at": at,
            }
            self.links[pair] = link
        elif kind == "unwrite" and link["count"] == 0:
            return
        elif at > link["updated_at"]:
            if self.tau is not None:
                fade = math.exp(-(at - link["updated_at"]) / self.tau)
                link["weight"] *= fade
                link["written"] *= fade
            link["updated_at"] = at
        if kind == "write":
            link["weight"] += times * amount
            link["written"] += times * amount
            link["count"] += times
        elif kind == "unwrite":
            link["count"] -= 1
            if link["count"] == 0:
                amount = link["written"]
            link["weight"] -= amount
            link["written"] -= amount
        elif kind == "teach":
            link["weight"] += amount
            if not math.isnan(outcome):
                moved = link["valence"] + self.rate * (outcome - link["valence"])
                link["valence"] = min(1.0, max(-1.0, moved))
        else:
            link["weight"] = self.rest
        if self.floor is not None:
            link["weight"] = max(self.floor, link["weight"])
        if self.ceiling is not None:
            link["weight"] = min(self.ceiling, link["weight"])
        if link["count"] == 0 and link["weight"] == self.rest:
            del self.links[pair]

    def _call(self, pairs, act):
        before = {pair: dict(self.links[pair]) for pair in set(pairs) if pair in self.links}
        act()
        values = ("weight", "written", "count", "valence")
        created = changed = removed = 0
        for pair in set(pairs):
            old, new = before.get(pair), self.links.get(pair)
            if old is None:
                created += new is not None
            elif new is None:
                removed += 1
            else:
                changed += any(old[v] != new[v] for v in values)
        return created, changed, removed

    def write(self, pairs, at, steps=None):
        def act():
            if steps is None and self.tau is None:
                for pair in set(pairs):
                    self._one(pair, at, "write", self.step, times=pairs.count(pair))
            else:
                for i, pair in enumerate(pairs):
                    self._one(pair, at, "write", self.step if steps is None else steps[i])

        return self._call(pairs, act)

    def unwrite(self, pairs, at, steps=None):
        def act():
            for i, pair in enumerate(pairs):
                self._one(pair, at, "unwrite", self.step if steps is None else steps[i])

        return self._call(pairs, act)

    def teach(self, pairs, amounts, outcomes, at):
        def act():
            for pair, amount, outcome in zip(pairs, amounts, outcomes, strict=True):
                self._one(pair, at, "teach", amount, outcome)

        return self._call(pairs, act)

    def unlink(self, pairs, at):
        return self._call(pairs, lambda: [self._one(pair, at, "unlink") for pair in pairs])

    def erase(self, pairs):
        return self._call(pairs, lambda: [self.links.pop(pair, None) for pair in pairs])

    def of(self, concept):
        return sorted(pair for pair in self.links if concept in pair)

    # ---- reads

    def rows(self):
        """All links as tuples (a, b, weight, written, count, valence, created_at, updated_at)."""
        return [(a, b, *self.links[a, b].values()) for a, b in sorted(self.links)]

    def effective(self, pair, now):
        link = self.links[pair]
        if self.tau is None or now <= link["updated_at"]:
            return link["weight"]
        return link["weight"] * math.exp(-(now - link["updated_at"]) / self.tau)

    def neighbours(self, concept, min_weight, now):
        found = {}
        for pair in self.links:
            if concept in pair:
                other = pair[0] if pair[1] == concept else pair[1]
                weight = self.effective(pair, now)
                if weight >= min_weight:
                    found[other] = weight
        return dict(sorted(found.items()))

    def top(self, limit, now):
        order = sorted(self.links, key=lambda pair: (-self.effective(pair, now), pair))
        return order[:limit]

    def best_of(self, sources, scores, threshold, now, allowed=None):
        """{id: the best score among the sources that it is linked to}."""
        found = {}
        for source, score in zip(sources, scores, strict=True):
            for other in self.neighbours(source, threshold, now):
                if allowed is None or (other < len(allowed) and allowed[other]):
                    found[other] = max(score, found.get(other, score))
        return found

    def expand(self, asked, *, threshold, hops, hop_factor, product, max_fanout, now, allowed=None):
        """{id: strength}, {id: path}; `allowed` says of each id whether it may be reached."""
        asked = set(asked)
        levels = []
        scale = 1.0
        final, best_level = {}, {}
        for hop in range(1, hops + 1):
            sources = levels[-1] if levels else dict.fromkeys(asked, (None, None))
            level = {}
            for source in sorted(sources):
                links = self.neighbours(source, threshold, now)
                links = [(c, w) for c, w in links.items() if c not in asked]
                if allowed is not None:
                    links = [(c, w) for c, w in links if c < len(allowed) and allowed[c]]
                if max_fanout is not None:
                    links = sorted(links, key=lambda link: (-link[1], link[0]))[:max_fanout]
                for c, w in links:
                    so_far = sources[source][0]
                    raw = w if so_far is None else so_far * w if product else min(so_far, w)
                    if c not in level or raw > level[c][0]:
                        level[c] = (raw, source)
            levels.append(level)
            for c, (raw, _) in level.items():
                if c not in final or raw * scale > final[c]:
                    final[c], best_level[c] = raw * scale, hop
            scale *= hop_factor
        paths = {}
        for c, hop in best_level.items():
            path, target = [], c
            for level in reversed(levels[:hop]):
                source = level[target][1]
                path.append((source, target))
                target = source
            paths[c] = path[::-1]
        return dict(sorted(final.items())), paths
