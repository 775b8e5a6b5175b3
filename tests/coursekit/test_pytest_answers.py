"""`pytest solutions/NN_topic.py` names the answer that does not do what it should."""

import subprocess
import sys

from coursekit import notebook as nb
from coursekit.pytest_answers import words
from tests.coursekit.conftest import MASTER


def run(sample):
    """Exit status and output of pytest over the sample's master."""
    options = ["-p", "coursekit.pytest_answers", "-p", "no:cacheprovider", "-q", "-rA"]
    (sample.root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", *options, MASTER]
    done = subprocess.run(command, cwd=sample.root, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_good_set_passes_answer_by_answer(built):
    status, output = run(built)
    assert status == 0, output
    assert "11 passed" in output
    for label in ("reference", "starter", "alternate 1", "wrong 2"):
        assert f"double_a_number::{label}" in output


def test_a_wrong_answer_that_passes_is_named(built):
    built.edit(MASTER, "    return x**2", "    return 2 * x")
    status, output = run(built)
    assert status == 1
    line = built.line_of(MASTER, "fails=\"doubles_three\"")
    assert f"{MASTER}:{line}: wrong 1 of 'double_a_number' fails []" in output
    assert "mend the answer, the check or fails=" in output


def test_a_starter_that_passes_a_check_is_named(built):
    built.edit(MASTER, "def halve(x):\n    return x\n", "def halve(x):\n    return x / 2\n")
    status, output = run(built)
    assert status == 1
    assert "starter of 'halve_a_number' fails []" in output


def test_a_wrong_turn_that_now_hears_something_else_is_named(built):
    built.edit(MASTER, '== 6, "six"', '== 6, "half a dozen"')
    status, output = run(built)
    assert status == 1
    assert "wrong answer double_a_number/1 now hears" in output
    assert "run 'make notebooks'" in output


def test_measured_numbers_do_not_count_and_words_do():
    there = ["got a difference of 2.76 at [1]; 3 of 3 differ", "`seconds` is 2.9e-07"]
    here = ["got a difference of 0.6 at [0, 2]; 3 of 3 differ", "`seconds` is 3e-07"]
    assert words(there) == words(here)
    assert words(["got 2 traces"]) != words(["got 3 traces"])


def test_numbers_are_held_to_be_the_same_on_the_same_jax_alone():
    there, here = ["got 80 at size 2, off by 15"], ["got 70 at size 2, off by 15.5"]
    assert words(there, same_jax=False) == words(here, same_jax=False)
    assert words(["one trace"], same_jax=False) != words(["no trace"], same_jax=False)


def test_what_jax_words_itself_is_held_to_be_the_same_on_the_same_jax_alone():
    there = ["got TypeError: no scalar., at line 3 of `f`"]
    here = ["got TypeError: no scalar. To get one, reduce it, at line 3 of `f`"]
    assert words(there) != words(here)
    assert words(there, same_jax=False) == words(here, same_jax=False)
    other = ["got ValueError: no scalar., at line 3 of `f`"]
    assert words(there, same_jax=False) != words(other, same_jax=False)


def test_a_blank_notebook_that_raises_outside_its_checks_is_named(built):
    path = built.root / "exercises/01_doubling.ipynb"
    notebook = nb.load(path)
    cell = next(c for c in notebook.cells if c.id == "double_a_number-solution")
    cell.source = "raise RuntimeError"
    nb.save(notebook, path)
    status, output = run(built)
    assert status == 1
    assert "cell double_a_number-solution raised ['RuntimeError']" in output
