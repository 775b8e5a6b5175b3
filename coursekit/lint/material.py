"""Everything that rules look at, read once."""

from functools import cached_property

from coursekit import build, master, pages
from coursekit import notebook as nb


class Material:
    """Sources and committed notebooks of a course, by path from its root."""

    def __init__(self, course):
        self.course = course

    def name(self, path):
        """A path as messages give it."""
        return path.relative_to(self.course.root).as_posix()

    @cached_property
    def masters(self):
        """{'solutions/NN_topic.py': Master}"""
        return {self.name(p): master.read(p) for p in self.course.masters()}

    @cached_property
    def pages(self):
        """{'chapters/NN_topic.md': fresh notebook without outputs}"""
        return {
            self.name(p): pages.chapter(self.course, p) for p in self.course.pages()
        }

    @property
    def chapters(self):
        return {n: p for n, p in self.pages.items() if n.startswith("chapters/")}

    @cached_property
    def notebooks(self):
        """{'chapters/NN_topic.ipynb': committed notebook}, of those that exist."""
        found = {}
        for job in build.jobs(self.course):
            for path in job.targets:
                if path.exists():
                    found[self.name(path)] = nb.load(path)
        return found

    @cached_property
    def jobs(self):
        return build.jobs(self.course)


def headings(notebook):
    """The `##` headings of a page, in order."""
    lines = [
        line for c in notebook.cells if c.cell_type == "markdown"
        for line in c.source.splitlines()
    ]  # fmt: skip
    return [line.lstrip("# ").strip() for line in lines if line.startswith("##")]


def tags(cell):
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def authored(notebook):
    """(number from 1, cell) of every cell that the build did not add."""
    return [
        (i, c) for i, c in enumerate(notebook.cells, 1) if not c.id.startswith("course-")
    ]


def code_cells(notebook):
    """(number, cell) of every authored code cell."""
    return [(i, c) for i, c in authored(notebook) if c.cell_type == "code"]


def markdown_cells(notebook):
    """(number, cell) of every authored Markdown cell."""
    return [(i, c) for i, c in authored(notebook) if c.cell_type == "markdown"]
