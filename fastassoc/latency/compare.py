"""Two reports side by side, and what became slower."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from fastassoc.errors import InvalidInput

__all__ = ["SCHEMA", "Change", "compare", "load", "share_of", "worse"]

SCHEMA = {"name": "fastassoc-latency", "version": 1}
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%?\s*")


class Change(NamedTuple):
    """A figure in both reports.

    Attributes
    ----------
    name, unit : str
    old, new : float
    worse : float
        By which share it became worse: 0.1 is a tenth; below 0 it became better.
    """

    name: str
    unit: str
    old: float
    new: float
    worse: float


def share_of(text: str) -> float:
    """The share that ``10%`` means; a bare number is per cent, too.

    Raises
    ------
    InvalidInput
        It is no such thing.

    Examples
    --------
    >>> share_of("10%"), share_of("2.5")
    (0.1, 0.025)
    """
    found = _SHARE.fullmatch(text)
    if found is None:
        raise InvalidInput(f"found {text!r}, expected per cent, such as 10%.")
    return float(found[1]) / 100


def load(file: str | Path) -> dict[str, Any]:
    """Read a report that was written before.

    Raises
    ------
    InvalidInput
        It is not there, no report, or of a newer version than this code knows.
    """
    try:
        found: dict[str, Any] = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}.") from None
    except ValueError as error:
        raise InvalidInput(f"{file}: not JSON ({error}).") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if not isinstance(schema, dict) or schema.get("name") != SCHEMA["name"]:
        raise InvalidInput(f"{file}: no report of `fastassoc bench latency --json`.")
    if schema.get("version") != SCHEMA["version"]:
        raise InvalidInput(
            f"{file}: found version {schema.get('version')} of the report, expected "
            f"{SCHEMA['version']}: measure it again with this version."
        )
    figures = found.get("figures")
    if not isinstance(figures, dict) or not all(map(_is_figure, figures.values())):
        raise InvalidInput(f"{file}: its figures are damaged: measure it again.")
    return found


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Set every figure that both reports hold side by side, worst first."""
    out = []
    for name, told in new["figures"].items():
        before = old["figures"].get(name)
        if before is not None and before["better"] == told["better"]:
            a, b = float(before["value"]), float(told["value"])
            out.append(Change(name, told["unit"], a, b, _worse(a, b, told["better"])))
    return sorted(out, key=lambda one: (-one.worse, one.name))


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What makes the two hard to compare: another machine, store, number of questions."""
    out = []
    for name in ("machine", "asked"):
        a, b = old.get(name, {}), new[name]
        keys = [key for key in b if a.get(key) != b[key]]
        out += [f"{key}: {a.get(key)} before, {b[key]} now" for key in keys]
    for key in ("notes", "links", "dim"):
        a, b = old.get("store", {}).get(key), new["store"][key]
        if a != b:
            out.append(f"{key}: {a} before, {b} now")
    return out


def worse(changes: list[Change], share: float) -> list[Change]:
    """Those that became worse by more than a share."""
    return [one for one in changes if one.worse > share]


def _worse(old: float, new: float, better: str) -> float:
    """By which share; the larger over the smaller, so that twice as slow is half as fast."""
    slow, fast = (new, old) if better == "lower" else (old, new)
    if slow == fast:
        return 0.0
    if fast <= 0:
        return math.inf
    return round(slow / fast - 1, 5)


def _is_figure(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("better") in {"lower", "higher"}
        and isinstance(value.get("value"), (int, float))
        and not isinstance(value.get("value"), bool)
        and math.isfinite(value["value"])
    )
