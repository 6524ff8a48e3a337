"""Which notes a read may return: domain, time and metadata, before any cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.errors import InvalidInput
from fastassoc.metadata import contains, same
from fastassoc.notes import NotesView

__all__ = ["allowed_rows", "check_where"]


def check_where(where: object) -> Mapping[str, Any]:
    """The filter if it has the right form.

    Raises
    ------
    InvalidInput
        It is not a mapping of ``key: value``, ``key: {"in": [...]}`` or ``key: {"contains": x}``.
    """
    if not isinstance(where, Mapping) or not all(isinstance(key, str) for key in where):
        raise InvalidInput(
            f"where: found {where!r}, expected a mapping of metadata keys to values, "
            'to {"in": [...]} or to {"contains": value}.'
        )
    for key, value in where.items():
        asked: Iterable[Any] = [value]
        if isinstance(value, Mapping):
            if set(value) == {"in"} and isinstance(value["in"], (list, tuple, set, frozenset)):
                asked = value["in"]
            elif set(value) == {"contains"}:
                asked = [value["contains"]]
            else:
                raise InvalidInput(
                    f"where[{key!r}]: found {dict(value)!r}, expected a value, "
                    '{"in": [...]} or {"contains": value}.'
                )
        for one in asked:
            try:
                same(one)
            except (TypeError, ValueError, RecursionError):
                raise InvalidInput(
                    f"where[{key!r}]: found {one!r}, expected what JSON can hold, as metadata does."
                ) from None
    return where


def allowed_rows(
    notes: NotesView,
    *,
    domain: str | list[str] | None,
    since: int | None,
    until: int | None,
    where: Mapping[str, Any] | None,
    include_superseded: bool,
) -> NDArray[np.uint8]:
    """A mask of the rows that a read may return, uint8 [n]; times in microseconds, inclusive."""
    mask = notes.alive if include_superseded else notes.current
    if domain is not None:
        names = [domain] if isinstance(domain, str) else domain
        codes = [code for code in map(notes.table.domain_code, names) if code is not None]
        fits = np.isin(notes.domain, codes) if len(codes) != 1 else notes.domain == codes[0]
        mask = mask & fits
    if since is not None:
        mask = mask & (notes.created_at >= since)
    if until is not None:
        mask = mask & (notes.created_at <= until)
    for key, wanted in (where or {}).items():
        if key == "domain":
            mask = mask & in_domain(notes, wanted)
            continue
        fits = np.zeros(notes.n, np.bool_)
        fits[notes.table.metadata_index.rows(key, wanted, notes.n)] = True
        mask = mask & fits
    return mask.astype(np.uint8, copy=False)


def in_domain(notes: NotesView, wanted: Any) -> NDArray[np.bool_]:
    """Which rows have a domain that fits one clause of a filter, bool [n]."""
    if not isinstance(wanted, Mapping):
        wanted = {"in": [wanted]}
    names = notes.table.domains
    if "in" in wanted:
        codes = [code for code, name in enumerate(names) if name in list(wanted["in"])]
    else:
        codes = [code for code, name in enumerate(names) if contains(name, wanted["contains"])]
    return np.isin(notes.domain, codes)
