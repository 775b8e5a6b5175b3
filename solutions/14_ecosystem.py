# %% [markdown]
# # One model, three libraries
#
# Seven exercises across Flax NNX, Equinox and Haiku, and the tools that check shapes
# and traces in any of them. Checks look at trees, traces and errors, not only at
# numbers. They go with the chapter of the same name.
# %%
from typing import ClassVar

import chex
import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from beartype import beartype
from flax import nnx
from jaxtyping import Array, Float, jaxtyped
from tracecheck import check, counting, expect_close
# %% [markdown] ex="libraries_count" level="warm-up" minutes=6
# ## Count in any library
#
# Write `count(model)`. It returns how many numbers of a model train, as a Python
# integer. The model is one of three:
#
# - a Flax module: its variables of type `nnx.Param`;
# - an Equinox module, with its state taken out by `eqx.nn.make_with_state`: its arrays
#   of floats;
# - the parameters of a Haiku function: a dict of dicts of arrays.
# %% ex="libraries_count" kind="solution"
def count(model):
    """Number of trainable numbers of a model of any of the three libraries."""
    ### BEGIN SOLUTION
    if isinstance(model, nnx.Module):
        model = nnx.state(model, nnx.Param)
    arrays = eqx.filter(model, eqx.is_inexact_array)
    return sum(int(leaf.size) for leaf in jax.tree.leaves(arrays))
    ### END SOLUTION
# %% [markdown] ex="libraries_count" kind="hint"
# All three are trees in the end. What has to be taken out of each, before its leaves
# are counted?
# %% [markdown] ex="libraries_count" kind="hint"
# `nnx.state(model, nnx.Param)` leaves statistics and keys out of a Flax module.
# `eqx.filter(tree, eqx.is_inexact_array)` leaves functions, flags and integers out.
# %% ex="libraries_count" kind="check"
with check("flax", points=1,
           section="Three ways to write one block"):
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.layer = nnx.Linear(3, 4, rngs=rngs)
            self.norm = nnx.BatchNorm(4, rngs=rngs)
            self.drop = nnx.Dropout(0.5, rngs=rngs)

    total = count(Net(nnx.Rngs(0)))
    assert total == 24, "16 numbers in the layer and 8 in the normalisation"
# %% ex="libraries_count" kind="check"
with check("equinox_and_haiku", points=1,
           section="An Equinox module is one tree, functions included"):
    total = count(eqx.nn.MLP(3, 2, 5, 1, key=jax.random.key(0)))
    assert total == 32, "20 and 12 numbers in two layers"
    fns = hk.transform(lambda x: hk.Linear(2)(hk.Linear(5)(x)))
    total = count(fns.init(jax.random.key(0), jnp.ones((1, 3))))
    assert total == 32, "20 and 12 numbers in a dict of Haiku"
    kind = type(total)
    assert kind is int, "a Python integer"
# %% ex="libraries_count" kind="hidden"
with check("other_leaves", points=1,
           section="An Equinox module is one tree, functions included"):
    class Table(eqx.Module):
        norm: eqx.nn.BatchNorm
        rows: jax.Array
        gain: jax.Array
        scale: float

    def build():
        norm = eqx.nn.BatchNorm(6, "batch", mode="batch")
        return Table(norm, jnp.arange(9), jnp.ones(2), 0.5)

    total = count(eqx.nn.make_with_state(build)()[0])
    assert total == 14, "12 in the normalisation, 2 in the gain"
# %% ex="libraries_count" kind="wrong" fails="flax equinox_and_haiku other_leaves"
# every leaf is taken for a parameter, as `model.parameters()` has nothing else
def count(model):
    return sum(leaf.size for leaf in jax.tree.leaves(model))
# %% ex="libraries_count" kind="wrong" fails="flax"
# running statistics are floats too: in Flax they are in the module
def count(model):
    arrays = eqx.filter(model, eqx.is_inexact_array)
    return sum(int(leaf.size) for leaf in jax.tree.leaves(arrays))
# %% ex="libraries_count" kind="wrong" fails="other_leaves"
# arrays of integers can't be differentiated, and are counted
def count(model):
    if isinstance(model, nnx.Module):
        model = nnx.state(model, nnx.Param)
    arrays = eqx.filter(model, eqx.is_array)
    return sum(int(leaf.size) for leaf in jax.tree.leaves(arrays))
# %% ex="libraries_count" kind="alternate"
def count(model):
    if isinstance(model, nnx.Module):
        model = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    total = 0
    for leaf in jax.tree.leaves(model):
        if isinstance(leaf, (jax.Array, np.ndarray)):
            total += leaf.size * jnp.issubdtype(leaf.dtype, jnp.floating)
    return int(total)
# %% [markdown] ex="libraries_count" kind="why"
# The three draw the line between parameters and the rest in three places: Flax by the
# type of a variable, Equinox by the kind of a leaf, Haiku by keeping state in another
# dict. Floats alone won't do for Flax, where running statistics are floats in the same
# module, and a type of variable does not exist in the others. Equinox leaves flags,
# functions and Python floats in the tree, hence its filters.
# %% [markdown] ex="retraces_refuse" level="warm-up" minutes=7
# ## Refuse to trace again
#
# A last batch that is shorter makes a second program, silently. chex counts traces by
# source, so functions made from the same lines in the same place share a count. Write a
# guard that counts for itself.
#
# `guarded(fn, most)` takes a plain function that is not compiled. It returns a
# compiled `fn` that raises an `AssertionError` when it would be traced more than
# `most` times. Calls that need no trace are free: any number of them is fine, and they
# go on working after an error. Each call of `guarded` starts at zero, also when it
# gets a function for the second time.
# %% ex="retraces_refuse" kind="solution"
def guarded(fn, most):
    """A compiled fn that refuses to be traced more than `most` times."""
    ### BEGIN SOLUTION
    traces = 0

    @jax.jit
    def counted(*args):
        nonlocal traces
        assert traces < most, f"traced more than {most} times"
        traces += 1
        return fn(*args)

    return counted
    ### END SOLUTION
# %% [markdown] ex="retraces_refuse" kind="hint"
# What runs during a trace, and what runs in every call? The counter has to be among
# the first.
# %% [markdown] ex="retraces_refuse" kind="hint"
# Jit a new inner function, and count in its first lines. A variable of the enclosing
# function, with `nonlocal`, belongs to one guard.
# %% ex="retraces_refuse" kind="check"
with check("second_shape", points=1,
           section="An annotation checks nothing by itself"):
    fast = guarded(lambda x: 2 * x, 1)
    for value in (1.0, 2.0, 3.0):
        row = np.full(4, value, np.float32)
        expect_close(fast(row), 2 * row)
    try:
        fast(row[:3])
        raised = False
    except AssertionError:
        raised = True
    assert raised, "an AssertionError for the second shape"
    expect_close(fast(row), 2 * row, name="after the error")
# %% ex="retraces_refuse" kind="check"
with check("compiled", points=1,
           section="An annotation checks nothing by itself"):
    body = counting(lambda x, y: x * y)
    fast = guarded(body, 2)
    for n in (3, 3, 5, 5, 3):
        fast(jnp.ones(n), jnp.ones(n))
    runs = body.count
    assert runs == 2, "two runs of the body for two shapes in five calls"
# %% ex="retraces_refuse" kind="hidden"
with check("own_count", points=1,
           section="An annotation checks nothing by itself"):
    def triple(x):
        return 3 * x

    guards = [guarded(triple, 1) for _ in range(3)]
    for _ in range(2):
        for n, fast in enumerate(guards, 2):
            expect_close(fast(jnp.ones(n)), np.full(n, 3.0), name=f"guard {n}")
# %% ex="retraces_refuse" kind="wrong" fails="second_shape compiled own_count"
# the counter of chex, around the compiled function
def guarded(fn, most):
    return chex.assert_max_traces(jax.jit(fn), n=most)
# %% ex="retraces_refuse" kind="wrong" fails="compiled"
# nothing is compiled, and shapes are counted in every call
def guarded(fn, most):
    shapes = set()

    def call(*args):
        new = shapes | {tuple(jnp.shape(a) for a in args)}
        assert len(new) <= most
        shapes.update(new)
        return fn(*args)

    return call
# %% ex="retraces_refuse" kind="wrong" fails="second_shape compiled"
# every call is counted, as a hook around `forward` would do
def guarded(fn, most):
    fast, calls = jax.jit(fn), []

    def call(*args):
        calls.append(args)
        assert len(calls) <= most + 1
        return fast(*args)

    return call
# %% ex="retraces_refuse" kind="wrong" fails="compiled own_count"
# one count for all guards
def guarded(fn, most, book={"traces": 0}):
    @jax.jit
    def counted(*args):
        assert book["traces"] < most
        book["traces"] += 1
        return fn(*args)

    return counted
# %% ex="retraces_refuse" kind="alternate"
def guarded(fn, most):
    left = list(range(most))

    def counted(*args):
        if not left:
            raise AssertionError("one trace too many")
        left.pop()
        return fn(*args)

    return jax.jit(counted)
# %% [markdown] ex="retraces_refuse" kind="why"
# `jax.jit` calls your Python once for each program, so a counter inside of it counts
# programs and costs nothing in other calls. Outside, it would count calls, and chex
# refuses to be there. A trace that raises leaves no program, and those that exist stay.
# The inner function is new for each guard: `jax.jit` finds programs by the function
# that it was given, and one that is known already needs no trace at all.
# %% [markdown] ex="activation_fix" level="core" minutes=8
# ## A module that jax.jit accepts
#
# Write the Equinox module `Gate`, made by `Gate(size, activation)`: it holds a
# `weight`, ones of shape `(size,)` and float32, and computes `activation(weight * x)`.
#
# Any `jax.jit` must accept it as an argument: all its leaves are arrays. Its gradient
# by `jax.grad` is a `Gate` with the gradient of `weight`. A function that is jitted is
# traced once for two gates that differ in weights, and once more for another
# activation. Without an activation, `Gate(size)` uses `jnp.tanh`, and two of them
# share a trace.
# %% ex="activation_fix" kind="starter"
class Gate(eqx.Module):
    """activation(weight * x); f32[size] -> f32[size]."""

    def __init__(self, size, activation=jnp.tanh):
        raise NotImplementedError

    def __call__(self, x):
        raise NotImplementedError
# %% ex="activation_fix" kind="solution"
class Gate(eqx.Module):
    """activation(weight * x); f32[size] -> f32[size]."""

    weight: jax.Array
    activation: callable = eqx.field(static=True)

    def __init__(self, size, activation=jnp.tanh):
        self.weight = jnp.ones(size, jnp.float32)
        self.activation = activation

    def __call__(self, x):
        return self.activation(self.weight * x)
# %% [markdown] ex="activation_fix" kind="hint"
# A field of an Equinox module is a subtree, unless it is declared to be part of the
# structure.
# %% [markdown] ex="activation_fix" kind="hint"
# `activation: callable = eqx.field(static=True)`. What is static is compared by
# equality, so keep the function that came in: a new one is never equal to another.
# %% ex="activation_fix" kind="check"
with check("plain_jit", points=1,
           section="An Equinox module is one tree, functions included"):
    x = np.float32([-1.0, 0.5, 2.0])
    leaves = jax.tree.leaves(Gate(3))
    kinds = {isinstance(leaf, (jax.Array, np.ndarray)) for leaf in leaves}
    assert kinds == {True}, "arrays only, among the leaves of a gate"
    got = jax.jit(lambda gate, x: gate(x))(Gate(3), x)
    expect_close(got, np.tanh(x), name="output")
    grads = jax.grad(lambda gate: gate(x).sum())(Gate(3))
    expect_close(grads.weight, x * (1 - np.tanh(x) ** 2), name="gradient")
# %% ex="activation_fix" kind="check"
with check("traces", points=1,
           section="An Equinox module is one tree, functions included"):
    body = counting(lambda gate, x: gate(x))
    fast, x = jax.jit(body), jnp.ones(3)
    other = eqx.tree_at(lambda gate: gate.weight, Gate(3), jnp.zeros(3))
    for gate in (Gate(3), other, Gate(3), Gate(3, jnp.sin), Gate(3, jnp.sin)):
        fast(gate, x)
    traces = body.count
    assert traces == 2, "one trace for tanh and one for sin, in five calls"
# %% ex="activation_fix" kind="hidden"
with check("weights_are_read", points=1,
           section="An Equinox module is one tree, functions included"):
    gate = eqx.tree_at(lambda g: g.weight, Gate(2, jnp.cos), jnp.full(2, 3.0))
    fast, x = jax.jit(lambda gate, x: gate(x)), np.float32([0.5, -1.0])
    expect_close(fast(Gate(2, jnp.cos), x), np.cos(x), name="ones")
    expect_close(fast(gate, x), np.cos(3 * x), name="threes")
    moved = jax.tree.map(lambda leaf: leaf + 1, gate)
    expect_close(fast(moved, x), np.cos(4 * x), name="fours")
# %% ex="activation_fix" kind="wrong" fails="plain_jit traces weights_are_read"
# the activation is a field like any other, as it would be in a PyTorch module
class Gate(eqx.Module):
    weight: jax.Array
    activation: callable

    def __init__(self, size, activation=jnp.tanh):
        self.weight = jnp.ones(size)
        self.activation = activation

    def __call__(self, x):
        return self.activation(self.weight * x)
# %% ex="activation_fix" kind="wrong" fails="traces"
# the activation is wrapped in a new function for each gate
class Gate(eqx.Module):
    weight: jax.Array
    activation: callable = eqx.field(static=True)

    def __init__(self, size, activation=jnp.tanh):
        self.weight = jnp.ones(size)
        self.activation = lambda x: activation(x)

    def __call__(self, x):
        return self.activation(self.weight * x)
# %% ex="activation_fix" kind="wrong" fails="plain_jit traces weights_are_read"
# all of it is static, so that jit takes it: weights too
class Gate(eqx.Module):
    weight: tuple = eqx.field(static=True)
    activation: callable = eqx.field(static=True)

    def __init__(self, size, activation=jnp.tanh):
        self.weight = (1.0,) * size
        self.activation = activation

    def __call__(self, x):
        return self.activation(jnp.array(self.weight) * x)
# %% ex="activation_fix" kind="alternate"
@jax.tree_util.register_pytree_node_class
class Gate:
    def __init__(self, size, activation=jnp.tanh):
        self.weight, self.activation = jnp.ones((size,)), activation

    def tree_flatten(self):
        return (self.weight,), self.activation

    @classmethod
    def tree_unflatten(cls, activation, parts):
        gate = object.__new__(cls)
        [gate.weight], gate.activation = parts, activation
        return gate

    def __call__(self, x):
        return self.activation(self.weight * x)
# %% [markdown] ex="activation_fix" kind="why"
# A static field belongs to the structure of the tree, like a key of a dict. `jax.jit`
# compares structures, so the same function is the same program, and `jnp.sin` is
# another one. It compares them by equality, and a lambda made in `__init__` equals no
# other. A static weight is refused by nobody: it is frozen into a program and has no
# gradient. Leaving the function a leaf is fine as well, with `eqx.filter_jit`.
# %% [markdown] ex="shapes_annotate" level="core" minutes=8
# ## Annotations that refuse
#
# `attend(q, k, v)` returns `softmax(q @ k.T / sqrt(d)) @ v`, with the softmax over keys:
# `q` holds `n` queries and `k` holds `m` keys, all of width `d`, and `v` has `m` rows of
# any width.
#
# Write it so that shapes are checked whenever it is called or traced: `q`, `k`
# and `v` are matrices of floats, the width of `q` is that of `k`, and `v` has as many
# rows as `k`. A violation raises jaxtyping's error, a `TypeError`, before the body
# runs. Use `jaxtyped` with `beartype`. `n`, `m` and `d` may be anything.
# %% ex="shapes_annotate" kind="solution"
@jaxtyped(typechecker=beartype)
def attend(q: Float[Array, "n d"], k: Float[Array, "m d"],
           v: Float[Array, "m out"]) -> Float[Array, "n out"]:
    """Attention of q to k, applied to v."""
    ### BEGIN SOLUTION
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v
    ### END SOLUTION
# %% ex="shapes_annotate" kind="starter"
def attend(q, k, v):
    """Attention of q to k, applied to v."""
    raise NotImplementedError
# %% [markdown] ex="shapes_annotate" kind="hint"
# One name in two annotations is one size. Which of the axes share a name?
# %% [markdown] ex="shapes_annotate" kind="hint"
# `Float[Array, "n d"]` for `q`; annotate the result too. A decorator has to run the
# checks: `@jaxtyped(typechecker=beartype)`.
# %% ex="shapes_annotate" kind="check"
with check("values", points=1,
           section="An annotation checks nothing by itself"):
    rng = np.random.default_rng(0)
    for n, m, d, out in ((2, 3, 4, 5), (1, 1, 2, 1)):
        q, k, v = (np.float32(rng.normal(size=s))
                   for s in ((n, d), (m, d), (m, out)))
        weights = np.exp(q @ k.T / np.sqrt(d))
        weights /= weights.sum(-1, keepdims=True)
        got = attend(jnp.array(q), jnp.array(k), jnp.array(v))
        expect_close(got, weights @ v, atol=1e-5, name=f"{n} queries")
# %% ex="shapes_annotate" kind="check"
with check("refused_in_a_trace", points=1,
           section="An annotation checks nothing by itself"):
    ones, refused = jnp.ones, []
    for q, k, v in ((ones((2, 4)), ones((3, 5)), ones((3, 6))),
                    (ones((2, 4)), ones((3, 4)), ones((2, 6))),
                    (ones((1, 2, 4)), ones((3, 4)), ones((3, 6)))):
        try:
            jax.eval_shape(attend, q, k, v)
        except TypeError as error:
            refused.append(type(error).__name__ == "TypeCheckError")
    assert refused == [True] * 3, "a TypeCheckError for each wrong shape"
# %% ex="shapes_annotate" kind="hidden"
with check("broadcasts_and_dtypes", points=1,
           section="An annotation checks nothing by itself"):
    ones, refused = jnp.ones, []
    for q, k, v in ((ones((2, 4), int), ones((3, 4)), ones((3, 6))),
                    (ones((2, 4)), ones((3, 4), int), ones((3, 6))),
                    (ones((2, 4)), ones((3, 4)), ones((3, 6), int)),
                    (ones((2, 4)), ones((3, 4)), ones(3)),
                    (ones(4), ones((3, 4)), ones((3, 6)))):
        try:
            jax.eval_shape(attend, q, k, v)
        except TypeError as error:
            refused.append(type(error).__name__ == "TypeCheckError")
    assert refused == [True] * 5, "a TypeCheckError for each wrong input"
# %% ex="shapes_annotate" kind="wrong" fails="refused_in_a_trace broadcasts_and_dtypes"
# annotations alone: documentation
def attend(q: Float[Array, "n d"], k: Float[Array, "m d"],
           v: Float[Array, "m out"]) -> Float[Array, "n out"]:
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v
# %% ex="shapes_annotate" kind="wrong" fails="refused_in_a_trace"
# each axis has a name of its own, so no two are compared
@jaxtyped(typechecker=beartype)
def attend(q: Float[Array, "n d"], k: Float[Array, "m e"],
           v: Float[Array, "l out"]) -> Float[Array, "n out"]:
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v
# %% ex="shapes_annotate" kind="wrong" fails="broadcasts_and_dtypes"
# the numbers of `v` may be of any dtype
from jaxtyping import Num

@jaxtyped(typechecker=beartype)
def attend(q: Float[Array, "n d"], k: Float[Array, "m d"],
           v: Num[Array, "m out"]) -> Float[Array, "n out"]:
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v
# %% ex="shapes_annotate" kind="wrong" fails="values"
# the sizes of one example are written down
@jaxtyped(typechecker=beartype)
def attend(q: Float[Array, "2 4"], k: Float[Array, "3 4"],
           v: Float[Array, "3 out"]) -> Float[Array, "2 out"]:
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v
# %% ex="shapes_annotate" kind="alternate"
Matrix = Float[Array, "rows width"]

@jaxtyped(typechecker=beartype)
def attend(q: Float[Array, "n d"], k: Matrix, v: Float[Array, "rows o"]):
    if k.shape[1] != q.shape[1]:
        raise type("TypeCheckError", (TypeError,), {})("widths differ")
    scores = jnp.einsum("nd,md->nm", q, k) / q.shape[1] ** 0.5
    return jax.nn.softmax(scores) @ v
# %% [markdown] ex="shapes_annotate" kind="why"
# Names are bound for one call: the first `d` fixes the size, and the second is compared
# with it. Different names are never compared, and a number fits one size only. Without
# the decorator nothing runs. During a trace, tracers have a shape and a dtype, so the
# same checks work there and leave nothing in the program. A vector for `q` would have
# gone through the body without an error.
# %% [markdown] ex="statistics_thread" level="core" minutes=9
# ## Statistics over several batches
#
# `model` is an Equinox module, called as `model(x, state)` for one example; it holds
# batch normalisations over the axis `"batch"`. `batches` has the shape `(k, n, d)`:
# `k` batches of `n` examples.
#
# Write `absorb(model, state, batches)`. It runs the model on the batches in their
# order, each with the state that the one before it left, and returns the outputs of
# all batches, `(k, n, ...)`, and the last state. The statistics are those of whole
# batches, and the state comes back without an axis of examples or batches.
#
# Models that differ only in their weights share one compiled program. The caller's
# state can still be used afterwards.
# %% ex="statistics_thread" kind="solution"
@eqx.filter_jit
def absorb(model, state, batches):
    """Outputs (k, n, ...) and the state after the last batch."""
    ### BEGIN SOLUTION
    run = jax.vmap(model, in_axes=(0, None), out_axes=(0, None),
                   axis_name="batch")

    def body(state, x):
        out, state = run(x, state)
        return state, out

    state, outs = jax.lax.scan(body, state, batches)
    return outs, state
    ### END SOLUTION
# %% ex="statistics_thread" kind="starter"
def absorb(model, state, batches):
    """Outputs (k, n, ...) and the state after the last batch."""
    raise NotImplementedError
# %% [markdown] ex="statistics_thread" kind="hint"
# One batch first: a `vmap` over examples with a named axis. Is the state mapped?
# %% [markdown] ex="statistics_thread" kind="hint"
# `jax.vmap(model, in_axes=(0, None), out_axes=(0, None), axis_name="batch")` leaves one
# state. Then carry it through a loop or `jax.lax.scan`.
# %% [markdown] ex="statistics_thread" kind="hint"
# `@eqx.filter_jit` takes a module with flags and names in it. Its state inside is
# another object, so the caller's stays unused.
# %% ex="statistics_thread"
class Normed(eqx.Module):
    """A batch normalisation and a factor; `runs` grows in each call."""

    norm: eqx.nn.BatchNorm
    gain: jax.Array
    runs: ClassVar[list] = []

    def __init__(self, size):
        self.norm = eqx.nn.BatchNorm(size, "batch", momentum=0.5, mode="batch")
        self.gain = jnp.ones(size)

    def __call__(self, x, state):
        self.runs.append(x.shape)
        x, state = self.norm(x, state)
        return self.gain * x, state
# %% ex="statistics_thread" kind="check"
with check("outputs_and_means", points=1,
           section="An Equinox module is one tree, functions included"):
    data = np.float32(np.random.default_rng(0).normal(2, 3, size=(3, 6, 2)))
    model, state = eqx.nn.make_with_state(Normed)(2)
    outs, new = absorb(model, state, jnp.array(data))
    centred = data - data.mean(1, keepdims=True)
    want = centred / np.sqrt(data.var(1, keepdims=True) + 1e-5)
    expect_close(outs, want, atol=1e-4, name="outputs")
    means = data.mean(1)
    running = means[0] / 8 + means[1] / 4 + means[2] / 2
    got = new.get(model.norm.batch_state_index)[0]
    expect_close(got, running, atol=1e-5, name="running mean")
# %% ex="statistics_thread" kind="check"
with check("compiled_once", points=1,
           section="An Equinox module is one tree, functions included"):
    model, state = eqx.nn.make_with_state(Normed)(2)
    other = eqx.tree_at(lambda m: m.gain, model, jnp.zeros(2))
    batches = jnp.arange(16.0).reshape(2, 4, 2)
    absorb(model, state, batches)
    first = len(Normed.runs)
    outs, _ = absorb(other, state, batches)
    runs = len(Normed.runs) - first
    assert runs == 0, "no run of the body for other weights"
    expect_close(outs, np.zeros((2, 4, 2)), name="outputs with a gain of 0")
# %% ex="statistics_thread" kind="hidden"
with check("one_batch", points=1,
           section="An Equinox module is one tree, functions included"):
    model, state = eqx.nn.make_with_state(Normed)(3)
    data = np.float32(np.arange(15).reshape(1, 5, 3))
    _, new = absorb(model, state, jnp.array(data))
    _, again = absorb(model, new, jnp.array(data + 1))
    got = again.get(model.norm.batch_state_index)[0]
    want = 0.75 * data.mean((0, 1)) + 0.5
    expect_close(got, want, name="running mean of two calls")
    count = again.get(model.norm.batch_counter)
    assert count == 2, "two batches counted"
# %% ex="statistics_thread" kind="wrong" fails="outputs_and_means one_batch"
# every batch starts from the state that came in, and that one comes back
@eqx.filter_jit
def absorb(model, state, batches):
    run = jax.vmap(model, in_axes=(0, None), out_axes=(0, None),
                   axis_name="batch")
    return jax.lax.map(lambda x: run(x, state)[0], batches), state
# %% ex="statistics_thread" kind="wrong" fails="compiled_once"
# a loop in Python, and nothing is compiled
def absorb(model, state, batches):
    run = jax.vmap(model, in_axes=(0, None), out_axes=(0, None),
                   axis_name="batch")
    outs = []
    for x in batches:
        out, state = run(x, state)
        outs.append(out)
    return jnp.stack(outs), state
# %% ex="statistics_thread" kind="wrong" fails="outputs_and_means"
# the batches are flattened into a single large one
@eqx.filter_jit
def absorb(model, state, batches):
    run = jax.vmap(model, in_axes=(0, None), out_axes=(0, None),
                   axis_name="batch")
    out, state = run(batches.reshape(-1, batches.shape[-1]), state)
    return out.reshape(*batches.shape[:2], -1), state
# %% ex="statistics_thread" kind="alternate"
@eqx.filter_jit
def absorb(model, state, batches):
    outs = []
    for x in batches:
        out, state = eqx.filter_vmap(
            model, in_axes=(0, None), out_axes=(0, None),
            axis_name="batch")(x, state)
        outs.append(out)
    return jnp.stack(outs), state
# %% [markdown] ex="statistics_thread" kind="why"
# The module averages over a named axis, so all examples of a batch compute one state:
# `None` in `out_axes` says that it is not mapped. The state is then a carry, as the
# weights of a training loop are. A loop in Python gives the same numbers and runs its
# body for every batch. `filter_jit` is needed because the tree of the module holds a
# flag and the name of the axis.
# %% [markdown] ex="weights_bridge" level="core" minutes=10
# ## From Haiku to Equinox and back
#
# A Haiku network of linear layers has the parameters
# `{"layer_0": {"w", "b"}, "layer_1": ...}`, with `w` of shape (in, out). Its Equinox
# twin is an `eqx.nn.MLP` with as many layers, whose weights are (out, in).
#
# Write the class `Bridge` with two static methods:
#
# - `to_equinox(params, model)` returns `model` with the weights of `params`. `model`
#   itself does not change. Another number of layers or another shape is a
#   `ValueError`.
# - `to_haiku(model)` returns the dict of an MLP. There and back gives the same bits.
#
# Names count layers; they are not sorted as text: `layer_10` comes after `layer_9`.
# %% ex="weights_bridge" kind="starter"
class Bridge:
    """Weights of linear layers between Haiku's dict and an Equinox MLP."""

    @staticmethod
    def to_equinox(params, model):
        raise NotImplementedError

    @staticmethod
    def to_haiku(model):
        raise NotImplementedError
# %% ex="weights_bridge" kind="solution"
class Bridge:
    """Weights of linear layers between Haiku's dict and an Equinox MLP."""

    @staticmethod
    def to_equinox(params, model):
        """model with the weights of params; ValueError if they don't fit."""
        names = [f"layer_{n}" for n in range(len(model.layers))]
        if set(names) != set(params):
            raise ValueError(f"{len(names)} layers, got {sorted(params)}")
        new = [leaf for name in names
               for leaf in (params[name]["w"].T, params[name]["b"])]
        old = [leaf for layer in model.layers
               for leaf in (layer.weight, layer.bias)]
        if [leaf.shape for leaf in new] != [leaf.shape for leaf in old]:
            raise ValueError("shapes differ")
        return eqx.tree_at(
            lambda m: [leaf for layer in m.layers
                       for leaf in (layer.weight, layer.bias)], model, new)

    @staticmethod
    def to_haiku(model):
        """{"layer_n": {"w": f32[in, out], "b": f32[out]}}"""
        return {f"layer_{n}": {"w": layer.weight.T, "b": layer.bias}
                for n, layer in enumerate(model.layers)}
# %% [markdown] ex="weights_bridge" kind="hint"
# `eqx.tree_at(where, tree, values)` returns a new tree. `where` may return a flat list
# of leaves, and then `values` is a list of as many.
# %% [markdown] ex="weights_bridge" kind="hint"
# `model.layers` is a tuple of linear layers. Build each name from its number, and
# compare the set of names and all shapes before anything is replaced.
# %% ex="weights_bridge" kind="check"
with check("same_function", points=1,
           section="The same weights give the same function"):
    rng = np.random.default_rng(0)
    params = {f"layer_{n}": {"w": np.float32(rng.normal(size=(4, 4))),
                             "b": np.float32(rng.normal(size=4))}
              for n in range(2)}
    start = eqx.nn.MLP(4, 4, 4, 1, key=jax.random.key(0))
    before = np.array(start.layers[0].weight)
    model = Bridge.to_equinox(jax.tree.map(jnp.array, params), start)
    x = np.float32(rng.normal(size=4))
    h = np.maximum(x @ params["layer_0"]["w"] + params["layer_0"]["b"], 0)
    want = h @ params["layer_1"]["w"] + params["layer_1"]["b"]
    expect_close(model(jnp.array(x)), want, atol=1e-5, name="output")
    expect_close(start.layers[0].weight, before, name="the old model")
# %% ex="weights_bridge" kind="check"
with check("same_bits", points=1,
           section="The same weights give the same function"):
    start = eqx.nn.MLP(3, 2, 4, 11, key=jax.random.key(1))
    params = Bridge.to_haiku(start)
    names = set(params)
    assert names == {f"layer_{n}" for n in range(12)}, "names of 12 layers"
    shape = params["layer_0"]["w"].shape
    assert shape == (3, 4), "(in, out) in the dict"
    other = eqx.nn.MLP(3, 2, 4, 11, key=jax.random.key(2))
    model = Bridge.to_equinox(params, other)
    pairs = zip(jax.tree.leaves(eqx.filter(model, eqx.is_array)),
                jax.tree.leaves(eqx.filter(start, eqx.is_array)))
    equal = [bool((a == b).all()) for a, b in pairs]
    assert equal == [True] * 24, "the same bits in all 24 arrays"
# %% ex="weights_bridge" kind="hidden"
with check("misfits_refused", points=1,
           section="The same weights give the same function"):
    model = eqx.nn.MLP(3, 3, 3, 1, key=jax.random.key(1))
    good = {f"layer_{n}": {"w": jnp.ones((3, 3)), "b": jnp.ones(3)}
            for n in range(3)}
    wide = {"layer_0": good["layer_0"],
            "layer_1": {"w": jnp.ones((3, 5)), "b": jnp.ones(5)}}
    bias = wide | {"layer_1": {"w": jnp.ones((3, 3)), "b": jnp.ones(1)}}
    refused = []
    for params in (good, wide, bias, {"layer_0": good["layer_0"]}):
        try:
            Bridge.to_equinox(params, model)
        except ValueError:
            refused.append("ValueError")
    assert len(refused) == 4, "a ValueError for each of four misfits"
# %% ex="weights_bridge" kind="wrong" fails="same_function same_bits misfits_refused"
# weights are copied as they are: squares fit without a word
class Bridge:
    @staticmethod
    def to_equinox(params, model):
        new = [leaf for p in params.values() for leaf in (p["w"], p["b"])]
        return eqx.tree_at(
            lambda m: [leaf for layer in m.layers
                       for leaf in (layer.weight, layer.bias)], model, new)

    @staticmethod
    def to_haiku(model):
        return {f"layer_{n}": {"w": layer.weight, "b": layer.bias}
                for n, layer in enumerate(model.layers)}
# %% ex="weights_bridge" kind="wrong" fails="same_bits"
# names are sorted as text, so that the tenth layer comes second
class Bridge:
    @staticmethod
    def to_equinox(params, model):
        new = [leaf for name in sorted(params)
               for leaf in (params[name]["w"].T, params[name]["b"])]
        old = [leaf for layer in model.layers
               for leaf in (layer.weight, layer.bias)]
        if [leaf.shape for leaf in new] != [leaf.shape for leaf in old]:
            raise ValueError("shapes differ")
        return eqx.tree_at(
            lambda m: [leaf for layer in m.layers
                       for leaf in (layer.weight, layer.bias)], model, new)

    @staticmethod
    def to_haiku(model):
        return {f"layer_{n}": {"w": layer.weight.T, "b": layer.bias}
                for n, layer in enumerate(model.layers)}
# %% ex="weights_bridge" kind="wrong" fails="misfits_refused"
# weights are compared and biases are not: one number would be broadcast
class Bridge:
    @staticmethod
    def to_equinox(params, model):
        names = [f"layer_{n}" for n in range(len(model.layers))]
        fits = set(names) == set(params) and all(
            params[name]["w"].T.shape == layer.weight.shape
            for name, layer in zip(names, model.layers))
        if not fits:
            raise ValueError("layers or shapes differ")
        return eqx.tree_at(
            lambda m: [leaf for layer in m.layers
                       for leaf in (layer.weight, layer.bias)], model,
            [leaf for name in names
             for leaf in (params[name]["w"].T, params[name]["b"])])

    @staticmethod
    def to_haiku(model):
        return {f"layer_{n}": {"w": layer.weight.T, "b": layer.bias}
                for n, layer in enumerate(model.layers)}
# %% ex="weights_bridge" kind="wrong" fails="misfits_refused"
# whatever has a name is written, and nobody asks for what is left over
class Bridge:
    @staticmethod
    def to_equinox(params, model):
        for n in range(len(model.layers)):
            p = params.get(f"layer_{n}")
            if p is not None:
                model = eqx.tree_at(
                    lambda m: (m.layers[n].weight, m.layers[n].bias), model,
                    (p["w"].T, p["b"]))
        return model

    @staticmethod
    def to_haiku(model):
        return {f"layer_{n}": {"w": layer.weight.T, "b": layer.bias}
                for n, layer in enumerate(model.layers)}
# %% ex="weights_bridge" kind="alternate"
class Bridge:
    @staticmethod
    def to_equinox(params, model):
        if len(params) != len(model.layers):
            raise ValueError("another number of layers")
        for n, layer in enumerate(model.layers):
            pair = params[f"layer_{n}"]["w"].T, params[f"layer_{n}"]["b"]
            if [a.shape for a in pair] != [layer.weight.shape,
                                           layer.bias.shape]:
                raise ValueError(f"layer_{n} has another shape")
            new = eqx.tree_at(lambda one: (one.weight, one.bias), layer, pair)
            model = eqx.tree_at(lambda m: m.layers[n], model, new)
        return model

    @staticmethod
    def to_haiku(model):
        params = {}
        for layer in model.layers:
            params[f"layer_{len(params)}"] = {
                "w": jnp.swapaxes(layer.weight, 0, 1), "b": layer.bias}
        return params
# %% [markdown] ex="weights_bridge" kind="why"
# A square matrix fits both ways round, so shapes alone don't show a missing transpose:
# the output does. `eqx.tree_at` replaces leaves without asking for their shapes, which
# is why the method asks. Dicts that JAX has handled come back with their keys sorted as
# text, and there `layer_10` stands before `layer_2`; a name built from a number finds
# the right one in any order. A transpose moves numbers and changes none, so the bits
# stay.
# %% [markdown] ex="step_any" level="stretch" minutes=12
# ## One step for every library
#
# A model is given as `apply(params, state, key, x)`, which returns logits and the new
# state. `params` and `state` are any pytrees: a dict of Haiku, a state of Flax, half
# of a partitioned Equinox module (with `None` in it), an empty dict.
#
# Write `make_step(apply, tx)`, where `tx` is an optax transformation. It returns
# `step(params, state, opt_state, key, x, y)`, compiled as a whole, which returns the
# new `params`, `state`, `opt_state` and the loss before the step: the mean cross
# entropy of the logits `f32[n, c]` with the labels `i32[n]`. Gradients are those of
# `params` alone. Steps with other keys and data of one shape share a trace.
# %% ex="step_any" kind="solution"
def make_step(apply, tx):
    """step(params, state, opt_state, key, x, y) for a model of any library."""
    ### BEGIN SOLUTION
    def loss_fn(params, state, key, x, y):
        logits, state = apply(params, state, key, x)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return losses.mean(), state

    @jax.jit
    def step(params, state, opt_state, key, x, y):
        (loss, state), grads = jax.value_and_grad(loss_fn, has_aux=True)(
            params, state, key, x, y)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), state, opt_state, loss

    return step
    ### END SOLUTION
# %% [markdown] ex="step_any" kind="hint"
# The state is computed on the way to the loss, and nobody differentiates by it. How
# does a loss hand out a second result?
# %% [markdown] ex="step_any" kind="hint"
# `jax.value_and_grad(loss_fn, has_aux=True)` differentiates by the first argument and
# returns `(loss, state), grads`. Some transformations, such as weight decay, need the
# parameters in `tx.update`.
# %% ex="step_any" kind="check"
with check("haiku", points=1,
           section="The compiler sees nearly the same program"):
    def linear(params, state, key, x):
        return x @ params["w"], {"seen": state["seen"] + len(x)}

    x = np.float32([[1, 2], [0, 1], [-1, 1]])
    y, w = np.array([0, 1, 2]), np.zeros((2, 3), np.float32)
    tx = optax.sgd(0.3)
    params, state = {"w": jnp.array(w)}, {"seen": jnp.int32(4)}
    out = make_step(linear, tx)(params, state, tx.init(params),
                                jax.random.key(0), x, y)
    want = w - 0.3 * x.T @ (np.full((3, 3), 1 / 3) - np.eye(3)[y]) / 3
    expect_close(out[0], {"w": np.float32(want)}, name="params")
    expect_close(out[1], {"seen": np.int32(7)}, name="state")
    expect_close(out[3], np.float32(np.log(3)), name="loss")
# %% ex="step_any" kind="check"
with check("equinox_half", points=1,
           section="The compiler sees nearly the same program"):
    whole = eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0))
    half, rest = eqx.partition(whole, eqx.is_inexact_array)
    def apply(params, state, key, x):
        return jax.vmap(eqx.combine(params, rest))(x), state

    tx = optax.adamw(1e-2)
    carry = half, {}, tx.init(half)
    x = jnp.array([[1.0, 2.0], [0.0, 1.0], [-1.0, 1.0]])
    step, y, losses = make_step(apply, tx), jnp.array([0, 1, 2]), []
    for _ in range(3):
        *carry, loss = step(*carry, jax.random.key(0), x, y)
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True), "a loss that falls"
# %% ex="step_any" kind="check"
with check("flax_half", points=1,
           section="The compiler sees nearly the same program"):
    net = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    graph, params, state = nnx.split(net, nnx.Param, ...)
    def apply(params, state, key, x):
        return nnx.merge(graph, params, state, copy=True)(x), state

    tx = optax.adamw(1e-2)
    carry = params, state, tx.init(params)
    x = jnp.array([[1.0, 2.0], [0.0, 1.0], [-1.0, 1.0]])
    step, y, losses = make_step(apply, tx), jnp.array([0, 1, 2]), []
    for _ in range(3):
        *carry, loss = step(*carry, jax.random.key(0), x, y)
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True), "a loss that falls"
# %% ex="step_any" kind="check"
with check("one_trace", points=1,
           section="The compiler sees nearly the same program"):
    def noisy(params, state, key, x):
        return x @ params["w"] + jax.random.normal(key, (len(x), 3)), state

    x, y = np.ones((3, 2), np.float32), np.array([0, 1, 2])
    body, adam = counting(noisy), optax.adam(1e-2)
    tx = adam._replace(update=counting(adam.update))
    step, params = make_step(body, tx), {"w": jnp.ones((2, 3))}
    opt_state, losses = tx.init(params), set()
    for key in jax.random.split(jax.random.key(0), 4):
        losses.add(float(step(params, {}, opt_state, key, x, y)[3]))
    runs, different = (body.count, tx.update.count), len(losses)
    assert runs == (1, 1), "one trace of apply and tx.update in four calls"
    assert different == 4, "another loss for another key"
# %% ex="step_any" kind="hidden"
with check("decay_and_floats", points=1,
           section="The compiler sees nearly the same program"):
    def biased(params, state, key, x):
        return params["b"] + 0 * x[:, :1] + state["shift"], state

    params, state = {"b": jnp.ones(2)}, {"shift": jnp.float32([0.5, 0.5])}
    tx = optax.chain(optax.add_decayed_weights(0.5), optax.sgd(1.0))
    new, kept, _, loss = make_step(biased, tx)(
        params, state, tx.init(params), jax.random.key(0),
        jnp.ones((2, 1)), jnp.array([0, 1]))
    expect_close(new["b"], np.full(2, 0.5), atol=1e-6, name="decayed")
    expect_close(kept, {"shift": np.float32([0.5, 0.5])}, name="state")
    expect_close(loss, np.float32(np.log(2)), name="loss")
# %% ex="step_any" kind="wrong" fails="equinox_half flax_half decay_and_floats"
# `optimizer.step()` knows the parameters; `tx.update` has to be given them
def make_step(apply, tx):
    def loss_fn(params, state, key, x, y):
        logits, state = apply(params, state, key, x)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return losses.mean(), state

    @jax.jit
    def step(params, state, opt_state, key, x, y):
        (loss, state), grads = jax.value_and_grad(loss_fn, has_aux=True)(
            params, state, key, x, y)
        updates, opt_state = tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), state, opt_state, loss

    return step
# %% ex="step_any" kind="wrong" fails="haiku"
# the state goes in and the old one comes back, as if the module kept it
def make_step(apply, tx):
    def loss_fn(params, state, key, x, y):
        logits, _ = apply(params, state, key, x)
        return optax.softmax_cross_entropy_with_integer_labels(
            logits, y).mean()

    @jax.jit
    def step(params, state, opt_state, key, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, state, key, x, y)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), state, opt_state, loss

    return step
# %% ex="step_any" kind="wrong" fails="one_trace"
# only the loss is compiled, in every call anew
def make_step(apply, tx):
    def step(params, state, opt_state, key, x, y):
        @jax.jit
        def loss_fn(params):
            logits, new = apply(params, state, key, x)
            return optax.softmax_cross_entropy_with_integer_labels(
                logits, y).mean(), new

        (loss, new), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), new, opt_state, loss

    return step
# %% ex="step_any" kind="wrong" fails="one_trace"
# gradients are compiled once, and the optimizer stays outside
def make_step(apply, tx):
    def loss_fn(params, state, key, x, y):
        logits, state = apply(params, state, key, x)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return losses.mean(), state

    gradient = jax.jit(jax.value_and_grad(loss_fn, has_aux=True))

    def step(params, state, opt_state, key, x, y):
        (loss, state), grads = gradient(params, state, key, x, y)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), state, opt_state, loss

    return step
# %% ex="step_any" kind="alternate"
def make_step(apply, tx):
    def step(params, state, opt_state, key, x, y):
        def run(params):
            logits, new = apply(params, state, key, x)
            chosen = jnp.take_along_axis(
                jax.nn.log_softmax(logits), jnp.asarray(y)[:, None], axis=1)
            return -chosen.mean(), new

        loss, pull, new = jax.vjp(run, params, has_aux=True)
        [grads] = pull(jnp.ones_like(loss))
        updates, opt_state = tx.update(grads, opt_state, params)
        params = jax.tree.map(lambda p, u: p + u, params, updates)
        return params, new, opt_state, loss

    return jax.jit(step)
# %% [markdown] ex="step_any" kind="why"
# Gradients, optax and `jax.jit` ask for trees and nothing else, so a step needs to know
# no library. What varies is how `apply` is made: `nnx.merge`, `eqx.combine` or Haiku's
# own. The state rides along as auxiliary output: it comes from the same forward pass
# and has no gradient, though it may hold floats. `None` in a tree is an empty subtree,
# so half of an Equinox module passes through all of it.
