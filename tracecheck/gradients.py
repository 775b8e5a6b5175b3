"""Assertions about gradients: against formulas, or against finite differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tracecheck.checks import CheckFailed
from tracecheck.values import expect_close


def expect_grad(fn, args, want=None, *, argnums=0, rtol=None, atol=None):
    """Expect `jax.grad` of `fn` to be right.

    Args:
        fn: a function that returns a scalar of a floating dtype.
        args: tuple of its arguments.
        want: the gradients, or a function that computes them from `args`; with
            None, finite differences along three directions are compared.
        argnums: position, or tuple of positions, to differentiate with respect to.
        rtol: relative tolerance, 1e-5 against `want`, 2e-2 for finite differences.
        atol: absolute tolerance, 1e-6 against `want`, 2e-3 for finite differences.

    Raises:
        CheckFailed: says where and by how much the gradients differ.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.grad.html
    """
    got = jax.grad(fn, argnums)(*args)
    loose = want is None
    rtol = rtol if rtol is not None else (2e-2 if loose else 1e-5)
    atol = atol if atol is not None else (2e-3 if loose else 1e-6)
    if loose:
        return _expect_slopes(fn, args, got, argnums, rtol, atol)
    want = want(*args) if callable(want) else want
    expect_close(got, want, rtol=rtol, atol=atol, name="gradient")


def _expect_slopes(fn, args, gradient, argnums, rtol, atol, step=5e-3):
    signs = functools.partial(np.random.default_rng(0).choice, [-1.0, 1.0])
    for _ in range(3):
        ways = jax.tree.map(lambda g: signs(np.shape(g)), gradient)
        there = float(fn(*_moved(args, argnums, ways, step)))
        back = float(fn(*_moved(args, argnums, ways, -step)))
        measured = (there - back) / (2 * step)
        slope = _along(gradient, ways)
        rounding = 1e-6 * max(abs(there), abs(back)) / step
        if not np.isclose(slope, measured, rtol, atol + rounding):
            want = f"a slope of {measured:.3g}, by finite differences"
            got = f"a gradient with slope {slope:.3g} in that direction"
            raise CheckFailed(want, got)


def _along(gradient, ways):
    parts = jax.tree.map(lambda g, w: np.sum(np.asarray(g, float) * w), gradient, ways)
    return float(sum(jax.tree.leaves(parts)))


def _moved(args, argnums, ways, step):
    """The arguments, moved a step in the given ways."""
    if isinstance(argnums, int):
        argnums, ways = (argnums,), (ways,)
    moved = list(args)
    for n, way in zip(argnums, ways, strict=True):
        moved[n] = jax.tree.map(lambda x, w: _move(x, step * w), args[n], way)
    return tuple(moved)


def _move(x, by):
    return jnp.asarray(x) + jnp.asarray(by, jnp.result_type(x))
