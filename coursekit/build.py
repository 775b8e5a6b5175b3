"""`coursekit build`: make the notebooks that are stale, whole or not at all."""

import concurrent.futures as futures
import multiprocessing
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

from coursekit import answers, execute, master, pages
from coursekit import notebook as nb
from coursekit.course import Course
from coursekit.errors import CourseError

PYTHON = "3.11"
SECONDS_TO_STOP = 5


@dataclass(frozen=True)
class Job:
    """One source and the notebooks that are made from it."""

    source: Path
    targets: tuple

    @property
    def is_set(self):
        return self.source.suffix == ".py"

    @property
    def name(self):
        return f"{self.source.parent.name}/{self.source.name}"


def jobs(course, stems=()):
    """What the course's notebooks are made from.

    Args:
      course: a Course.
      stems: names such as '02_jit'; none means all.

    Raises:
      CourseError: a stem names no source.
    """
    found = [Job(p, (p.with_suffix(".ipynb"),)) for p in course.pages()]
    for path in course.masters():
        page = path.with_suffix(".ipynb")
        found.append(Job(path, (course.root / "exercises" / page.name, page)))
    unknown = set(stems) - {j.source.stem for j in found}
    if unknown:
        known = ", ".join(sorted({j.source.stem for j in found}))
        raise CourseError(f"no source is named '{sorted(unknown)[0]}'; known: {known}.")
    return [j for j in found if not stems or j.source.stem in stems]


def convert(course, job, says=None, ran_on=None):
    """The notebooks of a job without outputs, one for each target."""
    if not job.is_set:
        return [pages.chapter(course, job.source, ran_on)]
    return [
        pages.exercises(course, job.source, ran_on),
        pages.solutions(course, job.source, says or {}, ran_on),
    ]


def problems(course, job):
    """Why the committed notebooks of a job are not up to date.

    Returns:
      list of str, one sentence each; empty when nothing is stale.
    """
    found = []
    committed = [nb.load(path) for path in job.targets]
    for path, notebook in zip(job.targets, committed):
        name = path.relative_to(course.root).as_posix()
        if notebook is None:
            found.append(f"{name} is missing: run 'make notebooks'.")
        elif nb.edited_by_hand(notebook):
            found.append(
                f"{name} was edited by hand: move the edit to {job.name}, then "
                f"'coursekit build {job.source.stem} --force'."
            )
    if found:
        return found
    ran_on = committed[-1].metadata.course.get("ran_on")
    fresh = convert(course, job, said(committed[-1]), ran_on)
    for path, old, new in zip(job.targets, committed, fresh):
        name = path.relative_to(course.root).as_posix()
        why = _difference(old, new)
        if why:
            found.append(f"{name} is stale ({why}): run 'make notebooks'.")
    return found


def _difference(old, new):
    if old.metadata.course.get("inputs_sha") != new.metadata.course.inputs_sha:
        return "its source, tracecheck or the lock changed since it ran"
    if not old.metadata.course.get("ran_on"):
        return "it does not say what it ran on"
    for i, (was, now) in enumerate(zip(old.cells, new.cells), 1):
        if (was.id, was.source) != (now.id, now.source):
            return f"cell {i} differs from a fresh conversion"
        if was.metadata != now.metadata:
            return f"tags or metadata of cell {i} differ from a fresh conversion"
    if len(old.cells) != len(new.cells):
        return f"{len(old.cells)} cells instead of {len(new.cells)}"
    return ""


def said(notebook):
    """What the checks said of the wrong answers, as a solution page keeps it."""
    found = {}
    for cell in notebook.cells:
        course = cell.metadata.get("course", {})
        for i, texts in enumerate(course.get("says", []), 1):
            found[f"{course['ex']}/{i}"] = list(texts)
    return found


def judge(path):
    """Run every wrong answer of a set: what do the checks say of it?

    Returns:
      {'exercise/number': [text of every check that failed]}.
    """
    read, found = master.read(path), {}
    for exercise in read.exercises:
        for i, cell in enumerate(exercise.of("wrong"), 1):
            outcomes = answers.run(read, exercise, cell.source)
            found[f"{exercise.id}/{i}"] = distinct(outcomes)
    return found


def distinct(outcomes):
    """The texts of failed checks; one text where all say the same."""
    return list(dict.fromkeys(o.says for o in outcomes if not o.passed))


def make(root, source, force=False):
    """Convert, run and write the notebooks of one source.

    Runs in a process of its own. Nothing is written unless everything ran.

    Raises:
      CourseError: bad source, failing cell, or a target edited by hand.
    """
    course = Course(Path(root))
    job = next(j for j in jobs(course) if j.source == Path(source))
    if not force:
        refuse_edited(course, job)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    ran_on = execute.versions()
    says = judge(job.source) if job.is_set else {}
    made = convert(course, job, says, ran_on)
    _refuse_torchless(job, made[-1])
    execute.execute(made[-1], job.name, _lines(job, made[-1]))
    for notebook, path in zip(made, job.targets):
        notebook.metadata.course.content_sha = nb.content_sha(notebook)
        nb.save(notebook, path)
    return job.name


def refuse_edited(course, job):
    """Stop where a generated notebook holds somebody's edits."""
    for path in job.targets:
        notebook = nb.load(path)
        if notebook is not None and nb.edited_by_hand(notebook):
            name = path.relative_to(course.root).as_posix()
            raise CourseError(
                f"{name} was edited by hand and is left as it is: move the edit to "
                f"{job.name}, or overwrite it with --force."
            )


def _refuse_torchless(job, notebook):
    import importlib.util

    uses = any("torch" in c.metadata.get("tags", []) for c in notebook.cells)
    if uses and importlib.util.find_spec("torch") is None:
        raise CourseError(
            f"{job.name} has PyTorch cells and torch is not installed: run 'make torch'."
        )


def _lines(job, notebook):
    """Cell id -> line of the source, for messages about failing cells."""
    if job.is_set:
        return pages.set_lines(master.read(job.source))
    lines = pages.cell_lines(pages.source_text(job.source))
    authored = [c for c in notebook.cells if not c.id.startswith("course-")]
    return {c.id: line for c, line in zip(authored, lines)}


def build(course, stems=(), force=False, every=False, workers=None, report=None):
    """Make every notebook that is stale.

    Args:
      stems: names such as '02_jit'; none means all.
      force: overwrite notebooks that were edited by hand.
      every: make them even if nothing changed.
      workers: processes at a time; by default the number of cores.
      report: called with a Job's name and None, or the error, as each ends.

    Returns:
      list of CourseError, one for each source that could not be built.
    """
    refuse_wrong_python()
    stale = [j for j in jobs(course, stems) if every or force or problems(course, j)]
    report = report or (lambda name, error: None)
    report(len(stale), None)
    failures = []
    context = multiprocessing.get_context("spawn")
    workers = workers or os.cpu_count() or 1
    with futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        running = {pool.submit(make, course.root, j.source, force): j for j in stale}
        try:
            for done in futures.as_completed(running):
                failures += _outcome(done, running[done], report)
        except KeyboardInterrupt:
            _stop(pool)
            raise
    return failures


def _stop(pool):
    """End the workers of a pool soon, whatever their kernels are busy with.

    Ctrl-C reached them too, and nbclient then shuts its kernel down. A second signal
    would have it do so twice at a time, and wait for ever; so there is none but the
    last one, after which a kernel sees that its parent is gone.
    """
    pool.shutdown(wait=False, cancel_futures=True)
    patience = time.monotonic() + SECONDS_TO_STOP
    for worker in multiprocessing.active_children():
        worker.join(max(0, patience - time.monotonic()))
        worker.kill()


def _outcome(done, job, report):
    try:
        done.result()
    except CourseError as error:
        report(job.name, error)
        return [error]
    report(job.name, None)
    return []


def refuse_wrong_python():
    """Committed outputs come from one Python, so that they can be compared."""
    if not platform.python_version().startswith(f"{PYTHON}."):
        raise CourseError(
            f"notebooks are built on Python {PYTHON}, this is "
            f"{platform.python_version()}: make the environment with PYTHON=python{PYTHON}."
        )
