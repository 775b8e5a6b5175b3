"""Which cells of a submitted notebook are answers; nothing is executed here.

An answer is found by its cell id, by its course metadata, or by the names that it
defines, so that lost metadata, copied cells and renamed files do no harm. A
learner's copies of checks and of the course's own cells are left out. Other cells
count where an answer needs a name that they define.
"""

import ast
import builtins
import json
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

from coursekit.grade import plan as plans

MAX_BYTES = 64 * 2**20
OURS = ("check", "scoreboard")


class NotGraded(Exception):
    """A submission that can't be graded; the message is the reason, one sentence."""


@dataclass(frozen=True)
class Cell:
    """A code cell of a submission: its source as plain Python, and what it is."""

    source: str
    id: str
    ex: str = ""
    kind: str = ""

    @property
    def binds(self):
        return plans.bound_names(self.source)


@dataclass
class Work:
    """What a submission holds for one set.

    Attributes:
      cells: {task id: sources to run, in order, before its checks}
      missing: ids of tasks without an answer.
    """

    cells: dict = field(default_factory=dict)
    missing: list = field(default_factory=list)


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
        raise NotGraded(f"the file is larger than {MAX_BYTES >> 20} MB")
    notebook = _parse(data)
    cells = [c for c in notebook.cells if c.get("cell_type") == "code"]
    course = notebook.get("metadata", {}).get("course", {})
    source = course.get("source", "") if isinstance(course, dict) else ""
    return [_cell(c) for c in cells], PurePosixPath(str(source)).stem


def _parse(data):
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        raise NotGraded("the file is not JSON, so no notebook") from None
    if not isinstance(raw, dict) or "nbformat" not in raw:
        raise NotGraded("the file is JSON, but no notebook")
    try:
        notebook = nbformat.from_dict(raw)
        if notebook.nbformat != 4:
            notebook = nbformat.convert(notebook, 4)
        return notebook
    except Exception as error:
        reason = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        raise NotGraded(f"the notebook can't be read ({reason})") from None


def _cell(cell):
    source = cell.get("source", "")
    source = "".join(source) if isinstance(source, list) else str(source)
    course = cell.get("metadata", {}).get("course", {})
    course = course if isinstance(course, dict) else {}
    text = lambda key: str(course.get(key, ""))  # noqa: E731
    return Cell(_plain_python(source), str(cell.get("id", "")), text("ex"), text("kind"))


def _plain_python(source):
    """A cell without IPython's syntax: magics become calls, as IPython does it."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        try:
            return TransformerManager().transform_cell(source)
        except Exception:
            return source
    return source


def answers_any(plan, cells, stem=""):
    """How many cells of a notebook answer tasks of a plan; its own word goes first."""
    if stem in (plan.stem, ""):
        return sum(bool(_owner(plan, c)) for c in cells) + (stem == plan.stem) * 1000
    return 0


def match(plan, cells, stem=""):
    """Which sources to run for every task of a plan.

    Raises:
      NotGraded: no cell answers any task: the notebook of another set, say.
    """
    owners = [_owner(plan, cell) for cell in cells]
    if not any(owners) or stem not in (plan.stem, ""):
        other = f"it is the notebook of {stem}" if stem else "the notebook of another set?"
        raise NotGraded(f"it holds no answer to {plan.stem}: {other}")
    work, used = Work(), set()
    for task in plan.tasks:
        mine = [i for i, owner in enumerate(owners) if owner == task.id]
        written = [i for i in mine if not _same(cells[i].source, task.blank)]
        if not mine:
            work.missing.append(task.id)
        chosen = sorted(_needed(plan, cells, owners, written or mine) - used)
        used |= set(chosen) - set(mine)
        work.cells[task.id] = tuple(cells[i].source for i in chosen)
    return work


def _owner(plan, cell):
    """The id of the task that a cell answers, or ''."""
    if cell.kind in OURS or _is_check(cell.source):
        return ""
    by_id = {f"{t.id}-solution": t.id for t in plan.tasks}
    if cell.id in by_id:
        return by_id[cell.id]
    known = {t.id for t in plan.tasks}
    if cell.kind == "solution" and cell.ex in known:
        return cell.ex
    binds = cell.binds
    return next((t.id for t in plan.tasks if binds & _own(plan, t)), "")


def _own(plan, task):
    """Names that an answer defines and the course's own cells do not."""
    ours = set().union(*(plans.bound_names(s) for s in (*plan.setup, *task.setup)))
    return set(task.names) - ours


def _is_check(source):
    """Whether a cell is a copy of a check, or of the scoreboard."""
    lines = [line for line in source.splitlines() if line and not line.startswith("#")]
    return any(line.startswith(("with check(", "scoreboard(")) for line in lines)


def _same(source, blank):
    return source.split() == blank.split()


def _needed(plan, cells, owners, answers):
    """Answer cells, and the cells before the next answer that define what they use."""
    chosen, wanted = set(answers), set()
    for index in answers:
        wanted |= _used(cells[index].source)
    wanted -= set(dir(builtins))
    helpers = [i for i, o in enumerate(owners) if not o and not _ours(plan, cells[i])]
    grown = True
    while grown:
        more = {i for i in helpers if i not in chosen and cells[i].binds & wanted}
        grown = bool(more)
        chosen |= more
        for index in more:
            wanted |= _used(cells[index].source)
    return chosen


def _ours(plan, cell):
    """Whether a cell is one that the course gave out, unchanged, or a check."""
    if cell.kind in OURS or _is_check(cell.source) or cell.id == "course-setup":
        return True
    given = (*plan.setup, *(s for t in plan.tasks for s in t.setup))
    return any(_same(cell.source, source) for source in given)


def _used(source):
    """Names that a cell reads, inside its functions too; all of them after `*`."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    loaded = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    return loaded - {"NotImplementedError"}
