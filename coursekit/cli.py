"""The command line: `python -m coursekit`, or `coursekit` where it is installed."""

import subprocess
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from coursekit.course import Course
from coursekit.errors import CourseError
from coursekit.grade.command import grade

# Text goes through markup=False wherever a message may hold square brackets.
console = Console(highlight=False, soft_wrap=True)


class Commands(click.Group):
    """A group that tells a CourseError in one sentence, and Ctrl-C in none."""

    def invoke(self, context):
        try:
            return super().invoke(context)
        except CourseError as error:
            console.print(f"coursekit: {error}", style="red", markup=False)
            sys.exit(1)
        except KeyboardInterrupt:
            console.print("\ncoursekit: stopped; every notebook is as it was or new.")
            sys.exit(130)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main():
    """Build, check and lint the course's notebooks."""


@main.command()
@click.argument("stems", nargs=-1, metavar="[NAME]...")
@click.option("--force", is_flag=True, help="Overwrite notebooks edited by hand.")
@click.option("--all", "every", is_flag=True, help="Build what is up to date as well.")
@click.option("-j", "--workers", type=int, help="Notebooks at a time.")
def build(stems, force, every, workers):
    """Make the notebooks that are stale, and run them.

    NAME is a stem such as 02_jit; without one, all sources are looked at.
    """
    from coursekit import build as builder

    course = Course.here()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("building", total=None)

        def report(what, error):
            if isinstance(what, int):
                bar.update(task, total=what)
                return
            mark = "✗" if error else "✓"
            bar.console.print(f"{mark} {error or what}", markup=False)
            bar.advance(task)

        failures = builder.build(course, stems, force, every, workers, report)
        if bar.tasks[0].total == 0:
            bar.update(task, total=1, completed=1, description="all up to date")
    if not course.has_address:
        console.print("The address still says OWNER: set repository.url in _config.yml.")
    if failures:
        raise CourseError(f"{len(failures)} of the sources could not be built; see above.")


@main.command()
@click.argument("stem", metavar="NAME")
@click.option("-e", "--exercise", "id", help="One exercise, by its id.")
@click.option("-v", "--verbose", is_flag=True, help="Print what every failed check says.")
def check(stem, id, verbose):
    """Run a set's own answers against its checks, as the tests do."""
    from coursekit import answers, master

    read = master.read(_master_path(stem))
    bad = 0
    for exercise in [read.exercise(id)] if id else read.exercises:
        console.print(f"{exercise.id} · {exercise.points} points", style="bold")
        for answer in answers.answers_of(exercise):
            outcomes = answers.run(read, exercise, answer.source)
            failed = {o.check for o in outcomes if not o.passed}
            bad += failed != answer.must_fail
            _report_answer(answer, failed, outcomes, verbose)
    if bad:
        raise CourseError(f"{bad} answers do not do what the master says of them.")


def _report_answer(answer, failed, outcomes, verbose):
    good = failed == answer.must_fail
    told = ", ".join(sorted(failed)) or "nothing"
    line = f"  {'✓' if good else '✗'} {answer.label} fails {told}"
    if not good:
        wanted = ", ".join(sorted(answer.must_fail)) or "nothing"
        line += f"; should fail {wanted} (line {answer.line})"
    console.print(line, markup=False, style=None if good else "red")
    wanted = {o.check for o in outcomes} if verbose else failed ^ answer.must_fail
    for outcome in outcomes:
        if outcome.says and outcome.check in wanted:
            console.print("    " + outcome.says.replace("\n", "\n    "), markup=False)


def _master_path(stem):
    path = Course.here().root / "solutions" / f"{stem}.py"
    if not path.is_file():
        known = ", ".join(p.stem for p in Course.here().masters())
        raise CourseError(f"there is no exercise set '{stem}'; known: {known}.")
    return path


@main.command()
@click.argument("stem", metavar="NN_TOPIC")
@click.option("--title", help="Title of the chapter.")
def new(stem, title):
    """Start a chapter: its two sources and its line in _toc.yml."""
    from coursekit import new as starter

    for line in starter.new(Course.here(), stem, title):
        console.print(line, markup=False)


@main.command()
@click.option("--no-open", is_flag=True, help="Copy only; do not open JupyterLab.")
def lab(no_open):
    """Copy exercises that are not in work/ yet, and open them in JupyterLab."""
    from coursekit import work

    course = Course.here()
    for name in work.fill(course):
        console.print(f"copied work/{name}", markup=False)
    if not no_open:
        command = [sys.executable, "-m", "jupyter", "lab", str(course.root / "work")]
        sys.exit(subprocess.call(command))


@main.command()
@click.argument("stem", metavar="NAME")
def reset(stem):
    """Put a fresh copy of an exercise notebook beside yours in work/."""
    from coursekit import work

    console.print(f"fresh copy: work/{work.reset(Course.here(), stem)}", markup=False)


@main.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if something would change.")
def stamp(check):
    """Write the repository's address into every notebook, running nothing."""
    from coursekit import stamp as stamper

    course = Course.here()
    changed = stamper.stamp(course, check)
    for name in changed:
        console.print(("would change " if check else "stamped ") + name, markup=False)
    if check and changed:
        raise CourseError(
            f"{len(changed)} notebooks do not carry {course.address}: set repository.url "
            "in _config.yml to it, run 'make stamp' and commit."
        )
    if not course.has_address:
        console.print("The address still says OWNER: set repository.url in _config.yml.")


main.add_command(grade)


@main.command("export-nbgrader")
@click.argument("stems", nargs=-1, required=True, metavar="SET...")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Folder of the nbgrader course.")  # fmt: skip
def export_nbgrader(stems, out):
    """Write exercise sets as the source of an nbgrader course."""
    from coursekit import nbgrader

    for path in nbgrader.export(Course.here(), stems, out):
        console.print(f"wrote {path}", markup=False)
    console.print("next, in that folder: nbgrader generate_assignment SET")


@main.command()
@click.argument("rules", nargs=-1, metavar="[RULE]...")
def lint(rules):
    """Hold every source and notebook to the rules of the course."""
    from coursekit import lint as linter

    found = linter.lint(Course.here(), rules)
    for line in found:
        console.print(line, markup=False)
    if found:
        raise CourseError(f"{len(found)} findings.")
    console.print(f"{len(linter.chosen(rules))} rules, no findings.")
