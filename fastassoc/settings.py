"""Every number that changes an answer: frozen, validated, saved with the store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from fastassoc.errors import InvalidInput, SettingsMismatch

__all__ = ["LinkRule", "Settings"]

RANKS = ("counts", "flat")
NAMES = ("fold", "exact")
GRID = 2.0**-20  # every step is a multiple of this, so that float64 sums of steps are exact


def on_grid(value: float) -> float:
    """Round to the nearest multiple of 2^-20, so that no split of the work changes a weight."""
    return round(value / GRID) * GRID


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidInput(message)


def _finite(name: str, value: object, low: float, high: float) -> None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    _need(
        good and low <= value <= high,  # type: ignore[operator]
        f"setting {name}: found {value!r}, expected a number from {low} to {high}.",
    )


@dataclass(frozen=True, kw_only=True)
class LinkRule:
    """How the links of one layer grow, fade, are bounded and are followed.

    Parameters
    ----------
    write_step : float
        What one note adds to each pair that it writes.
    teach_step : float
        What an outcome of 1 adds to each pair that it teaches.
    floor, ceiling : float or None
        Bounds of a weight; None is no bound.
    decay_days : float or None
        Time constant of ``weight * exp(-days / decay_days)``; None is no decay.
    threshold : float
        The least effective weight that a read follows, inclusive. A read field.

    Raises
    ------
    InvalidInput
        A value is out of its range.

    Examples
    --------
    >>> LinkRule(threshold=3.0).threshold
    3.0
    """

    write_step: float = 1.0
    teach_step: float = 1.0
    floor: float | None = 0.0
    ceiling: float | None = None
    decay_days: float | None = None
    threshold: float = 2.0

    def __post_init__(self) -> None:
        _finite("write_step", self.write_step, 0.0, 1e6)
        _finite("teach_step", self.teach_step, 0.0, 1e6)
        _finite("threshold", self.threshold, -1e12, 1e12)
        for name in ("floor", "ceiling"):
            if getattr(self, name) is not None:
                _finite(name, getattr(self, name), -1e12, 1e12)
        low, high = self.bounds
        _need(low <= 0.0 <= high and low < high, "setting floor, ceiling: 0 must lie between them.")
        if self.decay_days is not None:
            _finite("decay_days", self.decay_days, 1e-6, 1e9)
        for name in ("write_step", "teach_step"):
            object.__setattr__(self, name, on_grid(getattr(self, name)))

    @property
    def bounds(self) -> tuple[float, float]:
        """Floor and ceiling as numbers, infinite where there is none."""
        return (
            -math.inf if self.floor is None else float(self.floor),
            math.inf if self.ceiling is None else float(self.ceiling),
        )

    @property
    def decay_us(self) -> float:
        """The time constant of decay in microseconds; infinite without decay."""
        return math.inf if self.decay_days is None else self.decay_days * 86_400e6


def _read(default: Any) -> Any:
    """A field that changes answers only: it may differ from one open to the next."""
    return field(default=default, metadata={"read": True})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a store is made with, and how it is read.

    *State* fields are fixed when the store is made. *Read* fields (``rank``, ``hop_factor``,
    ``max_fanout``, ``bm25_k1``, ``bm25_b`` and every rule's ``threshold``) may
    differ from one open to the next; `Memory.configure` saves them.

    Parameters
    ----------
    names : {"fold", "exact"}
        When two concept names are one: equal after Unicode NFKC, case folding and collapsing
        white space, or equal as typed.
    language : str
        Snowball stemmer for variants and for the text index.
    extract : bool
        Whether a note without given concepts gets those extracted from its text.
    extractor : int
        Version of the extraction rules.
    concept_links : LinkRule
        The rule of the concept layer.
    valence_rate : float
        Share of the way that an outcome moves a valence.
    rank : str or None
        The default rank; None reads named concepts by ``"counts"`` and other text ``"flat"``.
    hop_factor : float
        Factor for each step after the first.
    max_fanout : int or None
        The most links followed from one concept, strongest first; None follows all.
    bm25_k1, bm25_b : float
        Saturation and length normalisation of BM25.

    Raises
    ------
    InvalidInput
        A value is out of its range.

    Examples
    --------
    >>> Settings.counts().concept_links.threshold
    2.0
    >>> Settings(language="german").language
    'german'
    """

    names: str = "fold"
    language: str = "english"
    extract: bool = True
    extractor: int = 1
    concept_links: LinkRule = LinkRule()
    valence_rate: float = 0.3
    rank: str | None = _read(None)
    hop_factor: float = _read(1.0)
    max_fanout: int | None = _read(None)
    bm25_k1: float = _read(1.5)
    bm25_b: float = _read(0.75)

    def __post_init__(self) -> None:
        _need(
            self.names in NAMES,
            f"setting names: found {self.names!r}, expected {' or '.join(map(repr, NAMES))}.",
        )
        _need(
            self.rank is None or self.rank in RANKS,
            f"setting rank: found {self.rank!r}, expected None, {', '.join(map(repr, RANKS))}.",
        )
        _need(
            isinstance(self.extract, bool),
            f"setting extract: found {self.extract!r}, expected a bool.",
        )
        _need(
            type(self.extractor) is int and self.extractor == 1,
            f"setting extractor: found {self.extractor!r}, known: 1.",
        )
        _finite("valence_rate", self.valence_rate, 0.0, 1.0)
        _finite("hop_factor", self.hop_factor, 0.0, 1.0)
        _finite("bm25_k1", self.bm25_k1, 0.0, 100.0)
        _finite("bm25_b", self.bm25_b, 0.0, 1.0)
        _need(
            self.max_fanout is None
            or (
                isinstance(self.max_fanout, int)
                and not isinstance(self.max_fanout, bool)
                and 1 <= self.max_fanout < 2**31
            ),
            f"setting max_fanout: found {self.max_fanout!r}, expected None or a whole number "
            "from 1 to 2^31 - 1.",
        )
        from snowballstemmer import algorithms

        _need(
            self.language in algorithms(),
            f"setting language: found {self.language!r}, expected one of "
            f"{', '.join(algorithms())}.",
        )

    @classmethod
    def counts(cls, **changes: Any) -> Settings:
        """The default preset: links count the notes that two concepts share."""
        return cls(**changes)

    def with_changes(self, changes: Mapping[str, Any], *, read_only: bool = False) -> Settings:
        """A copy with some fields changed; a rule's field is named ``"concept_links.threshold"``.

        Raises
        ------
        InvalidInput
            A field is unknown or its value is out of range.
        SettingsMismatch
            `read_only` is true and a state field would change.
        """
        flat = self.to_dict()
        unknown = sorted(set(changes) - set(flat))
        _need(not unknown, f"unknown settings: {', '.join(unknown)}. Known: {', '.join(flat)}.")
        new = Settings.from_dict({**flat, **changes})
        if read_only:
            self.require_same_state(new)
        return new

    def require_same_state(self, other: Settings) -> None:
        """Raise SettingsMismatch, naming the fields, where `other` differs in a state field."""
        ours, theirs, reads = self.to_dict(), other.to_dict(), self.read_fields()
        differing = [key for key in ours if key not in reads and ours[key] != theirs[key]]
        if differing:
            found = ", ".join(
                f"{key}: store {ours[key]!r}, asked {theirs[key]!r}" for key in differing
            )
            raise SettingsMismatch(
                f"the store was made with other settings ({found}). These are fixed when a store "
                "is made: open it without them, or export it and import into a new store.",
                differing,
            )

    @classmethod
    def read_fields(cls) -> frozenset[str]:
        """Names of the fields, as in `to_dict`, that may differ from one open to the next."""
        own = {f.name for f in fields(cls) if f.metadata.get("read")}
        return frozenset(
            own | {f"{f.name}.threshold" for f in fields(cls) if f.name.endswith("_links")}
        )

    def to_dict(self) -> dict[str, Any]:
        """Every field as a flat mapping of JSON values, rules as ``"layer.field"``."""
        out: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, LinkRule):
                out.update({f"{f.name}.{g.name}": getattr(value, g.name) for g in fields(value)})
            else:
                out[f.name] = value
        return out

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Settings:
        """The settings that `to_dict` gave; fields that are absent take their defaults."""
        own: dict[str, Any] = {}
        rules: dict[str, dict[str, Any]] = {}
        for key, value in saved.items():
            name, dot, inner = key.partition(".")
            if dot:
                rules.setdefault(name, {})[inner] = value
            else:
                own[name] = value
        defaults: dict[str, Any] = {f.name: f.default for f in fields(cls)}
        try:
            own.update({name: replace(defaults[name], **rule) for name, rule in rules.items()})
            return cls(**own)
        except (TypeError, KeyError) as error:
            raise InvalidInput(f"unknown setting in {sorted(saved)}: {error}.") from None
