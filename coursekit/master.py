"""The master of an exercise set: `solutions/NN_topic.py`, parsed and checked.

The format is jupytext's percent format (https://jupytext.readthedocs.io); `ex`,
`kind`, `fails`, `level` and `minutes` are cell metadata. CONTRIBUTING.md has the
table of kinds.
"""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

import jupytext

from coursekit import regions
from coursekit.errors import CourseError

MARKDOWN_KINDS = ("hint", "why")
CODE_KINDS = ("solution", "starter", "check", "hidden", "wrong", "alternate")
LEVELS = ("warm-up", "core", "stretch")


@dataclass(frozen=True)
class Cell:
    """One cell of a master; `line` is the line of its `# %%` marker."""

    source: str
    markdown: bool
    line: int
    ex: str = ""
    kind: str = ""
    meta: dict = field(default_factory=dict)

    @property
    def check(self):
        """(name, points, section) of the `with check(...)` in this cell."""
        call = _check_calls(self.source)[0]
        named = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
        name = ast.literal_eval(call.args[0])
        return name, named["points"], named.get("section", "")

    @property
    def fails(self):
        """Names of the checks that a wrong answer must fail."""
        return tuple(self.meta.get("fails", "").split())

    @property
    def apart(self):
        """Whether the grader runs this check away from the learner's Python."""
        return bool(self.meta.get("apart"))


@dataclass(frozen=True)
class Exercise:
    """One exercise: its statement, answers, checks and explanations."""

    id: str
    cells: tuple

    def of(self, *kinds):
        """The cells of these kinds, in the order of the master."""
        return [c for c in self.cells if c.kind in kinds]

    @property
    def statement(self):
        return next(c for c in self.cells if c.markdown and not c.kind)

    @property
    def title(self):
        return self.statement.source.splitlines()[0].lstrip("# ").strip()

    @property
    def level(self):
        return self.statement.meta["level"]

    @property
    def minutes(self):
        return self.statement.meta["minutes"]

    @property
    def solution(self):
        return self.of("solution")[0]

    @property
    def setup(self):
        """Code cells that run before the answer."""
        return [c for c in self.cells if not c.kind and not c.markdown]

    @property
    def checks(self):
        """Visible and hidden check cells."""
        return self.of("check", "hidden")

    @property
    def points(self):
        return sum(c.check[1] for c in self.checks)


@dataclass(frozen=True)
class Master:
    """A whole exercise set."""

    stem: str
    path: Path
    common: tuple
    exercises: tuple

    @property
    def title(self):
        return self.common[0].source.splitlines()[0].lstrip("# ").strip()

    @property
    def setup(self):
        """Code cells that run before every exercise."""
        return [c for c in self.common if not c.markdown]

    @property
    def points(self):
        return sum(e.points for e in self.exercises)

    @property
    def visible_points(self):
        """Points of the checks that learners can run themselves."""
        return sum(c.check[1] for e in self.exercises for c in e.of("check"))

    def exercise(self, id):
        """The exercise of this id.

        Raises:
          CourseError: there is none.
        """
        for exercise in self.exercises:
            if exercise.id == id:
                return exercise
        known = ", ".join(e.id for e in self.exercises)
        raise CourseError(f"{self.path} has no exercise '{id}'; it has: {known}.")


def read(path):
    """Parse and check one master.

    Raises:
      CourseError: the file breaks a rule of the format, with file and line.
    """
    path = Path(path)
    parsed = cells(path)
    common = tuple(c for c in parsed if not c.ex)
    ids = list(dict.fromkeys(c.ex for c in parsed if c.ex))
    exercises = tuple(
        Exercise(id, tuple(c for c in parsed if c.ex == id)) for id in ids
    )
    master = Master(path.stem, path, common, exercises)
    _refuse_bad_set(master, parsed)
    for exercise in exercises:
        _refuse_bad_exercise(exercise, path)
    return master


def cells(path):
    """Every cell of a file in the format of a master, each by itself correct.

    Raises:
      CourseError: a cell breaks a rule of the format, with file and line.
    """
    text = path.read_text(encoding="utf-8")
    markers = [
        n for n, line in enumerate(text.splitlines(), 1) if re.match(r"# %%( |$)", line)
    ]
    if not markers or markers[0] != 1:
        raise CourseError.at(path, 1, "a master begins with a '# %%' line.")
    notebook = jupytext.reads(text, fmt="py:percent")
    if len(notebook.cells) != len(markers):
        raise CourseError.at(path, 1, "a cell marker could not be read by jupytext.")
    return [_cell(c, line, path) for c, line in zip(notebook.cells, markers)]


def _cell(cell, line, path):
    meta = {k: v for k, v in cell.metadata.items() if k != "lines_to_next_cell"}
    ex, kind = meta.pop("ex", ""), meta.pop("kind", "")
    made = Cell(cell.source, cell.cell_type == "markdown", line, ex, kind, meta)
    _refuse_bad_cell(made, path)
    return made


def _refuse_bad_cell(cell, path):
    known = MARKDOWN_KINDS if cell.markdown else CODE_KINDS
    form = "Markdown" if cell.markdown else "code"
    refuse = lambda what: CourseError.at(path, cell.line, what)  # noqa: E731
    if cell.kind and cell.kind not in known:
        kinds = ", ".join(known)
        raise refuse(f"'{cell.kind}' is no kind of {form} cell; known are {kinds}.")
    if cell.kind and not cell.ex:
        raise refuse(f"a {cell.kind} cell needs ex=\"…\", the exercise it is of.")
    unknown = set(cell.meta) - {"level", "minutes", "fails", "apart"}
    if unknown:
        raise refuse(f"unknown cell metadata: {', '.join(sorted(unknown))}.")
    if not cell.markdown:
        _refuse_bad_code(cell, path)


def _refuse_bad_code(cell, path):
    try:
        calls = _check_calls(cell.source)
    except SyntaxError as error:
        line = cell.line + (error.lineno or 1)
        raise CourseError.at(path, line, f"not Python: {error.msg}.") from None
    if cell.kind in ("check", "hidden") and len(calls) != 1:
        raise CourseError.at(
            path, cell.line, f"a {cell.kind} cell holds one 'with check(…)', not {len(calls)}."
        )
    if cell.kind in ("check", "hidden"):
        try:
            cell.check  # noqa: B018  it reads the call, and raises where it can't
        except (KeyError, IndexError, ValueError):
            raise CourseError.at(
                path, cell.line, "check takes a name and points=N, both literal."
            ) from None


def _check_calls(source):
    """The calls in `with check(...):` statements at the top of a cell."""
    heads = [n for n in ast.parse(source).body if isinstance(n, ast.With)]
    calls = [n.items[0].context_expr for n in heads]
    is_check = lambda c: isinstance(c, ast.Call) and getattr(c.func, "id", "") == "check"  # noqa: E731
    return [c for c in calls if is_check(c)]


def _refuse_bad_set(master, cells):
    first = cells[0]
    if first.ex or not first.markdown or not first.source.startswith("# "):
        raise CourseError.at(
            master.path, 1, "a master opens with a Markdown cell that holds its title."
        )
    if not master.exercises:
        raise CourseError.at(master.path, 1, "a master needs an exercise.")
    seen = ""
    for cell, before in zip(cells[1:], cells):
        if cell.ex != before.ex:
            if not cell.ex or f" {cell.ex} " in seen:
                where = f"exercise '{cell.ex}'" if cell.ex else "set-level setup"
                raise CourseError.at(
                    master.path, cell.line,
                    f"{where} opens a second time: an id stands for one exercise, "
                    "and its cells stand together.",
                )
            seen += f" {cell.ex} "
    names = [c.check[0] for e in master.exercises for c in e.checks]
    for exercise in master.exercises:
        for cell in exercise.checks:
            if names.count(cell.check[0]) > 1:
                raise CourseError.at(
                    master.path, cell.line,
                    f"the check name '{cell.check[0]}' stands twice in the set.",
                )


def _refuse_bad_exercise(exercise, path):
    head = exercise.cells[0]
    refuse = lambda what, cell=head: CourseError.at(path, cell.line, what)  # noqa: E731
    name = f"exercise '{exercise.id}'"
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", exercise.id):
        raise refuse(f"{name}: an id is topic_verb in snake case.")
    if not (head.markdown and not head.kind and head.source.startswith("## ")):
        raise refuse(f"{name} opens with its statement, headed '## …'.")
    if head.meta.get("level") not in LEVELS:
        raise refuse(f"{name}: level= is one of {', '.join(LEVELS)}.")
    if not isinstance(head.meta.get("minutes"), int):
        raise refuse(f"{name}: minutes= is a whole number.")
    twin = next((c for c in exercise.cells[1:] if "level" in c.meta), None)
    if twin:
        raise refuse(f"the id '{exercise.id}' stands for two exercises.", twin)
    if len(exercise.of("solution")) != 1:
        raise refuse(f"{name} has {len(exercise.of('solution'))} solution cells, not 1.")
    if not exercise.of("check"):
        raise refuse(f"{name} has no check.")
    if len(exercise.of("starter")) > 1:
        raise refuse(f"{name} has more than one starter.")
    _refuse_bad_answers(exercise, path)


def _refuse_bad_answers(exercise, path):
    solution = exercise.solution
    cleared = regions.clear(solution.source, path, solution.line + 1)
    if cleared == solution.source and not exercise.of("starter"):
        raise CourseError.at(
            path, solution.line,
            f"exercise '{exercise.id}' would show its answer: it has neither a "
            "solution region nor a starter.",
        )
    names = {c.check[0] for c in exercise.checks}
    for wrong in exercise.of("wrong"):
        if not wrong.fails or not set(wrong.fails) <= names:
            raise CourseError.at(
                path, wrong.line,
                f"fails= names checks of '{exercise.id}': {', '.join(sorted(names))}.",
            )
