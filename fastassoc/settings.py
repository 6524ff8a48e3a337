"""Every number that changes an answer: frozen, validated, saved with the store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Self

from fastassoc.errors import InvalidInput, SettingsMismatch

__all__ = ["AssociationRule", "BridgeRule", "LinkRule", "RetentionRule", "Settings", "in_use"]

RANKS = ("counts", "flat", "bridge", "ppr", "retention")
NAMES = ("fold", "exact")
SESSION_LINKS = ("consecutive", "cosine", "none")
RETIRED = frozenset(  # of how sure a score is: what replaced them is set anew in every store
    f"bridge.sure_{name}" for name in ("share", "cosine", "length", "vector", "words", "text")
)
GRID = 2.0**-20  # every step is a multiple of this, so that float64 sums of steps are exact


def on_grid(value: float) -> float:
    """Round to the nearest multiple of 2^-20, so that no split of the work changes a weight."""
    return round(value / GRID) * GRID


def _bad(reason: str, *names: str) -> InvalidInput:
    """What is wrong with a field, or with several, of the settings or of a rule in them."""
    return InvalidInput(f"setting {', '.join(names)}: {reason}")


def _unknown(names: Iterable[object], known: Sequence[str]) -> InvalidInput:
    """What is said of fields that are not there."""
    from difflib import get_close_matches

    unknown = sorted(map(str, names))
    near = [one for name in unknown for one in get_close_matches(name, known, 1)]
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    return InvalidInput(f"unknown settings: {', '.join(unknown)}.{hint} Known: {', '.join(known)}.")


class _Named:
    """What is made of named fields; a name that is none is told as everywhere."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        unknown = set(given) - {f.name for f in fields(cls)}  # type: ignore[arg-type]
        if unknown:
            raise _unknown(unknown, cls.names_of_fields())
        return super().__new__(cls)

    @classmethod
    def names_of_fields(cls) -> list[str]:
        """Every field, those of a rule as ``"rule.field"``."""
        names = []
        for f in fields(cls):  # type: ignore[arg-type]
            rule = is_dataclass(f.default)
            names += [f"{f.name}.{g.name}" for g in fields(f.default)] if rule else [f.name]  # type: ignore[arg-type]
        return names


def _sound(condition: bool, reason: str, *names: str) -> None:
    if not condition:
        raise _bad(reason, *names)


def _finite(name: str, value: object, low: float, high: float) -> None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    _sound(
        good and low <= value <= high,  # type: ignore[operator]
        f"found {value!r}, expected a number from {low} to {high}.",
        name,
    )


def _read(default: Any) -> Any:
    """A field that changes answers only: it may differ from one open to the next."""
    return field(default=default, metadata={"read": True})


@dataclass(frozen=True, kw_only=True)
class LinkRule(_Named):
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
    threshold: float = _read(2.0)

    def __post_init__(self) -> None:
        _finite("write_step", self.write_step, 0.0, 1e6)
        _finite("teach_step", self.teach_step, 0.0, 1e6)
        _finite("threshold", self.threshold, -1e12, 1e12)
        for name in ("floor", "ceiling"):
            if getattr(self, name) is not None:
                _finite(name, getattr(self, name), -1e12, 1e12)
        low, high = self.bounds
        _sound(low <= 0.0 <= high and low < high, "0 must lie between them.", "floor", "ceiling")
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


@dataclass(frozen=True, kw_only=True)
class RetentionRule(_Named):
    """How notes fade when nobody asks for them, and how being returned keeps them.

    With ``B = min(3, 1 + 2 importance)``, ``S = max(stability, 0.01)`` and t days since the last
    access, a note's retention is ``max(floor, exp(-t / (S B beta)))``: the forgetting curve of
    Ebbinghaus (1885) with a time constant that grows with use.

    Parameters
    ----------
    base_stability, importance_stability : float
        A new note's stability: the first, plus the second times its importance.
    direct_boost, associated_boost : float
        What a reinforced read adds to the stability of a note it returned, times
        ``min(boost_most, days since the last access / boost_days)``; never above 1.
    boost_days, boost_most : float
    episodic_days, semantic_days, core_days : float
        beta by category; procedural notes do not fade, notes of other categories as episodic.
    floor, core_floor : float
        The least retention, and that of core notes.
    core_accesses, core_stability, core_sessions
        What a note must reach, all three, to become a core note; a procedural one stays as it
        is, since it does not fade.
    cold_days : float
        Days at the floor after which `Memory.tick` moves a note to the cold tier.
    power : float
        Exponent of the retention in the rank ``"retention"``. A read field.
    similarity : float
        What stands for the cosine where the query or a note has no vector. A read field.
    association_share : float
        Share of the places of an answer that is kept for associated notes. A read field.

    Raises
    ------
    InvalidInput
        A value is out of its range.

    Examples
    --------
    >>> RetentionRule().semantic_days
    240.0
    """

    base_stability: float = 0.1
    importance_stability: float = 0.3
    direct_boost: float = 0.1
    associated_boost: float = 0.03
    boost_days: float = 7.0
    boost_most: float = 2.0
    episodic_days: float = 45.0
    semantic_days: float = 240.0
    core_days: float = 120.0
    floor: float = 0.02
    core_floor: float = 0.6
    core_accesses: int = 10
    core_stability: float = 0.85
    core_sessions: int = 2
    cold_days: float = 7.0
    power: float = _read(0.3)
    similarity: float = _read(0.1)
    association_share: float = _read(1 / 3)

    def __post_init__(self) -> None:
        for name in ("episodic_days", "semantic_days", "core_days", "boost_days"):
            _finite(name, getattr(self, name), 1e-6, 1e9)
        for name in ("base_stability", "importance_stability", "direct_boost"):
            _finite(name, getattr(self, name), 0.0, 1.0)
        for name in ("associated_boost", "core_stability", "similarity", "association_share"):
            _finite(name, getattr(self, name), 0.0, 1.0)
        for name in ("floor", "core_floor"):
            _finite(name, getattr(self, name), 1e-12, 1.0)
        for name, most in (("boost_most", 1e6), ("cold_days", 1e9), ("power", 100.0)):
            _finite(name, getattr(self, name), 0.0, most)
        for name, most in (("core_accesses", 2**31), ("core_sessions", 2)):
            value = getattr(self, name)
            _sound(
                type(value) is int and 0 <= value <= most,
                f"found {value!r}, expected a whole number from 0 to {most}.",
                name,
            )


@dataclass(frozen=True, kw_only=True)
class AssociationRule(_Named):
    """How shares flow from cues to what `Memory.associate` answers.

    ``x <- (1 - stay) W'x + stay x0``, `steps` times, with x0 spread evenly over the cues. W holds
    ``w / deg(a) + back * w / deg(b)`` for a link from a to b, w being its effective weight to
    `power`, each row divided by its sum; deg is the sum of w over a concept's positive links. Links
    have no direction: what came back to a cue is in the weight already, so that one cue needs no
    `back`; a power below 1 lets many weak ways say more than one strong link. Several cues say more
    by their own links than by longer ways, hence a large `stay`; then `back` favours what is linked
    to little else. All fields are read fields.

    Parameters
    ----------
    steps : int
        From 1 to 10.
    stay, back, power : float
        For one cue.
    stay_several, back_several, power_several : float
        For two cues or more.

    Raises
    ------
    InvalidInput
        A value is out of its range.

    Examples
    --------
    >>> AssociationRule().steps
    2
    """

    steps: int = _read(2)
    stay: float = _read(0.3)
    back: float = _read(0.0)
    power: float = _read(0.5)
    stay_several: float = _read(0.9)
    back_several: float = _read(0.5)
    power_several: float = _read(1.0)

    def __post_init__(self) -> None:
        _sound(
            type(self.steps) is int and 1 <= self.steps <= 10,
            f"found {self.steps!r}, expected a whole number from 1 to 10.",
            "steps",
        )
        for name in ("stay", "stay_several"):
            _finite(name, getattr(self, name), 0.0, 1.0 - 1e-6)
        for name in ("back", "back_several"):
            _finite(name, getattr(self, name), 0.0, 1e6)
        for name in ("power", "power_several"):
            _finite(name, getattr(self, name), 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class BridgeRule(_Named):
    """The default read, step by step: every constant that it goes by. All are read fields.

    Parameters
    ----------
    flat_share : float
        1. ``flat = flat_share d + (1 - flat_share) b``: cosine d and BM25 b, each by its maximum.
        A concept that the question names and a note was given counts as if its text said it once.
    subject_weight : float
        2. ``s0 = flat + subject_weight u``, u being the idf of the question's concepts that a note
        declares as subjects, by its maximum.
    seeds : int
        3. Seeds are the first so many by s0; ``p(h) = (s0(h) / s0(first)) ^ seed_power``,
    seed_power, unnamed : float
        times `unnamed` where h mentions no concept of the question.
    mention, subject, saturation : float
        4. ``L = x / (x + saturation)``, x the sum over concepts c of h that the question does not
        name of ``df ^ -1/2`` times `mention` if n mentions c, plus `subject` if c is its subject.
    stem, capital_stem, plain_stem : float
        Factor of a stem; of one that the corpus mostly writes with a capital, and of any other,
        where the seed is rich.
    capitals : bool
        Whether seeds with a subject and `rich_concepts` concepts or more are rich.
    rich_concepts : int
    max_df, hub_least : int
        Concepts and stems on more notes than `max_df`, or than `hub_least` and
    hub_share : float
        this share of all notes, lead nowhere.
    weight, base : float
        6. ``s = s0 + weight max over h of p(h) L(h, n) (base + R)``, R being BM25 of n over the
        words of the question that h lacks.
    closed, closed_links, closed_width : float
        6. Where one of the first notes holds all words of the question, what is looked up is
        there: `base` counts by `closed`, if these notes declare subjects, and `link_share` by
        `closed_links`. Both count in full again where each of the notes lacks `closed_width` of
        ``ln(1 + N)`` in idf.
    pin : bool
        7. Whether the first note of flat stays in front, by `pin_lift`; where one of the first
        notes holds all words, what links lend changes the first note no more either.
    pin_lift : float
    cover : bool
        Whether the first notes are chosen together where they declare subjects.
    titled_share, gate_least, gate_width : float
        The gate ``a = clip((open - gate_least) / gate_width, 0, 1)``, 0 unless this share of the
        first notes declares a subject; open is the least idf that one of them lacks.
    gate_notes, spread_seeds, spread_pool, pool, picks : int
    spread_words, spread_subjects : float
    pick_loss, pick_covered, pick_same, pick_gain, pick_open : float
        What a pick loses for words that picks cover, and by those of the same subject; what it
        gains by a bridge with words still open, and as the subject of a concept still open.
    deal : float
        How much lower each place of the pool lies.
    note_part, concept_part : float
        How much counts what was learned. A note gains `note_part` times: over the question's terms
        (concepts and stems), the share of their idf times ``clip(A / sqrt(sum |A|), -1, 1)``, A
        being the weight of the cue link to the note and the sum that of all cue links of the term;
        times the square of the share of the question that has a cue link to the note. And
        `concept_part` times: over the concepts k that it mentions and the question does not name,
        ``a(k) df(k) ^ -1/2``, a(k) being the idf share of each named concept times its
        ``C / sqrt(sum C)``, C what was taught to its links, where positive.
    link_share : float
        8. A note gains this share of the best score among the notes that it is linked to.
    sure_note, sure_note_cosine, sure_note_both, sure_far : float
    sure_known, sure_known_least, sure_weight, sure_asked, sure_base : float
        How sure it is that the store knows of what is asked: the logistic function of
        `sure_base` plus the sum of each number times: the most that one note explains, which is
        the share of the question's idf that it holds, plus `sure_note_cosine` times its cosine,
        less `sure_note_both` times their product; the cosine of the note that comes hundredth (the
        last, in a smaller store); the share that the store knows, `sure_known_least` at least;
        what it knows by ``ln(1 + N)``; the square root of all. A concept that notes were given
        counts beside the words of its name. Fitted to stores of 300 to 10,000 notes with vectors
        of WordLlama and MiniLM, so that both kinds of mistake are as rare as can be.
    sure_text_note, sure_text_words, sure_text_known, sure_text_weight, sure_text_asked : float
    sure_text_base : float
        The same without a vector, and with the most words that one note holds.

    Raises
    ------
    InvalidInput
        A value is out of its range.

    Examples
    --------
    >>> BridgeRule().seeds
    5
    """

    flat_share: float = _read(0.5)
    subject_weight: float = _read(0.4)
    seeds: int = _read(5)
    seed_power: float = _read(2.0)
    unnamed: float = _read(0.5)
    mention: float = _read(0.5)
    subject: float = _read(1.0)
    saturation: float = _read(0.5)
    stem: float = _read(0.5)
    capitals: bool = _read(True)
    capital_stem: float = _read(0.75)
    plain_stem: float = _read(0.15)
    rich_concepts: int = _read(4)
    max_df: int = _read(50)
    hub_least: int = _read(20)
    hub_share: float = _read(0.1)
    weight: float = _read(2.5)
    base: float = _read(0.3)
    closed: float = _read(0.25)
    closed_links: float = _read(0.61)
    closed_width: float = _read(0.25)
    pin: bool = _read(True)
    pin_lift: float = _read(1e-6)
    cover: bool = _read(True)
    titled_share: float = _read(0.5)
    gate_notes: int = _read(10)
    gate_least: float = _read(0.5)
    gate_width: float = _read(0.5)
    spread_seeds: int = _read(5)
    spread_pool: int = _read(30)
    spread_words: float = _read(0.5)
    spread_subjects: float = _read(0.4)
    pool: int = _read(50)
    picks: int = _read(5)
    pick_loss: float = _read(0.5)
    pick_covered: float = _read(0.4)
    pick_same: float = _read(1.1)
    pick_gain: float = _read(2.0)
    pick_open: float = _read(0.6)
    deal: float = _read(1e-9)
    note_part: float = _read(1.0)
    concept_part: float = _read(0.5)
    link_share: float = _read(0.53)
    sure_note: float = _read(19.2)
    sure_note_cosine: float = _read(1.2)
    sure_note_both: float = _read(0.7)
    sure_far: float = _read(10.55)
    sure_known: float = _read(-15.4)
    sure_known_least: float = _read(0.3)
    sure_weight: float = _read(3.47)
    sure_asked: float = _read(-2.67)
    sure_base: float = _read(-0.82)
    sure_text_note: float = _read(9.45)
    sure_text_words: float = _read(1.46)
    sure_text_known: float = _read(-9.0)
    sure_text_weight: float = _read(0.92)
    sure_text_asked: float = _read(-1.44)
    sure_text_base: float = _read(4.5)

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(f.default, bool):
                good = isinstance(value, bool)
                _sound(good, f"found {value!r}, expected True or False.", f.name)
            elif isinstance(f.default, int):
                good = type(value) is int and 1 <= value <= 10_000
                _sound(good, f"found {value!r}, expected a whole number from 1 to 10000.", f.name)
            else:
                _finite(f.name, value, -1e3 if f.name.startswith("sure_") else 0.0, 1e6)
        _finite("flat_share", self.flat_share, 0.01, 0.99)  # each side can answer alone
        for name in ("closed", "closed_links"):
            _finite(name, getattr(self, name), 0.0, 1.0)
        for name in ("saturation", "gate_width", "closed_width"):
            _finite(name, getattr(self, name), 1e-9, 1e6)


@dataclass(frozen=True, kw_only=True)
class Settings(_Named):
    """What a store is made with, and how it is read.

    *State* fields are fixed when the store is made. *Read* fields (``rank``, ``hop_factor``,
    ``max_fanout``, ``bm25_k1``, ``bm25_b``, ``recall_floor``, every rule's ``threshold``, all of
    ``bridge`` and ``association``, ``ppr_alpha``, ``ppr_eps`` and the read fields of ``retention``)
    may differ from one open to the next; `Memory.configure` saves them.

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
    note_links : LinkRule
        The rule of the note layer.
    cue_links : LinkRule
        The rule of the layer that joins terms of questions to notes. Nothing writes in it; an
        outcome's `teach_step` is shared by the notes that were used. Reads go by every weight: the
        threshold is not used.
    session_links : {"consecutive", "cosine", "none"}
        Which notes of one session a new note is linked to: the one before it, by the note layer's
        write step; or those among the last `tag_window` whose cosine c is at least `tag_least`,
        by ``min(tag_most, tag_base + (c - tag_least) * tag_slope)``.
    tag_window : int
    tag_least, tag_base, tag_slope, tag_most : float
    reinforce_step : float
        What a reinforced read adds between the direct hits that it returned.
    valence_rate : float
        Share of the way that an outcome moves a valence.
    retention : RetentionRule
    bridge : BridgeRule
    rank : str or None
        The default rank; None reads concepts alone by ``"counts"``, and whatever has a text, a
        vector or a note to be like by ``"bridge"``.
    hop_factor : float
        Factor for each step after the first.
    max_fanout : int or None
        The most links followed from one concept, strongest first; None follows all.
    bm25_k1, bm25_b : float
        Saturation and length normalisation of BM25.
    association : AssociationRule
        How `Memory.associate` weighs.
    ppr_alpha : float
        Share that stays at each node in the rank ``"ppr"``: the larger, the shorter the ways.
    ppr_eps : float
        Its exactness: a node lies at most this times its degree below its PageRank.
    recall_floor : float
        The least recall@10, measured on the store's own vectors, of an index over them.

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
    note_links: LinkRule = LinkRule(teach_step=0.0, ceiling=1.0, threshold=0.3)
    cue_links: LinkRule = LinkRule(write_step=0.0, floor=None, threshold=0.0)
    session_links: str = "consecutive"
    tag_window: int = 256
    tag_least: float = 0.4
    tag_base: float = 0.2
    tag_slope: float = 0.5
    tag_most: float = 0.5
    reinforce_step: float = 0.0
    valence_rate: float = 0.3
    retention: RetentionRule = RetentionRule()
    bridge: BridgeRule = BridgeRule()
    rank: str | None = _read(None)
    hop_factor: float = _read(1.0)
    max_fanout: int | None = _read(None)
    bm25_k1: float = _read(1.5)
    bm25_b: float = _read(0.75)
    association: AssociationRule = AssociationRule()
    ppr_alpha: float = _read(0.5)
    ppr_eps: float = _read(1e-6)
    recall_floor: float = _read(0.98)

    def __post_init__(self) -> None:
        for part in fields(self):
            if is_dataclass(part.default):
                rule, value = type(part.default), getattr(self, part.name)
                reason = f"found {value!r}, expected a {rule.__name__}."
                _sound(isinstance(value, rule), reason, part.name)
        _sound(
            self.names in NAMES,
            f"found {self.names!r}, expected {' or '.join(map(repr, NAMES))}.",
            "names",
        )
        _sound(
            self.rank is None or self.rank in RANKS,
            f"found {self.rank!r}, expected None, {', '.join(map(repr, RANKS))}.",
            "rank",
        )
        _sound(
            isinstance(self.extract, bool),
            f"found {self.extract!r}, expected a bool.",
            "extract",
        )
        _sound(
            type(self.extractor) is int and self.extractor == 1,
            f"found {self.extractor!r}, known: 1.",
            "extractor",
        )
        _sound(
            self.session_links in SESSION_LINKS,
            f"found {self.session_links!r}, expected one of {', '.join(map(repr, SESSION_LINKS))}.",
            "session_links",
        )
        _sound(
            type(self.tag_window) is int and 1 <= self.tag_window <= 65_536,
            f"found {self.tag_window!r}, expected a whole number from 1 to 65536.",
            "tag_window",
        )
        _finite("tag_least", self.tag_least, -1.0, 1.0)
        for name in ("tag_base", "tag_slope", "tag_most", "reinforce_step"):
            _finite(name, getattr(self, name), 0.0, 1e6)
        object.__setattr__(self, "reinforce_step", on_grid(self.reinforce_step))
        _finite("valence_rate", self.valence_rate, 0.0, 1.0)
        _finite("recall_floor", self.recall_floor, 0.0, 1.0)
        _finite("hop_factor", self.hop_factor, 0.0, 1.0)
        _finite("ppr_alpha", self.ppr_alpha, 0.01, 0.99)
        _finite("ppr_eps", self.ppr_eps, 1e-9, 1e-2)
        _finite("bm25_k1", self.bm25_k1, 0.0, 100.0)
        _finite("bm25_b", self.bm25_b, 0.0, 1.0)
        _sound(
            self.max_fanout is None
            or (
                isinstance(self.max_fanout, int)
                and not isinstance(self.max_fanout, bool)
                and 1 <= self.max_fanout < 2**31
            ),
            f"found {self.max_fanout!r}, expected None or a whole number from 1 to 2^31 - 1.",
            "max_fanout",
        )
        from snowballstemmer import algorithms

        _sound(
            self.language in algorithms(),
            f"found {self.language!r}, expected one of {', '.join(algorithms())}.",
            "language",
        )

    @classmethod
    def counts(cls, **changes: Any) -> Settings:
        """The default preset: links count the notes that two concepts share."""
        return cls._made({}, changes)

    @classmethod
    def cognitive(cls, **changes: Any) -> Settings:
        """The preset that forgets: notes fade, and links between notes form, strengthen and fade.

        Examples
        --------
        >>> Settings.cognitive().note_links.decay_days
        90.0
        """
        preset: dict[str, Any] = {
            "note_links": LinkRule(
                write_step=0.0, teach_step=0.1, ceiling=1.0, decay_days=90.0, threshold=0.3
            ),
            "session_links": "cosine",
            "reinforce_step": 0.1,
            "rank": "retention",
        }
        return cls._made(preset, changes)

    @classmethod
    def _made(cls, preset: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
        """A preset with changes; a rule's field may be named ``"concept_links.threshold"``."""
        whole = {f.name: f.default for f in fields(cls)}
        known = cls.names_of_fields()
        unknown = set(changes) - set(whole) - set(known)
        if unknown:
            raise _unknown(unknown, known)
        own, rules = dict(preset), {}  # type: dict[str, Any], dict[str, dict[str, Any]]
        for key, value in changes.items():
            name, dot, inner = key.partition(".")
            if dot:
                rules.setdefault(name, {})[inner] = value
            else:
                own[name] = value
        for name, rule in rules.items():
            base = own.get(name, whole[name])
            if isinstance(base, type(whole[name])):  # else it is told what is wrong with the rule
                own[name] = _changed(name, base, rule)
        return cls(**own)

    def tag_weight(self, cosine: float) -> float:
        """What a new note's link to an earlier one of its session weighs, on the grid of steps.

        Examples
        --------
        >>> [round(Settings.cognitive().tag_weight(cosine), 4) for cosine in (0.4, 0.6, 1.0)]
        [0.2, 0.3, 0.5]
        """
        above = (cosine - self.tag_least) * self.tag_slope
        return on_grid(min(self.tag_most, self.tag_base + above))

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
        unknown = set(changes) - set(flat)
        if unknown:
            raise _unknown(unknown, list(flat))
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
        names: set[str] = set()
        for f in fields(cls):
            inner = fields(f.default) if is_dataclass(f.default) else ()
            names.update(f"{f.name}.{g.name}" for g in inner if g.metadata.get("read"))
            if f.metadata.get("read"):
                names.add(f.name)
        return frozenset(names)

    def to_dict(self) -> dict[str, Any]:
        """Every field as a flat mapping of JSON values, rules as ``"layer.field"``."""
        out: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if is_dataclass(value):
                out.update({f"{f.name}.{g.name}": getattr(value, g.name) for g in fields(value)})
            else:
                out[f.name] = value
        return out

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Settings:
        """The settings that `to_dict` gave; fields that are absent take their defaults."""
        return cls._made({}, in_use(saved))


def in_use(saved: Mapping[str, Any]) -> dict[str, Any]:
    """What was saved, without the fields that only earlier versions had."""
    return {name: value for name, value in saved.items() if name not in RETIRED}


def _changed(name: str, rule: Any, changes: Mapping[str, Any]) -> Any:
    """A copy of a rule; what is wrong with a field is said of the field by its whole name."""
    try:
        return replace(rule, **changes)
    except InvalidInput as error:
        inner, _, reason = str(error).removeprefix("setting ").partition(": ")
        raise _bad(reason, *(f"{name}.{one}" for one in inner.split(", "))) from None
