"""Every jitted function, and nothing else: arrays and scalars in, arrays out.

A kernel is a plain function first and is jitted by assignment (``name = jit(_name)``), so it can be
read, stepped through and tested without a compiler. Kernels are serial and release the GIL.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


@cache
def _warn_once() -> None:
    warnings.warn(
        "Numba finds no folder that it can write, so kernels are compiled anew in every process; "
        "set NUMBA_CACHE_DIR to a folder of yours.",
        RuntimeWarning,
        stacklevel=3,
    )


@cache
def sources() -> str:
    """A hash of the source of all kernels, 8 hexadecimal digits."""
    hashed = hashlib.blake2b(digest_size=4)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def jit(function: F) -> F:
    """Compile `function` at its first call, with Numba's on-disk cache where one can be written.

    A kernel holds the code of helpers in other files, but Numba looks at its own file alone to
    tell whether what it cached is good: so the name, which its cache goes by, tells of them all.
    """
    function.__qualname__ = f"{function.__qualname__}_{sources()}"
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no folder for the cache: a read-only install without a home
        _warn_once()
        return cast(F, numba.njit(nogil=True)(function))


inline = jit  # a scalar helper: LLVM puts it into the kernels that call it
