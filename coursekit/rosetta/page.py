"""The dictionary as Markdown: a section a group, with a table and a cell that runs it."""

import re

from coursekit.rosetta import rows

MARK = "<!-- the groups of the dictionary -->"
LABELS = {
    "shown": "",
    "dtype": "Dtype: ",
    "grad": "Gradient: ",
    "empty": "Empty: ",
    "one": "One element: ",
    "nan": "NaN: ",
    "inf": "Infinity: ",
    "ties": "Ties: ",
    "overflow": "Overflow: ",
}
HEAD = "| PyTorch | JAX | What differs | See |\n|---|---|---|---|\n"
CELL = '```{{code-cell}}\n:tags: [torch]\nreport("{name}")\n```'


def expand(text):
    """The source of a page, with the sections of all groups in place of the mark."""
    if MARK not in text:
        return text
    taken = set()
    return text.replace(MARK, "\n\n".join(_section(name, taken) for name in rows.names()))


def _section(name, taken):
    group = rows.group(name)
    lines = "\n".join(_line(row, taken) for row in group.rows)
    cell = CELL.format(name=name)
    return f"## {group.title}\n\n{group.about}\n\n{HEAD}{lines}\n\n{cell}"


def _line(row, taken):
    chapter = row.see.rpartition("/")[2]
    cells = (
        f'<a id="{anchor(row, taken)}"></a>{_code(row.torch)}',
        _code(row.jax),
        notes(row),
        f"[{chapter.partition('_')[0]}](../{row.see}.ipynb)",
    )
    return f"| {' | '.join(cells)} |"


def anchor(row, taken):
    """A place on the page, named after the row's code; names that are taken get a number."""
    words = re.findall(r"[a-z0-9]+", row.torch.splitlines()[-1].lower())
    base = "row-" + "-".join(words)[:48].strip("-")
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name


def notes(row):
    """What differs, the edges included, in one paragraph."""
    parts = [row.differs, *(LABELS[edge] + how for edge, how in row.edges.items())]
    if row.why:
        parts.append(f"Not run here: {row.why}")
    return " ".join(_piped(part.strip()) for part in parts if part)


def _code(source):
    return "<br>".join(f"`{_indented(line)}`" for line in _piped(source).splitlines())


def _indented(line):
    """A line whose indentation survives in a table: no-break spaces."""
    bare = line.lstrip(" ")
    return "\N{NO-BREAK SPACE}" * (len(line) - len(bare)) + bare


def _piped(text):
    return text.replace("|", r"\|")
