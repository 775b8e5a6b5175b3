"""Check an author's answer behind the boundary, in this process.

For tests, whose answers are trusted: they hold `apart=true` to give the same verdict as
the check does beside the answer.
"""

import contextlib
import io
import sys

from coursekit.grade.box.judge import JudgeSession
from coursekit.grade.box.worker import Session


def says(master, exercise, source, cell):
    """What a hidden check says of an answer of which it sees only the program.

    Args:
      master: a `coursekit.master.Master`; `exercise` is one of its own.
      source: an answer.
      cell: a check of the exercise.

    Returns:
      str: "" when it passed.
    """
    setup = [c.source for c in (*master.setup, *exercise.setup)]
    names = sorted(_names(exercise))
    held = sys.modules.get("submission")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            judge = JudgeSession(master.stem, lambda name, spec: worker.do_export(name, spec))
            judge.do_setup(setup, "setup")
            worker = Session(master.stem)
            worker.do_setup(setup, "setup")
            error = worker.do_cell(source, exercise.id)["error"]
            if error:
                return error
            name, points, _ = cell.check
            return judge.do_check(cell.source, name, points, names)["says"]
    finally:
        sys.modules.pop("submission", None)
        if held:
            sys.modules["submission"] = held


def _names(exercise):
    from coursekit import regions
    from coursekit.grade import plan

    return plan.bound_names(regions.reveal(exercise.solution.source))
