"""Quick questions and progress, as far as text can tell; tests/browser presses buttons."""

import re
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt

from coursekit import lint
from coursekit.course import Course
from coursekit.lint.material import markdown_cells, tags

ROOT = Path(__file__).parent.parent
SCRIPTS = {n: (ROOT / "assets" / n).read_text(encoding="utf-8") for n in ("progress.js", "practice.js")}
STYLES = (ROOT / "assets/practice.css").read_text(encoding="utf-8")
CHAPTERS = [name for name in Course(ROOT).toc() if name.startswith("chapters/")]


@pytest.fixture(scope="module")
def pages():
    return lint.Material(Course(ROOT)).pages


def questions(page):
    """The quick questions of a page, rendered as GitHub would."""
    cells = [c for _, c in markdown_cells(page) if "quiz" in tags(c)]
    return [BeautifulSoup(MarkdownIt().render(c.source), "html.parser") for c in cells]


def slug(question):
    """What practice.js stores a question under."""
    bold = question.p.strong.extract()
    assert bold.text == "Quick question."
    return "-".join(re.findall("[a-z0-9]+", question.p.text.lower()))[:60]


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_question_is_what_the_script_takes_apart(pages, name):
    for question in questions(pages[f"{name}.md"]):
        parts = [tag.name for tag in question.find_all(True, recursive=False)]
        assert parts[0] == "p" and parts[-2:] == ["ol", "details"], question.p.text
        options = question.find("ol", recursive=False).find_all("li", recursive=False)
        answers = question.details.find_all("ol", recursive=False)
        whys = answers[0].find_all("li", recursive=False)
        right = [why for why in whys if why.strong and why.strong.text == "Right."]
        assert len(answers) == 1 and len(options) == len(whys) and len(right) == 1
        assert not any(li.find(["a", "ol", "ul", "pre"]) for li in options)


@pytest.mark.parametrize("name", CHAPTERS)
def test_questions_are_stored_under_names_of_their_own(pages, name):
    found = [slug(question) for question in questions(pages[f"{name}.md"])]
    assert all(found) and len(found) == len(set(found))


def test_an_explanation_stands_alone(pages):
    for name in CHAPTERS:
        for question in questions(pages[f"{name}.md"]):
            assert not re.search(r"[Oo]ption \d", question.details.text), question.p.text


def test_the_store_is_loaded_before_the_questions_and_neither_holds_up_the_page():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    names = [name for name, _ in config["html_js_files"]]
    assert 0 <= names.index("progress.js") < names.index("practice.js")
    assert all("defer" in options for _, options in config["html_js_files"])
    assert "practice.css" in config["html_css_files"]


@pytest.mark.parametrize("name", ["course.js", "course.css"])
def test_questions_are_boxed_once(name):
    assert "quiz" not in (ROOT / "assets" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_asks_nobody_and_writes_no_markup(name):
    refused = r"https?:|\bfetch\(|XMLHttpRequest|sendBeacon|WebSocket|\bimport\b[ (]|innerHTML|\beval\("
    assert not re.findall(refused, SCRIPTS[name])


def test_storage_is_only_touched_where_a_refusal_is_caught():
    text = SCRIPTS["progress.js"]
    assert "localStorage." not in SCRIPTS["practice.js"]
    for use in re.finditer(r"localStorage\.", text):
        before = text[: use.start()]
        function = before[before.rindex("\n  function ") :]
        assert "try {" in function and "catch" in text[use.end() : use.end() + 400]


def test_nothing_moves():
    rules = re.sub(r"/\*.*?\*/", "", STYLES, flags=re.S)
    assert not re.findall(r"\b(transition|animation|scroll-behavior)\b", rules)


def test_every_class_that_is_styled_is_made():
    styled = set(re.findall(r"\.((?:quiz|course)-[a-z-]+)", re.sub(r"/\*.*?\*/", "", STYLES, flags=re.S)))
    made = " ".join(SCRIPTS.values())
    assert styled and not [name for name in styled if not re.search(rf"\b{name}\b", made)]
