"""The site, built once from the notebooks in the tree: what holds on every page."""

import gzip
import hashlib
import json
import os
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

import pytest
from bs4 import BeautifulSoup

from coursekit.course import Course

ROOT = Path(__file__).parents[1]
ICONS = ROOT / "assets/vendor/fontawesome"
LIMIT = 400_000  # bytes of a page, compressed, without its figures

# What MathJax fetches on a page with maths, and the fonts that some commands add.
MATHJAX = (
    "startup", "core", "input/tex", "output/chtml", "output/chtml/fonts/tex",
    "a11y/assistive-mml",
)  # fmt: skip
MATHJAX_FONTS = {
    "": ("Main-Regular", "Math-Italic", "Size1-Regular", "Size2-Regular"),
    r"\mathbb": ("AMS-Regular",),
    r"\boldsymbol": ("Math-BoldItalic",),
    r"\mathbf": ("Main-Bold",),
    r"\mathcal": ("Calligraphic-Regular",),
    r"\mathtt": ("Typewriter-Regular",),
}


@pytest.fixture(scope="session")
def pages(site):
    """{path of a page inside the site: its parsed HTML}"""
    found = [p for p in sorted(site.rglob("*.html")) if "_static" not in p.parts]
    return {path.relative_to(site).as_posix(): parse(path) for path in found}


@cache
def parse(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def notebook_pages(pages):
    def is_notebook(page):
        return (ROOT / page).with_suffix(".ipynb").is_file()

    return {page: soup for page, soup in pages.items() if is_notebook(page)}


def target(page, link):
    """The path inside the site that a link on a page leads to."""
    path = (Path(page).parent / unquote(urlparse(link).path)).as_posix()
    return os.path.normpath(path if urlparse(link).path else page)


def test_every_page_of_the_contents_is_built_without_a_warning(book, pages):
    assert "WARNING" not in book[1]
    assert {f"{name}.html" for name in Course(ROOT).toc()} <= set(pages)


def test_exercises_and_solutions_stand_below_their_chapter(pages):
    nested = 0
    for name in Course(ROOT).toc():
        stem = Path(name).name
        pair = [f"{folder}/{stem}" for folder in ("exercises", "solutions")]
        present = [p for p in pair if (ROOT / f"{p}.ipynb").is_file()]
        links = pages[f"{name}.html"].select("nav.bd-links li.current li a")
        assert [target(f"{name}.html", a["href"]) for a in links] == [
            f"{p}.html" for p in present
        ]
        nested += len(present)
    assert nested


def test_no_page_asks_another_host(pages, site):
    sources = "script[src], img[src], iframe[src], source[src], link[href]"
    for page, soup in pages.items():
        for tag in soup.select(sources):
            link = tag.get("src") or tag.get("href")
            assert not urlparse(link).netloc, f"{page}: {link}"
    for css in site.rglob("*.css"):
        outside = re.findall(r"url\(['\"]?(?:https?:)?//[^)]*", css.read_text("utf-8"))
        assert not outside, f"{css.name}: {outside}"


def test_every_icon_on_a_page_is_in_the_fonts(pages, site):
    held = json.loads((ICONS / "icons.json").read_text(encoding="utf-8"))
    css = (site / "_static/styles/pydata-sphinx-theme.css").read_text(encoding="utf-8")
    rules = re.findall(r'([^{}]+)\{content:"\\([0-9a-f]+)"\}', css)
    code = {n: c for s, c in rules for n in re.findall(r"\.(fa-[a-z0-9-]+):before", s)}
    seen = set()
    for page, soup in pages.items():
        for icon in soup.select("[class*='fa-']"):
            brand = {"fab", "fa-brands"} & set(icon["class"])
            font = "fa-brands-400" if brand else "fa-solid-900"
            plain = {"fa-solid", "fa-brands", "fa-lg"}
            for name in {c for c in icon["class"] if c.startswith("fa-")} - plain:
                assert code.get(name) in held[font]["codes"], f"{page}: {name}"
                seen.add(name)
    assert {"fa-github", "fa-rocket"} <= seen


def test_icon_fonts_are_the_ones_that_their_list_describes(site):
    held = json.loads((ICONS / "icons.json").read_text(encoding="utf-8"))
    for name, font in held.items():
        copied = site / f"_static/vendor/fontawesome/webfonts/{name}.woff2"
        assert hashlib.sha256(copied.read_bytes()).hexdigest() == font["sha256"]


def test_every_picture_has_an_alternative_text(pages):
    for page, soup in pages.items():
        for image in soup.find_all("img"):
            text = image.get("alt", "").strip()
            # Without one, Sphinx puts the name of the file in its place.
            assert text and text != image["src"], f"{page}: {image}"


def test_links_inside_the_site_lead_somewhere(pages, site):
    for page, soup in pages.items():
        for link in {a["href"] for a in soup.select("a[href]")}:
            if urlparse(link).scheme or urlparse(link).netloc:
                continue
            path, anchor = target(page, link), urldefrag(link).fragment
            assert (site / path).is_file(), f"{page}: {link}"
            if anchor and path.endswith(".html"):
                names = {e["id"] for e in parse(site / path).select("[id]")}
                assert unquote(anchor) in names, f"{page}: {link}"


def test_colab_and_edit_links_name_files_of_the_tree(pages):
    address = Course(ROOT).address.removeprefix("https://github.com/")
    for page, soup in notebook_pages(pages).items():
        links = [a["href"] for a in soup.select("a[href]")]
        colab = [link for link in links if "colab.research.google.com" in link]
        edit = [link for link in links if "/edit/main/" in link]
        assert colab and edit, page
        for link in colab + edit:
            path = re.split("/(?:blob|edit)/main/", link)[1]
            assert (ROOT / path).is_file(), f"{page}: {link}"
        assert all(Path(link).suffix != ".ipynb" for link in edit), page
        assert f"/github/{address}/blob/main/{page[:-5]}.ipynb" in " ".join(colab)


def test_mathjax_is_loaded_where_there_is_maths(pages):
    for page, soup in pages.items():
        loads = bool(soup.select("script[src*='mathjax']"))
        assert loads == bool(soup.select("article .math")), page


def test_pages_are_light(pages, site):
    heavy = {p: w for p, s in pages.items() if (w := weight(site, p, s)) > LIMIT}
    assert not heavy, f"over {LIMIT} bytes, compressed: {heavy}"


def weight(site, page, soup):
    """Bytes that a page moves at its first visit, without its figures."""
    links = [t["src"] for t in soup.select("script[src], img[src]")]
    links += [t["href"] for t in soup.select("link[rel=stylesheet], link[rel=icon]")]
    links = [link for link in links if not link.startswith("data:")]
    files = {target(page, link) for link in links if "_images/" not in link}
    files |= {f"_static/vendor/fontawesome/webfonts/{f.name}" for f in fonts()}
    if soup.select("script[src*='mathjax']"):
        tex = " ".join(e.get_text() for e in soup.select(".math"))
        files |= {f"_static/mathjax/{part}.js" for part in MATHJAX}
        files |= {
            f"_static/mathjax/output/chtml/fonts/woff-v2/MathJax_{font}.woff"
            for command, needed in MATHJAX_FONTS.items()
            for font in needed
            if command in tex
        }
    return sum(compressed(site / file) for file in {page, *files})


def fonts():
    return (ICONS / "webfonts").glob("*.woff2")


@cache
def compressed(path):
    content = path.read_bytes()
    packed = path.suffix in {".woff", ".woff2", ".png"}
    return len(content if packed else gzip.compress(content, 9))
