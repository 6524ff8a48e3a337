"""JSON that our own writers wrote: Unicode that UTF-8 can hold, throughout."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["loads"]


def loads(text: str, **hooks: Any) -> Any:
    r"""The value of a JSON text; `hooks` as of ``json.loads``.

    Raises
    ------
    ValueError
        It is no JSON, is nested too deeply, or says a lone surrogate.

    Examples
    --------
    >>> loads(r'"\ud83c\udf75"') == chr(0x1F375)
    True
    >>> loads(r'["\ud83c"]')
    Traceback (most recent call last):
    ...
    ValueError: found a lone surrogate
    """
    try:
        found = json.loads(text, **hooks)
        if "\\ud" in text or "\\uD" in text:  # nothing else says one, and texts of ours rarely
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("found a lone surrogate") from None
    return found
