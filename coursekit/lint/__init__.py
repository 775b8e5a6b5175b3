"""The rules of the course: small functions, one a rule, in a list.

A rule takes a Material and yields findings, one sentence each, that name file,
cell and remedy. To add a rule, write the function in the module where it fits,
decorate it, and add a test that breaks it to tests/test_lint.py.
"""

from coursekit.errors import CourseError
from coursekit.lint import code, exercises, layout, notebooks, prose
from coursekit.lint.material import Material

RULES = {
    rule.__name__: rule
    for module in (layout, prose, code, exercises, notebooks)
    for rule in module.RULES
}


def chosen(names=()):
    """The rules of these names; none means all.

    Raises:
      CourseError: a name is no rule's.
    """
    unknown = [n for n in names if n not in RULES]
    if unknown:
        raise CourseError(f"no rule is named '{unknown[0]}'; known: {', '.join(RULES)}.")
    return [RULES[n] for n in names or RULES]


def lint(course, names=()):
    """Run rules over a course.

    Returns:
      list of str: 'rule: file: what is wrong and what to do'.
    """
    material = Material(course)
    return [f"{r.__name__}: {f}" for r in chosen(names) for f in r(material)]
