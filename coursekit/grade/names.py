"""Which names a cell binds, uses and changes; nothing is executed here.

What can't be read as Python, for whatever reason, has no names: a cell may be as deep
or as broken as it likes.
"""

import ast
import symtable
import threading

# Python 3.11 counts the depth of all threads' trees in one place, and raises SystemError
# when they mix; 3.12 does not.
_one_at_a_time = threading.Lock()
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def parse(source):
    """The tree of a cell, an empty one where it is not Python."""
    try:
        with _one_at_a_time:
            return ast.parse(source)
    except UNREADABLE:
        return ast.Module([], [])


def bound(source):
    """The names that a cell binds at its top level; `*` stands for a star import."""
    found, waiting = set(), list(parse(source).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, SCOPES):
            found |= {node.name} if hasattr(node, "name") else set()
        elif not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            waiting += ast.iter_child_nodes(node)
    return found


def used(source):
    """The names that a cell takes from outside of it or of its own top level.

    Parameters and local variables of its functions are not among them.
    """
    try:
        tables = [symtable.symtable(source, "cell", "exec")]
    except UNREADABLE:
        return set()
    found = set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        outside = table.get_type() == "module"
        found |= {
            s.get_name() for s in table.get_symbols()
            if s.is_referenced() and (outside or s.is_global())
        }  # fmt: skip
    # From Python 3.12 on, the variable of a comprehension stands in the table around it.
    loops = (n.target for n in ast.walk(parse(source)) if isinstance(n, ast.comprehension))
    inner = {n.id for target in loops for n in ast.walk(target) if isinstance(n, ast.Name)}
    return found - (inner - bound(source))


def without_checks(source):
    """A cell without its `with check(…)` blocks: answers may be merged with them."""
    lines = source.splitlines(keepends=True)
    for node in reversed(parse(source).body):
        called = node.items[0].context_expr if isinstance(node, ast.With) else None
        if isinstance(called, ast.Call) and _called(called.func) == "check":
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines)


def changed(source):
    """Names whose objects a cell changes: `name.a = …`, `name[i] = …`, `register(name)`."""
    found = set()
    for node in ast.walk(parse(source)):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            found |= _root(node)
        elif isinstance(node, ast.Call) and "register" in _called(node.func):
            found |= {a.id for a in node.args if isinstance(a, ast.Name)}
    return found


def _called(function):
    """The last word of what is called: `register` of `jax.tree_util.register`."""
    return getattr(function, "attr", getattr(function, "id", ""))


def _root(node):
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
