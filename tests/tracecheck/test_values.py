"""Values, shapes, dtypes and trees."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecheck import CheckFailed, expect_close, expect_same_tree

Pair = collections.namedtuple("Pair", "a b")
SAME = [
    (jnp.ones(3), np.ones(3)),  # NumPy's float64 is JAX's float32
    (np.arange(3), jnp.arange(3)),
    (jnp.float32(2), 2.0),
    (jnp.bfloat16(2), 2.0),
    (2.0, np.float32(2)),
    (jnp.array(True), True),
    (jnp.array([np.nan, np.inf]), np.array([np.nan, np.inf])),
    ({"a": [jnp.ones(2), (1, None)]}, {"a": [np.ones(2), (1, None)]}),
    (Pair(jnp.ones(1), "adam"), Pair(np.ones(1), "adam")),
    (jax.random.key(3), jax.random.key(3)),
    (jnp.ones((0, 2)), np.ones((0, 2))),
    (jnp.array(1 + 2j), np.array(1 + 2j)),
    (None, None),
]
OTHER = [
    (jnp.ones(3), np.ones(4)),
    (jnp.ones(3), np.ones((1, 3))),
    (jnp.ones(3), np.ones(3, int)),
    (jnp.ones(3, jnp.bfloat16), np.ones(3, np.float32)),
    (jnp.ones(3), np.ones(3) + 1e-3),
    (jnp.arange(3), np.arange(1, 4)),
    (jnp.array([True, False]), np.array([True, True])),
    (jnp.array([1.0, np.nan]), np.array([1.0, 2.0])),
    (jnp.array([1.0, 2.0]), np.array([1.0, np.nan])),
    (jnp.array(np.inf), np.array(-np.inf)),
    (1, 1.0),
    ([1.0], np.ones(1)),
    ("adam", np.ones(1)),
    ("adam", "sgd"),
    (None, 1.0),
    ({"a": 1.0}, {"b": 1.0}),
    ({"a": 1.0, "b": 1.0}, {"a": 1.0}),
    ((1.0, 2.0), [1.0, 2.0]),
    (jax.random.key(3), jax.random.key(4)),
    (jax.random.key(3), jax.random.PRNGKey(3)),
]


@pytest.mark.parametrize(("got", "want"), SAME)
def test_close(got, want):
    expect_close(got, want)
    expect_same_tree(got, want)


@pytest.mark.parametrize(("got", "want"), OTHER)
def test_not_close(got, want):
    with pytest.raises(CheckFailed):
        expect_close(got, want)


def test_tolerances():
    expect_close(jnp.array([1.0, 100.0]), np.array([1.05, 105.0]), rtol=0.06)
    expect_close(jnp.array([1.0, 100.0]), np.array([1.05, 100.0]), atol=0.06)
    with pytest.raises(CheckFailed):
        expect_close(jnp.array([1.0, 100.0]), np.array([1.05, 105.0]), atol=0.06)


def test_same_tree_does_not_look_at_values():
    expect_same_tree({"w": jnp.ones((2, 3))}, {"w": np.zeros((2, 3))})
    expect_same_tree(jnp.ones(2), jax.ShapeDtypeStruct((2,), jnp.float32))


def test_message_never_holds_the_wanted_value():
    with pytest.raises(CheckFailed) as failure:
        expect_close(jnp.zeros(3), np.array([7.25, 0, 0]), rtol=0.5)
    assert "7.25" in str(failure.value)  # the difference, as got is zero
    with pytest.raises(CheckFailed) as failure:
        expect_close(jnp.ones(3), np.array([7.25, 1, 1]))
    assert "7.25" not in str(failure.value)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=3), st.data())
def test_the_place_of_one_difference_is_named(shape, data):
    want = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    expect_close(want, want)
    if want.size == 0:
        return
    place = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    got = want.copy()
    got[place] += 5
    with pytest.raises(CheckFailed) as failure:
        expect_close(got, want)
    assert "a difference of 5" in failure.value.got
    assert shape == [] or f"at {list(place)};" in failure.value.got


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 3), max_size=3), st.lists(st.integers(1, 3), max_size=3))
def test_only_the_same_shapes_are_the_same(one, other):
    if one == other:
        expect_same_tree(np.ones(one), np.ones(other))
    else:
        with pytest.raises(CheckFailed):
            expect_same_tree(np.ones(one), np.ones(other))
