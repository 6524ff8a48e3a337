"""Numbers with what they count, for messages and pages."""

from __future__ import annotations

__all__ = ["count"]


def count(many: float, what: str, places: int = 0) -> str:
    """So many of something that has a regular plural.

    Examples
    --------
    >>> count(1, "note"), count(2_000, "note"), count(0, "note")
    ('1 note', '2,000 notes', '0 notes')
    >>> count(0.96, "second"), count(1.04, "second", places=1)
    ('1 second', '1.0 seconds')
    """
    told = f"{many:,.{places}f}"
    return f"{told} {what}" if told == "1" else f"{told} {what}s"
