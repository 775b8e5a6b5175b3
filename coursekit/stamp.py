"""Write the repository's address into notebooks, without running anything."""

from coursekit import build
from coursekit import notebook as nb


def stamp(course, check=False):
    """Refresh every generated cell that depends on the address or on the layout.

    Only a notebook whose inputs are unchanged is stamped: outputs stay true.

    Args:
      check: write nothing.

    Returns:
      list of str: the notebooks that changed (or would change).
    """
    changed = []
    for job in build.jobs(course):
        committed = [nb.load(path) for path in job.targets]
        if any(n is None or nb.edited_by_hand(n) for n in committed):
            continue
        ran_on = committed[-1].metadata.course.get("ran_on")
        fresh = build.convert(course, job, build.said(committed[-1]), ran_on)
        for path, old, new in zip(job.targets, committed, fresh):
            if _restamp(old, new):
                changed.append(path.relative_to(course.root).as_posix())
                if not check:
                    nb.save(old, path)
    return changed


def _restamp(old, new):
    """Take over generated cells from `new`; whether anything changed."""
    latest = {c.id: c.source for c in new.cells}
    changed = False
    for cell in old.cells:
        if cell.id in ("course-banner", "course-setup"):
            source = latest.get(cell.id, cell.source)
            changed |= cell.source != source
            cell.source = source
    old.metadata.course.content_sha = nb.content_sha(old)
    return changed
