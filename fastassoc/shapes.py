"""The shape that a journal's operation and a manifest's state must have, before they are used.

Their hashes say that they are what was written; this says that our own writers may have written it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastassoc.errors import InvalidInput

__all__ = ["FIRST", "LAST", "check_operation", "check_state"]

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds of years 1 to 9999
Check = Callable[[Any], bool]


def check_operation(kind: str, at: int, body: Any) -> None:
    """Refuse what no operation of this kind has; raises InvalidInput."""
    if not moment(at):
        raise InvalidInput(f"its time is {at!r:.40}")
    if kind not in BODIES:
        raise InvalidInput(f"no operation is called {kind[:40]!r}")
    _check(BODIES[kind], body, "its body")


def check_state(state: Any) -> None:
    """Refuse what no manifest keeps as its state; raises InvalidInput."""
    _check(STATE, state, "state")
    for kind in ("notes", "vectors"):
        after = -1
        for span in state.get(kind, ()):
            if span["after"] < after or span["through"] < span["after"]:
                raise InvalidInput(f"the spans of {kind} do not follow one another")
            after = span["through"]
        if after >= state["next_seq"]:
            raise InvalidInput(f"a span of {kind} goes beyond the notes")


def _check(shape: Mapping[str, Check], found: Any, what: str) -> None:
    if not isinstance(found, dict):
        raise InvalidInput(f"{what} is no object")
    for name, check in shape.items():
        field = name.removesuffix("?")
        if field not in found:
            if name == field:
                raise InvalidInput(f"{what} lacks {field!r}")
        elif not check(found[field]):
            raise InvalidInput(f"{what} has a {field!r} of another shape")


def text(value: Any) -> bool:
    """A string."""
    return type(value) is str


def whole(value: Any) -> bool:
    """An integer that a column holds."""
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def moment(value: Any) -> bool:
    """Microseconds that a calendar has: the years 1 to 9999."""
    return type(value) is int and FIRST <= value <= LAST


def real(value: Any) -> bool:
    """A number."""
    return type(value) in (int, float)


def flag(value: Any) -> bool:
    """True or False."""
    return type(value) is bool


def mapping(value: Any) -> bool:
    """An object."""
    return type(value) is dict


def texts(value: Any) -> bool:
    """A list of strings."""
    return type(value) is list and all(type(one) is str for one in value)


def wholes(value: Any) -> bool:
    """A list of integers."""
    return type(value) is list and all(whole(one) for one in value)


def spelled(value: Any) -> bool:
    """A folded name and its spelling."""
    return texts(value) and len(value) == 2


def names(value: Any) -> bool:
    """Names, each with its spelling."""
    return type(value) is list and all(spelled(one) for one in value)


def end(value: Any) -> bool:
    """An end of a link: an id, a stem or a name."""
    return text(value) or spelled(value)


def layer(value: Any) -> bool:
    """Which links."""
    return value in ("concept", "note", "cue")


def maybe(check: Check) -> Check:
    """The same, or null."""
    return lambda value: value is None or check(value)


def fits(shape: Mapping[str, Check]) -> Check:
    """An object of a shape."""

    def check(value: Any) -> bool:
        try:
            _check(shape, value, "it")
        except InvalidInput:
            return False
        return True

    return check


def many(check: Check) -> Check:
    """A list of such."""
    return lambda value: type(value) is list and all(check(one) for one in value)


def each(check: Check) -> Check:
    """An object with such values."""
    return lambda value: type(value) is dict and all(check(one) for one in value.values())


def width(value: Any) -> bool:
    """How many numbers a vector has."""
    return type(value) is int and 0 < value < 1 << 24


def listed(value: Any) -> bool:
    """A list of lists, or of objects."""
    return type(value) is list and all(type(one) in (list, dict) for one in value)


IMPORTED = ("notes?", "links?", "note_links?", "cue_links?")
LEDGER: dict[str, Check] = {"key": text, "final": flag}
embedder = fits({"name": text, "dim": width})
ledger = fits(LEDGER)
row = fits(
    {
        "id": text,
        "text": text,
        "created_at?": moment,
        "concepts?": texts,
        "spelled?": texts,
        "subjects?": wholes,
    }
)

BODIES: dict[str, dict[str, Check]] = {
    "create": {"settings": mapping},
    "nothing": {},
    "purge": {},
    "configure": {"changes": mapping},
    "write": {
        "on_duplicate": lambda value: value in ("skip", "replace", "error"),
        "rows?": many(row),
        "segment?": mapping,
        "ingest?": maybe(ledger),
    },
    "ingest": {"ingest": ledger},
    "import": {"ingest": ledger, "concepts?": names, **dict.fromkeys(IMPORTED, listed)},
    "feedback": {
        "asked": names,
        "names": names,
        "used": texts,
        "amount": real,
        "outcome": real,
        "share?": real,
        "together?": real,
        "stems?": texts,
    },
    "reinforce": {"direct": texts, "associated": texts, "amount": real, "session": maybe(text)},
    "tick": {"now": moment},
    "link": {"layer": layer, "a": end, "b": end, "amount": real},
    "unlink": {"layer": layer, "a": end, "b": end},
    "forget": {"ids": texts},
    "update": {"id": text, "metadata": maybe(text)},
    "embedder": {"embedder": embedder},
    "reembed": {"embedder": embedder, "seqs": wholes, "through": whole},
    "reembedded": {"embedder": embedder},
}
span = fits({"name": text, "after": whole, "through": whole})
STATE: dict[str, Check] = {
    "next_seq": lambda value: whole(value) and value >= 0,
    "concept_ids": lambda value: whole(value) and 0 <= value < 1 << 32,
    "stem_ids?": lambda value: whole(value) and 0 <= value < 1 << 32,
    "time": lambda value: value == 0 or moment(value),
    "settings": mapping,
    "ingests": each(ledger),
    "embedder?": maybe(embedder),
    "dim?": maybe(width),
    "moving?": maybe(embedder),
    "moved_through?": whole,
    "vectors_since?": whole,
    "notes?": many(span),
    "vectors?": many(span),
}
