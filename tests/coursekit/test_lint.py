"""Every rule holds for the sample course, and is broken here once at least."""

import pytest

from coursekit import lint
from coursekit import notebook as nb
from coursekit.course import Course
from coursekit.errors import CourseError
from tests.coursekit.conftest import CHAPTER, MASTER

CHAPTER_IPYNB = "chapters/01_doubling.ipynb"
EXERCISES_IPYNB = "exercises/01_doubling.ipynb"
SOLUTIONS_IPYNB = "solutions/01_doubling.ipynb"


def findings(sample, rule):
    """What a rule finds, as one text; the course is read afresh."""
    return "\n".join(lint.lint(Course(sample.root), [rule]))


def test_the_sample_keeps_every_rule(built):
    assert lint.lint(built) == []


def test_every_rule_is_broken_below():
    broken = {rule for rule, *_ in SOURCES} | {rule for rule, *_ in NOTEBOOKS}
    broken |= {"in_toc", "paired", "no_strays", "fresh"}
    assert broken == set(lint.RULES)


def test_an_unknown_rule_is_named(sample):
    with pytest.raises(CourseError, match="no rule is named 'nonsense'; known: in_toc"):
        lint.lint(sample, ["nonsense"])


HINT = "# Two times."
SOURCES = [
    ("objectives", CHAPTER, "> **After this chapter** you can\n> - double", "Double", "no objectives"),
    ("objectives", CHAPTER, "> - double a number", "> - a\n" * 5, "5 objectives"),
    ("objectives", CHAPTER, "## Recap", "## The end", "no '## Recap'"),
    ("no_directives", CHAPTER, "The smallest", ":::{note}\nx\n:::\n\nThe smallest", "directive"),
    ("no_directives", CHAPTER, "The smallest", "{ref}`x` The smallest", "directive"),
    ("no_directives", MASTER, "# Two small", "# ```{note}\n# x\n# ```\n# Two small", "directive"),
    ("plain_words", CHAPTER, "The smallest", "Simply the smallest", "says 'Simply'"),
    ("plain_words", MASTER, HINT, "# Obviously, two times.", "says 'Obviously'"),
    ("finished", CHAPTER, "- A number doubles when", "- …\n- A number doubles when", "'- …'"),
    ("finished", MASTER, HINT, "# TODO", "'TODO'"),
    ("quizzes", CHAPTER, '{"tags": ["quiz"]}', "", "2 quick questions"),
    ("quizzes", CHAPTER, "**Quick question.**", "Question:", "opens with '**Quick"),
    ("quizzes", CHAPTER, "twice two?", "twice two.", "ends in a question mark"),
    ("quizzes", CHAPTER, "1. Three\n2. Four", "1. Four", "two numbered options"),
    ("quizzes", CHAPTER, "2. Four", "2. [Four](https://example.org)", "holds a link"),
    ("quizzes", CHAPTER, "2. Four", "2. Four\n3. Five", "explanation for each option"),
    ("quizzes", CHAPTER, "1. One too few: a two was lost on the way.\n", "", "explanation for each option"),
    ("quizzes", CHAPTER, "two.\n\n</details>", "two.\n", "explanation for each option"),
    ("quizzes", CHAPTER, "**Right.** Two", "Two", "only one, opens with '**Right.**'"),
    ("quizzes", CHAPTER, "1. One too few: a", "1. **Right.** A", "only one, opens with '**Right.**'"),
    ("quizzes", CHAPTER, "What is twice three?", "What is twice two?", "two quick questions ask the same"),
    (
        "quizzes",
        CHAPTER,
        "1. **Right.** Three and three.\n2. One",
        "1. One\n2. **Right.** One",
        "option 2 is always the right one",
    ),
    ("retired_names", CHAPTER, "import math", "from jax.random import PRNGKey", "uses PRNGKey"),
    ("retired_names", MASTER, "    return x + x", "    return jax.tree_map(x)", "jax.tree_map"),
    ("widths", CHAPTER, "import math", "x = 1" + " + 1" * 30, "columns wide"),
    ("lengths", CHAPTER, "import math", "x = 1\n" * 31, "31 lines, at most 30"),
    ("lengths", CHAPTER, "## Recap", "## Recap\n" + "\n+++\n\na\n" * 66, "cells, at most 65"),
    ("torch_optional", CHAPTER, "import math", ":tags: [torch]\nx = 1\n```\n\n```{code-cell}\nx + 1", "needs 'x'"),
    (
        "keys_once",
        CHAPTER,
        "import math",
        "key = jax.random.key(0)\na = jax.random.normal(key)\nb = jax.random.normal(key)",
        "draws twice from the key 'key'",
    ),
    (
        "keys_once",
        MASTER,
        "from tracecheck import check",
        "from tracecheck import check\na, b = jax.random.normal(k), jax.random.normal(k)",
        "draws twice from 'k'",
    ),
    ("explained", MASTER, 'kind="hint"\n', 'kind="why"\n', "has 0 hints"),
    ("explained", MASTER, 'ex="double_a_number" kind="hidden"', 'ex="double_a_number" kind="check"', "no hidden check"),
    ("explained", MASTER, 'kind="wrong" fails="halves_three"', 'kind="alternate"', "has 1 wrong answers"),
    ("brief", MASTER, HINT, "# " + "two " * 46, "the hint has 46 words"),
    ("brief", MASTER, "# Return twice the argument.", "# " + "twice " * 171, "the statement has"),
    ("brief", MASTER, "# A square happens to agree at two.\n", "", "the why has 2 lines"),
    ("sections_exist", MASTER, 'section="A number doubles"', 'section="Nowhere"', "no section 'Nowhere'"),
    ("sections_exist", MASTER, ', section="A number doubles"', "", "names no section"),
    ("ids_once", MASTER, None, None, "stands in"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "name", "old", "new", "says"), SOURCES)
def test_a_source_that_breaks_a_rule_is_found(sample, rule, name, old, new, says):
    if rule == "ids_once":
        text = (sample.root / MASTER).read_text(encoding="utf-8")
        (sample.root / "solutions/02_again.py").write_text(text, encoding="utf-8")
    else:
        sample.edit(name, old, new)
    found = findings(sample, rule)
    assert says in found
    assert name.split("/")[0] in found


def first_code(notebook):
    return next(c for c in notebook.cells if c.cell_type == "code" and c.id != "course-setup")


def forget(notebook):
    first_code(notebook).execution_count = None


def fail(notebook):
    cell = first_code(notebook)
    cell.outputs = [nb.nbformat.v4.new_output("error", ename="KeyError", evalue="", traceback=[])]


def succeed(notebook):
    for cell in notebook.cells:
        if "raises-exception" in cell.metadata.get("tags", []):
            cell.outputs = []


def print_it(text):
    def change(notebook):
        first_code(notebook).outputs = [nb.nbformat.v4.new_output("stream", text=text)]

    return change


def draw(notebook):
    output = nb.nbformat.v4.new_output("display_data", data={"image/png": "AA=="})
    first_code(notebook).outputs = [output]


def unnamed_picture(notebook):
    notebook.cells[0].source += "\n\n![](x.png)"


def untag(notebook):
    for cell in notebook.cells:
        cell.metadata.pop("tags", None)


NOTEBOOKS = [
    ("executed", CHAPTER_IPYNB, forget, "was not run"),
    ("errors_named", SOLUTIONS_IPYNB, fail, "failed with KeyError"),
    ("errors_named", CHAPTER_IPYNB, succeed, "raised nothing; its error= says TypeError"),
    ("exercises_blank", EXERCISES_IPYNB, print_it("x"), "has outputs"),
    ("exercises_blank", EXERCISES_IPYNB, untag, "checks, and only they, may raise"),
    ("no_absolute_paths", CHAPTER_IPYNB, print_it("in /home/me/course/x.py"), "'/home/me'"),
    ("no_absolute_paths", CHAPTER_IPYNB, print_it("in C:\\Users"), "'C:"),
    ("pictures_described", CHAPTER_IPYNB, draw, "describe it in ':alt:'"),
    ("pictures_described", CHAPTER_IPYNB, unnamed_picture, "without alternative text"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "name", "change", "says"), NOTEBOOKS)
def test_a_notebook_that_breaks_a_rule_is_found(built, rule, name, change, says):
    notebook = nb.load(built.root / name)
    change(notebook)
    nb.save(notebook, built.root / name)
    found = findings(built, rule)
    assert says in found
    assert name in found


def test_a_chapter_missing_from_the_toc_is_found(sample):
    sample.edit("_toc.yml", "chapters/01_doubling", "chapters/02_gone")
    found = findings(sample, "in_toc")
    assert "chapters/01_doubling.md: not in _toc.yml; add '- file:" in found
    assert "'chapters/02_gone' does not exist" in found


def test_a_chapter_without_exercises_is_found(sample):
    (sample.root / MASTER).rename(sample.root / "solutions/02_other.py")
    found = findings(sample, "paired")
    assert "has no exercise set; write solutions/01_doubling.py" in found
    assert "has no page; write chapters/02_other.md" in found


def test_a_notebook_without_a_source_is_found(built):
    path = built.root / CHAPTER_IPYNB
    path.rename(path.with_name("09_old.ipynb"))
    assert "chapters/09_old.ipynb: is made from no source" in findings(built, "no_strays")


def test_a_missing_notebook_is_found(sample):
    assert f"{CHAPTER_IPYNB} is missing: run 'make notebooks'" in findings(sample, "fresh")


@pytest.mark.parametrize(
    ("name", "old", "stale"),
    [
        (CHAPTER, "2 * 21", {CHAPTER_IPYNB}),
        (MASTER, "points=2", {EXERCISES_IPYNB, SOLUTIONS_IPYNB}),
        ("requirements.txt", "jax", {CHAPTER_IPYNB, EXERCISES_IPYNB, SOLUTIONS_IPYNB}),
    ],
)
def test_a_stale_notebook_is_found(built, name, old, stale):
    built.edit(name, old, old + "0")
    found = findings(built, "fresh")
    assert {n for n in (CHAPTER_IPYNB, EXERCISES_IPYNB, SOLUTIONS_IPYNB) if n in found} >= stale
    assert "is stale" in found


def test_a_notebook_edited_by_hand_is_found(built):
    built.edit(EXERCISES_IPYNB, "Return twice", "Please return twice")
    assert f"{EXERCISES_IPYNB} was edited by hand" in findings(built, "fresh")
