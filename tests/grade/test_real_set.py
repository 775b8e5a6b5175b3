"""The attacks once more, on an exercise set of the course: none is worth a point."""

import json

import pytest

from coursekit import master, pages
from coursekit.course import Course
from coursekit.grade import plan, runner, warm
from tests.grade.conftest import data
from tests.grade.test_attacks import FAKE, OPENINGS

STEM = "02_jit"
# What must be found there; a name of the fixture set means nothing to this one.
ATTACKS = {n: a for n, a in OPENINGS.items() if n != "redefined reference"}


@pytest.fixture(scope="module")
def real():
    """(plan, master) of the set."""
    path = Course.here().root / "solutions" / f"{STEM}.py"
    return plan.of(path), master.read(path)


@pytest.fixture(scope="module")
def warmed(real, box, tmp_path_factory):
    """The sandbox with what the set's own answers compiled."""
    return warm.warm([real[0]], box, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def attacked(real, warmed):
    """Grade the set's first wrong answers, with some code before the first of them."""
    chosen, read = real
    blank = json.loads(json.dumps(pages.exercises(Course.here(), read.path)))
    wrong = {f"{e.id}-solution": e.of("wrong")[0].source for e in read.exercises}

    def run(before=""):
        notebook, opening = json.loads(json.dumps(blank)), f"{before}\n"
        for cell in notebook["cells"]:
            if cell["id"] in wrong:
                cell["source"], opening = opening + wrong[cell["id"]], ""
        return runner.grade(chosen, data(notebook), warmed)

    return run


@pytest.fixture(scope="module")
def fair(attacked):
    """What the wrong answers are worth: some checks are not about what is wrong."""
    return passed(attacked())


def passed(result):
    assert not result.reason
    return {c.name for t in result.tasks for c in t.checks if c.earned}


def test_wrong_answers_are_worth_less_than_everything(real, fair):
    assert 0 < len(fair) < sum(len(t.checks) for t in real[0].tasks)


def test_attacks_are_worth_no_check_more_and_are_flagged(attacked, fair):
    """All of them at once: each alone is tried on the small set."""
    # From the last to the first, as some of the first would undo a later one.
    result = attacked("\n".join(source for source, _ in reversed(ATTACKS.values())))
    assert passed(result) <= fair
    missing = [flag for _, flag in ATTACKS.values() if not any(flag in f for f in result.flags)]
    assert not missing, result.flags


def test_a_fake_reply_is_worth_no_check_more(attacked, fair):
    assert passed(attacked(FAKE)) <= fair
