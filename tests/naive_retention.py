"""The slow twin of the note states: one dict a note, the rules of retention in plain sums.

Importing nothing of fastassoc. Times are whole microseconds.
"""

from __future__ import annotations

import math

DAY = 86_400_000_000
BETA = {"episodic": 45.0, "semantic": 240.0, "procedural": math.inf, "core": 120.0}


def new(importance=None, category=None, at=0):
    importance = 0.5 if importance is None else importance
    return {
        "importance": importance,
        "category": category if category in BETA else "episodic",
        "stability": 0.1 + 0.3 * importance,
        "last_access": at,
        "accesses": 0,
        "sessions": [],
        "cold": False,
        "promoted": False,
    }


def fades(note):
    """Days in which a note falls to 1/e."""
    boost = min(3.0, 1.0 + 2.0 * note["importance"])
    return max(note["stability"], 0.01) * boost * BETA[note["category"]]


def floor(note):
    return 0.6 if note["category"] == "core" else 0.02


def days_idle(note, now):
    return max(0, now - note["last_access"]) / DAY


def retention(note, now):
    if note["category"] == "procedural":
        return 1.0
    return max(floor(note), math.exp(-days_idle(note, now) / fades(note)))


def access(note, direct, session, at):
    """What a reinforced read does to a note that it returned."""
    boost = 0.1 if direct else 0.03
    grown = note["stability"] + boost * min(2.0, days_idle(note, at) / 7.0)
    note["stability"] = min(1.0, grown)
    note["last_access"] = max(note["last_access"], at)
    note["accesses"] += 1
    note["cold"] = False
    if session is not None and session not in note["sessions"]:
        note["sessions"] = [*note["sessions"], session][:2]
    ripe = note["accesses"] >= 10 and note["stability"] >= 0.85 and len(note["sessions"]) == 2
    if ripe and note["category"] not in ("core", "procedural"):  # which never fades
        note["category"], note["promoted"] = "core", True


def is_due(note, now):
    """Whether time moves a note to the cold tier: seven days at the floor."""
    if note["cold"] or note["category"] not in ("episodic", "semantic"):
        return False
    return days_idle(note, now) >= fades(note) * -math.log(0.02) + 7.0
