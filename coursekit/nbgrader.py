"""Exercise sets as a course of nbgrader, for those who run JupyterHub or formgrader.

What nbgrader reads: `nbgrader` metadata of cells (schema 3), its solution markers,
which are the course's own, and its markers for hidden tests.
https://nbgrader.readthedocs.io/en/stable/contributor_guide/metadata.html
"""

from coursekit import master, pages
from coursekit import notebook as nb
from coursekit.errors import CourseError

SCHEMA = 3
HIDDEN = "### BEGIN HIDDEN TESTS\n{}\n### END HIDDEN TESTS"
CONFIG = '''\
"""Settings of nbgrader for this course; see https://nbgrader.readthedocs.io."""

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "jax_for_pytorch_developers"
# The stub of the course: an answer that is not written raises, and scores 0.
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
c.ExecutePreprocessor.timeout = 120
'''


def export(course, stems, out):
    """Write `source/<set>/<set>.ipynb` for every set, and `nbgrader_config.py`.

    Args:
      stems: names of sets.
      out: a folder; it may hold a course of nbgrader already, whose other files
        stay as they are.

    Returns:
      list of Path: what was written.

    Raises:
      CourseError: there is no such set, or a file is there already.
    """
    written = []
    for stem in stems:
        path = course.root / "solutions" / f"{stem}.py"
        if not path.is_file():
            known = ", ".join(p.stem for p in course.masters())
            raise CourseError(f"there is no exercise set '{stem}'; known: {known}.")
        written.append((out / "source" / stem / f"{stem}.ipynb", notebook(course, path)))
    taken = [target for target, _ in written if target.exists()]
    if taken:
        raise CourseError(f"{taken[0]} is there already and is left as it is.")
    for target, made in written:
        nb.save(made, target)
    config = out / "nbgrader_config.py"
    if not config.exists():
        config.write_text(CONFIG, encoding="utf-8")
        return [config, *(target for target, _ in written)]
    return [target for target, _ in written]


def notebook(course, path):
    """The instructor's version of a set: answers marked, hidden tests included."""
    read = master.read(path)
    learners = pages.exercises(course, path)
    hidden = {e.id: e.of("hidden") for e in read.exercises}
    last = {e.id: _last_cell(learners, e.id) for e in read.exercises}
    cells = []
    for cell in learners.cells:
        cells.append(_instructors(cell, read))
        for id in (i for i, c in last.items() if c == cell.id):
            cells += [_hidden(f"{id}-hidden-{i}", c) for i, c in enumerate(hidden[id], 1)]
    made = nb.assemble(cells)
    made.metadata.pop("course")
    return made


def _last_cell(learners, id):
    return [c.id for c in learners.cells if c.metadata.get("course", {}).get("ex") == id][-1]


def _instructors(cell, read):
    course = cell.metadata.get("course", {})
    kind = course.get("kind", "")
    if kind == "solution":
        exercise = read.exercise(course["ex"])
        if not exercise.of("starter"):
            cell.source = exercise.solution.source
        return _marked(cell, solution=True)
    if kind == "check":
        points = next(c.check[1] for c in read.exercise(course["ex"]).of("check")
                      if c.source == cell.source)  # fmt: skip
        return _marked(cell, grade=True, locked=True, points=points)
    return _marked(cell, locked=True) if cell.cell_type == "code" else cell


def _hidden(id, check):
    cell = nb.code(HIDDEN.format(check.source), id)
    return _marked(cell, grade=True, locked=True, points=check.check[1])


def _marked(cell, **given):
    """The cell with nbgrader's metadata in place of the course's."""
    marks = {"grade": False, "solution": False, "locked": False, "task": False}
    marks |= {"schema_version": SCHEMA, "grade_id": cell.id} | given
    cell.metadata = nb.code("", "x").metadata | {"nbgrader": marks}
    return cell
