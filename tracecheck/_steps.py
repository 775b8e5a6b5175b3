"""Which line of a function left which equation, found by tracing it in part.

A jaxpr does not say publicly which line an equation came from. So the function is
traced again and again, each time one statement further, and left there: what a
longer trace holds beyond a shorter one was recorded by the statement between them.
The function itself runs, so loops, branches and calls need no special care.
"""

import ast
import contextlib
import inspect
import io
import sys
import textwrap

import jax

from tracecheck._frames import shorten
from tracecheck._wording import Names, type_of


class Source:
    """The lines of a function, and the statement that each of them belongs to."""

    def __init__(self, fn):
        text = textwrap.dedent("".join(inspect.getsourcelines(fn)[0]))
        node = ast.parse(text).body[0]
        if not isinstance(node, ast.FunctionDef):
            raise OSError("not the source of one `def`")
        self.first = fn.__code__.co_firstlineno + node.lineno - 1
        self.lines = text.splitlines()[node.lineno - 1 :]
        self._spans = {}
        for part in ast.walk(node):  # outer statements come before inner ones
            if isinstance(part, ast.stmt) and part is not node:
                span = (part.lineno - node.lineno, part.end_lineno - node.lineno)
                self._spans.update(dict.fromkeys(range(span[0], span[1] + 1), span[0]))

    def statement(self, lineno):
        """Index, in `lines`, of the first line of the statement at a file's line."""
        return self._spans.get(lineno - self.first, lineno - self.first)


class _Stop(BaseException):
    """Leaves the function; no `except Exception` in it may catch this."""


class _Walk:
    """Follows the statements of one run, and stops it before number `stop`."""

    def __init__(self, fn, source, stop=None):
        self._code, self._source, self._stop = fn.__code__, source, stop
        self._frame, self.visits, self.names = None, [], {}

    def run(self, fn, args, kwargs):
        """Call `fn`; returns its result, or None where it was stopped."""
        before = sys.gettrace()  # a debugger's, or that of a coverage tool
        sys.settrace(self._enter)
        try:
            return fn(*args, **kwargs)
        except _Stop:
            return None
        finally:
            sys.settrace(before)

    def _enter(self, frame, event, arg):
        if frame.f_code is not self._code or self._frame is not None:
            return None
        self._frame = frame
        return self._line

    def _line(self, frame, event, arg):
        at = self._source.statement(frame.f_lineno)
        if event == "line" and (not self.visits or self.visits[-1] != at):
            if len(self.visits) == self._stop:
                self.names = _seen(frame)
                raise _Stop
            self.visits.append(at)
        if event == "return":
            self.names = _seen(frame)
        return self._line


def _seen(frame):
    """What Python's names stand for: a type for what is traced, else a value."""
    local = {k: v for k, v in frame.f_locals.items() if not k.startswith(".")}
    return {name: _short(value) for name, value in local.items()}


def _short(value):
    leaf = isinstance(value, (bool, int, float, complex, str, type(None)))
    return shorten(repr(value), 30) if leaf else type_of(value)


def steps(fn, source, bound, static):
    """Trace `fn` statement by statement.

    Args:
        fn: a Python function.
        source: its `Source`.
        bound: its `inspect.BoundArguments`.
        static: names of arguments that keep their Python value.

    Returns:
        `{"inputs": [...], "steps": [...], "results": [...]}`, of strings, numbers
        and containers of them.

    Raises:
        ValueError: when it did other things in another run of the same trace.
    """
    whole, walk, _ = _trace(fn, source, bound, static, None)
    parts = [_trace(fn, source, bound, static, k) for k in range(len(walk.visits))]
    parts.append(_trace(fn, source, bound, static, None))
    counts = [len(jaxpr.eqns) for jaxpr, _, _ in parts]
    ends = [part.visits for _, part, _ in parts]
    prefixes = [walk.visits[:k] for k in range(len(walk.visits) + 1)]
    if ends != prefixes or counts != sorted(counts) or counts[-1] != len(whole.eqns):
        raise ValueError(f"`{fn.__name__}` does something else in each run")
    names = Names(whole)
    inputs, texts = names.inputs(), [names.equation(eqn) for eqn in whole.eqns]
    found = []
    for k, at in enumerate(walk.visits):
        before, after = parts[k], parts[k + 1]
        found.append({
            "line": at,
            "eqns": texts[counts[k] : counts[k + 1]],
            "names": after[1].names,
            "printed": after[2][len(before[2]) :].rstrip("\n"),
        })  # fmt: skip
    return {"inputs": inputs, "steps": found, "results": names.results()}


def _trace(fn, source, bound, static, stop):
    """(jaxpr, walk, printed text) of a trace that stops before statement `stop`."""
    dynamic = [name for name in bound.arguments if name not in static]
    walk, out = _Walk(fn, source, stop), io.StringIO()

    def partly(values):
        filled = inspect.BoundArguments(bound.signature, dict(bound.arguments))
        filled.arguments.update(zip(dynamic, values))
        return walk.run(fn, filled.args, filled.kwargs)

    with contextlib.redirect_stdout(out):
        jaxpr = jax.make_jaxpr(partly)([bound.arguments[name] for name in dynamic])
    return jaxpr.jaxpr, walk, out.getvalue()
