"""Every byte flipped, every length cut, every file removed, exchanged, rolled back.

What a damaged store gives must be the right answer or an error of ours that names the file and
says what to do; `verify` must find what an open finds, and where it finds nothing, the answers are
right. A case is one damage of one store; stores are built in memory and laid out for each case.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import fastassoc as fa
from fastassoc import storecare
from fastassoc.errors import FastAssocError, StoreError
from fastassoc.journal import Journal

from .children import ended
from .crash import quick
from .judge import Violation, checked, require
from .script import NOW, STORE, Ledger, Model, Stage, answers, base, room, row, small, strict, told
from .watched import Played, play_all

Image = dict[str, bytes]  # the files of a store by their place in it
JOURNAL = ("journal.db", "journal.db-wal", "journal.db-shm")
OPERATIONS = ("op-old", "op-last")  # the first one's row is dropped
MASKS = (0x01, 0x80, 0xFF, 0x10)


class Case(NamedTuple):
    """One damage: what is done to which file of which store."""

    store: str
    what: str
    file: str
    at: int = 0
    other: str = ""

    def __str__(self) -> str:
        more = f" {self.other}" if self.other else ""
        return f"{self.store}: {self.what} {self.file} {self.at}{more}"


@dataclass
class Made:
    """A store to damage: what it is now, what it was, and what it must say."""

    image: Image
    older: list[Image] = field(default_factory=list)
    model: Model | None = None
    last: int = 0


# -- stores ----------------------------------------------------------------------------------------


def image_of(path: Path) -> Image:
    """The bytes of all files; nobody of this process may have the store open."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and not (file.parent.name == "cache" and file.suffix == ".lock")
    }


def taken(stage: Stage) -> Image:
    """The files as a kill would leave them, by way of a child, which drops no lock of ours."""
    copy = stage.root / "taken"
    shutil.rmtree(copy, ignore_errors=True)

    def take() -> None:
        shutil.copytree(stage.path, copy)

    assert ended(take) == 0
    return image_of(copy)


@contextmanager
def cached() -> Iterator[None]:
    """Stores of a few vectors and texts keep them in the cache, as those of many thousands do."""
    from fastassoc import handle, textcache, vectors

    before, build, texts = vectors.EXACT_BELOW, vectors.VectorIndex.build, textcache.KEPT_FROM
    vectors.EXACT_BELOW = handle.EXACT_BELOW = textcache.KEPT_FROM = 16

    def exact(matrix: Any, **options: Any) -> Any:  # so few are no worth to any other index
        return build(matrix, **{**options, "exact_below": before})

    vectors.VectorIndex.build = exact  # type: ignore[method-assign]
    try:
        yield
    finally:
        vectors.EXACT_BELOW = handle.EXACT_BELOW = before
        textcache.KEPT_FROM = texts
        vectors.VectorIndex.build = build  # type: ignore[method-assign]


def make(kind: str, root: Path) -> Made:
    """Make a store: ``closed`` cleanly, or ``left`` by a kill with a log."""
    made = Made({})
    with told(Ledger()) as ledger:
        base("two", root)
        stage = Stage(root)
        made.older.append(image_of(stage.path))
        mem = stage.open(settings=None)
        points = [row(f"p{n}", f"Point {n}.", vector=[1.0, n, n * n % 7]) for n in range(20)]
        mem.write_batch(points)
        mem.write("A cup.", id="cup", concepts=["cup", "tea"], session="s", operation_id="op-old")
        made.older.append(taken(stage))
        mem.snapshot()
        mem.read(vector=[1.0, 0.5, 0.0], reinforce=False)
        made.older.append(taken(stage))
        mem.link("tea", "cup", weight=0.5)
        mem.snapshot()
        stage.close()
        made.older.append(image_of(stage.path))
        mem = stage.open(settings=None)
        mem.read(vector=[1.0, 0.5, 0.0], reinforce=False)
        mem.link("tea", "milk", weight=0.25)
        made.older.append(taken(stage))
        mem.write_batch(
            [row("last", "The last.", "last", "tea", vector=[2.0, 1.0, 0.5])],
            operation_id="op-last",
        )
        if kind == "left":
            made.image = taken(stage)
        stage.close()
        if kind == "closed":
            made.image = image_of(stage.path)
    made.model, made.last = Model(ledger.operations), ledger.last
    return made


# -- cases -----------------------------------------------------------------------------------------


def kind_of(file: str) -> str:
    return Path(file).name.partition("-")[0] if "/" in file else file


def cases(name: str, made: Made, seed: int) -> Iterator[Case]:
    """Every damage of a store."""
    draw, files = random.Random(seed), sorted(made.image)
    for file in files:
        # the others hold the same bytes in both stores
        own = name == "left" or file.startswith(("journal.db", "head", "cache/"))
        size = len(made.image[file]) if own else 0
        for at in range(size):
            yield Case(name, "flip", file, at, str(draw.choice(MASKS)))
        for at in range(size):
            yield Case(name, "cut", file, at)
        for at in range(0, size, 512):
            yield Case(name, "zero", file, at)
        for what in ("gone", "folder", "link", "pipe", "zeroed", "longer", "empty"):
            yield Case(name, what, file)
        for other in files:
            if other != file:
                yield Case(name, "over", file, 0, other)
            if other < file:
                yield Case(name, "swap", file, 0, other)
        for place in new_names(file):
            yield Case(name, "again", file, 0, place)
    for at, older in enumerate(made.older):
        for file in sorted({*files, *older}):
            yield Case(name, "old", file, at)
        for mask in range(1, 1 << len(GROUPS)):
            yield Case(name, "old together", "", at, str(mask))


def new_names(file: str) -> list[str]:
    """Names under which a copy may lie that no file has."""
    if file.startswith("segments/"):
        return [f"segments/{kind_of(file)}-{'0' * 32}.parquet", "segments/tmp-" + "0" * 32]
    if file.startswith("manifest"):
        return ["manifest-0.json", "manifest-7.json", "manifest-99999.json"]
    return ["journal.db-journal", "journal.db-wal2", "head.old", "manifest-99998.json"]


GROUPS: list[Callable[[str], bool]] = [
    lambda file: file == "journal.db",
    lambda file: file == "journal.db-wal",
    lambda file: file == "journal.db-shm",
    lambda file: file == "head",
    lambda file: file.startswith("manifest-"),
    lambda file: file.startswith("segments/"),
]


class Lab:
    """Stores laid out, damaged, opened, verified."""

    def __init__(self, stores: dict[str, Made], root: Path, whole: int) -> None:
        self.stores = stores
        self.root = root
        self.whole = whole  # every so many cases are opened whole, besides what is not only bytes
        self.path = root / STORE
        self.seen: dict[Any, str] = {}
        self.telling = bool(os.environ.get("TELLING"))
        self.laid: tuple[str, dict[str, tuple[int, int, int]]] = ("", {})

    # -- laying out -------------------------------------------------------------------------------

    def lay(self, name: str, image: Image, keep: bool = True) -> None:
        """Make the folder equal to an image; what is only ever replaced is kept if it is the same.

        Parameters
        ----------
        name : str
            Of the store whose image it is.
        image : dict of bytes
        keep : bool
            Whether the image is the store's own.
        """
        known = self.laid[1] if self.laid[0] == name and keep else {}
        left, top = set(image), str(self.path)
        for folder in ("segments/", "cache/"):
            inner = f"{top}/{folder[:-1]}"
            if os.path.islink(inner) or os.path.isfile(inner):
                os.unlink(inner)
            os.makedirs(inner, exist_ok=True)
        for folder in ("", "segments/", "cache/"):
            with os.scandir(f"{top}/{folder}") as entries:
                for entry in entries:
                    file, info = folder + entry.name, entry.stat(follow_symlinks=False)
                    if file in ("segments", "cache") and not folder:
                        continue
                    if known.get(file) == (info.st_ino, info.st_mtime_ns, info.st_size):
                        left.discard(file)
                    elif stat.S_ISDIR(info.st_mode):
                        shutil.rmtree(entry.path)
                    elif file not in image or not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
                        os.unlink(entry.path)
        stamps = {file: known[file] for file in known if file not in left}
        for file in left:
            place = f"{top}/{file}"
            fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(fd, image[file])
            os.close(fd)
            if not file.startswith(("journal.db", "head")):  # those are written in place
                info = os.lstat(place)
                stamps[file] = (info.st_ino, info.st_mtime_ns, info.st_size)
        self.laid = (name if keep else "", stamps)

    def forget(self, *files: str) -> None:
        """What was damaged is not to be kept."""
        for file in files:
            self.laid[1].pop(file, None)

    def damage(self, case: Case) -> tuple[str, ...]:
        """Lay the store out and damage it; gives the files that an error may name."""
        made = self.stores[case.store]
        if case.what in ("old", "old together"):
            return self.roll(case, made)
        self.lay(case.store, made.image)
        place, data = self.path / case.file, made.image[case.file]
        self.forget(case.file, case.other)
        if case.what == "flip":
            with open(place, "r+b") as out:
                out.seek(case.at)
                out.write(bytes([data[case.at] ^ int(case.other)]))
        elif case.what == "cut":
            os.truncate(place, case.at)
        elif case.what == "zero":
            with open(place, "r+b") as out:
                out.seek(case.at)
                out.write(bytes(min(512, len(data) - case.at)))
        elif case.what == "longer":
            with open(place, "ab") as out:
                out.write(data[: 4096 + 24] or b"x")
        elif case.what in ("zeroed", "empty"):
            place.write_bytes(bytes(len(data)) if case.what == "zeroed" else b"")
        elif case.what in ("over", "swap"):
            place.write_bytes(made.image[case.other])
            if case.what == "swap":
                (self.path / case.other).write_bytes(data)
        elif case.what == "again":
            (self.path / case.other).write_bytes(data)
        else:
            place.unlink()
            if case.what == "folder":
                place.mkdir()
            elif case.what == "link":
                target = self.root / "elsewhere"
                target.write_bytes(data)
                place.symlink_to(target)
            elif case.what == "pipe":
                os.mkfifo(place)
        return (case.file, case.other)

    def roll(self, case: Case, made: Made) -> tuple[str, ...]:
        """One file, or several, as they were."""
        older, image = made.older[case.at], dict(made.image)
        if case.file:
            chosen = {case.file}
        else:
            picked = [group for n, group in enumerate(GROUPS) if int(case.other) >> n & 1]
            chosen = {f for f in (*image, *older) if any(group(f) for group in picked)}
        for file in chosen:
            if file in older:
                image[file] = older[file]
            else:
                image.pop(file, None)
        self.lay(case.store, image, keep=False)
        # what is old may show in what should go with it
        named = [f for f in image if f.startswith(("manifest-", "segments/"))]
        return (*chosen, "head", "journal.db", *named)

    def excused(self, case: Case, found: int) -> bool:
        """Whether all that tells of operations after `found` was rolled back: nobody can know."""
        mask = int(case.other)
        rolled = [bool(mask >> n & 1) for n in range(len(GROUPS))]
        image = self.stores[case.store].image
        told = [json.loads(data)["seq"] for f, data in image.items() if f.startswith("manifest-")]
        same = rolled[4] or max(told) <= found
        # a log of then over the journal of now shows then, too
        return (rolled[0] or rolled[1]) and rolled[3] and same

    # -- judging ----------------------------------------------------------------------------------

    def play(self, case: Case, number: int = 0) -> str:
        """Damage, open, verify; gives the outcome or raises a Violation."""
        with strict() as warned:
            files = self.damage(case)
            whole = case.what not in ("flip", "cut", "zero") or case.file.startswith("cache/")
            opened = self.outcome(case, files, whole or number % self.whole == 0)
            if warned and opened == "right":
                opened = "right with a warning"
            self.damage(case)
            problems = self.verified(files, whole)
        if opened.startswith("right"):
            if problems and self.telling:
                opened += f" {problems}"
            return opened if not problems else f"{opened}, verify tells"
        require(bool(problems), f"an open says {opened!r}, verify finds nothing")
        return "refused"

    def outcome(self, case: Case, files: tuple[str, ...], whole: bool) -> str:
        """How an open ends."""
        made = self.stores[case.store]
        assert made.model is not None
        try:
            with Journal.open(self.path, timeout=1.0) as journal:
                key = checked(journal)
                found = journal.head()
                known = [name for name in OPERATIONS if journal.done(name) is None]
            state = self.seen.get(key)
            if whole or state is None:
                with fa.open(self.path, create=False, clock=lambda: NOW, timeout=1.0) as mem:
                    state = self.seen[key] = mem._state.digest()
                    told = answers(mem)
                    later = mem.position
                    require(later == found, f"the journal ends at {found}, the memory at {later}")
                    require(told == made.model.answers.get(found), "another answer")
        except Violation:
            raise
        except FastAssocError as error:
            self.named(error, files)
            return f"{type(error).__name__}: {error}"
        require(state == made.model.digests.get(found), f"another state at operation {found}")
        if found == made.last:
            return "right, but a repeat counts twice" if known else "right"
        excused = case.what == "old together" and self.excused(case, found)
        require(excused, f"ends at operation {found}")
        return "right as it was, all rolled back"

    def named(self, error: FastAssocError, files: tuple[str, ...]) -> None:
        """The error is one of a store, names a file that was touched, and says what to do."""
        text = str(error)
        require(isinstance(error, StoreError), f"an error of another kind: {error!r}")
        names = {Path(file).name for file in files if file}
        if names & set(JOURNAL):
            names |= {"journal.db", "manifest-"}
        if any(file.startswith("segments/") for file in files):
            names.add("segments")
        require(any(name in text for name in names), f"the error names no file of it: {text}")
        advice = (
            "restore a backup",
            "open",
            "Open",
            "install",
            "look at the disk",
            "Check the disk",
            "run ",
        )
        require(any(word in text for word in advice), f"the error says nothing to do: {text}")

    def verified(self, files: tuple[str, ...], whole: bool) -> list[tuple[str, str]]:
        """What verify finds; an error of ours is a finding, too.

        Unless `whole`, without its last step, to load the store: see `outcome`.
        """
        try:
            if whole:
                return list(fa.verify(self.path, timeout=1.0).problems)
            with Journal.open(self.path, read_only=True, timeout=1.0) as journal:
                return list(storecare.verify(journal, None).problems)
        except FastAssocError as error:
            self.named(error, files)
            return [(type(error).__name__, str(error))]


def run(
    *,
    seed: int = 1,
    count: int | None = None,
    stores: tuple[str, ...] = ("closed", "left"),
    only: str | None = None,
    whole: int = 200,
    tell: Callable[[str], None] | None = None,
) -> Played:
    """Play all cases, or so many drawn by the seed.

    Parameters
    ----------
    seed : int
        Of the masks and the draw.
    count : int, optional
        So many cases; as evenly as can be over kinds of damage and of files.
    stores : tuple of str
    only : str, optional
        Only cases whose text holds this.
    whole : int
        Every so many flips are opened whole; others as far as bytes are checked.
    """
    place = room()
    try:
        with ExitStack() as held:
            for context in (small(), quick(), cached()):
                held.enter_context(context)
            made = {name: make(name, place / name) for name in stores}
            every = [case for name in stores for case in cases(name, made[name], seed)]
            every.sort(key=lambda case: case.file.startswith("cache"))  # the slow ones last
            if only is not None:
                every = [case for case in every if only in str(case)]
            if count is not None and count < len(every):
                every = drawn(every, count, seed)
            if tell is not None:
                tell(f"{len(every):,} cases")
            lab = Lab(made, place, whole)
            for name in stores:  # what is in order is right
                lab.lay(name, made[name].image)
                told = lab.outcome(Case(name, "nothing", ""), (), True)
                require(told == "right", f"{name}, undamaged: {told}")
            return play_all(
                len(every),
                lambda number: lab.play(every[number], number),
                lambda number: str(every[number]),
                place / "log",
                tell=tell,
            )
    finally:
        shutil.rmtree(place, ignore_errors=True)


def drawn(every: list[Case], count: int, seed: int) -> list[Case]:
    """So many cases: as evenly as can be over stores, damages and kinds of files."""
    draw = random.Random(seed)
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in draw.sample(every, len(every)):
        groups.setdefault((case.store, case.what, kind_of(case.file)), []).append(case)
    found: list[Case] = []
    turn = 0
    while len(found) < count:
        layer = [group[turn] for group in groups.values() if turn < len(group)]
        found += draw.sample(layer, min(len(layer), count - len(found)))
        turn += 1
    return found


__all__ = ["Case", "Lab", "Made", "cases", "make", "run"]
