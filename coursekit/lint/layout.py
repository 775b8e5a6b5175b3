"""Rules about which files there are, and that they belong together."""

import re

from coursekit import build
from coursekit.errors import CourseError


def in_toc(material):
    """Every chapter and reference page stands in _toc.yml, and what stands there exists."""
    listed, root = material.course.toc(), material.course.root
    for name in material.pages:
        if name.removesuffix(".md") not in listed:
            yield f"{name}: not in _toc.yml; add '- file: {name.removesuffix('.md')}'."
    for entry in listed:
        if not any((root / f"{entry}{end}").is_file() for end in (".md", ".ipynb")):
            yield f"_toc.yml: '{entry}' does not exist; write it or take the line out."


def paired(material):
    """Every chapter has an exercise set, and every set its page."""
    stems = {m.stem for m in material.masters.values()}
    for name in material.chapters:
        stem = name.removeprefix("chapters/").removesuffix(".md")
        if stem not in stems:
            yield f"{name}: has no exercise set; write solutions/{stem}.py."
        if not re.fullmatch(r"\d\d_[a-z0-9_]+", stem):
            yield f"{name}: a chapter is named like 02_jit."
    for name, read in material.masters.items():
        if material.course.home_of(read.stem) is None:
            yield f"{name}: has no page; write chapters/{read.stem}.md."


def no_strays(material):
    """Every notebook in a generated folder is made from a source."""
    made = {material.name(p) for job in material.jobs for p in job.targets}
    for folder in ("chapters", "exercises", "solutions", "reference"):
        for path in sorted((material.course.root / folder).glob("*.ipynb")):
            if material.name(path) not in made:
                yield f"{material.name(path)}: is made from no source; remove it."


def fresh(material):
    """Committed notebooks are what their sources give today, and were run."""
    for job in material.jobs:
        try:
            yield from build.problems(material.course, job)
        except CourseError as error:
            yield str(error)


def ids_once(material):
    """An exercise id stands once in the whole course."""
    seen = {}
    for name, read in material.masters.items():
        for exercise in read.exercises:
            if exercise.id in seen:
                yield f"{name}: '{exercise.id}' stands in {seen[exercise.id]} as well."
            seen[exercise.id] = name


RULES = (in_toc, paired, no_strays, fresh, ids_once)
