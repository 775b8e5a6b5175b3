"""Notebook cells and tests that need PyTorch run, or are skipped with a reason."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
CELLS = (  # source, tags
    ("import not_installed_anywhere", ["torch"]),
    ("raise ValueError", ["torch", "raises-exception"]),
    ("raise ValueError", ["skip-execution"]),
    ("raise ValueError", ["nbval-skip"]),
    ("raise ValueError", ["raises-exception"]),
    ("assert 1 + 1 == 2", []),
)


@pytest.fixture
def notebook(tmp_path):
    """A folder with the project's conftest.py, a notebook and a marked test."""
    made = nbformat.v4.new_notebook()
    for source, tags in CELLS:
        made.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": tags}))
    nbformat.write(made, tmp_path / "page.ipynb")
    marked = "import pytest\n@pytest.mark.torch\ndef test_it(): assert False\n"
    (tmp_path / "test_marked.py").write_text(marked)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = torch\n")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    return tmp_path


def run(folder, torch):
    """pytest over a folder, in a process of its own, as `make test TORCH=...` does."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "-q"]
    outer = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    return subprocess.run(
        [*command, "--nbval-lax", "--nbval-current-env"], cwd=folder,
        env=outer | {"TORCH": torch}, capture_output=True, text=True,
    )  # fmt: skip


def test_what_needs_torch_is_skipped_and_the_rest_runs(notebook):
    done = run(notebook, "skip")
    assert "2 passed, 5 skipped" in done.stdout
    assert "TORCH=skip" in done.stdout
    assert "tagged skip-execution" in done.stdout
    assert done.returncode == 0


def test_an_unknown_choice_is_refused(notebook):
    done = run(notebook, "maybe")
    assert "choose one of auto, require, skip" in done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


@pytest.fixture
def why_no_torch(course_conftest):
    """The function of conftest.py that decides."""
    return course_conftest.why_no_torch


def test_where_it_is_missing_cells_are_skipped(why_no_torch):
    assert why_no_torch("auto", installed=False) == "torch is not installed"


def test_where_it_is_installed_cells_run_unless_skipped(why_no_torch):
    assert why_no_torch("auto", installed=True) == ""
    assert why_no_torch("require", installed=True) == ""
    assert why_no_torch("skip", installed=True) == "TORCH=skip"


def test_required_and_missing_is_an_error(why_no_torch):
    with pytest.raises(pytest.UsageError, match="torch is not installed"):
        why_no_torch("require", installed=False)
