"""How fast grading is: `python -m tests.grade.benchmark 02_jit --submissions 300`.

Prints submissions a minute for one and two workers, with and without the compilation
cache, the peak memory of the parent, where the time of one submission goes, and, where
`make grading` has installed it, the ratio to nbgrader on some of the same submissions.
"""

import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from coursekit import master, nbgrader, pages, regions
from coursekit.course import Course
from coursekit.grade import grading, plan, sandbox, session, submissions, warm

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(os.environ.get("NBGRADER", ROOT / ".venv-nbgrader" / "bin"))


def mixed(read):
    """{exercise id: right, alternate and wrong answers}"""
    found = {}
    for exercise in read.exercises:
        right = regions.reveal(exercise.solution.source)
        found[exercise.id] = [right, *(c.source for c in exercise.of("alternate", "wrong"))]
    return found


def fill(notebook, answers, number):
    """A learner's notebook: two answers of three are right."""
    made = json.loads(json.dumps(notebook))
    for place, cell in enumerate(c for c in made["cells"] if c["id"].endswith("-solution")):
        choices = answers[cell["id"].removesuffix("-solution")]
        pick = 0 if (number + place) % 3 else number // 3
        cell["source"] = choices[pick % len(choices)]
    return json.dumps(made).encode()


def hand_in(folder, notebook, answers, count):
    folder.mkdir(parents=True)
    for number in range(count):
        data = fill(notebook, answers, number)
        (folder / f"student{number:04}.ipynb").write_bytes(data)


def timed(plans, box, folder, out, workers):
    """(seconds, peak MB of this process, result rows)"""
    began = time.monotonic()
    session.start_again()
    with ThreadPoolExecutor(workers) as pool:
        run = grading.Grading(plans, box, out)
        rows = run.run(submissions.find(folder), pool, workers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return time.monotonic() - began, peak, rows


def profile(plans, box, data):
    """Seconds of one submission by what was asked of the worker."""
    from coursekit.grade import runner

    spent, ask = {}, session.Connection.ask

    def watched(self, op, seconds, **content):
        began = time.monotonic()
        try:
            return ask(self, op, seconds, **content)
        finally:
            spent[op] = spent.get(op, 0) + time.monotonic() - began

    session.Connection.ask = watched
    try:
        result = runner.grade(plans[0], data, box)
    finally:
        session.Connection.ask = ask
    return {"in all": result.seconds} | spent


def theirs(course, stem, folder, count):
    """Seconds that nbgrader's autograde takes for the first `count` submissions."""
    hub = Path(tempfile.mkdtemp()) / "hub"
    nbgrader.export(course, [stem], hub)
    spec = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": "Python 3", "language": "python"}  # fmt: skip
    kernel = hub.parent / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(json.dumps(spec))
    environment = dict(os.environ, JUPYTER_PATH=str(hub.parent / "jupyter"),
                       JUPYTER_PREFER_ENV_PATH="0", JAX_PLATFORMS="cpu",
                       PATH=f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}")  # fmt: skip
    call = lambda *a: subprocess.run([PROGRAMS / "nbgrader", *a], cwd=hub, env=environment,  # noqa: E731
                                     check=True, capture_output=True)  # fmt: skip
    call("generate_assignment", stem)
    released = json.loads((hub / "release" / stem / f"{stem}.ipynb").read_text())
    for path in itertools.islice(sorted(folder.iterdir()), count):
        answers = {c["id"]: c["source"] for c in json.loads(path.read_text())["cells"]}
        for cell in released["cells"]:
            if cell["id"].endswith("-solution"):
                cell["source"] = answers[cell["id"]]
        target = hub / "submitted" / path.stem / stem / f"{stem}.ipynb"
        target.parent.mkdir(parents=True)
        target.write_text(json.dumps(released))
    began = time.monotonic()
    call("autograde", stem)
    return time.monotonic() - began


@click.command()
@click.argument("stem", default="02_jit")
@click.option("--submissions", "count", default=300, show_default=True)
@click.option("--nbgrader", "few", default=10, show_default=True, help="0 leaves it out.")
def main(stem, count, few):
    course = Course(ROOT)
    path = ROOT / "solutions" / f"{stem}.py"
    plans, read = [plan.of(path)], master.read(path)
    work = Path(tempfile.mkdtemp())
    hand_in(work / "in", pages.exercises(course, path), mixed(read), count)
    cold = sandbox.sandbox(sandbox.Limits())
    box = warm.warm(plans, cold, work / "cache")
    data = fill(pages.exercises(course, path), mixed(read), 1)
    for name, one in (("no cache", cold), ("cache", box)):
        spent = profile(plans, one, data)
        print(f"{name:9}", {k: round(v, 2) for k, v in spent.items()}, flush=True)
    for workers in (1, 2):
        part = work / f"in{workers}"
        share = count if workers == 2 else max(2, count // 10)
        hand_in(part, pages.exercises(course, path), mixed(read), share)
        seconds, peak, rows = timed(plans, box, part, work / f"out{workers}", workers)
        rate = 60 * share / seconds
        graded = sum(r.graded for r in rows)
        print(f"{workers} workers: {graded} of {share} graded, {rate:.0f} a minute, "
              f"parent {peak:.0f} MB", flush=True)  # fmt: skip
    if few and (PROGRAMS / "nbgrader").exists():
        few_seconds = theirs(course, stem, work / "in", few)
        print(f"nbgrader: {60 * few / few_seconds:.0f} a minute; ours is "
              f"{rate * few_seconds / 60 / few:.1f} times that")  # fmt: skip


if __name__ == "__main__":
    main()
