"""The best so far: a heap whose root is the worst of them.

Values come with a key of any integer type: the higher value first, of equals the lower key.
"""

from __future__ import annotations

from typing import Any

from fastassoc.kernels import inline

__all__ = ["best_first", "offer", "sink", "worse"]

Array = Any  # values float64, keys of any integer type
Whole = Any  # int or a NumPy integer: mypy tells them apart, compiled code does not


@inline
def worse(value: float, key: Whole, other: float, other_key: Whole) -> bool:
    """Whether (value, key) comes after the other."""
    return bool(value < other or (value == other and key > other_key))


@inline
def sink(values: Array, keys: Array, at: Whole, size: Whole) -> None:
    """Move the entry at `at` down to where it belongs."""
    value = values[at]
    key = keys[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and worse(
            values[child + 1], keys[child + 1], values[child], keys[child]
        ):
            child += 1
        if not worse(values[child], keys[child], value, key):
            break
        values[at] = values[child]
        keys[at] = keys[child]
        at = child
    values[at] = value
    keys[at] = key


@inline
def _rise(values: Array, keys: Array, at: Whole) -> None:
    """Move the entry at `at`, the last, up to where it belongs."""
    value = values[at]
    key = keys[at]
    while at > 0:
        parent = (at - 1) >> 1
        if not worse(value, key, values[parent], keys[parent]):
            break
        values[at] = values[parent]
        keys[at] = keys[parent]
        at = parent
    values[at] = value
    keys[at] = key


@inline
def offer(values: Array, keys: Array, size: Whole, value: float, key: Whole) -> Whole:
    """Take (value, key) into a heap of `size` if it is among the best that fit; the new size.

    It is a call: a loop over many looks at the root first.
    """
    if size < values.size:
        values[size] = value
        keys[size] = key
        _rise(values, keys, size)
        return size + 1
    if size > 0 and worse(values[0], keys[0], value, key):
        values[0] = value
        keys[0] = key
        sink(values, keys, 0, size)
    return size


@inline
def best_first(values: Array, keys: Array, size: Whole) -> None:
    """Put the entries of a heap in order, in place."""
    for last in range(size - 1, 0, -1):  # the worst goes to the end, again and again
        values[0], values[last] = values[last], values[0]
        keys[0], keys[last] = keys[last], keys[0]
        sink(values, keys, 0, last)
