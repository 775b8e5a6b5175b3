"""Which arguments a call gives away, so that their memory can be used again."""

import inspect
import warnings

import jax
import numpy as np

from tracecheck._calls import Call, as_call, fresh, own_jit
from tracecheck.checks import CheckFailed

_UNUSED = "Some donated buffers were not usable"


def expect_donated(fn, args, which=0):
    """Expect that a call of `fn` donates an argument, and that JAX uses its memory.

    The call is made with copies: the caller's arrays stay alive.

    Args:
        fn: a function, usually made by `jax.jit(..., donate_argnums=...)`.
        args: tuple of its arguments, or a `Call`.
        which: position or name of the argument, or a tuple of them.

    Raises:
        CheckFailed: names what is still alive after the call, and says so when it
            was marked as donated but no result could use its memory.
        ValueError: when an argument holds no array.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.jit.html
    """
    for path, leaf in _leaves_after_call(fn, args, which):
        if not leaf.is_deleted():
            why = _why_alive(fn, as_call(args), leaf)
            raise CheckFailed(f"{path} to be donated", why)


def expect_not_donated(fn, args, which=0):
    """Expect that an argument can still be used after a call of `fn`.

    Args:
        fn: a function.
        args: tuple of its arguments, or a `Call`.
        which: position or name of the argument, or a tuple of them.

    Raises:
        CheckFailed: names what the call donated.
        ValueError: when an argument holds no array.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.jit.html
    """
    for path, leaf in _leaves_after_call(fn, args, which):
        if leaf.is_deleted():
            raise CheckFailed(f"{path} to be usable after the call", "it was donated")


def _leaves_after_call(fn, args, which):
    """Call `fn` with copies; list the paths and leaves of the copies in question."""
    call = as_call(args)
    call = Call(*jax.tree.map(_on_device, fresh((call.args, call.kwargs))))
    names = which if isinstance(which, (tuple, list)) else (which,)
    leaves = [pair for name in names for pair in _leaves(fn, call, name)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _UNUSED)
        fn(*call.args, **call.kwargs)
    return leaves


def _on_device(leaf):
    return jax.device_put(leaf) if isinstance(leaf, np.ndarray) else leaf


def _leaves(fn, call, name):
    """Paths and arrays of one argument, which is given by position or by name."""
    value, name = _argument(fn, call, name)
    pairs, _ = jax.tree_util.tree_flatten_with_path(value)
    found = [
        (f"`{name}{jax.tree_util.keystr(path)}`", leaf)
        for path, leaf in pairs
        if isinstance(leaf, jax.Array)
    ]
    if not found:
        raise ValueError(f"argument {name} holds no array that could be donated")
    return found


def _argument(fn, call, name):
    try:
        bound = inspect.signature(fn).bind(*call.args, **call.kwargs).arguments
    except (TypeError, ValueError):
        bound = {}
    if isinstance(name, int):
        names = [n for n, value in bound.items() if value is call.args[name]]
        return call.args[name], (names or [f"argument {name}"])[0]
    return (bound | call.kwargs)[name], name


def _why_alive(fn, call, leaf):
    """Say whether the leaf was marked as donated and no result could use it."""
    alive, found = "it is still alive after the call", own_jit(fn)
    if found is None:
        return alive
    jitted, front, given = found
    jitted.clear_cache()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jitted.lower(*front, *call.args, **given, **call.kwargs)
    unused = [str(w.message) for w in caught if _UNUSED in str(w.message)]
    if any(jax.typeof(leaf).str_short() in text for text in unused):
        return f"{alive}: it was donated, and no result has its shape and dtype"
    return alive
