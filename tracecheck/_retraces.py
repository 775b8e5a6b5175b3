"""Why a call traced again: what differs between its arguments and earlier ones."""

import inspect

import jax
import numpy as np

from tracecheck._frames import shorten


def explain(fn, call, earlier):
    """Say what in `call` differs from the closest of the `earlier` calls.

    Returns:
        A list of phrases, empty when nothing that can matter differs.
    """
    here = _arguments(fn, call)
    changes = [_changes(_arguments(fn, other), here) for other in earlier]
    return min(changes, key=len, default=[])


def _arguments(fn, call):
    """Map the name of each argument to its value."""
    try:
        bound = inspect.signature(fn).bind(*call.args, **call.kwargs)
        return dict(bound.arguments)
    except (TypeError, ValueError):
        numbered = {f"argument {n}": arg for n, arg in enumerate(call.args)}
        return numbered | call.kwargs


def _changes(old, new):
    """Phrases for what changed; a number's value only where nothing else did."""
    before, after = _leaves(old), _leaves(new)
    shared = [(path, before[path], after[path]) for path in after if path in before]
    found = [f"`{path}` is new" for path in after if path not in before]
    found += [f"`{path}` is gone" for path in before if path not in after]
    found += [text for triple in shared if (text := _kind_change(*triple))]
    return found or _structure_changes(old, new) or _value_changes(shared)


def _leaves(arguments):
    pairs, _ = jax.tree_util.tree_flatten_with_path(list(arguments.values()))
    names = list(arguments)
    return {
        names[path[0].idx] + jax.tree_util.keystr(path[1:]): leaf
        for path, leaf in pairs
    }


def _structure_changes(old, new):
    changed = [
        name
        for name in new
        if jax.tree.structure(old.get(name)) != jax.tree.structure(new[name])
    ]
    return [f"`{name}` changed its tree structure" for name in changed]


def _kind_change(path, old, new):
    if not _is_array(old) and not _is_array(new):
        return ""
    if not (_is_array(old) and _is_array(new)):
        return f"`{path}` changed from {type(old).__name__} to {type(new).__name__}"
    try:
        return _type_change(path, jax.typeof(old), jax.typeof(new))
    except (TypeError, OverflowError):  # an array of strings, or a huge integer
        return ""


def _type_change(path, old, new):
    for fact in ("shape", "dtype"):
        before, after = getattr(old, fact), getattr(new, fact)
        if before != after:
            return f"`{path}` changed {fact} from {before} to {after}"
    if old.weak_type == new.weak_type:
        return ""
    kinds = (f"a Python number (weak {old.dtype})", f"an array of {old.dtype}")
    before, after = kinds if old.weak_type else kinds[::-1]
    return f"`{path}` changed from {before} to {after}"


def _value_changes(shared):
    return [text for triple in shared if (text := _value_change(*triple))]


def _value_change(path, old, new):
    """Values matter where an argument is static: numbers, strings, functions."""
    if isinstance(new, _ARRAYS) or old is new or _equal(old, new):
        return ""
    if callable(new) or _short(old) == _short(new):
        return f"static `{path}` was another {type(new).__name__} object"
    return f"static `{path}` changed from {_short(old)} to {_short(new)}"


def _short(value):
    return shorten(repr(value), 30)


def _equal(old, new):
    try:
        return bool(old == new)
    except Exception:  # an object without a usable `==` is another one
        return False


_ARRAYS = (np.ndarray, np.generic, jax.Array)


def _is_array(value):
    return isinstance(value, (bool, int, float, complex, *_ARRAYS))
