"""From the text of a chapter or a master to notebooks without outputs.

Every function here is pure: the same sources give the same cells, ids included.
That is what lets a test compare a committed notebook with a fresh conversion.
"""

import hashlib
import html
import re

import jupytext
from jupytext.myst import myst_to_notebook

from coursekit import furniture, master, regions
from coursekit import notebook as nb
from coursekit.errors import CourseError
from coursekit.rosetta import page as rosetta

TAGS = {
    "torch", "jax", "raises-exception", "nbval-check-output", "hide-input",
    "hide-output", "hide-cell", "remove-cell", "quiz", "figure",
    "nbval-skip", "skip-execution", "nbval-ignore-output", "banner",
}  # fmt: skip
NEEDS_SETUP = re.compile(r"\b(?:tracecheck|coursekit)\b")
PYTHON_LINES_A_MINUTE = 15
WORDS_A_MINUTE = 180


def chapter(course, path, ran_on=None):
    """The notebook of a chapter or an executed reference page.

    Raises:
      CourseError: a cell has a tag that the course does not know.
    """
    text = source_text(path)
    source = jupytext.reads(text, fmt="md:myst")
    lines = cell_lines(text)
    seen = {}
    cells = [
        _chapter_cell(cell, seen, path, line)
        for cell, line in zip(source.cells, lines, strict=True)
    ]
    set_path = course.root / "solutions" / f"{path.stem}.py"
    answers = master.read(set_path) if set_path.is_file() else None
    relative = f"{path.parent.name}/{path.stem}.ipynb"
    banner = furniture.chapter_banner(course, relative, minutes(cells), answers, ran_on)
    cells.insert(1, banner)
    if any(NEEDS_SETUP.search(c.source) for c in cells if c.cell_type == "code"):
        cells.insert(2, furniture.setup_cell(course))
    return _assemble(course, path, cells, ran_on)


def source_text(path):
    """A page as it was written, with the sections that are made from data."""
    return rosetta.expand(path.read_text(encoding="utf-8"))


def cell_lines(text):
    """The first line of every cell of a MyST notebook, in order."""
    read = myst_to_notebook(text, add_source_map=True)
    return [line + 1 for line in read.metadata.get("source_map", [])]


def set_lines(read):
    """{id of a code cell on the solution page: its line in the master}"""
    found = {}
    for exercise in read.exercises:
        found[f"{exercise.id}-solution"] = exercise.solution.line
        found |= {_check_id(exercise, c): c.line for c in exercise.checks}
    return found


def _chapter_cell(cell, seen, path, line):
    tags = list(cell.metadata.get("tags", []))
    unknown = sorted(set(tags) - TAGS)
    if unknown:
        raise CourseError.at(path, line, f"unknown tag '{unknown[0]}'.")
    digest = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
    seen[digest] = seen.get(digest, 0) + 1
    id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
    extra = {k: cell.metadata[k] for k in ("error", "alt") if k in cell.metadata}
    make = nb.code if cell.cell_type == "code" else nb.markdown
    made = make(cell.source, id, tags)
    made.metadata.update(extra)
    if "alt" in extra:  # where myst-nb looks for the alternative text of a picture
        made.metadata["mystnb"] = {"image": {"alt": extra["alt"]}}
    return made


def minutes(cells):
    """How long a page takes to read and run, rounded to five minutes."""
    words = sum(len(c.source.split()) for c in cells if c.cell_type == "markdown")
    lines = sum(len(c.source.splitlines()) for c in cells if c.cell_type == "code")
    return max(5, 5 * round((words / WORDS_A_MINUTE + lines / PYTHON_LINES_A_MINUTE) / 5))


def exercises(course, path, ran_on=None):
    """The learner's notebook of an exercise set."""
    read = master.read(path)
    home = _home(course, path)
    banner = furniture.exercise_banner(course, read, home, ran_on)
    cells = [*_opening(course, read, "Exercises", banner)]
    for exercise in read.exercises:
        cells += _statement(exercise)
        cells.append(_blank(exercise, path))
        cells += _hints(exercise)
        for cell in exercise.of("check"):
            tags = ["raises-exception"]
            cells.append(_check(exercise, cell, tags))
    cells.append(nb.markdown("## Score", "score-heading"))
    count = f"scoreboard(total={read.visible_points})"
    board = f"from tracecheck import scoreboard\n\n{count}"
    cells.append(nb.code(board, "score", kind="scoreboard"))
    return _assemble(course, path, cells, ran_on)


def solutions(course, path, says, ran_on=None):
    """The solution page of an exercise set.

    Args:
      says: {id of a wrong-turn cell: what the checks say of it, one text each}.
    """
    read = master.read(path)
    banner = furniture.solution_banner(course, read, _home(course, path), ran_on)
    cells = [*_opening(course, read, "Solutions", banner)]
    for exercise in read.exercises:
        cells += _statement(exercise)
        id = f"{exercise.id}-solution"
        source = regions.reveal(exercise.solution.source)
        cells.append(nb.code(source, id, ex=exercise.id, kind="solution"))
        cells += [_check(exercise, c) for c in exercise.of("check")]
        cells += [_hidden(exercise, c) for c in exercise.of("hidden")]
        cells += _whys(exercise)
        cells += _wrong_turns(exercise, says)
    return _assemble(course, path, cells, ran_on)


def _assemble(course, path, cells, ran_on):
    return nb.assemble(
        cells,
        source=path.relative_to(course.root).as_posix(),
        inputs_sha=course.inputs_sha(path),
        **({"ran_on": ran_on} if ran_on else {}),
    )


def _home(course, path):
    home = course.home_of(path.stem)
    if home is None:
        raise CourseError(f"{path} has no chapter: chapters/{path.stem}.md is missing.")
    return home


def _opening(course, read, word, banner):
    title, *rest = read.common[0].source.split("\n", 1)
    yield nb.markdown(f"# {word}: {title.lstrip('# ')}\n{''.join(rest)}", "title")
    yield banner
    yield furniture.setup_cell(course)
    for i, cell in enumerate(read.common[1:], 1):
        yield (nb.markdown if cell.markdown else nb.code)(cell.source, f"setup-{i}")


def _statement(exercise):
    """Statement and setup cells; the statement says level, minutes, points."""
    made = []
    for i, cell in enumerate(c for c in exercise.cells if not c.kind):
        id = f"{exercise.id}-statement" + (f"-{i}" if i else "")
        if cell is exercise.statement:
            heading, _, rest = cell.source.partition("\n")
            meta = f"*{exercise.level} · {exercise.minutes} minutes · {_worth(exercise)}*"
            made.append(nb.markdown(f"{heading}\n\n{meta}\n{rest}", id, ex=exercise.id))
        else:
            make = nb.markdown if cell.markdown else nb.code
            made.append(make(cell.source, id, ex=exercise.id))
    return made


def _worth(exercise):
    """Points of an exercise, and how many of them hidden checks give."""
    total = f"{exercise.points} point" + "s" * (exercise.points != 1)
    hidden = sum(c.check[1] for c in exercise.of("hidden"))
    return f"{total}, {hidden} of them hidden" if hidden else total


def _blank(exercise, path):
    starter = exercise.of("starter")
    solution = exercise.solution
    source = (
        starter[0].source
        if starter
        else regions.clear(solution.source, path, solution.line + 1)
    )
    return nb.code(source, f"{exercise.id}-solution", ex=exercise.id, kind="solution")


def _hints(exercise):
    folds = [
        f"<details><summary>Hint {i}</summary>\n\n{cell.source}\n\n</details>"
        for i, cell in enumerate(exercise.of("hint"), 1)
    ]
    if folds:
        yield nb.markdown("\n".join(folds), f"{exercise.id}-hints", ex=exercise.id)


def _check_id(exercise, cell):
    return re.sub(r"[^\w-]", "-", f"{exercise.id}-{cell.kind}-{cell.check[0]}")[:64]


def _check(exercise, cell, tags=()):
    id = _check_id(exercise, cell)
    return nb.code(cell.source, id, tags, ex=exercise.id, kind=cell.kind)


def _hidden(exercise, cell):
    """A hidden check, folded on the site."""
    made = _check(exercise, cell, ["hide-cell"])
    prompts = {"show": "Show the hidden check", "hide": "Hide the hidden check"}
    made.metadata["mystnb"] = {f"code_prompt_{k}": v for k, v in prompts.items()}
    return made


def _whys(exercise):
    for i, cell in enumerate(exercise.of("why")):
        id = f"{exercise.id}-why" + (f"-{i}" if i else "")
        yield nb.markdown(f"**Why.** {cell.source}", id, ex=exercise.id)


def _wrong_turns(exercise, says):
    folds, told = [], []
    for i, cell in enumerate(exercise.of("wrong"), 1):
        texts = says.get(f"{exercise.id}/{i}", [])
        told.append(texts)
        habit, body = _split_habit(cell.source)
        # CommonMark is not read inside <summary>.
        habit = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(habit, quote=False))
        fold = f"<details><summary>Wrong turn {i}: {habit}</summary>\n\n"
        said = "\n".join(texts)
        fold += f"```python\n{body}\n```\n\n```text\n{said}\n```\n\n</details>"
        folds.append(fold)
    if folds:
        id = f"{exercise.id}-wrong"
        yield nb.markdown("\n".join(folds), id, ex=exercise.id, says=told)


def _split_habit(source):
    """The comment that opens a wrong answer, and the code below it."""
    first, _, rest = source.partition("\n")
    if first.startswith("#"):
        return first.lstrip("# ").rstrip("."), rest.strip("\n")
    return "a common slip", source
