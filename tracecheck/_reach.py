"""Clear what JAX has cached for the functions that a function can reach."""

import contextlib
import functools
import gc
import types

import jax
import numpy as np

from tracecheck._calls import JITTED, own_jit
from tracecheck._frames import is_user_file

_NOTHING_INSIDE = (bool, int, float, complex, str, bytes, np.ndarray, jax.Array)


def clear_caches(fn, limit=2000):
    """Forget the traces of `fn` and of the user's functions that it refers to.

    Follows closures, defaults, the globals and attributes that its code names,
    `functools.partial`, methods, and the attributes of objects.
    """
    if own_jit(fn) is not None:
        own_jit(fn)[0].clear_cache()
    seen, waiting = {}, [fn]
    while waiting and len(seen) < limit:
        thing = waiting.pop()
        if id(thing) in seen or thing is None or isinstance(thing, _NOTHING_INSIDE):
            continue
        seen[id(thing)] = thing  # kept alive, so that its id stays its own
        _clear(thing)
        waiting += _referred(thing)


def clear_all_caches():
    """Forget the traces of all of the user's functions, wherever they are kept."""
    for thing in gc.get_objects():
        if type(thing) is JITTED or is_users(thing):
            _clear(thing)


def _clear(thing):
    found = own_jit(thing)
    if found is not None and not str(found[0].__module__).startswith("jax."):
        found[0].clear_cache()
    elif is_users(thing):
        with contextlib.suppress(TypeError):  # jit refuses generators
            jax.jit(thing).clear_cache()  # traces are kept per Python function


def is_users(thing):
    """Whether `thing` is a Python function of the user."""
    if type(thing) is not types.FunctionType:
        return False
    return is_user_file(thing.__code__.co_filename, thing.__globals__.get("__name__"))


def _referred(thing):
    if isinstance(thing, types.FunctionType):
        return [*_enclosed(thing), *(_named(thing) if is_users(thing) else ())]
    if isinstance(thing, types.MethodType):
        return [thing.__func__, thing.__self__]
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, (list, tuple)):
        return list(thing)
    if isinstance(thing, dict):
        return list(thing.values())
    if isinstance(thing, (types.ModuleType, type)):
        return []
    return [*getattr(thing, "__dict__", {}).values(), *_of_its_class(thing)]


def _of_its_class(thing):
    """The user's functions, and the jitted ones, among an object's methods."""
    values = [v for kind in type(thing).__mro__ for v in vars(kind).values()]
    return [v for v in values if is_users(v) or own_jit(v) is not None]


def _enclosed(fn):
    """What a function holds: its closure, its defaults and what it wraps."""
    defaults = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    return [*variables_of_closure(fn).values(), *defaults, *vars(fn).values()]


def variables_of_closure(fn):
    """Map the names of enclosing functions that `fn` uses to their values."""
    found = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _named(fn):
    """The globals that a function names, and their attributes that it names."""
    names = set(names_in(fn.__code__))
    found = [fn.__globals__[name] for name in names if name in fn.__globals__]
    inside = [vars(thing) for thing in found if _is_users_module(thing)]
    return [*found, *(part[name] for part in inside for name in names if name in part)]


def _is_users_module(thing):
    return isinstance(thing, types.ModuleType) and is_user_file(
        getattr(thing, "__file__", None) or "<built in>", thing.__name__
    )


def names_in(code):
    """Yield the names in `code` and in the functions defined in it."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from names_in(const)
