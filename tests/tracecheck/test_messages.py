"""The messages are what learners see: each is held to its exact words."""

import linecache
import textwrap
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tracecheck import (
    CheckFailed,
    check,
    expect_close,
    expect_constant_size,
    expect_donated,
    expect_grad,
    expect_keys_used_once,
    expect_not_donated,
    expect_parity,
    expect_primitives,
    expect_pure,
    expect_same_tree,
    expect_traces,
    expect_typed_key,
    scoreboard,
)

X = jnp.ones(3)
KEY, RAW = jax.random.key(0), jax.random.PRNGKey(0)
ANSWER = """
import functools
import jax
import jax.numpy as jnp
import numpy as np

history = []
count = 0

def double(x):
    return 2 * x

def unwritten(x):
    raise NotImplementedError

def branches(x):
    if x > 0:
        return x
    return -x

def misses(x):
    return x.shape[5]

def grows(x):
    return sum(x[i] for i in range(len(x)))

def draws_twice(key):
    first = jax.random.normal(key)
    return first + jax.random.normal(key)

def counts(x):
    global count
    count += 1
    return x

def leaks(x):
    history.append(x)
    return x

def prints(x):
    print(x)
    return x

def assigns(x):
    x[0] = 1.0
    return x

def jits_inside(x):
    return jax.jit(lambda x: x + 1)(x)

def jits_in_a_loop(x):
    for _ in range(3):
        x = jits_inside(x)
    return x

@jax.jit
def add(x, y=1.0):
    return x + y

@functools.partial(jax.jit, static_argnames="n")
def power(x, n):
    return x**n

@functools.partial(jax.jit, donate_argnums=0)
def total(x):
    return x.sum()

@functools.partial(jax.jit, donate_argnums=0)
def step(params):
    return {"w": params["w"] - 1}

def misses_in_a_list(x):
    return [x.shape[i] for i in (5,)]
"""


def cell(source, names, filename):
    """Run source as a notebook's cell is run, its lines known to tracebacks."""
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    exec(compile(source, filename, "exec"), names)
    return names


answer = cell(ANSWER, {"__name__": "answer"}, "<answer>")
A = types.SimpleNamespace(**answer)
BOOL = (
    "TracerBoolConversionError: `if`, `while`, `and`, `or` or `not` was given a traced "
    "value, which is neither True nor False while tracing"
)
MESSAGES = [
    # values
    (lambda: expect_close(X, np.ones(4)), "result of shape (4,)", "shape (3,)"),
    (lambda: expect_close(X, np.ones(3, int), name="labels"),
     "labels of dtype int32", "dtype float32"),
    (lambda: expect_close([1.0], np.ones(1)), "result to be there", "result[0]"),
    (lambda: expect_close("a", np.ones(1)), "result to be an array", "type str"),
    (lambda: expect_close({"opt": "sgd"}, {"opt": "adam"}),
     "another value of result['opt']", "'sgd'"),
    (lambda: expect_close(X, np.array([1.0, 3.5, 1.0])),
     "result with the right values",
     "a difference of 2.5 at [1]; 1 of 3 values differ"),
    (lambda: expect_close(jnp.float32(3), 2.5), "result with the right values",
     "a difference of 0.5; it differs"),
    (lambda: expect_close(X / 0 * 0, np.ones(3)), "result with the right values",
     "nan at [0]; 3 of 3 values differ"),
    (lambda: expect_close(X > 0, np.array([True, False, True])),
     "result with the right values", "1 of 3 values differ, the first at [1]"),
    (lambda: expect_same_tree({"a": X, "bias": X}, {"a": X, "b": X}, name="params"),
     "params['b'] to be there", "params['a'], params['bias']"),
    (lambda: expect_same_tree({"a": X, "b": X}, {"a": X}),
     "no result['b']", "result['a'], result['b']"),
    (lambda: expect_same_tree((X, X), [X, X]),
     "result with the structure of a certain list",
     "another structure, of type tuple, with leaves of these names"),
    (lambda: expect_same_tree(None, X), "result to be there", "None"),
    (lambda: expect_same_tree({}, {"w": X}), "result['w'] to be there",
     "an empty dict"),
    (lambda: expect_grad(lambda x: jnp.sum(x**2), (X,), lambda x: x),
     "gradient with the right values",
     "a difference of 1 at [0]; 3 of 3 values differ"),
    (lambda: expect_grad(lambda x: jax.lax.stop_gradient(x) ** 2, (jnp.float32(3),)),
     "a slope of 6, by finite differences",
     "a gradient with slope 0 in that direction"),
    # tracing
    (lambda: expect_traces(A.double, [(X,), (X,)]), "double to be compiled in 2 calls",
     "no trace at all: not jitted"),
    (lambda: expect_traces(lambda x: x, [(X,)]), "<lambda> to be compiled in 1 call",
     "no trace at all: not jitted"),
    (lambda: expect_traces(A.add, [(X,), (X[:2],)]), "at most 1 trace in 2 calls",
     "2 traces: in call 2 `x` changed shape from (3,) to (2,)"),
    (lambda: expect_traces(A.add, [(X, 1), (X, 1.0)]), "at most 1 trace in 2 calls",
     "2 traces: in call 2 `y` changed dtype from int32 to float32"),
    (lambda: expect_traces(A.power, [(X, 1), (X, 2), (X, 3)], at_most=2),
     "at most 2 traces in 3 calls", "3 traces: in call 2 static `n` changed from 1 to "
     "2; in call 3 static `n` changed from 1 to 3"),
    (lambda: expect_traces(A.jits_inside, [(X,), (X,)]), "at most 1 trace in 2 calls",
     "2 traces: in call 2 a new jitted function was made, for arguments of the same "
     "kind"),
    (lambda: expect_traces(A.jits_in_a_loop, [(X,)]), "at most 1 trace in 1 call",
     "3 traces: all in call 1, which jits, or changes a shape, in a loop"),
    (lambda: expect_traces(A.add, [(X,)] * 3, at_least=2, at_most=2),
     "at least 2 traces in 3 calls", "1 trace"),
    # jaxprs
    (lambda: expect_primitives(A.double, (X,), has="scan"),
     "a `scan` in the jaxpr", "none; it has mul"),
    (lambda: expect_primitives(lambda x: x, (X,), has="scan"),
     "a `scan` in the jaxpr", "none; it has no equations"),
    (lambda: expect_primitives(lambda x: -x + -x, (X,), lacks="neg"),
     "no `neg` in the jaxpr", "2 of them"),
    (lambda: expect_constant_size(A.grows, jnp.ones, [2, 3]),
     "the same number of equations at every size",
     "6 at size 2, 9 at size 3: the program grows, as when a Python loop is unrolled"),
    # purity
    (lambda: expect_pure(A.counts, [(X,)]), "nothing to change but the result",
     "`count` was changed"),
    (lambda: expect_pure(jax.jit(A.leaks), [(X,)]),
     "traced values to stay inside the function", "`history` holds a leaked tracer"),
    (lambda: expect_pure(jax.jit(A.prints), [(X,)]),
     "prints to print the same each time",
     "a print that runs while tracing only (jax.debug.print runs each time)"),
    (lambda: expect_pure(A.assigns, [(np.zeros(2),)]),
     "nothing to change but the result", "an argument was changed"),
    (lambda: expect_pure(lambda x, n=iter(range(9)): x + next(n), [(X,)]),
     "the same result for the same arguments",
     "in the second run a difference of 1 at [0]; 3 of 3 values differ"),
    # keys
    (lambda: expect_typed_key(RAW), "key to be a typed key",
     "a raw key, uint32[2]: make it with jax.random.key(seed)"),
    (lambda: expect_typed_key(X, name="state['key']"), "state['key'] to be a typed key",
     "an array of dtype float32: make it with jax.random.key(seed)"),
    (lambda: expect_typed_key(0), "key to be a typed key",
     "type int: make it with jax.random.key(seed)"),
    (lambda: expect_typed_key(KEY, shape=(2,)), "key of shape (2,)", "shape ()"),
    (lambda: expect_keys_used_once(A.draws_twice, KEY), "each key to be used once",
     "a key that is used twice, the second time at line 29 of `draws_twice`: "
     "`return first + jax.random.normal(key)`"),
    (lambda: expect_keys_used_once(jax.random.normal, RAW), "typed keys as arguments",
     "a raw key, uint32[2]: make it with jax.random.key(seed)"),
    (lambda: expect_keys_used_once(lambda: A.draws_twice(jax.random.PRNGKey(0))),
     "<lambda> to use typed keys",
     "raw keys, whose use cannot be followed: make it with jax.random.key(seed)"),
    # donation
    (lambda: expect_donated(A.add, (X,)), "`x` to be donated",
     "it is still alive after the call"),
    (lambda: expect_donated(A.total, (X,)), "`x` to be donated",
     "it is still alive after the call: it was donated, and no result has its shape "
     "and dtype"),
    (lambda: expect_not_donated(A.step, ({"w": X},)),
     "`params['w']` to be usable after the call", "it was donated"),
    # errors
    (lambda: A.unwritten(X), "an answer", "'not written yet'"),
    (lambda: A.misses(X), "an answer that runs",
     "IndexError: tuple index out of range, at line 22 of `misses`: "
     "`return x.shape[5]`"),
    (lambda: A.misses_in_a_list(X), "an answer that runs",  # 3.12 inlines the list
     "IndexError: tuple index out of range, at line 73 of `misses_in_a_list`: "
     "`return [x.shape[i] for i in (5,)]`"),
    (lambda: jax.jit(A.branches)(1.0), "an answer that runs",
     f"{BOOL}, at line 17 of `branches`: `if x > 0:`"),
    (lambda: A.assigns(X), "an answer that runs",
     "TypeError: JAX arrays are immutable, so items of them cannot be assigned, "
     "at line 45 of `assigns`: `x[0] = 1.0`"),
]


@pytest.mark.parametrize(("block", "expected", "got"), MESSAGES)
def test_expectation(block, expected, got):
    with pytest.raises(CheckFailed) as failure, check("name", points=2, section="Why"):
        block()
    assert failure.value._render_traceback_() == [
        f"✗ name 0/2: expected {expected}",
        f"  got {got}",
        "  see the section 'Why'",
    ]


@pytest.mark.torch
def test_parity():
    with pytest.raises(CheckFailed) as failure:
        expect_parity(lambda x: x * x, lambda x: x * x + 1, (np.ones(2, np.float32),))
    assert str(failure.value) == (
        "expected result with the right values\n"
        "  got a difference of 1 at [0]; 2 of 2 values differ"
    )
    with pytest.raises(CheckFailed) as failure:
        expect_parity(
            lambda x: x * x, lambda x: x * jax.lax.stop_gradient(x), (np.ones(1, "f"),)
        )
    assert failure.value.expected == "gradient of input 0 with the right values"


IN_PLAIN_WORDS = {
    "branches(x)": BOOL,
    "float(x)": "ConcretizationTypeError: a Python number was needed, and there was a "
    "traced value, unknown while tracing",
    "range(x)": "TracerIntegerConversionError: a Python integer (an index, a length, a "
    "`range`) was needed, and there was a traced value, unknown while tracing",
    "np.asarray(x)": "TracerArrayConversionError: NumPy was given a traced value, "
    "which holds no numbers while tracing",
    "jnp.ones(3)[jnp.ones(3) > x]": "NonConcreteBooleanIndexError: a Boolean mask was "
    "used as an index, so that a shape would depend on values, unknown while tracing",
    "jnp.zeros(x)": "TypeError: a shape was made of a traced value, unknown while "
    "tracing",
    "power(x, jnp.ones(2))": "ValueError: a static argument cannot be hashed",
    "leaked + 1": "UnexpectedTracerError: a traced value was kept after its trace had "
    "ended",
}


@pytest.mark.parametrize("expression", IN_PLAIN_WORDS)
def test_errors_of_jax_in_plain_words(expression):
    kept = []
    jax.jit(kept.append)(1.0)
    source = f"def asked(x):\n    return {expression}\n"
    asked = cell(source, {**answer, "leaked": kept[0]}, "<asked>")["asked"]
    with pytest.raises(CheckFailed) as failure, check("name", points=1):
        jax.jit(asked)(2)
    words = failure.value.got.partition(", at line")[0]
    assert words == IN_PLAIN_WORDS[expression]


def test_use_after_donation_in_plain_words():
    x = X + 0
    A.step({"w": x})
    with pytest.raises(CheckFailed) as failure, check("name", points=1):
        cell("y = x + 1", {"x": x}, "<later>")
    words = "an array was used after it had been donated, at line 1: `y = x + 1`"
    assert failure.value.got.partition(": ")[2] == words


ASSERTS = {
    "assert x.shape == (4,), 'four values'": ("four values", "`x.shape` is (3,)"),
    "assert (\n    x.shape\n    == (4,)\n), 'four values'":
        ("four values", "`x.shape` is (3,)"),
    "assert n > 4, f'more than {4}'": ("more than 4", "`n` is 3"),
    "assert sizes['a'] == 4, 'four'": ("four", "`sizes['a']` is 3"),
    "assert len(x) == 4, 'four values'": ("four values", "`len(x)` is 3"),
    "assert got == 4, 'four'": ("four", "[3]"),
    "assert got[0] == 4, 'four'": ("four", "`got[0]` is 3"),
    "assert sorted(x) == 4, 'sorted values'": ("sorted values", "it is not so"),
    "assert 4 == n, 'four'": ("four", "it is not so"),
    "assert not n, 'nothing'": ("nothing", "it is not so"),
    "assert big == 0, 'zero'": ("zero", "it is not so"),
    "assert False": ("the assertion in line 2 to hold", "it is not so"),
    "\n\nassert n == 4": ("the assertion in line 4 to hold", "`n` is 3"),
}


@pytest.mark.parametrize("source", ASSERTS)
def test_plain_asserts(source):
    names = {"check": check, "x": X, "n": 3, "sizes": {"a": 3}, "big": list(range(99))}
    names["got"] = [3]
    block = textwrap.indent(source, "    ")
    with pytest.raises(CheckFailed) as failure:
        cell(f"with check('name', points=1):\n{block}\n", names, "<check>")
    assert (failure.value.expected, failure.value.got) == ASSERTS[source]


def test_asserts_of_numpy_do_not_print_the_answer():
    with pytest.raises(CheckFailed) as failure, check("name", points=1):
        np.testing.assert_allclose(np.ones(2), np.full(2, 7.25))
    assert failure.value.got.startswith("AssertionError: Not equal to tolerance")
    assert "7.25" not in str(failure.value).partition(", at line")[0]


def test_scoreboard(capsys):
    with check("one_trace", points=2):
        pass
    with pytest.raises(CheckFailed), check("values", points=10):
        expect_close(1.0, 2.0)
    capsys.readouterr()
    scoreboard(total=15)
    assert capsys.readouterr().out == (
        "one_trace  2 /  2\n"
        "values     0 / 10\n"
        "total      2 / 15\n"
        "3 points have not been checked yet\n"
    )


def test_without_a_check_there_are_two_lines():
    with pytest.raises(CheckFailed) as failure:
        expect_close(1.0, 2.0)
    assert str(failure.value) == (
        "expected result with the right values\n  got a difference of 1; it differs"
    )
