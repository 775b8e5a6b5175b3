"""What a function does beside returning its result is noticed."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tracecheck import Call, CheckFailed, counting, expect_pure

X = jnp.ones(3)
count, history, table = 0, [], {"scale": 2.0, "weights": np.ones(3)}
generator = np.random.default_rng(0)


def reads_globals(x):
    return x * table["scale"] + table["weights"] + count


def writes_global(x):
    global count
    count += 1
    return x


def calls_one_that_writes(x):
    return writes_global(x) + 1


def appends(x):
    history.append(1)
    return x


def leaks(x):
    history.append(x)
    return x


def changes_item(x):
    table["weights"][0] += 1
    return x


def makes_global(x):
    global made_by_makes_global
    made_by_makes_global = x.shape
    return x


def in_place(x):
    x[0] = 7
    return x.sum()


def pops(params):
    return params.pop("w")


def prints_while_tracing(x):
    print("tracing")
    return x


def prints_each_time(x):
    jax.debug.print("x is {}", x)
    return x


class Layer:
    """A layer in PyTorch's manner."""

    def __init__(self):
        self.scale, self.calls, self.last = 2.0, 0, None

    def pure(self, x):
        return self.scale * x

    def counts(self, x):
        self.calls += 1
        return x

    def keeps(self, x):
        self.last = x
        return x

    def __call__(self, x):
        return self.counts(x)


def enclosed():
    total = 0

    def add(x):
        nonlocal total
        total += 1
        return x

    return add


PURE = {
    "reads globals": (reads_globals, X),
    "jitted": (jax.jit(reads_globals), X),
    "nan": (lambda x: x / 0 * 0, X),
    "method": (Layer().pure, X),
    "copies": (lambda x: np.sort(x), np.array([2.0, 1.0])),
    "debug print": (jax.jit(prints_each_time), X),
    "key": (lambda key: jax.random.normal(key), jax.random.key(0)),
    "functions as results": (lambda x: (x, lambda y: y), X),
    "counting": (jax.jit(counting(reads_globals)), X),
    "local list": (lambda x: [x for _ in range(3)], X),
}
IMPURE = {
    "writes global": (writes_global, X),
    "jit writes global": (jax.jit(writes_global), X),
    "helper writes global": (jax.jit(calls_one_that_writes), X),
    "appends": (appends, X),
    "leaks": (jax.jit(leaks), X),
    "grad leaks": (jax.grad(lambda x: leaks(x).sum()), X),
    "changes item": (changes_item, X),
    "makes global": (makes_global, X),
    "in place": (in_place, np.ones(3)),
    "pops": (pops, {"w": X}),
    "prints while tracing": (jax.jit(prints_while_tracing), X),
    "counts": (Layer().counts, X),
    "jit keeps": (jax.jit(Layer().keeps), X),
    "callable object": (Layer(), X),
    "closure": (enclosed(), X),
    "counting": (jax.jit(counting(writes_global)), X),
    "random": (lambda x: x + random.random(), X),
    "generator": (lambda x: generator.normal(), X),
}


@pytest.mark.parametrize(("fn", "arg"), PURE.values(), ids=PURE)
def test_pure(fn, arg):
    expect_pure(fn, [(arg,), (arg,)])
    expect_pure(fn, [(arg,)])


@pytest.mark.parametrize(("fn", "arg"), IMPURE.values(), ids=IMPURE)
def test_impure(fn, arg):
    for _ in range(2):
        globals().pop("made_by_makes_global", None)
        with pytest.raises(CheckFailed):
            expect_pure(fn, [(arg,)])


def test_a_jitted_function_that_has_run_before_is_traced_again():
    fn = jax.jit(prints_while_tracing)
    fn(X)
    with pytest.raises(CheckFailed):
        expect_pure(fn, [(X,)])


def test_the_callers_arguments_are_left_alone():
    array, params = np.ones(3), {"w": X}
    for fn, arg in ((in_place, array), (pops, params)):
        with pytest.raises(CheckFailed):
            expect_pure(fn, [(arg,)])
    assert array.tolist() == [1, 1, 1] and list(params) == ["w"]


def test_donation_is_not_a_side_effect_on_the_caller():
    fn = jax.jit(lambda x: x + 1, donate_argnums=0)
    expect_pure(fn, [(X,)])
    assert not X.is_deleted()


def test_keywords():
    expect_pure(lambda x, *, n: x * n, [Call((X,), {"n": 2})])


def test_output_is_not_shown(capsys):
    expect_pure(prints_each_time, [(X,)])
    assert capsys.readouterr().out == ""
