"""Read a submitted notebook: its code cells as plain Python; nothing is executed here."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

from coursekit.grade import names
from coursekit.grade.text import line

MAX_BYTES = 64 * 2**20
MOST_CELLS, MOST_CODE = 5000, 2**20
# Magics that run their cell, or the rest of their line, where it stands.
TIMED_CELL = re.compile(r"\A\s*%%(?:time|capture|prun)\b[^\n]*\n?")
TIMED_LINE = re.compile(r"^(\s*)%(?:time|prun)[ \t]+(?=\S)", re.M)


class NotGraded(Exception):
    """A submission that can't be graded; the message is the reason, one sentence."""


@dataclass(frozen=True)
class Cell:
    """A code cell of a submission: its source as plain Python, and what it is."""

    source: str
    id: str
    ex: str = ""
    kind: str = ""

    @cached_property
    def binds(self):
        return names.bound(self.source)

    @cached_property
    def uses(self):
        return names.used(self.source)

    @cached_property
    def changes(self):
        return names.changed(self.source)


def read(data):
    """The code cells of a submitted notebook.

    Args:
      data: the bytes of the file.

    Returns:
      (list of Cell, the stem of the set that it says it is of, or "")

    Raises:
      NotGraded: it is empty, too large or no notebook.
    """
    if not data.strip():
        raise NotGraded("the file is empty")
    if len(data) > MAX_BYTES:
        raise NotGraded(too_large())
    raw = _parse(data)
    try:
        notebook = raw if raw["nbformat"] == 4 else _converted(raw)
        cells = [c for c in notebook["cells"] if c.get("cell_type") == "code"]
        _refuse_too_much(cells)
        return [_cell(c) for c in cells], _stem(notebook)
    except NotGraded:
        raise
    except Exception as error:
        reason = line(str(error).partition("\n")[0], 80) or type(error).__name__
        raise NotGraded(f"the notebook can't be read ({reason})") from None


def too_large():
    return f"the file is larger than {MAX_BYTES >> 20} MB: clear the outputs and hand in again"


def _parse(data):
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        raise NotGraded("the file is not JSON, so no notebook") from None
    if not isinstance(raw, dict) or "nbformat" not in raw:
        raise NotGraded("the file is JSON, but no notebook")
    return raw


def _converted(raw):
    return nbformat.convert(nbformat.from_dict(raw), 4)


def _refuse_too_much(cells):
    size = sum(len(c["source"]) if isinstance(c.get("source"), str) else
               sum(map(len, c.get("source", ()))) for c in cells)  # fmt: skip
    if len(cells) > MOST_CELLS or size > MOST_CODE:
        raise NotGraded(
            f"it holds more code than a notebook does: {len(cells)} cells with {size} characters"
        )


def _stem(notebook):
    course = _dict(_dict(notebook.get("metadata")).get("course"))
    return line(PurePosixPath(str(course.get("source", ""))).stem, 80)


def _cell(cell):
    source = cell.get("source", "")
    source = "".join(source) if isinstance(source, list) else str(source)
    course = _dict(_dict(cell.get("metadata")).get("course"))
    text = lambda key: str(course.get(key, ""))  # noqa: E731
    return Cell(_plain_python(source), str(cell.get("id", "")), text("ex"), text("kind"))


def _dict(value):
    return value if isinstance(value, dict) else {}


def _plain_python(source):
    """A cell without IPython's syntax: magics become calls, as IPython does it.

    A cell is sent to the sandbox as it stands where that is not possible; half of a
    surrogate pair, which no Python source may hold, becomes a question mark.
    """
    source = source.encode(errors="replace").decode()
    if names.parse(source).body:
        return source
    bare = TIMED_LINE.sub(r"\1", TIMED_CELL.sub("", source))
    if names.parse(bare).body:
        return bare
    try:
        return TransformerManager().transform_cell(bare)
    except Exception:
        return source
