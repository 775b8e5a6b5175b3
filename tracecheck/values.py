"""Assertions about values: tree structure, shapes, dtypes, and numbers."""

import jax
import jax.numpy as jnp
import numpy as np

from tracecheck._frames import shorten
from tracecheck.checks import CheckFailed


def expect_close(got, want, *, rtol=1e-5, atol=1e-6, name="result"):
    """Expect the same structure, shapes and dtypes, and values that are close.

    Args:
        got: an array, a number, or a pytree of them.
        want: the same, of NumPy or JAX arrays or Python numbers. A Python number
            fixes the kind of number (float, integer), not its width.
        rtol: tolerated difference relative to `want`.
        atol: tolerated absolute difference.
        name: what to call `got` in the message.

    Raises:
        CheckFailed: names the first leaf that differs, the largest difference and
            where it is; never the wanted values.

    Source: https://docs.jax.dev/en/latest/jax.numpy.html
    """
    expect_same_tree(got, want, name=name)
    pairs = zip(_leaves(got, name), jax.tree.leaves(want), strict=True)
    for (where, got_leaf), want_leaf in pairs:
        _expect_close_leaf(where, got_leaf, want_leaf, rtol, atol)


def expect_same_tree(got, want, *, name="result"):
    """Expect the same tree structure, shapes and dtypes; values do not matter.

    Args:
        got: a pytree.
        want: a pytree of arrays, numbers or `jax.ShapeDtypeStruct`.
        name: what to call `got` in the message.

    Raises:
        CheckFailed: names the first place where they differ.

    Source: https://docs.jax.dev/en/latest/jax.tree.html
    """
    _expect_structure(got, want, name)
    pairs = zip(_leaves(got, name), jax.tree.leaves(want), strict=True)
    for (where, got_leaf), want_leaf in pairs:
        _expect_shape_and_dtype(where, got_leaf, want_leaf)


def _leaves(tree, name):
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(f"{name}{jax.tree_util.keystr(path)}", leaf) for path, leaf in flat]


def _expect_structure(got, want, name):
    if jax.tree.structure(got) == jax.tree.structure(want):
        return
    here = [path for path, _ in _leaves(got, name)]
    there = [path for path, _ in _leaves(want, name)]
    if missing := [path for path in there if path not in here]:
        raise CheckFailed(f"{missing[0]} to be there", _what_there_is(here, got))
    if extra := [path for path in here if path not in there]:
        raise CheckFailed(f"no {extra[0]}", _what_there_is(here, got))
    raise CheckFailed(
        f"{name} with the structure of a certain {type(want).__name__}",
        f"another structure, of type {type(got).__name__}, with leaves of these names",
    )


def _what_there_is(paths, got):
    if not paths:
        return "None" if got is None else f"an empty {type(got).__name__}"
    return shorten(", ".join(paths), 80)


def _expect_shape_and_dtype(where, got, want):
    if not _is_array(want):
        return
    if not _is_array(got):
        raise CheckFailed(f"{where} to be an array", f"type {type(got).__name__}")
    if np.shape(got) != np.shape(want):
        raise CheckFailed(
            f"{where} of shape {np.shape(want)}", f"shape {np.shape(got)}"
        )
    if not _same_dtype(got, want):
        raise CheckFailed(f"{where} of dtype {_dtype(want)}", f"dtype {_dtype(got)}")


def _is_array(leaf):
    numbers = (bool, int, float, complex, np.generic, np.ndarray, jax.Array)
    return isinstance(leaf, (*numbers, jax.ShapeDtypeStruct))


def _dtype(leaf):
    """The dtype that JAX gives to `leaf`: NumPy's float64 counts as float32."""
    if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        return leaf.dtype
    return jax.dtypes.canonicalize_dtype(getattr(leaf, "dtype", type(leaf)))


def _same_dtype(got, want):
    if isinstance(want, (bool, int, float, complex)) or isinstance(got, (int, float)):
        return _number_kind(got) == _number_kind(want)
    return _dtype(got) == _dtype(want)


def _number_kind(leaf):
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    return [jnp.issubdtype(_dtype(leaf), kind) for kind in kinds]


def _expect_close_leaf(where, got, want, rtol, atol):
    if not _is_array(want):
        if got != want:
            raise CheckFailed(f"another value of {where}", shorten(repr(got)))
        return
    got, want = _numbers(got), _numbers(want)
    exact = got.dtype.kind in "biu"
    bad = got != want if exact else ~np.isclose(got, want, rtol, atol, equal_nan=True)
    if bad.any():
        raise CheckFailed(f"{where} with the right values", _difference(got, want, bad))


def _numbers(leaf):
    """The leaf as a NumPy array of a type wide enough to subtract in."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    if array.dtype.kind in "biu":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _difference(got, want, bad):
    count = f"{bad.sum()} of {bad.size} values differ" if bad.size > 1 else "it differs"
    if np.isnan(got[bad]).any():
        return f"nan{_at(np.isnan(got) & bad)}; {count}"
    if got.dtype == bool:
        return f"{count}, the first{_at(bad)}"
    with np.errstate(all="ignore"):
        gap = np.abs(got.astype(complex) - want.astype(complex))
    gap = np.where(bad, np.nan_to_num(gap, nan=np.inf), 0)
    return f"a difference of {gap.max():.3g}{_at(gap == gap.max())}; {count}"


def _at(mask):
    if mask.ndim == 0:
        return ""
    first = np.unravel_index(np.argmax(mask), mask.shape)
    return " at " + str([int(i) for i in first])
