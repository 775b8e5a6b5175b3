"""Honest submissions, and broken ones, get the points that they have earned."""

import json
import re

import pytest

from tests.grade.conftest import CENTRE, all_right, all_wrong, code, data, learner, reference

RIGHT = reference()


def scores(result):
    return {t.id.removeprefix("three_"): t.earned for t in result.tasks}


def cell_of(notebook, id):
    return next(c for c in notebook["cells"] if c["id"] == id)


def copied(notebook):
    """An answer cell that was duplicated in Jupyter: same metadata, an id of its own."""
    original = cell_of(notebook, "three_step-solution")
    place = notebook["cells"].index(original)
    notebook["cells"].insert(place, original | {"id": "0123abcd"})
    return notebook


def bare(notebook):
    """Course metadata and ids are lost, as after some conversions."""
    notebook["metadata"] = {}
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        del cell["id"]
    notebook["nbformat_minor"] = 4
    return notebook


def old_format(notebook):
    """The same notebook in nbformat 3."""
    cells = [
        {"cell_type": "code", "input": c["source"], "outputs": [], "metadata": {},
         "language": "python", "collapsed": False}
        for c in notebook["cells"] if c["cell_type"] == "code"
    ]  # fmt: skip
    sheet = [{"cells": cells, "metadata": {}}]
    return {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": sheet}


def with_helper(notebook):
    """An answer that uses a function and an import from cells of the learner's own."""
    answer = cell_of(notebook, "three_centre-solution")
    answer["source"] = "def centre(x):\n    return x - mean_of(x)"
    place = notebook["cells"].index(answer)
    helper = "from functools import reduce\ndef mean_of(x):\n    return x.sum() / count(x)"
    more = "import math\ndef count(x):\n    return math.prod(x.shape)"
    notebook["cells"][place:place] = [code(helper, id="h1"), code(more, id="h2")]
    return notebook


def checks_gone(notebook):
    """Checks deleted or edited so that they pass."""
    kept = []
    for cell in notebook["cells"]:
        if "centre_values" in cell["source"]:
            continue
        if "cumulate_values" in cell["source"]:
            cell["source"] = 'with check("cumulate_values", points=1):\n    pass'
        kept.append(cell)
    return notebook | {"cells": kept}


LOOP = "while True:\n    pass"
STUBBORN = (
    "def step(w, x):\n    while True:\n        try:\n            while True:\n"
    "                pass\n        except BaseException:\n            pass"
)
GREEDY = "import numpy as np\nblock = np.ones(800_000_000)\n" + RIGHT["three_step"]
LOUD = "print('x' * 200_000_000)\n" + RIGHT["three_step"]
WARNS = "import sys\nprint('warning: deprecated', file=sys.stderr)\n" + RIGHT["three_step"]
SCORES = {
    "correct": (all_right(), 10),
    "partial": (learner({CENTRE: RIGHT[CENTRE]}), 4),
    "empty": (learner(), 0),
    "wrong": (all_wrong(), 0),
    "endless cell": (all_right(step=LOOP), 7),
    "endless function": (all_right(step="def step(w, x):\n    while True:\n        pass"), 7),
    "swallows interrupts": (all_right(step=STUBBORN), 7),
    "exit in a cell": (all_right(step="import os\nos._exit(0)"), 7),
    "exit in a function": (all_right(step="import os\ndef step(w, x):\n    os._exit(0)"), 7),
    "sys.exit in a function": (all_right(step="def step(w, x):\n    raise SystemExit"), 7),
    "segmentation fault": (all_right(step="import ctypes\nctypes.string_at(0)"), 7),
    "checks deleted and edited": (checks_gone(all_wrong()), 0),
    "200 MB of output": (all_right(step=LOUD), 10),
    "6.4 GB under a limit of 4": (all_right(step=GREEDY), 7),
    "metadata lost": (bare(all_right()), 10),
    "answer cell copied": (copied(all_right()), 10),
    "warning on stderr": (all_right(step=WARNS), 10),
    "nbformat 3": (old_format(all_right()), 10),
    "helpers in own cells": (with_helper(all_right()), 10),
    "magic in the answer": (all_right(step="%timeit 1 + 1\n" + RIGHT["three_step"]), 10),
    "syntax error": (all_right(step="def step(w, x:\n"), 7),
    "wrong name": (all_right(step=RIGHT["three_step"].replace("def step", "def stap")), 7),
}


@pytest.mark.parametrize("name", SCORES)
def test_points(grade, name):
    notebook, wanted = SCORES[name]
    result = grade(notebook)
    assert result.reason == ""
    assert result.earned == wanted, [c.says for t in result.tasks for c in t.checks]


REASONS = {
    "empty file": (b"", "the file is empty"),
    "malformed JSON": (b'{"cells": [', "the file is not JSON, so no notebook"),
    "JSON of something else": (b"[1, 2]", "the file is JSON, but no notebook"),
    "another notebook": (
        data({"cells": [code("print(1)")], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}),
        "it holds no answer to 01_three: the notebook of another set?",
    ),
    "another set of the course": (
        data(all_right() | {"metadata": {"course": {"source": "solutions/02_jit.py"}}}),
        "it holds no answer to 01_three: it is the notebook of 02_jit",
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_what_cannot_be_graded_says_why(grade, name):
    content, reason = REASONS[name]
    assert grade(content).reason == reason


def test_messages_reach_the_learner(grade):
    result = grade(all_right(centre="def centre(x):\n    return x - x.sum()", step=LOOP))
    says = {c.name: c.says for t in result.tasks for c in t.checks}
    assert says["centre_values"] == (
        "✗ centre_values 0/2: expected the vector without its mean\n"
        "  got it is not so\n  see the section 'A claim'"
    )
    assert says["step_once"] == "✗ step_once 0/3: it took more than 8 seconds"
    assert re.match("✗ centre_other_values 0/2: expected ", says["centre_other_values"])


def test_missing_answers_are_told_from_wrong_ones(grade):
    notebook = all_right()
    notebook["cells"] = [c for c in notebook["cells"] if c["id"] != "three_step-solution"]
    result = grade(notebook)
    assert scores(result) == {"centre": 4, "cumulate": 3, "step": 0}
    assert "its answer is missing" in result.tasks[2].problem


def test_a_result_survives_the_way_to_disk_and_back(grade):
    result = grade(all_right(step="def step(w, x:"))
    again = type(result).from_dict(json.loads(json.dumps(result.as_dict())))
    assert again == result and again.earned == 7
