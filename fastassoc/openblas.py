"""Which kernels the OpenBLAS beside FAISS runs on, and whether the processor could do better."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

__all__ = ["advice", "flags", "kernel"]

OLD_KERNELS = frozenset(
    "Atom Athlon Banias Barcelona Bobcat Bulldozer Core2 Coppermine Dunnington Excavator Katmai "
    "Nano Nehalem Northwood Opteron Opteron_SSE3 Penryn Piledriver Prescott Sandybridge "
    "Steamroller Generic".lower().split()
)


def advice(found: str | None, able: frozenset[str]) -> str | None:
    """Compare the kernels in use with what the processor can do.

    Examples
    --------
    >>> "OPENBLAS_CORETYPE=Haswell" in advice("Prescott", frozenset({"avx2", "fma"}))
    True
    >>> advice("Zen", frozenset({"avx2", "fma"})) is None
    True
    """
    if found is None or found.lower() not in OLD_KERNELS or not {"avx2", "fma"} <= able:
        return None
    wide = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"} <= able
    better = "SkylakeX" if wide else "Haswell"
    return (
        f"FAISS runs on OpenBLAS kernels for {found}, this processor has "
        f"{'AVX-512' if wide else 'AVX2'}: building a vector index takes several times as long "
        f"as it could. Set OPENBLAS_CORETYPE={better} in the environment before Python starts."
    )


def flags() -> frozenset[str]:
    """Return what the processor can do, as Linux tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("flags"):
                return frozenset(line.partition(":")[2].split())
    return frozenset()


def kernel() -> str | None:
    """Return the name of the kernels that the OpenBLAS beside FAISS has picked."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for path in sorted({line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/" in line}):
        if "openblas" in Path(path).name and "faiss" in Path(path).parent.name:
            with suppress(OSError, AttributeError):
                name = ctypes.CDLL(path).openblas_get_corename
                name.restype = ctypes.c_char_p
                return str(name().decode("ascii", "replace"))
    return None
