"""A reader of stores written from FORMAT.md alone, with pyarrow, sqlite3 and json, against ours.

Nothing of fastassoc takes part in the reading: what the reader needs must stand in FORMAT.md.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from worker import Clock, to_stamp

STORES = Path(__file__).parent.parent / "data" / "stores"
VERSIONS = sorted(path.name for path in STORES.glob("v*"))
DAY = 86_400_000_000
MOST = 3  # the highest format that the page describes
MANIFEST = re.compile(r"manifest-(0|[1-9][0-9]{0,18})\.json")
SEGMENT = re.compile(
    r"(notes|vectors|vectors-next|vocabulary|notestate|dead|links-concept|links-note|links-cue|"
    r"bulk|stems)-[0-9a-f]{32}\.parquet"
)

Row = dict[str, Any]


class Damaged(Exception):
    """What FORMAT.md tells a reader to refuse."""


class Store:
    """A closed store, read as FORMAT.md says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with sqlite3.connect(f"file:{path}/journal.db?mode=ro", uri=True) as database:
            ((content, digest),) = database.execute("SELECT content, hash FROM meta")
            columns = "seq, op_id, format, kind, at, body, vectors, hash"
            self.rows = database.execute(f"SELECT {columns} FROM journal ORDER BY seq").fetchall()
        self.check(xxhash.xxh3_128_digest(content.encode()) == digest, "meta")
        self.meta = json.loads(content)
        self.check(self.meta["format"] <= MOST, "a newer format")
        self.check_chain()
        self.manifest: Row = {"segments": [], "seq": 0, "settings": {}}
        if self.meta["current"] is not None:
            _, name, digest, _ = self.meta["current"]
            self.check(MANIFEST.fullmatch(name), "a name")
            data = (path / name).read_bytes()
            self.check(xxhash.xxh3_128_hexdigest(data) == digest, name)
            self.manifest = json.loads(data)
            self.check(self.manifest["format"] <= MOST, "a newer format")
        self.settings = self.manifest["settings"]
        self.names = {row["id"]: row["shown"] for row in self.table("vocabulary")}
        self.keys = {row["id"]: row["key"] for row in self.table("vocabulary")}
        self.updated: dict[Any, int] = {}
        self.stems = {row["id"]: row["stem"] for row in self.table("stems")}

    def check(self, true: object, what: str) -> None:
        if not true:
            raise Damaged(what)

    def check_chain(self) -> None:
        """The hash of each row, and how far the journal must reach."""
        last, before = self.meta["anchor"][0], bytes.fromhex(self.meta["anchor"][1])
        store = bytes.fromhex(self.meta["store"])
        if last == 0:
            self.check(before == xxhash.xxh3_128_digest(store), "where the chain begins")
        current = self.meta["current"]
        known = {} if current is None else {current[0]: current[3]}
        for seq, op_id, form, kind, at, body, vectors, digest in self.rows:
            self.check(seq == last + 1, f"operation {last + 1}")
            parts = [op_id, kind.encode(), body.encode(), vectors]
            lengths = [-1 if part is None else len(part) for part in parts]
            text = struct.pack("<16s7q", before, seq, form, at, *lengths)
            text += b"".join(part or b"" for part in parts)
            self.check(xxhash.xxh3_128_digest(text) == digest, f"operation {seq}")
            self.check(form <= MOST, "a newer format")
            self.check(known.get(seq, digest.hex()) == digest.hex(), "the snapshot's chain")
            last, before = seq, digest
        told, check = struct.unpack("<QQ", (self.path / "head").read_bytes())
        seed = int.from_bytes(store[:8], "little")
        self.check(xxhash.xxh3_64_intdigest(struct.pack("<Q", told), seed) == check, "head")
        self.check(told <= last, f"the journal ends at {last}, {told} was acknowledged")

    # -- tables -------------------------------------------------------------------------------

    def table(self, kind: str) -> list[Row]:
        """All rows of a kind, none where there is no segment of it."""
        found: list[Row] = []
        for part in self.manifest["segments"]:
            if part["kind"] == kind:
                found += self.segment(part).to_pylist()
        return found

    def segment(self, part: Row) -> pa.Table:
        self.check(SEGMENT.fullmatch(part["name"]), "a name")
        self.check(part["name"] == f"{part['kind']}-{part['hash']}.parquet", "a name")
        file = self.path / "segments" / part["name"]
        self.check(not file.is_symlink(), "a link")
        data = file.read_bytes()
        self.check(len(data) == part["bytes"], part["name"])
        self.check(xxhash.xxh3_128_hexdigest(data) == part["hash"], part["name"])
        table = pq.read_table(pa.BufferReader(data))
        self.check(table.num_rows == part["rows"], part["name"])
        self.check(schema_of(table.schema) == re.sub(r"\[\d+\]", "", part["schema"]), part["name"])
        return table

    # -- notes --------------------------------------------------------------------------------

    def notes(self) -> dict[str, Row]:
        """The live notes, those of the journal's tail among them."""
        dead = {row["seq"] for row in self.table("dead")}
        state = {row["seq"]: row for row in self.table("notestate")}
        found: dict[str, Row] = {}
        for row in self.table("notes"):
            self.check(row["bucket"] == xxhash.xxh3_64_intdigest(row["id"].encode()) & 0xFFFF, "it")
            if row["seq"] in dead:
                continue
            changed = state.get(row["seq"], {})
            for name in ("metadata", "category"):
                if changed.get(name) is not None:
                    row[name] = changed[name]
            row["names"] = [self.names[concept] for concept in row["concepts"]]
            row["about"] = [self.names[concept] for concept in row["subjects"]]
            row["superseded"] = json.loads(changed.get("superseded_by") or "[]")
            row["valence"] = changed.get("valence", 0.0)
            found[row["id"]] = row
        vectors = {row["seq"]: row["vector"] for row in self.table("vectors")}
        for row in found.values():
            row["vector"] = vectors.get(row["seq"])
        for seq, _, _, kind, at, body, data, _ in self.rows:
            if seq > self.manifest["seq"]:
                self.follow(found, kind, at, json.loads(body), data)
        return found

    def follow(self, notes: dict[str, Row], kind: str, at: int, body: Row, data: bytes) -> None:
        """What an operation of the tail does to the notes."""
        if kind == "forget":
            for note in body["ids"]:
                del notes[note]
        elif kind == "update":
            notes[body["id"]]["metadata"] = body["metadata"]
        elif kind == "write":
            rows, vectors = self.written(body, data)
            for row, vector in zip(rows, vectors, strict=True):
                if row["id"] in notes and body["on_duplicate"] != "replace":
                    continue
                notes.pop(row["id"], None)
                spelled = row.get("spelled") or row.get("concepts") or []
                notes[row["id"]] = {
                    **{name: row.get(name) for name in PLAIN},
                    "domain": row.get("domain") or "general",
                    "created_at": at if row.get("created_at") is None else row["created_at"],
                    "written_at": at,
                    "spelled": spelled,
                    "about": [spelled[n] for n in row.get("subjects") or ()],
                    "vector": vector,
                    "superseded": [],
                    "valence": 0.0,
                }
                for older in row.get("supersedes") or ():
                    if older in notes:
                        notes[older]["superseded"].append(row["id"])

    def written(self, body: Row, data: bytes) -> tuple[list[Row], list[Any]]:
        if "segment" in body:
            rows = self.segment(body["segment"]).to_pylist()
            for row in rows:
                marks = row.get("subject") or []
                row["subjects"] = [n for n, mark in enumerate(marks) if mark]
            return rows, [row.get("vector") for row in rows]
        rows = body["rows"]
        count = sum(bool(row.get("vector")) for row in rows)
        width = len(data or b"") // 4 // max(1, count)
        numbers = iter(struct.unpack(f"<{width * count}f", data or b""))
        return rows, [
            [next(numbers) for _ in range(width)] if row.get("vector") else None for row in rows
        ]

    # -- links --------------------------------------------------------------------------------

    def links(self, kind: str) -> dict[Any, tuple[float, ...]]:
        """Pairs by their names: weight, written and taught as stored, count, valence."""
        ids = {row["seq"]: row["id"] for row in self.table("notes")}
        found = {}
        for row in self.table(kind):
            pair: tuple[Any, ...]
            if kind == "links-concept":
                pair = tuple(sorted((self.names[row["a"]], self.names[row["b"]])))
            elif kind == "links-note":
                pair = tuple(sorted((ids[row["a"]], ids[row["b"]])))
            else:
                term, odd = divmod(row["a"], 2)
                name = self.stems[term] if odd else self.names[term]
                pair = ("stem" if odd else "concept", name, ids[row["b"]])
            weight, written = row["weight"], row["written"]
            found[pair] = (weight, written, weight - written, row["count"], row["valence"])
            self.updated[pair] = row["updated_at"]
        return found

    def faded(self, kind: str, pair: Any, weight: float, now: int) -> float:
        """A weight as it is at a later time."""
        days = self.settings.get(f"{kind.removeprefix('links-')}_links.decay_days")
        if days is None:
            return weight
        return weight * math.exp(-max(0, now - self.updated[pair]) / (days * DAY))


PLAIN = ("id", "text", "session", "category", "importance", "fingerprint", "external_ref")
PLAIN += ("author", "metadata")


def schema_of(schema: pa.Schema) -> str:
    names = {pa.float32(): "float32", pa.float64(): "float64"}  # Arrow says float and double

    def text(kind: pa.DataType) -> str:
        if pa.types.is_list(kind):
            return f"list<{text(kind.value_type)}>"
        return names.get(kind, str(kind))

    return ", ".join(f"{field.name} {text(field.type)}" for field in schema)


# -- against the library ---------------------------------------------------------------------------


def ours(mem: Any, kind: str) -> dict[Any, tuple[float, ...]]:
    found = {}
    for row in VIEWS[kind](mem).to_arrow().to_pylist():
        ends = (row["a"], row["b"])
        pair = (row["kind"], *ends) if kind == "links-cue" else tuple(sorted(ends))
        values = (row["weight"], row["written"], row["taught"])
        found[pair] = (*values, row["count"], row["valence"])
    return found


VIEWS: dict[str, Callable[[Any], Any]] = {
    "links-concept": lambda mem: mem.links,
    "links-note": lambda mem: mem.note_links,
    "links-cue": lambda mem: mem.cue_links,
}


def same_notes(store: Store, mem: Any) -> None:
    found = store.notes()
    want = {row["id"]: row for row in mem.notes.to_arrow().to_pylist()}
    assert set(found) == set(want)
    for note, row in found.items():
        theirs, held = want[note], mem.get(note)
        for name in (*PLAIN, "domain"):
            if name not in ("metadata", "importance", "category"):
                assert row[name] == theirs[name], (note, name)
        for name in ("created_at", "written_at"):
            assert row[name] == to_stamp(theirs[name])
        assert json.loads(row["metadata"] or "{}") == held.metadata
        assert row["category"] == held.category
        assert (row["importance"] if row["importance"] is not None else 0.5) == held.importance
        spelled = row.get("names", row.get("spelled"))
        assert [name.casefold() for name in spelled] == [n.casefold() for n in held.concepts]
        assert [n.casefold() for n in row["about"]] == [n.casefold() for n in held.subjects]
        assert row["vector"] == (None if held.vector is None else held.vector.tolist())
        assert row["superseded"] == held.superseded_by
        assert row["valence"] == held.valence


def same_links(store: Store, mem: Any, now: int) -> None:
    for kind, view in VIEWS.items():
        found = store.links(kind)
        assert found == ours(mem, kind)
        for pair, values in found.items():
            if kind != "links-cue":
                weight = store.faded(kind, pair, values[0], now)
                assert weight == pytest.approx(view(mem).weight(*pair), rel=1e-12)


def fill(path: Path, clock: Clock) -> None:
    """Something of everything that the page describes."""
    import fastassoc as fa
    from fastassoc import store as stores

    before, stores.BULK_ROWS = stores.BULK_ROWS, 6
    try:
        with fa.open(path, clock=clock, settings=fa.Settings.cognitive()) as mem:
            mem.write_batch(
                [
                    {
                        "id": f"n{n}",
                        "text": f"Note {n}: Łódź, 日本語, 🙂.",
                        "concepts": ["Tea", f"C{n}", "cup"],
                        "subjects": ["Tea"],
                        "session": f"s{n % 2}",
                        "vector": [1.0, n, 2.0],
                        "importance": n / 10,
                        "metadata": {"n": n},
                        "author": "a",
                    }
                    for n in range(5)
                ]
            )
            mem.snapshot()
            clock.advance(days=3)
            mem.write_batch([{"id": f"b{n}", "text": f"Bulk {n}."} for n in range(9)])
            mem.write("Newer.", id="newer", concepts=["tea"], supersedes=["n1"], session="s0")
            recall = mem.read(
                "why is the tea steaming?", rank="bridge", reinforce=True, session="s"
            )
            mem.feedback(recall, used=["n0", "n2"], outcome=0.8)
            mem.feedback(asked=["tea"], used_concepts=["milk"], outcome=-0.5)
            mem.link("n0", "n3", 0.4, layer="note")
            mem.link("pouring", "n3", 0.4, layer="cue")
            mem.forget(["n4", "b1"])
            mem.update("n3", metadata={"k": [1, "ü"]})
            mem.snapshot()
            clock.advance(days=2)
    finally:
        stores.BULK_ROWS = before


def tail(path: Path, clock: Clock) -> None:
    """Operations on notes after the snapshot."""
    import fastassoc as fa
    from fastassoc import store as stores

    before, stores.BULK_ROWS = stores.BULK_ROWS, 6
    try:
        with fa.open(path, clock=clock) as mem:
            mem.write("Late.", id="late", concepts=["Late One"], vector=[0.5, 0.25, 0.125])
            mem.write_batch(
                [
                    {
                        "id": f"t{n}",
                        "text": "Bulk.",
                        "concepts": ["Two", "tea"],
                        "subjects": ["tea"],
                    }
                    for n in range(8)
                ]
            )
            mem.write_batch(
                [
                    {"id": "n2", "text": "Anew.", "vector": [3.0, 2.0, 1.0]},
                    {"id": "x", "text": "X"},
                ],
                on_duplicate="replace",
            )
            mem.write_batch([{"id": "x", "text": "Not taken."}], on_duplicate="skip")
            mem.write("Replaces late.", id="later", supersedes=["late"])
            mem.forget(["b2", "t3"])
            mem.update("late", metadata={"z": 1})
    finally:
        stores.BULK_ROWS = before


def test_a_store_read_by_the_page_alone(path: Path, clock: Clock) -> None:
    import fastassoc as fa

    fill(path, clock)
    read = Store(path)
    with fa.open(path, clock=clock, read_only=True) as mem:
        same_notes(read, mem)
        same_links(read, mem, clock.stamp)
        assert all(len(ours(mem, kind)) for kind in ("links-concept", "links-note", "links-cue"))
    tail(path, clock)
    read = Store(path)
    assert any(row[0] > read.manifest["seq"] for row in read.rows)
    with fa.open(path, clock=clock, read_only=True) as mem:
        same_notes(read, mem)
    with fa.open(path, clock=clock) as mem:
        mem.snapshot()
    read = Store(path)
    with fa.open(path, clock=clock, read_only=True) as mem:
        same_notes(read, mem)
        same_links(read, mem, clock.stamp)


def test_a_journal_read_by_the_page_alone(path: Path, clock: Clock) -> None:
    """Before the first snapshot every note stands in the journal."""
    import fastassoc as fa

    with fa.open(path, clock=clock) as mem:
        mem.write("Tea.", id="a", concepts=["Tea", "Cup"], subjects=["cup"], metadata={"k": 1})
        mem.write_batch([{"id": "b", "text": "B."}, {"id": "c", "text": "C.", "vector": [1, 2]}])
        mem.forget(["b"])
    with fa.open(path, clock=clock, read_only=True) as mem:
        same_notes(Store(path), mem)


@pytest.mark.parametrize("version", VERSIONS)
def test_l39_archived_stores_read_by_the_page_alone(tmp_path: Path, version: str) -> None:
    import fastassoc as fa

    path = tmp_path / "store"
    shutil.copytree(STORES / version / "store", path)
    with fa.open(path) as mem:
        mem.snapshot()
        now = mem._state.time + 40 * DAY
    read = Store(path)
    with fa.open(path, clock=Clock(now), read_only=True) as mem:
        same_notes(read, mem)
        same_links(read, mem, now)


@pytest.mark.parametrize("what", ["segment", "manifest", "row", "head", "meta"])
def test_the_page_alone_tells_damage(path: Path, clock: Clock, what: str) -> None:
    fill(path, clock)
    tail(path, clock)
    Store(path)
    database = sqlite3.connect(path / "journal.db")
    if what == "row":
        database.execute(
            "UPDATE journal SET at = at + 1 WHERE seq = (SELECT max(seq) FROM journal)"
        )
    elif what == "meta":
        database.execute("UPDATE meta SET content = content || ' '")
    elif what == "head":
        database.execute("DELETE FROM journal WHERE seq = (SELECT max(seq) FROM journal)")
    database.commit()
    database.close()
    if what in ("segment", "manifest"):
        folder = path / "segments" if what == "segment" else path
        pattern = "links-concept-*" if what == "segment" else "manifest-*"
        for file in folder.glob(pattern):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            os.unlink(file)
            file.write_bytes(data)
    with pytest.raises(Damaged):
        Store(path).links("links-concept")


def test_the_reader_is_a_stranger() -> None:
    """Up to where the library is compared, nothing of it is imported."""
    text = Path(__file__).read_text(encoding="utf-8")
    reader, _, rest = text.partition("# -- against the library")
    assert rest
    assert not re.search(r"^\s*(import|from) fastassoc", reader, re.MULTILINE)
