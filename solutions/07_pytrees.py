# %% [markdown]
# # A model is a tree of arrays
#
# Eight exercises on trees of arrays: walking them, giving classes a structure, and
# keeping that structure steady. Many checks look at how your function was traced or
# differentiated. They go with the chapter of the same name.
# %%
import collections
import copy
import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from tracecheck import check, count_primitives, expect_close, expect_pure
from tracecheck import expect_same_tree, expect_traces
# %% [markdown] ex="network_mend" level="warm-up" minutes=8
# ## Mend the network
#
# This network was written by hand and learns badly. The loop squashes the last layer
# as well, so logits stay between -1 and 1; and weights are not scaled, so wide layers
# saturate.
#
# Mend both. The weights of a layer have mean 0 and standard deviation
# $1 / \sqrt{\text{inputs}}$, biases are 0, and each weight matrix is drawn with a key
# of its own. The result stays a list of dicts with keys `w` and `b`, and works for
# any number of layers.
# %% ex="network_mend" kind="starter"
def init(key, dims):
    """List of {"w": f32[dims[i], dims[i + 1]], "b": f32[dims[i + 1]]}."""
    return [
        {"w": jax.random.normal(key, (i, o)), "b": jnp.zeros(o)}
        for i, o in zip(dims, dims[1:])
    ]


def forward(params, x):
    """Logits of a tanh network; x: f32[n, dims[0]] -> f32[n, dims[-1]]."""
    for layer in params:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x
# %% ex="network_mend" kind="solution"
def init(key, dims):
    """List of {"w": f32[dims[i], dims[i + 1]], "b": f32[dims[i + 1]]}."""
    keys = jax.random.split(key, len(dims) - 1)
    return [
        {"w": jax.random.normal(k, (i, o)) / math.sqrt(i), "b": jnp.zeros(o)}
        for k, i, o in zip(keys, dims, dims[1:])
    ]


def forward(params, x):
    """Logits of a tanh network; x: f32[n, dims[0]] -> f32[n, dims[-1]]."""
    *hidden, last = params
    for layer in hidden:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]
# %% [markdown] ex="network_mend" kind="hint"
# Python can split the last item off a list: `*hidden, last = params`. How many keys
# do you need for `dims`?
# %% [markdown] ex="network_mend" kind="hint"
# `jax.random.normal` has standard deviation 1. `jax.random.split(key, n)` gives `n`
# keys to zip with the sizes.
# %% ex="network_mend" kind="check"
with check("logits_unbounded", points=1,
           section="One map walks all trees"):
    w = np.array([[2.0, -1.0], [0.5, 3.0]], np.float32)
    b = np.array([4.0, -5.0], np.float32)
    x = np.array([[1.0, 2.0], [-0.5, 0.1]], np.float32)
    layers = [{"w": w, "b": b}, {"w": w.T, "b": b}, {"w": 3 * w, "b": b}]
    h = np.tanh(x @ w + b)
    h = np.tanh(h @ w.T + b)
    expect_close(forward(layers[:1], x), x @ w + b, name="one layer: logits")
    expect_close(jax.jit(forward)(layers, x), h @ (3 * w) + b, name="logits")
# %% ex="network_mend" kind="check"
with check("weights_scaled", points=1,
           section="Containers are branches, the rest are leaves"):
    params = init(jax.random.key(0), (400, 100, 25))
    for layer, inputs in zip(params, (400, 100), strict=True):
        times_too_wide = round(float(jnp.std(layer["w"])) * inputs**0.5, 2)
        assert times_too_wide < 1.1, "a deviation of 1 / sqrt(inputs)"
        assert times_too_wide > 0.9, "a deviation of 1 / sqrt(inputs)"
        assert abs(float(jnp.mean(layer["w"]))) < 0.02, "weights with mean 0"
        expect_close(layer["b"], np.zeros(layer["w"].shape[1]), name="bias")
# %% ex="network_mend" kind="check"
with check("own_keys", points=1,
           section="Containers are branches, the rest are leaves"):
    one, two = jax.random.split(jax.random.key(2))
    first, second = (np.asarray(p["w"]) for p in init(one, (3, 3, 3)))
    other, again = (np.asarray(init(k, (3, 3, 3))[0]["w"]) for k in (two, one))
    equal_weights = int((first == second).sum())
    assert equal_weights == 0, "two layers with weights of their own"
    equal_weights = int((first == other).sum())
    assert equal_weights == 0, "other weights from another key"
    equal_weights = int((first == again).sum())
    assert equal_weights == 9, "the same 9 weights from the same key"
# %% ex="network_mend" kind="hidden"
with check("layers_differ", points=1,
           section="Containers are branches, the rest are leaves"):
    params = init(jax.random.key(1), (3, 3, 3, 3))
    one = {"w": np.zeros((3, 3), np.float32), "b": np.zeros(3, np.float32)}
    expect_same_tree(params, [one] * 3, name="params")
    first, second, third = (np.asarray(layer["w"]) for layer in params)
    assert not np.allclose(first, second), "layers with weights of their own"
    assert not np.allclose(second, third), "layers with weights of their own"
    again = init(jax.random.key(1), (3, 3, 3, 3))
    params = jax.tree.map(np.asarray, params)
    expect_close(again, params, name="same key: params")
# %% ex="network_mend" kind="wrong" fails="logits_unbounded"
# the weights are mended, and the loop still squashes the logits
def init(key, dims):
    keys = jax.random.split(key, len(dims) - 1)
    return [
        {"w": jax.random.normal(k, (i, o)) / math.sqrt(i), "b": jnp.zeros(o)}
        for k, i, o in zip(keys, dims, dims[1:])
    ]


def forward(params, x):
    for layer in params:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x
# %% ex="network_mend" kind="wrong" fails="weights_scaled"
# PyTorch's own bounds for `Linear`, whose standard deviation is smaller
def init(key, dims):
    keys = jax.random.split(key, len(dims) - 1)
    return [
        {"w": jax.random.uniform(k, (i, o), minval=-1) / math.sqrt(i),
         "b": jnp.zeros(o)}
        for k, i, o in zip(keys, dims, dims[1:])
    ]


def forward(params, x):
    *hidden, last = params
    for layer in hidden:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]
# %% ex="network_mend" kind="wrong" fails="own_keys layers_differ"
# one key for all layers, as if a generator moved on by itself
def init(key, dims):
    return [
        {"w": jax.random.normal(key, (i, o)) / math.sqrt(i), "b": jnp.zeros(o)}
        for i, o in zip(dims, dims[1:])
    ]


def forward(params, x):
    *hidden, last = params
    for layer in hidden:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]
# %% ex="network_mend" kind="wrong" fails="own_keys layers_differ"
# NumPy's global generator draws the weights, and the key is not used
def init(key, dims):
    return [
        {"w": jnp.float32(np.random.normal(size=(i, o)) / math.sqrt(i)),
         "b": jnp.zeros(o)}
        for i, o in zip(dims, dims[1:])
    ]


def forward(params, x):
    *hidden, last = params
    for layer in hidden:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]
# %% ex="network_mend" kind="alternate"
def init(key, dims):
    params = []
    for n, shape in enumerate(zip(dims[:-1], dims[1:])):
        draw = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal")
        w = draw(jax.random.fold_in(key, n), shape, jnp.float32)
        params.append({"b": jnp.zeros(shape[1]), "w": w})
    return params


def forward(params, x):
    for n, layer in enumerate(params):
        x = (x if n == 0 else jnp.tanh(x)) @ layer["w"] + layer["b"]
    return x
# %% [markdown] ex="network_mend" kind="why"
# With logits between -1 and 1 and ten classes, the loss can't fall below
# $\log(1 + 9 e^{-2}) \approx 0.8$, however long you train. A sum of $n$ independent
# terms has a standard deviation of $\sqrt n$, so weights are divided by it; otherwise
# `tanh` is flat at most units and its gradient almost 0. A uniform draw between -1
# and 1 is narrower by $\sqrt 3$. A key is a value and does not move on: layers of the
# same shape, drawn with one key, are copies of each other.
# %% [markdown] ex="norm_clip" level="warm-up" minutes=8
# ## Clip by the norm of the whole tree
#
# `torch.nn.utils.clip_grad_norm_(params, limit)` measures one norm over all gradients
# and scales them in place. Write `clip(grads, limit)` for any tree of float32 arrays:
#
# - it returns a new tree of the same structure, and the norm before clipping;
# - when the norm $n$ exceeds `limit`, every leaf is multiplied by `limit / n`;
#   otherwise nothing changes;
# - it can be jitted, with `limit` as an ordinary argument, and gradients that are all
#   0 stay 0.
# %% ex="norm_clip" kind="solution"
def clip(grads, limit):
    """Tree of f32 arrays, float -> (tree of that structure, norm f32[])."""
    ### BEGIN SOLUTION
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
    scale = jnp.where(norm > limit, limit / jnp.where(norm > 0, norm, 1), 1.0)
    return jax.tree.map(lambda g: g * scale, grads), norm
    ### END SOLUTION
# %% [markdown] ex="norm_clip" kind="hint"
# Two walks: one that needs all leaves at once to get a single number, and one that
# applies this number to each leaf.
# %% [markdown] ex="norm_clip" kind="hint"
# `jax.tree.leaves` gives a list to sum over. Whether to scale is a value, so choose
# with `jnp.where` or `jnp.minimum`.
# %% ex="norm_clip" kind="check"
with check("one_norm", points=1,
           section="One map walks all trees"):
    grads = {"w": np.float32([[2, 0], [0, 4]]), "b": (np.float32([4, 0]),)}
    trees = jax.tree.map(jnp.array, grads)
    clipped, norm = clip(trees, 3.0)
    expect_close(norm, 6.0, name="norm")
    expect_close(clipped, jax.tree.map(lambda g: g / 2, grads), name="clipped")
    kept, _ = clip(trees, 7.0)
    expect_close(kept, grads, name="below the limit: clipped")
    zero = jax.tree.map(np.zeros_like, grads)
    still, _ = clip(jax.tree.map(jnp.array, zero), 3.0)
    expect_close(still, zero, name="all 0: clipped")
# %% ex="norm_clip" kind="check"
with check("limit_is_data", points=1,
           section="Structure is part of the cache key"):
    grads = [jnp.ones((3, 2)), {"b": jnp.ones(2)}]
    calls = [(grads, limit) for limit in (0.5, 1.0, 50.0)]
    expect_traces(jax.jit(clip), calls, at_most=1)
    expect_pure(clip, calls)
# %% ex="norm_clip" kind="hidden"
with check("any_tree", points=1,
           section="Containers are branches, the rest are leaves"):
    Pair = collections.namedtuple("Pair", "w b")
    empty = {"x": jnp.zeros((2, 0)), "y": jnp.zeros(2)}
    grads = Pair([jnp.float32(0), None], empty)
    zero, norm = jax.jit(clip)(grads, 1.0)
    expect_close(zero, jax.tree.map(np.asarray, grads), name="all 0: clipped")
    expect_close(norm, 0.0, name="all 0: norm")
    clipped, _ = clip(Pair(jnp.float32(30), [jnp.full((1, 1), -40.0)]), 5.0)
    want = Pair(np.float32(3), [np.full((1, 1), -4, np.float32)])
    expect_close(clipped, want, name="clipped")
# %% ex="norm_clip" kind="wrong" fails="one_norm any_tree"
# each leaf is clipped by its own norm
def clip(grads, limit):
    def one(g):
        n = jnp.sqrt(jnp.sum(g**2))
        return g * jnp.where(n > limit, limit / jnp.where(n > 0, n, 1), 1.0)

    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
    return jax.tree.map(one, grads), norm
# %% ex="norm_clip" kind="wrong" fails="limit_is_data any_tree"
# Python decides, as in eager PyTorch
def clip(grads, limit):
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
    if norm > limit:
        grads = jax.tree.map(lambda g: g * limit / norm, grads)
    return grads, norm
# %% ex="norm_clip" kind="wrong" fails="one_norm any_tree"
# one formula without a choice: 0 divided by 0
def clip(grads, limit):
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(norm, limit) / norm
    return jax.tree.map(lambda g: g * scale, grads), norm
# %% ex="norm_clip" kind="alternate"
def clip(grads, limit):
    squares = jax.tree.map(lambda g: jnp.vdot(g, g), grads)
    norm = jnp.sqrt(jax.tree.reduce(jnp.add, squares, jnp.float32(0)))
    rate = limit / jnp.maximum(norm, limit)
    leaves, treedef = jax.tree.flatten(grads)
    return jax.tree.unflatten(treedef, [g * rate for g in leaves]), norm
# %% [markdown] ex="norm_clip" kind="why"
# `jax.tree.map` sees one leaf at a time, so a norm taken inside of it is the norm of
# a leaf and turns the direction of the whole gradient. `jax.tree.leaves` brings all
# leaves together. `if` needs the value of the norm, which a trace doesn't have. And
# dividing by the norm goes wrong exactly when training has converged, or a branch of
# the model is unused: all gradients are 0. `None` and empty arrays need no care, since
# one has no leaves and the other adds 0.
# %% [markdown] ex="name_leaves" level="core" minutes=10
# ## A state dict for any tree
#
# Write the two halves of PyTorch's `state_dict` for trees made of dicts, lists,
# tuples, namedtuples, registered dataclasses and `None`:
#
# - `to_state(tree)` returns a flat dict. Keys are paths such as `layers.0.w`: keys,
#   indices and field names, joined by dots.
# - `from_state(like, state)` returns a tree with the structure of `like` and the
#   arrays of `state`, whatever the order of the dict. When names are missing or left
#   over, it raises `KeyError` and changes nothing.
# %% ex="name_leaves" kind="solution"
def to_state(tree):
    """{"path.to.leaf": leaf} of all leaves."""
    ### BEGIN SOLUTION
    name = partial(jax.tree_util.keystr, simple=True, separator=".")
    return {name(path): x for path, x in jax.tree.leaves_with_path(tree)}
    ### END SOLUTION


def from_state(like, state):
    """A tree with the structure of `like` and the leaves of `state`."""
    ### BEGIN SOLUTION
    names = to_state(like)
    if names.keys() != state.keys():
        raise KeyError(f"names differ: {sorted(names.keys() ^ state.keys())}")
    leaves = [state[name] for name in names]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
    ### END SOLUTION
# %% [markdown] ex="name_leaves" kind="hint"
# `jax.tree.leaves_with_path` gives pairs of a path and a leaf, in the order in which
# `jax.tree.unflatten` wants the leaves back.
# %% [markdown] ex="name_leaves" kind="hint"
# `jax.tree_util.keystr` has the options `simple` and `separator`. For the way back,
# compare two sets of names, then look each name of `like` up.
# %% ex="name_leaves" kind="check"
with check("names_are_paths", points=1,
           section="A mask is a tree as well"):
    Layer = collections.namedtuple("Layer", "w b")
    layers = [Layer(1.0, None), Layer(2.0, 3.0)]
    tree = {"layers": layers, "head": {"w": (4.0, 5.0)}}
    want = {"layers.0.w": 1.0, "layers.1.w": 2.0, "layers.1.b": 3.0,
            "head.w.0": 4.0, "head.w.1": 5.0}
    got = to_state(tree)
    missing = sorted(want.keys() - got.keys())[:3]
    assert missing == [], "a name for each leaf, none missing"
    left_over = sorted(got.keys() - want.keys())[:3]
    assert left_over == [], "names of leaves only, none left over"
    misplaced = [name for name in want if got[name] != want[name]]
    assert misplaced == [], "each leaf under its own name"
# %% ex="name_leaves" kind="check"
with check("order_is_free", points=1,
           section="A mask is a tree as well"):
    a, b, c = np.ones((2, 3)), np.zeros(4), np.full(1, 7.0)
    like = [{"w": np.empty((2, 3)), "b": np.empty(4)}, (None, np.empty(1))]
    for names in (["0.b", "0.w", "1.1"], ["1.1", "0.w", "0.b"]):
        arrays = {"0.w": a, "0.b": b, "1.1": c}
        state = {name: arrays[name] for name in names}
        got = from_state(like, state)
        expect_close(got, [{"w": a, "b": b}, (None, c)], name="loaded tree")
        left = list(state)
        assert left == names, "the state dict to be left as it was"
# %% ex="name_leaves" kind="check"
with check("strict_names", points=1,
           section="A mask is a tree as well"):
    like = {"w": np.zeros(2), "b": np.zeros(2)}
    accepted, left = [], []
    for names in (["w"], ["w", "b", "old"], []):
        state = {name: np.ones(2) for name in names}
        try:
            from_state(like, state)
            accepted.append(names)
        except KeyError:
            left += [list(state) == names]
    assert all(left), "the state dict to be left as it was"
    assert accepted == [], "a KeyError when names are missing or left over"
# %% ex="name_leaves" kind="hidden"
with check("there_and_back", points=1,
           section="A mask is a tree as well"):
    from hypothesis import given, settings, strategies as st

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Block:
        gain: object
        parts: object

    def grow(inner):
        words = st.text("abw", min_size=1, max_size=3)
        return st.one_of(
            st.lists(inner, max_size=3), st.tuples(inner, inner),
            st.dictionaries(words, inner, max_size=3),
            st.builds(Block, inner, inner))

    leaves = st.one_of(st.none(), st.integers(0, 99))

    @settings(max_examples=15, derandomize=True, deadline=None, database=None,
              report_multiple_bugs=False)
    @given(st.recursive(leaves, grow, max_leaves=8))
    def round_trip(tree):
        state = to_state([tree])
        shuffled = dict(reversed(state.items()))
        same = from_state([tree], shuffled) == [tree]
        assert same, "the same tree, there and back"

    round_trip()
# %% ex="name_leaves" kind="wrong" fails="names_are_paths order_is_free there_and_back"
# a recursion over dicts and lists, as for nested configurations
def to_state(tree, prefix=""):
    if isinstance(tree, dict):
        items = tree.items()
    elif isinstance(tree, (list, tuple)):
        items = enumerate(tree)
    else:
        return {prefix[:-1]: tree}
    parts = [to_state(v, f"{prefix}{k}.") for k, v in items]
    return {name: x for part in parts for name, x in part.items()}


def from_state(like, state):
    if set(to_state(like)) != set(state):
        raise KeyError("names differ")
    leaves = [state[name] for name in to_state(like)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
# %% ex="name_leaves" kind="wrong" fails="order_is_free there_and_back"
# the order of the dict is trusted
def to_state(tree):
    name = partial(jax.tree_util.keystr, simple=True, separator=".")
    return {name(path): x for path, x in jax.tree.leaves_with_path(tree)}


def from_state(like, state):
    if set(to_state(like)) != set(state):
        raise KeyError("names differ")
    return jax.tree.unflatten(jax.tree.structure(like), list(state.values()))
# %% ex="name_leaves" kind="wrong" fails="strict_names"
# what is left over in the file is ignored
def to_state(tree):
    name = partial(jax.tree_util.keystr, simple=True, separator=".")
    return {name(path): x for path, x in jax.tree.leaves_with_path(tree)}


def from_state(like, state):
    leaves = [state[name] for name in to_state(like)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
# %% ex="name_leaves" kind="wrong" fails="order_is_free strict_names"
# what is loaded is taken out of the caller's dict
def to_state(tree):
    name = partial(jax.tree_util.keystr, simple=True, separator=".")
    return {name(path): x for path, x in jax.tree.leaves_with_path(tree)}


def from_state(like, state):
    names = to_state(like)
    if names.keys() - state.keys():
        raise KeyError("names are missing")
    leaves = [state.pop(name) for name in names]
    if state:
        raise KeyError("names are left over")
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
# %% ex="name_leaves" kind="alternate"
def _name(path):
    kinds = ("key", "idx", "name")
    parts = [getattr(s, k) for s in path for k in kinds if hasattr(s, k)]
    return ".".join(map(str, parts))


def to_state(tree):
    state = {}
    jax.tree.map_with_path(lambda p, x: state.update({_name(p): x}), tree)
    return state


def from_state(like, state):
    left = dict(state)
    tree = jax.tree.map_with_path(lambda p, _: left.pop(_name(p)), like)
    if left:
        raise KeyError(*left)
    return tree
# %% [markdown] ex="name_leaves" kind="why"
# JAX knows which types are containers, and in which order their children come; a
# recursion of your own has to learn it again for every type, and meets namedtuples,
# dataclasses and `None` later. `jax.tree.unflatten` takes leaves in the order of the
# treedef, where dicts are sorted, so leaves must be looked up by name and never by
# position in a file. A name that is left over means that the file belongs to another
# model, as a missing one does.
# %% [markdown] ex="class_register" level="core" minutes=10
# ## Give a class a structure
#
# `Standardise` was carried over from PyTorch. It is compiled with a static `self`, so
# new statistics have no effect, and `update` changes the object in place.
#
# Mend the class. `Standardise(mean, std, mode)` and the names of its attributes stay:
#
# - calling an instance runs compiled code, as it does now; `update` need not;
# - instances are pytrees with two leaves, `mean` and `std`, and pass through
#   `jax.jit`, `jax.grad` and `jax.vmap`;
# - `mode` is "full" or "centre" and chosen in Python; new statistics never trace
#   again, each mode is traced once;
# - `update(x)` returns a new object with the statistics of `x` and the same mode.
#   The old one stays as it was.
# %% ex="class_register" kind="starter"
class Standardise:
    """Subtract a mean and, in mode "full", divide by a standard deviation."""

    def __init__(self, mean, std, mode):
        self.mean, self.std, self.mode = mean, std, mode

    @partial(jax.jit, static_argnums=0)
    def __call__(self, x):
        centred = x - self.mean
        return centred / self.std if self.mode == "full" else centred

    def update(self, x):
        self.mean, self.std = x.mean(axis=0), x.std(axis=0)
# %% ex="class_register" kind="solution"
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Standardise:
    """Subtract a mean and, in mode "full", divide by a standard deviation."""

    mean: jax.Array
    std: jax.Array
    mode: str = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        centred = x - self.mean
        return centred / self.std if self.mode == "full" else centred

    def update(self, x):
        return dataclasses.replace(self, mean=x.mean(0), std=x.std(0))
# %% [markdown] ex="class_register" kind="hint"
# Which attributes are numbers that change, and which one selects code? Say so to JAX,
# and `self` can be an ordinary argument.
# %% [markdown] ex="class_register" kind="hint"
# `jax.tree_util.register_dataclass` on top of `dataclasses.dataclass`; a static field
# is made by `dataclasses.field(metadata={"static": True})`, a changed copy by
# `dataclasses.replace`.
# %% ex="class_register" kind="check"
with check("new_statistics", points=1,
           section="Structure is part of the cache key"):
    x, one = np.float32([[1, 4], [3, 8]]), np.float32([5, 5])
    for mode, std in (("full", np.float32([1, 2])), ("centre", one / one)):
        first = Standardise(jnp.zeros(2), jnp.ones(2), mode)
        expect_close(first(one), one, name="before: result")
        second = first.update(x)
        want = (one - x.mean(0)) / std
        expect_close(second(one), want, name="after: result")
        expect_close(first(one), one, name="the old object: result")
        moved = Standardise(jnp.full(2, 5.0), jnp.ones(2), mode)
        expect_close(moved(one), 0 * one, name="with another mean: result")
# %% ex="class_register" kind="check"
with check("a_trace_per_mode", points=1,
           section="Structure is part of the cache key"):
    def run(standardise, x):
        return standardise(x)

    x, calls = jnp.ones((4, 2)), []
    for n in range(3):
        for mode in ("full", "centre"):
            fit = Standardise(jnp.full(2, 1.0 * n), jnp.ones(2), mode)
            calls.append((fit, x))
    expect_traces(jax.jit(run), calls, at_most=2, at_least=2)
    expect_traces(run, calls, at_most=2, at_least=2)
# %% ex="class_register" kind="check"
with check("gradient_object", points=1,
           section="A class of your own is a leaf until you register it"):
    fit = Standardise(jnp.zeros(2), jnp.array([1.0, 2.0]), "full")
    slope = jax.grad(lambda s: s(jnp.array([3.0, 4.0])).sum())(fit)
    assert isinstance(slope, Standardise), "a gradient of the same class"
    expect_close(slope.mean, np.float32([-1, -0.5]), name="mean")
    expect_close(slope.std, np.float32([-3, -1]), name="std")
# %% ex="class_register" kind="hidden"
with check("mapped_objects", points=1,
           section="A class of your own is a leaf until you register it"):
    x = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)
    start = Standardise(jnp.zeros(2), jnp.ones(2), "centre")
    many = jax.jit(jax.vmap(lambda x: start.update(x)))(x)
    assert many.mode == "centre", "the mode to be kept"
    leaves = len(jax.tree.leaves(many))
    assert leaves == 2, "two leaves"
    expect_close(many.mean, x.mean(axis=1), name="mean")
    expect_close(many.std, x.std(axis=1), rtol=1e-4, name="std")
    got = jax.vmap(lambda s, x: s(x))(many, x)
    expect_close(got, x - x.mean(axis=1, keepdims=True), atol=1e-5)
# %% ex="class_register" kind="wrong" fails="new_statistics a_trace_per_mode gradient_object mapped_objects"
# every field is data, the string too
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Standardise:
    mean: jax.Array
    std: jax.Array
    mode: str

    @jax.jit
    def __call__(self, x):
        centred = x - self.mean
        return centred / self.std if self.mode == "full" else centred

    def update(self, x):
        return dataclasses.replace(self, mean=x.mean(0), std=x.std(0))
# %% ex="class_register" kind="wrong" fails="new_statistics"
# registered, but updated in place as a buffer would be
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Standardise:
    mean: jax.Array
    std: jax.Array
    mode: str = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        centred = x - self.mean
        return centred / self.std if self.mode == "full" else centred

    def update(self, x):
        self.mean, self.std = x.mean(axis=0), x.std(axis=0)
        return self
# %% ex="class_register" kind="wrong" fails="new_statistics a_trace_per_mode gradient_object mapped_objects"
# the statistics are taken for constants, since they are not trained
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Standardise:
    mean: jax.Array = dataclasses.field(metadata={"static": True})
    std: jax.Array = dataclasses.field(metadata={"static": True})
    mode: str = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        centred = x - self.mean
        return centred / self.std if self.mode == "full" else centred

    def update(self, x):
        return dataclasses.replace(self, mean=x.mean(0), std=x.std(0))
# %% ex="class_register" kind="alternate"
@partial(jax.tree_util.register_dataclass,
         data_fields=("mean", "std"), meta_fields=("mode",))
@dataclasses.dataclass(frozen=True)
class Standardise:
    mean: jax.Array
    std: jax.Array
    mode: str

    def __call__(self, x):
        return jax.jit(Standardise.apply)(self, x)

    def apply(self, x):
        return (x - self.mean) / (self.std if self.mode == "full" else 1)

    def update(self, x):
        return Standardise(x.mean(axis=0), x.std(axis=0), self.mode)
# %% ex="class_register" kind="alternate"
@jax.tree_util.register_pytree_node_class
class Standardise:
    def __init__(self, mean, std, mode):
        self.mean, self.std, self.mode = mean, std, mode

    def tree_flatten(self):
        return (self.mean, self.std), self.mode

    @classmethod
    def tree_unflatten(cls, mode, children):
        return cls(*children, mode)

    def __call__(self, x):
        return _standardise(self.mean, self.std, x, self.mode == "full")

    def update(self, x):
        return Standardise(jnp.mean(x, 0), jnp.std(x, 0), self.mode)


@partial(jax.jit, static_argnums=3)
def _standardise(mean, std, x, full):
    return (x - mean) / std if full else x - mean
# %% [markdown] ex="class_register" kind="why"
# A static `self` is hashed by identity, so whatever it held in the first call is
# frozen into the program. Registered, its data fields are arguments like others, and
# its static field is part of the structure: one program for each mode. With the
# string among the data, JAX tries to trace it and fails. Arrays as static fields fail
# too, at the second object, when the structures are compared. Writing to `self` works
# outside of jit and is lost inside; a new object works in both.
# %% [markdown] ex="state_steady" level="core" minutes=12
# ## A state that keeps its shape
#
# This optimizer state is written as one would in Python: `None` for what does not
# exist yet, a list that grows. So `update` is traced again and again.
#
# Mend both functions such that all steps share one trace. The state stays a dict with
# these keys:
#
# - `velocity`: a tree like `params`, zero at first; then `0.9 * velocity + grads`;
# - `best`: the smallest loss so far, infinite at first, f32;
# - `recent`: the last four losses, newest last, as f32[4]; `nan` where there was
#   none yet.
#
# `update` moves `params` by `-0.1 * velocity`, new velocity first. Losses are f32
# arrays, `params` any tree of f32 arrays.
# %% ex="state_steady" kind="starter"
def init(params):
    """The state before the first step."""
    return {"velocity": None, "best": None, "recent": []}


@jax.jit
def update(state, params, grads, loss):
    """Return (state, params) after a step."""
    velocity = grads
    if state["velocity"] is not None:
        old = state["velocity"]
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, old, grads)
    best = loss if state["best"] is None else jnp.minimum(state["best"], loss)
    recent = (state["recent"] + [loss])[-4:]
    params = jax.tree.map(lambda p, v: p - 0.1 * v, params, velocity)
    return {"velocity": velocity, "best": best, "recent": recent}, params
# %% ex="state_steady" kind="solution"
def init(params):
    """The state before the first step."""
    zero = jax.tree.map(jnp.zeros_like, params)
    return {"velocity": zero, "best": jnp.float32(jnp.inf),
            "recent": jnp.full(4, jnp.nan, jnp.float32)}


@jax.jit
def update(state, params, grads, loss):
    """Return (state, params) after a step."""
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], grads)
    params = jax.tree.map(lambda p, v: p - 0.1 * v, params, velocity)
    recent = jnp.append(state["recent"][1:], loss)
    best = jnp.minimum(state["best"], loss)
    return {"velocity": velocity, "best": best, "recent": recent}, params
# %% [markdown] ex="state_steady" kind="hint"
# Print `jax.tree.structure` of the state before and after some steps. What would each
# entry have to be at the start, to look as it does later?
# %% [markdown] ex="state_steady" kind="hint"
# Structure is not all: shape, dtype and weak type of each leaf are in the key too.
# Python numbers are weakly typed, and so are arrays made of one such number without a
# dtype: `jnp.full(4, jnp.nan)`, `jnp.array(jnp.inf)`. An array made of a list is not.
# %% ex="state_steady" kind="check"
with check("same_steps", points=1,
           section="One map walks all trees"):
    p, v = np.float32([1, 2]), np.float32([0, 0])
    params = {"w": jnp.array(p)}
    state, losses = init(params), np.float32([5, 3, 4, 2, 6, 7])
    for n, loss in enumerate(losses):
        g = np.float32([1, -n])
        grads = {"w": jnp.array(g)}
        state, params = update(state, params, grads, jnp.array(loss))
        v = 0.9 * v + g
        p = p - 0.1 * v
    expect_close(params, {"w": p}, name="params")
    want = {"velocity": {"w": v}, "best": np.float32(2), "recent": losses[-4:]}
    expect_close(state, want, name="state")
# %% ex="state_steady" kind="check"
with check("one_trace_for_all", points=1,
           section="Structure is part of the cache key"):
    params, calls = [jnp.ones(3), {"b": jnp.zeros(())}], []
    state, grads = init(params), params
    for n in range(6):
        call = (state, params, grads, jnp.float32(n))
        calls.append(copy.deepcopy(call))   # in case the call donates
        state, params = update(*call)
    expect_traces(update, calls, at_most=1)
# %% ex="state_steady" kind="check"
with check("start_values", points=1,
           section="Containers are branches, the rest are leaves"):
    params = {"w": jnp.ones((2, 3)), "b": None}
    zero = {"w": np.zeros((2, 3), np.float32), "b": None}
    want = {"velocity": zero, "best": np.float32(np.inf),
            "recent": np.full(4, np.nan, np.float32)}
    expect_close(init(params), want, name="state")
# %% ex="state_steady" kind="hidden"
with check("any_container", points=1,
           section="Structure is part of the cache key"):
    Pair = collections.namedtuple("Pair", "w b")
    params = (Pair(jnp.ones(2), [jnp.zeros(1)]), {"x": jnp.float32(1)})
    grads = jax.tree.map(jnp.ones_like, params)
    state, moved = update(init(params), params, grads, jnp.float32(1))
    expect_same_tree(moved, params, name="params")
    expect_same_tree(state["velocity"], params, name="velocity")
    recent = np.float32([np.nan, np.nan, np.nan, 1])
    expect_close(state["recent"], recent, name="recent")
    state, moved = update(state, moved, grads, jnp.float32(0))
    expect_close(state["best"], 0.0, name="best")
    expect_close(moved[1]["x"], 1 - 0.1 - 0.19, name="params[1]['x']")
# %% ex="state_steady" kind="wrong" fails="one_trace_for_all"
# `best` begins as Python's `math.inf`, which is not typed as an f32 array is
def init(params):
    zero = jax.tree.map(jnp.zeros_like, params)
    recent = jnp.full(4, jnp.nan, jnp.float32)
    return {"velocity": zero, "best": math.inf, "recent": recent}


@jax.jit
def update(state, params, grads, loss):
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], grads)
    params = jax.tree.map(lambda p, v: p - 0.1 * v, params, velocity)
    recent = jnp.append(state["recent"][1:], loss)
    best = jnp.minimum(state["best"], loss)
    return {"velocity": velocity, "best": best, "recent": recent}, params
# %% ex="state_steady" kind="wrong" fails="one_trace_for_all"
# `jnp.full` without a dtype: weakly typed, as the `nan` in it
def init(params):
    zero = jax.tree.map(jnp.zeros_like, params)
    return {"velocity": zero, "best": jnp.float32(jnp.inf),
            "recent": jnp.full(4, jnp.nan)}


@jax.jit
def update(state, params, grads, loss):
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], grads)
    params = jax.tree.map(lambda p, v: p - 0.1 * v, params, velocity)
    recent = jnp.append(state["recent"][1:], loss)
    best = jnp.minimum(state["best"], loss)
    return {"velocity": velocity, "best": best, "recent": recent}, params
# %% ex="state_steady" kind="wrong" fails="same_steps one_trace_for_all start_values any_container"
# velocity and best exist from the start, and the list still grows
def init(params):
    zero = jax.tree.map(jnp.zeros_like, params)
    return {"velocity": zero, "best": jnp.float32(jnp.inf), "recent": []}


@jax.jit
def update(state, params, grads, loss):
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], grads)
    params = jax.tree.map(lambda p, v: p - 0.1 * v, params, velocity)
    recent = (state["recent"] + [loss])[-4:]
    best = jnp.minimum(state["best"], loss)
    return {"velocity": velocity, "best": best, "recent": recent}, params
# %% ex="state_steady" kind="wrong" fails="one_trace_for_all any_container"
# leaves are updated in a list, and the list is what comes back
def init(params):
    zero = jax.tree.map(jnp.zeros_like, params)
    return {"velocity": zero, "best": jnp.float32(jnp.inf),
            "recent": jnp.full(4, jnp.nan, jnp.float32)}


@jax.jit
def update(state, params, grads, loss):
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], grads)
    pairs = zip(jax.tree.leaves(params), jax.tree.leaves(velocity))
    moved = [p - 0.1 * v for p, v in pairs]
    if isinstance(params, dict):
        moved = dict(zip(sorted(params), moved))
    recent = jnp.append(state["recent"][1:], loss)
    best = jnp.minimum(state["best"], loss)
    return {"velocity": velocity, "best": best, "recent": recent}, moved
# %% ex="state_steady" kind="alternate"
def init(params):
    return dict(
        recent=np.full(4, np.nan, np.float32),
        best=jnp.array(jnp.inf, jnp.float32),
        velocity=jax.tree.map(lambda p: 0 * p, params),
    )


@partial(jax.jit, donate_argnums=0)
def update(state, params, grads, loss):
    leaves, treedef = jax.tree.flatten(params)
    trees = (state["velocity"], grads)
    pairs = zip(leaves, *(jax.tree.leaves(tree) for tree in trees))
    moved = [(p - 0.1 * (0.9 * v + g), 0.9 * v + g) for p, v, g in pairs]
    params, velocity = (treedef.unflatten(part) for part in zip(*moved))
    recent = jnp.roll(state["recent"], -1).at[3].set(loss)
    best = jnp.where(loss < state["best"], loss, state["best"])
    new = {"velocity": velocity, "best": best, "recent": recent}
    return state | new, params
# %% [markdown] ex="state_steady" kind="why"
# The treedef is in the cache key, and so are shape and dtype of each leaf. `None` is
# an empty branch and an array is a leaf, so a state that starts with `None` costs a
# second trace; a list that grows costs one for each length. Start with what the state
# will be: zeros, infinity, a buffer of fixed length. `math.inf` has the right value,
# but a Python number is weakly typed and the result of the step is not; so is
# `jnp.full(4, jnp.nan)` without a dtype. jit compiles twice and says nothing.
# %% [markdown] ex="layer_freeze" level="core" minutes=12
# ## Train a part
#
# Write `make_step(loss, trainable)`. It returns a compiled `step(params, lr, *batch)`
# which gives the new parameters and the loss before the step.
#
# `loss(params, *batch)` is a scalar. `trainable` is a function of a leaf's name, such
# as `"1.w"`, as `jax.tree_util.keystr(path, simple=True, separator=".")` gives it.
# Leaves whose name it accepts are f32 arrays and move by `-lr` times their gradient.
# All others come back as they were; they may have any dtype, and no gradient is
# computed for them, not even one that is then multiplied by 0. All rates share a
# trace.
# %% ex="layer_freeze" kind="solution"
def make_step(loss, trainable):
    """Return step(params, lr, *batch) -> (params, loss f32[])."""
    ### BEGIN SOLUTION
    def chosen(path):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        return trainable(name)

    def combine(kept, rest):
        return jax.tree.map(
            lambda a, b: b if a is None else a,
            kept, rest, is_leaf=lambda a: a is None,
        )  # fmt: skip

    @jax.jit
    def step(params, lr, *batch):
        pick = jax.tree.map_with_path
        kept = pick(lambda path, p: p if chosen(path) else None, params)
        rest = pick(lambda path, p: None if chosen(path) else p, params)
        value, grads = jax.value_and_grad(
            lambda kept: loss(combine(kept, rest), *batch)
        )(kept)
        kept = jax.tree.map(lambda p, g: p - lr * g, kept, grads)
        return combine(kept, rest), value

    return step
    ### END SOLUTION
# %% [markdown] ex="layer_freeze" kind="hint"
# What you differentiate by is decided by which tree you hand to `jax.grad`. Make a
# tree that has only the chosen leaves.
# %% [markdown] ex="layer_freeze" kind="hint"
# Two trees of the same shape with `None` in the gaps, by `jax.tree.map_with_path`. A
# function of the first puts both together and calls `loss`.
# %% [markdown] ex="layer_freeze" kind="hint"
# To put them together: `jax.tree.map(lambda a, b: b if a is None else a, kept, rest,
# is_leaf=lambda a: a is None)`.
# %% ex="layer_freeze" kind="check"
with check("part_moves", points=1,
           section="A mask is a tree as well"):
    def loss(params, x):
        h = x[:, params[0]["order"]] @ params[0]["w"]
        return (h @ params[1]["w"] + params[1]["b"]).sum()

    a, b = np.float32([[1, 2], [0, 3]]), np.float32([[2], [-1]])
    x, zero = np.float32([[1, 1], [2, 0]]), np.float32([0])
    frozen = {"w": a, "order": np.int32([1, 0])}
    params = jax.tree.map(jnp.array, [frozen, {"w": b, "b": zero}])
    moved, value = make_step(loss, lambda name: name == "1.w")(params, 0.5, x)
    h = x[:, ::-1] @ a
    last = {"w": b - 0.5 * h.sum(0)[:, None], "b": zero}
    expect_close(moved, [frozen, last], name="params")
    expect_close(value, (h @ b).sum(), name="loss")
# %% ex="layer_freeze" kind="check"
with check("no_idle_gradient", points=1,
           section="A mask is a tree as well"):
    def loss(params, x):
        for w in params:
            x = jnp.tanh(x @ w)
        return x.sum()

    params, x = [jnp.eye(3)] * 4, jnp.ones((2, 3))
    for accepted, most in (("3", 5), ("23", 7), ("0123", 11)):
        step = make_step(loss, lambda name: name in accepted)
        products = count_primitives(step, params, 0.1, x)["dot_general"]
        task = f"training {accepted} of 0123"
        assert products <= most, f"at most {most} products when {task}"
# %% ex="layer_freeze" kind="check"
with check("rates_are_data", points=1,
           section="Structure is part of the cache key"):
    def loss(params, x):
        return (params["w"] * x + params["b"]).sum()

    params = {"w": jnp.ones(3), "b": jnp.zeros(3)}
    calls = [(params, lr, jnp.ones(3)) for lr in (0.1, 0.01, 0.001)]
    expect_traces(make_step(loss, lambda name: name == "b"), calls, at_most=1)
# %% ex="layer_freeze" kind="hidden"
with check("frozen_any_dtype", points=1,
           section="A mask is a tree as well"):
    def loss(params, x, scale):
        table = params["table"][params["index"]]
        return scale * (table * x * params["gain"][0]).sum()

    params = {"index": jnp.array([2, 0]), "table": jnp.arange(3.0),
              "gain": (jnp.float32(2), None), "mask": jnp.array([True])}
    step = make_step(loss, lambda name: name.startswith("gain"))
    moved, value = step(params, 0.5, jnp.array([1.0, 5.0]), jnp.float32(3))
    want = dict(params, gain=(np.float32(-1), None))
    expect_close(moved, want, name="params")
    expect_close(value, 12.0, name="loss")
# %% ex="layer_freeze" kind="wrong" fails="part_moves no_idle_gradient frozen_any_dtype"
# all gradients, and a mask of zeros and ones
def make_step(loss, trainable):
    def weight(path, _):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        return 1.0 if trainable(name) else 0.0

    @jax.jit
    def step(params, lr, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        mask = jax.tree.map_with_path(weight, params)
        move = lambda p, g, m: p - lr * m * g
        return jax.tree.map(move, params, grads, mask), value

    return step
# %% ex="layer_freeze" kind="wrong" fails="part_moves frozen_any_dtype"
# `detach` on the frozen leaves: no idle gradient, but they are still differentiated
def make_step(loss, trainable):
    def held(path, p):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        return p if trainable(name) else jax.lax.stop_gradient(p)

    @jax.jit
    def step(params, lr, *batch):
        value, grads = jax.value_and_grad(
            lambda p: loss(jax.tree.map_with_path(held, p), *batch)
        )(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), value

    return step
# %% ex="layer_freeze" kind="wrong" fails="part_moves no_idle_gradient rates_are_data frozen_any_dtype"
# put together without `is_leaf`, so that `None` is an empty branch
def make_step(loss, trainable):
    def chosen(path):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        return trainable(name)

    def combine(kept, rest):
        return jax.tree.map(lambda a, b: b if a is None else a, kept, rest)

    @jax.jit
    def step(params, lr, *batch):
        pick = jax.tree.map_with_path
        kept = pick(lambda path, p: p if chosen(path) else None, params)
        rest = pick(lambda path, p: None if chosen(path) else p, params)
        value, grads = jax.value_and_grad(
            lambda kept: loss(combine(kept, rest), *batch)
        )(kept)
        kept = jax.tree.map(lambda p, g: p - lr * g, kept, grads)
        return combine(kept, rest), value

    return step
# %% ex="layer_freeze" kind="alternate"
def make_step(loss, trainable):
    def step(params, lr, *batch):
        flat, treedef = jax.tree.flatten_with_path(params)
        name = partial(jax.tree_util.keystr, simple=True, separator=".")
        names = [name(path) for path, _ in flat]
        leaves = dict(zip(names, (leaf for _, leaf in flat)))

        def of_some(some):
            return loss(treedef.unflatten((leaves | some).values()), *batch)

        some = {name: x for name, x in leaves.items() if trainable(name)}
        value, pull = jax.vjp(of_some, some)
        (grads,) = pull(jnp.ones_like(value))
        some = {name: x - lr * grads[name] for name, x in some.items()}
        return treedef.unflatten((leaves | some).values()), value

    return jax.jit(step)
# %% [markdown] ex="layer_freeze" kind="why"
# JAX differentiates by what it is handed, so a frozen leaf is one that is not in that
# tree. The backward pass then ends at the last trainable leaf. A mask of zeros takes
# all gradients first, and spoils integer leaves, which become floats at best and have
# no gradient at all. `stop_gradient` saves the work, but `jax.grad` still refuses an
# integer in the tree that it differentiates by. Both trees have `None` in their gaps;
# without `is_leaf`, JAX takes these for empty branches and finds two structures.
# %% [markdown] ex="weight_tie" level="core" minutes=6
# ## Tied, and still tied after a step
#
# A small language model shares its embedding with its output layer. The author put
# the same array under two keys; after one step of training, there are two different
# ones.
#
# Mend `init` and `logits`. The parameters are a tree with two leaves, the embedding
# f32[vocab, d] and the matrix f32[d, d] between, and stay tied whatever an optimizer
# does with that tree. Logits for given leaves are what they were, and the gradient of
# the embedding counts both uses.
# %% ex="weight_tie" kind="starter"
def init(key, vocab, d):
    """Parameters of the model, a tree of f32 arrays."""
    akey, bkey = jax.random.split(key)
    embed = jax.random.normal(akey, (vocab, d)) / math.sqrt(d)
    mix = jax.random.normal(bkey, (d, d)) / math.sqrt(d)
    return {"embed": embed, "mix": mix, "out": embed}


def logits(params, tokens):
    """Scores of the next token; i32[n] -> f32[n, vocab]."""
    h = jnp.tanh(params["embed"][tokens] @ params["mix"])
    return h @ params["out"].T
# %% ex="weight_tie" kind="solution"
def init(key, vocab, d):
    """Parameters of the model, a tree of f32 arrays."""
    akey, bkey = jax.random.split(key)
    embed = jax.random.normal(akey, (vocab, d)) / math.sqrt(d)
    mix = jax.random.normal(bkey, (d, d)) / math.sqrt(d)
    return {"embed": embed, "mix": mix}


def logits(params, tokens):
    """Scores of the next token; i32[n] -> f32[n, vocab]."""
    h = jnp.tanh(params["embed"][tokens] @ params["mix"])
    return h @ params["embed"].T
# %% [markdown] ex="weight_tie" kind="hint"
# Count the leaves. A tree doesn't know that two of them are one array, so the tie
# can't be in the tree.
# %% [markdown] ex="weight_tie" kind="hint"
# Where does the function say that it uses the same matrix twice?
# %% ex="weight_tie" kind="check"
with check("two_leaves", points=1,
           section="A tree has no aliases"):
    params = init(jax.random.key(0), 7, 3)
    shapes = sorted(leaf.shape for leaf in jax.tree.leaves(params))
    assert shapes == [(3, 3), (7, 3)], "one embedding and one matrix"
    spread = min(float(jnp.std(leaf)) for leaf in jax.tree.leaves(params))
    assert spread > 0.1, "weights that are drawn"
# %% ex="weight_tie" kind="check"
with check("tied_after_step", points=1,
           section="A tree has no aliases"):
    rng, tokens = np.random.default_rng(0), np.array([0, 3, 6, 3])
    params = init(jax.random.key(0), 7, 3)
    grads = jax.grad(lambda p: logits(p, tokens)[:, 2].sum())(params)
    moved = jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)
    for tree in (params, moved):
        leaves = sorted(map(np.asarray, jax.tree.leaves(tree)), key=len)
        count = len(leaves)
        assert count == 2, "two leaves"
        small, large = leaves
        want = np.tanh(large[tokens] @ small) @ large.T
        expect_close(logits(tree, tokens), want, atol=1e-5, name="logits")
# %% ex="weight_tie" kind="check"
with check("both_uses_count", points=1,
           section="A tree has no aliases"):
    tokens = jnp.array([1, 4])
    params = init(jax.random.key(1), 5, 4)
    grads = jax.grad(lambda p: logits(p, tokens)[:, 2].sum())(params)
    leaves = sorted(map(np.asarray, jax.tree.leaves(params)), key=len)
    count = len(leaves)
    assert count == 2, "two leaves"
    small, large = leaves
    h, want = np.tanh(large[[1, 4]] @ small), np.zeros((5, 4), np.float32)
    want[2] = h.sum(axis=0)
    want[[1, 4]] += ((1 - h**2) * large[2]) @ small.T
    got = max(jax.tree.leaves(grads), key=len)
    expect_close(got, want, atol=1e-5, name="gradient of the embedding")
# %% ex="weight_tie" kind="hidden"
with check("no_hidden_weights", points=1,
           section="A tree has no aliases"):
    tokens, first = jnp.array([0, 1, 2]), init(jax.random.key(2), 6, 2)
    second = init(jax.random.key(3), 6, 2)
    spread = max(float(jnp.std(leaf)) for leaf in jax.tree.leaves(second))
    assert spread > 0.2, "weights that are drawn"
    calls = [(first, tokens), (second, tokens)]
    expect_pure(logits, calls)
    expect_traces(jax.jit(logits), calls, at_most=1)
    for tree in (first, second, jax.tree.map(lambda p: 2 * p, first)):
        leaves = sorted(map(np.asarray, jax.tree.leaves(tree)), key=len)
        count = len(leaves)
        assert count == 2, "two leaves"
        want = np.tanh(leaves[-1][:3] @ leaves[0]) @ leaves[-1].T
        got = jax.jit(logits)(tree, tokens)
        expect_close(got, want, atol=1e-5, name="logits")
# %% ex="weight_tie" kind="wrong" fails="both_uses_count"
# the second use is detached, to have one gradient only
def init(key, vocab, d):
    akey, bkey = jax.random.split(key)
    embed = jax.random.normal(akey, (vocab, d)) / math.sqrt(d)
    mix = jax.random.normal(bkey, (d, d)) / math.sqrt(d)
    return {"embed": embed, "mix": mix}


def logits(params, tokens):
    h = jnp.tanh(params["embed"][tokens] @ params["mix"])
    return h @ jax.lax.stop_gradient(params["embed"]).T
# %% ex="weight_tie" kind="wrong" fails="tied_after_step both_uses_count no_hidden_weights"
# the output matrix is a module-level variable, set once by `init`
def init(key, vocab, d):
    global out
    akey, bkey = jax.random.split(key)
    out = jax.random.normal(akey, (vocab, d)) / math.sqrt(d)
    mix = jax.random.normal(bkey, (d, d)) / math.sqrt(d)
    return {"embed": out, "mix": mix}


def logits(params, tokens):
    h = jnp.tanh(params["embed"][tokens] @ params["mix"])
    return h @ out.T
# %% ex="weight_tie" kind="wrong" fails="two_leaves tied_after_step both_uses_count no_hidden_weights"
# the tie is renewed in every call, and the second leaf stays in the tree
def init(key, vocab, d):
    akey, bkey = jax.random.split(key)
    embed = jax.random.normal(akey, (vocab, d)) / math.sqrt(d)
    mix = jax.random.normal(bkey, (d, d)) / math.sqrt(d)
    return {"embed": embed, "mix": mix, "out": embed}


def logits(params, tokens):
    params = dict(params, out=params["embed"])
    h = jnp.tanh(params["embed"][tokens] @ params["mix"])
    return h @ params["out"].T
# %% ex="weight_tie" kind="wrong" fails="two_leaves no_hidden_weights"
# ones: all units do the same, before a step and after it
def init(key, vocab, d):
    return {"embed": jnp.ones((vocab, d)), "mix": jnp.ones((d, d))}


def logits(params, tokens):
    h = jnp.tanh(params["embed"][tokens] @ params["mix"])
    return h @ params["embed"].T
# %% ex="weight_tie" kind="alternate"
Tied = collections.namedtuple("Tied", "mix embed")


def init(key, vocab, d):
    keys = jax.random.split(key, 2)
    draw = [jax.random.normal(k, (n, d)) for k, n in zip(keys, (d, vocab))]
    return Tied(*(w * d**-0.5 for w in draw))


def logits(params, tokens):
    rows = jnp.take(params.embed, tokens, axis=0)
    return jnp.einsum("nd,vd->nv", jnp.tanh(rows @ params.mix), params.embed)
# %% [markdown] ex="weight_tie" kind="why"
# A PyTorch module may be reached by two names, and `parameters()` counts it once. A
# pytree is flattened without asking whether two leaves are one array, so each gets a
# gradient for its own use and moves on its own. Stored once and used twice, the weight
# gets the sum, as in PyTorch. Stopping the gradient of one use is another model. A
# second leaf that nobody reads costs memory, and an optimizer's weight decay for
# nothing.
# %% [markdown] ex="leaf_grad" level="stretch" minutes=15
# ## A gradient for any configuration
#
# `jax.grad` wants a tree of floating-point arrays. Models carried over from PyTorch
# come as trees that hold strings, flags, sizes, functions and arrays of indices.
#
# Write `grad_floats(fn)`. The result takes the arguments of the scalar function `fn`
# and differentiates by the first one: by its leaves that are JAX or NumPy arrays of a
# floating dtype, or Python floats. It returns a tree of the same structure with `None`
# in place of every other leaf. `fn` meets those other leaves as they are: a size is
# still a Python integer. It works inside a jitted function, and passes further
# arguments and keywords on.
# %% ex="leaf_grad" kind="solution"
def grad_floats(fn):
    """Like jax.grad(fn), for trees whose leaves may be anything."""
    ### BEGIN SOLUTION
    def is_float(leaf):
        if isinstance(leaf, (jax.Array, np.ndarray, np.generic)):
            return jnp.issubdtype(leaf.dtype, jnp.floating)
        return isinstance(leaf, float)

    def grad(tree, *args, **kwargs):
        leaves, treedef = jax.tree.flatten(tree)

        def of_floats(floats):
            filled = [x if f is None else f for f, x in zip(floats, leaves)]
            return fn(jax.tree.unflatten(treedef, filled), *args, **kwargs)

        floats = [leaf if is_float(leaf) else None for leaf in leaves]
        return jax.tree.unflatten(treedef, jax.grad(of_floats)(floats))

    return grad
    ### END SOLUTION
# %% [markdown] ex="leaf_grad" kind="hint"
# Sort the leaves, as for a compiled function with mixed arguments. Only one of the two
# parts goes through `jax.grad`; the other can stay in Python.
# %% [markdown] ex="leaf_grad" kind="hint"
# An inner function of the floats alone puts all leaves back and calls `fn`. `None` in
# a list keeps the places of the others.
# %% [markdown] ex="leaf_grad" kind="hint"
# `jnp.issubdtype(leaf.dtype, jnp.floating)` for arrays, `isinstance(leaf, float)` for
# Python numbers. The list of gradients has `None` where it had none.
# %% ex="leaf_grad" kind="check"
with check("mixed_leaves", points=1,
           section="Arrays are traced, the rest is static"):
    def loss(model, x):
        h = x[model["order"]] * model["w"]
        for _ in range(model["repeat"]):
            h = model["act"](h) if model["kind"] == "act" else h
        return (model["scale"] * (h + model["shift"])).sum()

    order, w, x = np.array([1, 0]), np.float32([2, 3]), np.float32([5, 7])
    model = {"w": jnp.array(w), "order": jnp.array(order), "repeat": 2,
             "kind": "act", "act": lambda h: 2 * h, "scale": 0.5, "shift": w}
    got = grad_floats(loss)(model, jnp.array(x))
    want = {"w": 2 * x[order], "scale": 4 * (w @ x[order]) + 5}
    want["shift"] = np.float32([0.5, 0.5])
    expect_close(got, dict.fromkeys(model) | want, name="gradient")
# %% ex="leaf_grad" kind="check"
with check("inside_jit", points=1,
           section="Arrays are traced, the rest is static"):
    def loss(model, x):
        return (model[0] ** 2 @ x).sum() * len(model[1])

    @jax.jit
    def move(w, x):
        return w - 0.5 * grad_floats(loss)([w, "ab"], x)[0]

    got = move(jnp.array([1.0, 2.0]), jnp.array([1.0, 0.5]))
    expect_close(got, np.float32([-1, 0]), name="moved")
    calls = [(jnp.ones(3) * n, jnp.ones(3)) for n in range(3)]
    expect_traces(move, calls, at_most=1)
# %% ex="leaf_grad" kind="check"
with check("arguments_pass_on", points=1,
           section="Arrays are traced, the rest is static"):
    def loss(model, power, *, names, weight=1.0):
        assert names == {"a": "b"}, "keywords to arrive as they are"
        return weight * model["w"] ** power

    model = {"w": jnp.float32(3), "name": "cube"}
    got = grad_floats(loss)(model, 2, names={"a": "b"})
    expect_close(got, {"w": np.float32(6), "name": None}, name="gradient")
    got = grad_floats(loss)(model, 3, names={"a": "b"}, weight=2.0)
    expect_close(got["w"], 54.0, name="gradient with weight 2")
# %% ex="leaf_grad" kind="hidden"
with check("untouched_leaves", points=1,
           section="Containers are branches, the rest are leaves"):
    class Thing:
        pass

    Pair = collections.namedtuple("Pair", "w rest")
    thing, seen = Thing(), []

    def loss(model):
        seen.append(model.rest)
        return model.w["x"].sum() * model.rest[1] + model.w["y"]

    rest = [thing, 3, True, None, np.arange(2), 1j, "text"]
    w = {"x": np.ones(2, np.float32), "y": 1.0, "z": jnp.ones(1)}
    model = Pair(w, rest)
    got = grad_floats(loss)(model)
    zero = np.zeros(1, np.float32)
    want = {"x": np.full(2, 3, np.float32), "y": 1.0, "z": zero}
    expect_close(got, Pair(want, [None] * 7), name="gradient")
    same = all(a is b for a, b in zip(seen[0], rest))
    assert same, "the other leaves to reach the function as they are"
# %% ex="leaf_grad" kind="wrong" fails="mixed_leaves inside_jit arguments_pass_on untouched_leaves"
# `allow_int=True` and hope
def grad_floats(fn):
    return jax.grad(fn, allow_int=True)
# %% ex="leaf_grad" kind="wrong" fails="mixed_leaves untouched_leaves"
# all that is a number is made a float array first
def grad_floats(fn):
    def grad(tree, *args, **kwargs):
        leaves, treedef = jax.tree.flatten(tree)
        number = (jax.Array, np.ndarray, np.generic, int, float)

        def of_floats(floats):
            filled = [x if f is None else f for f, x in zip(floats, leaves)]
            return fn(jax.tree.unflatten(treedef, filled), *args, **kwargs)

        floats = [
            jnp.float32(leaf) if isinstance(leaf, number) else None
            for leaf in leaves
        ]
        return jax.tree.unflatten(treedef, jax.grad(of_floats)(floats))

    return grad
# %% ex="leaf_grad" kind="wrong" fails="mixed_leaves untouched_leaves"
# Python floats and JAX arrays: NumPy arrays are overlooked
def grad_floats(fn):
    def grad(tree, *args, **kwargs):
        leaves, treedef = jax.tree.flatten(tree)

        def of_floats(floats):
            filled = [x if f is None else f for f, x in zip(floats, leaves)]
            return fn(jax.tree.unflatten(treedef, filled), *args, **kwargs)

        floats = [
            leaf if isinstance(leaf, float) or isinstance(leaf, jax.Array)
            and jnp.issubdtype(leaf.dtype, jnp.floating) else None
            for leaf in leaves
        ]
        return jax.tree.unflatten(treedef, jax.grad(of_floats)(floats))

    return grad
# %% ex="leaf_grad" kind="alternate"
def _is_float(leaf):
    if hasattr(leaf, "dtype"):
        return leaf.dtype.kind == "f" or leaf.dtype == jnp.bfloat16
    return type(leaf) is float


def grad_floats(fn):
    def grad(tree, *args, **kwargs):
        hole = lambda a: a is None
        kept = jax.tree.map(lambda x: x if _is_float(x) else None, tree)

        def part(kept):
            whole = jax.tree.map(
                lambda k, x: x if k is None else k, kept, tree, is_leaf=hole
            )
            return fn(whole, *args, **kwargs)

        return jax.grad(part)(kept)

    return grad
# %% [markdown] ex="leaf_grad" kind="why"
# `jax.grad` traces each leaf of its first argument, so it refuses what can't be
# traced. `allow_int=True` lets integers in and gives them gradients of an empty dtype;
# strings it refuses as before. Turning numbers into float arrays makes tracers of
# sizes and indices, and `range` fails. Leaves that are not differentiated can stay in
# the closure, where they keep their Python values; inside a jitted function that is
# fine, since the closure lives and ends within the trace.
