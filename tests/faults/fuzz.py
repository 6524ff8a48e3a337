"""Mutants of everything that is read: segments, manifests, rows of the journal, ingests, values.

A mutant is a number: a seed and the number make it, so that one can be played again. Each is played
in a child with little memory to spare. Nothing may crash, stand still or raise what is no error of
ours, and:

* a store whose files were changed answers as before or is refused;
* a store whose files were changed and sealed anew (hashes, names, manifest and chain fit again) is
  another store, or is refused as a damaged one: it still verifies, opens, is read and written;
* an ingest changes nothing, or takes what another reader finds in the mutant, and every row of it
  is written, skipped or refused;
* a value given to a verb is refused with nothing changed, or is found again as it was given.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import math
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import xxhash

import fastassoc as fa
from fastassoc.errors import FastAssocError, StoreError
from fastassoc.formats import FORMAT

from . import damage
from .crash import quick
from .damage import Image, Lab, Made
from .judge import require
from .script import NOW, answers, room, small, strict
from .watched import Played, play_all

pq: Any = pyarrow.parquet
ipc: Any = pyarrow.ipc

MEMORY = 3 << 30  # bytes beyond what the child begins with
NUMBERS = [0, 1, -1, 2, 7, 255, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63)]
REALS = [0.0, -1.0, 1e308, -1e308, math.inf, -math.inf, math.nan, 5e-324]
TEXTS = [
    *("", " ", "\0", "a\0b", "\n", "\r\n", "\t", "|", '"', "'", "\\", ";", ",", "../x", "/etc"),
    *("\ud800", "x\udfff", "\ufeff", "\u202e", "\u0301", "e\u0301", "é", "İ", "ß", "ﬁ", "ＴＥＡ"),
    *(
        "日本語",
        "مرحبا",
        "👩‍👩‍👧",
        "\U0010ffff",
        "\u0000\u0001",
        "tea",
        "TEA",
        "NULL",
        "nan",
        "1e999",
    ),
    *("a" * 600, "é" * 300, "x" * 70_000, "\u0301" * 2000, "tea " * 3000),
]


# -- mutating --------------------------------------------------------------------------------------


def mutated_bytes(data: bytes, draw: random.Random, other: bytes = b"") -> bytes:
    """Some bytes changed, cut, repeated, put in."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(len(out) + 1)
        end = min(len(out), at + draw.choice((1, 1, 2, 4, 8, 64, 1024)))
        way = draw.randrange(9)
        if way == 0 and at < len(out):
            out[at] ^= 1 << draw.randrange(8)
        elif way == 1 and at < len(out):
            out[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x2C, 0x0A, 0x7B, 0x5B))
        elif way == 2:
            del out[at:end]
        elif way == 3:
            out[at:at] = out[at:end] * draw.choice((1, 1, 2, 50))
        elif way == 4:
            out[at:at] = draw.randbytes(draw.choice((1, 4, 64)))
        elif way == 5:
            number = draw.choice(NUMBERS).to_bytes(8, "little", signed=True)
            out[at:end] = number[: end - at].ljust(end - at, b"\0")
        elif way == 6 and other:
            start = draw.randrange(len(other))
            out[at:end] = other[start : start + end - at]
        elif way == 7:
            del out[at:]
        else:
            out[at:end] = reversed(out[at:end])
    return bytes(out)


def mutated_json(value: Any, draw: random.Random) -> Any:
    """One node of a JSON value replaced, left out or put elsewhere."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        inner = node.items() if isinstance(node, dict) else enumerate(node)
        for key, held in list(inner):
            places.append((node, key))
            if isinstance(held, (dict, list)):
                walk(held)

    whole = {"value": json.loads(json.dumps(value))}
    walk(whole)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        node, key = draw.choice(places)
        with suppress(KeyError, IndexError):
            held = node[key]
            way = draw.randrange(8)
            if way == 0:
                del node[key]
            elif way == 1:
                node[key] = draw.choice(NUMBERS)
            elif way == 2:
                node[key] = draw.choice(TEXTS)
            elif way == 3:
                node[key] = draw.choice((None, True, False, [], {}, [[]], [None], {"a": None}))
            elif way == 4:
                node[key] = draw.choice(REALS)
            elif way == 5:
                node[key] = json.loads("[" * 500 + "]" * 500)
            elif way == 6:
                other, there = draw.choice(places)
                node[key] = json.loads(json.dumps(other[there]))
            elif isinstance(held, (int, float)) and not isinstance(held, bool):
                node[key] = held + draw.choice((1, -1, 0.5))
            elif isinstance(held, str):
                node[key] = mutated_bytes(held.encode(errors="replace"), draw).decode(
                    errors="surrogateescape"
                )
            elif isinstance(held, list) and held:
                node[key] = [*held, draw.choice(held)]
    return whole.get("value")


def mutated_table(table: pa.Table, draw: random.Random) -> pa.Table:
    """Values, rows or columns of a table changed."""
    for _ in range(draw.choice((1, 1, 2))):
        rows, place = table.num_rows, draw.randrange(table.num_columns)
        field = table.schema.field(place)
        way = draw.randrange(8)
        if way == 0 and rows:
            table = table.take(pa.array(draw.sample(range(rows), rows)))
        elif way == 1 and rows:
            table = table.take(pa.array([*range(rows), draw.randrange(rows)]))
        elif way == 2 and rows:
            table = table.slice(0, draw.randrange(rows))
        elif way == 3 and table.num_columns > 1:
            table = table.remove_column(place)
        elif rows:
            values = table.column(place).to_pylist()
            for _ in range(draw.choice((1, 1, 3))):
                values[draw.randrange(rows)] = other_value(field.type, values, draw)
            with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
                made = pa.array(values, field.type)
                table = table.set_column(place, field.with_nullable(True), made)
    return table


def other_value(kind: pa.DataType, values: list[Any], draw: random.Random) -> Any:
    if draw.random() < 0.15:
        return None
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = [other_value(kind.value_type, [1], draw) for _ in range(draw.randrange(4))]
        if pa.types.is_fixed_size_list(kind):
            inner = [other_value(kind.value_type, [1], draw) for _ in range(kind.list_size)]
        return inner
    if pa.types.is_floating(kind):
        return draw.choice(REALS)
    if pa.types.is_integer(kind):
        width = kind.bit_width
        low = 0 if pa.types.is_unsigned_integer(kind) else -(1 << width - 1)
        high = (1 << width) - 1 + low
        return draw.choice([n for n in (*NUMBERS, high, low) if low <= n <= high])
    if pa.types.is_string(kind):
        return draw.choice([text for text in TEXTS if text.isprintable()] + values)
    return draw.choice(values)


# -- stores ----------------------------------------------------------------------------------------


class Fuzz:
    """What mutants are made from, and how each kind of them is played."""

    def __init__(self, seed: int, root: Path, made: Made) -> None:
        self.seed, self.root, self.made = seed, root, made
        self.lab = Lab({"closed": made}, root, 1)
        self.path = self.lab.path
        self.image = made.image
        self.manifest_name = max(
            (f for f in self.image if f.startswith("manifest-")), key=lambda f: (len(f), f)
        )
        self.manifest = json.loads(self.image[self.manifest_name])
        self.tables = {
            part["name"]: pq.read_table(
                pa.BufferReader(self.image[f"segments/{part['name']}"]), use_threads=False
            )
            for part in self.manifest["segments"]
        }
        self.bases = ingest_files()
        self.kinds: list[tuple[int, str, Callable[[random.Random], str]]] = [
            (3, "segment", self.segment),
            (6, "segment sealed", self.sealed_segment),
            (2, "manifest", self.manifest_bytes),
            (5, "manifest sealed", self.sealed_manifest),
            (2, "row", self.row),
            (7, "row sealed", self.sealed_row),
            (15, "ingest", self.ingest),
            (10, "values", self.values),
        ]
        self.weights = [weight for weight, _, _ in self.kinds]

    def kind(self, number: int) -> tuple[str, Callable[[random.Random], str], random.Random]:
        draw = random.Random(self.seed * 1_000_003 + number)
        _, name, play = draw.choices(self.kinds, self.weights)[0]
        return name, play, draw

    def name(self, number: int) -> str:
        return f"mutant {number} of seed {self.seed}, {self.kind(number)[0]}"

    def play(self, number: int) -> str:
        name, play, draw = self.kind(number)
        with strict():
            return f"{name} {play(draw)}"

    # -- files as they lie -------------------------------------------------------------------------

    def changed(self, file: str, data: bytes) -> str:
        """A store of which one file has other bytes."""
        self.lab.lay("closed", self.image)
        self.lab.forget(file)
        (self.path / file).write_bytes(data)
        if data == self.image[file]:
            return "the same"
        case = damage.Case("closed", "mutant", file)
        outcome = self.lab.outcome(case, (file,), False)
        return "right" if outcome.startswith("right") else "refused"

    def segment(self, draw: random.Random) -> str:
        file = draw.choice([f for f in self.image if f.startswith("segments/")])
        return self.changed(file, mutated_bytes(self.image[file], draw))

    def manifest_bytes(self, draw: random.Random) -> str:
        file = self.manifest_name
        return self.changed(file, mutated_bytes(self.image[file], draw))

    def row(self, draw: random.Random) -> str:
        """A value in a row of the journal, whose hash does not fit any more."""
        self.lab.lay("closed", self.image)
        column = draw.choice(("kind", "at", "body", "format", "hash", "seq", "vectors", "op_id"))
        value: Any = draw.choice((*NUMBERS, *TEXTS, b"", b"\xff" * 16, None, 1.5))
        with self.database() as database:
            seqs = [seq for (seq,) in database.execute("SELECT seq FROM journal")]
            seq = draw.choice(seqs)
            if column == "body" and draw.random() < 0.7:
                ((body,),) = database.execute("SELECT body FROM journal WHERE seq = ?", (seq,))
                value = json.dumps(mutated_json(json.loads(body), draw))
            try:
                database.execute(f"UPDATE journal SET {column} = ? WHERE seq = ?", (value, seq))
                database.commit()
            except (sqlite3.Error, OverflowError, UnicodeEncodeError):
                database.rollback()
        case = damage.Case("closed", "mutant", "journal.db")
        outcome = self.lab.outcome(case, ("journal.db",), False)
        return "right" if outcome.startswith("right") else "refused"

    # -- files sealed anew -------------------------------------------------------------------------

    def database(self) -> _Closing:
        return _Closing(self.path / "journal.db")

    def sealed(self, image: Image, meta: dict[str, Any], rows: list[list[Any]]) -> str:
        """Lay out a store whose journal says what is given, and use it in every way."""
        self.lab.lay("closed", image, keep=False)
        content = json.dumps(meta)
        with self.database() as database:
            database.execute(
                "UPDATE meta SET content = ?, hash = ?",
                (content, xxhash.xxh3_128_digest(content.encode())),
            )
            if rows:
                database.execute("DELETE FROM journal")
                database.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            database.commit()
        return self.used()

    def used(self) -> str:
        """Verify, open, read and write a store that may say anything."""
        told = self.tried(lambda: fa.verify(self.path, digest=True, timeout=1.0).ok)
        opened = self.tried(self.open_and_read)
        if opened is True:
            written = self.tried(self.write)
            require(
                told is not True or written is None, f"nothing is wrong, a write says {written}"
            )
            return "taken" if told is True else "taken, verify tells"
        require(told is not True, f"verify finds nothing, an open says {opened}")
        return "refused"

    def tried(self, act: Callable[[], Any]) -> Any:
        """What an act gives, or the error of a store that it raises."""
        try:
            return act()
        except StoreError as error:
            return str(error)

    def open_and_read(self) -> bool:
        with fa.open(self.path, create=False, clock=lambda: NOW, timeout=1.0) as mem:
            with suppress(FastAssocError):
                answers(mem)
            mem._state.digest()
            for note in mem.notes.to_arrow().column("id").to_pylist():
                mem.get(note)
            mem.cue_links.to_arrow()
            mem.note_links.to_arrow()
            mem.stats()
        return True

    def write(self) -> None:
        with fa.open(self.path, create=False, clock=lambda: NOW, timeout=1.0) as mem:
            with suppress(FastAssocError):
                mem.write("Tea.", concepts=["tea", "new"], session="s")
                mem.feedback(asked=["tea"], used=["n1"], outcome=0.5)
                mem.forget(["n1", "n3"])
            mem.snapshot()
            digest = mem._state.digest()
        with fa.open(self.path, create=False, clock=lambda: NOW, timeout=1.0) as mem:
            require(mem._state.digest() == digest, "another state after a snapshot")

    def meta(self) -> dict[str, Any]:
        self.lab.lay("closed", self.image)
        with self.database() as database:
            ((content,),) = database.execute("SELECT content FROM meta")
        found: dict[str, Any] = json.loads(content)
        return found

    def with_manifest(self, manifest: Any, image: Image) -> str:
        meta = self.meta()
        data = json.dumps(manifest, sort_keys=True, indent=1).encode(errors="replace")
        meta["current"][2] = xxhash.xxh3_128_hexdigest(data)
        return self.sealed({**image, self.manifest_name: data}, meta, [])

    def sealed_segment(self, draw: random.Random) -> str:
        manifest = json.loads(json.dumps(self.manifest))
        part = draw.choice(manifest["segments"])
        old, table = part["name"], self.tables[part["name"]]
        data = self.image[f"segments/{old}"]
        if draw.random() < 0.3:
            data = mutated_bytes(data, draw)
        else:
            table = mutated_table(table, draw)
            sink = io.BytesIO()
            loose = pa.schema([pa.field(f.name, _loose(f.type)) for f in table.schema])
            pq.write_table(
                table.cast(loose),
                sink,
                use_dictionary=draw.random() < 0.1,
                store_schema=draw.random() < 0.05,
            )
            data = sink.getvalue()
            part["rows"] = table.num_rows
            if draw.random() < 0.7:
                names = set(table.column_names)
                kept = [c for c in part["schema"].split(", ") if c.partition(" ")[0] in names]
                part["schema"] = ", ".join(kept)
        part["hash"] = xxhash.xxh3_128_hexdigest(data)
        part["name"] = f"{part['kind']}-{part['hash']}.parquet"
        part["bytes"] = len(data)
        for spans in (manifest["state"].get(kind, []) for kind in ("notes", "vectors")):
            for span in spans:
                span["name"] = part["name"] if span["name"] == old else span["name"]
        return self.with_manifest(manifest, {**self.image, f"segments/{part['name']}": data})

    def sealed_manifest(self, draw: random.Random) -> str:
        if draw.random() < 0.5:  # most of it is settings
            changed = {**self.manifest}
            place = draw.choice(("state", "segments", "counts", "previous", "embedder", "store"))
            changed[place] = mutated_json(changed[place], draw)
            return self.with_manifest(changed, self.image)
        return self.with_manifest(mutated_json(self.manifest, draw), self.image)

    def sealed_row(self, draw: random.Random) -> str:
        meta = self.meta()
        with self.database() as database:
            columns = "seq, op_id, format, kind, at, body, vectors, hash"
            found = database.execute(f"SELECT {columns} FROM journal ORDER BY seq")
            rows = [list(row) for row in found.fetchall()]
        current = meta["current"]
        later = [row for row in rows if row[0] > current[0]]
        one = draw.choice(later)
        way = draw.random()
        if way < 0.55:
            kind = draw.choice(list(BODIES))
            one[3], one[5] = kind, mutated_json(BODIES[kind], draw)
        elif way < 0.75:
            one[5] = mutated_json(json.loads(one[5]), draw)
        elif way < 0.85:
            one[3] = draw.choice((*BODIES, "", "nothing", "create", "purge", "x", "__init__"))
        elif way < 0.95:
            one[6] = draw.choice((None, b"", b"\0" * 4, b"\xff" * 12, draw.randbytes(12)))
        else:
            one[4] = draw.choice(NUMBERS)
        if not isinstance(one[5], str):
            one[5] = json.dumps(one[5])
        before = bytes.fromhex(current[3])
        for row in later:
            parts = [row[1], row[3].encode(), row[5].encode(errors="replace"), row[6]]
            row[5] = parts[2].decode()
            lengths = [-1 if part is None else len(part) for part in parts]
            head = struct.pack("<16s7q", before, row[0], FORMAT, row[4], *lengths)
            row[2] = FORMAT
            before = row[7] = xxhash.xxh3_128_digest(head + b"".join(p or b"" for p in parts))
        return self.sealed(self.image, meta, rows)

    # -- ingests -----------------------------------------------------------------------------------

    def ingest(self, draw: random.Random) -> str:
        name = draw.choice(list(self.bases))
        other, kind = self.bases[draw.choice(list(self.bases))], name
        data = mutated_bytes(self.bases[name], draw, other)
        stem, _, pack = name.partition(".")
        if pack and draw.random() < 0.5:  # the bytes within, packed again
            data = PACKS[pack](mutated_bytes(self.bases[stem], draw))
        file = self.root / f"in.{name}"
        file.write_bytes(data)
        with fa.Memory(clock=lambda: NOW) as mem:
            try:
                report = mem.ingest(
                    str(file), max_rejects=1.0, metadata_columns=draw.choice((None, "rest"))
                )
            except FastAssocError:
                require(len(mem) == 0 and mem.position == 0, f"{kind}: an error, and something new")
                return f"{stem} refused"
            counted = report.written + report.skipped + report.replaced + report.rejected
            require(report.rows == counted, f"{kind}: {report}")
            require(len(report.reasons) >= min(1, report.rejected), "refused without a reason")
            found = [(note["id"], note["text"]) for note in mem.notes.to_arrow().to_pylist()]
        plain = read_plainly(stem, unpacked(pack, data))
        if plain is not None:
            texts = {text for _, text in plain}
            pairs = set(plain)
            for note, text in found:
                require(
                    text in texts and ((note, text) in pairs or len(note) == 36),
                    f"{kind}: took {note!r:.80} {text!r:.80}, which the file does not say",
                )
        return f"{stem} taken" if found else f"{stem} without a good row"

    # -- values ------------------------------------------------------------------------------------

    def values(self, draw: random.Random) -> str:
        refused = taken = 0
        with fa.Memory(clock=lambda: NOW, settings=draw.choice(SETTINGS)()) as mem:
            mem.write("Tea.", id="n1", concepts=["tea", "cup"], vector=[1.0, 2.0])
            mem.write("Milk.", id="n2", concepts=["tea", "milk"], session="s")
            for _ in range(4):
                verb, arguments = draw.choice(VERBS)
                given = {name: odd(draw, name) for name in arguments if draw.random() < 0.6}
                before = mem._state.digest(), mem.position
                try:
                    found = getattr(mem, verb)(**given)
                except TypeError as error:
                    missing = "required" in str(error) and "argument" in str(error)
                    require(missing, f"{verb}({given!r:.200}): {error!r}")
                    continue
                except FastAssocError:
                    require(
                        (mem._state.digest(), mem.position) == before,
                        f"{verb}({given!r:.200}) was refused and changed something",
                    )
                    refused += 1
                    continue
                taken += 1
                if verb == "write":
                    require(mem.get(found).text == given["text"], f"another text: {given!r:.200}")
                    for name in ("domain", "session", "author"):
                        if given.get(name) is not None:
                            held = getattr(mem.get(found), name)
                            require(held == given[name], f"another {name}: {given!r:.200}")
            lines = [json.loads(json.dumps(line)) for line in mem.export_lines()]
            if draw.random() < 0.1:
                self.saved(mem, lines)
        return f"{'refused' if refused else 'taken'}"

    def saved(self, mem: Any, lines: list[Any]) -> None:
        """The same by way of the disk."""
        path = self.root / "values.fa"
        shutil.rmtree(path, ignore_errors=True)
        with fa.open(path, clock=lambda: NOW, settings=mem.settings) as store:
            store.import_lines(lines)
            store.snapshot()
            digest = store._state.digest()
        with fa.open(path, clock=lambda: NOW) as store:
            require(store._state.digest() == digest, "another state after a snapshot")
            texts = sorted(n["text"] for n in mem.notes.to_arrow().to_pylist())
            require(
                texts == sorted(n["text"] for n in store.notes.to_arrow().to_pylist()),
                "other texts after an export",
            )


def _loose(kind: pa.DataType) -> pa.DataType:
    """The type with nulls anywhere."""
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_loose(kind.value_type))
    return kind


class _Closing:
    """A database that is closed at the end, in the journal's own mode."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path)
        self.database.text_factory = lambda raw: raw.decode(errors="replace")

    def __enter__(self) -> sqlite3.Connection:
        return self.database

    def __exit__(self, *_: object) -> None:
        self.database.close()


BODIES: dict[str, Any] = {
    "write": {
        "on_duplicate": "skip",
        "rows": [
            {"id": "f1", "text": "Tea.", "concepts": ["tea", "fuzz"], "subjects": [0]},
            {"id": "f2", "text": "Pot.", "concepts": ["pot"], "spelled": ["Pot"], "session": "s"},
        ],
        "ingest": {"key": "k", "batch": 0, "rows_done": 2, "rejected": 0, "final": False},
    },
    "feedback": {
        "asked": [["tea", "Tea"]],
        "stems": ["tea"],
        "names": [["milk", "milk"]],
        "outcome": 0.5,
        "amount": 0.5,
        "together": 0.1,
        "used": ["n1"],
        "share": 0.5,
    },
    "link": {"layer": "concept", "a": ["tea", "tea"], "b": ["milk", "milk"], "amount": 0.5},
    "unlink": {"layer": "concept", "a": ["tea", "tea"], "b": ["kettle", "kettle"]},
    "forget": {"ids": ["n1", "n3"]},
    "update": {"id": "n1", "metadata": "{}"},
    "reinforce": {"direct": ["n1"], "associated": ["n3"], "session": "s", "amount": 0.1},
    "tick": {"now": 1_900_000_000_000_000},
    "configure": {"changes": {"hop_factor": 0.5}},
    "embedder": {"embedder": {"name": "e", "dim": 3}},
    "reembed": {"embedder": {"name": "e", "dim": 3}, "seqs": [0], "through": 0},
    "reembedded": {"embedder": {"name": "e", "dim": 3}},
    "import": {
        "ingest": {"key": "k", "batch": 0, "rows_done": 1, "rejected": 0, "final": True},
        "concepts": [["a", "A"], ["b", "B"]],
        "links": [["a", "b", 1.0, 1.0, 1, 0.0, 0, 0]],
    },
    "purge": {},
}
SETTINGS = (fa.Settings.counts, fa.Settings.cognitive)
VERBS: list[tuple[str, tuple[str, ...]]] = [
    (
        "write",
        (
            *("text", "id", "concepts", "subjects", "domain", "session", "category", "importance"),
            *("fingerprint", "external_ref", "author", "metadata", "created_at", "vector"),
            *("supersedes", "operation_id"),
        ),
    ),
    ("write", ("text", "id", "concepts")),
    ("write", ("text", "domain", "session", "author", "metadata")),
    ("read", ("query", "concepts", "vector", "k", "domain", "where", "session", "hops", "rank")),
    ("read", ("query",)),
    ("read", ("concepts",)),
    ("link", ("a", "b", "weight", "layer")),
    ("unlink", ("a", "b", "layer")),
    ("feedback", ("asked", "used", "used_concepts", "outcome")),
    ("forget", ("notes", "where")),
    ("get", ("note",)),
    ("update", ("note", "metadata")),
    ("associate", ("concepts", "k")),
    ("recent", ("limit", "domain")),
    ("write_batch", ("rows",)),
]


def odd(draw: random.Random, name: str) -> Any:
    """A value to give; mostly of the type that is wanted."""
    text = draw.choice(TEXTS)
    if draw.random() < 0.1:
        return draw.choice((None, True, 7, -1, 2**70, 1.5, math.nan, b"x", [], {}, object(), text))
    if name in ("concepts", "subjects", "used_concepts", "asked", "used", "notes", "supersedes"):
        return [draw.choice((*TEXTS, "tea", "n1", "n2")) for _ in range(draw.randrange(4))]
    if name in ("importance", "outcome", "weight"):
        return draw.choice((*REALS, 0.5, 1.0, -0.5))
    if name in ("k", "limit", "hops", "created_at"):
        return draw.choice((*NUMBERS, 3, 5))
    if name == "vector":
        return [draw.choice((*REALS, 1.0, 2.0)) for _ in range(draw.choice((0, 1, 2, 2, 2, 3)))]
    if name in ("metadata", "where"):
        deep = json.loads("[" * 300 + "]" * 300)
        return draw.choice(
            ({}, {text: text}, {"a": deep}, {"n": draw.choice(NUMBERS)}, {"r": draw.choice(REALS)})
        )
    if name == "rows":
        return [
            {field: odd(draw, field) for field in ("text", "id", "concepts", "domain", "metadata")}
            for _ in range(draw.randrange(4))
        ]
    if name in ("a", "b", "id", "note"):
        return draw.choice((text, "tea", "milk", "n1", "n2", "new"))
    if name == "layer":
        return draw.choice(("concept", "note", "cue", text))
    if name == "rank":
        return draw.choice(("counts", "bridge", "flat", "ppr", "retention", text))
    return text


# -- ingest files ----------------------------------------------------------------------------------


PACKS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: bytes(pa.Codec("zstd").compress(data, asbytes=True)),
}


def ingest_files() -> dict[str, bytes]:
    """A small file of each format that an ingest takes."""
    rows: list[dict[str, Any]] = [
        {
            "id": f"i{n}",
            "text": f"Row {n}: tea, «Łódź» 日本語.",
            "concepts": ["tea", f"c{n}"],
            "domain": "d",
            "session": None if n % 2 else "s",
            "importance": n / 10,
            "created_at": 1_700_000_000_000_000 + n,
            "vector": [1.0, float(n), 2.0],
        }
        for n in range(8)
    ]
    table = pa.Table.from_pylist(rows)
    found = {"jsonl": "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["id", "text", "concepts", "domain", "importance"])
    for row in rows:
        writer.writerow([row["id"], row["text"], "tea;c", "d", row["importance"]])
    found["csv"] = text.getvalue().encode()
    for name, options in (("parquet", {"compression": "none"}), ("pq", {"compression": "zstd"})):
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=4, **options)
        found[name] = sink.getvalue()
    for name, make in (("arrow", ipc.new_file), ("arrows", ipc.new_stream)):
        sink = io.BytesIO()
        with make(sink, table.schema) as out:
            out.write_table(table, max_chunksize=4)
        found[name] = sink.getvalue()
    for pack, packed in PACKS.items():
        found[f"jsonl.{pack}"] = packed(found["jsonl"])
        found[f"csv.{pack}"] = packed(found["csv"])
    return found


def unpacked(pack: str, data: bytes) -> bytes | None:
    """The bytes within; None where another reader finds none."""
    if not pack:
        return data
    codec = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}[pack]
    try:
        return bytes(pa.CompressedInputStream(pa.BufferReader(data), codec).read())
    except (OSError, pa.ArrowException):
        return None


def read_plainly(stem: str, data: bytes | None) -> list[tuple[Any, Any]] | None:
    """Ids and texts in a file, as another reader finds them; None where it finds no rows."""
    if data is None:
        return None
    if stem == "jsonl":
        found = []
        for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict):
                    found.append((str(row.get("id")), row.get("text")))
        return found if all(hashable(pair) for pair in found) else None
    if stem == "csv":
        return None  # where lines begin and end after a mutation is the reader's own affair
    try:
        if stem in ("parquet", "pq"):
            table = pq.read_table(pa.BufferReader(data), use_threads=False)
        else:
            opened = ipc.open_file if data[:6] == b"ARROW1" else ipc.open_stream
            table = opened(pa.BufferReader(data)).read_all()
        table.validate(full=True)
        held = table.select(["id", "text"]).to_pylist()
    except Exception:  # whatever another reader says of it
        return None
    return [(str(row["id"]), row["text"]) for row in held]


def hashable(pair: tuple[Any, Any]) -> bool:
    try:
        hash(pair)
    except TypeError:
        return False
    return True


# -- running ---------------------------------------------------------------------------------------


def run(
    mutants: int,
    *,
    seed: int = 1,
    only: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Played:
    """Play so many mutants of a seed, or one of them."""
    place = room()
    try:
        with ExitStack() as held:
            for context in (small(), quick()):
                held.enter_context(context)
            fa.warm()
            fuzz = Fuzz(seed, place, damage.make("closed", place / "closed"))
            if only is not None:
                print(fuzz.name(only), fuzz.play(only))
                return Played()
            return play_all(mutants, fuzz.play, fuzz.name, place / "log", memory=MEMORY, tell=tell)
    finally:
        shutil.rmtree(place, ignore_errors=True)


__all__ = ["Fuzz", "run"]
