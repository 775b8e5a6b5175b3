"""Run one answer against the checks of its exercise, in this process.

For authors and tests, whose answers are trusted. Learners' answers are for the
grader, which runs them in a sandbox.
"""

import contextlib
import io
import itertools
import linecache
import sys
import types
import warnings
from dataclasses import dataclass

from coursekit import regions

_numbers = itertools.count()


@dataclass(frozen=True)
class Outcome:
    """What one check said of one answer."""

    check: str
    passed: bool
    says: str


@dataclass(frozen=True)
class Answer:
    """One answer of a master, and the checks that it must fail."""

    label: str
    source: str
    must_fail: frozenset
    line: int


def answers_of(exercise):
    """Every answer that a master holds for an exercise.

    Returns:
      list of Answer: the reference and alternates, which must fail nothing, the
      starter, which must fail everything, and the wrong answers.
    """
    every = frozenset(c.check[0] for c in exercise.checks)
    solution = exercise.solution
    found = [Answer("reference", regions.reveal(solution.source), frozenset(), solution.line)]
    starter = (exercise.of("starter") or [None])[0]
    cleared = starter.source if starter else regions.clear(solution.source)
    found.append(Answer("starter", cleared, every, (starter or solution).line))
    for i, cell in enumerate(exercise.of("alternate"), 1):
        found.append(Answer(f"alternate {i}", cell.source, frozenset(), cell.line))
    for i, cell in enumerate(exercise.of("wrong"), 1):
        found.append(Answer(f"wrong {i}", cell.source, frozenset(cell.fails), cell.line))
    return found


def run(master, exercise, source):
    """Run `source` as the answer to an exercise, then every check of it.

    Returns:
      list of Outcome, in the order of the checks, hidden ones included.
    """
    quiet = contextlib.redirect_stdout(io.StringIO())
    with _module(master.stem) as module, quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong answer may well earn some
        for cell in (*master.setup, *exercise.setup):
            _execute(module, cell.source, "setup")
        try:
            _execute(module, source, exercise.id)
        except Exception as error:
            says = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            return [Outcome(c.check[0], False, says) for c in exercise.checks]
        return [_outcome(module, cell) for cell in exercise.checks]


def _outcome(module, cell):
    from tracecheck import CheckFailed  # late: pytest sets JAX's environment before it

    name = cell.check[0]
    try:
        _execute(module, cell.source, name)
    except CheckFailed as failure:
        return Outcome(name, False, str(failure))
    return Outcome(name, True, "")


@contextlib.contextmanager
def _module(stem):
    """A fresh module in `sys.modules`: dataclasses and pickle look theirs up."""
    module = types.ModuleType(f"answer_{stem}")  # messages may quote it
    sys.modules[module.__name__] = module
    try:
        yield module
    finally:
        del sys.modules[module.__name__]


def _execute(module, source, label):
    """Run a cell's source; its lines are known to linecache, as IPython's are."""
    filename = f"<{label} {next(_numbers)}>"
    linecache.cache[filename] = (
        len(source), None, source.splitlines(keepends=True), filename
    )
    exec(compile(source, filename, "exec"), module.__dict__)
