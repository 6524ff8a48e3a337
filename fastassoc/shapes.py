"""The shape that a journal's operation and a manifest's state must have, before they are used.

Their hashes say that they are what was written; this says that our own writers may have written it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import float_info
from typing import Any

from fastassoc.errors import InvalidInput

__all__ = ["FIRST", "LAST", "check_operation", "check_state"]

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds of years 1 to 9999
MOST = 1 << 62  # of what an operation counts
GROWN = (1 << 63) - (1 << 32)  # and of what many have added to
LARGEST = 1e12  # step of a weight
FREE_IDS, IDS_AN_OPERATION = 1 << 26, 1 << 20
Check = Callable[[Any], bool]


def check_operation(kind: str, at: int, body: Any) -> None:
    """Refuse what no operation of this kind has; raises InvalidInput."""
    if not moment(at):
        raise InvalidInput(f"its time is {at!r:.40}")
    if kind not in BODIES:
        raise InvalidInput(f"no operation is called {kind[:40]!r}")
    _check(BODIES[kind], body, "its body")


def check_state(state: Any, seq: int) -> None:
    """Refuse what no manifest of a snapshot at `seq` keeps as its state; raises InvalidInput."""
    _check(STATE, state, "state")
    for name in ("concept_ids", "stem_ids"):
        if state.get(name, 0) > FREE_IDS + IDS_AN_OPERATION * seq:  # each takes memory, live or not
            raise InvalidInput(f"{name}: found {state[name]:,}, more than {seq:,} operations give")
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


def integer(low: int, high: int) -> Check:
    """An integer from `low` to `high`."""
    return lambda value: type(value) is int and low <= value <= high


def number(low: float, high: float) -> Check:
    """An integer or a real from `low` to `high`."""
    return lambda value: type(value) in (int, float) and low <= value <= high


def flag(value: Any) -> bool:
    """True or False."""
    return type(value) is bool


def mapping(value: Any) -> bool:
    """An object."""
    return type(value) is dict


def texts(value: Any) -> bool:
    """A list of strings."""
    return type(value) is list and all(type(one) is str for one in value)


def distinct(value: Any) -> bool:
    """A list of strings, each once."""
    return texts(value) and len(set(value)) == len(value)


def spelled(value: Any) -> bool:
    """A folded name and its spelling."""
    return texts(value) and len(value) == 2


def end(value: Any) -> bool:
    """An end of a link: an id, a stem or a name."""
    return text(value) or spelled(value)


def among(*known: str) -> Check:
    """One of some strings."""
    return lambda value: type(value) is str and value in known


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


def table(*kinds: tuple[int, Check]) -> Check:
    """A list of lists: so many columns of each kind, looked at column by column."""
    checks = [check for count, check in kinds for _ in range(count)]

    def check(value: Any) -> bool:
        if type(value) is not list or not set(map(type, value)) <= {list}:
            return False
        if not set(map(len, value)) <= {len(checks)}:
            return False
        return all(map(all, map(map, checks, zip(*value, strict=True))))

    return check


whole = integer(-(1 << 63), (1 << 63) - 1)  # that a column holds
moment = integer(FIRST, LAST)
counted = integer(0, MOST)
width = integer(1, (1 << 24) - 1)  # of a vector
real = number(-LARGEST, LARGEST)
finite = number(-float_info.max, float_info.max)
signed, share = number(-1, 1), number(0, 1)
wholes = many(whole)
names = table((2, text))  # each with its spelling

LEDGER: dict[str, Check] = {"key": text, "final": flag}
BATCHES = fits(LEDGER | dict.fromkeys(("batch", "rows_done", "rejected"), counted))
PARTS = fits({**LEDGER, "part": whole, "position?": counted})


def ledger(value: Any) -> bool:
    """How far an ingest or an import has come."""
    imports = type(value) is dict and str(value.get("key")).startswith("import:")
    return (PARTS if imports else BATCHES)(value)


embedder = fits({"name": text, "dim": width})
ROW: dict[str, Check] = {
    "id": text,
    "text": text,
    "created_at?": moment,
    "importance?": share,
    "concepts?": distinct,
    "spelled?": texts,
    "subjects?": wholes,
    "extracted?": flag,
    "vector?": flag,
}
STATE_OF: dict[str, Check] = {
    "stability?": share,
    "last_access?": moment,
    "accesses?": counted,
    "sessions?": texts,
}
EXPORTED = {**ROW, "written_at": moment, "valence?": signed, "state?": fits(STATE_OF)}
LINK = (3, finite), (1, counted), (2, moment)
layer = among("concept", "note", "cue")
TERM: dict[str, Check] = {"term?": among("concept", "stem"), "stems?": texts}

BODIES: dict[str, dict[str, Check]] = {
    "create": {"settings": mapping},
    "nothing": {},
    "purge": {},
    "configure": {"changes": mapping},
    "write": {
        "on_duplicate": among("skip", "replace", "error"),
        "rows?": many(fits(ROW)),
        "segment?": mapping,
        "ingest?": maybe(ledger),
    },
    "ingest": {"ingest": ledger},
    "import": {
        "ingest": ledger,
        "store?": fits(
            {
                "settings": mapping,
                "embedder": maybe(embedder),
                "dim": maybe(width),
                "time": maybe(moment),
            }
        ),
        "concepts?": names,
        "notes?": many(fits(EXPORTED)),
        "links?": table((2, text), *LINK),
        "note_links?": table((2, text), *LINK),
        "cue_links?": table((1, among("concept", "stem")), (2, text), *LINK),
    },
    "feedback": {
        "asked": names,
        "names": names,
        "used": texts,
        "amount": real,
        "outcome": signed,
        "share?": real,
        "together?": real,
        "stems?": texts,
    },
    "reinforce": {"direct": texts, "associated": texts, "amount": real, "session": maybe(text)},
    "tick": {"now": moment},
    "link": {"layer": layer, "a": end, "b": end, "amount": real, **TERM},
    "unlink": {"layer": layer, "a": end, "b": end, **TERM},
    "forget": {"ids": distinct},
    "update": {"id": text, "metadata": text},
    "embedder": {"embedder": embedder},
    "reembed": {"embedder": embedder, "seqs": wholes, "through": whole},
    "reembedded": {"embedder": embedder},
}
span = fits({"name": text, "after": whole, "through": whole})
STATE: dict[str, Check] = {
    "next_seq": integer(0, GROWN - 1),
    "concept_ids": integer(0, (1 << 32) - 1),
    "stem_ids?": integer(0, (1 << 32) - 1),
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
