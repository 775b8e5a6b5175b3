"""Stock nbgrader generates, autogrades and scores an exported set as we do.

nbgrader lives in an environment of its own: `make grading`, or NBGRADER names a
folder that holds its programs.
"""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from coursekit.cli import main
from coursekit.course import Course
from tests.grade.conftest import CENTRE, all_right, all_wrong, learner, reference

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(os.environ.get("NBGRADER", ROOT / ".venv-nbgrader" / "bin"))
ANSWERS = {
    "right": reference(),
    "partial": {CENTRE: reference()[CENTRE]},
    "empty": {},
    "loud": reference() | {"three_step": "import sys\nprint('x' * 9)\n" + reference()["three_step"]},
}
TOTALS = {"right": 10, "partial": 4, "empty": 0, "loud": 10, "wrong": 0}


@pytest.fixture
def hub(tmp_path, course):
    """A folder for nbgrader, and a kernel that has JAX."""
    if not (PROGRAMS / "nbgrader").exists():
        pytest.skip("nbgrader is not installed: make grading")
    kernel = tmp_path / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    done = CliRunner().invoke(main, ["export-nbgrader", "01_three", "-o", str(tmp_path / "hub")])
    assert done.exit_code == 0, done.output
    return tmp_path / "hub"


def nbgrader(hub, *arguments):
    environment = dict(os.environ, JUPYTER_PATH=str(hub.parent / "jupyter"), HOME=str(hub.parent))
    environment["PATH"] = f"{PROGRAMS}{os.pathsep}{environment['PATH']}"  # it runs alembic
    environment |= {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    # The environment's own kernel spec would come first, and has no JAX.
    environment["JUPYTER_PREFER_ENV_PATH"] = "0"
    # nbgrader gives nothing for a cell that writes to stderr, and JAX warns there when
    # another process is at work on the same file of its cache.
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [PROGRAMS / "nbgrader", *arguments], cwd=hub, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def hand_in(hub, student, answers):
    """Fill in the released notebook."""
    released = hub / "release" / "01_three" / "01_three.ipynb"
    notebook = json.loads(released.read_text())
    for cell in notebook["cells"]:
        name = cell["id"].removesuffix("-solution")
        if name in answers and cell["id"].endswith("-solution"):
            cell["source"] = answers[name]
    target = hub / "submitted" / student / "01_three" / "01_three.ipynb"
    target.parent.mkdir(parents=True)
    target.write_text(json.dumps(notebook))


def test_the_same_scores(hub, grade):
    nbgrader(hub, "generate_assignment", "01_three")
    released = (hub / "release" / "01_three" / "01_three.ipynb").read_text()
    assert "jnp.mean(x)" not in released.replace("`jnp.mean`", "")
    assert "centre_other_values" not in released
    wrong = {f"three_{k}": v for k, v in _wrong().items()}
    for student, answers in (ANSWERS | {"wrong": wrong}).items():
        hand_in(hub, student, answers)
    nbgrader(hub, "autograde", "01_three")
    theirs = scores(hub / "gradebook.db")
    ours = {s: grade(learner(a)).earned for s, a in (ANSWERS | {"wrong": wrong}).items()}
    assert theirs == ours == TOTALS


def _wrong():
    notebook = all_wrong()
    return {
        c["id"].removesuffix("-solution").removeprefix("three_"): c["source"]
        for c in notebook["cells"] if c["id"].endswith("-solution")
    }  # fmt: skip


def scores(path):
    """{student: points} in nbgrader's gradebook."""
    query = """
        select a.student_id, sum(coalesce(g.auto_score, 0))
        from submitted_assignment a
        join submitted_notebook n on n.assignment_id = a.id
        join grade g on g.notebook_id = n.id group by a.student_id"""
    with sqlite3.connect(path) as book:
        return dict(book.execute(query).fetchall())


def test_what_is_there_is_left_as_it_is(tmp_path, course):
    out = str(tmp_path / "hub")
    CliRunner().invoke(main, ["export-nbgrader", "01_three", "-o", out])
    target = tmp_path / "hub" / "source" / "01_three" / "01_three.ipynb"
    target.write_text("mine")
    done = CliRunner().invoke(main, ["export-nbgrader", "01_three", "-o", out])
    assert done.exit_code == 1 and "is there already" in done.output
    assert target.read_text() == "mine"


def test_an_exported_set_is_whole(tmp_path, course):
    """Every cell that gives points says how many, and they add up."""
    out = tmp_path / "hub"
    CliRunner().invoke(main, ["export-nbgrader", "01_three", "-o", str(out)])
    cells = json.loads((out / "source/01_three/01_three.ipynb").read_text())["cells"]
    marks = [c["metadata"].get("nbgrader", {}) for c in cells]
    assert sum(m.get("points", 0) for m in marks) == 10
    assert sum(m.get("solution", False) for m in marks) == 3
    assert Course.here().root == course and all_right()
