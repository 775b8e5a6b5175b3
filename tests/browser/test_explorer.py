"""The trace explorer by mouse and by keyboard, and its tables without JavaScript."""

import pytest

from tests.browser.look import PHONE, Visit

SAID = {"traced": "traced, makes entry", "reused": "reuses entry"}
PAGES = {"chapters/02_jit": 2, "reference/tracecheck": 1}


@pytest.fixture
def explorer(page, server):
    page.goto(f"{server.url}chapters/02_jit.html")
    page.wait_for_selector(".trace-explorer[data-ready]")
    return page.locator(".trace-explorer").first


def tool(explorer, name):
    return explorer.locator(f"[data-do={name}]")


def state(explorer):
    """The current line of the source, and how many equations are recorded."""
    lines = explorer.locator("ol.trace-code > li")
    marks = [line.get_attribute("aria-current") for line in lines.all()]
    current = [i for i, mark in enumerate(marks) if mark]
    return current, explorer.locator("ol.trace-eqns > li:visible").count()


def walk(explorer, step):
    """States from the first step on, until `step` changes nothing."""
    states = [(*state(explorer), explorer.locator(".trace-status").inner_text())]
    for _ in range(60):
        step()
        now = (*state(explorer), explorer.locator(".trace-status").inner_text())
        if now == states[-1]:
            return states
        states.append(now)
    raise AssertionError("the explorer never ends")


@pytest.mark.parametrize("name", PAGES)
def test_explorers_are_ready_on_their_pages(page, server, name):
    page.goto(f"{server.url}{name}.html")
    page.wait_for_selector(".trace-explorer[data-ready]")
    assert page.locator(".trace-explorer[data-ready]").count() == PAGES[name]
    assert page.locator(".trace-explorer").count() == PAGES[name]


def test_mouse_and_keyboard_walk_the_same_steps(explorer):
    following = tool(explorer, "next")
    # Playwright waits for what is aria-disabled; a reader's mouse doesn't.
    clicked = walk(explorer, lambda: following.click(force=True))
    assert following.get_attribute("aria-disabled") == "true"
    tool(explorer, "reset").click()
    pressed = walk(explorer, lambda: following.press("ArrowRight"))
    assert clicked == pressed
    assert len(clicked) >= 3
    recorded = [count for _, count, _ in clicked]
    assert recorded == sorted(recorded)
    assert recorded[-1] > recorded[0]


def test_keys_go_back_to_the_end_and_to_the_start(explorer):
    tools, start = tool(explorer, "next"), state(explorer)
    tools.press("End")
    end = state(explorer)
    assert end != start
    tools.press("ArrowLeft")
    assert state(explorer) != end
    tools.press("ArrowRight")
    assert state(explorer) == end
    tools.press("Home")
    assert state(explorer) == start


def test_ends_keep_the_focus_and_do_nothing(explorer):
    back, start = tool(explorer, "previous"), state(explorer)
    assert back.get_attribute("aria-disabled") == "true"
    back.focus()
    back.press("Enter")
    assert state(explorer) == start
    assert back.evaluate("e => document.activeElement === e")


def test_a_chosen_call_says_whether_it_was_traced(explorer, page):
    verdicts = []
    for one in page.locator(".trace-explorer").all():
        calls = one.locator("button.trace-call")
        for call in calls.all():
            call.press("Enter")
            assert call.get_attribute("aria-pressed") == "true"
            assert one.locator("button.trace-call[aria-pressed=true]").count() == 1
            verdict = call.get_attribute("data-verdict")
            assert SAID[verdict] in call.locator(".trace-verdict").inner_text()
            verdicts.append(verdict)
    assert set(verdicts) == set(SAID)


def test_without_javascript_the_tables_stand_there(browser, server):
    with browser.new_context(java_script_enabled=False) as tab:
        page = tab.new_page()
        page.goto(f"{server.url}chapters/02_jit.html")
        first = page.locator(".trace-explorer").first
        assert first.locator("table.trace-calls").first.is_visible()
        assert first.locator("table.trace-lines").first.is_visible()
        assert first.locator("button").count() == 0


def test_an_explorer_in_use_is_accessible(browser, server):
    with browser.new_context(viewport=PHONE, reduced_motion="reduce") as tab:
        visit = Visit(tab, server.url, "chapters/02_jit.html")
        explorer = visit.page.locator(".trace-explorer").first
        explorer.locator("button.trace-call").last.click()
        tool(explorer, "next").click()
        found = visit.see("overflow", "motion") + visit.axe()
    assert not visit.findings + found
