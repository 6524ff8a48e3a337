"""The safeguards that are taken out in turn, and what should notice: see mutants.py."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["INSTRUMENTS", "MUTANTS", "Mutant"]

INSTRUMENTS = {  # what is no test, as code that ends with an error where it finds something
    "power cuts": (
        "from tests.faults import caught, crash\n"
        "found = crash.run(caught.SEQUENCES, states=1500).violations\n"
        "assert not found, found\n"
    ),
}


@dataclass(frozen=True)
class Mutant:
    """One safeguard: the text that is it, what stands there instead, and the tests."""

    name: str
    file: str
    old: str
    new: str
    checks: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """Whether kernels run as plain functions."""
        return self.file.startswith("kernels/")


def mutant(name: str, file: str, old: str, new: str, *checks: str) -> Mutant:
    return Mutant(name, file, old, new, checks)


TRANSACTION, CONNECTIONS = "journal/transaction.py", "journal/connections.py"
JOURNAL, SNAPSHOT, CACHE = "test_journal.py::", "test_snapshot.py::", "test_cache.py::"
FOUND, MANY, ERASED = "faults/test_found.py::", "faults/test_many.py::", "faults/test_erasure.py::"
OWN = "faults/test_safeguards.py::"

LOCKS = [
    mutant(
        "the write lock",
        TRANSACTION,
        'conn.execute("BEGIN IMMEDIATE")\n                return',
        'conn.execute("BEGIN")\n                return',
        JOURNAL + "test_l44_two_handles_in_one_process",
    ),
    mutant(
        "the lock between threads",
        CONNECTIONS,
        "self.lock = threading.Lock()",
        "self.lock = threading.Semaphore(99)",
        MANY + "test_one_journal_for_many_threads",
    ),
    mutant(
        "a thread that waits for itself",
        TRANSACTION,
        "if guard.thread == threading.get_ident():",
        "if False:",
        JOURNAL + "test_a_thread_does_not_wait_for_itself",
    ),
    mutant(
        "patience while the log is recovered",
        CONNECTIONS,
        "if waited >= self.timeout:",
        "if True:",
        OWN + "test_an_open_waits_while_another_recovers_the_log",
    ),
    mutant(
        "the lock of head",
        "journal/headfile.py",
        "        _lock(fd)\n        try:\n            raw",
        "        try:\n            raw",
        MANY + "test_a_frozen_holder_of_head_costs_a_warning",
    ),
    mutant(
        "the snapshotters' lock",
        "files.py",
        "        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "        return",
        SNAPSHOT + "test_one_snapshotter_among_threads_and_processes",
    ),
    mutant(
        "verify and backup hold off snapshots",
        "storecare.py",
        "            if mine:\n                yield",
        "            if True:\n                yield",
        MANY + "test_a_frozen_snapshotter_holds_up_snapshots_alone",
    ),
    mutant(
        "a vacuum waits for the snapshotter",
        "saving.py",
        "            if mine:\n                report = purge()",
        "            if True:\n                report = purge()",
        MANY + "test_a_frozen_snapshotter_holds_up_snapshots_alone",
    ),
    mutant(
        "the reader's connection takes no writes",
        CONNECTIONS,
        'reader.execute("PRAGMA query_only = ON")',
        "pass",
        OWN + "test_the_connection_that_reads_cannot_write",
    ),
    mutant(
        "an interrupted read leaves no moment behind",
        CONNECTIONS,
        "if error is not None and conn is not None and conn.in_transaction:",
        "if False:",
        OWN + "test_an_interrupted_read_does_not_freeze_the_moment",
    ),
    mutant(
        "a forked journal is dead",
        CONNECTIONS,
        "if self._pid != os.getpid():\n            raise ForkedHandle",
        "if False:\n            raise ForkedHandle",
        JOURNAL + "test_l45_after_a_fork_the_handle_is_dead_in_the_child_only",
    ),
    mutant(
        "a forked memory is dead",
        "handle.py",
        "if self._pid != os.getpid():\n            raise ForkedHandle",
        "if False:\n            raise ForkedHandle",
        OWN + "test_a_forked_memory_says_so_itself",
    ),
    mutant(
        "a child closes nothing of its parent",
        CONNECTIONS,
        "os.register_at_fork(after_in_child=_leave_parent_alone)",
        "",
        OWN + "test_a_childs_garbage_leaves_the_parents_locks_alone",
    ),
    mutant(
        "a cache entry is made once",
        "cache.py",
        'with self._locked(f"make-{kind}", self.patience) as mine:',
        "for mine in (True,):",
        CACHE + "test_threads_make_it_once",
    ),
]

SYNCS = [
    mutant(
        "a segment's sync",
        "files.py",
        "            disk.sync(fd)\n        finally:\n            disk.close(fd)\n        final",
        "        finally:\n            disk.close(fd)\n        final",
        "power cuts",
    ),
    mutant(
        "the sync of the folder of segments",
        "files.py",
        "    sync_folder(folder)\n    return final.name, sink",
        "    return final.name, sink",
        "power cuts",
    ),
    mutant(
        "the sync of a new store's folder",
        "files.py",
        "            sync_folder(folder.parent)",
        "            pass",
        FOUND + "test_a_new_store_survives_a_loss_of_power",
    ),
    mutant(
        "the journal's name before head's",
        "journal/folder.py",
        "files.sync_folder(path)  # `head` alone",
        "pass  # `head` alone",
        FOUND + "test_a_loss_of_power_while_a_store_is_made_leaves_none_or_a_whole_one",
    ),
    mutant(
        "the sync of a new head",
        "journal/headfile.py",
        "            files.disk.sync(fd)\n            with",
        "            with",
        OWN + "test_a_head_that_is_made_late_is_on_the_disk_before_anything_is_saved",
    ),
    mutant(
        "the sync of a new head's name",
        "journal/headfile.py",
        "        files.sync_folder(self.path.parent)",
        "        pass",
        OWN + "test_a_head_that_is_made_late_is_on_the_disk_before_anything_is_saved",
    ),
    mutant(
        "the sync of head at a publication",
        "journal/reach.py",
        "        if durable:\n            connections.head.sync()",
        "",
        OWN + "test_head_is_synced_when_a_snapshot_is_published_and_at_the_close",
    ),
    mutant(
        "the sync of head at the close",
        CONNECTIONS,
        '                if self.sync != "off" and not self.broken:\n'
        "                    self.head.sync()",
        "                pass",
        OWN + "test_head_is_synced_when_a_snapshot_is_published_and_at_the_close",
    ),
    mutant(
        "publications are durable at every level",
        TRANSACTION,
        '            conn.execute("PRAGMA synchronous = FULL")\n        while True:',
        "            pass\n        while True:",
        OWN + "test_a_publication_is_on_the_disk_before_anything_goes",
    ),
    mutant(
        "full is FULL",
        "journal/sqlite.py",
        'LEVELS = {"full": "FULL",',
        'LEVELS = {"full": "NORMAL",',
        JOURNAL + "test_one_sync_a_commit",
    ),
    mutant(
        "the sync when off folds its log",
        CONNECTIONS,
        '                conn.execute("PRAGMA synchronous = NORMAL")\n'
        "                conn.wal_checkpoint()",
        "                conn.wal_checkpoint()",
        JOURNAL + "test_off_folds_its_log_with_a_sync",
    ),
    mutant(
        "the sync of the emptied log",
        "journal/care.py",
        'conn.execute(f"PRAGMA user_version = {told}")',
        "pass",
        ERASED + "test_l23_a_loss_of_power_after_a_vacuum_brings_nothing_back",
    ),
    mutant(
        "the sync of a backup's name",
        "storecare.py",
        "        files.sync_folder(target.parent)",
        "        pass",
        FOUND + "test_a_backup_survives_a_loss_of_power",
    ),
    mutant(
        "a segment used again is young again",
        "files.py",
        "            disk.touch(final)",
        "            pass",
        SNAPSHOT + "test_a_segment_written_again_is_young_again",
    ),
    mutant(
        "a failed sync ends the handle's writing",
        TRANSACTION,
        'self._connections.broken = f"saving {name} failed ({error})"',
        "pass",
        JOURNAL + "test_l36_a_failed_sync_leaves_the_outcome_open_and_the_retry_counts_once",
    ),
    mutant(
        "a failed write is told although the writer went on",
        "files.py",
        "        if self.error is not None:\n            raise self.error",
        "        if False:\n            raise self.error",
        OWN + "test_a_sink_that_failed_takes_no_more",
    ),
]

HASHES = [
    mutant(
        "the hash of a segment",
        "snapshot.py",
        "    if digest != segment.hash:",
        "    if False:",
        SNAPSHOT + "test_every_flipped_byte_of_a_segment_is_detected",
    ),
    mutant(
        "the hash of a manifest",
        "manifest.py",
        "    if found != digest:",
        "    if False:",
        SNAPSHOT + "test_every_flip_and_truncation_of_a_manifest_is_detected",
    ),
    mutant(
        "the hash of a row",
        "journal/chain.py",
        "        if digest != expected:",
        "        if False:",
        JOURNAL + "test_a_changed_row_breaks_the_chain",
    ),
    mutant(
        "the hash of the meta row",
        "journal/chain.py",
        "if not isinstance(content, str) or digest != xxhash.xxh3_128_digest(\n"
        '            content.encode("utf-8", "surrogatepass")\n        ):',
        "if not isinstance(content, str):",
        OWN + "test_a_changed_meta_row_is_noticed",
    ),
    mutant(
        "the hash of head",
        "journal/headfile.py",
        '                if raw == self._pack(sequence):\n                    return sequence, ""',
        '                return sequence, ""',
        JOURNAL + "test_a_damaged_head_is_named",
    ),
    mutant(
        "whose head it is",
        "journal/headfile.py",
        "xxhash.xxh3_64_intdigest(word, self._seed)",
        "xxhash.xxh3_64_intdigest(word)",
        JOURNAL + "test_a_damaged_head_is_named",
    ),
    mutant(
        "whose journal it is",
        "journal/records.py",
        "if self.store_id and meta.store != self.store_id:",
        "if False:",
        OWN + "test_another_stores_meta_row_is_noticed_by_who_has_it_open",
    ),
    mutant(
        "the row read before is still the same",
        "journal/records.py",
        "                if rows[0][7] != known[1]:",
        "                if False:",
        OWN + "test_a_journal_rolled_back_and_written_on_is_noticed_by_who_has_it_open",
    ),
    mutant(
        "the hash of a cache entry",
        "cache.py",
        'if files.digest(fd)[0] != meta["hash"]:',
        "if False:",
        CACHE + "test_l33_a_damaged_entry_is_made_again_with_one_warning",
    ),
    mutant(
        "the check of a sidecar",
        "cache.py",
        'if check != _check(said) or said["name"] != name:',
        'if said["name"] != name:',
        OWN + "test_a_sidecar_that_was_written_by_hand_is_not_believed",
    ),
    mutant(
        "the rows that a segment must have",
        "parquet.py",
        "if meta.num_rows != rows or sum(counts) != rows or any(count < 0 for count in counts):",
        "if False:",
        SNAPSHOT + "test_rubbish_with_a_true_hash_is_refused_in_plain_words",
        OWN + "test_a_segment_of_other_rows_is_refused",
    ),
    mutant(
        "what a segment may expand to",
        "parquet.py",
        "        if size > limit:",
        "        if False:",
        SNAPSHOT + "test_a_small_file_that_expands_hugely_is_refused",
    ),
    mutant(
        "no extension types",
        "parquet.py",
        'if b"ARROW:" in footer',
        'if b"\\0no\\0" in footer',
        SNAPSHOT + "test_files_of_other_programs_are_refused",
    ),
    mutant(
        "no symbolic links",
        "files.py",
        "flags | os.O_NOFOLLOW | os.O_CLOEXEC",
        "flags | os.O_CLOEXEC",
        SNAPSHOT + "test_links_pipes_and_folders_in_place_of_files_are_refused",
    ),
    mutant(
        "a newer journal is refused",
        "journal/chain.py",
        '        if data["format"] > FORMAT:',
        "        if False:",
        OWN + "test_a_whole_meta_row_of_a_newer_format_is_refused",
    ),
    mutant(
        "a newer manifest is refused",
        "manifest.py",
        "    if version > FORMAT:",
        "    if False:",
        SNAPSHOT + "test_a_newer_format_is_refused_with_both_numbers",
    ),
]

ORDER = [
    mutant(
        "head is written after a commit",
        TRANSACTION,
        "            advance_head(self._connections, self._last[0], self._durable)",
        "            pass",
        JOURNAL + "test_a_log_that_ends_early_is_noticed",
    ),
    mutant(
        "head is compared at the open",
        "journal/handle.py",
        "            check_head(connections, records, None)",
        "            pass",
        JOURNAL + "test_a_log_that_ends_early_is_noticed",
    ),
    mutant(
        "head is compared under the write lock",
        TRANSACTION,
        "            check_head(self._connections, self._records, self._last[0])",
        "            pass",
        OWN + "test_a_writer_notices_a_journal_that_lost_its_end",
    ),
    mutant(
        "head is there before the first commit",
        TRANSACTION,
        "                prepare_head(self._connections)",
        "                pass",
        FOUND + "test_a_kill_after_the_first_commit_of_a_store_that_was_cut_short",
    ),
    mutant(
        "head never goes back",
        "journal/headfile.py",
        "                if old >= sequence and raw == self._pack(old):",
        "                if False:",
        OWN + "test_head_of_another_handle_never_goes_back",
    ),
    mutant(
        "a manifest ahead of the journal is an error",
        "storecare.py",
        "    if newest is None or newest[0] <= head:",
        "    if True:",
        OWN + "test_a_journal_older_than_its_manifest_is_an_error",
    ),
    mutant(
        "no older snapshot becomes current",
        TRANSACTION,
        "if previous is not None and seq < previous.seq:",
        "if False:",
        JOURNAL + "test_a_snapshot_drops_what_the_one_before_it_holds",
    ),
    mutant(
        "no row goes that no snapshot holds",
        TRANSACTION,
        "        if through > held:",
        "        if False:",
        JOURNAL + "test_a_snapshot_drops_what_the_one_before_it_holds",
    ),
    mutant(
        "rows go with the second snapshot only",
        TRANSACTION,
        "through = meta.anchor[0] if previous is None else previous.seq",
        "through = seq",
        JOURNAL + "test_a_snapshot_drops_what_the_one_before_it_holds",
    ),
    mutant(
        "the current manifest is never replaced",
        "manifest.py",
        "    if name == current and not",
        "    if False and not",
        SNAPSHOT + "test_the_current_manifest_is_never_replaced_and_a_leftover_is",
    ),
    mutant(
        "ids outlive the rows",
        TRANSACTION,
        '"DELETE FROM done WHERE seq <= ? AND (at < ? OR seq < ?) ',
        '"DELETE FROM done WHERE (seq <= ? OR at < ? OR seq < ?) ',
        JOURNAL + "test_ids_are_forgotten_after_a_week_but_not_before_they_leave",
    ),
    mutant(
        "ids without rows are verified",
        "journal/care.py",
        "if meta.done is not None and",
        "if False and",
        JOURNAL + "test_ids_whose_rows_are_gone_are_checked",
    ),
    mutant(
        "an id counts once",
        "handle.py",
        "known = None if operation_id is None else held.done(operation_id)",
        "known = None",
        "test_store.py::test_a_repeat_of_what_did_nothing_does_nothing",
        "test_found_store.py::test_a_repeated_configure_changes_nothing",
    ),
    mutant(
        "a sweep keeps what is named",
        "snapshot.py",
        "            if old and path.name not in keep:",
        "            if old:",
        SNAPSHOT + "test_sweep_takes_what_is_old_and_unnamed_and_nothing_else",
    ),
    mutant(
        "a sweep keeps what the journal's rows name",
        "saving.py",
        "        keep.update(s.name for s in bulk_segments(entries_from(transaction, 0)))",
        "",
        "test_found_store.py::"
        "test_a_handle_that_lags_outlives_the_first_snapshot_after_a_bulk_write",
    ),
    mutant(
        "a vacuum drops the rows",
        "saving.py",
        "                    journal.drop(pointer.seq)",
        "                    pass",
        "test_faults.py::test_l23_vacuum_erases",
    ),
    mutant(
        "a vacuum removes old segments",
        "saving.py",
        "                _sweep(journal, keep_previous=False)",
        "",
        ERASED + "test_l23_what_killed_processes_left_is_erased",
        "test_found_store.py::test_vacuum_erases_files_from_a_clock_that_was_ahead",
    ),
    mutant(
        "a vacuum empties rejects and cache",
        "saving.py",
        '_emptied(journal, ("rejects", "cache"))',
        "[]",
        FOUND + "test_a_vacuum_that_cannot_empty_the_rejects_says_so",
    ),
    mutant(
        "a vacuum empties the log",
        "saving.py",
        "    journal.truncate_wal()\n",
        "",
        MANY + "test_a_frozen_reader_holds_up_the_vacuum_alone",
    ),
    mutant(
        "erased rows are overwritten",
        CONNECTIONS,
        'fetch(writer, "PRAGMA secure_delete = ON")',
        "pass",
        JOURNAL + "test_l23_dropped_rows_are_erased",
    ),
    mutant(
        "snapshots come by themselves",
        "store.py",
        "        self._since += 1\n",
        "        return\n",
        "test_store.py::test_l37_snapshots_come_by_themselves",
    ),
]

CATCHING_UP = [
    mutant(
        "a writer catches up under the lock",
        "handle.py",
        "                self._state = held.catch_up(self._state)",
        "                pass",
        "test_faults.py::test_l44_two_handles_in_one_process_leave_no_gap",
    ),
    mutant(
        "a read catches up",
        "handle.py",
        "if self._state.torn or self._port.changed(self._state.position):",
        "if self._state.torn:",
        "test_faults.py::test_l42_another_process_sees_all_of_it_at_once",
    ),
    mutant(
        "an operation torn by an interrupt is loaded anew",
        "store.py",
        "        if state.torn:",
        "        if False:",
        "test_found_store.py::test_an_interrupt_while_catching_up_leaves_no_half_of_an_operation",
    ),
    mutant(
        "a read does not take what our own writer is about to apply",
        "handle.py",
        "            if self._saving is None:\n                self._state = self._port",
        "            if True:\n                self._state = self._port",
        "test_store.py::test_reads_go_on_while_a_write_is_saved",
        "test_store.py::test_a_read_sees_what_others_save_before_our_own_save_is_applied",
    ),
    mutant(
        "who is behind is told",
        "journal/records.py",
        "        if after < meta.anchor[0]:\n            raise Behind",
        "        if False:\n            raise Behind",
        JOURNAL + "test_a_snapshot_drops_what_the_one_before_it_holds",
    ),
    mutant(
        "who is behind loads the snapshot",
        "store.py",
        "        except Behind:\n            return self._reloaded()",
        "        except Behind:\n            return state",
        OWN + "test_a_handle_far_behind_loads_the_snapshot",
    ),
    mutant(
        "a swept bulk segment is no damage",
        "store.py",
        "            if pointer is None or pointer.seq <= state.position:",
        "            if True:",
        "test_found_store.py::test_a_handle_reloads_when_a_bulk_segment_went_between_row_and_file",
    ),
    mutant(
        "a read waits for its position",
        "handle.py",
        "            self._wait_for(at_least)",
        "            pass",
        "test_store.py::test_a_read_waits_for_a_position",
    ),
    mutant(
        "settings that shape the state are fixed",
        "memory.py",
        "            state.settings.require_same_state(settings)",
        "            pass",
        "test_store.py::test_settings_that_shape_the_state_are_fixed",
    ),
]

CLAMPS = [
    mutant(
        "an operation is never before the last",
        "handle.py",
        "max(self._now(), self._state.time)",
        "self._now()",
        "test_faults.py::test_l6_a_clock_set_back_raises_no_weight",
    ),
    mutant(
        "reads never go back in time",
        "reader.py",
        "self._latest = max(self._latest, self._now(), view.time)",
        "self._latest = self._now()",
        "test_faults.py::test_l6_a_clock_set_back_raises_no_weight",
    ),
    mutant(
        "the floor of a link",
        "kernels/links.py",
        "    if weight < rule[LOW]:",
        "    if False:",
        "test_links.py::test_the_clamp_applies_to_each_change_in_turn",
    ),
    mutant(
        "the ceiling of a link",
        "kernels/links.py",
        "    elif weight > rule[HIGH]:",
        "    elif False:",
        "test_links.py::test_the_clamp_applies_to_each_change_in_turn",
        "test_links.py::test_larger_random_runs_equal_the_twin",
    ),
    mutant(
        "a link's age is never negative",
        "kernels/links.py",
        "    elif at > updated:\n        if rule[TAU]",
        "    else:\n        if rule[TAU]",
        OWN + "test_a_change_before_the_last_one_fades_nothing",
    ),
    mutant(
        "a new note's stability ends at one",
        "retention.py",
        "np.minimum(1.0, first)",
        "first",
        "test_retention.py::test_states_equal_the_twin",
        OWN + "test_a_new_notes_stability_ends_at_one",
    ),
    mutant(
        "stability ends at one",
        "retention.py",
        "min(1.0, stability + boost * min(rule.boost_most, days / rule.boost_days))",
        "stability + boost * min(rule.boost_most, days / rule.boost_days)",
        "test_retention.py::test_stability_ends_at_one",
    ),
    mutant(
        "a boost has a most",
        "retention.py",
        "boost * min(rule.boost_most, days / rule.boost_days)",
        "boost * days / rule.boost_days",
        "test_retention.py::test_stability_grows_with_the_time_since_the_last_access",
    ),
    mutant(
        "an access in the past takes nothing",
        "retention.py",
        "days = max(0, at - last) / DAY",
        "days = (at - last) / DAY",
        "test_retention.py::test_a_clock_set_back_raises_nothing",
    ),
    mutant(
        "the last access never goes back",
        "retention.py",
        "max(last, at), accesses",
        "at, accesses",
        "test_retention.py::test_a_clock_set_back_raises_nothing",
    ),
    mutant(
        "a note's age is never negative",
        "kernels/retention.py",
        '        days = max(0, now - notes[i]["last_access"]) / DAY\n        fades',
        '        days = (now - notes[i]["last_access"]) / DAY\n        fades',
        "test_retention.py::test_a_clock_set_back_raises_nothing",
    ),
    mutant(
        "the floor of retention",
        "kernels/retention.py",
        "max(floors[category], math.exp(-days / fades))",
        "math.exp(-days / fades)",
        "test_retention.py::test_golden_values",
        "test_retention.py::test_a_core_note_keeps_the_floor_of_core",
    ),
]

MUTANTS = [*LOCKS, *SYNCS, *HASHES, *ORDER, *CATCHING_UP, *CLAMPS]
