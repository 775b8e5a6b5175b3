"""A pytest plugin: every answer of a master against every check.

`pytest solutions/02_jit.py` runs one set; each answer is a test of its own.
"""

import re
from importlib import metadata

import pytest

from coursekit import answers, build, master
from coursekit import notebook as nb
from coursekit.course import Course
from coursekit.execute import run_all
from coursekit.grade import apart

# What a check measured differs between machines, and between runs of an answer that
# is random or wrong about time; the words around it do not.
MEASURED = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|at \[[^\]]*\]")
# Another jax counts other equations, rounds to other digits, and words its own errors
# anew: what is left then is the class of the error, the line, and our own words.
NUMBER = re.compile(r"#|\d+")
WORDED_BY_JAX = re.compile(r"(got \w+(?:Error|Exception)): .*?(, at line|$)", re.M)


def words(texts, same_jax=True):
    """Messages of checks without the numbers that were measured.

    Args:
      same_jax: whether the numbers that remain can be held to be the same.
    """
    plain = [MEASURED.sub("#", text) for text in texts]
    if same_jax:
        return plain
    return [NUMBER.sub("#", WORDED_BY_JAX.sub(r"\1\2", text)) for text in plain]


def pytest_collect_file(parent, file_path):
    """Collect `solutions/*.py` of a course."""
    if _is_master(file_path):
        return MasterFile.from_parent(parent, path=file_path)
    return None


def pytest_pycollect_makemodule(module_path, parent):
    """Keep pytest from importing a master that is named on its command line."""
    if _is_master(module_path):
        return Nothing.from_parent(parent, path=module_path)
    return None


def _is_master(path):
    return path.suffix == ".py" and path.parent.name == "solutions"


class Nothing(pytest.File):
    """Stands for a master where pytest would import it as a module."""

    def collect(self):
        return []


class MasterFile(pytest.File):
    """An exercise set: its answers, what the solution page says, the blank notebook."""

    def collect(self):
        self.heard = {}  # 'exercise/number' of a wrong answer: what the checks said
        read = master.read(self.path)
        for exercise in read.exercises:
            for answer in answers.answers_of(exercise):
                name = f"{exercise.id}::{answer.label}"
                yield AnswerItem.from_parent(
                    self, name=name, job=(read, exercise, answer)
                )
        yield SaysItem.from_parent(self, name="wrong turns say what the page says")
        yield BlankItem.from_parent(self, name="blank notebook fails every check")


class Item(pytest.Item):
    """A test that tells an AssertionError without a traceback."""

    def repr_failure(self, excinfo):
        if excinfo.errisinstance(AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, None, f"{self.path.name}::{self.name}"


class AnswerItem(Item):
    """One answer fails exactly the checks that the master names."""

    def __init__(self, *, job, **kwargs):
        super().__init__(**kwargs)
        self.job = job

    def runtest(self):
        read, exercise, answer = self.job
        outcomes = answers.run(read, exercise, answer.source)
        kind, _, number = answer.label.partition(" ")
        if kind == "wrong":
            self.parent.heard[f"{exercise.id}/{number}"] = build.distinct(outcomes)
        failed = {o.check for o in outcomes if not o.passed}
        where = f"{self.path}:{answer.line}: {answer.label} of '{exercise.id}'"
        told = "\n".join(o.says for o in outcomes if not o.passed)
        assert failed == answer.must_fail, (
            f"{where} fails {sorted(failed)} and should fail "
            f"{sorted(answer.must_fail)}: mend the answer, the check or fails=.\n{told}"
        )
        for cell in (c for c in exercise.of("hidden") if c.apart):
            says = apart.says(read, exercise, answer.source, cell)
            assert bool(says) == (cell.check[0] in failed), (
                f"{where}: behind the boundary '{cell.check[0]}' says {says or 'yes'!r}, "
                "and beside the answer something else: take apart=true away."
            )


class SaysItem(Item):
    """The messages on the solution page are what the checks say today."""

    def runtest(self):
        committed = nb.load(self.path.with_suffix(".ipynb"))
        assert committed is not None, f"{self.path.stem}: run 'make notebooks'."
        then = build.said(committed)
        # Run alone, this test has heard nothing yet.
        now = self.parent.heard if len(self.parent.heard) == len(then) else None
        now = now or build.judge(self.path)
        same_jax = committed.metadata.course.ran_on["jax"] == metadata.version("jax")
        for key in now:
            assert words(then.get(key, []), same_jax) == words(now[key], same_jax), (
                f"{self.path}: wrong answer {key} now hears\n{now[key]}\nand the "
                f"page says\n{then.get(key)}\n: run 'make notebooks'."
            )


class BlankItem(Item):
    """Run unsolved, an exercise notebook raises in its checks alone, and scores 0."""

    def runtest(self):
        folder = Course.here(self.path.parent).root / "exercises"
        notebook = nb.load(folder / self.path.with_suffix(".ipynb").name)
        run_all(notebook)
        for cell in (c for c in notebook.cells if c.cell_type == "code"):
            raised = [o.ename for o in cell.outputs if o.output_type == "error"]
            is_check = cell.metadata.get("course", {}).get("kind") == "check"
            wanted = ["CheckFailed"] if is_check else []
            assert raised == wanted, f"{self.path.stem}: cell {cell.id} raised {raised}."
        board = "".join(o.get("text", "") for o in notebook.cells[-1].outputs)
        read = master.read(self.path)
        assert f"0/{read.visible_points}" in board.replace(" ", ""), board
