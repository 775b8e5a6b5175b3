"""What stands on every page of the site: the bar, the head, folded answers, paper."""

import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup

from coursekit import build, master
from coursekit import notebook as nb
from coursekit.course import Course
from coursekit.site import bar, contents, facts, head

ROOT = Path(__file__).parents[1]
COURSE = Course(ROOT)
FOLDERS = ("chapters", "exercises", "solutions", "reference")
GROUNDS = {"light": ("#ffffff", "#f6f8fa"), "dark": ("#111418", "#191e25")}


@cache
def parse(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def names():
    """Docnames of every notebook that is a page of the book."""
    stems = {Path(name).name for name in COURSE.toc()}
    found = (path for folder in FOLDERS for path in (ROOT / folder).glob("*.ipynb"))
    return sorted(f"{p.parent.name}/{p.stem}" for p in found if p.stem in stems)


def sets():
    return [name for name in names() if name.startswith("solutions/")]


def page(site, name):
    return parse(site / f"{name}.html")


@pytest.mark.parametrize("name", names())
def test_the_bar_says_what_the_notebook_holds(site, name):
    text = page(site, name).select_one(".course-bar .course-facts").text
    ran_on = nb.load(ROOT / f"{name}.ipynb").metadata.course.ran_on
    assert f"jax {ran_on['jax']}" in text and ran_on["date"] in text
    source = ROOT / f"solutions/{Path(name).name}.py"
    if source.is_file() and not name.startswith("solutions/"):
        read = master.read(source)
        assert f"{len(read.exercises)} exercises, {read.points} points" in text
        minutes = sum(e.minutes for e in read.exercises)
        assert ("exercises/" not in name) or f"about {minutes} minutes" in text.lower()
    if name.startswith("chapters/"):
        assert re.match(r"About \d+ minutes", text)


@pytest.mark.parametrize("name", names())
def test_the_bar_leads_to_siblings_and_to_real_files(site, name):
    links = {a["class"][0]: a["href"] for a in page(site, name).select(".course-bar a")}
    here = (site / name).parent
    for folder in FOLDERS[:3]:
        sibling = f"{folder}/{Path(name).name}"
        if sibling != name and sibling in names():
            assert (here / links[f"to-{folder}"]).resolve() == site / f"{sibling}.html"
    download = here / links["to-download"]
    assert download.read_bytes() == (ROOT / f"{name}.ipynb").read_bytes()
    assert links["to-binder"].endswith(f"/main?urlpath=lab/tree/{name}.ipynb")
    assert links["to-colab"] == COURSE.colab(f"{name}.ipynb")
    assert (ROOT / links["to-edit"].split("/edit/main/")[1]).is_file()


def test_the_bar_takes_the_place_of_the_notebooks_own_line(site):
    for name in names():
        article = page(site, name).select_one("article")
        assert len(article.select(".course-bar")) == 1
        assert not article.find_all("p", string=re.compile("last ran on"))


def test_pages_are_a_chain(site):
    name, seen = "intro", []
    while name not in seen:
        seen.append(name)
        following = page(site, name).select_one("a.right-next")
        if following:
            path = (site / name).parent / following["href"]
            name = path.resolve().relative_to(site).as_posix()[:-5]
            back = page(site, name).select_one("a.left-prev")["href"]
            assert ((site / name).parent / back).resolve() == site / f"{seen[-1]}.html"
    assert set(names()) <= set(seen)


def test_a_chapter_outside_the_contents_is_no_page(tmp_path):
    for name in ("chapters/01_in", "exercises/01_in", "chapters/02_draft"):
        nb.save(nb.assemble([nb.markdown("# One", "a")]), tmp_path / f"{name}.ipynb")
    config = SimpleNamespace(
        external_site_map={"chapters/01_in": None, "exercises/01_in": None},
        exclude_patterns=["README.md"],
    )
    contents.skip_drafts(SimpleNamespace(srcdir=tmp_path), config)
    assert config.exclude_patterns == ["README.md", "chapters/02_draft.ipynb"]


@pytest.mark.parametrize("name", sets())
def test_answers_are_folded_and_headings_are_not(site, name):
    article = page(site, name).select_one("article")
    read = master.read(ROOT / f"{name}.py")
    folds = article.select("details.course-answer")
    assert len(folds) == len(read.exercises)
    for fold, exercise in zip(folds, read.exercises):
        assert not fold.has_attr("open") and "Spoiler" in fold.summary.text
        assert not fold.select("h1, h2") and fold.find_parent("section").h2
        assert exercise.of("check")[0].check[0] in fold.text
    for spoiler in article.find_all("pre", string=re.compile(r"with|def ")):
        assert spoiler.find_parent("details", class_="course-answer")


def test_every_page_has_a_name_and_a_description_of_its_own(site):
    found = {}
    for name in ["intro", *names()]:
        soup = page(site, name)
        assert soup.select_one("meta[name='course-page']")["content"] == name
        texts = [m["content"] for m in soup.select("meta[name='description']")]
        assert len(texts) == 1 and 40 <= len(texts[0]) <= head.LENGTH, name
        assert soup.select_one("meta[property='og:description']")["content"] == texts[0]
        assert soup.select_one("meta[property='og:title']")["content"]
        assert texts[0] not in found, (name, found[texts[0]])
        found[texts[0]] = name
    for name in ("search", "404"):
        assert page(site, name).select_one("meta[name='description']")["content"]


@pytest.mark.parametrize(
    "text, short",
    [
        ("One. Two.", "One. Two."),
        ("A first one here. And a second one.", "A first one here."),
        ("Words without any end at all here", "Words without any…"),
    ],
)
def test_descriptions_end_with_a_sentence_or_a_word(text, short):
    assert head.shorten(text, 20) == short


def test_the_facts_of_a_page_without_a_set(tmp_path):
    cells = [nb.markdown("# On `jit`\n\nText.", "a"), nb.markdown("?", "b", ["quiz"])]
    nb.save(nb.assemble(cells), tmp_path / "chapters/01_one.ipynb")
    known = facts.of(tmp_path, "chapters/01_one")
    assert (known.title, known.quizzes, known.levels) == ("On jit", 1, ())
    assert bar.amounts(known) == ["about 5 minutes"]
    assert bar.last_run(known.ran_on) == []
    assert facts.of(tmp_path, "chapters/02_two") is None


def test_a_page_loads_the_courses_code_colours_and_no_others(site):
    for name in ["intro", "search", *names()]:
        links = [link["href"] for link in page(site, name).select("link[href*='.css']")]
        files = {Path(link.split("?")[0]).name for link in links}
        assert "code.css" in files and "pygments.css" not in files, name
        assert ("landing.css" in files) == (name == "intro"), name


def colours(mode):
    """{variable: colour} of assets/code.css and course.css in a mode."""
    found = {}
    for file in ("code.css", "course.css"):
        css = (ROOT / "assets" / file).read_text(encoding="utf-8")
        blocks = re.findall(r"(?m)^(:root|html)([^{]*)\{([^}]*)\}", css)
        for start, rest, body in blocks:
            if start == ":root" or mode in rest:
                found |= dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", body))
    return found


def contrast(one, other):
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p < 0.04 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear))

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", GROUNDS)
def test_colours_of_text_and_code_have_contrast(mode):
    held = colours(mode)
    assert held["--course-fill"] == GROUNDS[mode][1]
    links = ["--pst-color-link", "--pst-color-link-hover", "--course-accent"]
    text = [n for n in held if n.startswith("--code-")] + links
    text += [f"--course-{c}" for c in "red green yellow blue magenta cyan grey".split()]
    assert len(text) > 14
    for ground in GROUNDS[mode]:
        poor = {n: held[n] for n in text if contrast(held[n], ground) < 4.5}
        assert not poor, f"{mode}, on {ground}: {poor}"


def test_every_kind_of_word_in_code_has_a_colour(site):
    css = (ROOT / "assets/code.css").read_text(encoding="utf-8")
    groups = re.findall(r"\.highlight :is\(([^)]+)\)", css)
    known = set(re.findall(r"\w+", " ".join(groups)))
    for name in names():
        words = page(site, name).select("article pre span[class]")
        used = {c for w in words for c in w["class"] if not c.startswith(("-", "ansi"))}
        assert used <= known, name


def test_the_explorer_is_loaded_where_one_stands(site):
    for name in ["intro", *names()]:
        soup = page(site, name)
        loads = [e for e in soup.select("[src], [href]") if "explorer." in str(e)]
        assert bool(loads) == bool(soup.select(".trace-explorer")), name


def test_binder_gets_the_lock_and_a_python_that_fits_it():
    folder = ROOT / ".binder"
    assert (folder / "runtime.txt").read_text().strip() == f"python-{build.PYTHON}"
    asked = (folder / "requirements.txt").read_text().split("-r ")[1].strip()
    assert (folder / asked).resolve() == ROOT / "requirements.txt"


def test_paper_hides_what_is_on_the_page_and_nothing_else(site):
    soup = page(site, "chapters/02_jit")
    link = soup.select_one("link[href*='print.css']")
    assert link["media"] == "print"
    css = (ROOT / "assets/print.css").read_text(encoding="utf-8")
    hidden = re.search(r"/\* Around the text \*/\n([^{]+)\{\s*display: none", css)[1]
    elsewhere = ".course-begin .course-progress".split()
    scripts = ".copybtn .headerlink .course-finish .quiz-again .quiz-all .trace-app".split()
    for selector in {s.strip() for s in hidden.split(",")} - {*elsewhere, *scripts}:
        assert soup.select(selector), selector
        assert not any(e.select_one("section") for e in soup.select(selector)), selector
