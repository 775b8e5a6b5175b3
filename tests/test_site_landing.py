"""The first page: every number and line of code on it is a notebook's."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup

from coursekit import master
from coursekit import notebook as nb
from coursekit.course import Course
from coursekit.site import course_map, landing

ROOT = Path(__file__).parents[1]
COURSE = Course(ROOT)
CHAPTERS = [name for name in COURSE.toc() if name.startswith("chapters/")]


@pytest.fixture(scope="module")
def intro(site):
    return BeautifulSoup((site / "intro.html").read_text("utf-8"), "html.parser")


def test_the_map_holds_every_chapter_in_order(intro, site):
    stops = intro.select("ol.course-map > li")
    assert [stop["data-page"] for stop in stops] == CHAPTERS
    for stop in stops:
        name = stop["data-page"]
        cells = nb.load(ROOT / f"{name}.ipynb").cells
        quizzes = sum("quiz" in c.metadata.get("tags", []) for c in cells)
        assert int(stop["data-quizzes"]) == quizzes
        assert stop.select_one("a.course-stop")["href"] == f"{name}.html"
        source = ROOT / f"solutions/{Path(name).name}.py"
        if source.is_file():
            levels = [f"is-{e.level}" for e in master.read(source).exercises]
            assert int(stop["data-exercises"]) == len(levels)
            assert stop["data-exercise-page"] == f"exercises/{Path(name).name}"
            assert [dot["class"][0] for dot in stop.select(".course-dots i")] == levels
    assert intro.select("ol.course-map ~ .course-progress")[0].get_text() == ""


def test_the_map_numbers_on_through_the_parts(intro):
    at = 1
    for part in intro.select("ol.course-map"):
        assert int(part["start"]) == at
        at += len(part.select("li"))


def test_a_new_chapter_is_on_the_map_at_once(tmp_path):
    write = "parts:\n- caption: One & two\n  chapters:\n  - file: chapters/01_new\n"
    (tmp_path / "_toc.yml").write_text(write + "  - file: reference/notes\n")
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/notes.md").write_text("# Some `notes`\n")
    chapter = nb.assemble([nb.markdown("# A <new> one", "a")])
    nb.save(chapter, tmp_path / "chapters/01_new.ipynb")
    made = course_map.render(tmp_path, lambda name: f"{name}.html")
    soup = BeautifulSoup(made, "html.parser")
    stop = soup.select_one("ol.course-map > li")
    assert stop.a.text == "A <new> one" and not stop.has_attr("data-exercises")
    assert soup.select_one(".course-reference a").text == "Some notes"
    assert soup.select_one(".course-part").text == "One & two"


def test_the_example_is_the_notebooks(intro):
    torch, jax = landing.pairs(nb.load(ROOT / "chapters/02_jit.ipynb"))[0]
    for cell, half in zip((torch, jax), intro.select(".course-pair .course-half")):
        code, out = half.find_all("pre")
        assert code.text.strip() == cell.source.strip()
        assert out.text.strip() == cell.outputs[0].text.strip()


def test_what_the_page_says_of_the_example_is_so(intro):
    torch, jax = [h.find_all("pre")[1].text for h in intro.select(".course-half")]
    assert torch.count("Python sees") == 2 and "tensor(" in torch
    assert jax.count("Python sees") == 1 and "Tracer" in jax
    for half in intro.select(".course-half"):
        assert "for call in range(2):" in half.pre.text


def test_the_course_starts_with_its_first_chapter(intro):
    start = intro.select_one("a.course-start")
    assert start["href"] == f"{CHAPTERS[0]}.html"
    assert COURSE.colab(f"{CHAPTERS[0]}.ipynb") in str(start.parent)


def test_ways_lead_to_pages_that_are_there(intro, site):
    ways = {w.p.text: w.select("a")[-1]["href"] for w in intro.select(".course-way")}
    has_instructors = "reference/instructors" in COURSE.toc()
    assert set(ways) == {"Read", "Run", *["Grade a class"] * has_instructors}
    assert (site / ways["Read"]).is_file()


@pytest.mark.parametrize("named", [True, False])
def test_a_way_to_a_page_outside_the_contents_is_left_out(named):
    toc = ["intro"] + ["reference/instructors"] * named
    way = SimpleNamespace(
        options={"to": "reference/instructors"},
        course=SimpleNamespace(toc=lambda: toc),
        depend=lambda *names: None,
        uri=lambda name: f"{name}.html",
    )
    assert landing.Way._address(way) == ("reference/instructors.html" if named else "")
