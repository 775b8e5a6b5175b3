"""The line below a title on the site: what the page takes, and where it opens.

A notebook carries a plain line with the same facts, for Colab and GitHub. The site
puts links in its place that only the site can know.
"""

import html
import json
import posixpath
from pathlib import Path

from coursekit.course import Course
from coursekit.furniture import HOMES, length
from coursekit.site import address, facts

VERSIONS = ("jax", "flax", "torch")


def replace_banner(app, docname, source):
    """Put the bar in place of the first paragraph of a notebook's banner cell."""
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".ipynb":
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        if cell.get("id") == "course-banner":
            text = "".join(cell["source"])
            _, _, rest = text.partition("\n\n")
            cell["source"] = f"{render(Course(Path(app.srcdir)), docname)}\n\n{rest}"
            _depend(app, docname)
    source[0] = json.dumps(notebook)


def _depend(app, docname):
    root, stem = Path(app.srcdir), docname.rpartition("/")[2]
    for folder in ("chapters", "exercises", "reference"):
        path = root / folder / f"{stem}.ipynb"
        if path.is_file():
            app.env.note_dependency(str(path))


def render(course, docname):
    """The bar of a page, as HTML in one line."""
    known = facts.of(course.root, docname)
    says = [*amounts(known), *last_run(known.ran_on)]
    links = [_link(*link) for link in links_of(course, known)]
    return (
        f'<div class="course-bar"><p class="course-facts">{sentence(says)}</p>'
        f'<ul class="course-links">{"".join(links)}</ul></div>'
    )


def sentence(parts):
    """Facts in one line, which opens with a capital."""
    parts = [part[:1].upper() + part[1:] for part in parts[:1]] + parts[1:]
    return " · ".join(f"<span>{part}</span>" for part in parts)


def amounts(known):
    """Minutes, exercises and points, where the page has them."""
    folder = known.docname.partition("/")[0]
    count = f"{len(known.levels)} exercises, {known.points} points"
    if folder == "solutions":
        return []
    if folder == "exercises":
        return [f"about {known.set_minutes} minutes", count]
    return [length(known.docname, known.minutes), *([count] if known.levels else [])]


def last_run(ran_on):
    """'last run on' versions and date, where the page says so."""
    if not ran_on:
        return []
    versions = ", ".join(f"{n} {ran_on[n]}" for n in VERSIONS if ran_on.get(n))
    date = html.escape(ran_on["date"])
    when = f'<time datetime="{date}">{date}</time>'
    return [f"last run on {html.escape(versions)}, {when}"]


def links_of(course, known):
    """[(kind, text, address)] of a page: its siblings, then where it opens."""
    notebook = f"{known.docname}.ipynb"
    here = posixpath.dirname(known.docname)
    source = posixpath.relpath(f"_sources/{notebook}", here)
    return [
        *_siblings(course, known, here),
        ("colab", "Open in Colab", course.colab(notebook)),
        ("binder", "Binder", address.binder(course, notebook)),
        ("download", "Download", source),
        ("edit", "Edit", address.edit(course, known.docname)),
    ]


def _siblings(course, known, here):
    home = course.home_of(known.stem) or "chapters"
    names = {home: HOMES[home].capitalize(), "exercises": "Exercises", "solutions": "Solutions"}
    for folder, text in names.items():
        page = f"{folder}/{known.stem}"
        if page != known.docname and (course.root / f"{page}.ipynb").is_file():
            yield folder, text, posixpath.relpath(f"{page}.html", here)


def _link(kind, text, to):
    extra = " download" if kind == "download" else ""
    return f'<li><a class="to-{kind}" href="{html.escape(to)}"{extra}>{text}</a></li>'
