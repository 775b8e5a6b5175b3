"""Calls to a function: their arguments, and the jitted function behind it."""

import dataclasses
import functools
import types

import jax
import numpy as np


@dataclasses.dataclass(frozen=True)
class Call:
    """The arguments of one call, for calls that need keywords."""

    args: tuple = ()
    kwargs: dict = dataclasses.field(default_factory=dict)


def as_call(call):
    """Make a `Call` of a tuple of arguments, or of one argument."""
    if isinstance(call, Call):
        return call
    return Call(call) if type(call) is tuple else Call((call,))


def fresh(tree):
    """Copy containers and arrays, so that a call can't harm the caller's."""
    if isinstance(tree, jax.core.Tracer):
        return tree
    if isinstance(tree, (jax.Array, np.ndarray)):
        return tree.copy()
    if type(tree) in (list, tuple):
        return type(tree)(fresh(x) for x in tree)
    if type(tree) is dict:
        return {key: fresh(x) for key, x in tree.items()}
    leaves, structure = jax.tree.flatten(tree)
    if jax.tree_util.treedef_is_leaf(structure):
        return tree
    return structure.unflatten([fresh(leaf) for leaf in leaves])


JITTED = type(jax.jit(lambda: None))


def own_jit(fn):
    """Find the jitted function that a call of `fn` calls at once.

    Looks through `functools.partial`, bound methods, and objects whose `__call__`
    is jitted.

    Returns:
        `(jitted, leading args, keyword args)`, or None.
    """
    if isinstance(fn, JITTED):
        return fn, (), {}
    if isinstance(fn, types.MethodType):
        return _with_front(fn.__func__, (fn.__self__,), {})
    if isinstance(fn, functools.partial):
        return _with_front(fn.func, fn.args, fn.keywords)
    method = None if isinstance(fn, type) else getattr(type(fn), "__call__", None)
    return (method, (fn,), {}) if isinstance(method, JITTED) else None


def _with_front(inner, args, kwargs):
    found = own_jit(inner)
    if found is None:
        return None
    jitted, front, given = found
    return jitted, (*front, *args), {**given, **kwargs}


def name_of(fn):
    """The name to use for `fn` in messages."""
    if isinstance(fn, functools.partial):
        return name_of(fn.func)
    return getattr(fn, "__name__", None) or type(fn).__name__
