"""Who handed in what: folders, flat files, downloads of Moodle and Canvas, and zips.

Submissions are only ever read.
"""

import io
import re
import unicodedata
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from coursekit.errors import CourseError
from coursekit.grade.notebook import MAX_BYTES
from coursekit.grade.text import line

# name_12345_assignsubmission_file_, as a folder or in front of a file's name
MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)")
# name_12345_67890_file, and name_LATE_12345_67890_file
CANVAS = re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<id>\d+)_\d+_(?P<file>.+)", re.I)
COPY = re.compile(r"\s*\(\d+\)$|[-_ ]copy\d*$", re.I)
MOST_FILES = 20_000


@dataclass
class Entry:
    """A file: its path below the submissions, and how to read it."""

    path: PurePosixPath
    size: int
    read: object


@dataclass
class Student:
    """One student's files; `problem` is why none of them can be graded."""

    id: str
    notebooks: list = field(default_factory=list)
    others: list = field(default_factory=list)
    late: bool = False
    problem: str = ""


def find(path):
    """Every student who handed something in, in order of id.

    Args:
      path: a folder or a zip of notebooks, of folders, or of a Moodle or Canvas
        download; a student's own zip among them is looked into.

    Raises:
      CourseError: it does not exist, can't be read, or holds nothing.
    """
    path, students = Path(path), {}
    try:
        if not path.exists():
            raise CourseError(f"{path} does not exist: name the folder or zip of submissions.")
        for entry in _entries(path):
            _add(students, entry)
    except (PermissionError, zipfile.BadZipFile) as error:
        raise CourseError(f"{path} can't be read ({error}): check the file.") from None
    if not students:
        raise CourseError(f"{path} holds no submissions.")
    for student in students.values():
        _name_problem(student)
    return sorted(students.values(), key=lambda s: s.id)


def _entries(path):
    if path.is_dir():
        for file in sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink()):
            relative = PurePosixPath(file.relative_to(path).as_posix())
            if not _is_litter(relative):
                yield from _look_into(relative, file.stat().st_size, file.read_bytes)
    elif zipfile.is_zipfile(path):
        for entry in _zipped(lambda: path, PurePosixPath()):
            yield from _look_into(entry.path, entry.size, entry.read)
    else:
        raise CourseError(f"{path} is neither a folder nor a zip file.")


def _look_into(relative, size, read):
    """The file itself, or what a student's zip holds."""
    if relative.suffix.lower() == ".zip" and size <= MAX_BYTES:
        try:
            opened = lambda: io.BytesIO(read())  # noqa: E731  read again, never kept
            found = list(_zipped(opened, relative.with_suffix("")))
        except Exception:  # a student's zip can be broken in many ways
            found = []
        if found:
            yield from found
            return
    yield Entry(relative, size, read)


def _zipped(opened, base):
    with zipfile.ZipFile(opened()) as archive:
        infos = [i for i in archive.infolist() if not i.is_dir()]
    if len(infos) > MOST_FILES:
        raise CourseError(f"the zip holds {len(infos)} files, at most {MOST_FILES}.")
    names = [PurePosixPath(i.filename.lstrip("/")) for i in infos]
    top = {n.parts[0] for n in names if not _is_litter(n)}
    # One folder around everything is the zip's own, not a student.
    wrapped = len(top) == 1 and all(len(n.parts) > 1 for n in names) and not base.parts
    for info, name in zip(infos, names):
        inner = PurePosixPath(*name.parts[1:]) if wrapped else name
        if not _is_litter(name) and ".." not in name.parts:
            yield Entry(base / inner, info.file_size, _reader(opened, info))


def _reader(opened, info):
    def read():
        with zipfile.ZipFile(opened()) as archive, archive.open(info) as file:
            return file.read(MAX_BYTES + 1)

    return read


def _is_litter(path):
    return any(p.startswith((".", "__MACOSX", "~$")) for p in path.parts) or (
        "checkpoint" in path.name and path.suffix == ".ipynb"
    )


def _add(students, entry):
    id, late = _owner(entry.path)
    student = students.setdefault(id, Student(id))
    student.late |= late
    kind = student.notebooks if entry.path.suffix.lower() == ".ipynb" else student.others
    kind.append(entry)


def known_as(name):
    """A student's id as it is compared and shown: one spelling of an accent, one line."""
    return line(unicodedata.normalize("NFC", name), 300) or "student"


def _owner(path):
    """(student id, whether the name says that it came late)"""
    id, late = _id_in(path)
    return known_as(id), late


def _id_in(path):
    label = path.parts[0] if len(path.parts) > 1 else path.stem
    for pattern in (MOODLE, CANVAS):
        found = pattern.fullmatch(label)
        if found:
            return f"{found['name']}_{found['id']}", bool(found.groupdict().get("late"))
    return (label if len(path.parts) > 1 else COPY.sub("", label)), False


def _name_problem(student):
    if not student.notebooks:
        kinds = sorted({e.path.suffix or e.path.name for e in student.others})
        student.problem = f"no notebook, only {', '.join(kinds)}"
