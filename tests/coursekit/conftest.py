"""A small course that keeps every rule, to be broken in tests."""

import re
import shutil
from pathlib import Path

import pytest

from coursekit import build
from coursekit.course import Course

SAMPLE = Path(__file__).parent.parent / "sample"
CHAPTER, MASTER = "chapters/01_doubling.md", "solutions/01_doubling.py"


class Sample(Course):
    """The sample course in a folder of its own, with means to break it."""

    def edit(self, name, old, new, count=1):
        """Replace text in a file; it must be there."""
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} does not hold {old!r}"
        path.write_text(text.replace(old, new, count), encoding="utf-8")

    def line_of(self, name, text):
        """Number of the first line that holds `text`."""
        lines = (self.root / name).read_text(encoding="utf-8").splitlines()
        return next(i for i, line in enumerate(lines, 1) if text in line)


@pytest.fixture
def sample(tmp_path, monkeypatch):
    """A fresh copy of the sample course, without notebooks."""
    monkeypatch.delenv("REPOSITORY_URL", raising=False)
    shutil.copytree(SAMPLE, tmp_path / "course")
    return Sample(tmp_path / "course")


@pytest.fixture(scope="session")
def built_sample(tmp_path_factory):
    """The folder of a sample course whose notebooks were built once."""
    root = tmp_path_factory.mktemp("built") / "course"
    shutil.copytree(SAMPLE, root)
    for job in build.jobs(Course(root)):
        build.make(root, job.source)
    return root


@pytest.fixture
def built(built_sample, tmp_path, monkeypatch):
    """A copy of the built sample course."""
    monkeypatch.delenv("REPOSITORY_URL", raising=False)
    shutil.copytree(built_sample, tmp_path / "course")
    return Sample(tmp_path / "course")


def plain(text):
    """Command-line output without colours and line breaks inside sentences."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
