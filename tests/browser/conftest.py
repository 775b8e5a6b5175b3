"""A Chromium that is installed already, and the site served to it."""

import os
import shutil
from pathlib import Path

import pytest

from tests.browser.serve import serving

AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
CHROMIUM = ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome")
CHOICES = ("auto", "require", "skip")
# Nothing that the browser does for itself: no updates, no requests of its own.
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()


def find_chromium():
    """The path of a Chromium or Chrome, or None. CHROMIUM in the environment leads."""
    named = os.environ.get("CHROMIUM")
    found = map(shutil.which, (named,) if named else CHROMIUM)
    return next((path for path in found if path), None)


def why_not(choice, chromium, axe):
    """Why these tests are skipped, or '' where they run. Like TORCH, see conftest.py.

    Raises:
      pytest.UsageError: an unknown choice, or a browser is required and missing.
    """
    if choice not in CHOICES:
        raise pytest.UsageError(f"BROWSER={choice}: choose one of {', '.join(CHOICES)}")
    if choice == "skip":
        return "BROWSER=skip"
    needed = {"Chromium": chromium, "axe-core": axe}
    missing = [name for name, found in needed.items() if not found]
    why = f"no {' and no '.join(missing)}: make browser" if missing else ""
    if why and choice == "require":
        raise pytest.UsageError(f"{why}; BROWSER=require wants it")
    return why


def pytest_collection_modifyitems(config, items):
    """Skip what needs a browser where there is none, with one reason."""
    choice = os.environ.get("BROWSER", "auto")
    why = why_not(choice, find_chromium(), AXE.is_file())
    for item in items:
        if why and "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests of a process."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # as Playwright's other waits: machines are busy
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=find_chromium(), args=FLAGS
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def server(site):
    """The site over http, compressed."""
    with serving(site) as running:
        yield running


@pytest.fixture
def page(browser):
    """A page of a reader who comes for the first time, on a wide screen."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        yield context.new_page()
