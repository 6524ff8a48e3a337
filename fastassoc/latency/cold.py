"""What a process waits for that begins now: ``python -m fastassoc.latency.cold`` tells it.

Standard input has the store and one question for each row; the answer is one JSON document on
standard output. The system's file cache is left as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fastassoc.errors import StoreError

__all__ = ["measure", "peak_bytes"]


def measure(
    store: str, asked: dict[str, dict[str, Any]], rounds: int, timeout: float = 10.0
) -> list[dict[str, Any]]:
    """Begin so many processes one after another, and hear what each waited for.

    Parameters
    ----------
    store : str
        Opened read-only.
    asked : dict of str to dict
        Arguments of one `Memory.read` by the name of its row; vectors as lists.
    rounds : int
    timeout : float
        Seconds to wait for another process that writes.

    Returns
    -------
    list of dict
        ``import_s``, ``open_s``, ``first_read_s`` by row in the order asked (what the first ones
        made serves the others), ``second_read_s``, and ``peak_bytes``.

    Raises
    ------
    StoreError
        Such a process failed; the message has its last words.
    """
    request = json.dumps({"store": store, "asked": asked, "timeout": timeout})
    here = str(Path(__file__).parents[2])  # this package, installed or not
    paths = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    told = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "fastassoc.latency.cold"],
            check=False,
            input=request,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise StoreError(f"a cold start of {store} failed: {last}")
        told.append(json.loads(done.stdout))
    return told


def peak_bytes() -> int | None:
    """The most memory that this process ever held; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) * (1 if sys.platform == "darwin" else 1024)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Import, open, and read: each timed once, here and now."""
    start = time.perf_counter()
    import fastassoc as fa

    imported = time.perf_counter()
    with fa.open(request["store"], create=False, read_only=True, timeout=request["timeout"]) as mem:
        opened = time.perf_counter()
        told: dict[str, dict[str, float]] = {"first_read_s": {}, "second_read_s": {}}
        for name, query in request["asked"].items():
            for some in told.values():
                begun = time.perf_counter()
                mem.read(**query)
                some[name] = round(time.perf_counter() - begun, 6)
        return {
            "import_s": round(imported - start, 6),
            "open_s": round(opened - imported, 6),
            **told,
            "peak_bytes": peak_bytes(),
        }


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.stdin.read()))))
