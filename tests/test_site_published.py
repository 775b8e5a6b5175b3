"""The site as it is published: addresses, and what machines read."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlparse
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup

from coursekit.course import Course
from coursekit.site.address import site_url
from tests.conftest import build

ROOT = Path(__file__).parents[1]
ADDRESS = "https://github.com/someone/a-fork"
SITE = "https://someone.github.io/a-fork/"
NO_PAGES = {"404.html", "index.html", "search.html"}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The site of a repository that has an address."""
    return build(tmp_path_factory.mktemp("site"), REPOSITORY_URL=ADDRESS, SITE_URL="")[0]


def parse(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def parse_head(path):
    """The head alone: a page can be long."""
    text = path.read_text(encoding="utf-8")
    return BeautifulSoup(text.partition("<body")[0], "html.parser")


def pages(site):
    """{path inside the site: its head}, of what is meant to be found."""
    found = [p for p in site.rglob("*.html") if "_static" not in p.parts]
    named = {p.relative_to(site).as_posix(): p for p in found}
    return {name: parse_head(path) for name, path in named.items() if name not in NO_PAGES}


@pytest.mark.parametrize(
    "repository, given, expected",
    [
        ("https://github.com/OWNER/course", "", ""),
        ("https://github.com/OWNER/course", "https://jax.example/a", "https://jax.example/a/"),
        ("https://github.com/Some/course/", "", "https://some.github.io/course/"),
        ("https://github.com/some/some.github.io", "", "https://some.github.io/"),
        ("https://git.example/some/course", "", ""),
    ],
)
def test_the_sites_address_is_given_or_follows_from_the_repository(
    monkeypatch, repository, given, expected
):
    monkeypatch.setenv("REPOSITORY_URL", repository)
    monkeypatch.setenv("SITE_URL", given)
    assert site_url(Course(ROOT)) == expected


def test_the_environment_overrides_the_address(published):
    for name in Course(ROOT).toc():
        soup = parse(published / f"{name}.html")
        buttons = soup.select(".article-header-buttons a[href], .course-links a[href]")
        outside = [a["href"] for a in buttons if urlparse(a["href"]).netloc]
        assert outside
        assert all("someone/a-fork" in link for link in outside), outside


def test_canonical_links_and_open_graph_hold_the_sites_address(published):
    for name, soup in pages(published).items():
        assert soup.select_one("link[rel=canonical]")["href"] == SITE + name
        assert soup.select_one("meta[property='og:url']")["content"] == SITE + name


def test_the_sitemap_names_every_page_and_robots_names_the_sitemap(published):
    tree = ElementTree.parse(published / "sitemap.xml")
    found = {e.text for e in tree.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")}
    assert found == {SITE + name for name in pages(published)}
    robots = (published / "robots.txt").read_text(encoding="utf-8").split("\n")
    assert f"Sitemap: {SITE}sitemap.xml" in robots and "Allow: /" in robots


def test_without_an_address_no_page_claims_one(site):
    assert not (site / "sitemap.xml").exists()
    assert "Sitemap" not in (site / "robots.txt").read_text(encoding="utf-8")
    for name, soup in pages(site).items():
        assert not soup.select("link[rel=canonical], meta[property='og:url']"), name


def test_the_root_shows_the_first_page(site):
    assert (site / "index.html").read_bytes() == (site / "intro.html").read_bytes()


@pytest.mark.parametrize("kind", ["site", "published"])
def test_the_page_for_lost_readers_needs_no_other_file(request, kind):
    folder = request.getfixturevalue(kind)
    soup = parse(folder / "404.html")
    assert not soup.select("script[src], link:not([href^='data:']), img, iframe")
    links = [a["href"] for a in soup.select("a")]
    chapters = [f"{n}.html" for n in Course(ROOT).toc() if n.startswith("chapters/")]
    assert links == ["intro.html", "search.html", *chapters]
    assert all((folder / link).is_file() for link in links)
    if kind == "published":
        assert soup.base["href"] == "/a-fork/" and not soup.select("script")
    else:
        assert not soup.base and soup.select("script")


@pytest.mark.parametrize(
    "asked, base",
    [("/a/b/chapters/x.html", "/a/b/"), ("/solutions/x/y", "/"), ("/a/x.html", None)],
)
def test_a_lost_reader_is_led_to_the_folder_of_the_site(site, asked, base):
    script = parse(site / "404.html").script.text
    pattern = re.search(r"match\(/(.+)/\);", script)[1].replace(r"\/", "/")
    found = re.match(pattern, asked)
    assert (found and found[1]) == base
