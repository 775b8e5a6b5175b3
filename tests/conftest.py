"""What several folders of tests share, such as the site, built once for all processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build(folder, **environment):
    """Build the site below `folder`; returns where it is and what was printed."""
    command = Path(sys.executable).with_name("jupyter-book")
    done = subprocess.run(
        [command, "build", ROOT, "--path-output", folder, "-W", "-n", "--keep-going"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder / "_build/html", done.stdout + done.stderr


def build_once(folder):
    """As `build`; the second process that asks waits for the first one's site."""
    import fcntl  # not on Windows, where only tracecheck is tested

    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        printed = folder / "printed"
        if not printed.exists():
            printed.write_text(build(folder, REPOSITORY_URL="")[1], encoding="utf-8")
        return folder / "_build/html", printed.read_text(encoding="utf-8")


@pytest.fixture
def course_conftest(pytestconfig):
    """The module `conftest.py` at the top, as pytest has loaded it."""
    return pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py"))


@pytest.fixture
def heeds_interrupts():
    """Programs started now heed SIGINT; those of a job in the background would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    """Where the site is, and what building it printed."""
    base = tmp_path_factory.getbasetemp()
    in_parallel = "PYTEST_XDIST_WORKER" in os.environ
    return build_once((base.parent if in_parallel else base) / "book")


@pytest.fixture(scope="session")
def site(book):
    """The folder of the site."""
    return book[0]
