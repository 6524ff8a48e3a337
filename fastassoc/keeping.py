"""The verbs that change or forget what is there, and the control beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastassoc import query as checks
from fastassoc.answers import Hit
from fastassoc.control import Control
from fastassoc.errors import InvalidInput, NoteNotFound
from fastassoc.fields import from_values
from fastassoc.filters import allowed_rows, check_where
from fastassoc.handle import Handle, Prepared
from fastassoc.reports import Report
from fastassoc.settings import Settings
from fastassoc.state import State

__all__ = ["Keeping"]


class Keeping(Handle):
    """The verbs that change or forget what is there."""

    def update(
        self, note: str, *, metadata: Mapping[str, Any], operation_id: str | None = None
    ) -> Report:
        """Replace a note's metadata; its links are not touched.

        Raises
        ------
        NoteNotFound
            No live note has this id.
        InvalidInput
            The metadata is not a JSON object.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.")
        >>> _ = mem.update(nid, metadata={"seen": True})
        >>> mem.get(nid).metadata
        {'seen': True}
        """
        reasons: dict[int, str] = {}
        text = from_values("metadata", [metadata], reasons)[0].as_py() or "{}"
        if reasons or metadata is None:
            raise InvalidInput(reasons.get(0, "metadata: found None, expected a JSON object."))

        def prepare(state: State) -> Prepared:
            if not isinstance(note, str) or note not in state.notes.rows:
                raise NoteNotFound(f"no live note has the id {note!r}.")
            return {"id": str(note), "metadata": text}, None

        return self._change("update", prepare, operation_id)

    def forget(
        self,
        notes: Sequence[str | Hit] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        operation_id: str | None = None,
    ) -> Report:
        """Forget notes: what they wrote leaves the links, what was taught stays.

        Parameters
        ----------
        notes : list of str or Hit, optional
            Ids; those that are no live notes are reported as `missing`.
        where : mapping, optional
            All notes that fit, as in `read`.
        operation_id : str, optional

        Returns
        -------
        Report

        Raises
        ------
        InvalidInput
            Neither or both of `notes` and `where` are given, or `where` is empty.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.")
        >>> mem.forget([nid]).forgotten, len(mem)
        (1, 0)
        """
        if (notes is None) == (where is None):
            raise InvalidInput("forget: give ids or where=, one of them.")
        ids = [] if notes is None else list(dict.fromkeys(checks.note_ids(notes, "notes")))
        if where is not None and not check_where(where):
            raise InvalidInput("where: found no clause; forgetting everything must be said by ids.")
        missing: list[str] = []

        def prepare(state: State) -> Prepared | Report:
            if where is None:
                missing.extend(note for note in ids if note not in state.notes.rows)
                gone = [note for note in ids if note in state.notes.rows]
            else:
                gone = self._fitting(state, where)
            return ({"ids": gone}, None) if gone else Report()

        report = self._change("forget", prepare, operation_id)
        return replace(report, missing=missing)

    def _fitting(self, state: State, where: Mapping[str, Any]) -> list[str]:
        with self._lock:
            view = state.view()
        mask = allowed_rows(
            view.notes, domain=None, since=None, until=None, where=where, include_superseded=True
        )
        return [state.notes.ids[row] for row in mask.nonzero()[0].tolist()]

    def configure(self, *, operation_id: str | None = None, **changes: Any) -> Report:
        """Save other values of read settings, for every later open of the store.

        Parameters
        ----------
        operation_id : str, optional
        **changes
            Read fields of `Settings`. A rule's field goes by its names with an underscore:
            ``concept_threshold``, ``note_threshold``, ``retention_power``.

        Returns
        -------
        Report

        Raises
        ------
        SettingsMismatch
            A field shapes the state and is fixed.
        InvalidInput
            A field is unknown or a value out of range.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.configure(concept_threshold=3.0)
        >>> mem.settings.concept_links.threshold
        3.0
        """
        known = {
            field.replace("_links.", "_").replace(".", "_"): field
            for field in Settings.read_fields()
        }
        asked = {known.get(name, name): value for name, value in changes.items()}
        if not asked:
            raise InvalidInput(
                f"configure: name a setting: {', '.join(sorted(Settings.read_fields()))}."
            )
        mine = None if self._given is None else self._given.with_changes(asked, read_only=True)

        def prepare(state: State) -> Prepared:
            state.settings.with_changes(asked, read_only=True)
            return {"changes": asked}, None

        report = self._change("configure", prepare, operation_id)
        if not report.repeated:
            self._given = mine
        return report

    # -- the control ----------------------------------------------------------------------------

    def rebuild_links(self) -> Control:
        """Return the control: the same notes, links recomputed from them alone, for reading.

        What outcomes taught is not in it. It shows the memory of now and does not follow it.

        Returns
        -------
        Control
            It has every verb that looks.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.link("timeout", "backoff", 2.0)
        >>> mem.rebuild_links().links.weight("timeout", "backoff")
        0.0
        """
        with self._still() as state:
            view = state.view(text=True)
            view = replace(view, notes=state.notes.copy().view())
        return Control(view, self.settings, self._now, self._embedder)
