"""What the grader runs, taken from the trusted master: never from a submission."""

from dataclasses import dataclass

from coursekit import master, regions
from coursekit.errors import CourseError
from coursekit.grade.names import bound as bound_names


@dataclass(frozen=True)
class Check:
    """A check of the master; `apart` says that it runs behind the boundary."""

    name: str
    points: float
    hidden: bool
    source: str
    apart: bool = False


@dataclass(frozen=True)
class Task:
    """One exercise: what runs before the answer, what an answer defines, its checks."""

    id: str
    title: str
    setup: tuple
    names: tuple
    blank: str
    reference: str
    checks: tuple

    @property
    def points(self):
        return sum(c.points for c in self.checks)


@dataclass(frozen=True)
class Plan:
    """One exercise set, ready to be run against submissions; it can be pickled."""

    stem: str
    title: str
    setup: tuple
    tasks: tuple

    @property
    def points(self):
        return sum(t.points for t in self.tasks)


def of(path, private=None):
    """The plan of an exercise set.

    Args:
      path: its master, `solutions/NN_topic.py`.
      private: a folder with masters of the same name that hold only hidden
        checks, which take the place of the public ones of their exercises.

    Raises:
      CourseError: a master or an overlay breaks a rule, or does not exist.
    """
    read = master.read(path)
    overlay = _overlay(read, private) if private else {}
    tasks = tuple(_task(e, overlay.get(e.id)) for e in read.exercises)
    return Plan(read.stem, read.title, tuple(c.source for c in read.setup), tasks)


def _task(exercise, private):
    starter = exercise.of("starter")
    source = exercise.solution.source
    hidden = exercise.of("hidden") if private is None else private
    return Task(
        exercise.id,
        exercise.title,
        tuple(c.source for c in exercise.setup),
        tuple(sorted(bound_names(regions.reveal(source)))),
        starter[0].source if starter else regions.clear(source),
        regions.reveal(source),
        tuple(_check(c) for c in (*exercise.of("check"), *hidden)),
    )


def _check(cell):
    name, points, _ = cell.check
    return Check(name, points, cell.kind == "hidden", cell.source, cell.apart)


def _overlay(read, folder):
    path = folder / f"{read.stem}.py"
    if not path.is_file():
        raise CourseError(
            f"{folder} holds no {read.stem}.py: name a folder with an overlay of that set."
        )
    found = {}
    for cell in master.cells(path):
        if cell.kind != "hidden":
            raise CourseError.at(path, cell.line, "an overlay holds only hidden checks.")
        read.exercise(cell.ex)
        found.setdefault(cell.ex, []).append(cell)
    return found
