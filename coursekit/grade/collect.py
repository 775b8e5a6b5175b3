"""Which notebook of a student is for which set; two for one set are an error."""

from dataclasses import dataclass, field

from coursekit.grade import match
from coursekit.grade.notebook import too_large
from coursekit.grade.result import SetResult
from coursekit.grade.text import line

MOST_NOTEBOOKS, MOST_BYTES = 50, 4 * match.MAX_BYTES


@dataclass
class Job:
    """One student: a notebook or a reason for every set."""

    student: str
    late: bool = False
    files: dict = field(default_factory=dict)  # stem: (path, bytes)
    refused: list = field(default_factory=list)  # SetResult with a reason


def job(student, plans):
    """Sort one student's notebooks by set; files are read here and nowhere else."""
    made = Job(student.id, student.late)
    found, reasons = {}, []
    for entry in _few_enough(student, reasons):
        name = line(entry.path.as_posix())
        try:
            data = _bytes(entry)
            stem = _set_of(plans, data)
            found.setdefault(stem, []).append((name, data))
        except match.NotGraded as reason:
            reasons.append((name, str(reason)))
    for plan in plans:
        files = found.get(plan.stem, [])
        if len(files) == 1:
            made.files[plan.stem] = files[0]
        else:
            made.refused.append(_refusal(plan, files, reasons, student))
    return made


def _few_enough(student, reasons):
    """The notebooks of a student, none where they would fill the grader's memory."""
    size = sum(entry.size for entry in student.notebooks)
    if len(student.notebooks) <= MOST_NOTEBOOKS and size <= MOST_BYTES:
        return student.notebooks
    count = len(student.notebooks)
    if count == 1:
        reasons.append(("", too_large()))
    else:
        reasons.append(("", f"{count} notebooks of {size >> 20} MB in all: keep one of each set"))
    return []


def _bytes(entry):
    if entry.size > match.MAX_BYTES:
        raise match.NotGraded(too_large())
    try:
        return entry.read()
    except Exception as error:  # a password, a broken zip, no permission
        reason = line(getattr(error, "strerror", None) or str(error), 80)
        raise match.NotGraded(f"the file can't be read ({reason})") from None


def _set_of(plans, data):
    cells, stem = match.read(data)
    best = max(plans, key=lambda p: match.answers_any(p, cells, stem))
    if not match.answers_any(best, cells, stem):
        other = f"it is the notebook of {stem}" if stem else "the notebook of another set?"
        raise match.NotGraded(f"it holds no answer to {best.stem}: {other}")
    return best.stem


def _refusal(plan, files, reasons, student):
    if files:
        names = " and ".join(sorted(name for name, _ in files))
        reason = f"{len(files)} notebooks of one student, {names}: keep one"
        return SetResult(plan.stem, files[0][0], reason=reason)
    if reasons:
        name, reason = reasons[0]
        return SetResult(plan.stem, name, reason=reason)
    return SetResult(plan.stem, reason=student.problem or "no notebook of this set")
