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

LINE = 64  # bytes that the processor fetches at once


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


def prefetch(array: Any, place: Any, items: Any) -> None:
    """Ask the processor for some items from ``array[place]`` on before they are used.

    Without a compiler it does nothing.
    """


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def _ask(context: Any, array: Any, place: Any, byte: Any) -> Any:
    """LLVM's prefetch of the line that holds a byte of ``array[place]``."""
    build = numba.core.cgutils

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, values[0])
        step = builder.extract_value(held.strides, 0)
        at = builder.add(builder.mul(values[1], step), values[2])
        at = build.pointer_add(builder, held.data, at, build.voidptr_t)
        flag, nothing = build.int32_t, build.ir.VoidType()
        kind = build.ir.FunctionType(nothing, [build.voidptr_t, flag, flag, flag])
        ask = build.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [at, flag(0), flag(3), flag(1)])  # to read, to keep near, data
        return context.get_dummy_value()

    return numba.types.void(array, numba.types.int64, numba.types.int64), code


@numba.extending.overload(prefetch)  # type: ignore[untyped-decorator]
def _prefetch(array: Any, place: Any, items: Any) -> Any:
    def lines(array: Any, place: Any, items: Any) -> None:
        for byte in range(0, items * array.itemsize, LINE):
            _ask(array, place, byte)

    return lines
