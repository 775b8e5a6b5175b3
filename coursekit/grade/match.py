"""Which cells of a submitted notebook are answers; nothing is executed here.

An answer is found by its cell id, by its course metadata, or by the names that it
defines, so that lost metadata, copied cells and renamed files do no harm. A
learner's copies of checks and of the course's own cells are left out. Other cells
count where an answer needs a name that they define.
"""

import builtins
from dataclasses import dataclass, field

from coursekit.grade import names
from coursekit.grade import plan as plans
from coursekit.grade.notebook import MAX_BYTES, Cell, NotGraded, read

OURS = ("check", "scoreboard")
__all__ = ["MAX_BYTES", "Cell", "NotGraded", "Work", "answers_any", "match", "read"]


@dataclass
class Work:
    """What a submission holds for one set.

    Attributes:
      cells: {task id: sources to run, in order, before its checks}
      missing: ids of tasks without an answer.
    """

    cells: dict = field(default_factory=dict)
    missing: list = field(default_factory=list)


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
        written = _before_checks(task, cells, written)
        chosen = sorted(_needed(plan, cells, owners, written or mine) - used)
        used |= set(chosen) - set(mine)
        work.cells[task.id] = tuple(names.without_checks(cells[i].source) for i in chosen)
    return work


def _before_checks(task, cells, written):
    """Answers as the learner's own checks saw them: what is tried below is no answer."""
    heads = tuple(f'check("{c.name}"' for c in task.checks)
    checks = [i for i, c in enumerate(cells) if any(h in c.source for h in heads)]
    return [i for i in written if i <= max(checks, default=len(cells))] or written


def _owner(plan, cell):
    """The id of the task that a cell answers, or ''."""
    if cell.kind in OURS or _is_check(cell.source):
        rest = names.bound(names.without_checks(cell.source))
        return next((t.id for t in plan.tasks if rest & _own(plan, t)), "")
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
    """Answer cells, and the learner's own cells that define or change what they use."""
    chosen, wanted = set(answers), {"*"}
    for index in answers:
        wanted |= cells[index].uses
    wanted -= set(dir(builtins))
    helpers = [i for i, o in enumerate(owners) if not o and not _ours(plan, cells[i])]
    given = set().union(*(plans.bound_names(s) for s in plan.setup))
    grown = True
    while grown:
        more = {i for i in helpers if i not in chosen and _helps(cells[i], wanted, given)}
        grown = bool(more)
        chosen |= more
        for index in more:
            wanted |= cells[index].uses
    return chosen


def _helps(cell, wanted, given):
    """Whether a cell matters to an answer; the set's own cell only where it was added to."""
    if cell.id == "course-setup":
        return bool(cell.binds & (wanted - given))
    return bool((cell.binds | cell.changes) & wanted)


def _ours(plan, cell):
    """Whether a cell is one that the course gave out, unchanged, or a check."""
    if cell.kind in OURS or _is_check(cell.source):
        return True
    given = (*plan.setup, *(s for t in plan.tasks for s in t.setup))
    return any(_same(cell.source, source) for source in given)
