"""Kernels of the links: how one link changes, runs of sorted links, and walks along them.

A *run* is three arrays: ``keys`` uint64[n] (``a << 32 | b``, ascending, distinct), ``reals``
float64[n, 3] (weight, written, valence) and ``ints`` int64[n, 3] (count, created_at, updated_at).
A count of `GONE` marks a tombstone: an older run holds the link, but it is no more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastassoc.kernels import inline, jit, prefetch
from fastassoc.kernels.heap import best_first, sink, worse

WRITE, UNWRITE, TEACH, UNLINK, ERASE = 0, 1, 2, 3, 4
MOVE = 5  # teaches only what is linked
GONE = -1
# places in a rule, float64[7]; step and outcome are of changes that come with none of their own
STEP, LOW, HIGH, REST, TAU, RATE, OUTCOME = 0, 1, 2, 3, 4, 5, 6
BLOCK = 16
AHEAD = 4  # sources whose memory is asked for before they are taken
DIGIT = 9  # bits of a pass of the radix sort: its counters stay in the nearest cache
SMALL = 64  # up to this many, insertion sort beats anything

_HALF = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)  # a lone bit times this has the bit's number on top
_BIT = np.zeros(64, np.int64)
for _i in range(64):
    _BIT[((0x03F79D71B4CB0A89 << _i) & 0xFFFFFFFFFFFFFFFF) >> 58] = _i

Array = Any  # any NumPy array; shapes and dtypes are in the docstrings


# ---- one link -----------------------------------------------------------------------------------


@inline
def effective(weight: float, updated: int, now: int, tau: float) -> float:
    """Weight at `now`: faded since `updated` if the layer decays, else as stored."""
    if tau == math.inf or now <= updated:
        return weight
    return weight * math.exp(-float(now - updated) / tau)


@inline
def change(
    kind: int,
    times: int,
    amount: float,
    outcome: float,
    at: int,
    rule: Array,
    weight: float,
    written: float,
    count: int,
    valence: float,
    created: int,
    updated: int,
) -> tuple[float, float, int, float, int, int]:
    """One change of one link: fade, add, clamp, stamp. The one place that says how."""
    if count < 0:
        if kind not in (WRITE, TEACH):
            return weight, written, count, valence, created, updated
        weight, written, count, valence, created, updated = 0.0, 0.0, 0, 0.0, at, at
    elif kind == ERASE:
        return 0.0, 0.0, GONE, 0.0, 0, 0
    elif kind == UNWRITE and count == 0:
        return weight, written, count, valence, created, updated
    elif at > updated:
        if rule[TAU] < math.inf:
            fade = math.exp(-float(at - updated) / rule[TAU])
            weight *= fade
            written *= fade
        updated = at
    if kind == WRITE:
        weight += times * amount
        written += times * amount
        count += times
    elif kind == UNWRITE:
        count -= 1
        if count == 0:
            amount = written  # the last share is all that is left, to the last bit
        weight -= amount
        written -= amount
    elif kind in (TEACH, MOVE):
        weight += amount
        if not math.isnan(outcome):  # NaN leaves the valence
            valence += rule[RATE] * (outcome - valence)
            if valence > 1.0:
                valence = 1.0
            elif valence < -1.0:
                valence = -1.0
    else:
        weight = rule[REST]
    if weight < rule[LOW]:
        weight = rule[LOW]
    elif weight > rule[HIGH]:
        weight = rule[HIGH]
    if count == 0 and weight == rule[REST]:
        return 0.0, 0.0, GONE, 0.0, 0, 0
    return weight, written, count, valence, created, updated


@inline
def change_run(
    kind: int,
    amounts: Array,
    outcomes: Array,
    first: int,
    last: int,
    at: int,
    rule: Array,
    weight: float,
    written: float,
    count: int,
    valence: float,
    created: int,
    updated: int,
) -> tuple[float, float, int, float, int, int]:
    """The changes from `first` to `last`, which are of one pair, in order."""
    if kind == WRITE and amounts.size == 0 and rule[TAU] == math.inf:
        # equal positive steps on the 2^-20 grid: the sum is exact and one clamp is as good as many
        return change(
            kind,
            last - first,
            rule[STEP],
            math.nan,
            at,
            rule,
            weight,
            written,
            count,
            valence,
            created,
            updated,
        )
    for i in range(first, last):
        amount = amounts[i] if amounts.size else rule[STEP]
        outcome = outcomes[i] if outcomes.size else rule[OUTCOME]
        weight, written, count, valence, created, updated = change(
            kind,
            1,
            amount,
            outcome,
            at,
            rule,
            weight,
            written,
            count,
            valence,
            created,
            updated,
        )
    return weight, written, count, valence, created, updated


# ---- finding ------------------------------------------------------------------------------------


@inline
def seek(keys: Array, low: int, high: int, key: np.uint64) -> int:
    """First place in ``keys[low:high]`` that is not below `key`; quick when it is near `low`."""
    step = BLOCK
    while low + step <= high and keys[low + step - 1] < key:
        low += step
        step += step >> 1
    high = min(high, low + step)
    while high - low > BLOCK:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    while low < high and keys[low] < key:
        low += 1
    return low


@inline
def find(keys: Array, low: int, high: int, key: np.uint64) -> int:
    """Place of `key` in ``keys[low:high]``, or -1."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < keys.size and keys[low] == key else -1


def _locate(keys: Array, run: Array, out: Array) -> None:
    """Place in `run` of each of `keys` (uint64[m], any order), or -1, into `out` int64[m]."""
    for i in range(keys.size):
        out[i] = find(run, 0, run.size, keys[i])


locate = jit(_locate)


def _effective_all(weights: Array, updated: Array, now: int, tau: float) -> None:
    """Turn stored weights (float64[n]) into effective ones in place; `updated` int64[n]."""
    for i in range(weights.size):
        weights[i] = effective(weights[i], updated[i], now, tau)


effective_all = jit(_effective_all)


# ---- runs ---------------------------------------------------------------------------------------


def _distinct(keys: Array) -> int:
    """How many distinct values sorted `keys` hold."""
    n = 0
    for i in range(keys.size):
        if i == 0 or keys[i] != keys[i - 1]:
            n += 1
    return n


distinct = jit(_distinct)


def _sort_keys(
    keys: Array, low: Array, high: Array, order: Array, other: Array
) -> tuple[Array, Array]:
    """Radix sort of `keys` (uint64[n], left as they are) through two buffers of the same kind.

    `order` and `other` int64[n], or empty: to return where each key was. Stable.
    """
    used = np.uint64(0)
    for i in range(keys.size):
        used |= keys[i]
    low_bits, bits = 0, 0
    while (used & _MASK) >> np.uint64(low_bits):
        low_bits += 1
    while (used >> _HALF) >> np.uint64(bits):
        bits += 1
    bits += low_bits
    passes = max(1, (bits + DIGIT - 1) // DIGIT)
    width = (bits + passes - 1) // passes
    counts = np.empty(1 << width, np.int64)
    mask = np.uint64((1 << width) - 1)
    source, target = keys, low
    carry = order.size > 0
    for turn in range(passes):
        shift = np.uint64(turn * width)
        counts[:] = 0
        for i in range(keys.size):
            # the unused bits of both halves are left out
            packed = ((source[i] >> _HALF) << np.uint64(low_bits)) | (source[i] & _MASK)
            counts[(packed >> shift) & mask] += 1
        total = 0
        for digit in range(counts.size):
            total, counts[digit] = total + counts[digit], total
        for i in range(keys.size):
            packed = ((source[i] >> _HALF) << np.uint64(low_bits)) | (source[i] & _MASK)
            digit = (packed >> shift) & mask
            place = counts[digit]
            counts[digit] = place + 1
            target[place] = source[i]
            if carry:
                other[place] = order[i] if turn else i
        order, other = other, order
        source, target = target, (high if turn % 2 == 0 else low)
    return source, order


sort_keys = jit(_sort_keys)


def _merge(
    new_keys: Array,
    new_reals: Array,
    new_ints: Array,
    old_keys: Array,
    old_reals: Array,
    old_ints: Array,
    drop: bool,
    out_keys: Array,
    out_reals: Array,
    out_ints: Array,
) -> int:
    """Two runs into one, the newer state of a pair wins; `drop` leaves tombstones out."""
    used = 0
    old = 0
    for i in range(new_keys.size + 1):
        last = i == new_keys.size
        stop = old_keys.size if last else seek(old_keys, old, old_keys.size, new_keys[i])
        for j in range(old, stop):
            if drop and old_ints[j, 0] < 0:
                continue
            out_keys[used] = old_keys[j]
            for c in range(3):
                out_reals[used, c] = old_reals[j, c]
                out_ints[used, c] = old_ints[j, c]
            used += 1
        old = stop
        if last:
            break
        if old < old_keys.size and old_keys[old] == new_keys[i]:
            old += 1
        if drop and new_ints[i, 0] < 0:
            continue
        out_keys[used] = new_keys[i]
        for c in range(3):
            out_reals[used, c] = new_reals[i, c]
            out_ints[used, c] = new_ints[i, c]
        used += 1
    return used


merge = jit(_merge)


# ---- the read view ------------------------------------------------------------------------------


def _count_rows(
    keys: Array, codes: Array, reals: Array, threshold: float, strong: Array, all_: Array
) -> None:
    """Links of each concept, into `all_` int64[ids]; those at the threshold, into `strong`.

    `codes` and `reals` are those of a packed run, see `kernels.packed`.
    """
    for i in range(keys.size):
        a, b = np.int64(keys[i] >> _HALF), np.int64(keys[i] & _MASK)
        all_[a] += 1
        all_[b] += 1
        if reals[codes[i, 0], 0] >= threshold:
            strong[a] += 1
            strong[b] += 1


count_rows = jit(_count_rows)


def _fill_rows(
    keys: Array,
    codes: Array,
    reals: Array,
    ints: Array,
    threshold: float,
    strong_at: Array,
    weak_at: Array,
    cols: Array,
    weights: Array,
    stamps: Array,
) -> None:
    """Both directions of each link of a packed run into a CSR; its rows hold strong links first.

    `strong_at`, `weak_at` int64[ids]: where each row's parts begin (consumed). Keys ascend, so
    each part comes out sorted by column. `stamps` int64[2 n], or empty without decay.
    """
    for i in range(keys.size):
        a, b = np.int64(keys[i] >> _HALF), np.int64(keys[i] & _MASK)
        weight = reals[codes[i, 0], 0]
        place = strong_at if weight >= threshold else weak_at
        j, k = place[a], place[b]
        place[a] = j + 1
        place[b] = k + 1
        cols[j] = b
        cols[k] = a
        weights[j] = weight
        weights[k] = weight
        if stamps.size:
            stamps[j] = ints[codes[i, 1], 2]
            stamps[k] = ints[codes[i, 1], 2]


fill_rows = jit(_fill_rows)


def _merge_sides(
    new_keys: Array,
    new_weights: Array,
    new_stamps: Array,
    old_keys: Array,
    old_weights: Array,
    old_stamps: Array,
    out_keys: Array,
    out_weights: Array,
    out_stamps: Array,
) -> int:
    """Two sorted lists of directed links into one; the newer wins."""
    used = 0
    old = 0
    for i in range(new_keys.size + 1):
        last = i == new_keys.size
        stop = old_keys.size if last else seek(old_keys, old, old_keys.size, new_keys[i])
        for j in range(old, stop):
            out_keys[used] = old_keys[j]
            out_weights[used] = old_weights[j]
            out_stamps[used] = old_stamps[j]
            used += 1
        old = stop
        if last:
            break
        if old < old_keys.size and old_keys[old] == new_keys[i]:
            old += 1
        out_keys[used] = new_keys[i]
        out_weights[used] = new_weights[i]
        out_stamps[used] = new_stamps[i]
        used += 1
    return used


merge_sides = jit(_merge_sides)


@inline
def row_links(
    row: int,
    threshold: float,
    both: bool,
    now: int,
    tau: float,
    indptr: Array,
    middle: Array,
    cols: Array,
    weights: Array,
    stamps: Array,
    side_keys: Array,
    side_weights: Array,
    side_stamps: Array,
    out_ids: Array,
    out_weights: Array,
) -> int:
    """Links of `row` whose effective weight reaches the threshold; up to three sorted parts.

    A directed link in the side list overrides the CSR's; a tombstone there weighs NaN.
    """
    used = 0
    first = find_row(side_keys, row)
    last = first
    while last < side_keys.size and np.int64(side_keys[last] >> _HALF) == row:
        last += 1
    if row < middle.size:
        for part in range(2 if both else 1):
            begin = middle[row] if part else indptr[row]
            end = indptr[row + 1] if part else middle[row]
            side = first
            for i in range(begin, end):
                col = np.uint64(cols[i])
                while side < last and (side_keys[side] & _MASK) < col:
                    side += 1
                if side < last and (side_keys[side] & _MASK) == col:
                    continue
                weight = weights[i]
                if stamps.size:
                    weight = effective(weight, stamps[i], now, tau)
                if weight >= threshold:
                    out_ids[used] = cols[i]
                    out_weights[used] = weight
                    used += 1
    for i in range(first, last):
        weight = effective(side_weights[i], side_stamps[i], now, tau)
        if weight >= threshold:
            out_ids[used] = np.uint32(side_keys[i] & _MASK)
            out_weights[used] = weight
            used += 1
    return used


@inline
def find_row(side_keys: Array, row: int) -> int:
    """Where the directed links from `row` begin."""
    key = np.uint64(row) << _HALF
    low, high = 0, side_keys.size
    while low < high:
        middle = (low + high) >> 1
        if side_keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


def _neighbours(
    row: int,
    threshold: float,
    both: bool,
    now: int,
    tau: float,
    indptr: Array,
    middle: Array,
    cols: Array,
    weights: Array,
    stamps: Array,
    side_keys: Array,
    side_weights: Array,
    side_stamps: Array,
    out_ids: Array,
    out_weights: Array,
) -> int:
    """`row_links` for one row into scratch as long as there are ids; returns how many."""
    return row_links(
        row,
        threshold,
        both,
        now,
        tau,
        indptr,
        middle,
        cols,
        weights,
        stamps,
        side_keys,
        side_weights,
        side_stamps,
        out_ids,
        out_weights,
    )


neighbours = jit(_neighbours)


@inline
def strongest(ids: Array, weights: Array, size: int, limit: int) -> int:
    """Keep the `limit` strongest of `size` links at the front, in no order; returns how many."""
    if size <= limit:
        return size
    for at in range(limit // 2 - 1, -1, -1):
        sink(weights, ids, at, limit)
    for i in range(limit, size):
        if worse(weights[0], ids[0], weights[i], ids[i]):
            ids[0], weights[0] = ids[i], weights[i]
            sink(weights, ids, 0, limit)
    return limit


@inline
def ascends(ids: Array, size: int) -> bool:
    """Whether each id is larger than the one before, as those of a row's strong links are."""
    at = 1
    while at < size and ids[at - 1] < ids[at]:
        at += 1
    return at >= size


@inline
def ascending(touched: Array, size: int, words: Array) -> None:
    """Sort distinct ids in place: by comparing, or through a bitmap (left zero)."""
    if ascends(touched, size):
        return
    if size <= SMALL or size * 8 < words.size:
        gap = 1
        while gap * 9 < size * 4:
            gap = gap * 9 // 4 + 1
        while gap > 0:  # Shell's sort: little code, so little to compile
            for i in range(gap, size):
                value = touched[i]
                j = i
                while j >= gap and touched[j - gap] > value:
                    touched[j] = touched[j - gap]
                    j -= gap
                touched[j] = value
            gap = gap * 4 // 9
        return
    one = np.uint64(1)
    for i in range(size):
        words[touched[i] >> 6] |= one << np.uint64(touched[i] & 63)
    used = 0
    for word in range(words.size):
        bits = words[word]
        if bits:
            words[word] = 0
            while bits:
                lowest = bits & (~bits + one)
                touched[used] = word * 64 + _BIT[(lowest * _DE_BRUIJN) >> np.uint64(58)]
                used += 1
                bits ^= lowest


@inline
def is_enough(head_ids: Array, head: int, fanout: int, n_asked: int, best: Array) -> bool:
    """Whether a head holds `fanout` links to ids that are not asked (`best` infinite)."""
    size = head_ids.shape[1]
    if fanout + n_asked <= size:
        return True
    others = 0
    for i in range(size):
        others += best[head_ids[head, i]] != math.inf
    return others >= fanout


@inline
def head_links(
    row: int,
    threshold: float,
    fanout: int,
    best: Array,
    first: int,
    side_keys: Array,
    side_weights: Array,
    head_ids: Array,
    head_weights: Array,
    out_ids: Array,
    out_weights: Array,
) -> int:
    """The `fanout` strongest links of a row from its head alone, or -1 if that is not enough.

    Links to asked ids (`best` infinite) are left out, and so are those that the side, in which the
    row begins at `first`, overrides.
    """
    size = head_ids.size
    last = first
    while last < side_keys.size and np.int64(side_keys[last] >> _HALF) == row:
        last += 1
    if last - first > size:
        return -1
    passed, used = 0, 0
    for i in range(size):
        if passed == fanout:  # they come in order
            break
        col, weight = head_ids[i], head_weights[i]
        if best[col] == math.inf:
            continue
        if last > first:
            at = find(side_keys, first, last, (np.uint64(row) << _HALF) | np.uint64(col))
            if at >= 0:
                continue
        passed += 1
        if weight >= threshold:
            out_ids[used], out_weights[used] = col, weight
            used += 1
    if passed < fanout:
        return -1
    for i in range(first, last):
        col = np.int64(side_keys[i] & _MASK)
        if side_weights[i] >= threshold and best[col] != math.inf:
            out_ids[used], out_weights[used] = col, side_weights[i]
            used += 1
    return strongest(out_ids, out_weights, used, fanout)


def _fill_heads(
    rows: Array,
    indptr: Array,
    middle: Array,
    cols: Array,
    weights: Array,
    scratch_ids: Array,
    scratch_weights: Array,
    out_ids: Array,
    out_weights: Array,
) -> None:
    """The strongest links of each of `rows` (int64[h]), in order, into `out_ids`, `out_weights`.

    Each has more than `size` strong links; scratch is as long as the longest row.
    """
    for i in range(rows.size):
        begin = indptr[rows[i]]
        count = middle[rows[i]] - begin
        for j in range(count):
            scratch_ids[j], scratch_weights[j] = cols[begin + j], weights[begin + j]
        kept = strongest(scratch_ids, scratch_weights, count, out_ids.shape[1])
        best_first(scratch_weights, scratch_ids, kept)
        for j in range(kept):
            out_ids[i, j], out_weights[i, j] = scratch_ids[j], scratch_weights[j]


fill_heads = jit(_fill_heads)


def _expand(
    asked: Array,
    allowed: Array,
    threshold: float,
    both: bool,
    hops: int,
    factor: float,
    product: bool,
    fanout: int,
    now: int,
    tau: float,
    indptr: Array,
    middle: Array,
    cols: Array,
    weights: Array,
    stamps: Array,
    side_keys: Array,
    side_weights: Array,
    side_stamps: Array,
    heads: Array,
    head_ids: Array,
    head_weights: Array,
    scratch_reals: Array,
    scratch_ids: Array,
    words: Array,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Follow links from `asked` (uint32[q], ascending, distinct), level by level.

    `allowed` (uint8[ids], or empty for all) says which ids may be reached at all.
    Scratch: `scratch_reals` float64[2, ids], the first row -inf; `scratch_ids` uint32[3, ids];
    `words` uint64[ids / 64 + 1], zero; all left as found. `fanout` -1 follows every link.
    Returns ids and strengths, then for all hops, one after the other: ids, strengths within the
    hop, parents; and int64[hops + 1] pointers.
    """
    best, link_weights = scratch_reals[0], scratch_reals[1]
    touched, parent, link_ids = scratch_ids[0], scratch_ids[1], scratch_ids[2]
    ptr = np.zeros(hops + 1, np.int64)
    hop_ids, hop_raw = np.empty(0, np.uint32), np.empty(0, np.float64)
    hop_parents = np.empty(0, np.uint32)
    for i in range(asked.size):
        if asked[i] < best.size:
            best[asked[i]] = math.inf  # no path is stronger: asked concepts are never results
    for hop in range(hops):
        begin = ptr[hop - 1] if hop else 0
        sources = hop_ids[begin : ptr[hop]] if hop else asked
        size = 0
        for s in range(sources.size):
            far, near = s + 2 * AHEAD, s + AHEAD  # their memory lies anywhere: ask for it in time
            if far < sources.size and sources[far] < heads.size:
                prefetch(heads, sources[far], 1)
                prefetch(indptr, sources[far], 2)
            if near < sources.size and sources[near] < heads.size:
                head, row = heads[sources[near]], indptr[sources[near]]
                if head >= 0 and fanout >= 0:
                    prefetch(head_ids, head, min(fanout, head_ids.shape[1]))
                    prefetch(head_weights, head, min(fanout, head_ids.shape[1]))
                elif row < cols.size:
                    prefetch(cols, row, 1)
                    prefetch(weights, row, 1)
            source: Any = np.int64(sources[s])
            if source >= best.size:
                continue
            n, left = -1, best.size
            if fanout >= 0 and allowed.size == 0:
                head = heads[source] if source < heads.size else -1
                first = find_row(side_keys, source)
                if head < 0:
                    pass
                elif first < side_keys.size and np.int64(side_keys[first] >> _HALF) == source:
                    n = head_links(
                        source,
                        threshold,
                        fanout,
                        best,
                        first,
                        side_keys,
                        side_weights,
                        head_ids[head],
                        head_weights[head],
                        link_ids,
                        link_weights,
                    )
                elif is_enough(head_ids, head, fanout, asked.size, best):
                    n, left = head_ids.shape[1], fanout
                    for i in range(n):
                        link_ids[i], link_weights[i] = head_ids[head, i], head_weights[head, i]
            if n < 0:
                n = row_links(
                    source,
                    threshold,
                    both,
                    now,
                    tau,
                    indptr,
                    middle,
                    cols,
                    weights,
                    stamps,
                    side_keys,
                    side_weights,
                    side_stamps,
                    link_ids,
                    link_weights,
                )
                if fanout >= 0 or allowed.size:
                    kept = 0
                    for i in range(n):
                        col = link_ids[i]
                        barred = allowed.size > 0 and (col >= allowed.size or allowed[col] == 0)
                        if best[col] != math.inf and not barred:
                            link_ids[kept], link_weights[kept] = col, link_weights[i]
                            kept += 1
                    n = kept if fanout < 0 else strongest(link_ids, link_weights, kept, fanout)
            if hop == 0 and asked.size == 1 and fanout < 0 and ascends(link_ids, n):
                hop_ids, hop_raw = link_ids[:n].copy(), link_weights[:n].copy()
                hop_parents = np.full(n, source, np.uint32)
                ptr[1] = n
                break
            for i in range(n):
                col, raw = link_ids[i], link_weights[i]
                so_far = best[col]
                if so_far == math.inf:
                    continue
                if not left or raw < threshold:  # those of a head come in order
                    break
                left -= 1
                if hop:
                    before = hop_raw[begin + s]
                    raw = before * raw if product else min(before, raw)
                if raw > so_far:  # sources ascend, so the lowest parent keeps a tie
                    if so_far == -math.inf:
                        touched[size] = col
                        size += 1
                    best[col] = raw
                    parent[col] = source
        if ptr[hop + 1]:  # one row, as it stands
            continue
        ascending(touched, size, words)
        done = ptr[hop]
        ptr[hop + 1] = done + size
        more_ids, more_raw = np.empty(done + size, np.uint32), np.empty(done + size, np.float64)
        more_parents = np.empty(done + size, np.uint32)
        for i in range(done):
            more_ids[i], more_raw[i], more_parents[i] = hop_ids[i], hop_raw[i], hop_parents[i]
        for i in range(size):
            col = touched[i]
            more_ids[done + i] = col
            more_raw[done + i] = best[col]
            more_parents[done + i] = parent[col]
            best[col] = -math.inf
        hop_ids, hop_raw, hop_parents = more_ids, more_raw, more_parents
    for i in range(asked.size):
        if asked[i] < best.size:
            best[asked[i]] = -math.inf
    if hops == 1:
        return hop_ids, hop_raw, hop_ids, hop_raw, hop_parents, ptr
    size = 0
    scale = 1.0
    for hop in range(hops):
        for i in range(ptr[hop], ptr[hop + 1]):
            col = hop_ids[i]
            if best[col] == -math.inf:
                touched[size] = col
                size += 1
            best[col] = max(best[col], hop_raw[i] * scale)
        scale *= factor
    ascending(touched, size, words)
    ids, strengths = np.empty(size, np.uint32), np.empty(size, np.float64)
    for i in range(size):
        col = touched[i]
        ids[i] = col
        strengths[i] = best[col]
        best[col] = -math.inf
    return ids, strengths, hop_ids, hop_raw, hop_parents, ptr


expand = jit(_expand)


def _best_of(
    sources: Array,
    scores: Array,
    allowed: Array,
    threshold: float,
    both: bool,
    now: int,
    tau: float,
    indptr: Array,
    middle: Array,
    cols: Array,
    weights: Array,
    stamps: Array,
    side_keys: Array,
    side_weights: Array,
    side_stamps: Array,
    scratch_reals: Array,
    scratch_ids: Array,
    words: Array,
) -> tuple[Array, Array]:
    """Ids linked to any of `sources` (uint32[q]), ascending, with the best of their `scores`.

    Scratch and `allowed` as for `expand`.
    """
    best, link_weights = scratch_reals[0], scratch_reals[1]
    touched, link_ids = scratch_ids[0], scratch_ids[2]
    size = 0
    for s in range(sources.size):
        source: Any = np.int64(sources[s])
        if source >= best.size:
            continue
        n = row_links(
            source,
            threshold,
            both,
            now,
            tau,
            indptr,
            middle,
            cols,
            weights,
            stamps,
            side_keys,
            side_weights,
            side_stamps,
            link_ids,
            link_weights,
        )
        for i in range(n):
            col = link_ids[i]
            if allowed.size > 0 and (col >= allowed.size or allowed[col] == 0):
                continue
            if best[col] == -math.inf:
                touched[size] = col
                size += 1
            best[col] = max(best[col], scores[s])
    ascending(touched, size, words)
    ids, found = np.empty(size, np.int64), np.empty(size, np.float64)
    for i in range(size):
        ids[i] = touched[i]
        found[i] = best[touched[i]]
        best[touched[i]] = -math.inf
    return ids, found


best_of = jit(_best_of)


# ---- pairs --------------------------------------------------------------------------------------


def _pair_keys(flat: Array, ptr: Array) -> Array:
    """Every unordered pair of each row's ids, as ``a << 32 | b`` with a < b, row after row.

    Parameters
    ----------
    flat : uint32[m]
        The rows' ids, distinct within a row; no id is paired with itself.
    ptr : int64[n + 1]
        Row i is ``flat[ptr[i]:ptr[i + 1]]``.

    Returns
    -------
    uint64[p]
    """
    total = 0
    for row in range(ptr.size - 1):
        size = ptr[row + 1] - ptr[row]
        total += size * (size - 1) // 2
    out = np.empty(total, np.uint64)
    used = 0
    for row in range(ptr.size - 1):
        for i in range(ptr[row], ptr[row + 1]):
            first = np.uint64(flat[i])
            for j in range(i + 1, ptr[row + 1]):
                second = np.uint64(flat[j])
                low, high = min(first, second), max(first, second)
                out[used] = (low << _HALF) | high
                used += low != high
    return out[:used]


pair_keys = jit(_pair_keys)


def _keys_between(some: Array, others: Array) -> Array:
    """Every unordered pair of an id of `some` and one of `others` (uint32), ascending, each once.

    No id is paired with itself; either may hold an id twice.
    """
    out = np.empty(some.size * others.size, np.uint64)
    n = 0
    for i in range(some.size):
        for j in range(others.size):
            first, second = np.uint64(some[i]), np.uint64(others[j])
            out[n] = min(first, second) << _HALF | max(first, second)
            n += first != second
    out = out[:n]
    out.sort()
    used = 0
    for i in range(n):
        if i == 0 or out[i] != out[i - 1]:
            out[used] = out[i]
            used += 1
    return out[:used]


keys_between = jit(_keys_between)
