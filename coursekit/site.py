"""What the book asks of Sphinx beyond `_config.yml`.

- The exercises and solutions of a chapter stand below it in the table of
  contents, so that a chapter is one line in `_toc.yml`.
- The texts that notebooks are made from are no pages.
- `REPOSITORY_URL` in the environment overrides the address of the repository.
- 'Suggest edit' opens the text that people edit, not the notebook made from it.
- A page loads MathJax when it shows maths, and CSS for the icons that exist.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from pygments.lexer import RegexLexer
from pygments.token import Name, Text
from sphinx.util import logging
from sphinx_external_toc.api import Document, FileItem, TocTree

from coursekit.course import Course

HOMES = ("chapters", "reference")
PAIRED = {"exercises": "Exercises", "solutions": "Solutions"}
THEME_CSS = "_static/styles/pydata-sphinx-theme.css"
FONTS = "assets/vendor/fontawesome/icons.json"
ICON_RULE = re.compile(r'(?:\.fa-[a-z0-9-]+:before,?)+\{content:"\\([0-9a-f]+)"\}')

log = logging.getLogger(__name__)


class ErrorLexer(RegexLexer):
    """An error's name stands out; what it says is prose, and never fails to lex."""

    tokens = {
        "root": [
            (r"^[\w.]*(Error|Exception|Failed|Warning)\b", Name.Exception),
            (r".+\n?|\n", Text),
        ]
    }


def set_address(app, config):
    """Hand the repository's address to the theme's buttons."""
    course = Course(Path(app.srcdir))
    config.html_theme_options["repository_url"] = course.address
    if not course.has_address:
        log.info("The repository's address is a placeholder: %s", course.address)


def skip_sources(app, config):
    """Exclude the text of every notebook: the book shows the notebook itself."""
    root = Path(app.srcdir)
    sources = [page.relative_to(root).as_posix() for page in Course(root).pages()]
    config.exclude_patterns = config.exclude_patterns + sources


def nest_exercises(app, config):
    """Put exercises and solutions below the page that they go with."""
    site_map = config.external_site_map
    for name in list(site_map):
        home, _, stem = name.partition("/")
        if home in HOMES:
            for page in _paired(Path(app.srcdir), stem):
                site_map[page.docname] = page
                _children(site_map[name]).append(FileItem(page.docname))


def _paired(root, stem):
    for folder, title in PAIRED.items():
        if (root / folder / f"{stem}.ipynb").is_file():
            yield Document(f"{folder}/{stem}", title=title)


def _children(page):
    if not page.subtrees:
        page.subtrees.append(TocTree([], titlesonly=True))
    return page.subtrees[0].items


def edit_the_source(app, pagename, templatename, context, doctree):
    """Point the edit button at the source of a generated notebook."""
    folder, _, stem = pagename.partition("/")
    source = f"solutions/{stem}.py" if folder in PAIRED else f"{pagename}.md"
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if button.get("label") == "source-edit-button":
                button["url"] = button["url"].replace(f"{pagename}.ipynb", source)


def drop_mathjax(app, pagename, templatename, context, doctree):
    """Leave MathJax out where Sphinx adds it for the sake of pages below."""
    if doctree and not any(doctree.findall(_is_maths)):
        scripts = context["script_files"]
        context["script_files"] = [s for s in scripts if not _is_mathjax(s)]


def _is_maths(node):
    return isinstance(node, (nodes.math, nodes.math_block))


def _is_mathjax(script):
    return "mathjax" in f"{script.filename}{script.attributes}".lower()


def drop_icon_rules(app, exception):
    """Take the rules of absent icons out of the theme's CSS, a third of it."""
    css = Path(app.outdir) / THEME_CSS
    if exception is None and css.is_file():
        fonts = json.loads((Path(app.srcdir) / FONTS).read_text(encoding="utf-8"))
        held = {code for font in fonts.values() for code in font["codes"]}
        text = css.read_text(encoding="utf-8")
        text = ICON_RULE.sub(lambda rule: rule[0] if rule[1] in held else "", text)
        css.write_text(text, encoding="utf-8")


def setup(app):
    # sphinx_external_toc parses _toc.yml at priority 900; Sphinx adds MathJax at
    # 500, and the theme makes its buttons at 501.
    app.add_lexer("course-error", ErrorLexer)
    app.connect("config-inited", set_address)
    app.connect("config-inited", skip_sources)
    app.connect("config-inited", nest_exercises, priority=950)
    app.connect("html-page-context", edit_the_source, priority=502)
    app.connect("html-page-context", drop_mathjax, priority=502)
    app.connect("build-finished", drop_icon_rules)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
