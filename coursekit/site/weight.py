"""A page loads what it uses: maths, icons, styles."""

import json
import re
from pathlib import Path

from docutils import nodes

# What a page must hold to be sent the style and the script of that name.
OWN = {"explorer": 'class="trace-explorer"', "rosetta": '<a id="row-'}
THEME_CSS = "_static/styles/pydata-sphinx-theme.css"
FONTS = "assets/vendor/fontawesome/icons.json"
ICON_RULE = re.compile(r'(?:\.fa-[a-z0-9-]+:before,?)+\{content:"\\([0-9a-f]+)"\}')


def drop_mathjax(app, pagename, templatename, context, doctree):
    """Leave MathJax out where Sphinx adds it for the sake of pages below."""
    if doctree and not any(doctree.findall(_is_maths)):
        scripts = context["script_files"]
        context["script_files"] = [s for s in scripts if not _is_mathjax(s)]


def _is_maths(node):
    return isinstance(node, (nodes.math, nodes.math_block))


def _is_mathjax(script):
    return "mathjax" in f"{script.filename}{script.attributes}".lower()


def drop_unused(app, pagename, templatename, context, doctree):
    """Leave out styles and scripts of what a page does not show.

    The themes' code colours go everywhere: assets/code.css has the course's own.
    """
    unused = {"_static/pygments.css"}
    if pagename != app.config.root_doc:
        unused.add("_static/landing.css")
    for name, mark in OWN.items():
        if mark not in context.get("body", ""):
            unused |= {f"_static/{name}.css", f"_static/{name}.js"}
    for kind in ("css_files", "script_files"):
        kept = [f for f in context[kind] if str(f.filename) not in unused]
        context[kind] = kept


def drop_icon_rules(app, exception):
    """Take the rules of absent icons out of the theme's CSS, a third of it."""
    css = Path(app.outdir) / THEME_CSS
    if exception is None and css.is_file():
        fonts = json.loads((Path(app.srcdir) / FONTS).read_text(encoding="utf-8"))
        held = {code for font in fonts.values() for code in font["codes"]}
        text = css.read_text(encoding="utf-8")
        text = ICON_RULE.sub(lambda rule: rule[0] if rule[1] in held else "", text)
        css.write_text(text, encoding="utf-8")
