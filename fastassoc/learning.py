"""The verbs that change links: outcomes, links by hand, reinforced reads, and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastassoc import query as checks
from fastassoc.answers import Hit, Recall
from fastassoc.concepts import fold_name
from fastassoc.cues import one_stem
from fastassoc.errors import AmbiguousLink, InvalidInput, NoteNotFound
from fastassoc.handle import Handle, Prepared
from fastassoc.reports import Report
from fastassoc.settings import on_grid
from fastassoc.state import State
from fastassoc.times import micros

__all__ = ["Learning"]


class Learning(Handle):
    """The verbs that change links."""

    def feedback(
        self,
        recall: Recall | None = None,
        *,
        asked: Sequence[str] | None = None,
        used: Sequence[str | Hit] | None = None,
        used_concepts: Sequence[str] | None = None,
        outcome: float,
        operation_id: str | None = None,
    ) -> Report:
        """Teach from an outcome: the links from what was asked to what was used grow or shrink.

        Each unordered pair of an asked and a used concept changes once, by ``outcome`` times the
        layer's step, and so does each pair of used notes where the note layer is taught. Each
        pair of a term (an asked concept, or a stem of a content word of the recall's question)
        and a used note changes by ``outcome`` times the cue layer's step, divided by the number
        of used notes. A negative outcome makes no link that was not there, except in a layer
        without a floor, as the cue layer is: a note that was rated wrong loses. Valences of the
        links and of the used notes move towards the outcome.

        Parameters
        ----------
        recall : Recall, optional
            The answer that is rated: its `query_concepts` were asked, with the words of its text,
            `query_stems`.
        asked : list of str, optional
            Concepts that were asked.
        used : list of str or Hit, optional
            Notes that were used: their concepts count as used. At most 1,000 where the note
            layer is taught.
        used_concepts : list of str, optional
        outcome : float
            How much it helped, in [-1, 1].
        operation_id : str, optional

        Returns
        -------
        Report
            ``updated`` notes, ``missing`` ids that are no live notes, the links' counts, and
            ``cues_changed`` for links from terms to notes.

        Raises
        ------
        InvalidInput
            The outcome is not in [-1, 1], or nothing was used.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> mem.feedback(asked=["timeout"], used_concepts=["retry"], outcome=1.0).links_created
        1
        """
        amount = checks.real(outcome, "outcome", -1.0, 1.0)
        if recall is not None and not isinstance(recall, Recall):
            raise InvalidInput(f"recall: found {type(recall).__name__}, expected what read gave.")
        names = list(recall.query_concepts) if recall is not None else []
        names += checks.list_of_names(asked, "asked") if asked is not None else ()
        ids = [] if used is None else list(dict.fromkeys(checks.note_ids(used, "used")))
        given = (
            () if used_concepts is None else checks.list_of_names(used_concepts, "used_concepts")
        )
        if not ids and not given:
            raise InvalidInput("nothing was used: give used= (note ids) or used_concepts=.")
        settings = self.settings
        body = {
            "asked": spelled(names, settings.names),
            "stems": [] if recall is None else list(dict.fromkeys(recall.query_stems)),
            "names": spelled(given, settings.names),
            "outcome": amount,
            "amount": on_grid(amount * settings.concept_links.teach_step),
            "together": on_grid(amount * settings.note_links.teach_step),
        }
        if settings.note_links.teach_step and len(ids) > checks.MOST_REINFORCED:
            raise InvalidInput(
                f"used: found {len(ids)} notes, expected at most {checks.MOST_REINFORCED}: every "
                "two of them would be linked."
            )
        missing: list[str] = []

        def prepare(state: State) -> Prepared | Report:
            rows = state.notes.rows
            missing.extend(note for note in ids if note not in rows)
            body["used"] = live = [note for note in ids if note in rows]
            step = state.settings.cue_links.teach_step
            body["share"] = on_grid(amount * step / len(live)) if live else 0.0
            return (body, None) if live or given else Report()

        report = self._change("feedback", prepare, operation_id)
        report.missing = missing
        return report

    def link(
        self,
        a: str,
        b: str,
        weight: float,
        *,
        layer: str | None = None,
        operation_id: str | None = None,
    ) -> Report:
        """Add to the taught part of a link; the layer's bounds hold.

        Ids of two live notes are linked in the note layer, any other names as concepts.

        Parameters
        ----------
        a, b : str
            In the layer ``"cue"`` a is a term, b the id of a note. A concept that a live note or a
            link holds is meant by its name; any other word stands for its stem.
        weight : float
            What to add; negative takes away. It makes no link where there is none, except in a
            layer without a floor.
        layer : {"concept", "note", "cue"}, optional
            Say it where both names are concepts and also ids of notes. A cue link is only made
            where it is said.
        operation_id : str, optional

        Returns
        -------
        Report

        Raises
        ------
        AmbiguousLink
            Both names are ids of live notes and names of concepts.
        NoteNotFound
            ``layer="note"``, and a name is no live note's id; ``layer="cue"``, and b is not.
        InvalidInput
            A value cannot be taken, or a is b; ``layer="cue"``, and a is neither a concept nor one
            content word.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.link("timeout", "backoff", 2.0)
        >>> mem.links.weight("backoff", "timeout")
        2.0
        """
        amount = on_grid(checks.real(weight, "weight", -1e9, 1e9))
        return self._link("link", a, b, {"amount": amount}, layer, operation_id)

    def unlink(
        self, a: str, b: str, *, layer: str | None = None, operation_id: str | None = None
    ) -> Report:
        """Set a link's weight to the floor; what notes wrote stays counted.

        Parameters
        ----------
        a, b : str
            In the layer ``"cue"`` a is every term of that name: the concept and the stem.
        layer : {"concept", "note", "cue"}, optional
        operation_id : str, optional

        Returns
        -------
        Report
            With no link changed or removed where there is none.

        Raises
        ------
        AmbiguousLink, NoteNotFound, InvalidInput
            As in `link`.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.link("timeout", "backoff", 2.0)
        >>> mem.unlink("timeout", "backoff").links_removed
        1
        """
        return self._link("unlink", a, b, {}, layer, operation_id)

    def _link(
        self,
        kind: str,
        a: str,
        b: str,
        body: dict[str, Any],
        layer: str | None,
        operation_id: str | None,
    ) -> Report:
        checks.one_of(layer, "layer", (None, "concept", "note", "cue"))
        checks.list_of_names([a, b], "names")

        def prepare(state: State) -> Prepared:
            if layer == "cue":
                need_notes(state, b)
                term = self._term(state, a) if kind == "link" else self._terms(state, a)
                return {"layer": "cue", **term, "b": b, **body}, None
            if layer == "note" or (layer is None and self._are_notes(state, a, b)):
                need_notes(state, a, b)
                if a == b:
                    raise InvalidInput(f"{a!r} is given twice: a link joins two notes.")
                return {"layer": "note", "a": a, "b": b, **body}, None
            names = spelled([a, b], self.settings.names)
            if len(names) < 2:
                raise InvalidInput(f"{a!r} and {b!r} are one concept: a link joins two.")
            return {"layer": "concept", "a": names[0], "b": names[1], **body}, None

        return self._change(kind, prepare, operation_id)

    def _term(self, state: State, name: str) -> dict[str, Any]:
        """The kind of a term, and what names it: a concept that something holds, or a stem."""
        named = spelled([name], self.settings.names)[0]
        concept = state.vocabulary.find_key(named[0])
        if concept is not None and state.holds(concept):
            return {"term": "concept", "a": named}
        stem = one_stem(name, state.settings.language)
        if stem is None:
            raise InvalidInput(
                f"found {name!r}, expected the name of a concept of the store, or one word that is "
                "no stop word: a cue link joins one term to a note."
            )
        return {"term": "stem", "a": stem}

    def _terms(self, state: State, name: str) -> dict[str, Any]:
        """Every term of a name: the concept or the stem, and under ``stems`` all other stems."""
        stems = state.cues.stems.named(name, state.settings.language)
        try:
            first = self._term(state, name)
        except InvalidInput:
            if not stems:
                raise
            first = {"term": "stem", "a": stems[0]}  # a stem that is no content word
        return {**first, "stems": [stem for stem in stems if stem != first["a"]]}

    def _are_notes(self, state: State, a: str, b: str) -> bool:
        """Whether two names can only be ids of notes; refuse what can be both."""
        if a not in state.notes.rows or b not in state.notes.rows:
            return False
        if all(state.vocabulary.find(name) is not None for name in (a, b)):
            raise AmbiguousLink(
                f"{a!r} and {b!r} are ids of notes and names of concepts: say layer="
                '"note" or layer="concept".'
            )
        return True

    # -- keeping and fading ---------------------------------------------------------------------

    def _may_reinforce(self) -> None:
        self._usable(writing=True)

    def _reinforce(self, recall: Recall, session: str | None) -> None:
        """Strengthen what a read returned, as one operation."""
        linked = [hit.id for hit in recall if hit.source == "association"]
        direct = [hit.id for hit in recall if hit.source != "association"]

        def prepare(state: State) -> Prepared | Report:
            held = state.notes.rows
            body = {
                "direct": [note for note in direct if note in held],
                "associated": [note for note in linked if note in held],
                "session": session,
                "amount": state.settings.reinforce_step,
            }
            return (body, None) if body["direct"] or body["associated"] else Report()

        if len(recall):
            self._change("reinforce", prepare, None)

    def tick(self, now: Any = None, *, operation_id: str | None = None) -> Report:
        """Do what time asks for: notes long at the floor of their retention move to the cold tier.

        Days count, never calls: a second call at the same time does nothing, and any process may
        call it. Weights and retention need no tick; they fade by the clock.

        Parameters
        ----------
        now : datetime, str or int, optional
            The time to look at; the clock's by default. Naive times are UTC.
        operation_id : str, optional

        Returns
        -------
        Report
            ``updated`` notes moved.

        Raises
        ------
        InvalidInput
            `now` is no time.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory(settings=fa.Settings.cognitive())
        >>> nid = mem.write("Tea is hot.", created_at="2026-01-01")
        >>> mem.tick().updated, mem.tick("2040-01-01").updated, mem.get(nid).tier
        (0, 1, 'cold')
        """
        asked = None if now is None else micros(now, "now")

        def prepare(state: State) -> Prepared | Report:
            at = max(self._now(), state.time) if asked is None else asked
            return ({"now": at}, None) if len(state.due(at)) else Report()

        return self._change("tick", prepare, operation_id)


def spelled(names: Sequence[str], mode: str) -> list[list[str]]:
    """Folded names with their spelling, each once, in order."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(fold_name(name, mode), name)
    return [[key, shown] for key, shown in found.items()]


def need_notes(state: State, *notes: str) -> None:
    """Raise where a note is not there."""
    for note in notes:
        if note not in state.notes.rows:
            raise NoteNotFound(f"no live note has the id {note!r}.")
