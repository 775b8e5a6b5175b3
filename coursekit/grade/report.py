"""Results as files for people and programs: CSV, JSON and a page for each student."""

import csv
import datetime
import io
import json
import re
from importlib import metadata, resources

import jinja2

from coursekit.errors import CourseError
from coursekit.files import write_whole

VERSIONS = ("jax", "jaxlib", "flax", "optax", "numpy")


def write(folder, plans, rows):
    """Write `grades.csv`, `grades.json` and `feedback/<student>.html`.

    Each file is written whole or not at all.

    Raises:
      CourseError: the folder can't be written, the disk is full.
    """
    try:
        write_whole(folder / "grades.csv", table(plans, rows))
        write_whole(folder / "grades.json", _json(plans, rows))
        page, names = _template(), _file_names(rows)
        (folder / "feedback").mkdir(exist_ok=True)
        for row in rows:
            text = page.render(row=row, plans=plans, today=_today(), versions=_versions())
            write_whole(folder / "feedback" / f"{names[row.student]}.html", text)
    except OSError as error:
        raise CourseError(
            f"{folder} can't be written ({error.strerror}): results are kept in "
            "results.jsonl; make room and run the same command with --resume."
        ) from None


def table(plans, rows):
    """`grades.csv` as text: one row a student, one column an exercise.

    The points of what was not graded are left empty: they are unknown, not zero.
    """
    ids = [t.id for p in plans for t in p.tasks]
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(["student", *ids, "total", "of", "status", "late", "flags"])
    whole = sum(p.points for p in plans)
    for row in rows:
        earned = {t.id: f"{t.earned:g}" for r in row.results for t in r.tasks}
        total = f"{row.earned:g}" if any(not r.reason for r in row.results) else ""
        cells = [_cell(row.student), *(earned.get(i, "") for i in ids), total, f"{whole:g}"]
        late = "late" if row.late else ""
        sheet.writerow([*cells, _cell(status(row)), late, _cell("; ".join(row.flags))])
    return out.getvalue()


def status(row):
    """'graded', or what was not graded and why."""
    reasons = [r for r in row.results if r.reason]
    if not reasons:
        return "graded"
    several = len(row.results) > 1
    told = [f"{r.stem}: {r.reason}" if several else r.reason for r in reasons]
    return f"not graded: {'; '.join(told)}"


def _cell(text):
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.strip()[:1] in ("=", "+", "-", "@") else text


def _json(plans, rows):
    sets = [{"name": p.stem, "title": p.title, "points": p.points} for p in plans]
    students = [
        {
            "student": row.student, "total": row.earned if row.graded else None,
            "status": status(row), "late": row.late, "flags": row.flags,
            "sets": [r.as_dict() | {"earned": None if r.reason else r.earned} for r in row.results],
        }
        for row in rows
    ]  # fmt: skip
    content = {"graded_on": _today(), "versions": _versions(), "sets": sets}
    return json.dumps(content | {"students": students}, indent=1, ensure_ascii=False) + "\n"


def _template():
    text = resources.files("coursekit.grade").joinpath("feedback.html").read_text("utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = "{:g}".format
    environment.filters["told"] = _told
    return environment.from_string(text)


def _told(check):
    """What a check says, without the name and the points that stand above it."""
    return check.says.removeprefix(f"✗ {check.name} 0/{check.points:g}: ")


def _file_names(rows):
    """{student: name of a file}, without slashes, and never the same twice."""
    names, taken = {}, set()
    for row in rows:
        name = re.sub(r"[^\w.@+ -]", "_", row.student).strip(". ") or "student"
        name = name.encode()[:180].decode(errors="ignore")  # a file system takes 255 bytes
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        names[row.student] = name
    return names


def _today():
    return datetime.date.today().isoformat()


def _versions():
    return {n: metadata.version(n) for n in VERSIONS}
