"""How far the journal must reach: `head`, advanced after each commit and compared before it."""

from __future__ import annotations

from fastassoc import files
from fastassoc.errors import CorruptStore
from fastassoc.journal.connections import Connections
from fastassoc.journal.records import Records
from fastassoc.journal.sqlite import NAME

__all__ = ["advance_head", "check_head", "prepare_head"]


def check_head(connections: Connections, records: Records, last: int | None) -> None:
    """Compare with `head`: read it first, so that commits in between do no harm."""
    head = connections.head
    if head is None:
        return
    if last is None:
        with connections.guard() as conn:
            acknowledged, wrong = head.read(records.last(conn)[0])
            last = records.last(conn)[0]
    else:
        acknowledged, wrong = head.read(last)
    if acknowledged is not None and acknowledged <= last and not wrong:
        return
    if acknowledged is None and last == 0:
        return  # a creation that was cut short; the first commit writes it
    if acknowledged is not None and acknowledged > last:
        file, reason = NAME, f"ends at operation {last}, but {acknowledged} was acknowledged"
    else:
        file, reason = "head", wrong
    if connections.sync == "full" and (file == NAME or acknowledged is None):
        raise CorruptStore(file, f'{reason} (sync="normal" opens it, without what is missing)')
    if not connections.warning_counts[file]:
        connections.warn(file, f"{file} {reason}")


def prepare_head(connections: Connections) -> None:
    """Before the first operation: a kill right after its commit must not look like a lost file.

    A creation that was cut short left none.
    """
    assert connections.head is not None
    try:
        if not connections.head.path.exists():
            connections.head.create(0)
    except OSError as error:
        files.fail(error, "making", "head")


def advance_head(connections: Connections, last: int, durable: bool) -> None:
    """Note a commit; where that fails, the operation is saved and only this guard is not."""
    assert connections.head is not None
    try:
        connections.head.advance(last)
        if durable:
            connections.head.sync()
    except OSError as error:
        connections.warn("head", f"head could not be written ({error})")
