"""What honest notebooks do besides answering, and still get every point for."""

import pytest

from coursekit.grade import match, names, plan
from coursekit.grade.notebook import NotGraded, read
from tests.grade.conftest import MASTER, WRONG, all_right, code, data, reference

RIGHT = reference()
CENTRE = "three_centre-solution"


def place(notebook, id=CENTRE):
    return next(i for i, c in enumerate(notebook["cells"]) if c["id"] == id)


def before(cells, **answers):
    """All answers right, with cells of the learner's own before the first answer."""
    notebook = all_right(**answers)
    at = place(notebook)
    notebook["cells"][at:at] = [code(s, id=f"own{n}") for n, s in enumerate(cells)]
    return notebook


def after(source):
    """All answers right, and something tried out at the end."""
    return _then(all_right(), source)


def _then(notebook, source):
    notebook["cells"].append(code(source, id="scratch"))
    return notebook


def setup_added(notebook):
    """Imports added to the set's first cell."""
    cell = notebook["cells"][place(notebook, "course-setup")]
    cell["source"] = f"from functools import reduce\nfrom operator import add\n{''.join(cell['source'])}"
    return notebook


def full_of_outputs(notebook):
    stream = {"output_type": "stream", "name": "stdout", "text": "x" * 2**20}
    notebook["cells"][place(notebook)]["outputs"] = [stream] * 30
    return notebook


REGISTERED = [
    "class Box:\n    def __init__(self, v):\n        self.v = v",
    "jax.tree_util.register_pytree_node(Box, lambda b: ((b.v,), 0), lambda _, c: Box(*c))",
    "if True:\n    def half(v):\n        return jax.tree.leaves(Box(v))[0]",
]
CALLS = "@jax.jit\ndef step(w, x):\n    return w - 0.5 * (centre(x) + x.mean())"
SHOWS = (
    "!pip install x\n%matplotlib inline\ndisplay(1)\ndef centre(x):\n    display(x)\n"
    "    print(x)\n    return x - x.mean()"
)
TIMED = "%time step = jax.jit(lambda w, x: w - 0.5 * x)"
GUARDED = "if __name__ == '__main__':\n    " + TIMED.removeprefix("%time ")
GREEK = (
    "def add_up(ψ: 'Total', x):\r\n    return (ψ + x,) * 2\r\n"
    "cumulate = functools.partial(lambda f, x: jax.lax.scan(f, float32(0), x)[1], add_up)\r\n"
)
STARS = ["from jax.numpy import *\nimport functools"]
QUIRKS = {
    "timed cells, a star import, scratch below": _then(
        before(STARS, centre="%%time\n" + RIGHT["three_centre"], step=TIMED, cumulate=GREEK),
        WRONG["three_centre"],
    ),
    "imports in the set's first cell, 30 MB of outputs, answers that call answers": (
        full_of_outputs(setup_added(all_right(
            centre="def centre(x):\n    return x - reduce(add, x.ravel()) / x.size", step=CALLS,
        )))
    ),
    "a registered class, a main guard": before(
        REGISTERED, centre="def centre(x):\n    return half(x - x.mean())", step=GUARDED
    ),
    "display, print, pip and plots, 64 bits for itself": all_right(
        centre=SHOWS, step="jax.config.update('jax_enable_x64', True)\n" + RIGHT["three_step"]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def three_plan():
    return plan.of(MASTER)


@pytest.mark.parametrize("name", QUIRKS)
def test_an_honest_quirk_costs_nothing(grade, name):
    result = grade(QUIRKS[name])
    assert result.earned == 10, [c.says for t in result.tasks for c in t.checks]


def cells_for(three_plan, notebook):
    work = match.match(three_plan, *read(data(notebook)))
    return work.cells["three_centre"]


def test_a_cell_that_no_answer_needs_is_not_run(three_plan):
    """The answer's own `x` is a parameter, whatever a long training calls `x`."""
    cells = cells_for(three_plan, before(["x = train_for_an_hour()", "1 / 0"]))
    assert cells == (RIGHT["three_centre"],)


def test_what_is_written_below_counts_where_nothing_else_is(three_plan):
    notebook = after(RIGHT["three_centre"])
    at = place(notebook)
    notebook["cells"][at]["source"] = three_plan.tasks[0].blank
    assert cells_for(three_plan, notebook) == (RIGHT["three_centre"],)


def test_an_answer_in_the_cell_of_its_check_counts(three_plan):
    """Cells that were merged; only the answer of them is run."""
    notebook = all_right()
    at = place(notebook)
    check = next(c for c in notebook["cells"] if "centre_values" in "".join(c["source"]))
    check["source"] = f"{RIGHT['three_centre']}\n{''.join(check['source'])}"
    notebook["cells"][at]["source"] = three_plan.tasks[0].blank
    (cell,) = cells_for(three_plan, notebook)
    assert cell.strip() == RIGHT["three_centre"].strip()


NAMES = [
    ("def f(x, y=z):\n    return x + w", {"f"}, {"z", "w"}),
    ("try:\n    import a.b as c\nexcept E:\n    from d import *", {"c", "*"}, {"E"}),
    ("rows = [i for i in range(3)]", {"rows"}, {"range"}),
]


@pytest.mark.parametrize("source, binds, uses", NAMES)
def test_names(source, binds, uses):
    assert (names.bound(source), names.used(source)) == (binds, uses)


DEEP = ["-" * 100_000 + "1", "f" + "()" * 100_000, "(" * 500, "\0", "\ud800", "lambda:" * 9999]


@pytest.mark.parametrize("source", DEEP, ids=range(len(DEEP)))
def test_a_cell_that_is_no_python_has_no_names(source):
    assert names.bound(source) == names.used(source) == names.changed(source) == set()


ODD = [
    {}, {"cells": 1}, {"cells": [1]}, {"cells": [{"cell_type": "code", "source": [1]}]},
    {"cells": [{"cell_type": "code", "metadata": None, "source": "x"}], "metadata": []},
    {"cells": [{"cell_type": "code", "source": "\ud800"}]}, {"nbformat": 99}, {"nbformat": "x"},
    {"cells": [code("x" * 2**21)]}, {"cells": [code("x")] * 6000},
]  # fmt: skip


@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
def test_an_odd_notebook_is_not_graded(three_plan, content):
    with pytest.raises(NotGraded):
        match.match(three_plan, *read(data({"nbformat": 4} | content)))


def test_a_deep_notebook_is_not_graded():
    with pytest.raises(NotGraded, match="not JSON"):
        read(b'{"nbformat": 4, "cells": ' + b"[" * 100_000)
