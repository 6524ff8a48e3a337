"""Every kind of operation, and what it does to the tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fastassoc.batch import NoteBatch
from fastassoc.columns import places_in
from fastassoc.concepts import Vocabulary
from fastassoc.cues import Cues, term_codes
from fastassoc.errors import InvalidInput
from fastassoc.importing import concept_ends, cue_ends, import_notes, note_ends, with_links
from fastassoc.kernels.links import pair_keys
from fastassoc.links import NOTHING, Changed, LinkMatrix, keys_of
from fastassoc.notes import NoteTable
from fastassoc.reports import Report
from fastassoc.settings import Settings, in_use
from fastassoc.space import Space

__all__ = ["Changes", "Operation"]

Spelled = Sequence[Sequence[str]]  # pairs of a folded name and its spelling


@dataclass(slots=True)
class Operation:
    """One resolved change: intent with everything decided that apply must not decide.

    Attributes
    ----------
    kind : str
        Which of State's ``_apply_*`` takes it.
    at : int
        Its time, microseconds UTC.
    body : dict
        JSON values.
    op_id : str or None
        The caller's name for it; a repeat is not applied.
    batch : NoteBatch or None
        The notes of a write, where they are at hand or lie in a bulk segment.
    vectors : bytes or None
        Vectors of an operation without a batch, float32 little-endian, one after the other.
    """

    kind: str
    at: int
    body: dict[str, Any]
    op_id: str | None = None
    batch: NoteBatch | None = field(default=None, repr=False)
    vectors: bytes | None = field(default=None, repr=False)


class Changes:
    """The tables that operations change; each ``_apply_<kind>`` applies one kind.

    Deterministic: no clock, no random source, no order of a set, nothing from the disk.

    Parameters
    ----------
    settings : Settings
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.vocabulary = Vocabulary(settings.names, settings.language)
        self.notes = NoteTable(settings.retention)
        self.links = LinkMatrix(settings.concept_links, settings.valence_rate)
        self.note_links = LinkMatrix(settings.note_links, settings.valence_rate)  # between rows
        self.cues = Cues(settings.cue_links, settings.valence_rate)
        self.space = Space()
        self.ingests: dict[str, dict[str, Any]] = {}  # unfinished ones, by key
        self.position = 0
        self.forgotten: list[tuple[int, int]] = []  # position and sequence of each note forgotten
        self._text_removed: list[int] = []

    def _apply_create(self, operation: Operation) -> Report:
        return Report(position=self.position)

    def _apply_nothing(self, operation: Operation) -> Report:
        return Report(position=self.position)

    def _apply_configure(self, operation: Operation) -> Report:
        self.settings = self.settings.with_changes(
            in_use(operation.body["changes"]), read_only=True
        )
        return Report(position=self.position)

    def _apply_write(self, operation: Operation) -> Report:
        batch = operation.batch
        if batch is None:
            batch = NoteBatch.from_rows(operation.body["rows"])
        self._mark_ingest(operation.body.get("ingest"))
        first, replaced, made = len(self.notes.ids), 0, NOTHING
        missing: list[str] = []
        cues = 0
        for part, old in self._runs(batch, operation.body["on_duplicate"]):
            gone, lost = self._forget_rows(old, operation.at)
            cues += lost.removed
            made = both(made, both(gone, self._write_new(part, operation.at, missing)))
            replaced += len(old)
        written = len(self.notes.ids) - first
        return Report(
            written=written - replaced,
            replaced=replaced,
            skipped=len(batch) - written,
            ids=self.notes.ids[first:],
            missing=list(dict.fromkeys(missing)),
            cues_changed=cues,
            position=self.position,
            **changes(made),
        )

    def _write_new(self, batch: NoteBatch, at: int, missing: list[str]) -> Changed:
        """Write notes whose ids are new; ids of no older note that they supersede are `missing`."""
        ids = self._intern(batch)
        concepts = ids[batch.concepts] if len(batch.concepts) else batch.concepts
        rows = self.notes.append(batch, concepts, at)
        made = self.links.write(pair_keys(concepts, batch.ptr), at)
        matrix, places = batch.vector_matrix()
        if len(places):
            self.space.points.append(rows[places], matrix)
        joined = self._join_session(batch, rows, at)
        superseding = batch.columns.get("supersedes")
        if superseding is not None:
            for row, names in zip(rows.tolist(), superseding.to_pylist(), strict=True):
                missing += self.notes.supersede(row, names or [])
        return both(made, joined)

    def _join_session(self, batch: NoteBatch, rows: NDArray[np.int64], at: int) -> Changed:
        """Link new notes to earlier ones of their session, as the settings say."""
        pairs = self.notes.join_sessions(rows, batch.columns.get("session"))
        rule, tags = self.settings.session_links, batch.columns.get("tags")
        if rule == "consecutive" and pairs:
            ends = np.array(pairs, np.uint32)
            return self.note_links.write(keys_of(ends[:, 0], ends[:, 1]), at)
        if rule == "cosine" and tags is not None:
            seqs, weights = (half.to_numpy() for half in tags.flatten().flatten())
            newer = np.repeat(rows, tags.value_lengths().fill_null(0).to_numpy())
            older = self._rows_of(seqs)
            if not ((older < newer) & np.isfinite(weights)).all():
                raise InvalidInput("a session's link leads to no earlier note, or has no weight.")
            return self.note_links.write(keys_of(newer, older), at, weights)
        return NOTHING

    def _mark_ingest(self, ledger: dict[str, Any] | None) -> None:
        if ledger is None:
            return
        if ledger["final"]:
            self.ingests.pop(ledger["key"], None)
        else:
            self.ingests[ledger["key"]] = ledger

    def _apply_ingest(self, operation: Operation) -> Report:
        self._mark_ingest(operation.body["ingest"])
        return Report(position=self.position)

    def _runs(self, batch: NoteBatch, rule: str) -> Iterator[tuple[NoteBatch, list[int]]]:
        """Parts of a batch to write in turn, each with the rows to forget before it.

        A note that replaces one is a part of its own: forgetting all first and writing all after
        would clamp weights in another order than one write after the other.
        """
        ids, known = batch.ids, self.notes.rows
        if len(set(ids)) == len(ids) and known.keys().isdisjoint(ids):
            yield batch, []
            return
        run: dict[str, int] = {}
        for place, note in enumerate(ids):
            if note not in known and note not in run:
                run[note] = place
            elif rule == "replace":
                if run:
                    yield batch.take(list(run.values())), []
                    run = {}
                yield batch.take([place]), [known[note]]
        if run:
            yield batch.take(list(run.values())), []

    def _intern(self, batch: NoteBatch) -> NDArray[np.uint32]:
        """Concept id of each of the batch's names; those that no note uses are left out (0)."""
        used, keys, spellings = batch.used(), batch.keys, batch.spellings
        if len(used) == len(keys) and (used[:-1] < used[1:]).all():  # as they come: the rule
            return self.vocabulary.intern(keys, spellings)
        ids = np.zeros(len(keys), np.uint32)
        codes = used.tolist()
        ids[used] = self.vocabulary.intern(
            [keys[code] for code in codes], [spellings[code] for code in codes]
        )
        return ids

    def _apply_feedback(self, operation: Operation) -> Report:
        body = operation.body
        amount, outcome = body["amount"], body["outcome"]
        rows = [self.notes.rows[note] for note in body["used"]]
        used = self._names(body["names"], create=amount > 0)
        if rows:
            used += np.concatenate(self.notes.carried(rows)).tolist()
        share = body.get("share", 0.0)  # operations of format 2 teach no cue
        cued = bool(rows) and self.cues.makes(share)
        asked = self._names(body["asked"], create=cued or (amount > 0 and len(used) > 0))
        made = self.links.teach_between(
            asked, used, amount, outcome, operation.at, create=amount > 0
        )
        taught = NOTHING
        if rows:
            if self.settings.note_links.teach_step:
                together = body.get("together", 0.0)
                made = both(made, self._teach_notes(rows, together, outcome, operation.at))
            stems = self._stems(body.get("stems", ()), create=cued)
            codes = term_codes(asked, stems)
            taught = self.cues.teach(codes, rows, share, outcome, operation.at)
        rate = self.settings.valence_rate
        for row in rows:
            held = self.notes.valence.get(row, 0.0)
            moved = min(1.0, max(-1.0, held + rate * (outcome - held)))
            if moved:
                self.notes.valence[row] = moved
            else:  # as one that never moved: a snapshot does not tell them apart
                self.notes.valence.pop(row, None)
        created, changed, removed = made
        return Report(
            updated=len(rows),
            links_created=created,
            links_changed=changed,
            links_removed=removed,
            cues_changed=sum(taught),
            position=self.position,
        )

    def _stems(self, stems: Sequence[str], *, create: bool) -> list[int]:
        """Ids of stems; unknown ones are made, or left out."""
        if create:
            return self.cues.stems.intern(stems)
        known = map(self.cues.stems.find, stems)
        return [stem for stem in known if stem is not None]

    def _teach_notes(self, rows: Sequence[int], amount: float, outcome: float, at: int) -> Changed:
        """Add to the link of each pair of rows; a NaN outcome leaves its valence."""
        ends = np.array(sorted(set(rows)), np.uint64)
        if (amount == 0.0 and math.isnan(outcome)) or len(ends) < 2:
            return NOTHING
        first, second = np.triu_indices(len(ends), 1)
        keys = ends[first] << np.uint64(32) | ends[second]
        return self.note_links.teach(
            keys, np.full(len(keys), amount), np.full(len(keys), outcome), at
        )

    def _apply_reinforce(self, operation: Operation) -> Report:
        """Keep what a read returned: accesses, stabilities, and links between its direct hits."""
        body = operation.body
        direct = [self.notes.rows[note] for note in body["direct"]]
        associated = [self.notes.rows[note] for note in body["associated"]]
        self.notes.states.reinforce(direct, associated, body["session"], operation.at)
        made = self._teach_notes(direct, body["amount"], math.nan, operation.at)
        return Report(
            updated=len(direct) + len(associated), position=self.position, **changes(made)
        )

    def _apply_tick(self, operation: Operation) -> Report:
        rows = self.due(operation.body["now"])
        self.notes.states.cool(rows)
        return Report(updated=len(rows), position=self.position)

    def due(self, now: int) -> NDArray[np.int64]:
        """Rows of live notes that a tick at `now` moves to the cold tier, int64 [m]."""
        rows = self.notes.states.due(now)
        due: NDArray[np.int64] = rows[self.notes.alive.array[rows] == 1]
        return due

    def _apply_embedder(self, operation: Operation) -> Report:
        self.space.embedder = operation.body["embedder"]
        return Report(position=self.position)

    def _apply_reembed(self, operation: Operation) -> Report:
        body = operation.body
        rows = self._rows_of(body["seqs"])
        before = self.space.through if self.space.moving == body["embedder"] else -1
        if body["through"] < max(before, *body["seqs"], -1):
            raise InvalidInput("a move has vectors of notes that it has not seen.")
        flat = np.frombuffer(operation.vectors or b"", "<f4").astype(np.float32)
        matrix = flat.reshape(len(rows), body["embedder"]["dim"])
        self.space.stage(body["embedder"], rows.tolist(), matrix, body["through"])
        return Report(updated=len(rows), position=self.position)

    def _rows_of(self, seqs: Sequence[int]) -> NDArray[np.int64]:
        """The rows of notes by their sequences."""
        rows, known = places_in(self.notes.seq.array, seqs)
        if not known.all():
            raise InvalidInput("a sequence is that of no note.")
        return rows

    def _apply_reembedded(self, operation: Operation) -> Report:
        self.space.finish(operation.body["embedder"], self.position)
        return Report(position=self.position)

    def _names(self, names: Spelled, *, create: bool) -> list[int]:
        """Concept ids of spelled names; unknown ones are made, or left out."""
        known = [self.vocabulary.find_key(key) for key, _ in names]
        if create and None in known:
            made = self.vocabulary.intern([key for key, _ in names], [shown for _, shown in names])
            return cast(list[int], made.tolist())
        return [concept for concept in known if concept is not None]

    def _pair(self, body: Mapping[str, Any], *, create: bool) -> NDArray[np.uint64]:
        ids = self._names([body["a"], body["b"]], create=create)
        return keys_of(*ids) if len(ids) == 2 else np.array([], np.uint64)

    def _apply_link(self, operation: Operation) -> Report:
        amount = operation.body["amount"]
        if operation.body["layer"] == "note":
            keys, nothing = self._note_pair(operation.body), np.full(1, np.nan)
            made = self.note_links.teach(keys, np.full(1, amount), nothing, operation.at)
            return Report(position=self.position, **changes(made))
        if operation.body["layer"] == "cue":
            codes, rows = self._cue(operation.body, create=self.cues.makes(amount))
            made = self.cues.teach(codes, rows, amount, math.nan, operation.at)
            return Report(position=self.position, cues_changed=sum(made))
        below = self.settings.concept_links.bounds[0] < 0  # a link may be negative
        keys = self._pair(operation.body, create=amount > 0 or (below and amount < 0))
        nothing = np.full(len(keys), np.nan)
        made = self.links.teach(keys, np.full(len(keys), amount), nothing, operation.at)
        return Report(position=self.position, **changes(made))

    def _note_pair(self, body: Mapping[str, Any]) -> NDArray[np.uint64]:
        return keys_of(self.notes.rows[body["a"]], self.notes.rows[body["b"]])

    def _cue(
        self, body: Mapping[str, Any], *, create: bool
    ) -> tuple[NDArray[np.uint64], list[int]]:
        """Codes of terms, none for one that is not known, and the row of a note."""
        named = self._names([body["a"]] if body["term"] == "concept" else [], create=create)
        words = [body["a"]] if body["term"] == "stem" else []
        stems = self._stems([*words, *body.get("stems", ())], create=create)
        codes = term_codes(named, stems)
        return codes, [self.notes.rows[body["b"]]]

    def _apply_unlink(self, operation: Operation) -> Report:
        if operation.body["layer"] == "cue":
            made = self.cues.unlink(*self._cue(operation.body, create=False), operation.at)
            return Report(position=self.position, cues_changed=sum(made))
        if operation.body["layer"] == "note":
            made = self.note_links.unlink(self._note_pair(operation.body), operation.at)
            return Report(position=self.position, **changes(made))
        made = self.links.unlink(self._pair(operation.body, create=False), operation.at)
        return Report(position=self.position, **changes(made))

    def _apply_update(self, operation: Operation) -> Report:
        row = self.notes.rows[operation.body["id"]]
        self.notes.set_metadata(row, operation.body["metadata"])
        return Report(updated=1, position=self.position)

    def _apply_forget(self, operation: Operation) -> Report:
        rows = [self.notes.rows[note] for note in operation.body["ids"]]
        gone, lost = self._forget_rows(rows, operation.at)
        return Report(
            forgotten=len(rows),
            cues_changed=lost.removed,
            position=self.position,
            **changes(gone),
        )

    def _forget_rows(self, rows: Sequence[int], at: int) -> tuple[Changed, Changed]:
        """Forget notes; what became of links that reports count, and of cue links."""
        if not rows:
            return NOTHING, NOTHING
        gone = self._unwrite(rows, at)
        if len(self.note_links):
            ends = np.unique(np.concatenate([self.note_links.of(row) for row in rows]))
            gone = both(gone, self.note_links.erase(ends))
        lost = self.cues.forget(rows)
        self.forgotten.extend((self.position, int(self.notes.seq.array[row])) for row in rows)
        self.notes.remove(rows)
        self._text_removed.extend(rows)
        return gone, lost

    def _unwrite(self, rows: Sequence[int], at: int) -> Changed:
        """Take back what notes wrote, faded as far as the links have."""
        parts = [self.notes.concepts_of(row)[0] for row in rows]
        rule = self.settings.concept_links
        if rule.decay_days is None:
            ptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
            return self.links.unwrite(pair_keys(np.concatenate(parts), ptr), at)
        made = []
        for row, part in zip(rows, parts, strict=True):
            keys = pair_keys(part, np.array([0, len(part)], np.int64))
            age = max(0, at - int(self.notes.written_at.array[row]))
            share = rule.write_step * math.exp(-age / rule.decay_us)
            made.append(self.links.unwrite(keys, at, np.full(len(keys), share)))
        return Changed(*(sum(counts) for counts in zip(*made, strict=True)))

    def _apply_import(self, operation: Operation) -> Report:
        """Bring in one part of an export; everything takes exactly the values given."""
        body, settings = operation.body, self.settings
        # by its position an import that goes on knows that nothing was changed meanwhile
        self._mark_ingest({**body["ingest"], "position": self.position})
        rate = settings.valence_rate
        if "store" in body:
            told = body["store"]
            self.settings = settings = settings.with_changes(
                in_use(told["settings"]), read_only=True
            )
            self.space.embedder = told["embedder"] or self.space.embedder
            if told["dim"] is not None and not len(self.space.points):
                nothing = np.empty((0, told["dim"]), np.float32)
                self.space.points.replace(np.empty(0, np.int64), nothing)  # views keep theirs
                self.space.points.dim = told["dim"]
            self.time: int = max(self.time, told["time"] or self.time)
        if "concepts" in body:
            self.vocabulary.intern(*map(list, zip(*body["concepts"], strict=True)))
        if "notes" in body:
            rows, data = body["notes"], operation.vectors
            places, matrix = import_notes(self.notes, self.vocabulary, rows, data, operation.at)
            self.space.points.append(places, matrix)
        if "links" in body:
            ends = concept_ends(self.vocabulary, body["links"])
            self.links = with_links(self.links, ends, body["links"], settings.concept_links, rate)
        if "note_links" in body:
            rows = body["note_links"]
            ends = note_ends(self.notes, rows)
            self.note_links = with_links(self.note_links, ends, rows, settings.note_links, rate)
        if "cue_links" in body:
            rows, cues = body["cue_links"], self.cues
            ends = cue_ends(self.vocabulary, cues.stems, self.notes, rows)
            rows = [row[1:] for row in rows]
            cues.links = with_links(cues.links, ends, rows, settings.cue_links, rate)
        return Report(
            written=len(body.get("notes", ())),
            cues_changed=len(body.get("cue_links", ())),
            links_created=len(body.get("links", ())) + len(body.get("note_links", ())),
            position=self.position,
        )

    def _apply_purge(self, operation: Operation) -> Report:
        """Drop names that no live note and no link holds, and taught stems that no link does."""
        self.cues.purge()
        held = self.held_concepts()
        self.vocabulary.drop(np.flatnonzero(~held).tolist())
        held[: len(self.notes.df)] &= self.notes.df.array == 0
        kept = [self.vocabulary.name(concept) for concept in np.flatnonzero(held).tolist()]
        return Report(kept=kept, position=self.position)

    def holds(self, concept: int) -> bool:
        """Whether a live note or a link of any layer holds a concept."""
        df = self.notes.df.array
        if concept < len(df) and df[concept] > 0:
            return True
        return bool(len(self.links.of(concept))) or self.cues.view().holds(concept)

    def held_concepts(self) -> NDArray[np.bool_]:
        """Which concept ids a live note or a link holds, bool [ids]."""
        held = self.cues.held(self.vocabulary.n_ids)
        df = self.notes.df.array
        held[: len(df)] |= df > 0
        table = self.links.to_arrow()
        held[table.column("a").to_numpy()] = True
        held[table.column("b").to_numpy()] = True
        return held


def both(one: Changed, other: Changed) -> Changed:
    """What two changes did together."""
    return Changed(*(a + b for a, b in zip(one, other, strict=True)))


def changes(made: Changed) -> dict[str, Any]:
    """The link counts of a report."""
    created, changed, removed = made
    return {"links_created": created, "links_changed": changed, "links_removed": removed}
