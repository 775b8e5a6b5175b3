"""Equations are found wherever they are nested."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecheck import (
    Call,
    CheckFailed,
    count_primitives,
    expect_constant_size,
    expect_primitives,
    iter_eqns,
    jaxpr_of,
)

X = jnp.ones(3)


def scan(x):
    return jax.lax.scan(lambda c, x: (jnp.sin(c) + x, c), 0.0, x)


def unrolled(x):
    carry = 0.0
    for value in x:
        carry = jnp.sin(carry) + value
    return carry


@jax.custom_vjp
def custom(x):
    return jnp.sin(x)


custom.defvjp(lambda x: (custom(x), x), lambda x, g: (g * jnp.cos(x),))
NESTED = {
    "plain": jnp.sin,
    "jit": jax.jit(jnp.sin),
    "jit in jit": jax.jit(lambda x: jax.jit(jnp.sin)(x)),
    "scan": scan,
    "while": lambda x: jax.lax.while_loop(lambda x: x[0] > 0, jnp.sin, x),
    "cond": lambda x: jax.lax.cond(x[0] > 0, jnp.cos, jnp.sin, x),
    "vmap": jax.vmap(jnp.sin),
    "custom_vjp": custom,
    "checkpoint": jax.checkpoint(jnp.sin),
    "grad": jax.grad(lambda x: jnp.cos(x).sum()),
    "scan in cond": lambda x: jax.lax.cond(x[0] > 0, lambda x: scan(x)[1], jnp.cos, x),
}


@pytest.mark.parametrize("fn", NESTED.values(), ids=NESTED)
def test_a_primitive_is_found(fn):
    assert count_primitives(fn, X)["sin"] == 1
    expect_primitives(fn, (X,), has="sin", lacks=("tan", "tanh"))
    with pytest.raises(CheckFailed):
        expect_primitives(fn, (X,), lacks=["tan", "sin"])
    with pytest.raises(CheckFailed):
        expect_primitives(fn, (X,), has=["sin", "tan"])


def test_iter_eqns_takes_both_kinds_of_jaxpr():
    closed = jax.make_jaxpr(scan)(X)
    names = [eqn.primitive.name for eqn in iter_eqns(closed)]
    assert names == [eqn.primitive.name for eqn in iter_eqns(closed.jaxpr)]
    assert names.index("scan") < names.index("sin")


def test_a_jitted_function_is_entered():
    eqns = jaxpr_of(jax.jit(jnp.negative), X).eqns
    assert [eqn.primitive.name for eqn in eqns] == ["neg"]


def test_python_values_keep_their_value():
    def power(x, n, *, mode="up"):
        for _ in range(n):
            x = x * 2 if mode == "up" else x / 2
        return x

    assert count_primitives(power, X, 3)["mul"] == 3
    assert count_primitives(power, X, 2, mode="down")["div"] == 2
    jitted = jax.jit(power, static_argnames=("n", "mode"))
    assert count_primitives(jitted, X, 3)["mul"] == 3
    partial = functools.partial(jitted, n=4)
    assert count_primitives(partial, X, mode="down")["div"] == 4
    expect_primitives(power, Call((X, 1), {"mode": "down"}), has="div", lacks="mul")


def test_shapes_are_enough():
    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    assert count_primitives(jnp.sin, shape) == {"sin": 1}
    found = count_primitives(lambda d: d["x"] + d["n"], {"x": shape, "n": 2})
    assert found == {"add": 1}


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=4, unique=True))
def test_a_scan_stays_and_a_loop_grows(sizes):
    size = expect_constant_size(scan, jnp.ones, sizes)
    assert size == sum(count_primitives(scan, X).values())
    with pytest.raises(CheckFailed):
        expect_constant_size(unrolled, lambda n: (np.ones(n),), sizes)


def test_static_sizes():
    def repeat(x, n):
        return jax.lax.fori_loop(0, n, lambda _, x: jnp.sin(x), x)

    jitted = jax.jit(repeat, static_argnums=1)
    for fn in (repeat, jitted):
        expect_constant_size(fn, lambda n: (X, n), [2, 5, 50])


@pytest.mark.parametrize("sizes", [[], [3], [3, 3]])
def test_one_size_shows_nothing(sizes):
    with pytest.raises(ValueError, match="two different sizes"):
        expect_constant_size(scan, jnp.ones, sizes)
