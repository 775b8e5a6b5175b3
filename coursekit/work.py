"""`work/`: where learners keep their copies of exercises, never overwritten."""

import itertools
import shutil

from coursekit.errors import CourseError

FOLDER = "work"


def fill(course):
    """Copy every exercise notebook that is not in `work/` yet.

    Returns:
      list of str: the names of the notebooks that were copied.
    """
    folder = course.root / FOLDER
    folder.mkdir(exist_ok=True)
    copied = []
    for path in sorted((course.root / "exercises").glob("*.ipynb")):
        if not (folder / path.name).exists():
            shutil.copyfile(path, folder / path.name)
            copied.append(path.name)
    return copied


def reset(course, stem):
    """Put a fresh copy of an exercise notebook beside the learner's own.

    Returns:
      str: the name of the copy, one that was free.

    Raises:
      CourseError: there is no such exercise set.
    """
    source = course.root / "exercises" / f"{stem}.ipynb"
    if not source.is_file():
        known = ", ".join(p.stem for p in sorted(source.parent.glob("*.ipynb")))
        raise CourseError(f"there is no exercise set '{stem}'; known: {known}.")
    folder = course.root / FOLDER
    folder.mkdir(exist_ok=True)
    names = itertools.chain(
        (f"{stem}.ipynb", f"{stem}-fresh.ipynb"),
        (f"{stem}-fresh-{i}.ipynb" for i in itertools.count(2)),
    )
    name = next(n for n in names if not (folder / n).exists())
    shutil.copyfile(source, folder / name)
    return name
