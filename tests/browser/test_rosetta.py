"""The dictionary in a browser: its filter, links to its rows, and pasting from it."""

import pytest

PAGE = "reference/rosetta.html"
ROWS = 'tr:has(a[id^="row-"])'


@pytest.fixture
def rosetta(page, server):
    page.goto(server.url + PAGE)
    page.wait_for_selector(".rosetta-status:not(:empty)")
    return page


def shown(page):
    return page.locator(f"{ROWS}:visible")


def test_the_filter_keeps_rows_that_hold_every_word(rosetta):
    every = shown(rosetta).count()
    assert every >= 250
    rosetta.get_by_label("Filter the rows").fill("std ddof")
    texts = [text.lower() for text in shown(rosetta).all_inner_texts()]
    assert texts and all("std" in text and "ddof" in text for text in texts)
    assert rosetta.inner_text(".rosetta-status") == f"{len(texts)} of {every} rows"
    assert rosetta.locator("section:has(tr) > h2:visible").count() < 5
    rosetta.get_by_label("Filter the rows").fill("")
    assert shown(rosetta).count() == every


def test_the_filter_is_used_by_keyboard_and_says_when_nothing_is_left(rosetta):
    rosetta.get_by_label("Filter the rows").focus()
    rosetta.keyboard.type("xylophone")
    assert shown(rosetta).count() == 0
    assert rosetta.inner_text(".rosetta-status").startswith("0 of ")


def test_a_link_to_a_row_that_is_filtered_out_shows_it(rosetta):
    name = rosetta.locator(f"{ROWS} a[id]").last.get_attribute("id")
    rosetta.get_by_label("Filter the rows").fill("torch.zeros")
    assert not rosetta.locator(f"tr:has(#{name})").is_visible()
    rosetta.evaluate(f"location.hash = '{name}'")
    rosetta.wait_for_selector(f"tr:has(#{name})", state="visible")


def test_code_can_be_pasted_with_its_indentation(rosetta):
    codes = rosetta.locator(f"{ROWS} > td:nth-child(-n + 2)").all_text_contents()
    assert not any("\N{NO-BREAK SPACE}" in code for code in codes)
    assert any("    " in code for code in codes)


def test_no_row_is_wider_than_its_page(browser, server):
    for width in (390, 800, 1280):
        with browser.new_context(viewport={"width": width, "height": 800}) as tab:
            page = tab.new_page()
            page.goto(server.url + PAGE)
            wide = "e => e.filter(td => td.scrollWidth > td.clientWidth + 1).length"
            assert page.locator(f"{ROWS} > td").evaluate_all(wide) == 0


def test_without_javascript_the_rows_are_tables(browser, server):
    with browser.new_context(java_script_enabled=False) as tab:
        page = tab.new_page()
        page.goto(server.url + PAGE)
        assert shown(page).count() >= 250
        assert page.locator(".rosetta-filter").count() == 0
