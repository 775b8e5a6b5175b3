# %% [markdown]
# # Write for one, run for many
#
# Eight exercises on `jax.vmap`: which axis of which array is mapped, what the mapped
# function costs, and when it says nothing and is wrong. Many checks count how often
# your function runs, or look for a loop. They go with the chapter of the same name.
# %%
import jax
import jax.numpy as jnp
import numpy as np
from tracecheck import check, counting, expect_close, expect_constant_size
from tracecheck import expect_keys_used_once, expect_traces
from tracecheck import iter_eqns, jaxpr_of
# %% [markdown] ex="rows_roll" level="warm-up" minutes=6
# ## Roll each row by its own shift
#
# `torch.roll` takes Python integers, so one call moves all rows alike. Write
# `shift_rows(x, shifts)`, in which row `i` moves to the right by `shifts[i]` places.
# What leaves the row on one side enters on the other. A shift may be negative, or
# larger than the row.
#
# It has to run under `jax.jit`, where the shifts are traced. All rows move at once: no
# loop over them, in Python or in the program.
# %% ex="rows_roll" kind="solution"
def shift_rows(x, shifts):
    """Roll each row by its own shift; f32[n, m], i32[n] -> f32[n, m]."""
    ### BEGIN SOLUTION
    return jax.vmap(jnp.roll)(x, shifts)
    ### END SOLUTION
# %% [markdown] ex="rows_roll" kind="hint"
# Which function of `jnp` does this for one row and one shift?
# %% [markdown] ex="rows_roll" kind="hint"
# `jnp.roll` accepts a traced shift. Both arguments bring one entry for each row, on
# axis 0, which is what `jax.vmap` maps unless you say otherwise.
# %% ex="rows_roll" kind="check"
with check("rows_rolled", points=1,
           section="Your function never sees the batch"):
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    shifts = np.array([1, 0, -2])
    want = np.stack([np.roll(row, by) for row, by in zip(x, shifts)])
    expect_close(jax.jit(shift_rows)(jnp.array(x), jnp.array(shifts)), want)
# %% ex="rows_roll" kind="check"
with check("rows_without_loop", points=1,
           section="vmap rewrites operations, it does not loop"):
    sized = lambda n: (jnp.ones((n, 5)), jnp.arange(n))
    expect_constant_size(shift_rows, sized, (2, 4, 9))
    eqns = iter_eqns(jaxpr_of(shift_rows, *sized(4)))
    loops = {"scan", "while"} & {eqn.primitive.name for eqn in eqns}
    assert loops == set(), "no loop over the rows"
# %% ex="rows_roll" kind="hidden" apart=true
with check("rows_any_shift", points=1,
           section="Your function never sees the batch"):
    from hypothesis import given, settings
    from hypothesis import strategies as st

    compiled = jax.jit(shift_rows)
    x = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)

    @settings(max_examples=15, derandomize=True, deadline=None, database=None)
    @given(st.lists(st.integers(-20, 20), min_size=4, max_size=4))
    def rolls(shifts):
        want = np.stack([np.roll(row, by) for row, by in zip(x, shifts)])
        expect_close(compiled(jnp.array(x), jnp.array(shifts)), want)

    rolls()
    expect_close(compiled(jnp.ones((1, 3)), jnp.array([2])), np.ones((1, 3)))
# %% ex="rows_roll" kind="wrong" fails="rows_rolled rows_without_loop rows_any_shift"
# a loop over the rows, with the shift as a Python integer
def shift_rows(x, shifts):
    rows = [jnp.roll(x[i], int(shifts[i])) for i in range(len(x))]
    return jnp.stack(rows)
# %% ex="rows_roll" kind="wrong" fails="rows_without_loop"
# the loop without `int`: it traces, once for every row
def shift_rows(x, shifts):
    return jnp.stack([jnp.roll(row, by) for row, by in zip(x, shifts)])
# %% ex="rows_roll" kind="wrong" fails="rows_rolled rows_any_shift"
# only the rows are mapped, so every row moves by all shifts together
def shift_rows(x, shifts):
    return jax.vmap(lambda row: jnp.roll(row, shifts.sum()))(x)
# %% ex="rows_roll" kind="alternate"
def shift_rows(x, shifts):
    width = x.shape[1]
    source = (jnp.arange(width) - shifts[:, None]) % width
    return jnp.take_along_axis(x, source, axis=1)
# %% [markdown] ex="rows_roll" kind="why"
# For one row the task is a library call, and `vmap` maps that call over rows and
# shifts together; it turns the slices inside into one gather. A Python integer does
# not exist under jit, and a Python loop leaves a copy of its body for every row. If
# the shifts are not mapped, each row meets all of them.
# %% [markdown] ex="axes_place" level="warm-up" minutes=8
# ## Say which axis
#
# `score(params, image)` gives the class scores of one image: `params["w"]` is
# f32[d, c], `params["b"]` is f32[c], `image` is f32[d]. You have several models, which
# share one bias, and a stack of images with the examples on the *last* axis.
#
# Write `for_all(score)`. It returns a function of `params` and `images` that gives the
# scores of every image from every model, the images first. `score` may be any function
# with this signature. It is called once, with one model and one image.
# %% ex="axes_place" kind="solution"
def for_all(score):
    """Return fn(params, images), mapped over models and images.

    Args of fn:
        params: {"w": f32[m, d, c], "b": f32[c]}
        images: f32[d, n]

    Returns of fn:
        f32[n, m, c]
    """
    ### BEGIN SOLUTION
    over_models = jax.vmap(score, in_axes=({"w": 0, "b": None}, None))
    return jax.vmap(over_models, in_axes=(None, 1))
    ### END SOLUTION
# %% [markdown] ex="axes_place" kind="hint"
# Two mapped axes need two `vmap`s. Write down for each of them which leaf is mapped
# over which axis, and which is not mapped at all.
# %% [markdown] ex="axes_place" kind="hint"
# The outer `vmap` puts its axis in front. An entry of `in_axes` can be a dictionary
# with the structure of the argument; the entries of all arguments stand in a tuple.
# %% ex="axes_place" kind="check"
with check("axes_scores", points=1,
           section="in_axes names the mapped axis of every array"):
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(2, 4, 3)), rng.normal(size=3)
    images = rng.normal(size=(4, 5))
    params = {"w": jnp.array(w, "float32"), "b": jnp.array(b, "float32")}
    score = lambda params, image: image @ params["w"] + params["b"]
    got = for_all(score)(params, jnp.array(images, "float32"))
    want = np.einsum("dn,mdc->nmc", images, w) + b
    expect_close(got, want.astype(np.float32), atol=1e-5)
# %% ex="axes_place" kind="check"
with check("axes_one_call", points=1,
           section="Your function never sees the batch"):
    seen = []

    def spy(params, image):
        seen.append((params["w"].shape, image.shape))
        return image @ params["w"] + params["b"]

    params = {"w": jnp.ones((2, 4, 3)), "b": jnp.ones(3)}
    for_all(spy)(params, jnp.ones((4, 5)))
    calls = len(seen)
    assert calls == 1, "one call of score"
    weights, image = seen[0]
    assert image == (4,), "one image, of shape (4,)"
    assert weights == (4, 3), "one model, with w of shape (4, 3)"
# %% ex="axes_place" kind="hidden"
with check("axes_equal_sizes", points=1,
           section="in_axes names the mapped axis of every array"):
    rng = np.random.default_rng(1)
    w, b, images = (np.float32(rng.normal(size=(3,) * n)) for n in (3, 1, 2))
    params = {"w": jnp.array(w), "b": jnp.array(b)}
    fn = for_all(lambda p, x: jnp.tanh(x @ p["w"] + p["b"]))
    want = np.tanh(np.einsum("dn,mdc->nmc", images, w) + b)
    expect_close(jax.jit(fn)(params, jnp.array(images)), want, atol=1e-5)
# %% ex="axes_place" kind="wrong" fails="axes_scores axes_one_call axes_equal_sizes"
# `score` is given the whole batch, and broadcasting is trusted
def for_all(score):
    return lambda params, images: score(params, images.T)
# %% ex="axes_place" kind="wrong" fails="axes_scores axes_equal_sizes"
# the models are the outer axis
def for_all(score):
    over_images = jax.vmap(score, in_axes=(None, 1))
    return jax.vmap(over_images, in_axes=({"w": 0, "b": None}, None))
# %% ex="axes_place" kind="wrong" fails="axes_scores axes_one_call axes_equal_sizes"
# the bias is mapped along with the weights
def for_all(score):
    return jax.vmap(jax.vmap(score, in_axes=(0, None)), in_axes=(None, 1))
# %% ex="axes_place" kind="wrong" fails="axes_one_call"
# a loop over images and models
def for_all(score):
    def fn(params, images):
        models = [{"w": w, "b": params["b"]} for w in params["w"]]
        return jnp.array([[score(p, x) for p in models] for x in images.T])

    return fn
# %% ex="axes_place" kind="alternate"
def for_all(score):
    over_images = jax.vmap(score, in_axes=(None, -1), out_axes=0)
    axes = ({"w": 0, "b": None}, None)
    return jax.vmap(over_images, in_axes=axes, out_axes=1)
# %% ex="axes_place" kind="alternate"
def for_all(score):
    def fn(params, images):
        one = lambda w, image: score({"w": w, "b": params["b"]}, image)
        table = jax.vmap(jax.vmap(one, (0, None)), (None, 0))
        return table(params["w"], images.T)

    return fn
# %% [markdown] ex="axes_place" kind="why"
# Each `vmap` adds one axis: the inner one maps `w` alone, the outer one axis 1 of the
# images, and the outer axis comes first in the result. With `0` for the whole
# dictionary the bias is mapped as well. That is an error only as long as its length
# differs from the number of models; the hidden check has equal sizes, where it is
# silent. A function for one image that is given many computes something, and what it
# is depends on how it was written. A loop calls it for every pair.
# %% [markdown] ex="pairs_fill" level="core" minutes=8
# ## A table of all pairs
#
# In PyTorch, a table of all pairs starts with `a[:, None]` and `b[None]`, and the
# function must have been written for that. Write `all_pairs(fn)` for a function of two
# single items. It returns `table(xs, ys)`, with the result for item `i` of `xs` and
# item `j` of `ys` at `[i, j]`.
#
# An item may be a tree: then `xs` is a tree of the same structure, with the items on
# axis 0 of every leaf. The result of `fn` may be a tree as well. `fn` runs once in
# Python, whatever the sizes.
# %% ex="pairs_fill" kind="solution"
def all_pairs(fn):
    """Return table(xs, ys): [n, ...], [m, ...] -> [n, m, ...]."""
    ### BEGIN SOLUTION
    one_to_all = jax.vmap(fn, in_axes=(None, 0))
    return jax.vmap(one_to_all, in_axes=(0, None))
    ### END SOLUTION
# %% [markdown] ex="pairs_fill" kind="hint"
# First make a function that compares one item with all of the others. Then map that
# function.
# %% [markdown] ex="pairs_fill" kind="hint"
# In each of the two `vmap`s, one of the arguments stays as it is: `None`. Which axis
# ends up in front, that of the inner or of the outer `vmap`?
# %% ex="pairs_fill" kind="check"
with check("pairs_table", points=1,
           section="Whatever works for one can be mapped"):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(n, 3)).astype(np.float32) for n in (4, 6))
    got = all_pairs(lambda x, y: jnp.abs(x - 2 * y).sum())(a, b)
    want = np.abs(a[:, None] - 2 * b[None]).sum(axis=2)
    expect_close(got, want, atol=1e-5)
# %% ex="pairs_fill" kind="check"
with check("pairs_one_run", points=1,
           section="vmap rewrites operations, it does not loop"):
    for n, m in ((3, 3), (5, 2)):
        fn = counting(lambda x, y: jnp.maximum(x, y).sum())
        all_pairs(fn)(jnp.ones((n, 4)), jnp.ones((m, 4)))
        runs = fn.count
        assert runs == 1, f"one run of fn for {n} and {m} items"
# %% ex="pairs_fill" kind="hidden"
with check("pairs_of_trees", points=1,
           section="Whatever works for one can be mapped"):
    rng = np.random.default_rng(1)
    at, ends = rng.normal(size=(2, 3, 2))
    size = rng.normal(size=3)

    def fn(box, end):
        return {"gap": box["at"] - end, "dot": box["size"] * end.sum()}

    box = {"at": jnp.array(at, "float32"), "size": jnp.array(size, "float32")}
    got = jax.jit(all_pairs(fn))(box, jnp.array(ends, "float32"))
    gap, dot = at[:, None] - ends[None], np.outer(size, ends.sum(1))
    want = {"gap": np.float32(gap), "dot": np.float32(dot)}
    expect_close(got, want, atol=1e-5)
# %% ex="pairs_fill" kind="wrong" fails="pairs_table pairs_of_trees"
# the broadcasting idiom, for a function that sums over everything
def all_pairs(fn):
    def table(xs, ys):
        rows = jax.tree.map(lambda x: x[:, None], xs)
        columns = jax.tree.map(lambda y: y[None], ys)
        return fn(rows, columns)

    return table
# %% ex="pairs_fill" kind="wrong" fails="pairs_table pairs_one_run pairs_of_trees"
# one vmap over both, as in `zip`
def all_pairs(fn):
    return jax.vmap(fn)
# %% ex="pairs_fill" kind="wrong" fails="pairs_table pairs_of_trees"
# the two axes are exchanged
def all_pairs(fn):
    return jax.vmap(jax.vmap(fn, in_axes=(0, None)), in_axes=(None, 0))
# %% ex="pairs_fill" kind="wrong" fails="pairs_one_run pairs_of_trees"
# two Python loops
def all_pairs(fn):
    return lambda xs, ys: jnp.array([[fn(x, y) for y in ys] for x in xs])
# %% ex="pairs_fill" kind="alternate"
def all_pairs(fn):
    def table(xs, ys):
        return jax.vmap(lambda x: jax.vmap(lambda y: fn(x, y))(ys))(xs)

    return table
# %% [markdown] ex="pairs_fill" kind="why"
# One `vmap` maps the second argument against a fixed first one; another maps the
# first, and its axis comes out in front. Broadcasting works only for a function that
# was written with it in mind: one that sums over all axes sums over the pairs too. A
# single `vmap` over both pairs the items off, `i` with `i`, and refuses unequal
# numbers. Two loops run `fn` in Python for every pair.
# %% [markdown] ex="noise_follow" level="core" minutes=10
# ## Noise that follows the example
#
# `distort(key, image)` is random and takes one image. Write
# `make_distort(distort)`, which returns `batch(key, rows, images)`. `rows[i]` is the
# index of `images[i]` in the data set. (`jax.random.fold_in`, in the
# [chapter on keys](../chapters/05_random.ipynb), mixes a number into a key.)
#
# Within one `key`, an example gets the same noise in any batch: its noise depends on
# its row, not on its place, on its neighbours or on the size of the batch. Different
# rows get different noise. Each key is used once, and `distort` runs once in Python for
# the whole batch. It must run under `jax.jit`.
# %% ex="noise_follow" kind="solution"
def make_distort(distort):
    """Return batch(key, rows, images); rows: i32[n], images: f32[n, ...]."""
    ### BEGIN SOLUTION
    def one(key, row, image):
        return distort(jax.random.fold_in(key, row), image)

    return jax.vmap(one, in_axes=(None, 0, 0))
    ### END SOLUTION
# %% [markdown] ex="noise_follow" kind="hint"
# Write it for one example first: key, row and image come in. Where does the key for
# `distort` come from?
# %% [markdown] ex="noise_follow" kind="hint"
# `jax.random.fold_in(key, number)` mixes a number into a key, and the number may be
# traced. One of the three arguments is shared by the batch.
# %% ex="noise_follow" kind="check"
with check("noise_is_own", points=1,
           section="Whatever works for one can be mapped"):
    add = lambda key, image: image + jax.random.normal(key, image.shape)
    batch = jax.jit(make_distort(add))
    out = batch(jax.random.key(0), jnp.arange(6), jnp.zeros((6, 5)))
    assert out.shape == (6, 5), "one distorted image for each image"
    different = len({tuple(image) for image in np.asarray(out).tolist()})
    assert different == 6, "different noise in each of 6 images"
    again = batch(jax.random.key(1), jnp.arange(6), jnp.zeros((6, 5)))
    assert not (out == again).any(), "other noise for another key"
# %% ex="noise_follow" kind="check"
with check("noise_keeps_its_row", points=2,
           section="Whatever works for one can be mapped"):
    add = lambda key, image: image + jax.random.normal(key, image.shape)
    batch, key = jax.jit(make_distort(add)), jax.random.key(2)
    zeros = jnp.zeros((6, 5))
    whole = np.asarray(batch(key, jnp.arange(6), zeros))
    for rows in ([5, 2, 0], [3, 1, 4]):
        part = batch(key, jnp.array(rows), zeros[:3])
        expect_close(part, whole[rows], name=f"noise of rows {rows}")
# %% ex="noise_follow" kind="hidden"
with check("noise_used_once", points=1,
           section="Whatever works for one can be mapped"):
    drop = lambda key, image: image * jax.random.bernoulli(key, 0.5, (4,))
    fn = counting(drop)
    data = jax.random.key(3), jnp.array([7, 9, 400]), jnp.ones((3, 4))
    make_distort(fn)(*data)
    runs = fn.count
    assert runs == 1, "one run of distort for the batch"
    expect_keys_used_once(make_distort(fn), *data)
# %% ex="noise_follow" kind="wrong" fails="noise_is_own"
# one key for the whole batch, as with one generator
def make_distort(distort):
    mapped = jax.vmap(distort, in_axes=(None, 0))
    return lambda key, rows, images: mapped(key, images)
# %% ex="noise_follow" kind="wrong" fails="noise_keeps_its_row"
# a key for each place in the batch
def make_distort(distort):
    def batch(key, rows, images):
        return jax.vmap(distort)(jax.random.split(key, len(images)), images)

    return batch
# %% ex="noise_follow" kind="wrong" fails="noise_is_own"
# the row is the seed, and the key of the caller is not used
def make_distort(distort):
    def one(row, image):
        return distort(jax.random.key(row), image)

    return lambda key, rows, images: jax.vmap(one)(rows, images)
# %% ex="noise_follow" kind="wrong" fails="noise_is_own noise_keeps_its_row noise_used_once"
# a loop that makes a Python integer of each row
def make_distort(distort):
    def batch(key, rows, images):
        keys = [jax.random.fold_in(key, int(row)) for row in rows]
        return jnp.stack([distort(k, image) for k, image in zip(keys, images)])

    return batch
# %% ex="noise_follow" kind="alternate"
def make_distort(distort):
    def batch(key, rows, images):
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, rows)
        return jax.vmap(distort)(keys, images)

    return batch
# %% [markdown] ex="noise_follow" kind="why"
# The key of an example is a function of the caller's key and of the row, so nothing
# else can change the noise. One key with `None` is one noise for all. `split` gives
# each *place* a key: fine for noise, but another order or batch gives an example
# another one. A row as a seed ignores the key, so every epoch repeats. In a loop,
# `int` needs the value of the row, which a trace does not have.
# %% [markdown] ex="gradients_clip" level="core" minutes=12
# ## Clip each example
#
# One strange example can spoil a step. `loss(params, x, y)` is the loss of one
# example. Write `make_clipped(loss, limit)`, which returns `fn(params, xs, ys)`. It
# takes the gradient of each example with respect to `params`. A gradient whose norm is
# above `limit` is scaled down to this norm; others stay as they are. It returns the
# mean over the examples.
#
# The norm is that of the whole gradient, of all leaves of the tree together. A gradient
# of zero stays zero. `loss` runs once in Python for the batch.
# %% ex="gradients_clip" kind="solution"
def make_clipped(loss, limit):
    """Return fn(params, xs, ys) -> the mean clipped gradient, like params."""
    ### BEGIN SOLUTION
    def clipped(params, x, y):
        grads = jax.grad(loss)(params, x, y)
        norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
        scale = jnp.where(norm > limit, limit / jnp.maximum(norm, limit), 1.0)
        return jax.tree.map(lambda g: scale * g, grads)

    def fn(params, xs, ys):
        each = jax.vmap(clipped, in_axes=(None, 0, 0))(params, xs, ys)
        return jax.tree.map(lambda g: g.mean(axis=0), each)

    return fn
    ### END SOLUTION
# %% [markdown] ex="gradients_clip" kind="hint"
# Write the clipped gradient of one example as a function. Nothing in it knows of a
# batch.
# %% [markdown] ex="gradients_clip" kind="hint"
# The squared norm is the sum of the squares of all leaves: `jax.tree.leaves`. Scale
# every leaf by the same number. Map over `x` and `y`, share `params`, average last.
# %% ex="gradients_clip" kind="check"
with check("clipped_mean", points=1,
           section="Whatever works for one can be mapped"):
    loss = lambda p, x, y: p["w"] @ x + p["b"] * y
    params = {"w": jnp.zeros(2), "b": jnp.float32(0)}
    xs = np.array([[3, 4], [0.3, 0.4], [2, 1]], np.float32)
    ys = np.array([12, 0, 2], np.float32)
    norms = np.array([13, 0.5, 3])
    scale = np.minimum(1, 2 / norms)
    want = {"w": np.float32((scale[:, None] * xs).mean(0)),
            "b": np.float32((scale * ys).mean())}
    expect_close(make_clipped(loss, 2.0)(params, xs, ys), want, atol=1e-5)
# %% ex="gradients_clip" kind="check"
with check("clipped_one_run", points=1,
           section="vmap rewrites operations, it does not loop"):
    for n in (2, 7):
        loss = counting(lambda p, x, y: (p @ x - y) ** 2)
        fn = jax.jit(make_clipped(loss, 1.0))
        fn(jnp.ones(3), jnp.ones((n, 3)), jnp.ones(n))
        runs = loss.count
        assert runs == 1, f"one run of loss for {n} examples"
# %% ex="gradients_clip" kind="hidden"
with check("clipped_edges", points=2,
           section="Whatever works for one can be mapped"):
    loss = lambda p, x, y: (jnp.tanh(p @ x) - y).sum() ** 2
    p, xs = jnp.zeros((2, 3)), np.eye(3, dtype=np.float32)[:2]
    ys = np.array([[0, 0], [0.5, 0.25]], np.float32)
    row = np.float32(-2 * 0.75 / 2)
    far = np.array([[0, row, 0], [0, row, 0]])
    got = jax.jit(make_clipped(loss, 100.0))(p, xs, ys)
    expect_close(got, far, name="mean gradient, far limit")
    got = jax.jit(make_clipped(loss, 0.1))(p, xs, ys)
    near = far * 0.05 / np.linalg.norm(far)
    expect_close(got, near, name="mean gradient, near limit")
# %% ex="gradients_clip" kind="wrong" fails="clipped_mean clipped_one_run clipped_edges"
# the mean gradient is clipped, as `clip_grad_norm_` does
def make_clipped(loss, limit):
    def fn(params, xs, ys):
        losses = lambda p: sum(loss(p, x, y) for x, y in zip(xs, ys)) / len(xs)
        grads = jax.grad(losses)(params)
        norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
        return jax.tree.map(lambda g: g * jnp.minimum(1, limit / norm), grads)

    return fn
# %% ex="gradients_clip" kind="wrong" fails="clipped_mean"
# each leaf is clipped by itself
def make_clipped(loss, limit):
    def clip(g):
        return g * limit / jnp.maximum(jnp.sqrt((g**2).sum()), limit)

    def fn(params, xs, ys):
        each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, xs, ys)
        return jax.tree.map(lambda g: jax.vmap(clip)(g).mean(axis=0), each)

    return fn
# %% ex="gradients_clip" kind="wrong" fails="clipped_edges"
# every gradient is brought to the limit, and a zero one divides by zero
def make_clipped(loss, limit):
    def clipped(params, x, y):
        grads = jax.grad(loss)(params, x, y)
        norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
        scale = jnp.where(norm < limit, norm, limit) / norm
        return jax.tree.map(lambda g: scale * g, grads)

    def fn(params, xs, ys):
        each = jax.vmap(clipped, in_axes=(None, 0, 0))(params, xs, ys)
        return jax.tree.map(lambda g: g.mean(axis=0), each)

    return fn
# %% ex="gradients_clip" kind="wrong" fails="clipped_one_run"
# a loop of single gradients, as after `backward()` with batch size 1
def make_clipped(loss, limit):
    def fn(params, xs, ys):
        total = jax.tree.map(jnp.zeros_like, params)
        for x, y in zip(xs, ys):
            grads = jax.grad(loss)(params, x, y)
            norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
            scale = limit / jnp.maximum(norm, limit)
            total = jax.tree.map(lambda t, g: t + scale * g, total, grads)
        return jax.tree.map(lambda t: t / len(xs), total)

    return fn
# %% ex="gradients_clip" kind="alternate"
def make_clipped(loss, limit):
    def fn(params, xs, ys):
        grads = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, xs, ys)
        n = len(xs)
        flat = [g.reshape(n, -1) for g in jax.tree.leaves(grads)]
        norms = jnp.linalg.norm(jnp.concatenate(flat, axis=1), axis=1)
        scale = limit / jnp.maximum(norms, limit) / n
        return jax.tree.map(lambda g: jnp.tensordot(scale, g, axes=1), grads)

    return fn
# %% [markdown] ex="gradients_clip" kind="why"
# Clipping is not linear, so it must come before the mean, and for that each example
# needs a gradient of its own: `vmap` of `grad`, with `params` shared. Clipping the mean
# lets one large gradient drown the others first. Clipping leaf by leaf changes the
# direction of the gradient. Dividing by the larger of norm and limit needs no case for
# zero; the norm alone as a divisor does. The loop is right, and traces `loss` for every
# example.
# %% [markdown] ex="axes_declare" level="core" minutes=12
# ## Declare what is shared
#
# Guessing axes by size goes wrong when a shared array has the size of the batch by
# chance. Write `map_problem(fn, shared)`, which returns a function of one argument, a
# nested dictionary. `fn` takes such a problem for one example.
#
# - `shared` is a set of top-level keys. What stands below them reaches `fn` as it is.
# - Everywhere else, an array with at least one axis is mapped over axis 0, whatever its
#   size. Strings, Python numbers and arrays without an axis reach `fn` as they are.
# - Mapped arrays of different sizes raise a `ValueError`, and so does a name in
#   `shared` that the problem does not have.
# %% ex="axes_declare" kind="solution"
def map_problem(fn, shared):
    """Return mapped(problem): fn over every array that is not declared shared.

    Args:
        fn: a function of one problem, a nested dictionary
        shared: set of top-level keys
    """
    ### BEGIN SOLUTION
    def axis_of(path, leaf):
        own = path[0].key not in shared and np.ndim(leaf) > 0
        return 0 if own else None

    def mapped(problem):
        if missing := set(shared) - set(problem):
            raise ValueError(f"no {sorted(missing)} in the problem")
        in_axes = jax.tree.map_with_path(axis_of, problem)
        return jax.vmap(fn, in_axes=(in_axes,))(problem)

    return mapped
    ### END SOLUTION
# %% [markdown] ex="axes_declare" kind="hint"
# You need a tree like the problem, with 0 or `None` in the place of each leaf. One `0`
# or `None` may also stand for a whole subtree.
# %% [markdown] ex="axes_declare" kind="hint"
# `jax.tree.map_with_path` gives the path and the leaf; `path[0].key` is the top-level
# key. `np.ndim` is 0 for strings, too. And what must stand around a dictionary in
# `in_axes`?
# %% [markdown] ex="axes_declare" kind="hint"
# `vmap` itself refuses sizes that differ. For the names, compare two sets.
# %% ex="axes_declare" kind="check"
with check("problem_mapped", points=1,
           section="Guessing axes by size works until two sizes agree"):
    def fn(p):
        y = p["data"]["x"] @ p["model"]["w"] + p["model"]["b"] + p["shift"]
        return getattr(jnp, p["config"]["squash"])(y) * p["config"]["gain"]

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    w, b = np.ones((3, 2), np.float32), np.array([1, 2], np.float32)
    problem = {"data": {"x": jnp.array(x)}, "model": {"w": w, "b": b},
               "config": {"squash": "tanh", "gain": 0.5},
               "shift": jnp.float32(1)}
    want = np.tanh(x @ w + b + 1) / 2
    expect_close(map_problem(fn, {"model"})(problem), want)
# %% ex="axes_declare" kind="check"
with check("problem_equal_sizes", points=1,
           section="Guessing axes by size works until two sizes agree"):
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    b = np.array([10, 20, 30], np.float32)
    problem = {"x": jnp.array(x), "model": {"head": {"b": jnp.array(b)}}}
    add = lambda p: p["x"] + p["model"]["head"]["b"]
    expect_close(map_problem(add, {"model"})(problem), x + b)
    got = map_problem(add, set())(problem)
    expect_close(got, x + b[:, None], name="result with nothing shared")
# %% ex="axes_declare" kind="hidden"
with check("problem_refused", points=1,
           section="Guessing axes by size works until two sizes agree"):
    total = lambda p: p["x"].sum() + p["y"].sum()
    problem = {"x": jnp.ones((3, 2)), "y": jnp.ones((4, 2))}
    for shared in (set(), {"z", "y"}):
        try:
            map_problem(total, shared)(problem)
        except ValueError:
            continue
        refused = False
        assert refused, f"a ValueError with shared={sorted(shared)}"
    want = np.full(3, 10, np.float32)
    expect_close(map_problem(total, {"y"})(problem), want)
# %% ex="axes_declare" kind="hidden"
with check("problem_one_run", points=1,
           section="Your function never sees the batch"):
    seen = []

    def fn(p):
        seen.append((p["x"].shape, p["t"].shape))
        return p["x"][0] * p["t"]

    for n in (1, 5):
        map_problem(fn, {"t"})({"x": jnp.ones((n, 2)), "t": jnp.ones(5)})
    runs = len(seen)
    assert runs == 2, "one run of fn in each of two calls"
    for x, t in seen:
        assert x == (2,), "one example, of shape (2,)"
        assert t == (5,), "what is shared, whole, of shape (5,)"
# %% ex="axes_declare" kind="wrong" fails="problem_mapped problem_equal_sizes problem_refused problem_one_run"
# the axes stand in a bare dictionary
def map_problem(fn, shared):
    def mapped(problem):
        axes = {k: None if k in shared else 0 for k in problem}
        return jax.vmap(fn, in_axes=axes)(problem)

    return mapped
# %% ex="axes_declare" kind="wrong" fails="problem_mapped problem_refused"
# one entry for each top-level key: the string and the number are mapped too
def map_problem(fn, shared):
    def mapped(problem):
        axes = {k: None if k in shared else 0 for k in problem}
        return jax.vmap(fn, in_axes=(axes,))(problem)

    return mapped
# %% ex="axes_declare" kind="wrong" fails="problem_equal_sizes problem_refused problem_one_run"
# the most common leading size is taken for the batch
def map_problem(fn, shared):
    def mapped(problem):
        leaves = [x for x in jax.tree.leaves(problem) if np.ndim(x)]
        sizes = [x.shape[0] for x in leaves]
        size = max(sizes, key=sizes.count)
        axis_of = lambda x: 0 if np.shape(x)[:1] == (size,) else None
        axes = jax.tree.map(axis_of, problem)
        return jax.vmap(fn, in_axes=(axes,))(problem)

    return mapped
# %% ex="axes_declare" kind="wrong" fails="problem_one_run"
# a loop over the examples, which builds each small problem by hand
def map_problem(fn, shared):
    def mapped(problem):
        if not set(shared) <= set(problem):
            raise ValueError("an unknown name")
        own = {k: v for k, v in problem.items() if k not in shared}
        sizes = {len(x) for x in jax.tree.leaves(own) if np.ndim(x)}
        if len(sizes) > 1:
            raise ValueError("sizes differ")
        pick = lambda i: jax.tree.map(lambda x: x[i] if np.ndim(x) else x, own)
        return jnp.stack([fn({**problem, **pick(i)}) for i in range(*sizes)])

    return mapped
# %% ex="axes_declare" kind="alternate"
def map_problem(fn, shared):
    def mapped(problem):
        if not set(shared) <= problem.keys():
            raise ValueError("an unknown name in shared")
        own = {k: v for k, v in problem.items() if k not in shared}
        axes = jax.tree.map(lambda x: 0 if np.ndim(x) else None, own)
        return jax.vmap(lambda p: fn({**problem, **p}), in_axes=(axes,))(own)

    return mapped
# %% [markdown] ex="axes_declare" kind="why"
# What is shared is a fact about the meaning of an array, so it is declared; the shape
# only decides whether there is an axis to map. A tree with 0 or `None` for each leaf
# says all of it, in a tuple, because there is one positional argument. One entry for a
# whole subtree would map a string as well. The guess by size is wrong in both ways: a
# bias as long as the batch is mapped, and an array of another size is quietly shared,
# where an error would have told you.
# %% [markdown] ex="ensemble_grow" level="core" minutes=12
# ## Train a family
#
# `init(key)` makes the parameters of one model, a tree. `update(params, x, y)` returns
# them after one step. Write `make_family(init, update, steps)`, which returns
# `train(keys, x, y)`. It trains one model for each key, all on the same data, for
# `steps` steps, and returns one tree with the models on axis 0 of every leaf.
#
# `train` is compiled as a whole, and called again with the same shapes it does not
# trace again. How often `init` and `update` run in Python does not depend on the number
# of keys.
# %% ex="ensemble_grow" kind="solution"
def make_family(init, update, steps):
    """Return train(keys, x, y) -> trained parameters, models on axis 0."""
    ### BEGIN SOLUTION
    def train_one(key, x, y):
        params = init(key)
        for _ in range(steps):
            params = update(params, x, y)
        return params

    return jax.jit(jax.vmap(train_one, in_axes=(0, None, None)))
    ### END SOLUTION
# %% [markdown] ex="ensemble_grow" kind="hint"
# Write the training of one model from one key. A plain Python loop over the steps will
# do.
# %% [markdown] ex="ensemble_grow" kind="hint"
# Each model has its key, and all share the data. Around that goes the compilation:
# once, in `make_family`, not in `train`.
# %% ex="ensemble_grow" kind="check"
with check("family_trained", points=1,
           section="Whatever works for one can be mapped"):
    init = lambda key: {"w": jax.random.normal(key, (3,)), "n": jnp.float32(0)}
    def update(params, x, y):
        w = params["w"] - 0.5 * (params["w"] - x) * y
        return {"w": w, "n": params["n"] + 1}

    keys = jax.random.split(jax.random.key(0), 4)
    x = np.array([1, 2, 3], np.float32)
    w = np.stack([jax.random.normal(k, (3,)) for k in keys])
    for _ in range(3):
        w = w - 0.5 * (w - x) * 0.25
    got = make_family(init, update, 3)(keys, x, jnp.float32(0.25))
    expect_close(got, {"w": w, "n": np.full(4, 3, np.float32)}, atol=1e-5)
# %% ex="ensemble_grow" kind="check"
with check("family_one_program", points=1,
           section="vmap rewrites operations, it does not loop"):
    init = lambda key: jax.random.normal(key, (3,))
    train = make_family(init, lambda p, x, y: p * y + x, 2)
    x, y = jnp.ones(3), jnp.float32(0.5)
    calls = [(jax.random.split(jax.random.key(s), 4), x, y) for s in range(3)]
    expect_traces(train, calls, at_most=1)
# %% ex="ensemble_grow" kind="check"
with check("family_of_any_size", points=1,
           section="vmap rewrites operations, it does not loop"):
    runs = []
    for size in (2, 6):
        init = counting(lambda key: jax.random.normal(key, (3,)))
        update = counting(lambda p, x, y: p * y + x)
        keys = jax.random.split(jax.random.key(0), size)
        make_family(init, update, 2)(keys, jnp.ones(3), jnp.float32(0.5))
        runs.append((init.count, update.count))
    few, many = runs
    assert many == few, "as many runs of init and update for 6 models as for 2"
# %% ex="ensemble_grow" kind="hidden"
with check("family_shares_data", points=1,
           section="in_axes names the mapped axis of every array"):
    init = lambda key: jax.random.normal(key, (2,))
    update = lambda p, x, y: p - 0.1 * x.T @ (x @ p - y)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 2)), rng.normal(size=4)
    keys = jax.random.split(jax.random.key(5), 4)
    p = np.stack([jax.random.normal(k, (2,)) for k in keys])
    for _ in range(2):
        p = p - 0.1 * (p @ x.T - y) @ x
    got = make_family(init, update, 2)(keys, np.float32(x), np.float32(y))
    expect_close(got, np.float32(p), atol=1e-5)
# %% ex="ensemble_grow" kind="wrong" fails="family_one_program family_of_any_size"
# a list of models, trained one after another
def make_family(init, update, steps):
    def train(keys, x, y):
        models = [init(key) for key in keys]
        for _ in range(steps):
            models = [update(params, x, y) for params in models]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)

    return train
# %% ex="ensemble_grow" kind="wrong" fails="family_trained family_one_program family_of_any_size family_shares_data"
# everything is mapped, the data too
def make_family(init, update, steps):
    def train_one(key, x, y):
        params = init(key)
        for _ in range(steps):
            params = update(params, x, y)
        return params

    return jax.jit(jax.vmap(train_one))
# %% ex="ensemble_grow" kind="wrong" fails="family_one_program"
# compiled inside `train`, so in every call anew
def make_family(init, update, steps):
    def train(keys, x, y):
        def train_one(key):
            params = init(key)
            for _ in range(steps):
                params = update(params, x, y)
            return params

        return jax.jit(jax.vmap(train_one))(keys)

    return train
# %% ex="ensemble_grow" kind="wrong" fails="family_trained family_shares_data"
# all models start from one key
def make_family(init, update, steps):
    @jax.jit
    def train(keys, x, y):
        first = init(keys[0])
        params = jax.tree.map(lambda p: jnp.stack([p] * len(keys)), first)
        for _ in range(steps):
            params = jax.vmap(update, in_axes=(0, None, None))(params, x, y)
        return params

    return train
# %% ex="ensemble_grow" kind="alternate"
def make_family(init, update, steps):
    step = jax.vmap(update, in_axes=(0, None, None))

    @jax.jit
    def train(keys, x, y):
        params = jax.vmap(init)(keys)
        return jax.lax.fori_loop(0, steps, lambda i, p: step(p, x, y), params)

    return train
# %% [markdown] ex="ensemble_grow" kind="why"
# A model is a tree of arrays, so a family of models is one tree with one more axis. The
# training of one model is mapped over keys with the data shared, and compiled once,
# outside. A list of models runs everything for each of them. Mapping the data gives
# each model a slice of it: an error, unless the sizes agree by chance, and then every
# model learns from one row. A jit inside `train` belongs to a function that is new in
# each call.
# %% [markdown] ex="memory_chunk" level="stretch" minutes=10
# ## Within a memory limit
#
# `fn(query, points)` compares one query with all points and needs working memory for
# it. Mapped over all queries at once, this does not fit. Write
# `in_chunks(fn, chunk)`, which returns a compiled `run(queries, points)`, with
# `queries` f32[n, d] and the result of query `i` at index `i`. The result of `fn` may
# be a tree.
#
# - `chunk` queries are computed together, and the chunks one after another, in a loop
#   of the compiled program.
# - `n` need not be a multiple of `chunk`, and may be smaller.
# - `points` is shared, and may change from call to call without a new trace.
# %% ex="memory_chunk" kind="solution"
def in_chunks(fn, chunk):
    """Return run(queries, points): fn for each query, `chunk` at a time."""
    ### BEGIN SOLUTION
    @jax.jit
    def run(queries, points):
        one = lambda query: fn(query, points)
        return jax.lax.map(one, queries, batch_size=chunk)

    return run
    ### END SOLUTION
# %% [markdown] ex="memory_chunk" kind="hint"
# `jax.vmap` computes everything together, `jax.lax.map` one after another. An option of
# the second gives you what lies between.
# %% [markdown] ex="memory_chunk" kind="hint"
# `jax.lax.map` maps a function of one argument: close over what is shared, inside the
# compiled function, where `points` is an argument.
# %% ex="memory_chunk" kind="check"
with check("chunks_complete", points=1,
           section="When memory runs out, map in chunks"):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(6, 2)).astype(np.float32)
    fn = lambda q, p: {"far": jnp.abs(p - q).max(), "sum": (p - q).sum(axis=0)}
    for n in (8, 7, 2):
        q = rng.normal(size=(n, 2)).astype(np.float32)
        gap = points[None] - q[:, None]
        want = {"far": np.abs(gap).max((1, 2)), "sum": gap.sum(1)}
        got = in_chunks(fn, 4)(jnp.array(q), jnp.array(points))
        expect_close(got, want, atol=1e-5, name=f"result for {n} queries")
# %% ex="memory_chunk" kind="check"
with check("chunks_fit", points=2,
           section="When memory runs out, map in chunks"):
    fn = lambda q, points: jnp.sort(jnp.abs(points - q).sum(axis=1))[:3]
    queries, points = jnp.ones((512, 4)), jnp.ones((1000, 4))
    compiled = jax.jit(in_chunks(fn, 16)).lower(queries, points).compile()
    used = compiled.memory_analysis().temp_size_in_bytes / (16 * 1000 * 4)
    chunks = round(used)   # in units of the distances of one chunk
    assert chunks < 8, "working memory for a few chunks of 16, not for all 32"
# %% ex="memory_chunk" kind="hidden"
with check("chunks_together", points=1,
           section="When memory runs out, map in chunks"):
    queries, points = jnp.ones((40, 4)), jnp.ones((10, 4))
    fn = counting(lambda q, points: jnp.sin(points - q).sum())
    run = in_chunks(fn, 8)
    eqns = list(iter_eqns(jaxpr_of(run, queries, points)))
    names = [eqn.primitive.name for eqn in eqns]
    assert "scan" in names or "while" in names, "a loop in the program"
    sines = [e.outvars[0].aval.size for e in eqns if e.primitive.name == "sin"]
    together = max(sines) // 40
    assert together == 8, "8 queries computed together"
    bodies = fn.count
    assert bodies <= 2, "fn traced for a chunk, not for every query"
# %% ex="memory_chunk" kind="hidden"
with check("chunks_new_points", points=1,
           section="When memory runs out, map in chunks"):
    run = in_chunks(lambda q, points: (points @ q).max(), 4)
    q = jnp.eye(6)[:, :3]
    calls = [(q, jnp.full((5, 3), value)) for value in (1.0, 2.0, 3.0)]
    expect_traces(run, calls, at_most=1)
    for args in calls:
        want = np.array([1, 1, 1, 0, 0, 0], np.float32) * float(args[1][0, 0])
        expect_close(run(*args), want)
# %% ex="memory_chunk" kind="wrong" fails="chunks_fit chunks_together"
# everything at once
def in_chunks(fn, chunk):
    return jax.jit(jax.vmap(fn, in_axes=(0, None)))
# %% ex="memory_chunk" kind="wrong" fails="chunks_together"
# one query after another: the loop is there, the chunk is not
def in_chunks(fn, chunk):
    return jax.jit(
        lambda queries, points: jax.lax.map(lambda q: fn(q, points), queries)
    )
# %% ex="memory_chunk" kind="wrong" fails="chunks_complete chunks_new_points"
# a reshape into whole chunks; the rest does not fit
def in_chunks(fn, chunk):
    mapped = jax.vmap(fn, in_axes=(0, None))

    @jax.jit
    def run(queries, points):
        groups = queries.reshape(-1, chunk, queries.shape[1])
        out = jax.lax.map(lambda group: mapped(group, points), groups)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), out)

    return run
# %% ex="memory_chunk" kind="wrong" fails="chunks_fit chunks_together chunks_new_points"
# a Python loop over slices, as over a DataLoader
def in_chunks(fn, chunk):
    mapped = jax.jit(jax.vmap(fn, in_axes=(0, None)))

    def run(queries, points):
        starts = range(0, len(queries), chunk)
        parts = [mapped(queries[i : i + chunk], points) for i in starts]
        return jax.tree.map(lambda *a: jnp.concatenate(a), *parts)

    return run
# %% ex="memory_chunk" kind="alternate"
def in_chunks(fn, chunk):
    mapped = jax.vmap(fn, in_axes=(0, None))

    @jax.jit
    def run(queries, points):
        n = len(queries)
        padded = jnp.pad(queries, ((0, -n % chunk), (0, 0)))
        groups = padded.reshape(-1, chunk, queries.shape[1])
        body = lambda carry, group: (carry, mapped(group, points))
        _, out = jax.lax.scan(body, None, groups)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:n], out)

    return run
# %% [markdown] ex="memory_chunk" kind="why"
# `jax.lax.map` with `batch_size` is a loop whose body is a `vmap` over a chunk, with a
# smaller one for the rest. Memory then follows the chunk. Without `batch_size` memory
# is smallest, and each turn does little. `vmap` alone holds all intermediates at once.
# A reshape needs a multiple of the chunk, so pad, or leave it to the library. A Python
# loop over slices is chunked as well, but it is many programs, started one by one, or
# one long program if you compile around it.
