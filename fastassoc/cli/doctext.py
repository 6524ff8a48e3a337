"""What stands in a docstring: its prose, its "See Also" (kept apart), the symbols it mentions."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Parts", "mentions", "split", "summary", "words"]

UNDERLINE = re.compile(r"^\s*(-{3,}|={3,}|~{3,}|\*{3,})\s*$")
DROPPED = {"examples", "example", "references"}  # code and citations say little in words
SEE_ALSO = re.compile(r"\bsee[ -]also\b", re.IGNORECASE)
NAME = r"[A-Za-z_][\w.]*[A-Za-z0-9_]|[A-Za-z]"
CODE = re.compile(rf"(?::\w+(?::\w+)?:)?`{{1,2}}[~!.]?({NAME})(?:\(\))?`{{1,2}}|\"({NAME})\(\)\"")
DOTTED = re.compile(r"\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)\b")
LISTED = re.compile(rf"^(?::\w+(?::\w+)?:)?`{{0,2}}[~.]?({NAME})(?:\(\))?`{{0,2}}_?$")
WORD = re.compile(r"[A-Za-z]{2,}")
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")


class Parts(NamedTuple):
    """A docstring taken apart.

    Attributes
    ----------
    prose : str
        Without "See Also", examples and references.
    see : list of str
        The names that "See Also" lists, as they are written there.
    """

    prose: str
    see: list[str]


def split(doc: str) -> Parts:
    r"""Take a cleaned docstring apart; nothing of any "See Also" stays in the prose.

    Examples
    --------
    >>> split("Add.\n\nSee Also\n--------\nsubtract : The opposite.\n\nNotes\n-----\nFast.")
    Parts(prose='Add.\n\nNotes\n-----\nFast.', see=['subtract'])
    """
    kept: list[str] = []
    see: list[str] = []
    for title, lines in _sections(doc.splitlines()):
        if SEE_ALSO.fullmatch(title):
            see += _listed(lines[2:])
        elif title not in DROPPED:
            kept += lines
    prose, more = _without_blocks(kept)
    return Parts(re.sub(r"\n{3,}", "\n\n", "\n".join(prose)).strip(), [*see, *more])


def _sections(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Title (lower case, empty for the start) and lines of each section."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for place, line in enumerate(lines):
        after = lines[place + 1] if place + 1 < len(lines) else ""
        title = line.strip()
        if title and UNDERLINE.match(after) and not UNDERLINE.match(line) and len(title) < 60:
            found.append((title.lower().rstrip(":"), []))
        found[-1][1].append(line)
    return found


def _listed(lines: list[str]) -> list[str]:
    """Names of a numpydoc "See Also": ``a, b : what they do``, or names alone."""
    names: list[str] = []
    margin = min((_indent(line) for line in lines if line.strip()), default=0)
    for line in lines:
        if line.strip() and _indent(line) == margin:
            head = re.split(r"\s:(?:\s|$)|:\s|:$", line.strip())[0]
            found = [LISTED.match(one.strip()) for one in head.split(",")]
            names += [one[1] for one in found if one]
    return names


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_blocks(lines: list[str]) -> tuple[list[str], list[str]]:
    """Leave out ``.. seealso::`` and "See also:" with what is indented below, and such sentences.

    A sentence is cut to the end of its paragraph, so that no name in it is overlooked.
    """
    kept: list[str] = []
    see: list[str] = []
    place = 0
    while place < len(lines):
        line = lines[place]
        match = SEE_ALSO.search(line) or re.search(r"\.\. seealso::", line)
        if match is None:
            kept.append(line)
            place += 1
            continue
        if re.match(r"\s*(\.\. seealso::|see also:?\s*$)", line, re.IGNORECASE):
            stop = _block_end(lines, place)
        else:
            stop = place + 1
            while stop < len(lines) and lines[stop].strip():
                stop += 1
        block = " ".join([line[match.start() :], *lines[place + 1 : stop]])
        see += [one[1] or one[2] for one in CODE.finditer(block)]
        head = re.sub(r"[\s(,;]*(?:\.\.\s*)?$", "", line[: match.start()])
        if head.strip():
            kept.append(head)
        place = stop
    return kept, see


def _block_end(lines: list[str], start: int) -> int:
    margin, stop = _indent(lines[start]), start + 1
    while stop < len(lines) and (not lines[stop].strip() or _indent(lines[stop]) > margin):
        stop += 1
    return stop


def summary(prose: str) -> str:
    """The first paragraph on one line."""
    return " ".join(prose.split("\n\n", maxsplit=1)[0].split())


def mentions(prose: str) -> list[str]:
    """Names written as code, or with a dot inside, in order, each once.

    Examples
    --------
    >>> mentions("Like `sum`, or :func:`numpy.mean`; see os.path.join.")
    ['sum', 'numpy.mean', 'os.path.join']
    """
    found = [(m.start(), m[1] or m[2]) for m in CODE.finditer(prose)]
    found += [(m.start(), m[1]) for m in DOTTED.finditer(prose)]
    return list(dict.fromkeys(name for _, name in sorted(found)))


def words(text: str) -> list[str]:
    """Words in lower case, names taken apart: ``read_csv`` gives read and csv.

    Examples
    --------
    >>> words("MaskedArray reads_from UTF8 text")
    ['masked', 'array', 'reads', 'from', 'utf', 'text']
    """
    return [word.lower() for word in WORD.findall(HUMP.sub(" ", text))]
