"""Without a browser the tests say so, once and in one way; they never pass unseen."""

import json
from pathlib import Path

import pytest

from tests.browser.conftest import find_chromium, why_not

LOCKS = sorted(Path(__file__).parents[1].glob("*/package-lock.json"))


def test_what_is_missing_is_named():
    assert why_not("auto", "/usr/bin/chromium", True) == ""
    assert why_not("auto", None, True) == "no Chromium: make browser"
    assert why_not("auto", None, False) == "no Chromium and no axe-core: make browser"
    assert why_not("skip", "/usr/bin/chromium", True) == "BROWSER=skip"


@pytest.mark.parametrize(
    "choice, chromium, axe",
    [("require", None, True), ("require", "chromium", False), ("perhaps", "c", True)],
)
def test_what_is_required_must_be_there(choice, chromium, axe):
    with pytest.raises(pytest.UsageError):
        why_not(choice, chromium, axe)


def test_the_environment_names_the_browser(monkeypatch, tmp_path):
    own = tmp_path / "my-chromium"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(own))
    assert find_chromium() == str(own)
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "absent"))
    assert find_chromium() is None


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.parent.name)
def test_npm_packages_are_pinned_and_tied_to_no_host(lock):
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    wanted = packages.pop("")["devDependencies"]
    for name, version in wanted.items():
        assert packages[f"node_modules/{name}"]["version"] == version
    for name, package in packages.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name


def test_there_are_locks_to_look_at():
    assert [lock.parent.name for lock in LOCKS] == ["browser", "lighthouse"]
