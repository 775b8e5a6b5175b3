"""Cells that the build adds to every page: where it runs, what checked it."""

from coursekit import notebook as nb

HOMES = {"chapters": "chapter", "reference": "reference page"}
INSTALL = '''\
try:
    import tracecheck
except ImportError:  # on Colab: adds the checks and changes nothing else
    %pip install -q --no-deps "git+{address}"'''

READY = (
    "Write your answer under each statement, then run the checks below it. Hidden "
    "points come from checks that only grading runs; they ask for nothing that the "
    "statement does not say, and the solution page shows them."
)


def setup_cell(course):
    """Installs tracecheck where it is missing, as on Colab."""
    return nb.code(
        INSTALL.format(address=course.address), "course-setup", ["remove-cell"]
    )


def chapter_banner(course, path, minutes, master, ran_on):
    """Under a chapter's title: Colab, minutes, exercises, last run."""
    parts = [f"[Open in Colab]({course.colab(path)})", length(path, minutes)]
    if master:
        link = f"../exercises/{master.stem}.ipynb"
        amount = f"{len(master.exercises)} exercises, {master.points} points"
        parts.append(f"[{amount}]({link})")
    return nb.markdown(_line(parts, ran_on), "course-banner", ["banner"])


def length(path, minutes):
    """How long a page takes; nobody reads one of the reference from top to end."""
    return "to look things up" if path.startswith("reference/") else f"about {minutes} minutes"


def exercise_banner(course, master, home, ran_on):
    """Under an exercise set's title: Colab, chapter, amount, last run."""
    minutes = sum(e.minutes for e in master.exercises)
    parts = [
        f"[Open in Colab]({course.colab(f'exercises/{master.stem}.ipynb')})",
        f"[{HOMES[home]}](../{home}/{master.stem}.ipynb)",
        f"{len(master.exercises)} exercises, {master.points} points, "
        f"about {minutes} minutes",
    ]
    line = _line(parts, ran_on, "checks last ran")
    return nb.markdown(f"{line}\n\n{READY}", "course-banner", ["banner"])


def solution_banner(course, master, home, ran_on):
    """Under a solution page's title: the way back, last run."""
    parts = [
        f"[exercises](../exercises/{master.stem}.ipynb)",
        f"[{HOMES[home]}](../{home}/{master.stem}.ipynb)",
    ]
    warning = (
        "> **Spoilers.** Every answer stands below. Try the exercises first: "
        "a check that says no teaches more than an answer read."
    )
    return nb.markdown(f"{_line(parts, ran_on)}\n\n{warning}", "course-banner", ["banner"])


def _line(parts, ran_on, verb="last ran"):
    if ran_on:
        names = ("jax", "flax", "torch")
        versions = [f"{n} {ran_on[n]}" for n in names if ran_on.get(n)]
        parts = [*parts, f"{verb} on {', '.join(versions)} ({ran_on['date']})"]
    return " · ".join(parts)
