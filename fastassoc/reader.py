"""The verbs that look: read, graph, associate, recent, get, stats, links and notes as tables."""

from __future__ import annotations

import base64
import binascii
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc import query as checks
from fastassoc.answers import Graph, Page, Recall
from fastassoc.cuetable import CueTable
from fastassoc.embed import Embedder, embed_texts, require_same
from fastassoc.errors import InvalidInput, NoteNotFound
from fastassoc.filters import allowed_rows
from fastassoc.notes import DEFAULT_IMPORTANCE, Note
from fastassoc.query import Query
from fastassoc.read import is_held, needs_text, read
from fastassoc.settings import Settings
from fastassoc.state import StateView
from fastassoc.tables import Concepts, LinksTable, Notes, NotesTable, edge_rows
from fastassoc.times import micros, moment

__all__ = ["Association", "Reader"]

WAITING = (
    "vectors were left out: the store's come from the embedder {!r} (width {}), and this memory "
    "was opened without it (embedder=)"
)
ARGUMENTS = frozenset(signature(Query.checked).parameters)
DEEP_MIN_WEIGHT = 0.05  # what `graph` follows at depth 2 and more, unless it is told


class Association(NamedTuple):
    """A concept that comes to mind, and how strongly.

    Attributes
    ----------
    concept : str
    weight : float
        Its share of what flows from the cues.
    """

    concept: str
    weight: float


class Reader(ABC):
    """What a memory and its control have in common: everything that changes nothing."""

    _latest = 0
    _embedder: Embedder | None = None

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """What reads go by."""

    @abstractmethod
    def _view(self, *, text: bool = False, at_least: int | None = None) -> StateView:
        """The state to read from, caught up with every process."""

    @abstractmethod
    def _now(self) -> int:
        """Microseconds UTC, as the clock tells."""

    def _moment(self, view: StateView) -> int:
        """The time of a look; never goes back, so that a clock set back raises no weight."""
        self._latest = max(self._latest, self._now(), view.time)
        return self._latest

    # -- reads ----------------------------------------------------------------------------------

    def read(
        self,
        query: str | None = None,
        *,
        concepts: Sequence[str] | None = None,
        vector: Any = None,
        like: str | None = None,
        k: int = 10,
        rank: str | None = None,
        hops: int = 1,
        domain: str | Sequence[str] | None = None,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        min_score: float = 0.0,
        order_by: str = "relevance",
        diversity: float = 0.0,
        fingerprint: str | None = None,
        include_superseded: bool = False,
        reinforce: bool = False,
        session: str | None = None,
        at_least: int | None = None,
    ) -> Recall:
        """Return the notes that answer a question, each with the links that brought it.

        Parameters
        ----------
        query : str, optional
            A question or any text. Concepts that it names are asked.
        concepts : list of str, optional
            Concepts to ask by name.
        vector : array of float32 [dim], or list of float, optional
            A point: notes whose vectors lie near are asked, by cosine. Without it, an embedder
            makes one of the text.
        like : str, optional
            Id of a note: ask its concepts, its words and its vector, whichever the rank reads.
        k : int
            The most hits.
        rank : {"counts", "flat", "bridge", "ppr", "retention"}, optional
            How notes are ranked. By default the settings say it; else concepts alone are read by
            ``"counts"`` and everything with a text, a vector or `like` by ``"bridge"``; see
            `Settings`.
        hops : int
            Steps along links, 1 to 3, of the ranks that follow links between concepts or walk
            over those between notes: ``"counts"`` and ``"retention"``.
        domain : str or list of str, optional
        since, until : datetime, str or int, optional
            Bounds of ``created_at``, inclusive.
        where : mapping, optional
            Metadata: ``{key: value}``, ``{key: {"in": [...]}}`` or ``{key: {"contains": x}}``.
            The key ``domain`` means the note's domain.
        min_score : float
            The least `Hit.score`.
        order_by : {"relevance", "recency"}
            Recency sorts the k most relevant hits by time, newest first.
        diversity : float
            0 to 1: how much a hit loses for concepts that it shares with a better one.
        fingerprint : str, optional
            Notes with this fingerprint come first, as those with exactly the query's text do.
        include_superseded : bool
            Whether notes that a later one replaced come too.
        reinforce : bool
            Whether the notes returned are strengthened, as one operation: accesses, stability,
            and, by the settings, the links between those returned without a link's help. At most
            1,000 hits. Any other read changes nothing at all.
        session : str, optional
            The session that a reinforced read belongs to.
        at_least : int, optional
            Wait for this `position` before reading.

        Returns
        -------
        Recall

        Raises
        ------
        InvalidInput
            An argument cannot be taken, or the vector has another width than those of the store.
        NoteNotFound
            `like` is not a live note.
        EmbedderMismatch
            The store has moved to another embedder than this handle's.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Backoff fixed the flaky call.", concepts=["retry", "backoff"])
        >>> mem.read(concepts=["retry"])[0].text
        'Backoff fixed the flaky call.'

        A question of two steps: the second note has no word of it, and comes over what the first
        names.

        >>> _ = mem.write("Ann Lee wrote the parser.", concepts=["Ann Lee"])
        >>> _ = mem.write("Her desk is in Oslo.", concepts=["Ann Lee", "Oslo"])
        >>> hit = mem.read("who wrote the parser?")[1]
        >>> hit.text, hit.source, hit.via
        ('Her desk is in Oslo.', 'association', ['Ann Lee'])
        """
        asked = Query.checked(
            query,
            concepts=concepts,
            vector=vector,
            like=like,
            k=k,
            rank=rank,
            hops=hops,
            domain=domain,
            since=since,
            until=until,
            where=where,
            min_score=min_score,
            order_by=order_by,
            diversity=diversity,
            fingerprint=fingerprint,
            include_superseded=include_superseded,
            reinforce=reinforce,
            session=session,
            at_least=at_least,
        )
        if reinforce:
            self._may_reinforce()
        view = self._view(text=needs_text(asked, self.settings), at_least=asked.at_least)
        recall = self._answer(view, asked, self._moment(view))
        if reinforce:
            self._reinforce(recall, session)
        return recall

    def _answer(self, view: StateView, asked: Query, now: int) -> Recall:
        """Read, with the vector that an embedder makes of the text where there is one."""
        asked, left_out = self._placed(view, asked)
        if asked.vector is not None:
            view = self._with_index(view)
        recall = read(view, asked, self.settings, now)
        if left_out:
            told = (recall.reason, left_out) if recall.reason else (left_out,)
            recall = replace(recall, reason="; ".join(told))
        return recall

    def _placed(self, view: StateView, asked: Query) -> tuple[Query, str | None]:
        """The query with its vector, and why a text has none although notes have."""
        dim = view.points.dim
        if asked.vector is not None:
            check_width(len(asked.vector), dim)
            return asked, None
        rank = asked.rank or self.settings.rank
        wanted = asked.text and asked.text.strip() and rank != "counts"
        if dim is None or not wanted:
            return asked, None
        if self._embedder is None:
            made = view.space.embedder
            return asked, None if made is None else WAITING.format(made["name"], made["dim"])
        require_same(view.space.embedder, self._embedder)
        check_width(self._embedder.dim, dim)
        vectors, given = embed_texts(self._embedder, [str(asked.text)])
        return replace(asked, vector=vectors[0]) if given[0] else asked, None

    def _with_index(self, view: StateView) -> StateView:
        """The view with an index over its vectors, where there is one."""
        return view

    @abstractmethod
    def _may_reinforce(self) -> None:
        """Refuse to strengthen anything where nothing can change."""

    @abstractmethod
    def _reinforce(self, recall: Recall, session: str | None) -> None:
        """Strengthen what a read returned."""

    def read_batch(self, queries: Iterable[str | Mapping[str, Any]], **common: Any) -> list[Recall]:
        """Read many queries from one state of the memory.

        Parameters
        ----------
        queries : iterable of str or mapping
            Texts, or mappings of `read`'s arguments.
        **common
            Arguments for every query; a query's own come first.

        Returns
        -------
        list of Recall
            In the order of the queries, each as `read` alone would give it.

        Raises
        ------
        InvalidInput
            A query cannot be taken; the message names it by number, as that of every error.
        NoteNotFound, EmbedderMismatch
            As in `read`.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Tea is hot.", concepts=["tea"])
        >>> [len(recall) for recall in mem.read_batch(["tea", {"concepts": ["milk"]}])]
        [1, 0]
        """
        if isinstance(queries, (str, bytes, Mapping)) or not hasattr(queries, "__iter__"):
            raise InvalidInput(f"queries: found {queries!r}, expected a list of queries.")
        asked: list[Query] = []
        for number, one in enumerate(queries):
            if not isinstance(one, (str, Mapping)):
                raise InvalidInput(f"query {number}: found {one!r}, expected a text or a mapping.")
            options = {**common, **({"query": one} if isinstance(one, str) else one)}
            unknown = set(options) - ARGUMENTS
            if unknown:
                names = ", ".join(sorted(map(str, unknown)))
                raise InvalidInput(f"query {number}: unknown arguments: {names}.")
            try:
                asked.append(Query.checked(**options))
            except InvalidInput as error:
                raise InvalidInput(f"query {number}: {error}") from None
        text = any(needs_text(one, self.settings) for one in asked)
        latest = max((one.at_least or 0 for one in asked), default=0)
        view = self._view(text=text, at_least=latest or None)
        now = self._moment(view)
        if any(one.reinforce for one in asked):
            self._may_reinforce()
        recalls = []
        for number, checked in enumerate(asked):
            try:
                recalls.append(self._answer(view, checked, now))
            except (InvalidInput, NoteNotFound) as error:  # only the store tells a wrong width
                raise type(error)(f"query {number}: {error}") from error
        for checked, recall in zip(asked, recalls, strict=True):
            if checked.reinforce:
                self._reinforce(recall, checked.session)
        return recalls

    def associate(self, concepts: Sequence[str], k: int = 10) -> list[Association]:
        """Return the concepts that come to mind at the given ones.

        Shares flow from the cues along positive links, three steps by default: see
        `AssociationRule`. From one cue they reach what it is linked to over others, too; several
        cues mostly count by what each is linked to itself.

        Parameters
        ----------
        concepts : list of str
            The cues; unknown ones say nothing.
        k : int
            The most answers.

        Returns
        -------
        list of Association
            By share, then by name; no cue among them. The shares of all concepts, cues included,
            add up to 1 at the most.

        Raises
        ------
        InvalidInput
            An argument cannot be taken.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Coffee with milk.", concepts=["coffee", "milk"])
        >>> _ = mem.write("Milk and honey.", concepts=["milk", "honey"])
        >>> _ = mem.write("Tea with milk.", concepts=["tea", "milk"])
        >>> [one.concept for one in mem.associate(["coffee"])]
        ['milk', 'honey', 'tea']
        """
        names = checks.list_of_names(concepts, "concepts")
        k = checks.whole(k, "k", 1, 1_000_000)
        view = self._view()
        known = {view.vocabulary.find(name) for name in names} - {None}
        cues = sorted(cue for cue in known if cue is not None and is_held(view, cue))
        rule = self.settings.association
        ids, shares = view.links.walk(
            cues,
            steps=rule.steps,
            stay=rule.stay if len(cues) == 1 else rule.stay_several,
            back=rule.back if len(cues) == 1 else rule.back_several,
            power=rule.power if len(cues) == 1 else rule.power_several,
            now=self._moment(view),
        )
        if len(ids) > k:  # and all that tie with the last one that fits
            least = np.partition(shares, len(shares) - k)[len(shares) - k]
            ids, shares = ids[shares >= least], shares[shares >= least]
        name = view.vocabulary.name
        ranked = sorted(
            (Association(name(c), w) for c, w in zip(ids.tolist(), shares.tolist(), strict=True)),
            key=lambda one: (-one.weight, one.concept),
        )
        return ranked[:k]

    def graph(
        self,
        concepts: Sequence[str],
        depth: int = 1,
        min_weight: float | None = None,
        limit: int = 100,
    ) -> Graph:
        """Return the links around some concepts.

        Parameters
        ----------
        concepts : list of str
            Where to begin; unknown ones are left out.
        depth : int
            Steps, 1 to 3.
        min_weight : float, optional
            The least effective weight followed; 0 at depth 1 and 0.05 beyond unless given.
        limit : int
            The most edges, nearest first, then heaviest first.

        Returns
        -------
        Graph

        Raises
        ------
        InvalidInput
            An argument cannot be taken.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.write("Coffee with milk.", concepts=["coffee", "milk"])
        >>> mem.graph(["coffee"]).nodes
        [('coffee', 1), ('milk', 1)]
        """
        names = checks.list_of_names(concepts, "concepts")
        depth = checks.whole(depth, "depth", 1, 3)
        limit = checks.whole(limit, "limit", 1, 10_000_000)
        least = 0.0 if depth == 1 else DEEP_MIN_WEIGHT
        if min_weight is not None:
            least = checks.real(min_weight, "min_weight", -1e12, 1e12)
        view = self._view()
        now = self._moment(view)
        found = (view.vocabulary.find(one) for one in names)
        seeds = list(dict.fromkeys(c for c in found if c is not None and is_held(view, c)))
        pairs, truncated = surroundings(view, seeds, depth, least, limit, now)
        nodes = dict.fromkeys([*seeds, *(end for pair in pairs for end in pair)])
        name = view.vocabulary.name
        return Graph(
            nodes=[(name(node), view.links.degree(node)) for node in nodes],
            edges=edge_rows(view, pairs),
            truncated=truncated,
            min_weight_applied=least,
        )

    # -- notes ----------------------------------------------------------------------------------

    def get(self, note: str) -> Note:
        """Return one note.

        Raises
        ------
        NoteNotFound
            No live note has this id; also a KeyError.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> mem.get(mem.write("Tea is hot.", id="t1")).text
        'Tea is hot.'
        """
        view = self._view()
        row = live_row(view, note)
        if row is None:
            raise NoteNotFound(f"no live note has the id {note!r}.")
        return note_at(view, row)

    def recent(
        self,
        limit: int = 20,
        cursor: str | None = None,
        *,
        domain: str | Sequence[str] | None = None,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        include_superseded: bool = False,
    ) -> Page:
        """Return the newest notes, by ``(created_at, id)`` descending.

        Parameters
        ----------
        limit : int
            The most notes.
        cursor : str, optional
            `Page.next_cursor` of the page before.
        domain, since, until, where, include_superseded
            As in `read`.

        Returns
        -------
        Page
            A list of `Note` with ``next_cursor``.

        Raises
        ------
        InvalidInput
            An argument cannot be taken.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> report = mem.write_batch([{"text": "one", "id": "a"}, {"text": "two", "id": "b"}])
        >>> page = mem.recent(limit=1)
        >>> page[0].id, mem.recent(limit=1, cursor=page.next_cursor)[0].id
        ('b', 'a')
        """
        limit = checks.whole(limit, "limit", 1, 1_000_000)
        after = None if cursor is None else open_cursor(cursor)
        asked = Query.checked(
            domain=domain,
            since=since,
            until=until,
            where=where,
            include_superseded=include_superseded,
        )
        view = self._view()
        notes = view.notes
        allowed = allowed_rows(
            notes,
            domain=asked.domain,
            since=asked.since,
            until=asked.until if after is None else min(asked.until or after[0], after[0]),
            where=asked.where,
            include_superseded=include_superseded,
        )
        rows = newest(view, np.flatnonzero(allowed), limit + 1, after)
        page = Page(note_at(view, row) for row in rows[:limit])
        if len(rows) > limit:
            page.next_cursor = make_cursor(page[-1])
        return page

    def __len__(self) -> int:
        return self._view().notes.table.n_alive

    def __contains__(self, note: object) -> bool:
        return live_row(self._view(), note) is not None

    def __bool__(self) -> bool:
        return True  # an empty memory is still a memory

    # -- tables ---------------------------------------------------------------------------------

    @property
    def links(self) -> LinksTable:
        """The concept links: ``weight(a, b)``, ``get(a, b)``, ``top()``, ``to_arrow()``..."""
        return LinksTable(self._view, self._moment, self.settings.concept_links, Concepts())

    @property
    def note_links(self) -> LinksTable:
        """The links between notes, as `links`; notes go by their ids."""
        return LinksTable(self._view, self._moment, self.settings.note_links, Notes())

    @property
    def cue_links(self) -> CueTable:
        """The links from terms of questions to notes: ``weight(term, note)``, ``to_arrow()``..."""
        return CueTable(self._view, self._moment, self.settings)

    @property
    def notes(self) -> NotesTable:
        """The notes as a table: ``to_arrow()``."""
        return NotesTable(self._view)

    def stats(self) -> dict[str, Any]:
        """Return counts that tell a memory at a glance.

        Returns
        -------
        dict
            ``notes, superseded, concepts, links, links_followed, note_links, cue_links, domains``
            (name to notes), ``vectors, dim, cold, core, fingerprints, avg_valence,
            avg_importance, position``. ``cold`` and ``core`` count notes of the cold tier and core
            notes.

        Examples
        --------
        >>> import fastassoc as fa
        >>> fa.Memory().stats()["notes"]
        0
        """
        view = self._view()
        notes, table = view.notes, view.notes.table
        live = np.flatnonzero(notes.alive)
        counts = np.bincount(notes.domain[live], minlength=len(table.domains))
        importance = table.plain["importance"].to_arrow(0, notes.n)
        weights = importance.fill_null(DEFAULT_IMPORTANCE).to_numpy()[live]
        marked = table.plain["fingerprint"].to_arrow(0, notes.n).is_valid()
        threshold = self.settings.concept_links.threshold
        links = self.links.columns()
        return {
            "notes": len(live),
            "superseded": int(len(live) - notes.current.sum()),
            "concepts": int(held_mask(view).sum()),
            "links": len(view.links),
            "links_followed": int((links["weight"] >= threshold).sum()),
            "note_links": len(view.note_links),
            "cue_links": len(view.cues.links),
            "vectors": int(np.count_nonzero(notes.alive[view.points.rows])),
            "dim": view.points.dim,
            "cold": int(np.count_nonzero(notes.states.cold_mask(notes.n)[live])),
            "core": notes.states.count_core(live),
            "domains": {
                table.domains[code]: int(count) for code, count in enumerate(counts) if count
            },
            "fingerprints": int(marked.to_numpy(zero_copy_only=False)[live].sum()),
            "avg_valence": math.fsum(table.valence.values()) / len(live) if len(live) else 0.0,
            "avg_importance": float(weights.mean()) if len(live) else 0.0,
            "position": view.position,
        }


def check_width(found: int, dim: int | None) -> None:
    """Refuse a vector of another width than those of the store."""
    if dim is not None and found != dim:
        raise InvalidInput(
            f"vector: found {found} numbers, expected {dim}, as the store's vectors have."
        )


def held_mask(view: StateView) -> NDArray[np.bool_]:
    """Which concept ids a live note or a link holds."""
    df = view.notes.df
    held = np.zeros(max(view.vocabulary.n_ids, len(df)), np.bool_)
    held[: len(df)] = df > 0
    codes = view.cues.links.columns().a
    held[codes[codes % 2 == 0] // 2] = True
    columns = view.links.columns()
    held[columns.a] = True
    held[columns.b] = True
    return held


def live_row(view: StateView, note: object) -> int | None:
    """The row of a live note, None where there is none."""
    if not isinstance(note, str):
        return None
    row = view.notes.table.rows.get(note)
    return row if row is not None and row < view.notes.n and view.notes.alive[row] else None


def note_at(view: StateView, row: int) -> Note:
    """The note at a row."""
    table = view.notes.table
    concepts, subject = table.concepts_of(row)
    names = [view.vocabulary.name(int(c)) for c in concepts]
    importance = table.plain["importance"][row]
    plain = {name: column[row] for name, column in table.plain.items()}
    plain["importance"] = DEFAULT_IMPORTANCE if importance is None else importance
    plain["metadata"] = table.metadata(row)
    state = view.notes.states.get(row)
    if state.category == "core":
        plain["category"] = "core"
    return Note(
        id=table.ids[row],
        text=table.texts[row],
        concepts=names,
        subjects=[name for name, marked in zip(names, subject.tolist(), strict=True) if marked],
        domain=table.domains[int(view.notes.domain[row])],
        created_at=moment(int(view.notes.created_at[row])),
        written_at=moment(int(table.written_at.array[row])),
        valence=table.valence.get(row, 0.0),
        supersedes=table.named(table.chains.older(row)),
        superseded_by=table.named(table.chains.newer(row)),
        vector=view.points.vector(row),
        stability=state.stability,
        accesses=state.accesses,
        last_access=moment(state.last_access),
        tier="cold" if state.cold else "hot",
        **plain,
    )


def newest(
    view: StateView, rows: NDArray[np.int64], limit: int, after: tuple[int, str] | None
) -> list[int]:
    """The first rows by (created_at, id) descending, beyond `after`."""
    created, ids = view.notes.created_at, view.notes.table.ids
    if after is not None:
        at, note = after
        same = rows[created[rows] == at]
        beyond = [row for row in same.tolist() if ids[row] < note]
        rows = np.concatenate([rows[created[rows] < at], np.array(beyond, np.int64)])
    if len(rows) > limit:
        # every row that ties with the last one that fits is a candidate
        least = np.partition(created[rows], len(rows) - limit)[len(rows) - limit]
        rows = rows[created[rows] >= least]
    ranked = sorted(rows.tolist(), key=lambda row: (int(created[row]), ids[row]), reverse=True)
    return ranked[:limit]


def make_cursor(note: Note) -> str:
    """An opaque text from which `recent` goes on."""
    at = micros(note.created_at, "created_at")
    raw = json.dumps([at, note.id], ensure_ascii=True, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).decode()


def open_cursor(cursor: object) -> tuple[int, str]:
    """What `make_cursor` put in."""
    try:
        at, note = json.loads(base64.urlsafe_b64decode(str(cursor).encode()))
        if isinstance(at, int) and isinstance(note, str):
            return at, note
    except (ValueError, TypeError, binascii.Error):
        pass
    raise InvalidInput(f"cursor: found {cursor!r}, expected the next_cursor of a page.")


def surroundings(
    view: StateView, seeds: Sequence[int], depth: int, least: float, limit: int, now: int
) -> tuple[list[tuple[int, int]], bool]:
    """Links at most `depth` steps from the seeds, nearest and heaviest first, cut to `limit`."""
    found: dict[tuple[int, int], float] = {}
    seen, frontier = set(seeds), list(seeds)
    for _ in range(depth):
        ring: dict[tuple[int, int], float] = {}
        for concept in frontier:
            ids, weights = view.links.neighbours(concept, min_weight=least, now=now)
            for other, weight in zip(ids.tolist(), weights.tolist(), strict=True):
                pair = (min(concept, other), max(concept, other))
                if pair not in found:
                    ring[pair] = weight
        ordered = sorted(ring, key=lambda pair: (-ring[pair], pair))
        found.update((pair, ring[pair]) for pair in ordered)
        if len(found) > limit:
            return list(found)[:limit], True
        frontier = sorted({end for pair in ring for end in pair} - seen)
        seen.update(frontier)
    return list(found), False
