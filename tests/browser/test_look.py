"""The looks at a page see what is wrong: a page with every fault, and one with none."""

import pytest

from tests.browser.look import PHONE, Visit
from tests.browser.serve import serving

SOUND = """<!doctype html><html lang="en"><title>Sound</title>
<body><main><article><h1 id="top">Sound</h1><p>Dark on light.</p>
<p><a href="page.html#top">Up</a></p></article></main></body></html>"""
FAULTS = {
    "console: wrong": "<script>console.error('wrong')</script>",
    "error: boom": "<script>throw Error('boom')</script>",
    "asks another host": "<img alt='x' src='http://localhost:9/x.png'>",
    "404": "<link rel=stylesheet href=absent.css>",
    "maths not rendered": "<p><span class=math>x^2</span></p>",
    "raw TeX": r"<p>as \\(x\\) or $$y$$</p>",
    "image without text": "<img src='data:,'>",
    "scrolls sideways": "<p style='width: 3000px'>wide</p>",
    "moves in spite": "<p style='transition: opacity 1s'>slow</p>",
    "dead link": "<p><a href=absent.html>nowhere</a></p>",
    "dead anchor": "<p><a href=#absent>nowhere</a></p>",
    "button-name": "<button></button>",
    "axe, light: color-contrast": "<p style='color: #ccc; background: #fff'>pale</p>",
    "axe, dark: color-contrast": (
        "<style>[data-theme=dark] i { color: #111; background: #000 }</style><i>dim</i>"
    ),
}


def look(browser, folder, fault=""):
    html = SOUND.replace("</article>", f"{fault}</article>")
    (folder / "page.html").write_text(html, encoding="utf-8")
    size = {"viewport": PHONE, "reduced_motion": "reduce"}
    with serving(folder) as server, browser.new_context(**size) as tab:
        visit = Visit(tab, server.url, "page.html")
        found = visit.see("maths", "images", "overflow", "motion")
        found += visit.dead_links(folder)
        return visit.findings + found + visit.axe()


def test_a_sound_page_has_no_findings(browser, tmp_path):
    (tmp_path / "favicon.ico").write_bytes(b"")
    assert look(browser, tmp_path) == []


@pytest.mark.parametrize("finding", FAULTS)
def test_a_fault_is_seen(browser, tmp_path, finding):
    (tmp_path / "favicon.ico").write_bytes(b"")
    found = look(browser, tmp_path, FAULTS[finding])
    assert any(finding in line for line in found), found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_code_are_seen(browser, tmp_path, theme):
    (tmp_path / "favicon.ico").write_bytes(b"")
    rule = f"[data-theme={theme}] .k {{ color: #eee; background: #fff }}"
    line = "<span class=k>def</span> f <span class=n>x</span>\n"
    found = look(browser, tmp_path, f"<style>{rule}</style><pre>{40 * line}</pre>")
    assert any(f"axe, {theme}: color-contrast (1)" in line for line in found), found
