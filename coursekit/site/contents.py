"""The table of contents: what is a page, and what stands below it."""

from pathlib import Path

from sphinx_external_toc.api import Document, FileItem, TocTree

from coursekit.course import Course

HOMES = ("chapters", "reference")
PAIRED = {"exercises": "Exercises", "solutions": "Solutions"}


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


def skip_drafts(app, config):
    """Exclude notebooks that the contents do not name: chapters being written."""
    root = Path(app.srcdir)
    for folder in (*HOMES, *PAIRED):
        for path in sorted((root / folder).glob("*.ipynb")):
            name = path.relative_to(root).as_posix()
            if name.removesuffix(".ipynb") not in config.external_site_map:
                config.exclude_patterns = [*config.exclude_patterns, name]


def _paired(root, stem):
    for folder, title in PAIRED.items():
        if (root / folder / f"{stem}.ipynb").is_file():
            yield Document(f"{folder}/{stem}", title=title)


def _children(page):
    if not page.subtrees:
        page.subtrees.append(TocTree([], titlesonly=True))
    return page.subtrees[0].items
