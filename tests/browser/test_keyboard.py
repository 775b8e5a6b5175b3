"""The whole site without a mouse: what Tab reaches, in sight, and what keys do."""

import pytest
from playwright.sync_api import expect

PAGES = ("intro", "chapters/02_jit", "exercises/02_jit", "search")
LIMIT = 1500  # presses of Tab, so that a trap ends

# Notes on every element that gets focus: that it did, and what it looked like then.
WATCH = """() => {
  globalThis.reached = new Set();
  globalThis.unseen = new Set();
  document.addEventListener('focusin', ({ target }) => {
    reached.add(target);
    const around = [target, ...target.children, target.closest('form') ?? target];
    const parts = around.filter((e) => e.offsetWidth && e.offsetHeight);
    const marked = parts.map((e) => getComputedStyle(e))
      .some((style) => style.outlineStyle !== 'none' || style.boxShadow !== 'none');
    if (!marked) unseen.add(target.outerHTML.slice(0, 120));
  });
}"""
MISSED = """() => [...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary, [tabindex="0"]')]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled
    && e.tabIndex >= 0 && !reached.has(e) && !e.closest('[inert], dialog:not([open])'))
  .map((e) => e.outerHTML.slice(0, 120))"""


def tab_through(page):
    """Press Tab from the top until the focus leaves the page."""
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.evaluate(WATCH)
    for _ in range(LIMIT):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            return
    raise AssertionError("Tab never leaves the page")


@pytest.mark.parametrize("name", PAGES)
def test_tab_reaches_everything_and_shows_where_it_is(page, server, name):
    page.emulate_media(reduced_motion="reduce")  # else marks fade in
    page.goto(f"{server.url}{name}.html")
    tab_through(page)
    assert page.evaluate("reached.size") > 10
    assert page.evaluate(MISSED) == []
    assert page.evaluate("[...unseen]") == []


def test_the_first_stop_skips_to_the_article(page, server):
    page.goto(f"{server.url}chapters/02_jit.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.hash") == "#main-content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("!!document.activeElement.closest('main')")


def test_the_theme_is_switched_by_keys_and_kept(page, server):
    page.goto(f"{server.url}intro.html")
    switch = page.locator("button.theme-switch-button:visible").first
    seen = set()
    for _ in range(3):
        switch.press("Enter")
        seen.add(page.evaluate("document.documentElement.dataset.mode"))
    assert seen == {"light", "dark", "auto"}
    while page.evaluate("document.documentElement.dataset.mode") != "dark":
        switch.press("Enter")
    page.goto(f"{server.url}chapters/02_jit.html")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_on_a_phone_the_contents_open_and_close_by_keys(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{server.url}chapters/02_jit.html")
    link = page.locator(".bd-sidebar-primary a", has_text="Gradients").first
    assert not link.is_visible()
    page.locator("button.primary-toggle:visible").first.press("Enter")
    link.wait_for(state="visible")
    page.keyboard.press("Escape")
    link.wait_for(state="hidden")


def test_without_javascript_the_text_and_the_way_on_are_there(browser, server):
    with browser.new_context(java_script_enabled=False) as tab:
        page = tab.new_page()
        page.goto(f"{server.url}chapters/02_jit.html")
        title = page.locator("article h1")
        assert title.is_visible()
        before = title.inner_text()
        assert page.locator("article pre:visible").count() > 10
        page.locator(".prev-next-area a.right-next").click()
        expect(title).not_to_have_text(before)
        assert title.is_visible()
