"""An embeddable, long-term associative memory: notes, learned links, reads that say why.

>>> import fastassoc as fa
>>> mem = fa.Memory()
>>> nid = mem.write("Backoff fixed the flaky call.", concepts=["retry", "backoff"])
>>> mem.read(concepts=["retry"])[0].id == nid
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastassoc import errors
    from fastassoc.answers import Graph, Hit, Recall, Step
    from fastassoc.dryrun import plan
    from fastassoc.memory import Memory
    from fastassoc.memory import open_memory as open
    from fastassoc.memory import verify_store as verify
    from fastassoc.notes import Note
    from fastassoc.reports import Report
    from fastassoc.settings import LinkRule, Settings
    from fastassoc.warming import warm

__version__ = "0.1.0"

# where each public name lives; loaded at its first use, so that the import takes no time
_HOMES = {
    "Graph": ("answers", "Graph"),
    "Hit": ("answers", "Hit"),
    "LinkRule": ("settings", "LinkRule"),
    "Memory": ("memory", "Memory"),
    "Note": ("notes", "Note"),
    "Recall": ("answers", "Recall"),
    "Report": ("reports", "Report"),
    "Settings": ("settings", "Settings"),
    "Step": ("answers", "Step"),
    "errors": ("errors", None),
    "open": ("memory", "open_memory"),
    "plan": ("dryrun", "plan"),
    "verify": ("memory", "verify_store"),
    "warm": ("warming", "warm"),
}

__all__ = [
    "Graph",
    "Hit",
    "LinkRule",
    "Memory",
    "Note",
    "Recall",
    "Report",
    "Settings",
    "Step",
    "errors",
    "open",
    "plan",
    "verify",
    "warm",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fastassoc' has no attribute {name!r}")
    home, inner = _HOMES[name]
    module = import_module(f"fastassoc.{home}")
    value = module if inner is None else getattr(module, inner)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
