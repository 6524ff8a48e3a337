"""Times: int64 microseconds since 1970, UTC; a naive time is UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from numbers import Integral

from fastassoc.errors import InvalidInput

__all__ = ["EPOCH", "micros", "moment"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOW, HIGH = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999


def micros(value: object, name: str) -> int:
    """Microseconds UTC of a datetime, a date, an ISO 8601 text or a number of microseconds.

    Raises
    ------
    InvalidInput
        It is none of these, or not between the years 1 and 9999.

    Examples
    --------
    >>> micros("1970-01-01T00:00:01Z", "since")
    1000000
    """
    found = value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidInput(
                f"{name}: found {found!r}, expected an ISO 8601 time such as 2026-01-31T12:00:00Z."
            ) from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        value = (aware - EPOCH) // timedelta(microseconds=1)  # no int for pandas' NaT
    if isinstance(value, Integral) and not isinstance(value, bool) and LOW <= int(value) <= HIGH:
        return int(value)
    raise InvalidInput(
        f"{name}: found {found!r}, expected a datetime, an ISO 8601 text, or microseconds since "
        "1970 (naive times are UTC)."
    )


def moment(value: int) -> datetime:
    """The aware datetime of microseconds UTC, exactly."""
    return EPOCH + timedelta(microseconds=value)
