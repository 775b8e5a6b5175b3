"""Building is whole or not at all, and never takes anybody's work away."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from coursekit import build, cli, execute, pages, stamp, work
from coursekit import notebook as nb
from coursekit.course import Course
from coursekit.errors import CourseError
from tests.coursekit.conftest import CHAPTER, MASTER, plain

CHAPTER_IPYNB = "chapters/01_doubling.ipynb"
EXERCISES_IPYNB = "exercises/01_doubling.ipynb"
SOLUTIONS_IPYNB = "solutions/01_doubling.ipynb"


def load(sample, name):
    return nb.load(sample.root / name)


def cell(notebook, id):
    return next(c for c in notebook.cells if c.id == id)


def snapshot(sample):
    """Bytes of every notebook and part of one."""
    paths = [*sample.root.rglob("*.ipynb"), *sample.root.rglob("*.part")]
    return {p.name + p.parent.name: p.read_bytes() for p in paths}


def make(sample, source, **options):
    return build.make(sample.root, sample.root / source, **options)


def run(sample, *arguments, monkeypatch):
    monkeypatch.chdir(sample.root)
    result = CliRunner().invoke(cli.main, list(arguments))
    return result.exit_code, plain(result.output)


def test_the_exercise_page_shows_no_answer(built):
    exercises = load(built, EXERCISES_IPYNB)
    text = "\n".join(c.source for c in exercises.cells)
    assert "return 2 * x" not in text and "x + x" not in text and "x // 2" not in text
    assert "doubles_three" not in text  # the hidden check
    assert cell(exercises, "double_a_number-solution").source.endswith("raise NotImplementedError")
    assert cell(exercises, "halve_a_number-solution").source.endswith("return x")
    assert "*warm-up · 2 minutes · 3 points, 2 of them hidden*" in text
    assert "scoreboard(total=2)" in text
    assert not any(c.get("outputs") for c in exercises.cells)


def test_the_solution_page_holds_answer_why_and_wrong_turns(built):
    solutions = load(built, SOLUTIONS_IPYNB)
    assert "return 2 * x" in cell(solutions, "double_a_number-solution").source
    assert "SOLUTION" not in "\n".join(c.source for c in solutions.cells)
    wrong = cell(solutions, "double_a_number-wrong").source
    assert "Wrong turn 1: a square is no double" in wrong and "return x**2" in wrong
    assert "✗ doubles_three 0/2: expected six" in wrong
    assert cell(solutions, "double_a_number-why").source.startswith("**Why.** A double")
    hidden = cell(solutions, "double_a_number-hidden-doubles_three")
    assert "hide-cell" in hidden.metadata.tags and "✓ doubles_three 2/2" in hidden.outputs[0].text


def test_a_page_says_what_it_ran_on(built):
    chapter = load(built, CHAPTER_IPYNB)
    ran_on = chapter.metadata.course.ran_on
    assert ran_on["jax"] == execute.versions()["jax"]
    banner = cell(chapter, "course-banner").source
    assert f"last ran on jax {ran_on['jax']}" in banner and ran_on["date"] in banner
    assert "[2 exercises, 5 points](../exercises/01_doubling.ipynb)" in banner


def test_building_again_changes_nothing(built):
    before = snapshot(built)
    today = load(built, CHAPTER_IPYNB).metadata.course.ran_on["date"]
    for job in build.jobs(built):
        build.make(built.root, job.source)
    after = snapshot(built)
    if execute.versions()["date"] == today:
        assert before == after


def test_only_what_is_stale_is_built(built, monkeypatch):
    monkeypatch.setattr(build, "refuse_wrong_python", lambda: None)
    seen = []
    assert build.build(built, workers=1, report=lambda what, e: seen.append(what)) == []
    assert seen == [0]
    built.edit(CHAPTER, "2 * 21", "2 * 22")
    seen.clear()
    assert build.build(built, workers=1, report=lambda what, e: seen.append(what)) == []
    assert seen == [1, CHAPTER]
    assert "44" in load(built, CHAPTER_IPYNB).cells[5].outputs[0].text


def test_an_edited_notebook_is_left_as_it_is(built, monkeypatch):
    built.edit(EXERCISES_IPYNB, "raise NotImplementedError", "return x + x")
    built.edit(MASTER, "# Two times.", "# Twice, that is.")
    before = snapshot(built)
    with pytest.raises(CourseError, match="01_doubling.ipynb was edited by hand and is left"):
        make(built, MASTER)
    assert snapshot(built) == before
    make(built, MASTER, force=True)
    assert "NotImplementedError" in cell(load(built, EXERCISES_IPYNB), "double_a_number-solution").source


def test_a_broken_notebook_is_left_as_it_is(built):
    path = built.root / EXERCISES_IPYNB
    path.write_text("{ not json", encoding="utf-8")
    with pytest.raises(CourseError, match="is not a readable notebook"):
        make(built, MASTER)
    assert path.read_text(encoding="utf-8") == "{ not json"


def test_a_failing_cell_is_named_with_file_and_line(sample):
    sample.edit(CHAPTER, "2 * 21", "undefined * 21")
    with pytest.raises(CourseError) as caught:
        make(sample, CHAPTER)
    # The code follows the fence and the tags.
    line = sample.line_of(CHAPTER, "undefined") - 2
    assert re.search(rf"{CHAPTER}:({line}|{line + 1}): cell \d+ ", str(caught.value))
    assert "NameError: name 'undefined' is not defined" in str(caught.value)
    assert snapshot(sample) == {}


def test_a_failing_reference_is_named(sample):
    sample.edit(MASTER, "    return 2 * x\n", "    return 3 * x\n")
    with pytest.raises(CourseError, match=r"solutions/01_doubling.py:\d+: cell \d+ .*CheckFailed"):
        make(sample, MASTER)
    assert snapshot(sample) == {}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("2 * None", "2 * 2", "raised nothing, and should raise TypeError"),
        ("2 * None", "{}[0]", "raised KeyError, and should raise TypeError"),
        (":error: TypeError\n", "", "raises-exception needs `:error:`"),
    ],
)
def test_a_cell_that_should_raise_must_raise_the_right_thing(sample, old, new, says):
    sample.edit(CHAPTER, old, new)
    with pytest.raises(CourseError, match=re.escape(says)):
        make(sample, CHAPTER)
    assert snapshot(sample) == {}


def test_an_unknown_tag_is_refused_with_its_line(sample):
    sample.edit(CHAPTER, "[nbval-check-output]", "[nbval-chek-output]")
    with pytest.raises(CourseError, match=r"01_doubling.md:\d+: unknown tag 'nbval-chek-output'"):
        pages.chapter(sample, sample.root / CHAPTER)


def test_an_unknown_name_is_refused(sample, monkeypatch):
    code, output = run(sample, "build", "09_nothing", monkeypatch=monkeypatch)
    assert code == 1
    # A wrong Python is said first; either way it is one sentence.
    assert output.count("coursekit: ") == 1 and "Traceback" not in output


def test_wrong_python_is_refused(monkeypatch):
    monkeypatch.setattr(build.platform, "python_version", lambda: "3.13.1")
    with pytest.raises(CourseError, match="built on Python 3.11, this is 3.13.1"):
        build.refuse_wrong_python()


# Any Python may build here; a name of this script is found by the pool's workers.
INTERRUPTED = """
import signal, sys, time
from pathlib import Path
from coursekit import build
from coursekit.cli import main

def deaf(*arguments):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Path("running").touch()
    time.sleep(100)

build.refuse_wrong_python = lambda: None
build.make = deaf if "deaf" in sys.argv else build.make
if __name__ == "__main__":
    main(["build", "01_doubling"])
"""


def interrupt(sample, *arguments):
    """Exit status of a build that gets Ctrl-C when the file `running` is there."""
    running = sample.root / "running"
    (sample.root / "go.py").write_text(INTERRUPTED, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "go.py", *arguments],
        cwd=sample.root, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    patience = time.monotonic() + 120
    while not running.exists() and time.monotonic() < patience:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(timeout=50)


def test_an_interrupted_build_leaves_no_half_notebook(sample, heeds_interrupts):
    running = sample.root / "running"
    slow = f"import pathlib, time\npathlib.Path({str(running)!r}).touch()\ntime.sleep(100)"
    sample.edit(CHAPTER, "import math", slow)
    assert interrupt(sample) == 130
    assert not list(sample.root.rglob("*.part"))
    for path in sample.root.rglob("*.ipynb"):
        assert not nb.edited_by_hand(nb.load(path))


def test_an_interrupted_build_waits_for_no_worker_that_is_deaf(sample, heeds_interrupts):
    assert interrupt(sample, "deaf") == 130


def test_saving_is_whole_or_not_at_all(sample, monkeypatch):
    path = sample.root / "x.ipynb"
    notebook = nb.assemble([nb.markdown("a", "a")])
    nb.save(notebook, path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    notebook.cells[0].source = "b"
    with pytest.raises(OSError, match="disk full"):
        nb.save(notebook, path)
    assert path.read_bytes() == before
    assert not list(sample.root.glob("*.part"))


def test_outputs_name_no_file_of_the_run():
    text = "<f at 0x7f12ab34cd> at /tmp/ipykernel_12/3456.py:3\n" + "-" * 20
    text += "\nFor simplicity, JAX has removed its internal frames.\n" + "-" * 20
    assert execute.tidy_text(text) == "<f at 0x…> at <cell>:3"


def test_stamping_changes_the_address_and_nothing_else(built, monkeypatch):
    before = load(built, SOLUTIONS_IPYNB)
    assert stamp.stamp(built) == []
    monkeypatch.setenv("REPOSITORY_URL", "https://github.com/someone/else")
    fresh = Course(built.root)
    assert len(stamp.stamp(fresh, check=True)) == 3
    assert load(built, SOLUTIONS_IPYNB) == before
    assert set(stamp.stamp(fresh)) == {CHAPTER_IPYNB, EXERCISES_IPYNB, SOLUTIONS_IPYNB}
    after = load(built, SOLUTIONS_IPYNB)
    assert "git+https://github.com/someone/else" in cell(after, "course-setup").source
    assert "OWNER" not in (built.root / EXERCISES_IPYNB).read_text(encoding="utf-8")
    assert cell(after, "double_a_number-solution") == cell(before, "double_a_number-solution")
    assert all(build.problems(fresh, job) == [] for job in build.jobs(fresh))


def test_stamp_check_says_what_to_do(built, monkeypatch):
    monkeypatch.setenv("REPOSITORY_URL", "https://github.com/someone/else")
    code, output = run(built, "stamp", "--check", monkeypatch=monkeypatch)
    assert code == 1
    assert "do not carry https://github.com/someone/else" in output and "make stamp" in output


def test_work_is_filled_and_never_overwritten(built):
    assert work.fill(built) == ["01_doubling.ipynb"]
    mine = built.root / "work/01_doubling.ipynb"
    mine.write_text("mine", encoding="utf-8")
    assert work.fill(built) == []
    assert work.reset(built, "01_doubling") == "01_doubling-fresh.ipynb"
    assert work.reset(built, "01_doubling") == "01_doubling-fresh-2.ipynb"
    assert mine.read_text(encoding="utf-8") == "mine"
    with pytest.raises(CourseError, match="no exercise set '09'; known: 01_doubling"):
        work.reset(built, "09")


def test_new_makes_two_sources_and_one_line(sample, monkeypatch):
    code, output = run(sample, "new", "02_tripling", monkeypatch=monkeypatch)
    assert code == 0
    toc = (sample.root / "_toc.yml").read_text(encoding="utf-8").splitlines()
    at = toc.index("      - file: chapters/01_doubling")
    assert toc[at + 1] == "      - file: chapters/02_tripling"
    fresh = Course(sample.root)
    made = [j for j in build.jobs(fresh) if j.source.stem == "02_tripling"]
    assert [len(build.convert(fresh, j)) for j in made] == [1, 2]
    code, output = run(sample, "check", "02_tripling", monkeypatch=monkeypatch)
    assert code == 0 and "wrong 2 fails" in output


def test_new_refuses_what_is_there_and_what_is_no_name(sample, monkeypatch):
    code, output = run(sample, "new", "01_doubling", monkeypatch=monkeypatch)
    assert code == 1 and "is there already and is left as it is" in output
    code, output = run(sample, "new", "doubling", monkeypatch=monkeypatch)
    assert code == 1 and "write it like 08_optax" in output


def test_check_tells_which_answer_is_at_fault(sample, monkeypatch):
    code, output = run(sample, "check", "01_doubling", monkeypatch=monkeypatch)
    assert code == 0
    sample.edit(MASTER, "    return x**2", "    return 2 * x")
    code, output = run(
        sample, "check", "01_doubling", "-e", "double_a_number", monkeypatch=monkeypatch
    )
    assert code == 1
    assert "✗ wrong 1 fails nothing; should fail doubles_three" in output


def test_outside_a_course_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.main, ["lint"])
    assert result.exit_code == 1 and "no _toc.yml" in result.output
