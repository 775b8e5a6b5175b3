"""What every test run shares: PyTorch cells, and what JAX compiled.

`TORCH` in the environment says what becomes of tests and notebook cells that need
PyTorch: 'auto' runs them where it is installed, 'require' stops without it, 'skip'
never runs them.
"""

import importlib.util
import itertools
import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

# Each answer of `solutions/*.py` is a test: see coursekit/pytest_answers.py.
pytest_plugins = ["coursekit.pytest_answers"]

CHOICES = ("auto", "require", "skip")
TESTS_BEFORE_CLEARING = 50

# Compiled programs outlive the run, however small and quick to compile. The kernels
# of notebooks inherit the environment; what is set already is left alone.
CACHE = {
    "JAX_COMPILATION_CACHE_DIR": str(Path(__file__).parent / ".cache" / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
# Half of a cold run went into optimising programs that run once. Chapters are left
# out: they show what compiled programs do and cost, so they compile as their readers.
QUICK = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
if version("jaxlib").startswith("0.10."):  # later ones stop at a flag that they don't know
    QUICK["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false"
for name, value in (CACHE | QUICK).items():
    os.environ.setdefault(name, value)


def why_no_torch(choice, installed):
    """Why tests that need PyTorch are skipped, or '' where they run.

    Raises:
      pytest.UsageError: an unknown choice, or PyTorch is required and missing.
    """
    if choice not in CHOICES:
        raise pytest.UsageError(f"TORCH={choice}: choose one of {', '.join(CHOICES)}")
    if choice == "skip":
        return "TORCH=skip"
    if choice == "require" and not installed:
        raise pytest.UsageError("torch is not installed, and TORCH=require wants it")
    return "" if installed else "torch is not installed"


def pytest_configure(config):
    installed = importlib.util.find_spec("torch") is not None
    config.tests_done = itertools.count(1)
    config.why_no_torch = why_no_torch(os.environ.get("TORCH", "auto"), installed)


def pytest_collection_modifyitems(config, items):
    for item in items:
        if config.why_no_torch and needs_torch(item):
            item.add_marker(pytest.mark.skip(reason=config.why_no_torch))
        elif "skip-execution" in cell_tags(item):
            item.add_marker(pytest.mark.skip(reason="tagged skip-execution"))


def pytest_runtest_teardown(item):
    """Let go of compiled programs now and then: those of all tests fill gigabytes."""
    jax = sys.modules.get("jax")
    if jax and next(item.config.tests_done) % TESTS_BEFORE_CLEARING == 0:
        jax.clear_caches()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Start the kernel of a chapter without what is set for tests alone."""
    of_chapter = hasattr(item, "cell") and item.path.parent.name == "chapters"
    ours = QUICK.items() & os.environ.items() if of_chapter else ()
    kept = {name: os.environ.pop(name) for name, _ in ours}
    try:
        return (yield)
    finally:
        os.environ.update(kept)


def needs_torch(item):
    """Whether a test is marked `torch`, or a notebook cell tagged so."""
    return "torch" in cell_tags(item) or item.get_closest_marker("torch") is not None


def cell_tags(item):
    """The tags of a notebook's cell; none for any other test."""
    cell = getattr(item, "cell", None)
    return cell.metadata.get("tags", []) if cell is not None else []
