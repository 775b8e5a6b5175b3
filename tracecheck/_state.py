"""Snapshots of what a function can change: its arguments, globals and closure."""

import functools
import types

import jax
import numpy as np

from tracecheck import _reach
from tracecheck._calls import JITTED
from tracecheck.tracing import TraceCounter

_MOST_PARTS = 10_000  # of what a name leads to; more is somebody else's machinery
_FIXED = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)


def functions_of(fn):
    """List the user's Python functions that `fn` is made of or calls by name."""
    found, waiting, seen = [], [fn], []
    while waiting and len(seen) < _MOST_PARTS:
        inner = unwrapped(waiting.pop())[0]
        if not isinstance(inner, types.FunctionType) or inner in seen:
            continue
        seen.append(inner)
        if _reach.is_users(inner):
            found.append(inner)
            waiting += variables(inner).values()
        else:  # made by a transformation such as jax.grad
            waiting += _reach.variables_of_closure(inner).values()
    return found


def unwrapped(thing, owner=None):
    """What is left of a function without jit, partial, and binding to an object.

    Returns:
        The function and its object, or None.
    """
    if isinstance(thing, types.MethodType):
        return unwrapped(thing.__func__, thing.__self__)
    if isinstance(thing, functools.partial):
        return unwrapped(thing.func, owner)
    if isinstance(thing, (JITTED, TraceCounter)):
        return unwrapped(thing.__wrapped__, owner)
    call = getattr(type(thing), "__call__", None)
    if isinstance(call, (types.FunctionType, JITTED)):
        return unwrapped(call, thing)
    return thing, owner


def variables(fn):
    """Map names to values: the globals that `fn` names, and its closure."""
    names = [name for name in _reach.names_in(fn.__code__) if name in fn.__globals__]
    named = {name: fn.__globals__[name] for name in names}
    return named | _reach.variables_of_closure(fn)


def snapshot(value, seen=None, depth=20):
    """Copy what can be mutated in `value`, so that two moments can be compared."""
    seen = {} if seen is None else seen
    if isinstance(value, np.ndarray):
        return value.copy()
    parts = _parts(value)
    if parts is None:
        return value
    if id(value) in seen or len(seen) > _MOST_PARTS or not depth:
        return type(value)
    seen[id(value)] = value
    return {key: snapshot(part, seen, depth - 1) for key, part in parts.items()}


def _parts(value):
    """What a container or an object holds, by key; None for what is a whole."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return dict(enumerate(value))
    if isinstance(value, (*_FIXED, jax.Array, TraceCounter)):
        return None
    if type(value).__module__.startswith("jax"):  # its attributes are JAX's business
        return None
    return dict(vars(value)) if hasattr(value, "__dict__") else None


def same(old, new):
    """Whether two snapshots are equal; arrays by their values, nan equal to nan."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, np.ndarray):
        return old.dtype == new.dtype and np.array_equal(old, new, _may_hold_nan(old))
    if isinstance(old, dict):
        return list(old) == list(new) and all(same(old[k], new[k]) for k in old)
    if isinstance(old, (bool, int, float, complex, str, bytes)):
        return old == new or old != old
    return False


def _may_hold_nan(array):
    return array.dtype.kind in "fc"


def tracers_in(value):
    """Whether a snapshot holds a traced value."""
    if isinstance(value, dict):
        return any(map(tracers_in, value.values()))
    return isinstance(value, jax.core.Tracer)
