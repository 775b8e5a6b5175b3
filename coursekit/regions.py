"""The part of an answer that learners write themselves."""

from coursekit.errors import CourseError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STAND_IN = "raise NotImplementedError"


def reveal(source):
    """The answer with its markers removed and its solution kept."""
    lines = source.splitlines()
    return "\n".join(line for line in lines if line.strip() not in (BEGIN, END))


def clear(source, path="source", first_line=1):
    """The answer with every solution region replaced by `raise NotImplementedError`.

    Args:
      source: text of one code cell.
      path, first_line: where the cell stands, for messages.

    Raises:
      CourseError: a region is nested, unclosed, never opened, or stands outside
        a function, where the stand-in would stop an unsolved notebook.
    """
    kept, opened = [], None
    for number, line in enumerate(source.splitlines(), first_line):
        marker = line.strip()
        if marker == BEGIN:
            _refuse_begin(line, opened, path, number)
            opened = number
            kept.append(line.replace(BEGIN, STAND_IN))
        elif marker == END:
            if opened is None:
                raise CourseError.at(path, number, f"'{END}' without '{BEGIN}'.")
            opened = None
        elif opened is None:
            kept.append(line)
    if opened is not None:
        raise CourseError.at(path, opened, f"'{BEGIN}' is never closed by '{END}'.")
    return "\n".join(kept)


def _refuse_begin(line, opened, path, number):
    if opened is not None:
        raise CourseError.at(
            path, number, f"'{BEGIN}' inside the region opened in line {opened}."
        )
    if not line[0].isspace():
        raise CourseError.at(
            path, number, f"'{BEGIN}' must stand inside the body of a function."
        )
