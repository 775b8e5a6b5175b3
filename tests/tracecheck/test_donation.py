"""Donation is seen where it happens: in what is alive after a call."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tracecheck import Call, CheckFailed, expect_donated, expect_not_donated

X = jnp.ones(3)
PARAMS = {"w": X, "b": np.ones(2, np.float32)}


def update(params, grads, rate=0.1):
    return jax.tree.map(lambda p, g: p - rate * g, params, grads)


DONATES = {
    "number": jax.jit(update, donate_argnums=0),
    "name": jax.jit(update, donate_argnames="params"),
    "static": jax.jit(update, donate_argnums=0, static_argnames="rate"),
    "partial": functools.partial(jax.jit(update, donate_argnums=0), rate=0.2),
    "wrapped": lambda params, grads, step=jax.jit(update, donate_argnums=0): step(
        params, grads
    ),
}


@pytest.mark.parametrize("fn", DONATES.values(), ids=DONATES)
def test_donated(fn):
    expect_donated(fn, (PARAMS, PARAMS))
    expect_donated(fn, (PARAMS, PARAMS), "params")
    expect_not_donated(fn, (PARAMS, PARAMS), "grads")
    expect_not_donated(fn, (PARAMS, PARAMS), 1)
    with pytest.raises(CheckFailed, match="params"):
        expect_not_donated(fn, (PARAMS, PARAMS), (1, 0))
    with pytest.raises(CheckFailed, match="grads"):
        expect_donated(fn, (PARAMS, PARAMS), ("params", "grads"))
    assert not X.is_deleted()


@pytest.mark.parametrize("fn", [update, jax.jit(update)])
def test_not_donated(fn):
    expect_not_donated(fn, (PARAMS, PARAMS), ("params", "grads"))
    with pytest.raises(CheckFailed):
        expect_donated(fn, (PARAMS, PARAMS))


def test_memory_that_no_result_can_use():
    fn = jax.jit(jnp.sum, donate_argnums=0)
    for _ in range(2):
        with pytest.raises(CheckFailed, match="no result has its shape"):
            expect_donated(fn, (X,))


def test_keywords():
    fn = jax.jit(lambda x, *, state: (x, state + x), donate_argnames="state")
    call = Call((X,), {"state": X})
    expect_donated(fn, call, "state")
    expect_not_donated(fn, call, "x")


@pytest.mark.parametrize("which", [1, "rate"])
def test_an_argument_without_arrays(which):
    with pytest.raises(ValueError, match="no array"):
        expect_donated(lambda x, rate: x, (X, 0.1), which)
