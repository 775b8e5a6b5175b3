"""Each retrace is explained by what changed in the arguments."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecheck import Call, CheckFailed, expect_traces

X = jnp.ones(3)


def why(fn, calls):
    """The reason that is given for the traces after the first."""
    with pytest.raises(CheckFailed) as failure:
        expect_traces(fn, calls)
    return failure.value.got.partition(" traces: ")[2]


@jax.jit
def take(x, scale=1.0):
    return jax.tree.map(lambda leaf: leaf * scale, x)


@functools.partial(jax.jit, static_argnames=("n", "fn", "mode"))
def static(x, n=1, fn=None, mode="sum"):
    return x * n


seeded = jax.jit(lambda x, seed: x + seed % 7, static_argnames="seed")
CHANGES = [
    (take, (X,), (X[:2],), "`x` changed shape from (3,) to (2,)"),
    (take, (X,), (jnp.arange(3),), "`x` changed dtype from float32 to int32"),
    (take, (X,), (X, 2), "`scale` is new"),
    (take, (X, 2.0), (X, 2), "`scale` changed dtype from float32 to int32"),
    (take, (X, X), (X[:1], X[:1]), "`x` changed shape from (3,) to (1,) and "
     "`scale` changed shape from (3,) to (1,)"),
    (take, (X, 1.0), (X, jnp.float32(1)), "`scale` changed from a Python number "
     "(weak float32) to an array of float32"),
    (take, (X, np.float32(1)), (X, 1.0), "`scale` changed from an array of float32 "
     "to a Python number (weak float32)"),
    (take, ({"a": X},), ({"a": X, "b": X},), "`x['b']` is new"),
    (take, ({"a": X, "b": X},), ({"a": X},), "`x['b']` is gone"),
    (take, ({"a": [X, X]},), ({"a": [X, X[:1]]},), "`x['a'][1]` changed shape from "
     "(3,) to (1,)"),
    (take, ([X],), ((X,),), "`x` changed its tree structure"),
    (take, ((X, None),), ((X, X),), "`x[1]` is new"),
    (static, (X, 1), (X, 2), "static `n` changed from 1 to 2"),
    (seeded, (X, 2**40), (X, 2**41), "static `seed` changed from 1099511627776 to "
     "2199023255552"),
    (static, Call((X,), {"mode": "a"}), Call((X,), {"mode": "b"}),
     "static `mode` changed from 'a' to 'b'"),
    (static, Call((X,), {"fn": lambda x: x}), Call((X,), {"fn": lambda x: x}),
     "static `fn` was another function object"),
    (static, Call((X,), {"mode": None}), Call((X,), {"mode": 1}),
     "`mode` is new"),
]


@pytest.mark.parametrize(("fn", "first", "second", "reason"), CHANGES)
def test_the_argument_is_named(fn, first, second, reason):
    assert why(fn, [first, second]) == f"in call 2 {reason}"


def test_the_closest_earlier_call_is_compared():
    calls = [(X[:2], 1.0), (X, 1.0), (X, 1)]
    last = why(take, calls).split("; ")[1]
    assert last == "in call 3 `scale` changed dtype from float32 to int32"


def test_calls_with_the_same_reason_are_told_together():
    fresh = lambda x: jax.jit(lambda x: x + 1)(x)  # noqa: E731
    reason = "a new jitted function was made, for arguments of the same kind"
    assert why(fresh, [(X,)] * 4) == f"in calls 2, 3 and 4 {reason}"


def test_two_reasons_are_told_and_the_rest_is_counted():
    calls = [(jnp.ones(n),) for n in range(1, 6)]
    assert why(take, calls).endswith("; and 2 more")


def test_traces_within_one_call():
    def loop(x):
        for _ in range(3):
            x = jax.jit(lambda x: x + 1)(x)
        return x

    text = "which jits, or changes a shape, in a loop"
    assert why(loop, [(X,)]) == f"all in call 1, {text}"
    assert why(loop, [(X,), (X,)]) == f"3 in call 1, {text}"


def test_arguments_without_a_signature():
    class NoSignature:
        __signature__ = "none"

        def __call__(self, *args):
            return take(*args)

    reason = why(NoSignature(), [(X,), (X[:1],)])
    assert reason == "in call 2 `argument 0` changed shape from (3,) to (1,)"


SHAPES = st.lists(st.integers(1, 3), max_size=2).map(tuple)


@settings(max_examples=6, deadline=None)
@given(SHAPES, SHAPES)
def test_a_changed_shape_is_always_named(one, other):
    calls = [(np.ones(one, np.float32),), (np.ones(other, np.float32),)]
    if one == other:
        assert expect_traces(take, calls) == 1
    else:
        assert f"changed shape from {one} to {other}" in why(take, calls)
