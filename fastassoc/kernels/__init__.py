"""Every jitted function, and nothing else: arrays and scalars in, arrays out.

A kernel is a plain function first and is jitted by assignment (``name = jit(_name)``), so it can be
read, stepped through and tested without a compiler. Kernels are serial and release the GIL.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

_warned = False


def jit(function: F) -> F:
    """Compile `function` at its first call, with Numba's on-disk cache where one can be written."""
    global _warned
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no folder for the cache: a read-only install without a home
        if not _warned:
            _warned = True
            warnings.warn(
                "Numba finds no folder that it can write, so kernels are compiled anew in every "
                "process; set NUMBA_CACHE_DIR to a folder of yours.",
                RuntimeWarning,
                stacklevel=2,
            )
        return cast(F, numba.njit(nogil=True)(function))


def inline(function: F) -> F:
    """A scalar helper, compiled into the kernels that call it."""
    try:
        return cast(F, numba.njit(cache=True, nogil=True, inline="never")(function))
    except RuntimeError:
        return cast(F, numba.njit(nogil=True)(function))
