"""Quick questions and progress, by mouse and by keyboard, before and after reloads."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.look import PHONE, Visit

CHAPTER, EXERCISES = "chapters/02_jit", "exercises/02_jit"
KEY = "jax-course-progress"


@pytest.fixture
def chapter(page, server):
    page.goto(f"{server.url}{CHAPTER}.html")
    return page


def stored(page):
    return json.loads(page.evaluate(f"localStorage.getItem('{KEY}')") or "{}")


def right_and_wrong(page, quiz):
    """Numbers of the right option and of a wrong one, as the explanations tell."""
    texts = [why.text_content().strip() for why in quiz.locator(".quiz-why").all()]
    right = next(i for i, text in enumerate(texts) if text.startswith("Right."))
    return right, (right + 1) % len(texts)


def answer(page, quiz):
    right, _ = right_and_wrong(page, quiz)
    quiz.locator(".quiz-option").nth(right).click()


def test_a_wrong_answer_explains_itself_and_may_be_mended(chapter):
    quiz = chapter.locator(".quiz").first
    right, wrong = right_and_wrong(chapter, quiz)
    assert quiz.get_attribute("data-state") == "open"
    assert quiz.locator(".quiz-why:visible").count() == 0
    quiz.locator(".quiz-option").nth(wrong).click()
    assert quiz.get_attribute("data-state") == "tried"
    tried = quiz.locator(".quiz-option[data-verdict=wrong]")
    assert tried.count() == 1
    assert quiz.locator(".quiz-why").nth(wrong).is_visible()
    assert quiz.locator(".quiz-why").nth(right).is_hidden()
    assert "not right" in quiz.locator(".quiz-status").inner_text()
    quiz.locator(".quiz-option").nth(right).click()
    assert quiz.get_attribute("data-state") == "right"
    assert "is right" in quiz.locator(".quiz-status").inner_text()


def test_a_question_is_answered_without_a_mouse(chapter):
    quiz = chapter.locator(".quiz").first
    right, wrong = right_and_wrong(chapter, quiz)
    quiz.locator(".quiz-option").first.focus()
    for i in range(max(right, wrong) + 1):
        if i == wrong:
            chapter.keyboard.press("Space")
            assert quiz.get_attribute("data-state") in ("tried", "right")
        if i == right:
            chapter.keyboard.press("Enter")
        chapter.keyboard.press("Tab")
    assert quiz.get_attribute("data-state") == "right"


def test_answers_outlive_a_reload_and_can_be_forgotten(chapter):
    answer(chapter, chapter.locator(".quiz").first)
    chapter.reload()
    quiz = chapter.locator(".quiz").first
    assert quiz.get_attribute("data-state") == "right"
    assert quiz.locator("[data-verdict=right]").count() == 1
    quiz.locator("button.quiz-again").click()
    assert quiz.get_attribute("data-state") == "open"
    chapter.reload()
    assert chapter.locator(".quiz").first.get_attribute("data-state") == "open"


def test_every_explanation_can_be_read_after_the_right_answer(chapter):
    quiz = chapter.locator(".quiz").first
    answer(chapter, quiz)
    every = quiz.locator("button.quiz-all")
    assert every.get_attribute("aria-expanded") == "false"
    every.click()
    assert every.get_attribute("aria-expanded") == "true"
    hidden = quiz.locator(".quiz-why:not(:visible)")
    assert hidden.count() == 0


def test_all_questions_answered_finish_the_page(chapter):
    for quiz in chapter.locator(".quiz").all():
        answer(chapter, quiz)
    assert finish(chapter).get_attribute("aria-pressed") == "true"
    done = chapter.locator(".bd-sidebar-primary a.course-done")
    assert done.count() == 1
    assert "finished" in done.inner_text()
    total = chapter.locator(".quiz").count()
    assert stored(chapter)["pages"][CHAPTER]["of"] == total
    assert f"{total} of {total}" in chapter.inner_text(".course-finish-count")


def finish(page):
    return page.locator(".course-finish-button")


def test_a_page_is_marked_by_keyboard_and_ticked_on_other_pages(page, server):
    page.goto(f"{server.url}{EXERCISES}.html")
    finish(page).focus()
    page.keyboard.press("Enter")
    assert finish(page).get_attribute("aria-pressed") == "true"
    page.goto(f"{server.url}{CHAPTER}.html")
    assert page.locator(".bd-sidebar-primary a.course-done").count() == 1
    page.goto(f"{server.url}{EXERCISES}.html")
    finish(page).press("Space")
    assert finish(page).get_attribute("aria-pressed") == "false"


def test_questions_with_everything_unfolded_are_accessible(browser, server):
    with browser.new_context(viewport=PHONE, reduced_motion="reduce") as tab:
        visit = Visit(tab, server.url, f"{CHAPTER}.html")
        for quiz in visit.page.locator(".quiz").all():
            _, wrong = right_and_wrong(visit.page, quiz)
            quiz.locator(".quiz-option").nth(wrong).click()
            answer(visit.page, quiz)
            quiz.locator("button.quiz-all").click()
        found = visit.see("overflow", "motion") + visit.axe()
    assert not visit.findings + found


def test_without_javascript_a_question_is_a_list_with_a_folded_answer(browser, server):
    with browser.new_context(java_script_enabled=False) as tab:
        page = tab.new_page()
        page.goto(f"{server.url}{CHAPTER}.html")
        assert page.locator(".quiz-option").count() == 0
        fold = page.locator("details", has_text="Right.").first
        assert fold.locator("xpath=preceding-sibling::ol[1]/li").count() >= 2
        text = fold.locator("ol li").first
        assert text.is_hidden()
        fold.locator("summary").click()
        assert text.is_visible()


def test_a_reader_whose_browser_stores_nothing_can_still_answer(browser, server):
    with browser.new_context() as tab:
        tab.add_init_script(
            "Object.defineProperty(window, 'localStorage', "
            "{ get() { throw new DOMException('blocked', 'SecurityError'); } })"
        )
        page = tab.new_page()
        page.goto(f"{server.url}{CHAPTER}.html")
        quiz = page.locator(".quiz").first
        answer(page, quiz)
        assert quiz.get_attribute("data-state") == "right"


@pytest.fixture
def progress(chapter, server):
    """The landing page, after one question of a chapter and one exercise set."""
    answer(chapter, chapter.locator(".quiz").first)
    chapter.goto(f"{server.url}{EXERCISES}.html")
    finish(chapter).click()
    chapter.goto(f"{server.url}intro.html")
    return chapter


def stop(page):
    return page.locator(f"ol.course-map > li[data-page='{CHAPTER}']")


def tool(page, name):
    return page.locator(f".course-progress button[data-do={name}]")


def said(page):
    return page.locator(".course-said")


def test_the_map_shows_how_far_one_is(progress):
    assert stop(progress).get_attribute("data-progress") == "begun"
    assert "1 of" in stop(progress).locator(".course-mark").inner_text()
    others = progress.locator("ol.course-map > li[data-progress=none]")
    assert others.count() == progress.locator("ol.course-map > li").count() - 1
    assert progress.inner_text(".course-sum").startswith("1 of ")


def test_progress_travels_in_a_file_and_can_be_reset(progress, tmp_path):
    before, kept = stored(progress), tmp_path / "progress.json"
    with progress.expect_download() as download:
        tool(progress, "export").click()
    assert download.value.suggested_filename.startswith("jax-course-progress-")
    download.value.save_as(kept)
    assert json.loads(kept.read_text(encoding="utf-8")) == before

    tool(progress, "reset").click()
    progress.keyboard.press("Escape")
    expect(said(progress)).to_have_text("Nothing was changed.")
    assert stored(progress) == before
    tool(progress, "reset").click()
    progress.locator("dialog.course-ask button[value=reset]").click()
    expect(stop(progress)).to_have_attribute("data-progress", "none")

    progress.set_input_files(".course-progress input[type=file]", kept)
    progress.locator("dialog.course-ask button[value=merge]").click()
    expect(said(progress)).to_contain_text("was merged")
    expect(stop(progress)).to_have_attribute("data-progress", "begun")
    assert stored(progress)["pages"] == before["pages"]


def test_a_file_that_is_no_progress_changes_nothing(progress, tmp_path):
    before, other = stored(progress), tmp_path / "other.json"
    other.write_text('{"format": "something else"}', encoding="utf-8")
    progress.set_input_files(".course-progress input[type=file]", other)
    expect(said(progress)).to_contain_text("so nothing was changed")
    assert stored(progress) == before


def test_the_dialog_takes_the_focus_and_gives_it_back(progress):
    tool(progress, "reset").press("Enter")
    assert progress.evaluate("!!document.activeElement.closest('dialog.course-ask')")
    progress.keyboard.press("Escape")
    expect(progress.locator("dialog.course-ask")).to_have_count(0)
    expect(tool(progress, "reset")).to_be_focused()
