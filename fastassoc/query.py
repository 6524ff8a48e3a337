"""What a read is asked, checked before any work is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.answers import Hit
from fastassoc.errors import InvalidInput
from fastassoc.filters import check_where
from fastassoc.settings import RANKS
from fastassoc.times import micros
from fastassoc.vectorfield import LEAST, WIDEST, read_vectors

__all__ = ["Query", "list_of_names", "note_ids", "whole"]

ORDERS = ("relevance", "recency")
MOST_REINFORCED = 1000  # hits of one reinforced read: each pair of them is linked


@dataclass(frozen=True, kw_only=True)
class Query:
    """The checked arguments of `Memory.read`; times in microseconds UTC."""

    text: str | None = None
    concepts: tuple[str, ...] | None = None
    vector: NDArray[np.float32] | None = field(default=None, compare=False)
    like: str | None = None
    k: int = 10
    rank: str | None = None
    hops: int = 1
    domain: str | list[str] | None = None
    since: int | None = None
    until: int | None = None
    where: Mapping[str, Any] | None = None
    min_score: float = 0.0
    order_by: str = "relevance"
    diversity: float = 0.0
    fingerprint: str | None = None
    include_superseded: bool = False
    reinforce: bool = False
    session: str | None = None
    at_least: int | None = None

    @classmethod
    def checked(
        cls,
        query: str | None = None,
        *,
        concepts: Sequence[str] | None = None,
        vector: Any = None,
        like: str | None = None,
        k: int = 10,
        rank: str | None = None,
        hops: int = 1,
        domain: str | Sequence[str] | None = None,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        min_score: float = 0.0,
        order_by: str = "relevance",
        diversity: float = 0.0,
        fingerprint: str | None = None,
        include_superseded: bool = False,
        reinforce: bool = False,
        session: str | None = None,
        at_least: int | None = None,
    ) -> Query:
        """The query, if every argument can be taken.

        Raises
        ------
        InvalidInput
            One cannot, with what was found and what was expected.
        """
        for name, value in (("include_superseded", include_superseded), ("reinforce", reinforce)):
            if not isinstance(value, bool):
                raise InvalidInput(f"{name}: found {value!r}, expected True or False.")
        low = None if since is None else micros(since, "since")
        high = None if until is None else micros(until, "until")
        if low is not None and high is not None and low > high:
            raise InvalidInput(f"since: {since!r} lies after until: {until!r}.")
        domains: str | list[str] | None
        if domain is None or isinstance(domain, str):
            domains = text(domain, "domain")
        else:
            domains = list(list_of_names(domain, "domain"))
        if reinforce:
            k = whole(k, "k with reinforce=True", 1, MOST_REINFORCED)
        return cls(
            text=text(query, "query"),
            concepts=None if concepts is None else list_of_names(concepts, "concepts"),
            vector=None if vector is None else one_vector(vector),
            like=text(like, "like"),
            k=whole(k, "k", 1, 1_000_000),
            rank=one_of(rank, "rank", (None, *RANKS)),
            hops=whole(hops, "hops", 1, 3),
            domain=domains,
            since=low,
            until=high,
            where=None if where is None else check_where(where),
            min_score=share(min_score, "min_score"),
            order_by=str(one_of(order_by, "order_by", ORDERS)),
            diversity=share(diversity, "diversity"),
            fingerprint=text(fingerprint, "fingerprint"),
            include_superseded=include_superseded,
            reinforce=reinforce,
            session=text(session, "session"),
            at_least=None if at_least is None else whole(at_least, "at_least", 0, 2**63 - 1),
        )


def one_vector(value: Any) -> NDArray[np.float32]:
    """A vector, float32 [dim]: finite and not zero."""
    if type(value) is np.ndarray and value.ndim == 1 and value.dtype == np.float32 and len(value):
        most = max(value.max(), -value.min())  # NaN where there is one
        if LEAST <= most < np.inf and len(value) <= WIDEST:
            return value.copy()  # the usual one is not told why it is refused
    reasons: dict[int, str] = {}
    column = read_vectors([value], reasons)
    if reasons or column is None:
        raise InvalidInput(reasons.get(0, f"vector: found {value!r:.60}, expected numbers."))
    found: NDArray[np.float32] = column.flatten().to_numpy().copy()
    return found


def text(value: Any, name: str) -> str | None:
    """A text or None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name}: found {type(value).__name__} {value!r}, expected a text.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"{name}: found a lone surrogate in {value!r}, expected valid Unicode text."
        ) from None
    return value


def list_of_names(value: Any, name: str) -> tuple[str, ...]:
    """Texts from a list, tuple or set; a bare text is refused."""
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    elif not isinstance(value, (list, tuple)) and (
        isinstance(value, (str, bytes)) or not isinstance(value, Sequence)
    ):
        such = f", such as [{value!r}]" if isinstance(value, str) and value else ""
        raise InvalidInput(f"{name}: found {value!r:.80}, expected a list of names{such}.")
    for item in value:
        if not isinstance(item, str):
            raise InvalidInput(f"{name}: found {item!r} in the list, expected texts only.")
        if not item.isascii():
            text(item, name)
    return tuple(value)


def note_ids(notes: Any, name: str) -> list[str]:
    """Ids from a list of ids or hits."""
    if isinstance(notes, (str, bytes)) or not hasattr(notes, "__iter__"):
        raise InvalidInput(f"{name}: found {notes!r}, expected a list of note ids or hits.")
    found = []
    for one in notes:
        note = one.id if isinstance(one, Hit) else one
        if not isinstance(note, str):
            raise InvalidInput(f"{name}: found {one!r} in the list, expected note ids or hits.")
        found.append(str(note))
    return found


def whole(value: Any, name: str, low: int, high: int) -> int:
    """A whole number in [low, high]."""
    if isinstance(value, (bool, np.ndarray)) or not hasattr(value, "__index__"):
        raise InvalidInput(f"{name}: found {value!r}, expected a whole number from {low}.")
    number = int(value.__index__())
    if not low <= number <= high:
        raise InvalidInput(f"{name}: found {number}, expected a whole number from {low} to {high}.")
    return number


def real(value: Any, name: str, low: float, high: float) -> float:
    """A number in [low, high]."""
    # not every thing with a __float__ is a number: arrays, np.bool_ and complex scalars are none
    good = type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))
    if not good or not low <= value <= high:  # False for NaN; exact for an int of any size
        raise InvalidInput(f"{name}: found {value!r}, expected a number from {low:g} to {high:g}.")
    return float(value)


def share(value: Any, name: str) -> float:
    """A number in [0, 1]."""
    return real(value, name, 0.0, 1.0)


def one_of(value: Any, name: str, known: tuple[str | None, ...]) -> str | None:
    """One of the known options."""
    if not (value is None or isinstance(value, str)) or value not in known:
        options = ", ".join(repr(option) for option in known)
        raise InvalidInput(f"{name}: found {value!r}, expected one of {options}.")
    return str(value) if value is not None else None
