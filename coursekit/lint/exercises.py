"""Rules about exercise sets."""

from coursekit.lint.material import headings

STATEMENT_WORDS, HINT_WORDS, CHECK_LINES, WHY_LINES = 170, 45, 15, (3, 8)
COLUMNS = 88


def explained(material):
    """Every exercise has hints, a hidden check, two wrong answers and a why."""
    for name, read in material.masters.items():
        for exercise in read.exercises:
            where = f"{name}:{exercise.cells[0].line}: '{exercise.id}'"
            if not 1 <= len(exercise.of("hint")) <= 3:
                yield f"{where} has {len(exercise.of('hint'))} hints; have one to three."
            if not exercise.of("hidden"):
                yield f"{where} has no hidden check."
            if len(exercise.of("wrong")) < 2:
                yield f"{where} has {len(exercise.of('wrong'))} wrong answers; have two."
            if len(exercise.of("why")) != 1:
                yield f"{where} needs one cell that says why."


def brief(material):
    """Statements, hints, checks and whys keep to their lengths."""
    for name, read in material.masters.items():
        for exercise in read.exercises:
            for cell in exercise.cells:
                why = _too_long(cell)
                if why:
                    yield f"{name}:{cell.line}: {why}"


def _too_long(cell):
    words, lines = len(cell.source.split()), len(cell.source.splitlines())
    if cell.markdown and not cell.kind and words > STATEMENT_WORDS:
        return f"the statement has {words} words, at most {STATEMENT_WORDS}."
    if cell.kind == "hint" and words > HINT_WORDS:
        return f"the hint has {words} words, at most {HINT_WORDS}."
    if cell.kind == "check" and lines > CHECK_LINES:
        return f"the check has {lines} lines, at most {CHECK_LINES}."
    if cell.kind == "why" and not WHY_LINES[0] <= lines <= WHY_LINES[1]:
        return f"the why has {lines} lines; {WHY_LINES[0]} to {WHY_LINES[1]} are read."
    return ""


def sections_exist(material):
    """Checks point at sections that the page has."""
    for name, read in material.masters.items():
        home = material.course.home_of(read.stem)
        page = material.pages.get(f"{home}/{read.stem}.md")
        known = headings(page) if page else []
        for exercise in read.exercises:
            for cell in exercise.checks:
                section = cell.check[2]
                if not section:
                    yield f"{name}:{cell.line}: check '{cell.check[0]}' names no section."
                elif section not in known:
                    yield f"{name}:{cell.line}: no section '{section}' in {home}/{read.stem}."


RULES = (explained, brief, sections_exist)
