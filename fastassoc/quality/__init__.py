"""Quality measured: systems side by side on sets of questions, through the public API alone.

``fastassoc bench quality --data DIR`` runs it. A set is known by its layout, whatever its name;
what is not there is skipped, a malformed one left out, and the report says so.
"""

from __future__ import annotations

from fastassoc.quality.bench import PARTS, SCHEMA, Options, run
from fastassoc.quality.finding import Found, find
from fastassoc.quality.page import html_page
from fastassoc.quality.sets import not_measured
from fastassoc.quality.trec import write_trec

__all__ = [
    "PARTS",
    "SCHEMA",
    "Found",
    "Options",
    "find",
    "html_page",
    "not_measured",
    "run",
    "write_trec",
]
