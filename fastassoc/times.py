"""Times: int64 microseconds since 1970, UTC; a naive time is UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fastassoc.errors import InvalidInput

__all__ = ["EPOCH", "micros", "moment"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOW, HIGH = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999


def micros(value: object, name: str) -> int:
    """Microseconds UTC of a datetime, an ISO 8601 text or a whole number of microseconds.

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
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidInput(
                f"{name}: found {found!r}, expected an ISO 8601 time such as 2026-01-31T12:00:00Z."
            ) from None
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, int) and not isinstance(value, bool) and LOW <= value <= HIGH:
        return value
    raise InvalidInput(
        f"{name}: found {found!r}, expected a datetime, an ISO 8601 text, or microseconds since "
        "1970 (naive times are UTC)."
    )


def moment(value: int) -> datetime:
    """The aware datetime of microseconds UTC, exactly."""
    return EPOCH + timedelta(microseconds=value)
