"""Tests compile in haste and keep few programs, and chapters are as for their readers."""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")
TEST = """
import os
def test_in_haste():
    assert os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
"""
CELL = "import os; print([os.environ.get(name) for name in {names}])"


@pytest.fixture
def folder(tmp_path):
    """The project's conftest.py, with a test and room for a chapter."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "chapters").mkdir()
    (tmp_path / "test_it.py").write_text(TEST)
    return tmp_path


def test_chapters_are_compiled_as_readers_do_it(folder):
    output = nbformat.v4.new_output("stream", name="stdout", text="[None, None]\n")
    cell = nbformat.v4.new_code_cell(
        CELL.format(names=NAMES), outputs=[output], execution_count=1
    )
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "chapters" / "page.ipynb")
    outer = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # In parallel: the second process inherits what the first one has set.
    done = subprocess.run(
        [*command, "--nbval", "--nbval-current-env", "-n1"], cwd=folder,
        env={k: v for k, v in outer.items() if k not in NAMES},
        capture_output=True, text=True,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout


def test_a_setting_of_ones_own_reaches_chapters(monkeypatch, course_conftest):
    mine = "--xla_force_host_platform_device_count=2"
    monkeypatch.setenv("XLA_FLAGS", mine)
    of_chapter = SimpleNamespace(cell="a cell", path=ROOT / "chapters" / "02_jit.ipynb")
    starting = course_conftest.pytest_runtest_setup(of_chapter)
    next(starting)
    assert [os.environ.get(name) for name in NAMES] == [None, mine]
    with contextlib.suppress(StopIteration):
        next(starting)
    assert [os.environ.get(name) for name in NAMES] == ["1", mine]


def test_programs_are_let_go_now_and_then(course_conftest):
    every, traced = course_conftest.TESTS_BEFORE_CLEARING, []
    item = SimpleNamespace(config=SimpleNamespace(tests_done=itertools.count(every - 1)))
    program = jax.jit(lambda x: traced.append(x) or x)
    for traces in (1, 1, 2):
        program(1.0)
        assert len(traced) == traces
        course_conftest.pytest_runtest_teardown(item)


def test_this_process_compiles_in_haste():
    assert jax.config.values["jax_disable_most_optimizations"]
