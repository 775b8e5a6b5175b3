"""Every page of the site in a real browser: by http on a wide screen in light and
dark, and as a file on a phone's screen."""

from pathlib import Path

import pytest

from coursekit.course import Course
from coursekit.search import INDEX
from tests.browser.look import PHONE, WIDE, Visit

ROOT = Path(__file__).parents[2]
LIMIT = 400_000  # bytes of a page as they travel, without its figures
SEEN = ("maths", "images", "overflow", "motion")


def names():
    """Every page: the contents, the exercises and solutions below, and search."""
    stems = [path.stem for path in Course(ROOT).masters()]
    for name in Course(ROOT).toc():
        yield name
        if Path(name).name in stems:
            yield from (f"{f}/{Path(name).name}" for f in ("exercises", "solutions"))
    yield "search"


def context(browser, size):
    return browser.new_context(viewport=size, reduced_motion="reduce")


def weight(name, sent):
    """Bytes of a page; the index of search grows with the course, and has its own limit."""
    left_out = ("_images/", INDEX) if name == "search" else ("_images/",)
    return sum(n for path, n in sent.items() if not any(part in path for part in left_out))


@pytest.mark.parametrize("name", [*names(), "404"])
def test_page_by_http(browser, server, site, name):
    server.sent.clear()
    with context(browser, WIDE) as tab:
        visit = Visit(tab, server.url, f"{name}.html")
        bytes_sent = weight(name, server.sent)
        found = visit.see(*SEEN)
        found += visit.dead_links(site)
        found += visit.axe()
    if bytes_sent > LIMIT:
        found.append(f"weighs {bytes_sent} bytes")
    assert not visit.findings + found


@pytest.mark.parametrize("name", list(names()))
def test_page_as_a_file_on_a_phone(browser, site, name):
    with context(browser, PHONE) as tab:
        visit = Visit(tab, site.as_uri() + "/", f"{name}.html")
        found = visit.see(*SEEN)
        found += visit.axe()
    assert not visit.findings + found


def test_the_list_of_pages_is_what_was_built(site):
    built = {p.relative_to(site).as_posix() for p in site.rglob("*.html")}
    seen = {f"{name}.html" for name in (*names(), "404")}
    assert {p for p in built - seen if "_static" not in p} == {"index.html"}
