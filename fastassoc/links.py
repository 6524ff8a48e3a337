"""Weighted links between ids: how they are kept, changed in order, and published for reads.

`LinkMatrix` is one class for every layer. It is log-structured: a large sorted *base*, a small
sorted *delta* over it, and what changed since the last view in a *table* (few at a time) or in
sorted *tiers* (many). Each level holds whole states and overrides those below, so where a link
happens to lie never changes an answer. States are few and links many: a link in the base or a tier
is its key and two codes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from fastassoc.errors import InvalidInput
from fastassoc.kernels import links as kernels
from fastassoc.kernels import staged
from fastassoc.linkpairs import Pairs, Taught, effective
from fastassoc.linkruns import LINKS_SCHEMA, Link, LinkColumns, Run, empty_run, link_of
from fastassoc.linkview import Expansion, Hop, LinkView, Rows, Side
from fastassoc.packed import Packed, States, one, states_apart

if TYPE_CHECKING:
    from fastassoc.settings import LinkRule

__all__ = [
    "LINKS_SCHEMA",
    "NOTHING",
    "Changed",
    "Expansion",
    "Hop",
    "Link",
    "LinkColumns",
    "LinkMatrix",
    "LinkView",
    "Pairs",
    "effective",
    "keys_of",
]

FIRST = 1024  # entries that the table begins with
UNSIDED = 64  # runs that wait for the next view, at most
RADIX = 512  # keys from which a radix sort gives their order quicker than NumPy's
GROWN = (1 << 63) - (1 << 32)  # of a count, to which more is added
_NONE = np.empty(0, np.float64)


class Changed(NamedTuple):
    """What a call did: links created, links changed (new ones excluded), links removed."""

    created: int
    changed: int
    removed: int


NOTHING = Changed(0, 0, 0)


@dataclass(frozen=True)
class Sizes:
    """When work moves from one level to the next; no answer depends on them."""

    bulk: int = 2_048  # changes in one call from which they become a tier
    table: int = 65_536  # entries of the table from which they become a run
    staged: int = 1 << 20  # entries of all tiers, unless half of the base is more
    delta: int = 4_096  # entries of the delta, unless the share of the base is more
    share: int = 256
    head: int = 64  # the strongest links of a row that are kept apart, for reads with a cap


def keys_of(a: ArrayLike, b: ArrayLike) -> NDArray[np.uint64]:
    """Keys of pairs, whichever order each is given in.

    Parameters
    ----------
    a, b : uint32[m]
        The two ids of each pair, not equal.

    Returns
    -------
    uint64[m]
        ``min << 32 | max``.

    Raises
    ------
    InvalidInput
        A pair joins an id with itself.

    Examples
    --------
    >>> keys_of([2], [1]) == (1 << 32 | 2)
    array([ True])
    """
    first, second = np.asarray(a, np.uint64), np.asarray(b, np.uint64)
    if np.any(first == second):
        raise InvalidInput("a link needs two different ids; found a pair of equal ones.")
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.atleast_1d(low << np.uint64(32) | high)


def _own(values: ArrayLike, dtype: Any) -> NDArray[Any]:
    """Contiguous and writeable, so that kernels are compiled for one kind of array only."""
    array = np.ascontiguousarray(values, dtype)
    return array if array.flags.writeable else array.copy()


def _allocate(n: int) -> Run:
    return Run(np.empty(n, np.uint64), np.empty((n, 3), np.float64), np.empty((n, 3), np.int64))


def _sorted(keys: Any, amounts: Any, outcomes: Any) -> tuple[Any, Any, Any]:
    """Changes by key, those of one key in their order; amounts and outcomes may be empty."""
    m = len(keys)
    if _uniform(amounts) and _uniform(outcomes):
        return np.sort(keys), amounts, outcomes
    if m < RADIX:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
    else:
        spare, places = np.empty((2, m), np.uint64), np.empty((2, m), np.int64)
        keys, order = kernels.sort_keys(keys, spare[0], spare[1], places[0], places[1])
    amounts = amounts[order] if amounts.size else amounts
    outcomes = outcomes[order] if outcomes.size else outcomes
    return keys, amounts, outcomes


def _uniform(values: NDArray[np.float64]) -> bool:
    """Whether all values are the same, so that no order changes them."""
    bits = values.view(np.uint64)
    return not len(bits) or bool(bits[0] == bits[-1] and (bits == bits[0]).all())


def _merged(new: Run, old: Run) -> Run:
    """Two runs into one."""
    if not len(old.keys):
        return new
    if not len(new.keys):
        return old
    out = _allocate(len(new.keys) + len(old.keys))
    return out.first(kernels.merge(*new, *old, False, *out))


class LinkMatrix:
    """The links of one layer: weights with their written part, counts, valences and times.

    One thread writes; `view` gives readers something that never changes. Keys are uint64,
    ``a << 32 | b`` with a < b (`keys_of`, `kernels.links.pair_keys`). Changes to a pair apply in
    the given order, each with its fading and clamp; the same operations give the same bits
    however they are staged and whenever views are published.

    Parameters
    ----------
    rule : LinkRule
        Steps, bounds, decay and default threshold.
    valence_rate : float
        Share of the way that an outcome moves a valence.

    Examples
    --------
    >>> from fastassoc.settings import LinkRule
    >>> links = LinkMatrix(LinkRule(), 0.3)
    >>> links.write(keys_of([1, 1, 2], [2, 2, 3]), at=5)
    Changed(created=2, changed=0, removed=0)
    >>> links.get(2, 1).weight
    2.0
    >>> found = links.view().expand([1])
    >>> found.ids.tolist(), found.strengths.tolist()
    ([2], [2.0])
    """

    def __init__(self, rule: LinkRule, valence_rate: float, *, _sizes: Sizes | None = None) -> None:
        low, high = rule.bounds
        rest = low if low > -math.inf else 0.0
        self._tau = float(rule.decay_us)
        self._rule = np.array([rule.write_step, low, high, rest, self._tau, valence_rate, math.nan])
        self._lesson = self._rule.copy()  # with the step and the outcome of what is taught
        self._threshold = float(rule.threshold)
        self._sizes = _sizes or Sizes()
        self._states = States.empty()
        self._base = Packed.empty()
        self._tiers: list[Packed] = []  # the newest last, each less than half of the one before
        self._delta = empty_run()
        self._n = 0
        self._rows: Rows | None = None
        self._side = Side.empty()
        self._unsided: list[Run] = []  # runs in the delta that the side does not show yet
        self._view: LinkView | None = None
        self._taught = Taught(self._base)
        self._used = 0  # entries of the table
        self._new_table(FIRST)

    # ---- changes

    def write(self, keys: ArrayLike, at: int, steps: ArrayLike | None = None) -> Changed:
        """Add a step to weight and written of each pair, and 1 to its count.

        Parameters
        ----------
        keys : uint64[m]
            Pairs, in any order; duplicates are steps in turn.
        at : int
            Time of the operation, microseconds UTC.
        steps : float64[m], optional
            What each adds; without it, the rule's write step.
        """
        return self._apply(kernels.WRITE, keys, steps, None, at)

    def unwrite(self, keys: ArrayLike, at: int, steps: ArrayLike | None = None) -> Changed:
        """Take a note's share back: the inverse of `write`; what was taught stays.

        A pair without a link, or with a count of 0, is left as it is.

        Parameters
        ----------
        keys : uint64[m]
            Pairs, in any order.
        at : int
            Time of the operation, microseconds UTC.
        steps : float64[m], optional
            The share of each, as it stands at `at`; without it, the rule's write step.
        """
        return self._apply(kernels.UNWRITE, keys, steps, None, at)

    def teach(self, keys: ArrayLike, amounts: ArrayLike, outcomes: ArrayLike, at: int) -> Changed:
        """Add amounts to weights, and move valences towards outcomes.

        With a floor of 0 a pair without a link gets none from an amount <= 0.

        Parameters
        ----------
        keys : uint64[m]
            Pairs, in any order; duplicates apply in turn.
        amounts : float64[m]
            What each weight gains.
        outcomes : float64[m]
            In [-1, 1]; NaN leaves the valence.
        at : int
            Time of the operation, microseconds UTC.
        """
        return self._apply(kernels.TEACH, keys, amounts, outcomes, at)

    def teach_between(
        self,
        some: Sequence[int],
        others: Sequence[int],
        amount: float,
        outcome: float,
        at: int,
        *,
        create: bool = True,
    ) -> Changed:
        """Teach each pair of an id of `some` and one of `others` once.

        Parameters
        ----------
        some, others : sequence of int
            Ids, repeats allowed; none is paired with itself.
        amount, outcome, at
            As for `teach`.
        create : bool
            Whether pairs without a link get one.

        Examples
        --------
        >>> from fastassoc.settings import LinkRule
        >>> links = LinkMatrix(LinkRule(), 0.3)
        >>> links.teach_between([1, 2], [2, 3], 1.0, 1.0, at=5)
        Changed(created=3, changed=0, removed=0)
        """
        m = len(some) * len(others)
        if not m:
            return NOTHING
        ids = np.array([*some, *others], np.uint32)
        kind = kernels.TEACH if create else kernels.MOVE
        rule = self._taught_by(amount, outcome)
        if m >= self._sizes.bulk:
            keys = kernels.keys_between(ids[: len(some)], ids[len(some) :])
            return self._fold(kind, keys, _NONE, _NONE, at, rule)
        self._reserve(m)
        return self._touched(
            staged.touch_between(
                kind,
                ids,
                len(some),
                at,
                rule,
                self._slots,
                *self._table,
                self._used,
                *self._delta,
                *self._base,
            )
        )

    def unlink(self, keys: ArrayLike, at: int) -> Changed:
        """Set weights to the floor (0 without one); counts and written parts stay.

        Parameters
        ----------
        keys : uint64[m]
            Pairs, in any order; those without a link are left.
        at : int
            Time of the operation, microseconds UTC.
        """
        return self._apply(kernels.UNLINK, keys, None, None, at)

    def erase(self, keys: ArrayLike) -> Changed:
        """Remove links, whatever their count, written part or weight.

        Parameters
        ----------
        keys : uint64[m]
            Pairs, in any order; those without a link are left.

        Examples
        --------
        >>> from fastassoc.settings import LinkRule
        >>> links = LinkMatrix(LinkRule(), 0.3)
        >>> _ = links.write(keys_of([1, 1, 2], [2, 2, 3]), at=5)
        >>> links.erase(links.of(1))
        Changed(created=0, changed=0, removed=1)
        >>> links.get(1, 2) is None, len(links)
        (True, 1)
        """
        return self._apply(kernels.ERASE, keys, None, None, 0)

    def _apply(self, kind: int, keys: Any, amounts: Any, outcomes: Any, at: int) -> Changed:
        keys = _own(keys, np.uint64)
        amounts = _NONE if amounts is None else _own(amounts, np.float64)
        outcomes = _NONE if outcomes is None else _own(outcomes, np.float64)
        m, rule = len(keys), self._rule
        bulk = m >= self._sizes.bulk
        if kind == kernels.TEACH and bulk and _uniform(amounts) and _uniform(outcomes):
            rule = self._taught_by(amounts[0], outcomes[0])
            amounts = outcomes = _NONE
        if m > staged.SMALL or bulk:
            keys, amounts, outcomes = _sorted(keys, amounts, outcomes)
        elif not m:
            return NOTHING
        if bulk:
            return self._fold(kind, keys, amounts, outcomes, at, rule)
        self._reserve(m)
        return self._touched(
            staged.touch(
                kind,
                keys,
                amounts,
                outcomes,
                at,
                self._rule,
                self._slots,
                *self._table,
                self._used,
                *self._delta,
                *self._base,
            )
        )

    def _taught_by(self, amount: float, outcome: float) -> NDArray[np.float64]:
        """The rule of changes that all add the same and all tell the same."""
        self._lesson[kernels.STEP], self._lesson[kernels.OUTCOME] = amount, outcome
        return self._lesson

    def _reserve(self, m: int) -> None:
        """Let the table be the newest level, with room for so many more."""
        if self._tiers:
            self._collapse()
        if self._used + m > len(self._table.keys):
            self._grow_table(m)

    def _touched(self, found: tuple[int, int, int, int]) -> Changed:
        """Take note of what a kernel made of the table."""
        self._used, created, changed, removed = found
        self._n += created - removed
        if self._used > self._sizes.table:
            self._collapse()
        return Changed(created, changed, removed)

    def _fold(
        self, kind: int, keys: Any, amounts: Any, outcomes: Any, at: int, rule: Any
    ) -> Changed:
        """A large batch of sorted changes: what is known of its pairs, changed, is a new tier."""
        states = self._states
        if self._used:
            run = self._table_run()
            self._tiers.append(states.packed(run.keys, states.codes_of(run)))
        room = int(kernels.distinct(keys))
        starts = np.empty(room + 1, np.int64)
        pairs, codes = np.empty(room, np.uint64), np.empty((room, 2), np.uint32)
        staged.spread(keys, starts, pairs, one(codes))
        for tier in reversed(self._tiers):
            staged.resolve(pairs, one(codes), tier.keys, one(tier.codes))
        if len(self._delta.keys):
            known = states.codes_of(self._delta)
            staged.resolve(pairs, one(codes), self._delta.keys, one(known))
        staged.resolve(pairs, one(codes), self._base.keys, one(self._base.codes))
        marks = np.zeros(staged.TALLY + 4, np.int64)
        while marks[staged.PLACE] < room:
            states.reserve(1)
            reals, ints = states.reals, states.ints
            marks[: staged.PLACE] = reals.used, ints.used
            staged.fold(
                kind,
                amounts,
                outcomes,
                at,
                rule,
                starts,
                one(codes),
                reals.bits,
                reals.slots,
                ints.bits,
                ints.slots,
                marks,
            )
            reals.used, ints.used = marks[: staged.PLACE].tolist()
        created, changed, removed = marks[staged.TALLY + 1 :].tolist()
        self._n += created - removed
        self._add_tier(states.packed(pairs, codes))
        return Changed(created, changed, removed)

    # ---- levels

    def _new_table(self, room: int) -> None:
        self._table = _allocate(room)
        self._slots = np.zeros(2 * room, np.int64)
        self._used = 0

    def _grow_table(self, more: int) -> None:
        room = len(self._table.keys)
        while room < self._used + more:
            room *= 2
        old, used = self._table, self._used
        self._new_table(room)
        for new, kept in zip(self._table, old, strict=True):
            new[:used] = kept[:used]
        self._used = used
        staged.rehash(self._table.keys, used, self._slots)

    def _table_run(self) -> Run:
        """The table as a sorted run; the table is empty afterwards."""
        order = np.argsort(self._table.keys[: self._used])
        keys, reals, ints = self._table
        run = Run(keys[order], reals[order], ints[order])
        if len(self._slots) > 2 * FIRST:
            self._new_table(FIRST)
        else:
            self._slots.fill(0)
            self._used = 0
        return run

    def _add_tier(self, tier: Packed) -> None:
        """Take a run as the newest tier, in one with those that it makes no longer large."""
        tiers = self._tiers
        while tiers and len(tiers[-1].keys) < 2 * len(tier.keys):
            tier = self._states.merged(tier.keys, tier.codes, tiers.pop(), drop=False)
        tiers.append(tier)
        if sum(len(one.keys) for one in tiers) > max(self._sizes.staged, len(self._base.keys) // 2):
            self._collapse()

    def _collapse(self) -> None:
        """Everything that is staged into the delta, or the base."""
        states = self._states
        if self._used:  # no tier is left then
            self._absorb(self._table_run())
        if self._tiers:
            tier = self._tiers.pop()
            while self._tiers:
                tier = states.merged(tier.keys, tier.codes, self._tiers.pop(), drop=False)
            if len(tier.keys) <= self._limit:
                self._absorb(tier.run())
                return
            base = self._base
            if len(self._delta.keys):
                base = states.merged(self._delta.keys, states.codes_of(self._delta), base)
            self._rebase(states.merged(tier.keys, tier.codes, base))

    @property
    def _limit(self) -> int:
        """The most entries of the delta."""
        return max(self._sizes.delta, len(self._base.keys) // self._sizes.share)

    def _absorb(self, run: Run) -> None:
        """Lay a run over the delta; fold the delta into the base when it is large."""
        delta = _merged(run, self._delta)
        self._view = None
        if len(delta.keys) > self._limit:
            codes = self._states.codes_of(delta)
            self._rebase(self._states.merged(delta.keys, codes, self._base))
            return
        self._delta = delta
        # the delta holds all that the side lacks, and what it has already
        self._unsided = [*self._unsided, run] if len(self._unsided) < UNSIDED else [delta]

    def _rebase(self, base: Packed) -> None:
        """Take a base that holds all there is."""
        self._states, self._base = self._states.tidied(base)
        self._delta = empty_run()
        self._rows = None
        self._side = Side.empty()
        self._unsided = []
        self._view = None

    # ---- reads

    def view(self, threshold: float | None = None) -> LinkView:
        """Publish what is pending; the view never changes, whatever is written later.

        Parameters
        ----------
        threshold : float, optional
            What reads will mostly ask for (they may ask for any); by default the rule's.
        """
        cut = self._threshold if threshold is None else float(threshold)
        view = self._view
        if view is not None and not self._used and not self._tiers and view.threshold == cut:
            return view
        self._collapse()
        if self._rows is None or self._rows.threshold != cut:
            self._rows = Rows.of(self._base, cut, self._tau < math.inf, self._sizes.head)
        for run in self._unsided:
            self._side = self._side.overlaid(run)
        self._unsided = []
        if self._taught.base is not self._base:
            self._taught = Taught(self._base)
        self._view = LinkView(
            self._base, self._delta, self._rows, self._side, self._tau, self._n, self._taught
        )
        return self._view

    def pairs(self) -> Pairs:
        """Publish what is pending for looks by pair alone, at no cost in the ids' range.

        Examples
        --------
        >>> from fastassoc.settings import LinkRule
        >>> links = LinkMatrix(LinkRule(), 0.3)
        >>> _ = links.write(keys_of([1, 3], [2, 1 << 31]), at=5)
        >>> links.pairs().fans(np.array([3], np.uint64)).keys.astype(np.uint32)
        array([2147483648], dtype=uint32)
        """
        self._collapse()
        return Pairs(self._base, self._delta, self._tau, self._n)

    def get(self, a: int, b: int) -> Link | None:
        """The link between two ids as it stands now, or None."""
        if a == b:
            return None
        key = np.uint64(min(a, b) << 32 | max(a, b))
        if self._tiers:
            self._collapse()
        level, place = staged.find_link(
            key, self._slots, self._table.keys, self._delta.keys, self._base.keys
        )
        return link_of((self._table, self._delta, self._base)[level], place) if level >= 0 else None

    def of(self, concept: int) -> NDArray[np.uint64]:
        """Keys of all links of an id as they stand now, uint64[m], ascending.

        Parameters
        ----------
        concept : int
            Its id; an unknown one has none.

        Examples
        --------
        >>> from fastassoc.settings import LinkRule
        >>> links = LinkMatrix(LinkRule(), 0.3)
        >>> _ = links.write(keys_of([1, 3], [2, 2]), at=5)
        >>> [(key >> 32, key & 0xFFFFFFFF) for key in links.of(2).tolist()]
        [(1, 2), (2, 3)]
        """
        others = self.view().neighbours(concept)[0].astype(np.uint64)
        own = np.uint64(concept)
        return np.minimum(others, own) << np.uint64(32) | np.maximum(others, own)

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: levels, table, and the rows of the last view."""
        levels = (self._base, self._delta, self._table, *self._tiers, *self._unsided)
        total = self._slots.nbytes + sum(array.nbytes for level in levels for array in level)
        rows = () if self._rows is None else self._rows[1:]
        return int(total + sum(array.nbytes for array in (*rows, *self._side)))

    # ---- Arrow

    def to_arrow(self) -> pa.Table:
        """Every link, sorted by (a, b), with the columns of `LINKS_SCHEMA`."""
        return self._whole().columns().to_arrow()

    def captured(self) -> pa.Table:
        """The same for a file, in a third of the memory: see `Packed.to_arrow`."""
        return self._whole().to_arrow()

    def _whole(self) -> Packed:
        self._collapse()
        return self._base.overlaid(self._delta)

    @classmethod
    def from_arrow(
        cls,
        table: pa.Table,
        rule: LinkRule,
        valence_rate: float,
        *,
        _sizes: Sizes | None = None,
    ) -> LinkMatrix:
        """The matrix that `to_arrow` gave, bit for bit.

        Raises
        ------
        InvalidInput
            Columns, order or values are not those of `to_arrow`.
        """
        links = cls(rule, valence_rate, _sizes=_sizes)
        links._base = _packed(table, links._states)
        links._n = table.num_rows
        return links


def _packed(table: pa.Table, states: States) -> Packed:
    """Links from a table, checked."""
    table = states_apart(table)
    found = [
        kind.value_type if pa.types.is_dictionary(kind) else kind for kind in table.schema.types
    ]
    if table.schema.names != LINKS_SCHEMA.names or found != LINKS_SCHEMA.types:
        raise InvalidInput(
            f"found columns {table.schema.to_string()}, expected {LINKS_SCHEMA.to_string()}."
        )
    if any(column.null_count for column in table.columns):
        raise InvalidInput("a table of links must not hold nulls.")
    packed = states.coded(table)
    keys = packed.keys
    a, b = keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)
    if np.any(a >= b) or np.any(keys[1:] <= keys[:-1]):
        raise InvalidInput("links must be sorted by (a, b), each once, with a < b.")
    counts = packed.int_rows[:, 0]
    if np.any((counts < 0) | (counts > GROWN)) or not np.isfinite(packed.real_rows).all():
        raise InvalidInput("links must have counts from 0 and finite weights.")
    return packed
