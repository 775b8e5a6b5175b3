"""Rules about the committed notebooks: what they hold, and in which state."""

import re

from coursekit.lint.material import code_cells, tags

ABSOLUTE = re.compile(
    r"(?<![\w./:])(/(?:home|root|Users|tmp|usr|opt|work|workspace|var|mnt)/[\w.-]+|[A-Z]:\\\w+)"
)


def executed(material):
    """Every code cell of a chapter, solution or reference page was run."""
    for name, notebook in _run(material):
        for number, cell in code_cells(notebook):
            if cell.source.strip() and cell.execution_count is None:
                yield f"{name}: cell {number} was not run; run 'make notebooks'."


def errors_named(material):
    """An error stands only in a cell that says which class it raises."""
    for name, notebook in _run(material):
        for number, cell in code_cells(notebook):
            raised = [o.ename for o in cell.outputs if o.output_type == "error"]
            wanted = cell.metadata.get("error")
            if raised and "raises-exception" not in tags(cell):
                yield f"{name}: cell {number} failed with {raised[0]}; mend it or tag it."
            elif "raises-exception" in tags(cell) and wanted not in raised:
                came = raised[0] if raised else "nothing"
                yield f"{name}: cell {number} raised {came}; its error= says {wanted}."


def exercises_blank(material):
    """Exercise notebooks have no outputs, and their checks may fail."""
    for name, notebook in material.notebooks.items():
        if not name.startswith("exercises/"):
            continue
        for number, cell in code_cells(notebook):
            if cell.outputs or cell.execution_count is not None:
                yield f"{name}: cell {number} has outputs; run 'coursekit build --force'."
            is_check = cell.metadata.get("course", {}).get("kind") == "check"
            if is_check != ("raises-exception" in tags(cell)):
                yield f"{name}: cell {number}: checks, and only they, may raise."


def no_absolute_paths(material):
    """No cell and no output names a folder of the machine it ran on."""
    for name, notebook in material.notebooks.items():
        for number, cell in enumerate(notebook.cells, 1):
            found = ABSOLUTE.search(cell.source) or ABSOLUTE.search(_printed(cell))
            if found:
                yield (
                    f"{name}: cell {number} shows the path {found[0]!r} of one machine; "
                    "print a name relative to the course, or nothing."
                )


def pictures_described(material):
    """Every picture has a text for those who cannot see it."""
    for name, notebook in material.notebooks.items():
        for number, cell in enumerate(notebook.cells, 1):
            drawn = any("image/png" in o.get("data", {}) for o in cell.get("outputs", []))
            if drawn and len(cell.metadata.get("alt", "")) < 20:
                yield f"{name}: cell {number} draws a picture; describe it in ':alt:'."
            if re.search(r"!\[\s*\]\(", cell.source):
                yield f"{name}: cell {number} has a picture without alternative text."


def _run(material):
    for name, notebook in material.notebooks.items():
        if not name.startswith("exercises/"):
            yield name, notebook


def _printed(cell):
    """All the text that a cell printed."""
    parts = []
    for output in cell.get("outputs", []):
        parts += [output.get("text", ""), output.get("evalue", "")]
        parts.append(output.get("data", {}).get("text/plain", ""))
        parts += output.get("traceback", [])
    return "\n".join(parts)


RULES = (executed, errors_named, exercises_blank, no_absolute_paths, pictures_described)
