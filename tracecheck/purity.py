"""What a pure function must not do, looked for by running it."""

import contextlib
import io

import jax
import numpy as np

from tracecheck import _reach, _state
from tracecheck._calls import Call, as_call, fresh, name_of
from tracecheck.checks import CheckFailed
from tracecheck.values import expect_close


def expect_pure(fn, calls):
    """Expect that nothing but its result comes out of `fn`.

    Caches of `fn` are cleared first, so that a jitted function is traced.

    Args:
        fn: a function, jitted or not, or an object that can be called.
        calls: list of argument tuples, or of `Call(args, kwargs)`.

    Raises:
        CheckFailed: when two runs with the same arguments differ; when arguments,
            attributes, globals, or variables of enclosing functions are changed;
            when a tracer is left in one of them; or when one run prints something
            that the other does not.

    Source: https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html
    """
    _reach.clear_caches(fn)
    for call in map(as_call, calls):
        first, printed = _run(fn, call)
        second, printed_again = _run(fn, call)
        _expect_same_text(fn, printed, printed_again)
        _expect_same_result(first, second)


def _run(fn, call):
    """Run once, and expect arguments and surroundings to be as before."""
    own = Call(fresh(call.args), fresh(call.kwargs))
    before, text = _surroundings(fn, own), io.StringIO()
    with contextlib.redirect_stdout(text):
        result = fn(*own.args, **own.kwargs)
        jax.effects_barrier()
    for name, after in _surroundings(fn, own).items():
        _expect_kept(name, before.get(name), after)
    return result, text.getvalue()


def _surroundings(fn, call):
    """Snapshots, by name, of all that a call could change."""
    _, owner = _state.unwrapped(fn)
    found = {"an argument": [call.args, call.kwargs], "its object": owner}
    for function in _state.functions_of(fn):
        for name, value in _state.variables(function).items():
            found[f"`{name}`"] = value
    return {name: _state.snapshot(value) for name, value in found.items()}


def _expect_kept(name, old, new):
    if _state.same(old, new):
        return
    if _state.tracers_in(new):
        want = "traced values to stay inside the function"
        raise CheckFailed(want, f"{name} holds a leaked tracer")
    raise CheckFailed("nothing to change but the result", f"{name} was changed")


def _expect_same_text(fn, first, second):
    if first != second:
        raise CheckFailed(
            f"{name_of(fn)} to print the same each time",
            "a print that runs while tracing only (jax.debug.print runs each time)",
        )


def _expect_same_result(first, second):
    try:
        expect_close(_arrays(second), _arrays(first), rtol=1e-6, atol=0)
    except CheckFailed as failure:
        want = "the same result for the same arguments"
        raise CheckFailed(want, f"in the second run {failure.got}") from None


def _arrays(tree):
    kinds = (bool, int, float, complex, np.ndarray, np.generic, jax.Array)
    return [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, kinds)]
