# %% [markdown]
# # From PyTorch to JAX, where words mislead
#
# Eight functions to port. Each is correct in PyTorch, and each has a literal
# translation that is wrong: `jnp` for `torch`, `axis` for `dim`. Some translations
# raise an error; most return numbers of the right shape. The set goes with the
# reference page of the same name, and nothing here needs PyTorch.
# %%
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tracecheck import check, expect_close, expect_constant_size, expect_grad
from tracecheck import expect_keys_used_once, expect_pure, expect_traces

# an accelerator may round the factors of products, and the checks would see it
jax.config.update("jax_default_matmul_precision", "highest")
# %% [markdown] ex="lanes_tile" level="warm-up" minutes=6
# ## Cut and repeat
#
# ```python
# def lanes(x, size, times):
#     parts = x.split(size, dim=1)
#     return [p.repeat(1, times) for p in parts]
# ```
#
# Write it in JAX: `x` is (n, d), and the result is a list of arrays with the same
# shapes and values as PyTorch's. `size` and `times` are static integers.
#
# As in PyTorch, `d` need not be a multiple of `size`: the last part is then narrower.
# %% ex="lanes_tile" kind="solution"
def lanes(x, size, times):
    """Columns in parts of `size`, each part `times` side by side.

    x: f32[n, d] -> list of f32[n, times * size]; the last one may be narrower
    """
    ### BEGIN SOLUTION
    cuts = np.arange(size, x.shape[1], size)
    parts = jnp.split(x, cuts, axis=1)
    return [jnp.tile(part, (1, times)) for part in parts]
    ### END SOLUTION
# %% [markdown] ex="lanes_tile" kind="hint"
# Try `jnp.split(jnp.arange(6), 2)` and `jnp.repeat(jnp.arange(3), 2)` in a cell. What
# does the number mean in each?
# %% [markdown] ex="lanes_tile" kind="hint"
# `jnp.split` takes a number of parts, or a list of the places to cut at. PyTorch's
# `repeat` is `jnp.tile`; `jnp.repeat` is PyTorch's `repeat_interleave`.
# %% ex="lanes_tile" kind="check"
with check("cut_by_size", points=1, section="Shapes"):
    x = np.arange(14, dtype=np.float32).reshape(2, 7)
    got = list(lanes(jnp.array(x[:, :6]), 3, 1))
    expect_close(got, [x[:, :3], x[:, 3:6]], name="parts")
    got = list(lanes(jnp.array(x), 3, 1))
    expect_close(got, [x[:, :3], x[:, 3:6], x[:, 6:]], name="parts")
# %% ex="lanes_tile" kind="check"
with check("whole_repeated", points=1, section="Shapes"):
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    got = list(lanes(jnp.array(x), 3, 2))
    expect_close(got, [np.hstack([x, x])], name="parts")
# %% ex="lanes_tile" kind="hidden" apart=true
with check("any_width", points=1, section="Shapes"):
    compiled = jax.jit(lanes, static_argnums=(1, 2))
    for width, size, times in ((7, 3, 2), (10, 4, 1), (2, 5, 3), (1, 1, 4)):
        x = np.float32(np.random.default_rng(width).normal(size=(3, width)))
        want = [np.hstack([x[:, i:i + size]] * times)
                for i in range(0, width, size)]
        got = list(compiled(jnp.array(x), size, times))
        expect_close(got, want, name=f"parts of {size} in {width}")
# %% ex="lanes_tile" kind="wrong" fails="cut_by_size whole_repeated any_width"
# word for word
def lanes(x, size, times):
    parts = jnp.split(x, size, axis=1)
    return [jnp.repeat(part, times, axis=1) for part in parts]
# %% ex="lanes_tile" kind="wrong" fails="whole_repeated any_width"
# the right parts, and each column beside its own copy
def lanes(x, size, times):
    parts = jnp.split(x, np.arange(size, x.shape[1], size), axis=1)
    return [jnp.repeat(part, times, axis=1) for part in parts]
# %% ex="lanes_tile" kind="wrong" fails="cut_by_size any_width"
# the number of whole parts: `split` raises when a narrower one remains
def lanes(x, size, times):
    parts = jnp.split(x, x.shape[1] // size, axis=1)
    return [jnp.tile(part, (1, times)) for part in parts]
# %% ex="lanes_tile" kind="wrong" fails="cut_by_size any_width"
# as many parts as needed, of widths that are as equal as possible
def lanes(x, size, times):
    count = -(-x.shape[1] // size)
    parts = jnp.array_split(x, count, axis=1)
    return [jnp.tile(part, (1, times)) for part in parts]
# %% ex="lanes_tile" kind="alternate"
def lanes(x, size, times):
    parts = [x[:, i:i + size] for i in range(0, x.shape[1], size)]
    return [jnp.concatenate([part] * times, axis=1) for part in parts]
# %% [markdown] ex="lanes_tile" kind="why"
# Both words exist in `jax.numpy`, with NumPy's meaning. An integer given to `split` is
# the number of parts, so the size has to become a list of places to cut at; `repeat`
# repeats each element where it stands, and PyTorch's `repeat` is NumPy's `tile`. The
# second mistake keeps the shape, so only values show it. `array_split` accepts any
# width, but 7 columns in parts of 3 become 3, 2 and 2 instead of 3, 3 and 1.
# %% [markdown] ex="defaults_match" level="warm-up" minutes=8
# ## The same layer, with other defaults
#
# ```python
# def block(x, weight, bias):
#     h = F.layer_norm(x, x.shape[-1:])
#     return F.gelu(F.linear(h, weight, bias))
# ```
#
# Write it in JAX. `x` has the features on its last axis, and any number of axes before
# it. `weight` and `bias` are PyTorch's arrays, as `state_dict()` has them: `weight` is
# (out, in).
#
# Each of the three calls hides a choice that you have to look up or know: an
# orientation, a small number, a formula.
# %% ex="defaults_match" kind="solution"
def block(x, weight, bias):
    """Normalise, multiply, GELU; f32[..., in], f32[out, in], f32[out]."""
    ### BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    h = centred / jnp.sqrt(variance + 1e-5)
    return jax.nn.gelu(h @ weight.T + bias, approximate=False)
    ### END SOLUTION
# %% [markdown] ex="defaults_match" kind="hint"
# `F.linear` computes $x W^\top + b$. For a square weight, a forgotten transpose keeps
# the shape.
# %% [markdown] ex="defaults_match" kind="hint"
# Read the signature of `jax.nn.gelu`: which of its two formulas is PyTorch's default?
# %% [markdown] ex="defaults_match" kind="hint"
# A layer normalisation divides by the root of the *biased* variance plus an epsilon.
# PyTorch's default is 1e-5, and it stands under the root. Flax's default is 1e-6.
# %% ex="defaults_match" kind="check"
with check("square_weight", points=1, section="Functions of neural networks"):
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(size=(2, 5, 4)))
    w, b = np.float32(rng.normal(size=(4, 4))), np.zeros(4, np.float32)
    h = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    z = h @ w.T
    want = np.float32(z * (1 + np.vectorize(math.erf)(z / 2**0.5)) / 2)
    expect_close(block(jnp.array(x), w, b), want, rtol=0, atol=2e-3)
# %% ex="defaults_match" kind="check"
with check("exact_gelu", points=1, section="Functions of neural networks"):
    x, w = jnp.ones((1, 3)), np.zeros((81, 3), np.float32)
    b = np.linspace(-4, 4, 81, dtype=np.float32)
    want = [[v * (1 + math.erf(v / 2**0.5)) / 2 for v in b.tolist()]]
    expect_close(block(x, w, b), np.float32(want), atol=1e-5, name="GELU")
# %% ex="defaults_match" kind="hidden" apart=true
with check("small_and_odd", points=1, section="Functions of neural networks"):
    rng = np.random.default_rng(1)
    compiled = jax.jit(block)
    for size, shape in ((2e-3, (6, 3)), (1.0, (3,)), (5e-3, (2, 1, 2, 7))):
        x = np.float32(size * rng.normal(size=shape))
        w, b = rng.normal(size=(5, shape[-1])), rng.normal(size=5)
        h = x - x.mean(-1, keepdims=True)
        z = h / np.sqrt(x.var(-1, keepdims=True) + 1e-5) @ w.T + b
        want = np.float32(z * (1 + np.vectorize(math.erf)(z / 2**0.5)) / 2)
        got = compiled(jnp.array(x), np.float32(w), np.float32(b))
        name = f"rows of size {size}"
        expect_close(got, want, rtol=1e-4, atol=2e-5, name=name)
# %% ex="defaults_match" kind="wrong" fails="square_weight exact_gelu small_and_odd"
# word for word, with what lies at hand
def block(x, weight, bias):
    h = jax.nn.standardize(x)
    return jax.nn.gelu(h @ weight + bias)
# %% ex="defaults_match" kind="wrong" fails="exact_gelu small_and_odd"
# all but GELU's formula
def block(x, weight, bias):
    h = jax.nn.standardize(x, epsilon=1e-5)
    return jax.nn.gelu(h @ weight.T + bias)
# %% ex="defaults_match" kind="wrong" fails="square_weight small_and_odd"
# PyTorch's `std` divides by n - 1, so its layer normalisation should as well
def block(x, weight, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, ddof=1, keepdims=True)
    h = centred / jnp.sqrt(variance + 1e-5)
    return jax.nn.gelu(h @ weight.T + bias, approximate=False)
# %% ex="defaults_match" kind="wrong" fails="small_and_odd"
# the right epsilon, added to the root instead of under it
def block(x, weight, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    h = centred / (x.std(axis=-1, keepdims=True) + 1e-5)
    return jax.nn.gelu(h @ weight.T + bias, approximate=False)
# %% ex="defaults_match" kind="wrong" fails="small_and_odd"
# Flax's epsilon
def block(x, weight, bias):
    h = jax.nn.standardize(x, epsilon=1e-6)
    return jax.nn.gelu(h @ weight.T + bias, approximate=False)
# %% ex="defaults_match" kind="alternate"
def block(x, weight, bias):
    h = jax.nn.standardize(x, epsilon=1e-5)
    z = jnp.einsum("...i,oi->...o", h, weight) + bias
    return z * jax.scipy.stats.norm.cdf(z)
# %% [markdown] ex="defaults_match" kind="why"
# A shape test finds none of this when `weight` is square. `jax.nn.gelu` uses the
# formula with a hyperbolic tangent unless you pass `approximate=False`; the two differ
# in the fourth digit, enough to hide below a loose tolerance. The epsilon counts where
# a row hardly varies: under the root, 1e-5 is felt by deviations near 3e-3; added to
# the root, only by far smaller ones. And PyTorch itself is of two minds: `x.std()`
# divides by n - 1, its normalising layers by n.
# %% [markdown] ex="columns_scale" level="core" minutes=15
# ## Centre on the median
#
# ```python
# def scale(x):
#     middle = x.median(dim=0, keepdim=True).values
#     spread = x.std(dim=0, keepdim=True)
#     return (x - middle) / spread.clamp(min=0.1)
# ```
#
# Write it in JAX, for `x` of shape (n, d) with n at least 2. It runs under `jax.jit`
# and `jax.vmap`.
#
# Values and gradients are PyTorch's. In particular, a column that is constant gives
# zeros, and its gradient is finite.
# %% ex="columns_scale" kind="solution"
def scale(x):
    """(x - median) / std, by column; f32[n, d] -> f32[n, d]."""
    ### BEGIN SOLUTION
    middle = jnp.sort(x, axis=0)[(x.shape[0] - 1) // 2]
    variance = jnp.maximum(x.var(axis=0, ddof=1), 0.1**2)
    return (x - middle) / jnp.sqrt(variance)
    ### END SOLUTION
# %% [markdown] ex="columns_scale" kind="hint"
# Take four rows with the values 1, 2, 3 and 10. PyTorch's median is 2, and its standard
# deviation divides by 3. What are NumPy's?
# %% [markdown] ex="columns_scale" kind="hint"
# The lower of the two middle values stands at place `(n - 1) // 2` of the sorted
# column. `ddof=1` makes the divisor n - 1.
# %% [markdown] ex="columns_scale" kind="hint"
# The slope of a root at 0 is infinite, and clamping after the root multiplies it by 0:
# `nan`. Which order of clamp and root keeps the 0 away from the root?
# %% ex="columns_scale" kind="check"
with check("lower_median", points=1, section="Reductions"):
    x = np.float32([[3, -1], [10, 5], [1, 6], [2, -2]])
    want = np.array([[0, 1], [0, 0], [0, 0], [1, 0]], bool)
    got = scale(jnp.array(x))
    expect_close(got == 0, want, name="result == 0")
    both = jax.vmap(scale)(jnp.stack([x, -x]))
    expect_close(both[0], np.asarray(got), name="scale under vmap")
# %% ex="columns_scale" kind="check"
with check("divisor", points=1, section="Reductions"):
    x = np.float32(np.random.default_rng(0).normal(size=(6, 3)))
    x[:, 2] *= 0.01
    spread = np.maximum(x.std(axis=0, ddof=1), 0.1)
    got = scale(jnp.array(x))
    expect_close(got[1:] - got[:-1], np.diff(x, axis=0) / spread,
                 rtol=1e-4, name="differences of rows")
# %% ex="columns_scale" kind="check"
with check("flat_column", points=2, section="Reductions"):
    x = jnp.array([[2.0, 1.5, 0.0], [2.0, -0.5, 3.0],
                   [2.0, 0.5, 1.0], [2.0, 4.0, 1.5]])
    w = np.float32([[1, 1, -2], [2, 0.5, 1], [-4, 1, 1], [1, 3, 0]])
    weighted = jax.jit(lambda x: (scale(x) * w).sum())
    constant = np.asarray(jax.jit(scale)(x))[:, 0]
    expect_close(constant, np.zeros(4, np.float32), name="constant column")
    slope = np.asarray(jax.grad(weighted)(x))[:, 0]
    expect_close(slope, w[:, 0] / np.float32(0.1),
                 name="gradient of the constant column")
    expect_grad(weighted, (x,))
# %% ex="columns_scale" kind="hidden" apart=true
with check("any_rows", points=1, section="Reductions"):
    rng = np.random.default_rng(1)
    compiled = jax.jit(scale)
    for n in (2, 3, 5, 8):
        x = np.float32(rng.normal(size=(n, 4)) * [1, 5, 0.5, 0.01])
        middle = np.sort(x, axis=0)[(n - 1) // 2]
        want = (x - middle) / np.maximum(x.std(axis=0, ddof=1), 0.1)
        expect_close(compiled(jnp.array(x)), want, rtol=1e-4, name=f"{n} rows")
    column = jnp.full((3, 1), 2.0)
    slopes = np.float32([[30], [-10], [-20]])
    weighted = lambda x: (jax.jit(scale)(x) * slopes / 10).sum()
    expect_grad(weighted, (column,), slopes)
# %% ex="columns_scale" kind="wrong" fails="lower_median divisor flat_column any_rows"
# word for word
def scale(x):
    middle = jnp.median(x, axis=0, keepdims=True)
    spread = jnp.std(x, axis=0, keepdims=True)
    return (x - middle) / jnp.clip(spread, min=0.1)
# %% ex="columns_scale" kind="wrong" fails="lower_median flat_column any_rows"
# the divisor is mended, the median is still the mean of two
def scale(x):
    middle = jnp.median(x, axis=0, keepdims=True)
    spread = jnp.std(x, axis=0, ddof=1, keepdims=True)
    return (x - middle) / jnp.clip(spread, min=0.1)
# %% ex="columns_scale" kind="wrong" fails="flat_column any_rows"
# all values are right, and a constant column spoils the gradient
def scale(x):
    middle = jnp.quantile(x, 0.5, axis=0, method="lower")
    spread = x.std(axis=0, ddof=1)
    return (x - middle) / jnp.maximum(spread, 0.1)
# %% ex="columns_scale" kind="wrong" fails="lower_median any_rows"
# the upper of the two
def scale(x):
    middle = jnp.sort(x, axis=0)[len(x) // 2]
    variance = jnp.maximum(x.var(axis=0, ddof=1), 0.01)
    return (x - middle) / jnp.sqrt(variance)
# %% ex="columns_scale" kind="alternate"
def scale(x):
    middle = jnp.quantile(x, 0.5, axis=0, keepdims=True, method="lower")
    n = x.shape[0]
    centred = x - x.mean(axis=0)
    variance = (centred**2).sum(axis=0) / (n - 1)
    wide = variance > 0.01
    spread = jnp.where(wide, jnp.sqrt(jnp.where(wide, variance, 1.0)), 0.1)
    return (x - middle) / spread
# %% [markdown] ex="columns_scale" kind="why"
# Two words have NumPy's meaning here: the median of an even number of values is the
# mean of the middle two, and the divisor of `std` is n. The gradient is another matter.
# In PyTorch, the backward pass of `std` returns 0 where the deviation is 0. JAX
# differentiates the root as it stands: infinite at 0, times the 0 that the clamp sends
# back, is `nan`. Clamp the variance first, and the root never meets a 0. No test of
# values would have told you.
# %% [markdown] ex="neighbours_average" level="core" minutes=10
# ## An average over neighbours
#
# ```python
# def average(x, source, target):
#     keep = source >= 0
#     s, t = source[keep], target[keep]
#     total = torch.zeros_like(x)
#     total.index_add_(0, t, x[s])
#     count = x.new_zeros(len(x))
#     count.index_add_(0, t, x.new_ones(len(t)))
#     return total / count.clamp(min=1)[:, None]
# ```
#
# Node `source[i]` sends its row of `x` to node `target[i]`, and each node averages what
# it receives. Both indices are −1 where a list of edges is padded, so that all graphs
# of one size share a program.
#
# Write it in JAX, without a loop over the edges; it runs under `jax.jit`. Padding must
# show neither in values nor in gradients, whatever stands in `x`. As in PyTorch, `nan`
# and infinity travel along real edges, and along no others.
# %% ex="neighbours_average" kind="solution"
def average(x, source, target):
    """Mean received by each node; f32[n, d], i32[e], i32[e] -> f32[n, d]."""
    ### BEGIN SOLUTION
    n = x.shape[0]
    place = jnp.where(source < 0, n, target)
    total = jnp.zeros_like(x).at[place].add(x[source], mode="drop")
    count = jnp.zeros(n, x.dtype).at[place].add(1, mode="drop")
    return total / jnp.maximum(count, 1)[:, None]
    ### END SOLUTION
# %% [markdown] ex="neighbours_average" kind="hint"
# How many edges are real is a value, so `source[keep]` has no shape under `jax.jit`.
# All edges stay. Where can the message of a padded one go?
# %% [markdown] ex="neighbours_average" kind="hint"
# Index −1 is the last row, for reading and for writing. An update at an index beyond
# the end is dropped, without an error.
# %% [markdown] ex="neighbours_average" kind="hint"
# Send padding to row `n`. Multiplying a message by 0 is not enough: 0 times `nan` is
# `nan`.
# %% ex="neighbours_average" kind="check"
with check("repeats", points=1, section="Indexing and updates"):
    x = np.float32([[1, 2], [3, 4], [5, 6]])
    source, target = jnp.array([0, 1, 2, 2]), jnp.array([1, 1, 0, 1])
    want = np.stack([x[2], x.mean(axis=0), [0, 0]])
    expect_close(average(jnp.array(x), source, target), want, name="average")
# %% ex="neighbours_average" kind="check"
with check("padding_ignored", points=1, section="Indexing and updates"):
    x = np.float32([[1, 2], [3, 4], [5, 6], [7, 9]])
    source, target = jnp.array([2, -1, 0, 3, -1]), jnp.array([3, -1, 0, 3, -1])
    want = np.stack([x[0], 0 * x[1], 0 * x[2], (x[2] + x[3]) / 2])
    expect_close(average(jnp.array(x), source, target), want, name="average")
# %% ex="neighbours_average" kind="check"
with check("graphs_share_a_trace", points=1,
           section="Control flow and transformations"):
    x = jnp.arange(6.0).reshape(3, 2)
    edges = [jnp.array(e) for e in ([0, 1, 2], [1, 0, -1], [-1, -1, -1])]
    calls = [(x, e, e[::-1] if e.min() >= 0 else e) for e in edges]
    expect_traces(jax.jit(average), calls, at_most=1)
    args_of = lambda count: (x, jnp.zeros(count, int), jnp.zeros(count, int))
    expect_constant_size(average, args_of, (3, 30))
# %% ex="neighbours_average" kind="hidden" apart=true
with check("nothing_leaks", points=2, section="Indexing and updates"):
    compiled = jax.jit(average)
    x = np.float32([[1, 2], [3, 4], [5, 6], [np.nan, np.inf]])
    source, target = jnp.array([0, 1, -1, 2, -1]), jnp.array([2, 2, -1, 0, -1])
    want = np.float32([[5, 6], [0, 0], [2, 3], [0, 0]])
    expect_close(compiled(jnp.array(x), source, target), want, name="average")
    slope = np.float32([[2, 3], [2, 3], [10, 12], [0, 0]])
    energy = lambda x: (compiled(x, source, target) ** 2).sum()
    expect_grad(energy, (jnp.array(x),), slope)
    none = jnp.full(5, -1)
    expect_close(compiled(jnp.array(x), none, none), 0 * want, name="no edges")
    source, target = jnp.array([3, 1, -1, 0, -1]), jnp.array([0, 0, -1, 1, -1])
    want = np.float32([[np.nan, np.inf], [1, 2], [0, 0], [0, 0]])
    got = compiled(jnp.array(x), source, target)
    expect_close(got, want, name="average with a real edge from row 3")
# %% ex="neighbours_average" kind="wrong" fails="graphs_share_a_trace nothing_leaks"
# the filter as it is: its shape depends on values
def average(x, source, target):
    keep = source >= 0
    s, t = source[keep], target[keep]
    total = jnp.zeros_like(x).at[t].add(x[s])
    count = jnp.zeros(len(x)).at[t].add(1)
    return total / jnp.maximum(count, 1)[:, None]
# %% ex="neighbours_average" kind="wrong" fails="padding_ignored nothing_leaks"
# no filter, since JAX drops what is out of bounds
def average(x, source, target):
    total = jnp.zeros_like(x).at[target].add(x[source], mode="drop")
    count = jnp.zeros(len(x)).at[target].add(1, mode="drop")
    return total / jnp.maximum(count, 1)[:, None]
# %% ex="neighbours_average" kind="wrong" fails="repeats padding_ignored nothing_leaks"
# `total[t] += x[s]`: of several messages to one node, the last one is kept
def average(x, source, target):
    place = jnp.where(source < 0, len(x), target)
    total, count = jnp.zeros_like(x), jnp.zeros(len(x))
    total = total.at[place].set(total[place] + x[source], mode="drop")
    count = count.at[place].add(1, mode="drop")
    return total / jnp.maximum(count, 1)[:, None]
# %% ex="neighbours_average" kind="wrong" fails="nothing_leaks"
# padding is multiplied by 0, and so is a nan
def average(x, source, target):
    keep = (source >= 0).astype(x.dtype)
    total = jnp.zeros_like(x).at[target].add(keep[:, None] * x[source])
    count = jnp.zeros(len(x), x.dtype).at[target].add(keep)
    return total / jnp.maximum(count, 1)[:, None]
# %% ex="neighbours_average" kind="wrong" fails="nothing_leaks"
# a matrix of edges: its zeros meet every row, and one nan spoils all averages
def average(x, source, target):
    n = len(x)
    edges = jax.nn.one_hot(target, n).T @ jax.nn.one_hot(source, n)
    return edges @ x / jnp.maximum(edges.sum(axis=1), 1)[:, None]
# %% ex="neighbours_average" kind="wrong" fails="nothing_leaks"
# every nan is swept up, the ones that real edges send included
def average(x, source, target):
    keep = (source >= 0).astype(x.dtype)
    rows = keep[:, None] * jnp.nan_to_num(x[source])
    total = jnp.zeros_like(x).at[target].add(rows)
    count = jnp.zeros(len(x), x.dtype).at[target].add(keep)
    return total / jnp.maximum(count, 1)[:, None]
# %% ex="neighbours_average" kind="alternate"
def average(x, source, target):
    place = jnp.where(source < 0, len(x), target)
    add = lambda rows: jax.ops.segment_sum(rows, place, num_segments=len(x))
    ones = jnp.ones((len(source), 1), x.dtype)
    return add(x[source]) / jnp.maximum(add(ones), 1)
# %% [markdown] ex="neighbours_average" kind="why"
# `index_add_` becomes `.at[...].add`, which counts repeated targets as often as they
# come; `.set` of a sum keeps one of them. The filter can't stay, since its length is a
# value. PyTorch raises on −1 and on anything too large. JAX takes −1 as the last row,
# also with `mode="drop"`, and drops what lies beyond the end, which is where padding
# belongs. Dropped messages are not read at all, so neither `nan` nor gradient gets
# through. A product with 0 lets `nan` in, and a matrix product has many of them;
# `nan_to_num` also hides what a real edge sends.
# %% [markdown] ex="pixels_ignore" level="core" minutes=12
# ## Cross-entropy for pixels
#
# ```python
# def loss(logits, target, weight):
#     return F.cross_entropy(logits, target, weight)
# ```
#
# Write it in JAX. `logits` is (b, classes, h, w) and may be large, `target` holds
# classes and is (b, h, w), `weight` has a positive weight for each class, however
# small. Two defaults of PyTorch hide in the call:
#
# - a pixel of label −100 doesn't count (`ignore_index`);
# - the result is a mean over what remains (`reduction`), and with weights it is the
#   weighted one: the sum of $w_y \cdot (-\log p_y)$, divided by the sum of the $w_y$.
#
# One difference is wanted. Where no pixel counts, PyTorch returns `nan`; yours returns
# 0, with a gradient of 0. There may be more than a hundred classes.
# %% ex="pixels_ignore" kind="solution"
def loss(logits, target, weight):
    """f32[b, classes, h, w], i32[b, h, w], f32[classes] -> f32[]."""
    ### BEGIN SOLUTION
    keep = target != -100
    label = jnp.where(keep, target, 0)
    logs = jax.nn.log_softmax(logits, axis=1)
    nll = -jnp.take_along_axis(logs, label[:, None], axis=1)[:, 0]
    share = jnp.where(keep, weight[label], 0)
    total = share.sum()
    return (share * nll).sum() / jnp.where(total > 0, total, 1)
    ### END SOLUTION
# %% [markdown] ex="pixels_ignore" kind="hint"
# Which axis do `jax.nn.log_softmax` and the losses of Optax take when you name none?
# With square images and few classes, the wrong one runs.
# %% [markdown] ex="pixels_ignore" kind="hint"
# Index −100 is out of bounds for 20 classes and class 30 of 130. Replace the label of
# an ignored pixel before you index, and its weight by 0 after it.
# %% [markdown] ex="pixels_ignore" kind="hint"
# Weights may be small, so their sum may lie below 1: `jnp.maximum(total, 1)` would
# change it. Replace the divisor only where it is 0.
# %% ex="pixels_ignore" kind="check"
with check("class_axis", points=1, section="Losses"):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, (2, 3, 3))
    for size in (1, 100):
        x = size * rng.normal(size=(2, 3, 3, 3))
        logs = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        want = np.float32(-np.take_along_axis(logs, y[:, None], 1).mean())
        got = loss(jnp.float32(x), jnp.array(y), jnp.ones(3))
        expect_close(got, want, rtol=1e-4, name=f"loss of logits near {size}")
# %% ex="pixels_ignore" kind="check"
with check("left_out", points=1, section="Losses"):
    x = np.float32(np.random.default_rng(1).normal(size=(1, 4, 2, 3)))
    y = np.array([[[0, -100, 3], [-100, 2, -100]]])
    p = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    want = -np.log([p[0, 0, 0, 0], p[0, 3, 0, 2], p[0, 2, 1, 1]]).mean()
    got = loss(jnp.array(x), jnp.array(y), jnp.ones(4))
    expect_close(got, np.float32(want), rtol=1e-4, name="loss")
# %% ex="pixels_ignore" kind="check"
with check("weighted", points=1, section="Losses"):
    x = np.log(np.float32([[0.5, 0.2], [0.5, 0.8]]).reshape(1, 2, 1, 2))
    y, weight = jnp.array([[[0, 1]]]), jnp.array([0.1, 0.3])
    want = -(0.1 * np.log(0.5) + 0.3 * np.log(0.8)) / 0.4
    expect_close(loss(jnp.array(x), y, weight), np.float32(want), name="loss")
# %% ex="pixels_ignore" kind="check"
with check("nothing_counts", points=1, section="Losses"):
    x, y = jnp.zeros((2, 4, 2, 3)), jnp.full((2, 2, 3), -100)
    energy = jax.jit(lambda x: loss(x, y, jnp.ones(4)))
    expect_close(energy(x), 0.0, name="loss of no pixel")
    slopes = np.zeros((2, 4, 2, 3), np.float32)
    expect_close(jax.grad(energy)(x), slopes, name="gradient of no pixel")
# %% ex="pixels_ignore" kind="hidden" apart=true
with check("many_classes", points=1, section="Losses"):
    rng = np.random.default_rng(2)
    x = np.float32(rng.normal(size=(2, 130, 2, 3)))
    y = rng.integers(0, 130, (2, 2, 3))
    y[rng.uniform(size=y.shape) < 0.4] = -100
    weight, keep = np.float32(rng.uniform(0.001, 0.02, 130)), y >= 0
    logs = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    share = np.where(keep, weight[y * keep], 0)
    nll = -np.take_along_axis(logs, (y * keep)[:, None], 1)[:, 0]
    compiled, x, y = jax.jit(loss), jnp.array(x), jnp.array(y)
    want = np.float32((share * nll).sum() / share.sum())
    expect_close(compiled(x, y, weight), want, rtol=1e-4, name="loss")
    expect_grad(lambda x: compiled(x, y, weight), (x,))
    tiny = compiled(x, y, np.float32(1e-9) * weight)
    expect_close(tiny, want, rtol=1e-4, name="loss with tiny weights")
# %% ex="pixels_ignore" kind="wrong" fails="class_axis left_out weighted nothing_counts many_classes"
# log-softmax and index, both on the last axis as they come, and a plain mean
def loss(logits, target, weight):
    logs = jax.nn.log_softmax(logits)
    nll = -jnp.take_along_axis(logs, target[..., None], axis=-1)[..., 0]
    return (weight[target] * nll).mean()
# %% ex="pixels_ignore" kind="wrong" fails="weighted many_classes"
# divided by the number of pixels that remain
def loss(logits, target, weight):
    keep = target != -100
    label = jnp.where(keep, target, 0)
    logs = jax.nn.log_softmax(logits, axis=1)
    nll = -jnp.take_along_axis(logs, label[:, None], axis=1)[:, 0]
    return (keep * weight[label] * nll).sum() / jnp.maximum(keep.sum(), 1)
# %% ex="pixels_ignore" kind="wrong" fails="left_out nothing_counts"
# what -100 reads is multiplied by 0: out of bounds, that is nan
def loss(logits, target, weight):
    share = weight[target] * (target != -100)
    logs = jax.nn.log_softmax(logits, axis=1)
    nll = -jnp.take_along_axis(logs, target[:, None], axis=1)[:, 0]
    total = share.sum()
    return (share * nll).sum() / jnp.where(total > 0, total, 1)
# %% ex="pixels_ignore" kind="wrong" fails="nothing_counts"
# the page's rows for `ignore_index` and `weight` in one: 0/0 without a pixel
def loss(logits, target, weight):
    keep = target != -100
    label = jnp.where(keep, target, 0)
    each = optax.losses.softmax_cross_entropy_with_integer_labels(
        jnp.moveaxis(logits, 1, -1), label)
    return jnp.average(each, weights=weight[label] * keep)
# %% ex="pixels_ignore" kind="wrong" fails="class_axis"
# the logarithm of a softmax: far from the largest logit, that of 0
def loss(logits, target, weight):
    probs = jax.nn.softmax(logits, axis=1)
    hot = jax.nn.one_hot(target, weight.size, axis=1) * weight[:, None, None]
    total = hot.sum()
    return -(hot * jnp.log(probs)).sum() / jnp.where(total > 0, total, 1)
# %% ex="pixels_ignore" kind="wrong" fails="many_classes"
# a small number against 0/0, which is not small for every weight
def loss(logits, target, weight):
    keep = target != -100
    label = jnp.where(keep, target, 0)
    each = optax.losses.softmax_cross_entropy_with_integer_labels(
        jnp.moveaxis(logits, 1, -1), label)
    share = jnp.where(keep, weight[label], 0)
    return (share * each).sum() / (share.sum() + 1e-8)
# %% ex="pixels_ignore" kind="wrong" fails="weighted many_classes"
# guarded against 0 as one guards a count
def loss(logits, target, weight):
    keep = target != -100
    label = jnp.where(keep, target, 0)
    logs = jax.nn.log_softmax(logits, axis=1)
    nll = -jnp.take_along_axis(logs, label[:, None], axis=1)[:, 0]
    share = jnp.where(keep, weight[label], 0)
    return (share * nll).sum() / jnp.maximum(share.sum(), 1)
# %% ex="pixels_ignore" kind="alternate"
def loss(logits, target, weight):
    hot = jax.nn.one_hot(target, weight.size, axis=1) * weight[:, None, None]
    logs = jax.nn.log_softmax(logits, axis=1)
    total = hot.sum()
    return -(hot * logs).sum() / jnp.where(total == 0, 1, total)
# %% ex="pixels_ignore" kind="alternate"
def loss(logits, target, weight):
    keep = target != -100
    label = jnp.where(keep, target, 0)
    each = optax.losses.softmax_cross_entropy_with_integer_labels(
        logits.transpose(0, 2, 3, 1), label)
    share = weight[label] * keep
    total = jnp.where(keep.any(), share.sum(), 1)
    return (share * each).sum() / total
# %% [markdown] ex="pixels_ignore" kind="why"
# PyTorch keeps classes on dimension 1; JAX's functions take the last axis unless told
# otherwise, and in a small square image nothing objects. An ignored label is still an
# index. For up to 99 classes `take_along_axis` reads `nan` there, which no product with
# 0 removes; for more, −100 is a real class. Hence a safe label before the index, and a
# weight of 0 after it. The divisor is the sum of the weights that count, whose scale cancels
# out, so 1e-8 in it is as arbitrary as a 1; `jnp.average` leaves 0/0 where none counts.
# Far below the largest logit a softmax is 0, so take `log_softmax`.
# %% [markdown] ex="views_separate" level="core" minutes=8
# ## Two draws an image
#
# ```python
# def augment(images):               # (b, h, w)
#     b = len(images)
#     flip = torch.rand(b) < 0.5
#     gain = torch.empty(b).uniform_(0.5, 1.5)
#     flipped = images.flip(2)
#     images = torch.where(
#         flip[:, None, None], flipped, images)
#     return images * gain[:, None, None]
# ```
#
# Write `augment(key, images)` in JAX. Every image is flipped left to right with
# probability 1/2 and multiplied by a number between 0.5 and 1.5, drawn uniformly; all
# these draws are independent of one another.
#
# PyTorch's global generator moves on with each draw. Here the key alone decides: the
# same key gives the same result, with and without `jax.jit`, another key gives another,
# and nothing outside the function is used or changed.
# %% ex="views_separate" kind="solution"
def augment(key, images):
    """Flip and scale each image by draws of its own.

    key, f32[b, h, w] -> f32[b, h, w]
    """
    ### BEGIN SOLUTION
    flip_key, gain_key = jax.random.split(key)
    each = (images.shape[0], 1, 1)
    flip = jax.random.bernoulli(flip_key, 0.5, each)
    gain = jax.random.uniform(gain_key, each, minval=0.5, maxval=1.5)
    return jnp.where(flip, images[:, :, ::-1], images) * gain
    ### END SOLUTION
# %% [markdown] ex="views_separate" kind="hint"
# A key never moves on. Whatever is drawn from the same key with the same shape comes
# from the same bits, so how many keys do two independent draws need?
# %% [markdown] ex="views_separate" kind="hint"
# `jax.random.split(key)` gives two keys, and neither of them may be used twice. The
# shape `(b, 1, 1)` draws one number an image and broadcasts.
# %% ex="views_separate" kind="check"
with check("views_of_their_own", points=1, section="Random numbers"):
    ramp = np.tile(np.float32([1, 2, 3, 4]), (500, 2, 1))
    got = np.asarray(jax.jit(augment)(jax.random.key(0), jnp.array(ramp)))
    flip, gain = got[:, :1, :1] > got[:, :1, -1:], got.max(axis=(1, 2)) / 4
    want = np.where(flip, ramp[..., ::-1], ramp) * gain[:, None, None]
    expect_close(got, want, name="views")
    share, different = float(flip.mean()), len(np.unique(gain))
    expect_close(share, 0.5, atol=0.1, name="share of flipped images")
    assert different > 490, "500 images with factors of their own"
    low, high = float(gain.min()), float(gain.max())
    assert low > 0.499, "no factor below 0.5"
    assert high < 1.501, "no factor above 1.5"
    share = float((abs(gain - 1) < 0.25).mean())
    expect_close(share, 0.5, atol=0.1, name="share of factors near 1")
# %% ex="views_separate" kind="check"
with check("draws_unrelated", points=2, section="Random numbers"):
    images = np.tile(np.float32([1, 2]), (1000, 1, 1))
    key = jax.random.key(1)
    got = np.asarray(jax.jit(augment)(key, images))[:, 0]
    flip, gain = got[:, 0] > got[:, 1], got.max(axis=1)
    covariance = abs(float(np.cov(flip, gain)[0, 1]))
    correlation = round(covariance / (0.5 * 0.577), 2)
    assert correlation < 0.15, "no relation between flip and factor"
    expect_keys_used_once(augment, key, images)
# %% ex="views_separate" kind="check"
with check("key_decides", points=1, section="Random numbers"):
    images = jnp.tile(jnp.array([1.0, 2.0]), (64, 2, 1))
    keys, compiled = jax.random.split(jax.random.key(3), 3), jax.jit(augment)
    first = np.asarray(augment(keys[0], images))
    expect_close(augment(keys[0], images), first, name="second run")
    expect_close(compiled(keys[0], images), first, name="compiled result")
    other = np.asarray(compiled(keys[1], images))
    flips = [view[:, 0, 0] > view[:, 0, 1] for view in (first, other)]
    changed = int((flips[0] != flips[1]).sum())
    assert changed > 0, "other flips for another key"
    changed = int((first.max(axis=(1, 2)) != other.max(axis=(1, 2))).sum())
    assert changed > 32, "other factors for another key"
    expect_traces(compiled, [(key, images) for key in keys], at_most=1)
    expect_pure(augment, [(keys[2], images)])
# %% ex="views_separate" kind="hidden" apart=true
with check("keys_unrelated", points=1, section="Random numbers"):
    ramp = jnp.tile(jnp.array([-1.0, 0.0, 4.0]), (1000, 1, 1))
    compiled = jax.jit(augment)
    draws = []
    for seed in (3, 4):
        view = np.asarray(compiled(jax.random.key(seed), ramp))[:, 0]
        draws += [view.max(axis=1) / 4, np.float32(view[:, 0] > 0)]
    for draw in draws:
        spread = float(np.std(draw))
        assert spread > 0.2, "a draw for each image"
        power = np.abs(np.fft.fft(draw - draw.mean())) ** 2
        shifted = np.abs(np.fft.ifft(power).real[1:]) / power.mean()
        correlation = round(float(shifted.max()), 2)
        assert correlation < 0.2, "no relation between draws of a batch"
    for pair in (draws[:2], draws[2:]):
        one, two = (np.fft.fft((d - d.mean()) / d.std()) for d in pair)
        crossed = np.abs(np.fft.ifft(one * two.conj()).real) / len(pair[0])
        correlation = round(float(crossed.max()), 2)
        assert correlation < 0.2, "no relation between flips and factors"
    table = np.abs(np.corrcoef(draws) - np.eye(4))
    correlation = round(float(table.max()), 2)
    assert correlation < 0.2, "no relation between any two draws"
    counts, sums = set(), []
    for seed in range(10, 50):
        two = np.asarray(compiled(jax.random.key(seed), ramp[:2]))
        counts.add(int((two[:, 0, 0] > 0).sum()))
        sums.append(two.max(axis=(1, 2)).sum() / 4)
    kinds, spread = len(counts), round(float(np.std(sums)), 2)
    assert kinds > 1, "a number of flips that varies with the key"
    assert spread > 0.2, "a sum of factors that varies with the key"
    same = compiled(jax.random.key(5), jnp.ones((1, 2, 2)))
    expect_close(same, np.full((1, 2, 2), same[0, 0, 0]), name="one image")
# %% ex="views_separate" kind="wrong" fails="key_decides keys_unrelated"
# the generator becomes a global key, which never moves
def augment(key, images):
    flip_key, gain_key = jax.random.split(jax.random.key(0))
    each = (images.shape[0], 1, 1)
    flip = jax.random.bernoulli(flip_key, 0.5, each)
    gain = jax.random.uniform(gain_key, each, minval=0.5, maxval=1.5)
    return jnp.where(flip, images[:, :, ::-1], images) * gain
# %% ex="views_separate" kind="wrong" fails="draws_unrelated keys_unrelated"
# the PyTorch lines with `key` as one more argument: what is flipped is dark
def augment(key, images):
    each = (len(images), 1, 1)
    flip = jax.random.uniform(key, each) < 0.5
    gain = jax.random.uniform(key, each, minval=0.5, maxval=1.5)
    return jnp.where(flip, images[:, :, ::-1], images) * gain
# %% ex="views_separate" kind="wrong" fails="views_of_their_own keys_unrelated"
# two keys and two numbers, for the whole batch
def augment(key, images):
    flip_key, gain_key = jax.random.split(key)
    flip = jax.random.bernoulli(flip_key)
    gain = jax.random.uniform(gain_key, minval=0.5, maxval=1.5)
    return jnp.where(flip, images[:, :, ::-1], images) * gain
# %% ex="views_separate" kind="wrong" fails="key_decides keys_unrelated"
# a generator that moves on, outside of the function
_generator = np.random.default_rng(0)

def augment(key, images):
    each = (len(images), 1, 1)
    flip = _generator.random(each) < 0.5
    gain = np.float32(_generator.uniform(0.5, 1.5, each))
    return jnp.where(flip, images[:, :, ::-1], images) * gain
# %% ex="views_separate" kind="wrong" fails="key_decides keys_unrelated"
# a key for the factors, and flips that stay the same for ever
def augment(key, images):
    each = (len(images), 1, 1)
    flip = jax.random.bernoulli(jax.random.key(0), 0.5, each)
    gain = jax.random.uniform(key, each, minval=0.5, maxval=1.5)
    return jnp.where(flip, images[:, :, ::-1], images) * gain
# %% ex="views_separate" kind="wrong" fails="views_of_their_own"
# the mean and the deviation of those factors, and another distribution
def augment(key, images):
    flip_key, gain_key = jax.random.split(key)
    each = (len(images), 1, 1)
    flip = jax.random.bernoulli(flip_key, 0.5, each)
    gain = 1 + 0.29 * jax.random.normal(gain_key, each)
    return jnp.where(flip, images[:, :, ::-1], images) * gain
# %% ex="views_separate" kind="wrong" fails="keys_unrelated"
# keys made by number: the factor of an image is the flip of the next one
def augment(key, images):
    def one(i, image):
        flip = jax.random.uniform(jax.random.fold_in(key, i)) < 0.5
        gain = 0.5 + jax.random.uniform(jax.random.fold_in(key, i + 1))
        return gain * jnp.where(flip, image[:, ::-1], image)

    return jax.vmap(one)(jnp.arange(len(images)), images)
# %% ex="views_separate" kind="wrong" fails="keys_unrelated"
# exactly half of the images: whoever knows the other flips knows the last one
def augment(key, images):
    flip_key, gain_key = jax.random.split(key)
    b = len(images)
    flip = jax.random.permutation(flip_key, jnp.arange(b) < b // 2)
    gain = jax.random.uniform(gain_key, (b, 1, 1), minval=0.5, maxval=1.5)
    return jnp.where(flip[:, None, None], images[:, :, ::-1], images) * gain
# %% ex="views_separate" kind="alternate"
def augment(key, images):
    def one(key, image):
        key, subkey = jax.random.split(key)
        gain = 0.5 + jax.random.uniform(key)
        flip = jax.random.uniform(subkey) < 0.5
        return gain * jax.lax.select(flip, image[:, ::-1], image)

    return jax.vmap(one)(jax.random.split(key, len(images)), images)
# %% [markdown] ex="views_separate" kind="why"
# In PyTorch two calls are two draws, because the generator remembers. In JAX a draw is
# a function of its key: the same key again gives the same bits again, and every flipped
# image would be a dark one. Each image alone looks right, and so do flips and factors
# alone; the relation between them shows, and so does `jax.debug_key_reuse`. A generator
# of NumPy is asked while tracing only, so a compiled function repeats one batch of
# draws for ever, and a fixed key does the same more openly. Flipping a random half of
# the batch ties its images together.
# %% [markdown] ex="upsample_transpose" level="stretch" minutes=15
# ## A transposed convolution
#
# ```python
# def upsample(x, weight, bias, stride, padding, output_padding):
#     return F.conv_transpose2d(
#         x, weight, bias, stride=stride, padding=padding,
#         output_padding=output_padding)
# ```
#
# Write it in JAX with PyTorch's layouts: `x` is (n, in, h, w), `weight` is (in, out,
# kh, kw). The last three arguments are static integers, the same for both axes.
#
# What it computes: every pixel of `x`, times the kernel, is added to the output at
# `stride` times its position. Then `padding` pixels are cut off on all four sides, but
# `output_padding` fewer at the bottom and on the right. Where that is fewer than none,
# rows and columns of zeros are added instead. The bias comes last, on every pixel.
#
# `padding` is less than both sizes of the kernel, `output_padding` less than `stride`.
# The program must not grow with the image.
# %% ex="upsample_transpose" kind="solution"
def upsample(x, weight, bias, stride, padding, output_padding):
    """F.conv_transpose2d; f32[n, in, h, w], f32[in, out, kh, kw], f32[out]."""
    ### BEGIN SOLUTION
    before = [k - 1 - padding for k in weight.shape[2:]]
    y = jax.lax.conv_transpose(
        x, weight, (stride, stride), [(b, b + output_padding) for b in before],
        dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True)
    return y + bias[:, None, None]
    ### END SOLUTION
# %% [markdown] ex="upsample_transpose" kind="hint"
# `jax.lax.conv_transpose` is a convolution of the image with zeros between its pixels,
# and its padding is added to *that* image. One pixel of it, one kernel: what comes out,
# and which way round?
# %% [markdown] ex="upsample_transpose" kind="hint"
# Without any cutting, each side needs k − 1 zeros, so PyTorch's `padding` leaves k − 1
# − `padding`. `output_padding` adds to the end alone.
# %% [markdown] ex="upsample_transpose" kind="hint"
# PyTorch's kernel is the one of the forward convolution, which gradients turn round.
# `transpose_kernel=True` flips it and swaps its channels, so name its axes `"OIHW"`, as
# in the forward convolution.
# %% ex="upsample_transpose" kind="check"
with check("one_pixel", points=1, section="Functions of neural networks"):
    w = np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2)
    x, bias = jnp.full((1, 1, 1, 1), 2.0), jnp.array([0.0, 1.0])
    got = upsample(x, w, bias, 2, 0, 0)
    expect_close(got, 2 * w + np.float32([0, 1])[:, None, None], name="output")
# %% ex="upsample_transpose" kind="check"
with check("pixels_placed", points=2, section="Functions of neural networks"):
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(size=(2, 3, 4, 5)))
    w = np.float32(rng.normal(size=(3, 2, 4, 5)))
    full = np.zeros((2, 2, 14, 18), np.float32)
    for i, j in np.ndindex(4, 5):
        spot = np.einsum("nc,couv->nouv", x[:, :, i, j], w)
        full[:, :, 3 * i:3 * i + 4, 3 * j:3 * j + 5] += spot
    got, want = upsample(x, w, jnp.zeros(2), 3, 1, 2), full[:, :, 1:, 1:]
    expect_close(got, want, rtol=1e-4, atol=1e-5, name="output")
    args_of = lambda n: (jnp.zeros((1, 3, n, n)), w, jnp.zeros(2), 3, 1, 2)
    expect_constant_size(upsample, args_of, (3, 9))
# %% ex="upsample_transpose" kind="hidden" apart=true
with check("any_sizes", points=2, section="Functions of neural networks"):
    rng = np.random.default_rng(1)
    cases = ((4, 4, 2, 1, 0), (3, 5, 3, 2, 2), (2, 2, 2, 0, 1),
             (3, 3, 1, 1, 0), (1, 2, 4, 0, 3))
    for kh, kw, s, p, extra in cases:
        x, w = rng.normal(size=(2, 2, 3, 4)), rng.normal(size=(2, 3, kh, kw))
        b = np.float32(rng.normal(size=3))
        high, wide = 2 * s + kh - 2 * p + extra, 3 * s + kw - 2 * p + extra
        full = np.zeros((2, 3, 2 * s + kh + extra, 3 * s + kw + extra))
        for i, j in np.ndindex(3, 4):
            spot = np.einsum("nc,couv->nouv", x[:, :, i, j], w)
            full[:, :, s * i:s * i + kh, s * j:s * j + kw] += spot
        want = full[:, :, p:p + high, p:p + wide] + b[:, None, None]
        got = upsample(jnp.float32(x), jnp.float32(w), b, s, p, extra)
        name = f"kernel {(kh, kw)}, stride {s}, padding {p} and {extra}"
        expect_close(got, np.float32(want), rtol=1e-4, atol=1e-5, name=name)
# %% ex="upsample_transpose" kind="wrong" fails="one_pixel pixels_placed any_sizes"
# word for word: PyTorch's padding, PyTorch's order of axes
def upsample(x, weight, bias, stride, padding, output_padding):
    pads = [(padding, padding + output_padding)] * 2
    y = jax.lax.conv_transpose(x, weight, (stride, stride), pads,
                               dimension_numbers=("NCHW", "IOHW", "NCHW"))
    return y + bias[:, None, None]
# %% ex="upsample_transpose" kind="wrong" fails="one_pixel pixels_placed any_sizes"
# the right pads, and a kernel that is not turned round
def upsample(x, weight, bias, stride, padding, output_padding):
    before = [k - 1 - padding for k in weight.shape[2:]]
    y = jax.lax.conv_transpose(
        x, weight, (stride, stride), [(b, b + output_padding) for b in before],
        dimension_numbers=("NCHW", "IOHW", "NCHW"))
    return y + bias[:, None, None]
# %% ex="upsample_transpose" kind="wrong" fails="one_pixel pixels_placed any_sizes"
# "SAME" doubles the image too, and shifts it by a pixel for odd kernels
def upsample(x, weight, bias, stride, padding, output_padding):
    y = jax.lax.conv_transpose(
        x, weight, (stride, stride), "SAME",
        dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True)
    return y + bias[:, None, None]
# %% ex="upsample_transpose" kind="wrong" fails="pixels_placed any_sizes"
# the output is padded with zeros, as the name suggests
def upsample(x, weight, bias, stride, padding, output_padding):
    pads = [(k - 1 - padding,) * 2 for k in weight.shape[2:]]
    y = jax.lax.conv_transpose(
        x, weight, (stride, stride), pads,
        dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True)
    ends = (0, output_padding)
    y = jnp.pad(y, ((0, 0), (0, 0), ends, ends))
    return y + bias[:, None, None]
# %% ex="upsample_transpose" kind="wrong" fails="pixels_placed any_sizes"
# what is kept in addition, at the top and on the left
def upsample(x, weight, bias, stride, padding, output_padding):
    before = [k - 1 - padding for k in weight.shape[2:]]
    y = jax.lax.conv_transpose(
        x, weight, (stride, stride), [(b + output_padding, b) for b in before],
        dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True)
    return y + bias[:, None, None]
# %% ex="upsample_transpose" kind="wrong" fails="one_pixel pixels_placed any_sizes"
# one size of the kernel for both axes
def upsample(x, weight, bias, stride, padding, output_padding):
    before = weight.shape[2] - 1 - padding
    y = jax.lax.conv_transpose(
        x, weight, (stride, stride), [(before, before + output_padding)] * 2,
        dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True)
    return y + bias[:, None, None]
# %% ex="upsample_transpose" kind="wrong" fails="pixels_placed any_sizes"
# cut out of the whole: a slice cannot grow when `output_padding` is the larger
def upsample(x, weight, bias, stride, padding, output_padding):
    pads = [(k - 1, k - 1) for k in weight.shape[2:]]
    y = jax.lax.conv_transpose(
        x, weight, (stride, stride), pads,
        dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True)
    high, wide = (n - padding + output_padding for n in y.shape[2:])
    return y[:, :, padding:high, padding:wide] + bias[:, None, None]
# %% ex="upsample_transpose" kind="alternate"
def upsample(x, weight, bias, stride, padding, output_padding):
    kh, kw = weight.shape[2:]
    before = [k - 1 - padding for k in (kh, kw)]
    y = jax.lax.conv_general_dilated(
        x, weight[:, :, ::-1, ::-1], (1, 1),
        [(b, b + output_padding) for b in before], (stride, stride),
        dimension_numbers=("NCHW", "IOHW", "NCHW"))
    return y + bias.reshape(1, -1, 1, 1)
# %% ex="upsample_transpose" kind="alternate"
# what the name says: the transpose of a convolution from `out` to `in`
def upsample(x, weight, bias, stride, padding, output_padding):
    def down(y):
        return jax.lax.conv_general_dilated(
            y, weight, (stride, stride), [(padding, padding)] * 2,
            dimension_numbers=("NCHW", "OIHW", "NCHW"))

    size = [(n - 1) * stride - 2 * padding + k + output_padding
            for n, k in zip(x.shape[2:], weight.shape[2:])]
    y = jax.ShapeDtypeStruct((len(x), weight.shape[1], *size), x.dtype)
    (y,) = jax.linear_transpose(down, y)(x)
    return y + bias[:, None, None]
# %% [markdown] ex="upsample_transpose" kind="why"
# The two libraries describe one operation from its two ends. PyTorch's numbers are
# those of the forward convolution whose gradient this is, so `padding` cuts off; JAX's
# padding is added to the image with zeros between its pixels. Kernels differ the same
# way: a gradient meets the forward kernel turned round, with its channels swapped,
# which is what `transpose_kernel=True` does. `output_padding` selects one of the sizes
# that the forward convolution maps to the same one, and its pixels are computed.
# `"SAME"` agrees for an even kernel at stride 2, which is how this mistake survives.
# %% [markdown] ex="rows_silence" level="stretch" minutes=10
# ## Attention, with rows that see nothing
#
# ```python
# def attend(q, k, v, mask):
#     return F.scaled_dot_product_attention(
#         q, k, v, attn_mask=mask)
# ```
#
# Write it in JAX, with PyTorch's layouts: `q` is (b, heads, t, d), `k` and `v` are (b,
# heads, s, d), and the result is like `q`. The mask is boolean, (b, 1, t, s); `True`
# lets a query look at a key.
#
# In a padded batch, some queries may look at no key at all. As in PyTorch, their result
# is 0, and no gradient becomes `nan`. Scores may be large, those of masked keys too. It
# runs under `jax.jit`.
#
# `jax.nn.dot_product_attention` may be of use, and expects something else.
# %% ex="rows_silence" kind="solution"
def attend(q, k, v, mask):
    """f32[b, heads, t, d], 2 x f32[b, heads, s, d], bool[b, 1, t, s]."""
    ### BEGIN SOLUTION
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    weights = jax.nn.softmax(scores, axis=-1, where=mask)
    return weights @ v
    ### END SOLUTION
# %% [markdown] ex="rows_silence" kind="hint"
# JAX's function has time before heads. When both are the same number, it takes one for
# the other without an error.
# %% [markdown] ex="rows_silence" kind="hint"
# A softmax of nothing but $-\infty$ is 0/0. A softmax of equal large negative numbers
# is the same weight for all. You want neither.
# %% [markdown] ex="rows_silence" kind="hint"
# Mask twice: the scores before the softmax, with a large but finite number, and the
# weights after it, with 0. Or read what the argument `where` of `jax.nn.softmax` does.
# %% ex="rows_silence" kind="check"
with check("layout", points=1, section="Functions of neural networks"):
    rng = np.random.default_rng(0)
    q, k, v = np.float32(rng.normal(size=(3, 2, 3, 3, 8)))
    e = np.exp(np.einsum("bhtd,bhsd->bhts", q, k) / 8**0.5)
    want = np.einsum("bhts,bhsd->bhtd", e / e.sum(-1, keepdims=True), v)
    ones = np.ones((2, 1, 3, 3), bool)
    got = jax.jit(attend)(q, k, v, ones)
    expect_close(got, want, rtol=1e-4, atol=1e-5, name="output")
# %% ex="rows_silence" kind="check"
with check("true_may_look", points=1, section="Functions of neural networks"):
    q = jnp.ones((1, 2, 3, 4)).at[:, :, 1].set(-1) * 100
    k = jnp.ones((1, 2, 5, 4)).at[:, :, 4].set(3)  # the masked key stands out
    v = np.float32(np.random.default_rng(1).normal(size=(1, 2, 5, 4)))
    mask = np.array([[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 0]], bool)
    want = [v[:, :, row].mean(axis=2) for row in mask]
    got = attend(q, k, jnp.array(v), jnp.array(mask)[None, None])
    expect_close(got, np.stack(want, axis=2), rtol=1e-4, name="output")
# %% ex="rows_silence" kind="check"
with check("empty_rows", points=2, section="Functions of neural networks"):
    mask = jnp.array([[[1, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]], bool)
    normal = np.random.default_rng(2).normal
    shapes = (2, 2, 2, 4), (2, 2, 3, 4), (2, 2, 3, 4)
    q, k, v = [jnp.float32(normal(size=shape)) for shape in shapes]
    got = np.asarray(attend(q, k, v, mask[:, None]))
    zeros = np.zeros((2, 2, 4), np.float32)
    expect_close(got[0, :, 1], zeros[0], name="row 1 of example 0")
    expect_close(got[1], zeros, name="example 1")
    energy = jax.jit(lambda *qkv: (attend(*qkv, mask[:, None]) ** 2).sum())
    grads = jax.grad(energy, (0, 1, 2))(q, k, v)
    finite = [bool(jnp.isfinite(g).all()) for g in grads]
    assert finite == [True] * 3, "finite gradients for q, k and v"
    expect_grad(energy, (q, k, v), argnums=(0, 1, 2))
# %% ex="rows_silence" kind="hidden" apart=true
with check("wide_scores", points=1, section="Functions of neural networks"):
    rng = np.random.default_rng(3)
    q, k, v = (np.float32(rng.normal(size=(2, 3, n, 6))) for n in (4, 7, 7))
    mask, q = rng.uniform(size=(2, 1, 4, 7)) < 0.4, 60 * q
    mask[0, 0, 2], mask[1, 0, 1] = False, [1, 0, 0, 0, 0, 0, 0]
    q[1, :, 1] = -1000 * k[1, :, 0]
    scores = np.einsum("bhtd,bhsd->bhts", q.astype(float), k) / 6**0.5
    scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e9))
    weights = e / np.maximum(e.sum(-1, keepdims=True), 1)
    want = np.einsum("bhts,bhsd->bhtd", weights, v)
    got = jax.jit(attend)(*map(jnp.array, (q, k, v, mask)))
    expect_close(got, np.float32(want), rtol=1e-3, atol=1e-4, name="output")
# %% ex="rows_silence" kind="wrong" fails="layout true_may_look empty_rows wide_scores"
# word for word: the function of the same name
def attend(q, k, v, mask):
    return jax.nn.dot_product_attention(q, k, v, mask=mask)
# %% ex="rows_silence" kind="wrong" fails="empty_rows wide_scores"
# the layout is mended; a row that sees nothing gets the mean of all
def attend(q, k, v, mask):
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    return jax.nn.dot_product_attention(q, k, v, mask=mask).swapaxes(1, 2)
# %% ex="rows_silence" kind="wrong" fails="empty_rows"
# a mask that is added, and the nan swept up: it is back in the gradient
def attend(q, k, v, mask):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores + jnp.where(mask, 0.0, -jnp.inf)
    return jnp.nan_to_num(jax.nn.softmax(scores)) @ v
# %% ex="rows_silence" kind="wrong" fails="layout true_may_look empty_rows wide_scores"
# `True` means 'leave out', as in `nn.MultiheadAttention`
def attend(q, k, v, mask):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, where=jnp.logical_not(mask)) @ v
# %% ex="rows_silence" kind="wrong" fails="true_may_look wide_scores"
# -100 is large until a score lies below it
def attend(q, k, v, mask):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    weights = jax.nn.softmax(jnp.where(mask, scores, -100.0))
    return (weights * mask) @ v
# %% ex="rows_silence" kind="wrong" fails="true_may_look wide_scores"
# masked after the softmax, when a masked key may have taken all the weight
def attend(q, k, v, mask):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    weights = jax.nn.softmax(scores) * mask
    return weights / (weights.sum(axis=-1, keepdims=True) + 1e-9) @ v
# %% ex="rows_silence" kind="wrong" fails="true_may_look wide_scores"
# a softmax by hand, without subtracting the maximum
def attend(q, k, v, mask):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    e = jnp.where(mask, jnp.exp(scores), 0)
    total = e.sum(axis=-1, keepdims=True)
    return e / jnp.where(total > 0, total, 1) @ v
# %% ex="rows_silence" kind="alternate"
def attend(q, k, v, mask):
    q, k, v = (jnp.moveaxis(x, 1, 2) for x in (q, k, v))
    out = jax.nn.dot_product_attention(q, k, v, mask=mask)
    sees = mask.any(axis=-1, keepdims=True)
    return jnp.where(sees, jnp.moveaxis(out, 2, 1), 0)
# %% ex="rows_silence" kind="alternate"
def attend(q, k, v, mask):
    scores = jnp.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
    scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    weights = jnp.where(mask, jax.nn.softmax(scores), 0)
    return jnp.einsum("bhts,bhsd->bhtd", weights, v)
# %% [markdown] ex="rows_silence" kind="why"
# `jax.nn.dot_product_attention` reads (batch, time, heads, size), and with as many
# heads as queries and keys it attends over heads without a word. It masks with a large
# finite number, so a row without keys becomes the mean of all values; PyTorch returns
# 0. Adding $-\infty$ makes 0/0 of such a row. `nan_to_num` repairs the value, and the
# gradient goes back through the sum to every score of the row as `nan`, from there to
# all keys. Choosing with `where` stops it, since what was not chosen gets a gradient of
# 0. −100 is not large among large scores, and masking after the softmax is too late: a
# masked key may have taken all the weight.
