"""A master that breaks the format is refused in one sentence with file and line."""

import pytest

from coursekit import answers, master, regions
from coursekit.errors import CourseError
from tests.coursekit.conftest import MASTER


def refusal(sample):
    """The message with which the sample's master is refused."""
    with pytest.raises(CourseError) as caught:
        master.read(sample.root / MASTER)
    return str(caught.value)


def test_a_good_master_is_read(sample):
    read = master.read(sample.root / MASTER)
    assert read.title == "Doubling"
    assert [e.id for e in read.exercises] == ["double_a_number", "halve_a_number"]
    assert [e.points for e in read.exercises] == [3, 2]
    assert (read.points, read.visible_points) == (5, 2)
    assert read.exercise("double_a_number").of("wrong")[0].fails == ("doubles_three",)


BROKEN = {
    "cells apart": (
        'ex="double_a_number" kind="alternate"',
        'ex="halve_a_number" kind="alternate"',
        "opens a second time",
        'ex="double_a_number" kind="wrong" fails="doubles_three"',
    ),
    "unclosed region": ("    ### END SOLUTION\n", "", "never closed", "### BEGIN"),
    "nested region": (
        "    return 2 * x\n",
        "    ### BEGIN SOLUTION\n",
        "inside the region opened in line 14",
        None,
    ),
    "region never opened": ("    ### BEGIN SOLUTION\n", "", "without", "### END"),
    "region outside a function": (
        "    ### BEGIN SOLUTION",
        "### BEGIN SOLUTION",
        "inside the body of a function",
        "### BEGIN",
    ),
    "unknown kind": (
        'kind="alternate"',
        'kind="other"',
        "'other' is no kind of code cell",
        'kind="other"',
    ),
    "kind of the wrong cell type": (
        '# %% ex="double_a_number" kind="alternate"',
        '# %% ex="double_a_number" kind="why"',
        "'why' is no kind of code cell",
        None,
    ),
    "duplicate id": (
        "halve_a_number",
        "double_a_number",
        "stands for two exercises",
        "level=\"core\"",
    ),
    "bad id": ("halve_a_number", "Halve", "topic_verb", 'ex="Halve"'),
    "unknown metadata": ("minutes=2", "minuts=2", "unknown cell metadata: minuts", None),
    "no level": ('level="core" ', "", "level= is one of", 'ex="halve_a_number" minutes'),
    "minutes in words": ("minutes=3", 'minutes="three"', "minutes= is a whole number", None),
    "not Python": ("    return x + x", "    return x +", "not Python", "return x +"),
    "points that are no number": (
        "points=1, section",
        "section",
        "check takes a name and points=N",
        None,
    ),
    "fails a check that there is not": (
        'fails="doubles_three"',
        'fails="doubles_four"',
        "fails= names checks of",
        'fails="doubles_four"',
    ),
    "check name twice": ("halves_four", "doubles_two", "stands twice", None),
    "first cell is code": ("# %% [markdown]\n# # Doubling", "# %%\n# # Doubling", "title", None),
    "no marker on top": ("# %% [markdown]\n# # D", "# # D", "begins with a '# %%' line", None),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_master_is_refused(sample, case):
    old, new, says, at = BROKEN[case]
    count = -1 if case in ("duplicate id", "bad id") else 1
    sample.edit(MASTER, old, new, count)
    message = refusal(sample)
    assert says in message
    assert MASTER in message
    assert "\n" not in message
    if at:
        assert f":{sample.line_of(MASTER, at)}:" in message


@pytest.mark.parametrize(
    ("kind", "says"),
    [("check", "has no check"), ("solution", "has 0 solution cells, not 1")],
)
def test_an_exercise_needs_a_check_and_a_solution(sample, kind, says):
    path = sample.root / MASTER
    cells = path.read_text(encoding="utf-8").split("# %%")
    gone = f'ex="double_a_number" kind="{kind}"'
    path.write_text("# %%".join(c for c in cells if gone not in c), encoding="utf-8")
    assert says in refusal(sample)


def test_an_answer_that_would_be_shown_is_refused(sample):
    path = sample.root / MASTER
    cells = path.read_text(encoding="utf-8").split("# %%")
    path.write_text("# %%".join(c for c in cells if "starter" not in c), encoding="utf-8")
    assert "would show its answer" in refusal(sample)


def test_an_unknown_exercise_is_named(sample):
    with pytest.raises(CourseError, match="no exercise 'triple'; it has: double_a_number"):
        master.read(sample.root / MASTER).exercise("triple")


def test_regions_are_cleared_and_revealed():
    source = "def f(x):\n    ### BEGIN SOLUTION\n    y = x\n    return y\n    ### END SOLUTION"
    assert regions.clear(source) == "def f(x):\n    raise NotImplementedError"
    assert regions.reveal(source) == "def f(x):\n    y = x\n    return y"


def test_answers_fail_what_they_should(sample):
    read = master.read(sample.root / MASTER)
    seen = []
    for exercise in read.exercises:
        for answer in answers.answers_of(exercise):
            outcomes = answers.run(read, exercise, answer.source)
            assert {o.check for o in outcomes if not o.passed} == answer.must_fail
            seen.append(answer.label)
    assert seen == [
        "reference", "starter", "alternate 1", "wrong 1", "wrong 2",
        "reference", "starter", "wrong 1", "wrong 2",
    ]  # fmt: skip


def test_an_answer_that_does_not_run_fails_every_check(sample):
    read = master.read(sample.root / MASTER)
    outcomes = answers.run(read, read.exercises[0], "double = missing")
    assert [o.passed for o in outcomes] == [False, False]
    assert outcomes[0].says == "NameError: name 'missing' is not defined"
