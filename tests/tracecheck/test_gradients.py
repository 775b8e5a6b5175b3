"""Gradients against formulas and against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tracecheck import CheckFailed, expect_grad


def cube(x, y=0.0):
    return jnp.sum(x**3) + jnp.sum(jnp.sin(y))


@jax.custom_vjp
def wrong_gradient(x):
    return jnp.sum(x**2)


wrong_gradient.defvjp(lambda x: (wrong_gradient(x), x), lambda x, g: (g * x,))
X = jnp.array([0.5, -1.0, 2.0])


def test_gradient_against_values_and_functions():
    expect_grad(cube, (X,), 3 * np.asarray(X) ** 2)
    expect_grad(cube, (X,), lambda x: 3 * x**2)
    expect_grad(cube, (X, X), (3 * X**2, jnp.cos(X)), argnums=(0, 1))


def test_gradient_against_finite_differences():
    expect_grad(cube, (X,))
    expect_grad(cube, (X, X), argnums=(0, 1))
    expect_grad(lambda p: cube(p["x"]), ({"x": X},))
    expect_grad(lambda x: 1e3 + jnp.tanh(x), (jnp.float32(0.3),))


@pytest.mark.parametrize("want", [None, lambda x: 2 * x])
def test_wrong_gradients_are_found(want):
    with pytest.raises(CheckFailed):
        expect_grad(wrong_gradient, (X,), want)


def test_gradient_of_a_vector_is_an_error_of_jax():
    with pytest.raises(TypeError):
        expect_grad(jnp.sin, (X,))
