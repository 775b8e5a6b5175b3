"""Directives of the first page: start, example, ways in, course map.

Nothing on it is typed that a notebook or `_toc.yml` knows.
"""

import html
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from coursekit import notebook as nb
from coursekit.course import Course
from coursekit.site import course_map, facts

FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX"}


class CourseDirective(SphinxDirective):
    """What the directives share: the course, and links from this page."""

    @property
    def course(self):
        return Course(Path(self.env.srcdir))

    def depend(self, *docnames):
        """Read this page again when `_toc.yml` or one of these notebooks changes."""
        self.env.note_dependency(str(self.course.root / "_toc.yml"))
        for name in docnames:
            self.env.note_dependency(str(self.course.root / f"{name}.ipynb"))

    def uri(self, docname):
        return self.env.app.builder.get_relative_uri(self.env.docname, docname)

    def first(self):
        """The facts of the first chapter."""
        name = facts.chapters(self.course.root)[0]
        self.depend(name)
        return facts.of(self.course.root, name)


class Start(CourseDirective):
    """`course-start`: links to the first chapter, here and in Colab."""

    def run(self):
        first = self.first()
        here, title = self.uri(first.docname), html.escape(first.title)
        colab = html.escape(self.course.colab(f"{first.docname}.ipynb"))
        return _raw(
            '<p class="course-begin">'
            f'<a class="course-start" href="{here}">Start with chapter 1: {title}</a> '
            f'<a href="{colab}">Open it in Colab</a></p>'
        )


class Pair(CourseDirective):
    """`course-pair PAGE`: a PyTorch cell and the JAX cell after it, with outputs.

    Both are copied from the executed notebook of the page; `:pair:` says which,
    from 1.
    """

    required_arguments = 1
    option_spec = {"pair": directives.positive_int}

    def run(self):
        name, at = self.arguments[0], self.options.get("pair", 1)
        self.depend(name)
        found = pairs(nb.load(self.course.root / f"{name}.ipynb"))
        if len(found) < at:
            raise self.error(f"{name} has {len(found)} pairs of a torch and a jax cell.")
        pair = nodes.container(classes=["course-pair"])
        for tag, cell in zip(FRAMEWORKS, found[at - 1]):
            pair += _cell(tag, cell)
        return [pair]


class Way(CourseDirective):
    """`course-way TITLE`: one way into the course, as a card with a link.

    `:to:` is `start`, `colab` (both of the first chapter) or a page. A way to a page
    that `_toc.yml` does not name is left out.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = {"to": directives.unchanged_required, "link": directives.unchanged}

    def run(self):
        to = self._address()
        if not to:
            return []
        card = nodes.container(classes=["course-way"])
        card += nodes.paragraph("", self.arguments[0], classes=["course-way-title"])
        self.state.nested_parse(self.content, self.content_offset, card)
        link = f'<p><a href="{html.escape(to)}">{html.escape(self.options["link"])}</a></p>'
        return [card, *_raw(link, card)]

    def _address(self):
        to = self.options["to"]
        if to == "start":
            return self.uri(self.first().docname)
        if to == "colab":
            return self.course.colab(f"{self.first().docname}.ipynb")
        self.depend()
        return self.uri(to) if to in self.course.toc() else ""


class Map(CourseDirective):
    """`course-map`: every chapter of `_toc.yml`, with what its notebooks hold."""

    def run(self):
        root = self.course.root
        names = [name for _, pages in facts.parts(root) for name in pages]
        sets = [f"exercises/{name.rpartition('/')[2]}" for name in names]
        self.depend(*(n for n in names + sets if (root / f"{n}.ipynb").is_file()))
        return _raw(course_map.render(root, self.uri))


def pairs(notebook):
    """[(torch cell, jax cell)] of a notebook, as far as one follows the other."""
    tags = [set(c.metadata.get("tags", [])) for c in notebook.cells]
    together = zip(notebook.cells, tags, notebook.cells[1:], tags[1:])
    return [(a, b) for a, s, b, t in together if "torch" in s and "jax" in t]


def _cell(tag, cell):
    half = nodes.container(classes=["course-half", f"course-{tag}"])
    half += nodes.paragraph("", FRAMEWORKS[tag], classes=["course-half-title"])
    half += nodes.literal_block(cell.source, cell.source, language="python")
    text = "".join(o.text for o in cell.outputs if o.output_type == "stream")
    if text:
        out = nodes.literal_block(text, text, language="text")
        half += nodes.container("", out, classes=["course-printed"])
    return half


def _raw(text, into=None):
    raw = nodes.raw("", text, format="html")
    if into is None:
        return [raw]
    into += raw
    return []


def setup(app):
    """Register the directives, and the style that only the first page loads."""
    app.add_directive("course-start", Start)
    app.add_directive("course-pair", Pair)
    app.add_directive("course-way", Way)
    app.add_directive("course-map", Map)
    app.add_css_file("landing.css")
