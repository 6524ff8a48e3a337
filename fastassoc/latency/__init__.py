"""Speed measured: one's own store or a generated one, through the public API alone.

``fastassoc bench latency`` runs it. Recall and ``qps`` of the index are as ann-benchmarks has them
(one question at a time on one thread); load, p95, p99 and the best ``qps`` over numbers of threads
as VectorDBBench has them.
"""

from __future__ import annotations

from fastassoc.latency.bench import Options, run
from fastassoc.latency.compare import (
    SCHEMA,
    Change,
    compare,
    differences,
    load,
    share_of,
    worse,
)
from fastassoc.latency.page import html_page

__all__ = [
    "SCHEMA",
    "Change",
    "Options",
    "compare",
    "differences",
    "html_page",
    "load",
    "run",
    "share_of",
    "worse",
]
