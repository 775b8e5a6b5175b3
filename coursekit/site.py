"""What the book asks of Sphinx beyond `_config.yml`.

- The exercises and solutions of a chapter stand below it in the table of
  contents, so that a chapter is one line in `_toc.yml`.
- A text source is left out when the notebook made from it stands beside it.
- `REPOSITORY_URL` in the environment overrides the address of the repository.
- 'Suggest edit' opens the text that people edit, not the notebook made from it.
"""

from pathlib import Path

from sphinx.util import logging
from sphinx_external_toc.api import Document, FileItem, TocTree

from coursekit.course import Course

HOMES = ("chapters", "reference")
PAIRED = {"exercises": "Exercises", "solutions": "Solutions"}

log = logging.getLogger(__name__)


def set_address(app, config):
    """Hand the repository's address to the theme's buttons."""
    course = Course(Path(app.srcdir))
    config.html_theme_options["repository_url"] = course.address
    if not course.has_address:
        log.info("The repository's address is a placeholder: %s", course.address)


def skip_sources(app, config):
    """Exclude `chapters/NN_x.md` where `chapters/NN_x.ipynb` exists."""
    root = Path(app.srcdir)
    sources = [path for home in HOMES for path in (root / home).glob("*.md")]
    config.exclude_patterns = config.exclude_patterns + [
        path.relative_to(root).as_posix()
        for path in sorted(sources)
        if path.with_suffix(".ipynb").is_file()
    ]


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


def setup(app):
    # sphinx_external_toc parses _toc.yml at priority 900, and the theme makes its
    # buttons at 501.
    app.connect("config-inited", set_address)
    app.connect("config-inited", skip_sources)
    app.connect("config-inited", nest_exercises, priority=950)
    app.connect("html-page-context", edit_the_source, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
