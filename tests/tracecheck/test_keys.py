"""Typed keys, each used once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tracecheck import CheckFailed, expect_keys_used_once, expect_typed_key

KEY = jax.random.key(0)
normal, split = jax.random.normal, jax.random.split


def test_typed_keys():
    expect_typed_key(KEY)
    expect_typed_key(jax.random.key(0, impl="rbg"))
    expect_typed_key(split(KEY, 3), shape=(3,))


@pytest.mark.parametrize("key", [jax.random.PRNGKey(0), 0, jnp.ones(2), None])
def test_what_is_not_a_typed_key(key):
    with pytest.raises(CheckFailed, match="jax.random.key"):
        expect_typed_key(key)


def test_arrays_of_keys_have_a_shape():
    with pytest.raises(CheckFailed, match="shape"):
        expect_typed_key(split(KEY, 3))


def splits(key):
    one, other = split(key)
    return normal(one) + normal(other)


def splits_in_a_loop(key):
    total = 0.0
    for _ in range(3):
        key, subkey = split(key)
        total += normal(subkey)
    return total


def carries(key):
    def step(key, _):
        key, subkey = split(key)
        return key, normal(subkey)

    return jax.lax.scan(step, key, length=3)[1]


def uses_again_in_scan(key):
    return jax.lax.scan(lambda c, _: (c + normal(key), None), 0.0, length=3)


def draws_in_a_loop(key):
    return [normal(key) for _ in range(3)]


def splits_and_draws(key):
    return split(key), normal(key)


def helper_draws(key):
    return splits(key) + normal(key)


ONCE = {
    "draw": normal,
    "split": splits,
    "loop": splits_in_a_loop,
    "scan": carries,
    "vmap": lambda key: jax.vmap(normal)(split(key, 3)),
    "fold_in": lambda key: [normal(jax.random.fold_in(key, n)) for n in range(3)],
    "cond": lambda key: jax.lax.cond(True, normal, jax.random.uniform, key),
    "not used": lambda key: key,
}
AGAIN = {
    "loop": draws_in_a_loop,
    "split and draw": splits_and_draws,
    "helper": helper_draws,
    "scan": uses_again_in_scan,
    "two splits": lambda key: (split(key), split(key)),
    "vmap": lambda key: jax.vmap(lambda x: x + normal(key) + normal(key))(jnp.ones(3)),
}


@pytest.mark.parametrize("fn", ONCE.values(), ids=ONCE)
def test_used_once(fn):
    expect_keys_used_once(fn, KEY)
    expect_keys_used_once(jax.jit(fn), KEY)


@pytest.mark.parametrize("fn", AGAIN.values(), ids=AGAIN)
def test_used_again(fn):
    for form in (fn, jax.jit(fn)):
        with pytest.raises(CheckFailed, match="used twice"):
            expect_keys_used_once(form, KEY)


def test_other_arguments_and_pytrees():
    fn = lambda x, state: x * normal(state["key"], x.shape)  # noqa: E731
    expect_keys_used_once(fn, jnp.ones(3), {"key": KEY, "rate": 0.1})
    expect_keys_used_once(fn, np.ones(3, np.float32), {"key": KEY, "rate": 0.1})


def test_keys_made_inside():
    expect_keys_used_once(lambda: splits(jax.random.key(1)))
    with pytest.raises(CheckFailed):
        expect_keys_used_once(lambda: draws_in_a_loop(jax.random.key(1)))


def test_functions_that_cannot_be_traced():
    def eager(key):
        return normal(key) if normal(split(key)[0]) > 5 else 0.0

    def eager_again(key):
        return normal(key) if normal(key) > -5 else 0.0

    expect_keys_used_once(eager, KEY)
    with pytest.raises(CheckFailed, match="used twice"):
        expect_keys_used_once(eager_again, KEY)


def test_raw_keys_are_refused():
    for fn, *args in [
        (splits, jax.random.PRNGKey(0)),
        (draws_in_a_loop, jax.random.PRNGKey(0)),
        (lambda: splits(jax.random.PRNGKey(0)),),
        (lambda: draws_in_a_loop(jax.random.PRNGKey(0)),),
    ]:
        with pytest.raises(CheckFailed, match="raw key"):
            expect_keys_used_once(fn, *args)


def test_the_callers_key_is_not_used_up():
    with jax.debug_key_reuse(True):
        key = jax.random.key(5)
        expect_keys_used_once(splits, key)
        normal(key)
