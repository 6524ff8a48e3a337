"""The three checks: a read follows links, teaching changes it, and that outlives the process.

Everything happens on a backup of the store, through the public API alone, and each check comes
with its evidence. ``fastassoc check PATH`` prints it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastassoc as fa
from fastassoc.plural import count

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Check", "CheckReport", "check_store"]

CANDIDATES = 500  # heaviest links among which a question is looked for
ROUNDS = 2  # times that the answer is said to have helped


@dataclass(frozen=True)
class Check:
    """One question put to the store.

    Attributes
    ----------
    title : str
        What is checked, as a sentence.
    passed : bool
    evidence : list of str
        What was seen, line by line.
    """

    title: str
    passed: bool
    evidence: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"title": self.title, "passed": self.passed, "evidence": self.evidence}


@dataclass(frozen=True)
class CheckReport:
    """The three checks of one store.

    Attributes
    ----------
    checks : list of Check
        Empty where the store holds nothing to check.
    asked : str or None
        The concept that was asked.
    reason : str or None
        Why nothing could be checked.
    """

    checks: list[Check] = field(default_factory=list)
    asked: str | None = None
    reason: str | None = None

    @property
    def passed(self) -> bool:
        """Whether no check failed; true for a store with nothing to check."""
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "passed": self.passed,
            "asked": self.asked,
            "reason": self.reason,
            "checks": [check.to_dict() for check in self.checks],
        }


def check_store(path: str | os.PathLike[str], *, timeout: float = 10.0) -> CheckReport:
    """Run the three checks on a backup of the store at `path`, which stays as it is.

    Parameters
    ----------
    path : str or path
        The store.
    timeout : float
        Seconds to wait for another process's write.

    Returns
    -------
    CheckReport
        Without checks, and with a reason, for a store without a link at the threshold.

    Raises
    ------
    FastAssocError
        The store cannot be opened or copied.

    Examples
    --------
    >>> import tempfile, fastassoc as fa
    >>> folder = tempfile.mkdtemp() + "/small.fa"
    >>> with fa.open(folder) as mem:
    ...     report = mem.write_batch([
    ...         {"text": "Retry after a timeout.", "concepts": ["timeout", "retry"]},
    ...         {"text": "Timeouts want a retry.", "concepts": ["timeout", "retry"]},
    ...         {"text": "A retry needs backoff.", "concepts": ["retry", "backoff"]},
    ...     ])
    >>> check_store(folder).passed
    True
    """
    with tempfile.TemporaryDirectory(prefix="fastassoc-check-") as folder:
        copy = Path(folder) / "copy.fa"
        with fa.open(path, create=False, read_only=True, timeout=timeout) as mem:
            mem.backup(copy)
        with fa.open(copy, create=False) as mem:
            question = find_question(mem)
            if isinstance(question, str):
                return CheckReport(reason=question)
            first, question = check_association(mem, question)
            second, taught = check_feedback(mem, question)
        third = check_fresh_process(copy, question, taught)
    return CheckReport([first, second, third], asked=question.asked)


# -- a question that only a link can answer -----------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A concept to ask, and what a link leads to from there.

    Attributes
    ----------
    asked, far : str
        Ends of a link at the threshold; some note carries `far` and not `asked`.
    note : str
        Id of such a note.
    k : int
        Hits to ask for: every note that carries `asked`, and some more.
    """

    asked: str
    far: str
    note: str
    k: int


def find_question(mem: fa.Memory) -> Question | str:
    """The question with the fewest direct answers among the heaviest links, or why there is none.

    The answer to expect comes from the plain tables, so that a read that follows no link is caught.
    """
    threshold = mem.settings.concept_links.threshold
    best = [link for link in mem.links.top(CANDIDATES) if link["weight"] >= threshold]
    if not best:
        return (
            f"no link between concepts has reached the threshold of {threshold:g}, so no read can "
            "follow one: write more notes that share concepts, or teach with feedback."
        )
    carriers = _carriers(mem.notes.to_arrow(), {link[end] for link in best for end in ("a", "b")})
    for many, _, asked, far in sorted(_questions(best, carriers)):
        # a spelling variant is asked along, so it is named and no link is needed to reach it
        if asked_of(mem, asked, 1).query_concepts != [asked]:
            continue
        for note in sorted(carriers[far] - carriers.get(asked, set()))[:CANDIDATES]:
            if not mem.get(note).superseded_by:
                return Question(asked, far, note, k=many + 10)
    return (
        "every note on one side of the heaviest links carries the other side as well, so a link "
        "can bring nothing that was not named."
    )


def _questions(
    links: list[dict[str, Any]], carriers: dict[str, set[str]]
) -> Iterator[tuple[int, int, str, str]]:
    """Ends of links with a note on the far side only: fewest notes on the near side first."""
    for place, link in enumerate(links):
        for asked, far in ((link["a"], link["b"]), (link["b"], link["a"])):
            near = carriers.get(asked, set())
            if carriers.get(far, set()) - near:
                yield len(near), place, asked, far


def _carriers(notes: pa.Table, names: set[str]) -> dict[str, set[str]]:
    """Ids of the notes that carry each name."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[str, set[str]] = {}
    wanted = pa.array(sorted(names))
    batches: Any = notes.select(["id", "concepts"]).to_batches()
    for batch in batches:
        lists = batch.column("concepts")
        parents, flat = pc.list_parent_indices(lists), pc.list_flatten(lists)
        mask = pc.is_in(flat, wanted)
        ids = batch.column("id").take(parents.filter(mask)).to_pylist()
        for note, name in zip(ids, flat.filter(mask).to_pylist(), strict=True):
            found.setdefault(name, set()).add(note)
    return found


# -- the checks ---------------------------------------------------------------------------------


def check_association(mem: fa.Memory, question: Question) -> tuple[Check, Question]:
    """Does a read return a note that the query never named, and name the link.

    The question comes back with the note and the link that the read found, if it found one.
    """
    title = "A read returns a note that the query never named, and names the link"
    recall = asked_of(mem, question.asked, question.k)
    named = set(recall.query_concepts)
    for hit in recall:
        if hit.source != "association" or named & set(hit.concepts):
            continue
        for step in hit.path:
            if step.layer != "concept":
                continue
            weight = mem.links.weight(step.source, step.target)
            good = weight == step.weight and step.target in hit.via
            evidence = [
                f"asked: {question.asked}",
                f"found: {_short(hit.text)}",
                f"carries: {_names(hit.concepts)}",
                f"by the link {step.source} ─{step.weight:g}→ {step.target}",
            ]
            if not good:
                evidence.append(f"but the store says {weight:g} for this link")
            return Check(title, good, evidence), replace(question, far=step.target, note=hit.id)
    evidence = [
        f"asked: {question.asked}, with {count(len(recall), 'hit')}",
        f"expected a note such as {question.note}, over the link to {question.far} "
        f"(weight {mem.links.weight(question.asked, question.far):g}), but none came",
    ]
    return Check(title, False, evidence), question


def check_feedback(mem: fa.Memory, question: Question) -> tuple[Check, dict[str, Any]]:
    """After feedback, does the expansion change; also what the taught answer is."""
    before = dict(asked_of(mem, question.asked, question.k).expanded_concepts)
    far_before = mem.links.weight(question.asked, question.far)
    for _ in range(ROUNDS):
        mem.feedback(asked=[question.asked], used=[question.note], outcome=1.0)
    taught = answer(mem, question)
    after = taught["expanded"]
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    evidence = [
        f"said twice: {question.asked} was asked, and the note {question.note} helped",
        f"the link {question.asked} ─ {question.far}: {far_before:g} before, "
        f"{taught['weight']:g} after",
        *(f"expansion, {name}: {_shown(before.get(name))} before, {_shown(after.get(name))} after"
          for name in changed[:5]),
    ]  # fmt: skip
    if not changed:
        evidence.append(f"the expansion stayed as it was: {_listed(before)}")
    title = "After feedback the expansion changes"
    return Check(title, bool(changed), evidence), taught


def check_fresh_process(copy: Path, question: Question, taught: dict[str, Any]) -> Check:
    """A fresh process gives the taught answer, links rebuilt from the notes the written one."""
    title = "A new process answers as taught; links rebuilt from notes do not"
    given = {"asked": question.asked, "far": question.far, "note": question.note, "k": question.k}
    environment = dict(os.environ)
    root = str(Path(__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(
        part for part in (root, environment.get("PYTHONPATH", "")) if part
    )
    done = subprocess.run(
        [sys.executable, "-c", "from fastassoc.check import serve; serve()", str(copy)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Check(title, False, [f"the new process failed: {last}"])
    fresh = json.loads(done.stdout)
    same = fresh["taught"] == json.loads(json.dumps(taught))
    rebuilt, written = fresh["rebuilt"], fresh["written"]
    forgot = rebuilt["weight"] == written and rebuilt["weight"] != taught["weight"]
    forgot = forgot and rebuilt["cue"] == 0.0
    evidence = [
        f"process {fresh['pid']} (this one is {os.getpid()}): "
        + ("the same hits, scores, order and paths" if same else "another answer"),
        f"the link {question.asked} ─ {question.far}: {fresh['taught']['weight']:g} there, "
        f"{taught['weight']:g} here",
        f"rebuilt from the notes: {rebuilt['weight']:g}, which is what notes wrote ({written:g})",
        f"the link from {question.asked} to the note {question.note}, only ever taught: "
        f"{fresh['taught']['cue']:g} there, rebuilt {rebuilt['cue']:g}",
    ]
    if same and not forgot:
        evidence.append("but the rebuilt links should give the written weight and nothing taught")
    return Check(title, same and forgot, evidence)


def asked_of(mem: Any, concept: str, k: int) -> fa.Recall:
    """What a concept leads to by the weights of links, which is what the checks are about.

    Notes may fade, and then other ranks answer differently from one moment to the next.
    """
    recall: fa.Recall = mem.read(concepts=[concept], k=k, rank="counts")
    return recall


def answer(mem: Any, question: Question) -> dict[str, Any]:
    """A read's answer, in JSON values, to compare between processes."""
    recall = asked_of(mem, question.asked, question.k)
    return {
        "expanded": dict(recall.expanded_concepts),
        "hits": [
            [hit.id, hit.rank_score, hit.source, list(hit.via), [list(step) for step in hit.path]]
            for hit in recall
        ],
        "weight": mem.links.weight(question.asked, question.far),
        "cue": mem.cue_links.weight(question.asked, question.note, "concept"),
    }


def serve() -> None:
    """The fresh process of the third check: a question on stdin, its answers on stdout."""
    question = Question(**json.loads(sys.stdin.buffer.read()))
    with fa.open(sys.argv[1], create=False, read_only=True) as mem:
        link = mem.links.get(question.asked, question.far)
        answers = {
            "pid": os.getpid(),
            "taught": answer(mem, question),
            "rebuilt": answer(mem.rebuild_links(), question),
            "written": link["written"] if link else 0.0,
        }
    sys.stdout.write(json.dumps(answers))


def _names(names: list[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


def _shown(strength: float | None) -> str:
    return "absent" if strength is None else f"{strength:g}"


def _listed(expanded: dict[str, float]) -> str:
    return ", ".join(f"{name} {strength:g}" for name, strength in list(expanded.items())[:10])


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else flat[:99] + "…"
