"""What the demonstration prints, for someone who sees it for the first time."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fastassoc.cli.common import App, arrow, count, number, plain, size
from fastassoc.cli.demoscript import EMBEDDER, LINKS
from fastassoc.cli.show import SOURCE_STYLES, path_text, shorten

if TYPE_CHECKING:
    import fastassoc as fa
    from fastassoc.check import CheckReport
    from fastassoc.cli.demomeasure import Measure
    from fastassoc.cli.demoscript import Beside, Taught

__all__ = ["Page", "ways"]

WIDTH = 80
COMPILED = 10.0  # seconds above which the kernels were compiled, not loaded
WAYS = (  # those of vectors where notes have them
    ("flat", "flat text search", "read(text, rank='flat'): BM25 over the note's own words"),
    ("vectors", "vectors alone", "read(vector=..., rank='flat'): cosine with the note's vector"),
    ("mixed", "text and vectors", "read(like=note, rank='flat'): half of each, by its best"),
    ("concepts", "concepts alone", "read(like=note, rank='counts'), no link followed: 10 for each"),
    ("links", "concepts and links", "read(like=note, rank='counts'): and the weights of links"),
    ("both", "text and links", "both scores, each divided by the best of its answer, added"),
    ("all", "text, vectors, links", "the same with the scores of text and vectors"),
    ("retention", "retention", "read(like=note, rank='retention'): cosine; a third for links"),
)
NEXT = (
    (("read", "wait for several threads to finish"), "ask"),
    (("read", "--domain", "numpy", "sort along an axis"), "ask numpy only"),
    (("links", "top"), "the heaviest links"),
    (("info",), "what the store holds"),
    (("check",), "the three checks again"),
)
NEAR = ((("read", "--embedder", EMBEDDER, "--rank", "retention", "threads"), "by vector"),)


class Page:
    """Prints the sections on stdout; nothing where JSON was asked for."""

    def __init__(self, app: App) -> None:
        self._console = app.out()
        self._quiet = app.json
        self._number = 0
        self._width = min(WIDTH, self._console.width)

    def _print(self, *things: Any) -> None:
        if not self._quiet:
            for one in things:  # every line is made to fit, and a path to copy is never broken
                self._console.print(one, soft_wrap=True)

    def _head(self, title: str, why: str) -> None:
        self._number += 1
        self._print("", Text(f"{self._number}. {title}", style="bold cyan"))
        self._say(why)

    def _say(self, text: str, style: str = "") -> None:
        for paragraph in text.splitlines():
            for line in textwrap.wrap(
                paragraph, self._width, initial_indent="   ", subsequent_indent="   ",
                break_long_words=False, break_on_hyphens=False,
            ):  # fmt: skip
                self._print(Text(line, style=style, no_wrap=True))

    def _line(self, text: Text) -> None:
        """One line, cut at the edge."""
        text.truncate(self._width, overflow="ellipsis")
        self._print(text)

    # -- the sections -----------------------------------------------------------------------------

    def ready(self, seconds: float) -> None:
        """How long the kernels took."""
        if seconds > COMPILED:
            self._say(f"Compiling, once on this machine: {seconds:.0f} s.", "dim")
        else:
            self._say(f"Loading what was compiled earlier: {seconds:.1f} s.", "dim")

    def collected(self, about: dict[str, Any]) -> None:
        """Which documentation was found."""
        self._head(
            "Documentation on this machine becomes notes",
            "Each function, class, method, module and topic is one note. Source files were "
            "parsed, not run.",
        )
        for package, many in about["packages"].items():
            self._line(Text.assemble(f"   {many:>7,}  ", (package, "bold")))
        skipped = count(len(about["skipped"]), "file")
        self._say(
            f"{count(about['symbols'], 'note')} from {count(about['files'], 'file')} in "
            f"{about['seconds']:.1f} s"
            + (f"; {skipped} could not be parsed" if about["skipped"] else "")
            + (f"; left out for time: {', '.join(about['left_out'])}" if about["left_out"] else "")
            + "."
        )
        self._say(
            'Their "See Also" sections were taken out: '
            f"{count(about['withheld_relations'], 'relation')} in them are the test at the end."
        )

    def ingested(self, about: dict[str, Any]) -> None:
        """What the store holds now."""
        self._head(
            "The notes go into a store on disk",
            "A note carries concepts: its names, symbols it mentions, telling words and phrases. "
            "Each pair of concepts on one note is a link; it weighs as many notes as share it.",
        )
        rate = about["notes"] / max(about["seconds"], 1e-9)
        self._say(
            f"{count(about['notes'], 'note')}, {count(about['concepts'], 'concept')}, "
            f"{count(about['links'], 'link')} "
            f"saved in {about['seconds']:.1f} s ({count(rate, 'note')} a second). "
            f"Reads follow {count(about['links_followed'], 'link')} of weight 2 or more. "
            f"The first read built the word index ({about['first_read_seconds']:.1f} s)."
        )
        if about["embedder"] is not None:
            self._say(
                f"Each note has a vector, too: {count(about['dim'], 'number')} that "
                f"{about['embedder']} made of its text, without a network, "
                f"{about['embedding_seconds']:.1f} s in all."
            )

    def asking(self) -> None:
        """Begin the questions."""
        self._head(
            "Questions in plain words",
            "Each hit: its score, its source, its first line, and below how it was reached. "
            '"concept": the note carries a concept that the question names; "semantic": it has '
            'words of the question. "association": neither brought it so far up, but another note '
            'that answers: by a link between the two ("note a ─1→ this note"; each page of a '
            'module is linked to the next), or over what both carry ("note a (carries b) → c": '
            "the question names b, and c leads on).",
        )

    def answer(self, question: str, recall: fa.Recall, seconds: float) -> None:
        """One question with its hits."""
        self._print("")
        self._line(Text.assemble("   ", ("? ", "bold"), (question, "bold")))
        named = ", ".join(recall.query_concepts) or "no concept"
        self._line(Text(f"     names {named}; answered in {seconds * 1e3:.1f} ms", style="dim"))
        self._hits(recall)

    def no_vectors(self, missing: str) -> None:
        """How to get what was left out."""
        self._print("", Text(f"   No hits by vector: {missing}", style="dim"))

    def beside(self, shown: Sequence[Beside]) -> None:
        """Answers with hits of all kinds, each with its cosine and its place by vector alone."""
        self._head(
            "Near, named, linked: three kinds of hits side by side",
            'One read by rank="retention": "semantic" hits lie near the question by vector, '
            '"concept" hits carry what it names, and a third of the places is for "association": '
            "what links bring. Links between notes count, too: here each page of a module or class "
            "is linked to the next by name. The rank is the cosine, times the strength of the "
            'links; "place" is where the note stands by vector alone.',
        )
        for one in shown:
            self._print("")
            self._line(Text.assemble("   ", ("? ", "bold"), (one.question, "bold")))
            named = ", ".join(one.recall.query_concepts) or "no concept"
            self._line(
                Text(f"     names {named}; answered in {one.seconds * 1e3:.1f} ms", style="dim")
            )
            self._line(Text("   rank cosine place  source      note", style="dim"))
            for hit in one.recall:
                self._near(hit, one.places.get(hit.id))
            first = len(one.recall)
            beyond = [hit for hit in one.recall if one.places.get(hit.id, first + 1) > first]
            self._say(
                f"{len(beyond)} of these {first} are not among the {first} nearest by vector.",
                "dim",
            )

    def _near(self, hit: fa.Hit, place: int | None) -> None:
        cosine = "" if hit.similarity is None else f"{hit.similarity:.2f}"
        self._line(
            Text.assemble(
                f"   {hit.rank_score:.2f}   {cosine:>4} {place or 'far':>5}  ",
                (f"{hit.source:<12}", SOURCE_STYLES.get(hit.source, "")),
                _title(hit.text),
            )
        )
        for way in ways(hit):
            style = "dim" if way.startswith("carries ") else "yellow"
            self._line(Text(f"{'':23}{way}", style=style))

    def _hits(self, recall: fa.Recall, mark: str | None = None) -> None:
        for hit in recall:
            style = SOURCE_STYLES.get(hit.source, "")
            line = Text.assemble(
                f"   {'→' if hit.id == mark else ' '} {hit.score:.2f}  ",
                (f"{hit.source:<12}", style),
                (_title(hit.text), "bold" if hit.id == mark else ""),
            )
            self._line(line)
            ways = path_text(hit.path)
            reached = hit.source == "association" or any("taught" in way for way in ways)
            over = [way for way in ways if not way.startswith("carries ")]
            if over and reached:
                more = f"  and {len(over) - 1} more" if len(over) > 1 else ""
                self._line(Text(f"{'':23}{over[0]}{more}", style="yellow"))
            elif ways and hit.source == "concept":
                self._line(Text(f"{'':23}{ways[0]}", style="dim"))

    def taught(self, held: Taught) -> None:
        """The same read before and after feedback."""
        self._head(
            "Feedback changes the links, and so the answer",
            f'Read by rank="{LINKS}", which follows links between concepts: "a ─2→ b" is one of '
            "weight 2, from the question's a to the note's b. Say that "
            f"{held.lesson.helped} is what helped. Told twice, the links from what was asked to "
            "that note's concepts grow by 2. The arrow marks it.",
        )
        self._print("")
        self._line(Text.assemble("   ", (f"? {held.lesson.question}", "bold"), ("  before", "dim")))
        self._hits(held.before, held.lesson.helped)
        self._print("")
        self._line(Text.assemble("   ", (f"? {held.lesson.question}", "bold"), ("  after", "dim")))
        self._hits(held.after, held.lesson.helped)
        shown = [f"{a} ─ {b}: {number(x)} → {number(y)}" for a, b, x, y in held.links]
        self._print("")
        self._say(f"{count(len(shown), 'link')} grew, such as")
        for one in shown[:3]:
            self._line(Text(f"     {plain(one)}", style="yellow"))

    def nothing_to_teach(self) -> None:
        """No question names a concept here."""
        self._head("Feedback", "No question of ours names a concept of this documentation.")

    def new_process(
        self,
        held: Taught,
        answer: dict[str, Any],
        process: int,
        seconds: float,
        same: bool,
    ) -> None:
        """The taught answer from another process."""
        from fastassoc.cli.demoscript import command

        told = command("read", "--rank", LINKS, held.lesson.question)
        self._head(
            "A new process remembers",
            "What was taught is saved in the links, not in this program. Another process opens "
            "the store and asks the same:",
        )
        self._print(Text(f"     $ {told}", style="dim"), "")
        self._short(answer["hits"], held.lesson.helped)
        verdict = "the same hits, scores and order as above" if same else "ANOTHER ANSWER"
        self._mark(same, f"process {process}, {seconds:.1f} s from start to answer: {verdict}.")

    def control(self, recall: fa.Recall, forgot: bool) -> None:
        """The answer of links rebuilt from the notes."""
        self._head(
            "The control forgets",
            "Links recomputed from the notes alone know nothing of the feedback. If they gave the "
            "taught answer, it would not have come from learning.",
        )
        self._short(recall.to_dicts(), None)
        self._mark(forgot, "the answer from before the feedback." if forgot else "ANOTHER ANSWER")

    def _short(self, hits: Sequence[dict[str, Any]], mark: str | None) -> None:
        for hit in hits[:3]:
            sign = "→" if hit["id"] == mark else " "
            self._line(
                Text(f"   {sign} {hit['score']:.2f}  {hit['source']:<12}{_title(hit['text'])}")
            )

    def _mark(self, good: bool, text: str) -> None:
        lines = textwrap.wrap(text, self._width - 5)
        sign = ("   ✓ ", "bold green") if good else ("   ✗ ", "bold red")
        self._print(Text.assemble(sign, lines[0]), *(Text(f"     {one}") for one in lines[1:]))

    def measured(self, found: Measure) -> None:
        """The figures."""
        self._head(
            'How many "See Also" relations does it find?',
            f"For {count(found.asked, 'symbol')}: which of {count(found.relations, 'relation')} "
            "that their authors listed are among the first 10 notes, when asked what is like the "
            "symbol's note?",
        )
        self._print("")
        for way, name, how in WAYS:
            if way not in found.shares:
                continue
            share, low, high = found.shares[way]
            bar = "█" * round(20 * share)
            self._line(
                Text.assemble(
                    f"   {name:<21}",
                    (f"{share:>6.1%}", "bold"),
                    f"  ({low:.0%} to {high:.0%})  ",
                    (bar, "magenta"),
                )
            )
            self._line(Text(f"     {how}", style="dim"))
        gains = found.gains
        self._say(
            'In brackets: 95 % of bootstrap draws over the symbols. Of "concepts and links", '
            f"following links makes {_points(gains['links'])}; the rest is what notes have in "
            "common.",
            "dim",
        )
        if "vectors to text" in gains:
            self._say(
                f"Vectors added to text make {_points(gains['vectors to text'])}; added to text "
                f"and links, {_points(gains['vectors to text and links'])}. "
                f'"retention" against vectors alone: {_points(gains["retention"])}.',
                "dim",
            )

    def nothing_to_measure(self) -> None:
        """No relation was withheld."""
        self._head("The measure", 'This documentation has no "See Also" relations.')

    def checked(self, report: CheckReport) -> None:
        """The three checks."""
        self._head(
            "Three checks, on a copy of the store",
            "The same that `fastassoc check PATH` runs on any store of yours.",
        )
        if report.reason is not None:
            self._say(f"nothing to check: {report.reason}")
        for one in report.checks:
            self._mark(one.passed, one.title + ".")
            for line in one.evidence[:5]:
                self._line(Text(f"     {shorten(line)}", style="dim"))

    def end(self, document: dict[str, Any]) -> None:
        """Where the store is and what to do with it."""
        from fastassoc.cli.demoscript import command

        path = document["store"]
        self._head(
            "The store is yours",
            f"It lies in {path}\nand takes {size(document['bytes'])}. The whole demonstration took "
            f"{document['seconds']:.0f} s. To go on with it, copy:",
        )
        self._print("", Text(f"   export FASTASSOC_STORE={shlex.quote(path)}", style="bold"))
        asked = document["feedback"].get("asked", [])[:1]
        around = [(("graph", one), "links around it, taught ones too") for one in asked]
        near = NEAR if document["ingest"]["embedder"] is not None else ()
        for words, what in [*NEXT[:2], *near, *around, *NEXT[2:]]:
            self._line(Text.assemble("   ", (command(*words), "bold"), (f"  # {what}", "dim")))
        self._print("")
        self._say("Your own notes, one JSON object a line, go into a store of their own:")
        self._print(Text("   fastassoc ingest --store mine.fa notes.jsonl", style="bold"))
        failed = [name for name, good in document["passed"].items() if not good]
        if failed:
            print(f"fastassoc: not as it should be: {', '.join(failed)}.", file=sys.stderr)


def _title(text: str) -> str:
    return plain(text.partition("\n")[0])


def _points(gain: tuple[float, float, float]) -> str:
    """A difference of shares in points, with its bounds."""
    value, low, high = (100 * one for one in gain)
    return f"{value:+.1f} points ({low:+.1f} to {high:+.1f})"


def ways(hit: fa.Hit) -> list[str]:
    """How a hit was reached: by the best link of each kind, or by a concept of the question."""
    between = [step for step in hit.path if step.layer == "note"]
    own = [
        step
        for step in hit.path
        if step.layer == "concept" or (step.layer == "carries" and step.target == hit.id)
    ]
    told = path_text(own)
    if hit.source != "association":
        return [way for way in told if way.startswith("carries ")]
    over = [way for way in told if not way.startswith("carries ")]
    more = f"  and {len(over) - 1} more" if len(over) > 1 else ""
    lines = [f"{over[0]}{more}"] if over else []
    if between:
        pages = "".join(f" {arrow(step.weight)} {_last(step.target)}" for step in between)
        lines.append(plain(f"note {_last(between[0].source)}{pages}"))
    return lines


def _last(name: str) -> str:
    """A page's name without those of its module and class."""
    return name.rpartition(".")[2]
