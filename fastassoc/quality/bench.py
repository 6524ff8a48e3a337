"""The whole measurement: find the sets, make their stores, measure, and tell it as one document."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastassoc as fa
from fastassoc.embed import NAMES, Embedder, available, resolve
from fastassoc.errors import EmbedderMismatch, InvalidInput
from fastassoc.quality.associations import measure_norms, measure_tags
from fastassoc.quality.finding import find
from fastassoc.quality.lessons import measure_lessons
from fastassoc.quality.own import load_own
from fastassoc.quality.places import Progress, Vectors, places_of
from fastassoc.quality.reads import Ranked, measure_lookups, measure_reads
from fastassoc.quality.scores import measure_scores
from fastassoc.quality.sets import AskedSet, Norms, TagSet, not_measured
from fastassoc.quality.systems import ABLATIONS, SYSTEMS, System, best_of, usable
from fastassoc.settings import RANKS

__all__ = ["PARTS", "SCHEMA", "Options", "run"]

SCHEMA = {"name": "fastassoc-quality", "version": 1}
PARTS = ("reads", "lookups", "feedback", "scores", "associations")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure.

    Attributes
    ----------
    data : Path or None
        A folder of sets, or the file that one set is.
    questions, store : str or None
        One's own questions, and the store that they are asked of.
    embedder : str
        A name of `fastassoc.embed.NAMES`, or ``"none"``.
    only : tuple of str
        Names of sets; empty for all.
    parts : tuple of str
        Of `PARTS`; empty for all.
    limit : int or None
        The most questions of a set, the first of each store.
    seed : int
    subjects : bool
        Whether titles are declared as subjects.
    ablations : bool
        Whether the bridge is also read without each of its steps.
    """

    data: Path | None = None
    questions: str | None = None
    store: str | None = None
    embedder: str = "wordllama"
    only: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    limit: int | None = None
    seed: int = 1
    subjects: bool = True
    ablations: bool = False


def _nothing(what: str, done: int, total: int) -> None:
    return None


def run(
    options: Options, progress: Progress = _nothing
) -> tuple[dict[str, Any], list[AskedSet], Ranked]:
    """Measure.

    Parameters
    ----------
    options : Options
    progress : callable, optional
        Called with what is done, how many of it are done, and of how many.

    Returns
    -------
    dict
        The report: JSON values, of the schema that its key ``schema`` names. Under ``failed`` are
        the sets that are not of their layout, each with its ``name`` and the ``reason``.
        Of a set, ``left_out`` counts by reason, and ``left_out_first`` says where each began.
    list of AskedSet
        The sets that questions were asked of, for run files.
    dict
        What each system answered, for run files.

    Raises
    ------
    InvalidInput
        There is nothing to measure, or an option cannot be taken.
    """
    begun = time.perf_counter()
    loaded, skipped, failed = _load(options)
    embedder, said = _embedder(options.embedder)
    skipped += said
    vectors = Vectors(None if embedder is None else resolve(embedder), progress)
    parts = options.parts or PARTS
    asked = {one.name: one for one in loaded if isinstance(one, AskedSet)}
    ranked: Ranked = {}
    sets = []
    for one in loaded:
        if isinstance(one, AskedSet):
            sets.append(_measure(one, options, parts, vectors, asked, progress, ranked))
        else:
            found = (
                measure_norms(one, vectors, options.limit, options.seed, progress)
                if isinstance(one, Norms)
                else measure_tags(one, options.limit, options.seed, progress)
            )
            sets.append(
                {
                    "name": one.name,
                    "kind": one.kind,
                    "left_out": dict(one.left_out),
                    "left_out_first": dict(one.left_out.first),
                    "associations": found,
                }
            )
    document = {
        "schema": dict(SCHEMA),
        "fastassoc": fa.__version__,
        "python": platform.python_version(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
        "embedder": embedder,
        "seed": options.seed,
        "limit": options.limit,
        "subjects": options.subjects,
        "parts": list(parts),
        "ranks": list(RANKS),
        "skipped": skipped,
        "failed": failed,
        "sets": sets,
        "seconds": round(time.perf_counter() - begun, 2),
    }
    return document, list(asked.values()), ranked


Loaded = list[AskedSet | Norms | TagSet]


def _load(options: Options) -> tuple[Loaded, list[str], list[dict[str, str]]]:
    """The sets that are asked for, sentences about those that are not there, and what is bad."""
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        raise InvalidInput(f"parts: found {', '.join(unknown)}, expected of {', '.join(PARTS)}.")
    if (options.questions is None) != (options.store is None):
        raise InvalidInput("one's own questions need both: a file of questions and a store.")
    found, skipped = ([], []) if options.data is None else find(options.data)
    names = [one.name for one in found]
    if options.only:
        missing = sorted(set(options.only) - set(names))
        if missing and options.data is not None:
            told = ", ".join(names) or "no set at all"
            raise InvalidInput(
                f"only: {', '.join(missing)} not found in {options.data}, which has {told}."
            )
        found = [one for one in found if one.name in options.only]
        skipped = []
    named = [one.name for one in found]
    if options.questions is not None:
        named.append(Path(options.questions).stem)
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise InvalidInput(
            f"{options.data}: several sets are named {', '.join(twice)}: rename one."
        )
    loaded: Loaded = []
    failed: list[dict[str, str]] = []
    for each in found:
        try:
            loaded.append(each.load(subjects=options.subjects))
        except (InvalidInput, OSError) as error:
            failed.append({"name": each.name, "reason": str(error)})
    if options.questions is not None and options.store is not None:
        loaded.append(load_own(Path(options.questions), options.store))
    causes = []
    kept: Loaded = []
    for one in loaded:
        able = _parts_of(one)
        if isinstance(one, AskedSet) and not one.questions:
            told = "; ".join(one.left_out.told()) or "it has no question at all"
            causes.append(f"{one.name}: no question with an answer in it, skipped: {told}.")
        elif not able & set(options.parts or PARTS):
            can = ", ".join(part for part in PARTS if part in able)
            causes.append(f"{one.name}: skipped: of a set of its kind can be measured: {can}.")
        else:
            kept.append(one)
            for part in one.parts if isinstance(one, AskedSet) else ():
                part.questions = part.questions[: options.limit]
    skipped = [*causes, *skipped]
    if not kept:
        raise InvalidInput(
            "\n  ".join(["nothing to measure:", *map(not_measured, failed), *skipped])
        )
    return kept, skipped, failed


def _parts_of(one: AskedSet | Norms | TagSet) -> set[str]:
    """What can be measured of a set; one's own store is read as it is, and never changed."""
    if not isinstance(one, AskedSet):
        return {"associations"}
    return {"reads"} if one.store is not None else set(PARTS) - {"associations"}


def _embedder(name: str) -> tuple[str | None, list[str]]:
    """The embedder to use, or None and why."""
    if name == "none":
        return None, []
    if name not in NAMES:
        raise InvalidInput(f"embedder: found {name!r}, expected {', '.join(NAMES)} or none.")
    state = available()[name]
    if state != "ready":
        return None, [f"embedder {name}: {state}; what needs vectors is skipped."]
    return name, []


def _measure(
    asked: AskedSet,
    options: Options,
    parts: Sequence[str],
    vectors: Vectors,
    others: dict[str, AskedSet],
    progress: Progress,
    ranked: Ranked,
) -> dict[str, Any]:
    places = places_of(asked, vectors, progress)
    given = vectors.embedder is not None and _has_vectors(asked, vectors.embedder)
    systems = usable(SYSTEMS, given)
    more = usable(ABLATIONS, given) if options.ablations else []
    best = best_of(systems)
    rejected = [reason for place in places for _, reason in place.rejected]
    out: dict[str, Any] = {
        "name": asked.name,
        "kind": asked.kind,
        "stores": len(places),
        "notes": sum(place.notes for place in places),
        "questions": len(asked.questions),
        "main": asked.main,
        "best": best.name,
        "left_out": dict(asked.left_out),
        "left_out_first": dict(asked.left_out.first),
        "rejected": {reason: rejected.count(reason) for reason in dict.fromkeys(rejected)},
        "write_seconds": round(sum(place.seconds for place in places), 3),
    }
    seed = options.seed
    if "reads" in parts:
        every = [*systems, *more]
        out["reads"] = measure_reads(asked, places, every, seed, progress, ranked)
    parts = [part for part in parts if part in _parts_of(asked)]
    if "lookups" in parts:
        out["lookups"] = measure_lookups(
            places, systems, asked.name, seed, progress, vectors, min(500, options.limit or 500)
        )
    if "feedback" in parts:
        by_name = {one.name: one for one in systems}
        taught = list({one.name: one for one in (by_name["counts"], best)}.values())
        out["feedback"] = measure_lessons(asked, places, taught, seed, progress)
    if "scores" in parts:
        out["scores"] = measure_scores(
            asked, places, _scored(best, given), others, vectors, seed, progress
        )
    return out


def _scored(best: System, vectors: bool) -> list[System]:
    """The default read with the vector and without."""
    without = System(
        f"{best.name}-text",
        f"{best.title}, text alone",
        best.rank,
        vector=False,
        changes=best.changes,
    )
    return [best, without] if vectors and best.vector else [best]


def _has_vectors(asked: AskedSet, embedder: Embedder) -> bool:
    """Whether the notes have vectors; one's own must be of the embedder that is used."""
    if asked.store is None:
        return True
    try:
        with fa.open(asked.store, create=False, read_only=True, embedder=embedder) as mem:
            return mem.stats()["dim"] is not None
    except (EmbedderMismatch, InvalidInput) as error:
        raise InvalidInput(
            f"the embedder {embedder.name!r} does not fit {asked.store}: {error} The embedder "
            "none leaves vectors out."
        ) from None
