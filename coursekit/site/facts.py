"""What the committed notebooks say of themselves: minutes, exercises, versions."""

import re
from dataclasses import dataclass
from functools import cache

import yaml

from coursekit import notebook as nb
from coursekit.pages import minutes

# The line below the heading of an exercise, as coursekit.pages writes it.
WORTH = re.compile(r"^\*([\w-]+) · (\d+) minutes? · (\d+) points?\b", re.MULTILINE)


@dataclass(frozen=True)
class Facts:
    """What is known of a page that is a notebook.

    `levels`, `points` and `set_minutes` belong to the exercise set with the same
    stem, and are empty or 0 where there is none. `ran_on` maps packages to
    versions, and 'date' to the day of the last run.
    """

    docname: str
    title: str
    minutes: int
    quizzes: int
    levels: tuple
    points: int
    set_minutes: int
    ran_on: dict

    @property
    def stem(self):
        return self.docname.rpartition("/")[2]


def of(root, docname):
    """The facts of a page, or None where no notebook stands behind it."""
    page = _load(root / f"{docname}.ipynb")
    if page is None:
        return None
    authored = [c for c in page.cells if not c.id.startswith("course-")]
    exercises = statements(root, docname.rpartition("/")[2])
    return Facts(
        docname=docname,
        title=title(authored[0].source),
        minutes=minutes(authored),
        quizzes=sum("quiz" in c.metadata.get("tags", []) for c in authored),
        levels=tuple(level for level, _, _ in exercises),
        points=sum(points for _, _, points in exercises),
        set_minutes=sum(length for _, length, _ in exercises),
        ran_on=dict(page.metadata.get("course", {}).get("ran_on", {})),
    )


def statements(root, stem):
    """[(level, minutes, points)] of an exercise set, in order."""
    page = _load(root / f"exercises/{stem}.ipynb")
    cells = page.cells if page else []
    found = [WORTH.search(c.source) for c in cells if c.cell_type == "markdown"]
    return [(m[1], int(m[2]), int(m[3])) for m in found if m]


def title(text):
    """The first heading of a Markdown text, without its marks."""
    heading = re.search(r"^# +(.+)$", text, re.MULTILINE)
    return heading[1].replace("`", "").strip() if heading else ""


def parts(root):
    """[(caption, [docname])] as `_toc.yml` has them."""
    table = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    return [
        (part["caption"], [page["file"] for page in part["chapters"]])
        for part in table["parts"]
    ]


def chapters(root):
    """Docnames of all chapters, in order."""
    names = [name for _, pages in parts(root) for name in pages]
    return [name for name in names if name.startswith("chapters/")]


def _load(path):
    return _read(path, path.stat().st_mtime_ns) if path.is_file() else None


@cache
def _read(path, changed):
    return nb.load(path)
