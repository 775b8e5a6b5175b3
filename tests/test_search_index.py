"""What the search index holds; tests/browser searches in it."""

import gzip
import json
import re

import pytest

from coursekit.search import INDEX


@pytest.fixture(scope="module")
def index(site):
    """{page: (kind, title, its sections)}"""
    script = (site / INDEX).read_text(encoding="utf-8")
    found = json.loads(script.removeprefix("courseSearch(").removesuffix(");\n"))
    return {page: rest for page, *rest in found}


def test_the_index_is_light(index, site):
    travels = len(gzip.compress((site / INDEX).read_bytes()))
    assert travels < 6_000 * len(index)


def words(index, page):
    return " ".join(f"{prose} {code}" for *_, prose, code in index[page][2])


def test_every_section_of_the_index_is_a_place_on_its_page(index, site):
    for page, (kind, title, sections) in index.items():
        html = (site / page).read_text(encoding="utf-8")
        ids = set(re.findall(r'\sid="([^"]+)"', html))
        assert {anchor for anchor, *_ in sections} <= ids, page
        assert title == sections[0][1]
        folder = page.partition("/")[0]
        assert kind == {"chapters": "chapter"}.get(folder, kind)


def test_code_outputs_and_errors_are_searched(index):
    text = words(index, "chapters/02_jit.html")
    assert "TracerBoolConversionError: Attempted boolean conversion" in text
    assert "@jax.jit def score(w, b, x)" in text
    assert "import jax.numpy" not in text


def test_a_solution_page_repeats_nothing_of_its_exercises(index):
    for page in index:
        if page.startswith("solutions/"):
            exercises = index[page.replace("solutions", "exercises")][2]
            statements = {prose for *_, prose, _ in exercises if len(prose) > 200}
            assert statements
            assert not statements & {prose for *_, prose, _ in index[page][2]}


def test_checks_and_wrong_answers_are_left_out_and_habits_are_in(index):
    text = words(index, "solutions/02_jit.html")
    assert 'with check("' not in text
    assert "Why." in text
    assert "the buffers stay where they were, outside of the function" in text


def test_a_row_of_the_dictionary_is_an_entry_of_its_own(index):
    rows = {anchor: (title, prose) for anchor, title, prose, _ in index["reference/rosetta.html"][2]}
    title, prose = rows["row-x-std"]
    assert title == "x.std() → x.std(ddof=1)"
    assert "divides by n" in prose
    assert "<" not in title + prose and "x.std()" not in rows["reductions"][1]
