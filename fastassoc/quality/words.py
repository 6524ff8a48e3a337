"""Norms of free association, and notes with curated tags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastassoc.quality.sets import (
    LeftOut,
    Norms,
    TagSet,
    concept_of,
    id_of,
    lines_of,
    need,
    text_of,
    whole_of,
)
from fastassoc.words import casefold

__all__ = ["load_norms", "load_tags"]

TOTAL = "_count"
MOST = 500_000_000  # a count: the sum of two is the weight of a link
MOST_TAGS = 256  # of a note


def load_norms(name: str, path: Path) -> Norms:
    """Read ``{cue: {"_count": n, response: {"_count": n}}}``.

    A response equal to its cue is left out. Of one word in several spellings the first is taken.

    Raises
    ------
    InvalidInput
        The file is not of this layout; the message names the cue.
    """
    document = whole_of(path)
    need(isinstance(document, dict), str(path), document, "an object of cues")
    counts: dict[str, dict[str, int]] = {}
    left_out = LeftOut()
    spelled: dict[str, str] = {}
    for given, responses in document.items():
        where = f"{path}, cue {given!r:.80}"
        concept_of(where, given, "for a cue")
        cue = spelled.setdefault(casefold(given), given)
        need(isinstance(responses, dict), where, responses, "an object of responses")
        for response, told in responses.items():
            if response == TOTAL:
                continue
            many = told.get(TOTAL) if isinstance(told, dict) else told
            good = isinstance(many, int) and not isinstance(many, bool) and 0 < many <= MOST
            need(good, where, told, f"a count from 1 to {MOST:,} for each response")
            concept_of(where, response, "for a response")
            word = spelled.setdefault(casefold(response), response)
            if word == cue:
                left_out.add("responses equal to their cue", f"{where}: {response!r:.80}")
                continue
            held = counts.setdefault(cue, {})
            held[word] = min(MOST, held.get(word, 0) + int(many))  # type: ignore[arg-type]
    return Norms(name, counts, left_out)


def load_tags(name: str, path: Path) -> TagSet:
    """Read rows ``{"id", "text", "concepts"}``; of an id that comes again the first row counts.

    Raises
    ------
    InvalidInput
        A row lacks one of these; the message names the line.
    """
    rows: dict[str, dict[str, Any]] = {}
    left_out = LeftOut()
    for where, row in lines_of(path):
        note, text, concepts = (
            id_of(where, row, "id"),
            text_of(where, row, "text"),
            row.get("concepts"),
        )
        need(isinstance(concepts, list), where, concepts, "a list of names under 'concepts'")
        tags = {concept_of(where, one, "in 'concepts'"): None for one in concepts or ()}
        need(len(tags) <= MOST_TAGS, where, concepts, f"at most {MOST_TAGS} names in 'concepts'")
        if note in rows or not text.strip():
            left_out.add(
                "rows without a text, or with an id that came before", f"{where}: {note!r}"
            )
            continue
        rows[note] = {"id": note, "text": text, "concepts": list(tags)}
    return TagSet(name, list(rows.values()), left_out)
