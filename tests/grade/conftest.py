"""A set of three questions, worth 4, 3 and 3 points, and notebooks that answer it."""

import json
import shutil
from pathlib import Path

import pytest

from coursekit import master, pages, regions
from coursekit.course import Course
from coursekit.errors import CourseError
from coursekit.grade import plan, runner, sandbox

COURSE = Path(__file__).parent / "course"
MASTER = COURSE / "solutions" / "01_three.py"
CENTRE, CUMULATE, STEP = "three_centre", "three_cumulate", "three_step"
WRONG = {
    CENTRE: "def centre(x):\n    return x",
    CUMULATE: "def cumulate(x):\n    return x",
    STEP: "def step(w, x):\n    return w",
}


def reference():
    """{exercise id: its right answer}"""
    read = master.read(MASTER)
    return {e.id: regions.reveal(e.solution.source) for e in read.exercises}


def learner(answers=None, **more):
    """A learner's notebook, as a dict.

    Args:
      answers: {exercise id: source}; others stay blank.
      more: the same by the last word of the id: centre, cumulate, step.
    """
    notebook = json.loads(json.dumps(pages.exercises(Course(COURSE), MASTER)))
    answers = dict(answers or {}) | {f"three_{k}": v for k, v in more.items()}
    for cell in notebook["cells"]:
        name = cell["id"].removesuffix("-solution")
        if cell["id"].endswith("-solution") and name in answers:
            cell["source"] = answers[name]
    return notebook


def all_right(**more):
    """A notebook that is right everywhere but where `more` says otherwise."""
    return learner(reference(), **more)


def all_wrong(**more):
    return learner(WRONG, **more)


def data(notebook):
    return json.dumps(notebook).encode()


def code(source, **extra):
    """A code cell."""
    base = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    return base | {"source": source} | extra


@pytest.fixture(scope="session")
def box():
    """A sandbox with short limits, which honest work keeps on a busy machine, too.

    Tests are skipped where none can be made.
    """
    limits = sandbox.Limits(answer=8, check=12, memory=4 * sandbox.GB)
    try:
        return sandbox.sandbox(limits)
    except CourseError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def three():
    return plan.of(MASTER)


@pytest.fixture
def grade(three, box):
    """Grade one notebook: bytes, or a dict."""

    def run(notebook):
        content = notebook if isinstance(notebook, bytes) else data(notebook)
        return runner.grade(three, content, box, "someone.ipynb")

    return run


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A copy of the course that a command may run in."""
    root = tmp_path / "course"
    shutil.copytree(COURSE, root)
    monkeypatch.chdir(root)
    return root
