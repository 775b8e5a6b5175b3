"""Notebook files: cells with stable ids, what a file holds, writing it whole."""

import hashlib
import json
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from coursekit.errors import CourseError
from coursekit.files import write_whole

KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def markdown(source, id, tags=(), **course):
    """A Markdown cell."""
    return new_markdown_cell(source, id=id, metadata=_metadata(tags, course))


def code(source, id, tags=(), **course):
    """A code cell without outputs."""
    return new_code_cell(source, id=id, metadata=_metadata(tags, course))


def _metadata(tags, course):
    metadata = {"tags": list(tags)} if tags else {}
    return metadata | ({"course": course} if course else {})


def assemble(cells, **course):
    """A notebook of these cells, with `course` as its course metadata."""
    _refuse_twins(cells)
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook = new_notebook(cells=cells, metadata=metadata | {"course": course})
    notebook.metadata.course.content_sha = content_sha(notebook)
    return notebook


def _refuse_twins(cells):
    ids = [c.id for c in cells]
    twins = sorted({i for i in ids if ids.count(i) > 1})
    if twins:
        raise CourseError(f"the cell id '{twins[0]}' would stand twice in a notebook.")


def content_sha(notebook):
    """A digest of the ids, types and sources of a notebook's cells."""
    parts = [[c.id, c.cell_type, c.source] for c in notebook.cells]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def edited_by_hand(notebook):
    """Whether a generated notebook no longer holds what was generated."""
    sha = notebook.metadata.get("course", {}).get("content_sha")
    return sha != content_sha(notebook)


def load(path):
    """Read a notebook.

    Returns:
      The notebook, or None if there is no such file.

    Raises:
      CourseError: the file is not a notebook.
    """
    path = Path(path)
    if not path.exists():
        return None
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:
        reason = str(error).splitlines()[0][:80]
        raise CourseError(
            f"{path} is not a readable notebook ({reason}): mend or remove it."
        ) from None


def save(notebook, path):
    """Write a notebook whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.validate(notebook)
    text = nbformat.writes(notebook).rstrip("\n") + "\n"
    write_whole(path, text)
