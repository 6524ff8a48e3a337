"""The mention index against a twin that looks at every note anew, after every step."""

from __future__ import annotations

import hashlib
from typing import Any

import naive_mentions as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastassoc as fa
import fastassoc.mentionindex as module
import fastassoc.postings as postings
from fastassoc.errors import InvalidInput
from fastassoc.kernels import mentions as kernels
from fastassoc.mentionindex import gather, list_sizes
from fastassoc.postings import Postings
from fastassoc.state import Operation, State

NAMES = [
    "paris",
    "new york",
    "new york times",
    "york",
    "times square garden",
    "the who",  # stop words only
    "it",
    "c++",  # shares its looser key with the next
    "c",
    "->",  # no letter or digit
    "one two three four five six",
    "one two three four five six seven",  # too long to be found
    "two three",
    "café müller",
    "東京",
    "京都",
    "東京都",
    "京",  # a single character, in no pair alone
    "ai技術",
    "ราคา",
    "straße",
    "हिन्दी",
    "3.5",
]
WORDS = [
    *["new", "york", "times", "square", "garden", "the", "who", "it", "c", "c++", "->", "Paris"],
    *["New York", "New York Times", "The Who,", "one", "two", "three", "four five six", "seven"],
    *["Cafe Muller", "Café", "Müller's", "東京", "Straße", "STRASSE", "हिन्दी", "3", "5", "3.5"],
    *["of", "newest", "parises", "ring", "東京都に", "京都AI技術", "東、京", "AI 技術", "ราคากาแฟ"],
]
some_text = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
some_names = st.dictionaries(st.sampled_from(NAMES), st.booleans(), max_size=4)


@pytest.fixture(params=["looks", "scans all", "compacts"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few notes take the ways of many."""
    monkeypatch.setattr(module, "NOTES_PER_NAME", 100 if request.param == "scans all" else 0)
    monkeypatch.setattr(module, "CHUNK", 3)
    if request.param == "compacts":
        monkeypatch.setattr(module, "COMPACT_LEAST", 2)
        for name, value in zip(("LATE_MOST", "TAIL_LEAST", "TAIL_SHARE"), (3, 9, 2), strict=True):
            monkeypatch.setattr(postings, name, value)


class Both:
    """A memory and the twin."""

    def __init__(self) -> None:
        self.mem = fa.Memory()
        self.twin = naive.Mentioning()

    def write(self, notes: list[tuple[str, dict[str, bool], str]], replace: bool = False) -> None:
        """Notes with names to declare (as a subject or a concept); found names come by the text."""
        rows = []
        for text, names, note in notes:
            row: dict[str, Any] = {"id": note, "text": text or "."}
            if names:
                row["concepts"] = [key for key, subject in names.items() if not subject]
                row["subjects"] = [key for key, subject in names.items() if subject]
            rows.append(row)
        how = "replace" if replace else "skip"
        self.mem.write_batch(rows, on_duplicate=how)
        self.follow()

    def forget(self, ids: list[str]) -> None:
        self.mem.forget(ids)
        self.follow()

    def purge(self) -> None:
        """Drop unused names; one that comes back is another concept."""
        self.keys()
        state = self.state
        state.apply(Operation("purge", state.time, {}), state.position)

    def kept(self) -> None:
        """Go on with the index that its arrays make."""
        state = self.state
        before = state._mentions.arrays()
        state._mentions = module.MentionIndex.from_arrays(
            {name: array.copy() for name, array in before.items()}
        )
        state._views = {}

    def follow(self) -> None:
        """Tell the twin of new notes and what they carry, and of dead ones."""
        table = self.state.notes
        key = self.keys().__getitem__
        for row in range(len(self.twin.texts), len(table.ids)):
            concepts, subject = table.concepts_of(row)
            given = subject | (not table.extracted.array[row])
            own = dict(zip(map(key, concepts.tolist()), given.tolist(), strict=True))
            self.twin.write(table.texts[row], own)
        for row in np.flatnonzero(table.alive.array == 0).tolist():
            self.twin.forget(row)

    @property
    def state(self) -> State:
        return self.mem._state

    def keys(self) -> dict[int, str]:
        """Every name ever seen, dropped ones too."""
        seen = self.__dict__.setdefault("seen", {})
        vocabulary = self.state.vocabulary
        for concept in range(vocabulary.n_ids):
            if vocabulary.key(concept):
                seen[concept] = vocabulary.key(concept)
        return seen

    def check(self) -> None:
        view = self.state.view(text=True)
        mentions, key = view.mentions, self.keys()
        assert mentions is not None
        wanted = self.twin.mentions()
        held = [mentions.of(row).tolist() for row in range(mentions.n_rows)]
        assert all(row == sorted(set(row)) for row in held)
        assert [{key[c] for c in row} for row in held] == wanted
        assert mentions.n_live == sum(self.twin.alive)
        every = np.arange(view.vocabulary.n_ids + 2, dtype=np.uint32)
        counts = [sum(c in row for row in held) for c in every.tolist()]
        assert mentions.dfs.tolist() == counts[:-2]
        assert mentions.dfs_of(every).tolist() == counts
        for concept in every.tolist():
            rows = [row for row, concepts in enumerate(held) if concept in concepts]
            assert mentions.rows(concept).tolist() == rows
            assert mentions.df(concept) == len(rows)
        self.check_sums(held, every)
        pairs = map(view.notes.table.concepts_of, range(view.notes.n))
        declared = [concepts[subject].tolist() for concepts, subject in pairs]
        for concept in every.tolist():
            rows = [row for row, names in enumerate(declared) if concept in names]
            assert view.notes.subjects.rows(concept).tolist() == rows

    def check_sums(self, held: list[list[int]], ids: Any) -> None:
        mentions = self.state.view(text=True).mentions
        assert mentions is not None
        rng = np.random.default_rng(len(held))
        ids = ids[rng.random(len(ids)) < 0.7]
        weights = rng.choice([0.0, 0.1, 0.7, -0.7, 1 / 3], len(ids))
        allowed = (rng.random(len(held)) < 0.8).astype(np.uint8)
        rows, sums = mentions.gather(ids, weights, allowed)
        wanted = naive.gather(held, ids.tolist(), weights.tolist(), allowed.tolist())
        assert list(zip(rows.tolist(), sums.tolist(), strict=True)) == wanted


@pytest.mark.usefixtures("limits")
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_every_step_equals_an_index_built_at_once(data: Any) -> None:
    both = Both()
    some_note = st.tuples(some_text, some_names, st.integers(0, 9).map(str))
    for _ in range(data.draw(st.integers(1, 8))):
        steps = ["write", "write", "replace", "forget", "purge", "kept"]
        step = data.draw(st.sampled_from(steps))
        live = sorted(both.state.notes.rows)
        if step in ("write", "replace"):
            both.write(data.draw(st.lists(some_note, min_size=1, max_size=5)), step == "replace")
        elif step == "forget" and live:
            both.forget(data.draw(st.lists(st.sampled_from(live), unique=True, min_size=1)))
        elif step in ("purge", "kept"):
            getattr(both, step)()
        if data.draw(st.booleans()):
            both.check()
    both.check()


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    both = Both()
    both.write([("We saw Marie Curie", {"paris": True}, "0"), ("Marie Curie", {}, "1")])
    both.check()
    arrays = both.state._mentions.arrays()
    assert module.MentionIndex.from_arrays(arrays).n_rows == 2
    for name in [name for name, array in arrays.items() if array.size and name != "void"]:
        with pytest.raises((InvalidInput, ValueError, IndexError)):
            module.MentionIndex.from_arrays({**arrays, name: arrays[name][:-1]})


def test_other_rules_have_another_number() -> None:
    """Whoever changes what is found or kept must raise RULES, or stores go on with the old."""
    both = Both()
    both.write(
        [("Ask Marie Curie, 東京都 and AI技術.", {"3.5": True, "東京": False, "ışık": False}, "0")]
    )
    both.check()
    arrays = both.state._mentions.arrays()
    names = [f"{name} {array.dtype} {array.tolist()}" for name, array in sorted(arrays.items())]
    told = hashlib.sha256("\n".join(names).encode()).hexdigest()
    assert (module.RULES, told[:16]) == (3, "973536d7be8bfaa6")


def test_found_names_become_eligible_and_ineligible(limits: None) -> None:
    """Names found in texts count from the second note on, and no more when one of two is gone."""
    both = Both()
    texts = [
        "We saw Marie Curie in the lab.",
        "marie curie is quoted in lower case",
        "Later Marie Curie left, and Ada Lovelace came with New Order.",
        "They like Ada Lovelace and the Curie family.",
        "new order, ada, marie",
    ]
    for number, text in enumerate(texts):
        both.write([(text, {}, str(number))])
        both.check()
    concept = both.state.vocabulary.find("Marie Curie")
    assert concept is not None
    mentions = both.state.view(text=True).mentions
    assert mentions is not None
    assert mentions.rows(concept).tolist() == [0, 1, 2]
    both.forget(["0"])
    both.check()
    after = both.state.view(text=True).mentions
    assert after is not None
    assert (after.df(concept), after.of(1).size) == (0, 0)
    assert mentions.rows(concept).tolist() == [0, 1, 2]  # a view never changes
    assert mentions.dfs[concept] == mentions.df(concept) == 3
    both.write([(texts[0], {}, "0")])
    both.check()
    both.forget(["0", "1", "2", "3", "4"])
    both.check()


def test_the_longest_name_wins_and_names_share_a_run(limits: None) -> None:
    both = Both()
    both.write([("In New York Times articles, c is a language", {}, "a"), ("york", {}, "b")])
    for names in ({"york": True}, {"new york times": False}, {"c++": False, "C": True}):
        both.write([(".", names, f"n{len(both.twin.texts)}")])
        both.check()
    key = both.keys()
    mentions = both.state.view(text=True).mentions
    assert mentions is not None
    assert {key[c] for c in mentions.of(0).tolist()} == {"new york times", "c++", "c"}
    both.forget(["n3"])  # the shorter name shows again
    both.check()
    mentions = both.state.view(text=True).mentions
    assert mentions is not None
    assert {key[c] for c in mentions.of(0).tolist()} == {"york", "c++", "c"}


def test_names_of_stop_words_and_names_without_letters(limits: None) -> None:
    both = Both()
    both.write([("he saw the who -> there", {}, "a"), ("The Who?", {}, "b"), ("who", {}, "c")])
    both.write([("one", {"the who": False, "->": False}, "d")])
    both.check()
    mentions = both.state.view(text=True).mentions
    assert mentions is not None
    found = [len(mentions.of(row)) for row in range(4)]
    assert found == [1, 1, 0, 2]


def test_a_copy_of_the_text_is_not_scanned_twice_for_nothing(limits: None) -> None:
    """Nothing changes where nothing became eligible: the view is the same until a write."""
    both = Both()
    both.write([("paris", {"paris": False}, "a")])
    view = both.state.view(text=True)
    both.mem.link("x", "y", 1.0)  # new names, no note
    other = both.state.view(text=True)
    assert view.mentions is not None
    assert other.mentions is not None
    assert other.mentions.dfs.tolist() == [1, 0, 0]
    assert other.mentions.postings is view.mentions.postings
    assert both.state.view(text=True) is other
    both.check()


def test_reads_without_text_make_no_index() -> None:
    both = Both()
    both.write([("paris", {"paris": False}, "a")])
    view = both.state.view()
    assert (view.text, view.mentions) == (None, None)
    assert both.state._mentions.n_rows == 0
    both.mem.warm()
    assert both.state._mentions.n_rows == 1
    assert both.state._mentions.nbytes > 0


def test_reopened_and_in_another_order(tmp_path: Any) -> None:
    """A store built note by note, with forgets, answers as one opened anew, and as one batch."""
    rng = np.random.default_rng(3)
    rows = [
        {"id": str(n), "text": " ".join(rng.choice(WORDS, 9)), "concepts": ["x"]} for n in range(40)
    ]
    for row in rows:
        row["subjects"] = rng.choice(NAMES, 1).tolist()
    with fa.open(tmp_path / "a.fa") as mem:
        for row in rows:
            mem.write(**row)
            mem.warm()
        mem.forget([str(n) for n in range(0, 40, 3)])
        before = spoken(mem)
        mem.snapshot()
    with fa.open(tmp_path / "a.fa") as mem:
        assert spoken(mem) == before
    anew = fa.Memory()
    anew.write_batch([row for n, row in enumerate(rows) if n % 3])
    assert spoken(anew) == before


def spoken(mem: fa.Memory) -> dict[str, list[str]]:
    view = mem._view(text=True)
    assert view.mentions is not None
    name = view.vocabulary.name
    return {
        note: sorted(map(name, view.mentions.of(row).tolist()))
        for note, row in view.notes.table.rows.items()
    }


# -- kernels --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=4, unique=True), max_size=30),
    st.lists(st.integers(1, 8), max_size=3),
    st.data(),
)
def test_sums_over_lists(rows: list[list[int]], cuts: list[int], data: Any) -> None:
    """gather_rows and count_lists, with base, tail and late run, and rows that stand for others."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(("LATE_MOST", "TAIL_LEAST", "TAIL_SHARE"), (3, 12, 2), strict=True):
            patch.setattr(postings, name, value)
        lists, at = Postings(with_values=False), 0
        for cut in [*cuts, len(rows)]:
            part, at = rows[at : at + cut], at + cut
            ptr = np.cumsum([0, *map(len, part)]).astype(np.int64)
            lists.append(np.array([t for row in part for t in row], np.uint32), ptr)
            view = lists.view()
    ids = sorted(data.draw(st.sets(st.integers(0, 12))))
    weights = [data.draw(st.sampled_from([0.0, 0.1, -0.1, 0.3, 1 / 3])) for _ in ids]
    n = view.n_rows
    allowed = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    given_ids = np.array(ids, np.uint32)
    found = gather(view, given_ids, np.array(weights), np.array(allowed, np.uint8))
    wanted = naive.gather(rows, ids, weights, allowed)
    assert list(zip(*(half.tolist() for half in found), strict=True)) == wanted
    sizes = [sum(t in row for row in rows) for t in ids]
    assert list_sizes(view, given_ids).tolist() == sizes
    assert kernels.count_lists(view.indptr, view.tail, view.late, given_ids).tolist() == sizes

    order = data.draw(st.permutations(range(n)))
    void = data.draw(st.sets(st.integers(0, n - 1))) if n else set()
    rows_of = np.array([-1 if place in void else order[place] for place in range(n)], np.int32)
    moved: list[list[int]] = [[] for _ in range(n)]
    for place, terms in enumerate(rows):
        if place not in void:
            moved[order[place]] = terms
    found = gather(view, given_ids, np.array(weights), np.array(allowed, np.uint8), rows_of)
    wanted = naive.gather(moved, ids, weights, allowed)
    assert list(zip(*(half.tolist() for half in found), strict=True)) == wanted
    assert not postings.zeros("rows", n).any()


def test_sums_over_many_rows() -> None:
    """Long lists are sorted by digits."""
    rng = np.random.default_rng(5)
    rows = [np.flatnonzero(rng.random(3) < 0.4).tolist() for _ in range(5000)]
    lists = Postings(with_values=False)
    ptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    lists.append(np.array([t for row in rows for t in row], np.uint32), ptr)
    rows_of = rng.permutation(5000).astype(np.int32)
    moved: list[list[int]] = [[] for _ in rows]
    for place, terms in enumerate(rows):
        moved[rows_of[place]] = terms
    ids, weights = np.array([0, 2], np.uint32), np.array([0.1, 0.0])
    allowed = (rng.random(5000) < 0.9).astype(np.uint8)
    found = gather(lists.view(), ids, weights, allowed, rows_of)
    wanted = naive.gather(moved, [0, 2], [0.1, 0.0], allowed.tolist())
    assert list(zip(*(half.tolist() for half in found), strict=True)) == wanted
    plain = kernels.gather_rows(
        lists.view().indptr, lists.view().base_rows, lists.view().tail, lists.view().late,
        ids, weights, np.empty(0, np.int32), False, allowed, np.zeros(5000),
    )  # fmt: skip
    wanted = naive.gather(rows, [0, 2], [0.1, 0.0], allowed.tolist())
    assert list(zip(*(half.tolist() for half in plain), strict=True)) == wanted


names_of_tokens = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=20)


@settings(max_examples=60, deadline=None)
@given(
    names_of_tokens,
    st.lists(st.lists(st.integers(-1, 4), max_size=30), max_size=4),
    st.integers(0, 2**20),
)
def test_scan_of_tokens(names: list[list[int]], texts: list[list[int]], bits: int) -> None:
    """put_names and scan_texts, the tree moved to a larger table (move_edges) half way.

    Numbers are even, as those of words are.
    """
    n = len(names)
    edges, behind = np.full(256, kernels.NONE, np.uint64), np.zeros(256, np.int32)
    heads, counts = np.zeros(256, np.int32), np.zeros(256, np.int32)
    nexts, ends = np.zeros(n, np.int32), np.zeros(n, np.int32)
    nodes = 1
    for start, stop in ((0, n // 2), (n // 2, n)):
        some = names[start:stop]
        ptr = np.cumsum([0, *map(len, some)]).astype(np.int64)
        flat = np.array([2 * t for name in some for t in name], np.int32)
        which = np.arange(start, stop, dtype=np.int64)
        nodes = kernels.put_names(flat, ptr, which, edges, behind, heads, nexts, ends, nodes)
        wider = np.full(512, kernels.NONE, np.uint64), np.zeros(512, np.int32)
        kernels.move_edges(edges, behind, *wider)
        edges, behind = wider
    assert nodes == 1 + len({tuple(name[:size]) for name in names for size in range(1, 7)
                             if len(name) >= size})  # fmt: skip
    eligible = np.array([bits >> place & 1 for place in range(n)], np.uint8)
    np.add.at(counts, ends[eligible == 1], 1)
    counts[0] = 0
    own = [[c for c in range(n) if (c * 7 + row) % 5 == 0] for row in range(len(texts))]
    flat, ptr = kernels.scan_texts(
        np.array([2 * t for text in texts for t in text], np.int32),
        np.cumsum([0, *map(len, texts)]).astype(np.int64),
        np.array([c for some in own for c in some], np.uint32),
        np.cumsum([0, *map(len, own)]).astype(np.int64),
        edges, behind, heads, nexts, counts, eligible,
    )  # fmt: skip
    for row, text in enumerate(texts):
        spelled = " ".join("?" if t < 0 else f"w{t}" for t in text).replace("?", "none")
        keys = {c: " ".join(f"w{t}" for t in names[c]) for c in range(n) if eligible[c]}
        said = naive.said_in(spelled, keys.values())
        wanted = {c for c in keys if keys[c] in said} | {c for c in own[row] if eligible[c]}
        assert flat[ptr[row] : ptr[row + 1]].tolist() == sorted(wanted)


def test_arrays_that_do_not_fit() -> None:
    both = Both()
    both.write([("paris", {"paris": False}, "a")])
    view = both.state.view(text=True)
    assert view.mentions is not None
    ids, one, none = np.zeros(1, np.uint32), np.ones(1, np.uint8), np.empty(0, np.uint8)
    with pytest.raises(InvalidInput, match="2 weights for 1 terms"):
        view.mentions.gather(ids, np.ones(2), one)
    with pytest.raises(InvalidInput, match="allowed has 0 rows, the index 1"):
        view.mentions.gather(ids, np.ones(1), none)
    with pytest.raises(InvalidInput, match="allowed has 0 rows, the postings have 1"):
        gather(view.notes.postings, ids, np.ones(1), none)
