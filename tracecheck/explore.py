"""Watch a function being traced, and calls finding or making entries in the cache."""

import contextlib
import functools
import inspect
import io

import jax

from tracecheck import _explore_html, _retraces
from tracecheck._calls import JITTED, as_call
from tracecheck._steps import Source, steps
from tracecheck._wording import argument

__all__ = ["Exploration", "explore"]


class Exploration:
    """What `explore` found: text in a console, tables or a stepper in a notebook.

    Attributes:
        data: dict of strings, numbers, lists and dicts, ready for JSON: `name`,
            `code` (lines), `calls` (`label`, `arguments`, `entry` from 1, `traced`,
            `why`) and `entries` (`call`, `inputs`, `steps`, `results`).
    """

    def __init__(self, data):
        self.data = data

    def __repr__(self):
        return _explore_html.as_text(self.data)

    def _repr_html_(self):
        return _explore_html.as_html(self.data)


def explore(fn, calls, *, static_argnames=()):
    """Record what each line of `fn` leaves in its jaxpr, and what its calls reuse.

    The function is jitted afresh and called once for each entry of `calls`, in
    order. For each call that traces, it is traced some more, once a statement, to
    see which equations each one leaves. So side effects of `fn` happen often; what
    it prints is kept and not shown. Equations left by functions that `fn` calls
    belong to the line of `fn` that called them.

    Args:
        fn: a Python function, made by `def`; not jitted.
        calls: dict from a label to a tuple of arguments or a `Call`, or a list.
        static_argnames: name or names of static arguments, as for `jax.jit`.

    Returns:
        An `Exploration`. The same calls give the same text on every machine.

    Raises:
        TypeError: `fn` is no plain Python function.
        ValueError: no calls, no readable source, or a function that does something
            else in each run. What tracing `fn` raises is passed on.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.make_jaxpr.html
    """
    source, calls = _source(fn), _labelled(calls)
    names = (static_argnames,) if isinstance(static_argnames, str) else static_argnames
    static = set(names)
    numbers = _entry_of_each(fn, calls.values(), static)
    made = {number: call for number, call in reversed([*zip(numbers, calls.values())])}
    entries = [
        {"call": numbers.index(n), **steps(fn, source, _bind(fn, made[n]), static)}
        for n in sorted(made)
    ]
    rows = []
    for index, (label, call) in enumerate(calls.items()):
        number = numbers[index]
        traced = numbers.index(number) == index
        why = _why(fn, call, [made[n] for n in range(1, number)]) if traced else []
        rows.append({
            "label": label, "arguments": _arguments(fn, call, static),
            "entry": number, "traced": traced, "why": why,
        })  # fmt: skip
    return Exploration(
        {"name": fn.__name__, "code": source.lines, "calls": rows, "entries": entries}
    )


def _source(fn):
    if isinstance(fn, JITTED):
        name = getattr(fn, "__name__", "it")
        raise TypeError(f"`{name}` is jitted: pass the plain function, explore jits it")
    if not inspect.isfunction(fn) or fn.__name__ == "<lambda>":
        raise TypeError("explore needs a function made by `def`, to show its lines")
    try:
        return Source(fn)
    except (OSError, TypeError, SyntaxError):
        raise ValueError(
            f"the source of `{fn.__name__}` can't be read: define it in a cell or a file"
        ) from None


def _labelled(calls):
    if not isinstance(calls, dict):
        calls = {f"call {n}": call for n, call in enumerate(calls, 1)}
    if not calls:
        raise ValueError("no calls to explore")
    return {str(label): as_call(call) for label, call in calls.items()}


def _entry_of_each(fn, calls, static):
    """The cache entry, from 1, that each call ran.

    The number of the trace is a Python value, so it is frozen into the program, and
    each program returns the number of the trace that made it.
    """
    made = 0

    @functools.wraps(fn)  # static names are looked up in the signature
    def numbered(*args, **kwargs):
        nonlocal made
        made += 1
        return fn(*args, **kwargs), made

    jitted = jax.jit(numbered, static_argnames=tuple(sorted(static)))
    with contextlib.redirect_stdout(io.StringIO()):
        return [int(jitted(*call.args, **call.kwargs)[1]) for call in calls]


def _bind(fn, call):
    return inspect.signature(fn).bind(*call.args, **call.kwargs)


def _why(fn, call, earlier):
    """What differs from the closest earlier entry; nothing for the first."""
    if not earlier:
        return []
    alike = [other for other in earlier if _spelling(other) == _spelling(call)]
    found = _retraces.explain(fn, call, alike or earlier)
    return found or ["the same arguments, spelled in another way"]


def _spelling(call):
    """How many arguments come by position, and which by keyword."""
    return len(call.args), sorted(call.kwargs)


def _arguments(fn, call, static):
    """[name, what it is to jit] for each parameter, those left out included."""
    given = _bind(fn, call).arguments
    rows = []
    for name in inspect.signature(fn).parameters:
        if name not in given:
            text = "left out"
        elif name in static:
            by = " by keyword" if name in call.kwargs else ""
            text = f"static {given[name]!r}{by}"
        else:
            text = argument(given[name])
        rows.append([name, text])
    return rows
