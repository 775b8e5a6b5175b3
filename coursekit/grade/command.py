"""`coursekit grade`: the command line of the grader."""

import os
import sys
import tempfile
from pathlib import Path

import click

from coursekit.errors import CourseError

NOT_ALL_GRADED = 3
MOST_ROWS = 40


@click.command()
@click.argument("sets", metavar="SET[,SET…]")
@click.argument("submissions", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path),
              help="Folder for grades and feedback.")  # fmt: skip
@click.option("-j", "--workers", type=click.IntRange(1), default=os.cpu_count(),
              show_default="number of cores", help="Submissions at a time.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with the results in OUT.")
@click.option("--private", type=click.Path(path_type=Path, file_okay=False),
              help="Folder with hidden checks of your own.")  # fmt: skip
@click.option("--roster", type=click.Path(path_type=Path, dir_okay=False),
              help="File with one student id a line, to name who is missing.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(1, 3600), default=20, show_default=True,
              help="Time limit of an answer, and of a check.")  # fmt: skip
@click.option("--memory", type=click.FloatRange(1, 4096), default=8, show_default=True,
              help="GB of address space for a submission.")  # fmt: skip
@click.option("--no-sandbox", is_flag=True,
              help="Run submissions with your own rights, where bubblewrap is missing.",
              )  # fmt: skip
@click.option("--scheduler", metavar="ADDRESS",
              help="A Dask scheduler: grade on its workers (needs distributed).")  # fmt: skip
def grade(sets, submissions, out, workers, resume, private, roster, seconds, memory,
          no_sandbox, scheduler):  # fmt: skip
    """Grade a folder, or a zip, of SUBMISSIONS against exercise sets.

    SET is a name such as 02_jit. Nothing is ever written to the submissions. The exit
    status is 0 when everything was graded, 3 when something was not.
    """
    from coursekit.grade import cluster, grading, report, sandbox, warm
    from coursekit.grade import submissions as handed_in

    plans = _plans([stem.strip() for stem in sets.split(",")], private)
    names = _names(roster)
    students = handed_in.find(submissions)
    _refuse_inside(out, submissions)
    limits = sandbox.Limits(answer=seconds, check=seconds, memory=int(memory * 2**30))
    box = sandbox.sandbox(limits, no_sandbox)
    rows, run = [], None
    with (
        tempfile.TemporaryDirectory() as cache,
        cluster.executor(workers, scheduler) as (executor, count),
        _bar() as bar,
    ):
        task = bar.add_task("the set's own answers", total=None)
        show = lambda done, total: bar.update(task, completed=done)  # noqa: E731
        run = grading.Grading(plans, box, out, resume, show)  # it refuses OUT before the wait
        run.sandbox = warm.warm(plans, box, Path(cache))
        bar.update(task, description="grading", total=len(students))
        try:
            rows = run.run(students, executor, count)
        except (KeyboardInterrupt, CourseError):
            report.write(out, plans, run.sorted_rows())
            raise
    rows += grading.roster_rows(plans, names, rows)
    report.write(out, plans, rows)
    _summary(plans, rows, out)
    if not all(row.graded for row in rows):
        sys.exit(NOT_ALL_GRADED)


def _plans(stems, private):
    from coursekit.course import Course
    from coursekit.grade import plan

    course, found = Course.here(), []
    for stem in dict.fromkeys(stems):
        path = course.root / "solutions" / f"{stem}.py"
        if not path.is_file():
            known = ", ".join(p.stem for p in course.masters())
            raise CourseError(f"there is no exercise set '{stem}'; known: {known}.")
        found.append(plan.of(path, private))
    return found


def _names(roster):
    if roster is None:
        return []
    from coursekit.grade.submissions import known_as

    try:
        lines = roster.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise CourseError(f"{roster} can't be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise CourseError(f"{roster} is not UTF-8 text: save it as plain text in UTF-8.") from None
    return [known_as(line) for line in dict.fromkeys(lines) if line.strip()]


def _refuse_inside(out, submissions):
    """Results never land among the submissions: a second run would read them."""
    if submissions.is_dir() and out.resolve().is_relative_to(submissions.resolve()):
        raise CourseError(f"{out} is inside of {submissions}: name a folder outside of it.")


def _console():
    from coursekit.cli import console

    return console


def _bar():
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=_console())


def _summary(plans, rows, out):
    """Tables for the terminal: students, or exercises where there are many."""
    from rich.table import Table

    from coursekit.grade import report

    whole = sum(p.points for p in plans)
    table = Table("student", "points", "status", "review", box=None, pad_edge=False)
    for row in rows[:MOST_ROWS]:
        points = f"{row.earned:g} / {whole:g}" if row.graded else ""
        flags = f"{len(row.flags)} flag{'s' * (len(row.flags) > 1)}" if row.flags else ""
        table.add_row(*map(_plain, (row.student, points, report.status(row), flags)))
    _console().print(table)
    if len(rows) > MOST_ROWS:
        _console().print(f"… and {len(rows) - MOST_ROWS} more")
    graded = [row for row in rows if row.graded]
    mean = sum(r.earned for r in graded) / len(graded) if graded else 0
    flagged = sum(bool(r.flags) for r in rows)
    _console().print(
        f"\n{len(graded)} of {len(rows)} graded, {mean:.1f} of {whole:g} points in the mean, "
        f"{flagged} to be reviewed. See {out}/grades.csv.", markup=False,
    )  # fmt: skip


def _plain(text):
    from rich.text import Text

    return Text(text)
