"""The course itself: every rule holds for what is committed here."""

from pathlib import Path

import pytest

from coursekit import lint
from coursekit.course import Course

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def material():
    return lint.Material(Course(ROOT))


@pytest.mark.parametrize("rule", lint.RULES)
def test_the_course_keeps_the_rule(rule, material):
    found = list(lint.RULES[rule](material))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_target_that_a_page_names_is_in_the_makefile(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = {
        line.split(":")[0]
        for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
        if line[:1].isalpha() and ":" in line
    }
    named = {
        words[i + 1].strip("`.,;:)")
        for line in text.splitlines()
        for words in [line.replace("`", " ` ").split()]
        for i, word in enumerate(words[:-1])
        if word == "make" and i and words[i - 1] in ("`", "$") and words[i + 1] != "`"
    }
    assert named and named <= targets, named - targets
