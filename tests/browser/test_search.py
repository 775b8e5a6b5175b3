"""Search finds what learners type: each query leads to the page that answers it."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.look import PHONE, Visit

TOP = 3
QUERIES = {
    # errors, as a traceback names them or says them
    "TracerBoolConversionError": "chapters/02_jit",
    "Non-hashable static arguments": "chapters/02_jit",
    "UnexpectedTracerError": "chapters/02_jit",
    "Array has been deleted": "chapters/02_jit",
    "KeyReuseError": "chapters/05_random",
    "Too few leaves": "chapters/07_pytrees",
    # names, of both frameworks
    "value_and_grad": "chapters/03_autodiff",
    "jax.random.split": "chapters/05_random",
    "torch.func.vmap": "chapters/04_vmap",
    "torch.no_grad": "chapters/03_autodiff",
    "lax.scan": "chapters/06_control_flow",
    ".at[].set": "chapters/01_arrays",
    "expect_traces": "reference/tracecheck",
    # rows of the dictionary, by either framework's words
    "torch.std": "reference/rosetta",
    "repeat_interleave": "reference/rosetta",
    "scatter_add_": "reference/rosetta",
    "index_select": "reference/rosetta",
    "jnp.take_along_axis": "reference/rosetta",
    "torch.bmm": "reference/rosetta",
    "masked_fill": "reference/rosetta",
    "logsumexp": "reference/rosetta",
    "torch.cat": "reference/rosetta",
    "optax.partition": "reference/rosetta",
    # what old pages say, and what is said of it today
    "DeviceArray": "reference/old_tutorials",
    "jax.ops.index_update": "reference/old_tutorials",
    "module 'jax' has no attribute 'tree_multimap'": "reference/old_tutorials",
    "object does not support item assignment": "reference/old_tutorials",
    "from jax.config import config": "reference/old_tutorials",
    "host_callback": "reference/old_tutorials",
    "jax.experimental.stax": "reference/old_tutorials",
    "xmap": "reference/old_tutorials",
    "device_put_replicated": "reference/old_tutorials",
    "xla_computation": "reference/old_tutorials",
    # questions
    "in-place update": "chapters/01_arrays",
    "why does jit recompile": "chapters/02_jit",
    "if statement on a tensor": "chapters/06_control_flow",
    "per-example gradients": "chapters/03_autodiff",
}


class Search:
    """The search page, asked by its address and read as a reader reads it."""

    def __init__(self, page, base):
        self.page, self.base, self.errors = page, base, []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._said)

    def _said(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def ask(self, query):
        """The pages found, best first, without their ending."""
        self.page.goto(f"{self.base}search.html?q={quote(query)}")
        self.page.wait_for_selector(".search-status", state="attached")
        links = self.page.locator(".search-pages h2 a")
        return [a.get_attribute("href").removesuffix(".html") for a in links.all()]


@pytest.fixture
def search(page, server):
    return Search(page, server.url)


@pytest.mark.parametrize("query", QUERIES)
def test_the_page_that_answers_is_among_the_first(search, query):
    found = search.ask(query)
    assert QUERIES[query] in found[:TOP], found
    assert not search.errors


@pytest.mark.parametrize("query", ["UnexpectedTracerError", "why does jit recompile"])
def test_a_site_opened_from_a_disk_finds_the_same(page, site, server, query):
    from_disk = Search(page, site.as_uri() + "/")
    found = from_disk.ask(query)
    assert found == Search(page, server.url).ask(query)
    assert not from_disk.errors


def test_a_result_is_a_section_with_an_excerpt_that_marks_the_words(search):
    search.ask("Array has been deleted")
    first = search.page.locator(".search-pages > li").first
    excerpt = first.locator("ul p").first
    assert "array has been deleted" in excerpt.inner_text().lower()
    assert excerpt.locator("mark").count() >= 2
    first.locator("ul a").first.click()
    search.page.wait_for_url("**/*#*")
    anchor = search.page.evaluate("decodeURIComponent(location.hash.slice(1))")
    assert search.page.locator(f"[id='{anchor}']").count() == 1


def test_a_row_of_the_dictionary_is_a_result_of_its_own(search):
    search.ask("torch.repeat_interleave")
    first = search.page.locator('.search-pages a[href*="rosetta.html#row-"]').first
    assert "repeat_interleave" in first.inner_text() and ".repeat(" in first.inner_text()
    first.click()
    expect(search.page.locator("tr:has(:target)")).to_be_visible()


def test_a_chapter_stands_before_its_exercises_and_solutions(search):
    found = search.ask("index out of bounds")
    order = [page for page in found if page.endswith("/01_arrays")]
    assert order[0] == "chapters/01_arrays"
    assert "exercises/01_arrays" in order


def test_results_follow_what_is_typed(search):
    search.ask("")
    assert search.page.locator(".search-pages > li").count() == 0
    search.page.locator("main input[name=q]").press_sequentially("donat")
    found = search.page.locator(".search-pages")
    expect(found).to_contain_text(re.compile("donate", re.IGNORECASE))


def test_results_are_accessible(browser, server):
    with browser.new_context(viewport=PHONE, reduced_motion="reduce") as tab:
        visit = Visit(tab, server.url, "search.html?q=jit")
        assert visit.page.locator(".search-pages > li").count() > 5
        assert not visit.findings + visit.see("overflow", "motion") + visit.axe()


def test_what_is_nowhere_is_said_to_be_nowhere(search):
    assert search.ask("xylophone marimba") == []
    assert "Nothing found" in search.page.inner_text(".search-status")


def test_what_is_typed_is_text_and_never_markup(search):
    search.ask("<img src=x onerror=alert(1)> jit")
    assert search.page.locator("#search-results img").count() == 0
    assert not search.errors


def test_the_field_on_every_page_leads_to_results(page, server):
    page.goto(f"{server.url}chapters/02_jit.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("KeyReuseError")
    page.keyboard.press("Enter")
    page.wait_for_selector(".search-pages > li")
    found = page.locator(".search-pages h2 a").first.get_attribute("href")
    assert found == "chapters/05_random.html"
