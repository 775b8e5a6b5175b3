"""Traces are counted for every way in which people jit."""

import collections
import dataclasses
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecheck import Call, CheckFailed, count_traces, counting, expect_traces

X = np.arange(3, dtype=np.float32)
SAME = [(X,), (X + 1,), (jnp.ones(3),)]
SHAPES = [(X,), (X[:2],), (X,), (X[None],)]


def double(x):
    return jnp.where(x > 0, 2 * x, jnp.clip(x, 0, 1))


@jax.jit
def decorated(x):
    return double(x)


@jax.jit
def clip(x):
    """Has the name of one of jnp's own jitted functions, which it calls."""
    return jnp.clip(x, 0, 1)


class Model:
    """Jits in all the ways in which a class can."""

    def __init__(self):
        self.scale = 2.0
        self.forward = jax.jit(self.apply)

    def apply(self, x):
        return self.scale * double(x)

    @functools.partial(jax.jit, static_argnums=0)
    def method(self, x):
        return self.scale * double(x)

    def __call__(self, x):
        return self.forward(x) + 1


class Callable:
    """Its instances are called through a jitted method."""

    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, x):
        return double(x)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Scale:
    """A pytree with a jitted method."""

    by: jax.Array

    @jax.jit
    def apply(self, x):
        return self.by * double(x)


def calls_decorated(x):
    return jnp.sum(decorated(x))


def jits_a_global(x):
    return jax.jit(double)(x)


def keyword_only(x, *, by):
    return by * double(x)


def grad_of_jitted(x):
    return jax.grad(lambda x: decorated(x).sum())(jnp.asarray(x))


def mapped(x):
    return jax.vmap(decorated)(jnp.asarray(x))


def scanned(x):
    return jax.lax.scan(lambda c, _: (decorated(c), None), jnp.asarray(x), length=4)


def optimise(x):
    """Two jitted functions, each traced once, beside jnp's own."""
    start = jax.jit(lambda x: jnp.zeros_like(x))(x)
    return jax.jit(lambda x: x + 1)(start)


JITTED = {
    "decorated": decorated,
    "a name of jnp's": clip,
    "lambda": jax.jit(lambda x: double(x)),
    "of partial": jax.jit(functools.partial(keyword_only, by=2)),
    "partial of": functools.partial(jax.jit(keyword_only), by=2),
    "of grad": jax.jit(jax.grad(lambda x: double(x).sum())),
    "of vmap": jax.jit(jax.vmap(double)),
    "of jit": jax.jit(decorated),
    "of jnp": jax.jit(jnp.sin),
    "of partial of jnp": jax.jit(functools.partial(jnp.sum, axis=0)),
    "static self": Model().method,
    "pytree self": Scale(jnp.ones(3)).apply,
    "jitted __call__": Callable(),
    "jits inside": Model(),
    "attribute": Model().forward,
    "calls jitted": calls_decorated,
    "calls jitted in a lambda": lambda x: decorated(x),
    "jits a global": jits_a_global,
    "grad of": grad_of_jitted,
    "vmap of": mapped,
    "scan of": scanned,
    "two functions": lambda x, run=jax.jit(optimise): run(x),
}


@pytest.mark.parametrize("fn", JITTED.values(), ids=JITTED)
def test_one_trace_for_the_same_shapes_whatever_ran_before(fn):
    fn(X)
    assert count_traces(fn, SAME) == 1


BROADCAST = {"pytree self": [(X,), (X[:1],), (X,)]}
TRACES = {"vmap of": 1}  # a row of each is a scalar, whatever the length


@pytest.mark.parametrize("name", JITTED)
def test_one_trace_a_shape(name):
    calls = BROADCAST.get(name, [(X,), (X[:2],), (X,)])
    assert count_traces(JITTED[name], calls) == TRACES.get(name, 2)


NOT_JITTED = {
    "function": double,
    "lambda": lambda x: jnp.clip(jnp.where(x > 0, x, 0), 0, 1),
    "grad": jax.grad(lambda x: double(x).sum()),
    "vmap": jax.vmap(double),
    "scan": lambda x: jax.lax.scan(lambda c, _: (c * 2, c), x * 1.0, length=4),
    "cond": lambda x: jax.lax.cond(x[0] > 0, jnp.sin, double, x),
    "partial": functools.partial(keyword_only, by=2),
    "method": Model().apply,
    "jnp": lambda x: jnp.linalg.norm(jax.nn.softmax(jnp.asarray(x))),
    "clip of one's own": lambda x: clip.__wrapped__(x),
}


@pytest.mark.parametrize("fn", NOT_JITTED.values(), ids=NOT_JITTED)
def test_no_trace_without_jit(fn):
    with pytest.raises(CheckFailed, match="not jitted"):
        expect_traces(fn, SAME)


def test_no_trace_counts_as_none():
    assert count_traces(double, SAME) == 0


def test_disabled_jit_is_no_jit():
    with jax.disable_jit():
        assert count_traces(decorated, SAME) == 0


def jit_in_each_call(x):
    return jax.jit(lambda x: double(x))(x)


def jit_in_a_loop(x):
    for _ in range(4):
        x = jax.jit(lambda x: double(x))(x)
    return x


def grows_in_a_loop(x):
    for _ in range(4):
        x = jnp.append(x, decorated(x).sum())
    return x


def test_a_new_function_in_each_call_is_traced_in_each():
    assert count_traces(jit_in_each_call, SAME) == 3


def test_a_new_function_in_each_round_is_traced_in_each():
    assert count_traces(jit_in_a_loop, [(X,)]) == 4
    assert count_traces(grows_in_a_loop, [(X,)]) == 4
    assert count_traces(jax.jit(jit_in_a_loop), [(X,)]) == 1


def test_several_functions_count_as_the_most_traced_one():
    assert count_traces(optimise, [(X,)]) == 1
    assert count_traces(optimise, [(X,), (X,)]) == 2


def test_nested_functions_count_once():
    outer = jax.jit(lambda x: decorated(x) + jax.jit(lambda y: y * 2)(x))
    assert count_traces(outer, SAME) == 1


def test_a_cache_that_cannot_be_reached():
    table = Hidden({"fn": decorated})
    fn = lambda x: table.look_up("fn")(x)  # noqa: E731
    fn(X)
    assert count_traces(fn, SAME) == 1


class Hidden:
    """Keeps what it holds out of sight of attributes."""

    __slots__ = ("_hidden",)

    def __init__(self, hidden):
        self._hidden = hidden

    def look_up(self, name):
        return self._hidden[name]


def test_compiled_ahead_of_time_is_one_trace():
    compiled = jax.jit(double).lower(jnp.asarray(X)).compile()
    assert count_traces(compiled, SAME) == 1


def test_keywords_and_single_arguments():
    fn = jax.jit(keyword_only, static_argnames="by")
    calls = [Call((X,), {"by": by}) for by in (1, 2, 1)]
    assert count_traces(fn, calls) == 2
    assert count_traces(decorated, [X, X]) == 1


def test_donated_arguments_can_be_used_in_several_calls():
    fn = jax.jit(lambda p, x: {"w": p["w"] + x}, donate_argnums=0)
    params, x = {"w": jnp.ones(3)}, jnp.ones(3)
    assert count_traces(fn, [(params, x), (params, x)]) == 1
    assert not params["w"].is_deleted()


def test_errors_of_the_function_pass_through_and_leave_nothing_behind():
    before = sys.getprofile()
    with pytest.raises(jax.errors.TracerBoolConversionError):
        count_traces(jax.jit(lambda x: 1 if x.sum() > 0 else 0), SAME)
    assert sys.getprofile() is before


def test_no_calls_is_an_error_of_the_caller():
    with pytest.raises(ValueError, match="no calls"):
        count_traces(decorated, [])


@jax.tree_util.register_pytree_node_class
class Point:
    """A pytree whose own Python runs whenever JAX takes it apart."""

    def __init__(self, at):
        self.at = at

    def tree_flatten(self):
        return (self.at,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def test_a_pytree_of_the_user_is_no_trace_of_its_own():
    def moved(point):
        at = jax.jit(lambda p: p.at + 1)(point)
        return jax.jit(lambda p: Point(2 * p.at))(Point(at))

    jitted = jax.jit(lambda p: Point(p.at + 1))
    calls = [(Point(X),), (Point(X + 1),)]
    assert count_traces(jitted, calls) == 1
    assert count_traces(lambda p: jitted(jitted(p)), calls) == 1
    assert count_traces(moved, calls[:1]) == 1
    with pytest.raises(CheckFailed, match="not jitted"):
        expect_traces(lambda p: Point(jnp.clip(p.at, 0, 1)), calls)


def test_flax_nnx_jit():
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    fn = nnx.jit(lambda model, x: model(x))
    fn(model, X[None])
    calls = [(model, X[None]), (model, X[None] + 1)]
    assert count_traces(fn, calls) == 1
    assert count_traces(fn, [*calls, (model, np.ones((2, 3), np.float32))]) == 2


def test_code_of_an_installed_package_counts_when_it_is_examined():
    optax = pytest.importorskip("optax")
    from tracecheck._frames import is_user_file, own_frames

    frame = Frame(optax.global_norm)
    assert not is_user_file(frame.f_code.co_filename)
    assert own_frames(optax.sgd)(frame)
    assert not own_frames(double)(frame)
    assert not own_frames(jnp.sin)(Frame(jnp.linalg.norm.__wrapped__))


class Frame:
    """As much of a frame as is looked at."""

    def __init__(self, fn):
        self.f_code, self.f_globals = fn.__code__, fn.__globals__


def test_counting_counts_runs_of_the_body():
    plain = counting(double)
    plain(X), plain(X)
    assert plain.count == 2 and plain.__name__ == "double"
    jitted = jax.jit(counted := counting(double))
    jitted(X), jitted(X + 1), jitted(X[:2])
    assert counted.count == 2


def test_counting_keeps_the_signature():
    counted = counting(keyword_only)
    fn = jax.jit(counted, static_argnames="by")
    fn(X, by=1), fn(X, by=2), fn(X, by=2)
    assert counted.count == 2


def test_bounds():
    assert expect_traces(decorated, SAME) == 1
    assert expect_traces(decorated, SHAPES, at_most=3, at_least=3) == 3
    with pytest.raises(CheckFailed):
        expect_traces(decorated, SHAPES, at_most=2)
    with pytest.raises(CheckFailed):
        expect_traces(decorated, SAME, at_least=2, at_most=2)
    assert expect_traces(double, SAME, at_least=0, at_most=0) == 0


@settings(max_examples=6, deadline=None)
@given(st.lists(st.lists(st.integers(1, 3), max_size=2), min_size=1, max_size=5))
def test_as_many_traces_as_different_shapes(shapes):
    calls = [(np.ones(shape, np.float32),) for shape in shapes]
    assert count_traces(decorated, calls) == len({tuple(shape) for shape in shapes})


def test_a_registered_class_whose_arrays_are_donated_is_copied():
    State = collections.namedtuple("State", "w b")
    step = jax.jit(lambda s: State(s.w + 1, s.b + 1), donate_argnums=0)
    state = State(jnp.ones(3), jnp.ones(2))
    assert count_traces(step, [(state,), (state,)]) == 1
    assert not state.w.is_deleted()
