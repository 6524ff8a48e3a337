"""Children: forks that do one thing, and no line of what made them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

__all__ = ["ended", "start"]


def start(act: Callable[[], int | None], wrong: Callable[[str], object] = print) -> int:
    """The process of a child that does this and ends with its code, 0 for None.

    `wrong` is told of an error in the child, which ends with 1 then.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = act() or 0
        except BaseException:
            wrong(traceback.format_exc())
        finally:
            os._exit(code)
    return pid


def ended(act: Callable[[], int | None]) -> int:
    """How a child ends that does this: 0 if all is well."""
    return os.waitpid(start(act), 0)[1]
