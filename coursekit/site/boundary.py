"""The table of exercises whose hidden checks see only a compiled program."""

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from coursekit import master
from coursekit.course import Course


class GradingBoundary(SphinxDirective):
    """`{grading-boundary}`: one row a set, made from the masters."""

    def run(self):
        listed = set(Course(Path(self.env.srcdir)).toc())
        rows = [("Set", "Behind the boundary", "Beside the answer")]
        for path in Course(Path(self.env.srcdir)).masters():
            self.env.note_dependency(str(path))
            if any(f"{home}/{path.stem}" in listed for home in ("chapters", "reference")):
                rows.append(_row(master.read(path)))
        return [_table(rows)]


def _row(read):
    hidden = [(e.id, c) for e in read.exercises for c in e.of("hidden")]
    apart = list(dict.fromkeys(id for id, c in hidden if c.apart))
    beside = [id for id in dict.fromkeys(id for id, _ in hidden) if id not in apart]
    return read.stem, ", ".join(apart) or "none", ", ".join(beside) or "none"


def _table(rows):
    """A table whose first row is its head."""
    width = len(rows[0])
    group = nodes.tgroup("", cols=width)
    group += [nodes.colspec(colwidth=1) for _ in range(width)]
    head, body = nodes.thead(), nodes.tbody()
    for place, row in zip((head, *[body] * len(rows)), rows):
        cells = [nodes.entry("", nodes.paragraph("", text)) for text in row]
        place += nodes.row("", *cells)
    group += [head, body]
    return nodes.table("", group)


def setup(app):
    app.add_directive("grading-boundary", GradingBoundary)
