"""Norms of free association, and notes with curated tags."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from fastassoc.quality.sets import Norms, TagSet, lines_of, need, whole_of

__all__ = ["load_norms", "load_tags"]

TOTAL = "_count"


def load_norms(name: str, path: Path) -> Norms:
    """Read ``{cue: {"_count": n, response: {"_count": n}}}``.

    A response equal to its cue is left out.

    Raises
    ------
    InvalidInput
        The file is not of this layout; the message names the cue.
    """
    document = whole_of(path)
    need(isinstance(document, dict), str(path), document, "an object of cues")
    counts: dict[str, dict[str, int]] = {}
    left_out: Counter[str] = Counter()
    for cue, responses in document.items():
        where = f"{path}, cue {cue!r}"
        need(isinstance(responses, dict), where, responses, "an object of responses")
        for response, told in responses.items():
            if response == TOTAL:
                continue
            many = told.get(TOTAL) if isinstance(told, dict) else told
            good = isinstance(many, int) and not isinstance(many, bool) and many > 0
            need(good, where, told, "a count for each response")
            if response == cue:
                left_out["responses equal to their cue"] += 1
                continue
            counts.setdefault(cue, {})[response] = int(many)  # type: ignore[arg-type]
    return Norms(name, counts, left_out)


def load_tags(name: str, path: Path) -> TagSet:
    """Read rows ``{"id", "text", "concepts"}``; of an id that comes again the first row counts.

    Raises
    ------
    InvalidInput
        A row lacks one of these; the message names the line.
    """
    rows: dict[str, dict[str, Any]] = {}
    left_out: Counter[str] = Counter()
    for where, row in lines_of(path):
        concepts = row.get("concepts")
        good = isinstance(row.get("id"), str) and isinstance(row.get("text"), str)
        good = good and isinstance(concepts, list) and all(isinstance(c, str) for c in concepts)
        need(good, where, row, "'id', 'text' and a list of 'concepts'")
        if row["id"] in rows:
            left_out["rows with an id that came before"] += 1
            continue
        tags = list(dict.fromkeys(concepts or ()))
        rows[row["id"]] = {"id": row["id"], "text": row["text"], "concepts": tags}
    return TagSet(name, list(rows.values()), left_out)
