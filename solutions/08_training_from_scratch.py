# %% [markdown]
# # A training step is one function
#
# Eight exercises on loops that train: what a step takes and returns, what stays on the
# device, what a batch must look like. The last one is a project: a script to mend.
# They go with the chapter of the same name.
# %%
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from tracecheck import check, expect_close, expect_constant_size
from tracecheck import expect_donated, expect_keys_used_once, expect_pure
from tracecheck import expect_same_tree, expect_traces
# %% [markdown] ex="lstsq_fit" level="warm-up" minutes=6
# ## Fit a line without a loop
#
# Write `fit_exact(x, y)`. It returns `{"W": ..., "b": ...}` such that `x @ W + b` has
# the smallest mean squared error over all rows, by `jnp.linalg.lstsq` and without
# gradient steps. It runs with and without `jax.jit`.
# %% ex="lstsq_fit" kind="solution"
def fit_exact(x, y):
    """Least squares with an offset.

    Args:
        x: f32[n, d], with n > d
        y: f32[n, k]

    Returns:
        {"W": f32[d, k], "b": f32[k]}
    """
    ### BEGIN SOLUTION
    with_ones = jnp.hstack([x, jnp.ones((len(x), 1))])
    both = jnp.linalg.lstsq(with_ones, y)[0]
    return {"W": both[:-1], "b": both[-1]}
    ### END SOLUTION
# %% [markdown] ex="lstsq_fit" kind="hint"
# `lstsq` knows products only. Which column would you add to `x`, so that one row of the
# solution is the offset?
# %% [markdown] ex="lstsq_fit" kind="hint"
# With a column of ones at the end, the last row of the solution is `b` and the rows
# before it are `W`. `lstsq` returns a tuple; the solution comes first.
# %% ex="lstsq_fit" kind="check"
with check("same_minimum", points=1,
           section="An update is a result that you keep"):
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(2, 1, (40, 3)))
    y = np.float32(x @ rng.normal(size=(3, 2)) + 7 + rng.normal(size=(40, 2)))
    want = np.linalg.lstsq(np.c_[x, np.ones(40)].astype(float), y)[0]
    want = {"W": np.float32(want[:3]), "b": np.float32(want[3])}
    expect_close(fit_exact(jnp.array(x), jnp.array(y)), want, atol=1e-4)
# %% ex="lstsq_fit" kind="check"
with check("compiles", points=1,
           section="An update is a result that you keep"):
    x = np.float32([[1], [2], [3], [6]])
    y = np.float32([[3, 0], [5, 1], [7, 2], [13, 5]])
    want = {"W": np.float32([[2, 1]]), "b": np.float32([1, -1])}
    got = jax.jit(fit_exact)(jnp.array(x), jnp.array(y))
    expect_close(got, want, atol=1e-4)
# %% ex="lstsq_fit" kind="hidden" apart=true
with check("columns_of_any_size", points=1,
           section="An update is a result that you keep"):
    rng = np.random.default_rng(1)
    x = np.float32(rng.normal(size=(30, 2)) * [0.1, 20] + [1, -30])
    y = np.float32(x @ [[1.0], [-0.5]] + 4)
    want = {"W": np.float32([[1.0], [-0.5]]), "b": np.float32([4.0])}
    expect_close(fit_exact(jnp.array(x), jnp.array(y)), want, atol=2e-2)
# %% ex="lstsq_fit" kind="wrong" fails="same_minimum compiles columns_of_any_size"
# the offset is read off afterwards, from a line through the origin
def fit_exact(x, y):
    W = jnp.linalg.lstsq(x, y)[0]
    return {"W": W, "b": (y - x @ W).mean(axis=0)}
# %% ex="lstsq_fit" kind="wrong" fails="same_minimum columns_of_any_size"
# gradient steps at a rate that suits one scale of the data
def fit_exact(x, y):
    def mse(p):
        return ((x @ p["W"] + p["b"] - y) ** 2).mean()

    def step(_, p):
        return jax.tree.map(lambda p, g: p - 0.05 * g, p, jax.grad(mse)(p))

    k = y.shape[1]
    start = {"W": jnp.zeros((x.shape[1], k)), "b": jnp.zeros(k)}
    return jax.lax.fori_loop(0, 2000, step, start)
# %% ex="lstsq_fit" kind="wrong" fails="same_minimum compiles columns_of_any_size"
# the ones stand first and are looked for at the end
def fit_exact(x, y):
    both = jnp.linalg.lstsq(jnp.hstack([jnp.ones((len(x), 1)), x]), y)[0]
    return {"W": both[:-1], "b": both[-1]}
# %% ex="lstsq_fit" kind="alternate"
def fit_exact(x, y):
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    W, *_ = jnp.linalg.lstsq(x - mean_x, y - mean_y)
    return {"W": W, "b": mean_y - mean_x @ W}
# %% [markdown] ex="lstsq_fit" kind="why"
# An offset is a weight on a column of ones, so one call solves for both. A line through
# the origin has another slope, and no offset added later repairs that. Gradient steps
# reach the same point when the rate fits the scale of the columns: columns of sizes 0.1
# and 20 need rates that differ by a factor of 40,000, and one rate is too large or too
# slow. Where the problem is linear, solve it.
# %% [markdown] ex="totals_add" level="warm-up" minutes=8
# ## Metrics that stay on the device
#
# An evaluation adds up batches of one shape; the last is padded. Write `add(totals,
# logits, y, real)`: it returns new totals, in which the rows where `real` is true are
# added. It is compiled, reads no value, and keeps dtypes.
#
# What stands in the other rows is arbitrary, `nan` and `inf` included. Labels there are
# valid. Logits of real rows may be large, and a `nan` among them has to show in `loss`.
# Dividing `loss` and `hits` by `count` is left to the end of the evaluation.
# %% ex="totals_add" kind="solution"
@jax.jit
def add(totals, logits, y, real):
    """Add the real rows of a batch.

    Args:
        totals: {"loss": f32[], "hits": i32[], "count": i32[]}; `loss` is a sum
            of negative log-likelihoods, `hits` the number of right answers
        logits: f32[n, k]; the answer is the largest
        y: i32[n], labels from 0 to k - 1
        real: bool[n]

    Returns:
        A dict like `totals`.
    """
    ### BEGIN SOLUTION
    logs = jax.nn.log_softmax(logits)
    losses = -jnp.take_along_axis(logs, y[:, None], axis=1)[:, 0]
    hits = real & (logits.argmax(axis=1) == y)
    return {"loss": totals["loss"] + jnp.where(real, losses, 0).sum(),
            "hits": totals["hits"] + hits.sum(),
            "count": totals["count"] + real.sum()}
    ### END SOLUTION
# %% [markdown] ex="totals_add" kind="hint"
# Compute loss and hit of every row, padding too. Then decide, row by row, what counts.
# %% [markdown] ex="totals_add" kind="hint"
# `jnp.where(real, losses, 0)` chooses; a product with the mask computes `nan * 0`, which
# is `nan`. For Booleans, `&` chooses.
# %% ex="totals_add" kind="check"
with check("real_rows_count", points=1,
           section="Python feeds the step, and reads as little as it can"):
    logits = np.float32([[2, 0, 1], [0, 1, 0], [3, 3.5, 0], [9, 0, 0]])
    y, real = np.int32([0, 2, 1, 0]), np.array([True, True, True, False])
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    loss = -logs[[0, 1, 2], [0, 2, 1]].sum()
    totals = {"loss": jnp.float32(1), "hits": jnp.int32(5),
              "count": jnp.int32(7)}
    got = add(totals, jnp.array(logits), jnp.array(y), jnp.array(real))
    want = {"loss": np.float32(1 + loss), "hits": np.int32(7)}
    expect_close(got, want | {"count": np.int32(10)}, name="totals")
# %% ex="totals_add" kind="check"
with check("padding_is_silent", points=1,
           section="Python feeds the step, and reads as little as it can"):
    zero = {"loss": jnp.float32(0), "hits": jnp.int32(0),
            "count": jnp.int32(0)}
    want = {"loss": np.float32(np.log(2)), "hits": np.int32(1),
            "count": np.int32(1)}
    for filler in (np.nan, np.inf, -np.inf, 1e30):
        logits = jnp.array([[filler, 0.0], [0.0, 0.0]])
        got = add(zero, logits, jnp.zeros(2, jnp.int32), jnp.arange(2) == 1)
        expect_close(got, want, name=f"{filler} as filler")
# %% ex="totals_add" kind="check"
with check("one_pure_program", points=1,
           section="What you read, you wait for"):
    zero = {"loss": jnp.float32(0), "hits": jnp.int32(0),
            "count": jnp.int32(0)}
    logits, y = jnp.eye(4), jnp.arange(4)
    calls = [(zero, logits, y, jnp.arange(4) < n) for n in (4, 1, 0)]
    calls.append((add(*calls[0]), logits, y, jnp.arange(4) < 2))
    expect_traces(add, calls, at_most=1)
    expect_pure(add, calls)
# %% ex="totals_add" kind="hidden"
with check("only_real_rows", points=1,
           section="Python feeds the step, and reads as little as it can"):
    old = {"loss": jnp.float32(3), "hits": jnp.int32(2), "count": jnp.int32(4)}
    got = add(old, jnp.full((3, 2), jnp.nan), jnp.zeros(3, jnp.int32),
              jnp.zeros(3, bool))
    want = {"loss": np.float32(3), "hits": np.int32(2), "count": np.int32(4)}
    expect_close(got, want, name="totals after a batch of padding")
    y, one = jnp.ones(1, jnp.int32), jnp.ones(1, bool)
    for logits, loss in (([[200.0, 0.0]], 203), ([[np.nan, 0.0]], np.nan)):
        got = float(add(old, jnp.array(logits), y, one)["loss"])
        expect_close(got, float(loss), name=f"loss after {logits}")
# %% ex="totals_add" kind="wrong" fails="real_rows_count only_real_rows"
# a mean of batch means, as the default of `cross_entropy` gives
@jax.jit
def add(totals, logits, y, real):
    logs = jax.nn.log_softmax(logits)
    losses = -jnp.take_along_axis(logs, y[:, None], axis=1)[:, 0]
    hits = real & (logits.argmax(axis=1) == y)
    mean = jnp.where(real, losses, 0).sum() / real.sum()
    return {"loss": totals["loss"] + mean,
            "hits": totals["hits"] + hits.sum(),
            "count": totals["count"] + real.sum()}
# %% ex="totals_add" kind="wrong" fails="real_rows_count padding_is_silent only_real_rows"
# `count += len(y)`, which counts the padding
@jax.jit
def add(totals, logits, y, real):
    logs = jax.nn.log_softmax(logits)
    losses = -jnp.take_along_axis(logs, y[:, None], axis=1)[:, 0]
    hits = real & (logits.argmax(axis=1) == y)
    return {"loss": totals["loss"] + jnp.where(real, losses, 0).sum(),
            "hits": totals["hits"] + hits.sum(),
            "count": totals["count"] + len(y)}
# %% ex="totals_add" kind="wrong" fails="one_pure_program"
# the numbers leave the device in each batch, by `.item()`
def add(totals, logits, y, real):
    logs = jax.nn.log_softmax(logits)
    losses = -jnp.take_along_axis(logs, y[:, None], axis=1)[:, 0]
    hits = real & (logits.argmax(axis=1) == y)
    loss = jnp.where(real, losses, 0).sum().item()
    return {"loss": totals["loss"] + loss,
            "hits": totals["hits"] + hits.sum().item(),
            "count": totals["count"] + real.sum().item()}
# %% ex="totals_add" kind="wrong" fails="only_real_rows"
# the logarithm of a softmax, which is 0 where one logit is much larger
@jax.jit
def add(totals, logits, y, real):
    chances = jax.nn.softmax(logits)
    losses = -jnp.log(chances[jnp.arange(len(y)), y])
    hits = real & (logits.argmax(axis=1) == y)
    return {"loss": totals["loss"] + jnp.where(real, losses, 0).sum(),
            "hits": totals["hits"] + hits.sum(),
            "count": totals["count"] + real.sum()}
# %% ex="totals_add" kind="wrong" fails="only_real_rows"
# `nan_to_num` against the `nan` of the padding hides those of real rows too
@jax.jit
def add(totals, logits, y, real):
    logs = jax.nn.log_softmax(logits)
    losses = -jnp.take_along_axis(logs, y[:, None], axis=1)[:, 0]
    hits = real & (logits.argmax(axis=1) == y)
    return {"loss": totals["loss"] + jnp.nan_to_num(losses * real).sum(),
            "hits": totals["hits"] + hits.sum(),
            "count": totals["count"] + real.sum()}
# %% ex="totals_add" kind="alternate"
def _add(totals, logits, y, real):
    chosen = jnp.where(real[:, None], logits, 0.0)
    rows = jnp.arange(len(y))
    losses = jax.nn.logsumexp(chosen, axis=1) - chosen[rows, y]
    batch = {"loss": jnp.sum(losses, where=real),
             "hits": jnp.sum(chosen.argmax(1) == y, where=real),
             "count": jnp.sum(real)}
    return jax.tree.map(lambda t, b: (t + b).astype(t.dtype), totals, batch)

add = jax.jit(_add)
# %% [markdown] ex="totals_add" kind="why"
# Sums can be added over batches of any size; means can't, and a batch of padding has
# none. Each row is computed, since the number of real rows is a value, and `jnp.where`
# decides what counts. A product with the mask is `nan` where `nan` meets 0, unless a
# compiler happens to rewrite it. `len(y)` is the shape of the batch, known while tracing,
# and counts the padding. With `.item()` the numbers are right and Python waits three
# times a batch, so nothing is loaded meanwhile.
# %% [markdown] ex="tail_pad" level="core" minutes=10
# ## No row left behind
#
# The chapter dropped the incomplete batch. Here every row counts. Write
# `padded_batches(key, n, size)`: it returns `rows` and `real`, both of shape
# `(ceil(n / size), size)`.
#
# - Where `real` is true, `rows` holds each number below `n` once, in a random order drawn
#   from `key`.
# - Only the last batch has entries that are not real, at its end. Their row numbers are
#   valid too: from 0 to `n - 1`.
# - `key` is used once. Under `jax.jit`, `n` and `size` are static.
# %% ex="tail_pad" kind="solution"
def padded_batches(key, n, size):
    """(rows, real): int32 and bool, (ceil(n / size), size)."""
    ### BEGIN SOLUTION
    count = -(-n // size)
    rows = jax.random.permutation(key, n)
    rows = jnp.pad(rows, (0, count * size - n))
    real = jnp.arange(count * size) < n
    return rows.reshape(count, size), real.reshape(count, size)
    ### END SOLUTION
# %% [markdown] ex="tail_pad" kind="hint"
# Shuffle `n` numbers first. How many are missing until the last batch is full, and what
# may stand there?
# %% [markdown] ex="tail_pad" kind="hint"
# `-(-n // size)` is the quotient, rounded up. `jnp.pad(rows, (0, k))` appends `k` zeros,
# and 0 is a valid row. Which places are real depends on their position alone.
# %% ex="tail_pad" kind="check"
with check("each_row_once", points=1,
           section="Python feeds the step, and reads as little as it can"):
    for n, size in ((12, 5), (12, 4), (3, 5)):
        pair = padded_batches(jax.random.key(1), n, size)
        rows, real = map(np.asarray, pair)
        count = -(-n // size)
        shapes = rows.shape, real.shape
        assert shapes == ((count, size),) * 2, f"{count} batches of {size}"
        found = sorted(rows[real].tolist())
        assert found == list(range(n)), f"the numbers below {n}, once each"
# %% ex="tail_pad" kind="check"
with check("padding_is_last", points=1,
           section="Python feeds the step, and reads as little as it can"):
    for n, size in ((12, 5), (12, 4), (9, 8)):
        pair = padded_batches(jax.random.key(2), n, size)
        rows, real = map(np.asarray, pair)
        at_end = (real.ravel() == (np.arange(real.size) < n)).all()
        assert bool(at_end) is True, f"{n} real entries, then padding"
        low, high = int(rows.min()), int(rows.max())
        assert low >= 0, "row numbers of at least 0"
        assert high <= n - 1, f"row numbers of at most {n - 1}"
# %% ex="tail_pad" kind="check"
with check("order_from_the_key", points=1,
           section="Python feeds the step, and reads as little as it can"):
    run = lambda key: padded_batches(key, 12, 5)
    expect_keys_used_once(run, jax.random.key(3))
    compiled = jax.jit(padded_batches, static_argnames=("n", "size"))
    one, two = (compiled(jax.random.key(seed), n=50, size=8)[0]
                for seed in (4, 5))
    expect_close(padded_batches(jax.random.key(4), 50, 8)[0], np.asarray(one))
    moved = int((np.asarray(one) != np.asarray(two)).sum())
    assert moved > 25, "another order for another key"
    ahead = int((np.diff(np.asarray(one).ravel()[:50]) == 1).sum())
    assert ahead < 10, "few rows that follow on the one before"
# %% ex="tail_pad" kind="hidden" apart=true
with check("exact_mean", points=1,
           section="Python feeds the step, and reads as little as it can"):
    values = np.float32(np.arange(23) ** 2)
    rows, real = padded_batches(jax.random.key(6), 23, 7)
    total = jnp.where(real, values[np.asarray(rows)], 0).sum()
    expect_close(total / real.sum(), values.mean(), name="mean over batches")
    rows, real = padded_batches(jax.random.key(6), 1, 3)
    expect_close(real, np.array([[True, False, False]]), name="real")
    expect_close(rows.max(), 0, name="largest row number of one")
# %% ex="tail_pad" kind="wrong" fails="each_row_once exact_mean"
# `drop_last=True`
def padded_batches(key, n, size):
    rows = jax.random.permutation(key, n)[: n // size * size]
    rows = rows.reshape(-1, size)
    return rows, jnp.ones(rows.shape, bool)
# %% ex="tail_pad" kind="wrong" fails="padding_is_last exact_mean"
# padding has the number n, which JAX reads as the last row without an error
def padded_batches(key, n, size):
    count = -(-n // size)
    rows = jax.random.permutation(key, n)
    rows = jnp.pad(rows, (0, count * size - n), constant_values=n)
    rows = rows.reshape(count, size)
    return rows, rows < n
# %% ex="tail_pad" kind="wrong" fails="padding_is_last exact_mean"
# everything is shuffled, padding as well
def padded_batches(key, n, size):
    count = -(-n // size)
    rows = jax.random.permutation(key, count * size).reshape(count, size)
    return jnp.minimum(rows, n - 1), rows < n
# %% ex="tail_pad" kind="wrong" fails="order_from_the_key"
# the order begins at a random row and is otherwise that of the data
def padded_batches(key, n, size):
    at = jnp.arange(-(-n // size) * size).reshape(-1, size)
    return (at + jax.random.randint(key, (), 0, n)) % n, at < n
# %% ex="tail_pad" kind="alternate"
def padded_batches(key, n, size):
    order = jnp.argsort(jax.random.uniform(key, (n,)))
    at = jnp.arange(-(-n // size) * size).reshape(-1, size)
    return order[jnp.minimum(at, n - 1)], at < n
# %% [markdown] ex="tail_pad" kind="why"
# One shape for all batches means one trace, and the mask says which rows to count, so no
# row is lost and none counts twice. A padding row needs a valid number: JAX clamps an
# index that is too large, so `n` reads the last row and nobody notices, until a scatter
# or NumPy meets it. Shuffling the padding spreads it over all batches; their sizes then
# vary, and a step that divides by a fixed size is wrong in each of them.
# %% [markdown] ex="decay_select" level="core" minutes=12
# ## Decay matrices, spare biases
#
# In PyTorch this takes two parameter groups. Write `make_step(loss_fn, rate, momentum,
# decay)`; it returns `step(params, velocity, x, y)`, which returns new `params`, new
# `velocity` and the loss, before the step and without decay.
#
# With gradient $g$ of a leaf $p$: $g \leftarrow g + \lambda p$ if $p$ has two or more
# axes, then $v \leftarrow \mu v + g$ and $p \leftarrow p - \eta v$. Rate $\eta$,
# momentum $\mu$ and decay $\lambda$ are fixed by `make_step`. `params` is any tree of
# float32 arrays, `velocity` a tree like it.
#
# The step is one compiled program and donates both trees.
# %% ex="decay_select" kind="solution"
def make_step(loss_fn, rate, momentum, decay):
    """Return step(params, velocity, x, y) -> (params, velocity, loss)."""
    ### BEGIN SOLUTION
    def direction(p, g, v):
        g = g + decay * p if p.ndim >= 2 else g
        return momentum * v + g

    @jax.jit(donate_argnames=("params", "velocity"))
    def step(params, velocity, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        velocity = jax.tree.map(direction, params, grads, velocity)
        params = jax.tree.map(lambda p, v: p - rate * v, params, velocity)
        return params, velocity, loss

    return step
    ### END SOLUTION
# %% [markdown] ex="decay_select" kind="hint"
# `jax.tree.map` hands your function the matching leaves of several trees. A leaf has
# `ndim`, also while tracing.
# %% [markdown] ex="decay_select" kind="hint"
# Write the new velocity of one leaf as a function of `p`, `g` and `v`, with a Python
# `if` on `p.ndim`, and map it. Then map the update, with the *new* velocity.
# %% ex="decay_select" kind="check"
with check("three_steps", points=2,
           section="One tree, and the update does not grow"):
    mse = lambda p, x, y: jnp.mean((x @ p["W"] + p["b"] - y) ** 2)
    x, y = np.float32([[1, 2], [0, 1], [-1, 1]]), np.float32([[1], [-1], [0]])
    p, v = np.ones(3), np.zeros(3)     # the two of W, then b
    tree = lambda a: {"W": jnp.float32(a[:2, None]), "b": jnp.float32(a[2:])}
    params, velocity = tree(p), tree(v)
    step = make_step(mse, 0.1, 0.5, 0.2)
    for _ in range(3):
        params, velocity, loss = step(params, velocity, x, y)
        miss = x @ p[:2] + p[2] - y[:, 0]
        v = 0.5 * v + 2 / 3 * np.c_[x, np.ones(3)].T @ miss + [0.2, 0.2, 0] * p
        p = p - 0.1 * v
        want = tree(p), tree(v), (miss**2).mean()
        expect_close((params, velocity, loss), want, atol=1e-5)
# %% ex="decay_select" kind="check"
with check("one_program_in_place", points=1,
           section="A jit around part of the step pays for the rest"):
    def loss_fn(params, x, y):
        return jnp.mean((x @ params[0] + params[1] - y) ** 2)

    step = make_step(loss_fn, 0.1, 0.9, 0.01)
    params = [jnp.ones((2, 3)), jnp.ones(3)]
    batch = jnp.ones((4, 2)), jnp.ones(3)
    expect_traces(step, [(params, params, *batch)] * 3, at_most=1)
    programs = len(jax.make_jaxpr(step)(params, params, *batch).eqns)
    assert programs == 1, "one compiled program for the whole step"
    for name in (0, 1):
        expect_donated(step, (params, params, *batch), name)
# %% ex="decay_select" kind="hidden"
with check("deep_trees", points=1,
           section="One tree, and the update does not grow"):
    def flat_loss(params, x, y):
        return 0.0 * sum(leaf.sum() for leaf in jax.tree.leaves(params)) + y

    shapes = {"a": [(2, 2), (3,)], "b": {"c": (1, 2, 3), "d": ()}}
    is_shape = lambda s: isinstance(s, tuple)
    ones = jax.tree.map(lambda s: jnp.ones(s), shapes, is_leaf=is_shape)
    zeros = jax.tree.map(lambda s: jnp.zeros(s), shapes, is_leaf=is_shape)
    value = lambda s: np.full(s, 0.5 if len(s) > 1 else 1, np.float32)
    want = jax.tree.map(value, shapes, is_leaf=is_shape)
    step = make_step(flat_loss, 1.0, 0.9, 0.5)
    params, velocity, loss = step(ones, zeros, jnp.ones(1), jnp.float32(3))
    expect_close(params, want, name="params")
    expect_close(loss, 3.0, name="loss")
# %% ex="decay_select" kind="wrong" fails="three_steps deep_trees"
# one decay for all leaves, the default of `torch.optim.SGD`
def make_step(loss_fn, rate, momentum, decay):
    @jax.jit(donate_argnames=("params", "velocity"))
    def step(params, velocity, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        velocity = jax.tree.map(lambda p, g, v: momentum * v + g + decay * p,
                                params, grads, velocity)
        params = jax.tree.map(lambda p, v: p - rate * v, params, velocity)
        return params, velocity, loss

    return step
# %% ex="decay_select" kind="wrong" fails="three_steps deep_trees"
# the decay becomes part of the loss, and of the loss that is reported
def make_step(loss_fn, rate, momentum, decay):
    def penalised(params, x, y):
        matrices = [p for p in jax.tree.leaves(params) if p.ndim >= 2]
        squares = sum((p**2).sum() for p in matrices)
        return loss_fn(params, x, y) + decay / 2 * squares

    @jax.jit(donate_argnames=("params", "velocity"))
    def step(params, velocity, x, y):
        loss, grads = jax.value_and_grad(penalised)(params, x, y)
        velocity = jax.tree.map(lambda g, v: momentum * v + g, grads, velocity)
        params = jax.tree.map(lambda p, v: p - rate * v, params, velocity)
        return params, velocity, loss

    return step
# %% ex="decay_select" kind="wrong" fails="one_program_in_place"
# only the gradient is compiled
def make_step(loss_fn, rate, momentum, decay):
    value_and_grad = jax.jit(jax.value_and_grad(loss_fn))

    def direction(p, g, v):
        return momentum * v + (g + decay * p if p.ndim >= 2 else g)

    def step(params, velocity, x, y):
        loss, grads = value_and_grad(params, x, y)
        velocity = jax.tree.map(direction, params, grads, velocity)
        params = jax.tree.map(lambda p, v: p - rate * v, params, velocity)
        return params, velocity, loss

    return step
# %% ex="decay_select" kind="wrong" fails="one_program_in_place"
# the parameters are donated, their velocity is forgotten
def make_step(loss_fn, rate, momentum, decay):
    @jax.jit(donate_argnames="params")
    def step(params, velocity, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        velocity = jax.tree.map(
            lambda p, g, v: momentum * v + g + decay * p * (p.ndim >= 2),
            params, grads, velocity)
        params = jax.tree.map(lambda p, v: p - rate * v, params, velocity)
        return params, velocity, loss

    return step
# %% ex="decay_select" kind="alternate"
def make_step(loss_fn, rate, momentum, decay):
    def step(params, velocity, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        leaves, treedef = jax.tree.flatten(params)
        new_p, new_v = [], []
        others = jax.tree.leaves(grads), jax.tree.leaves(velocity)
        for p, g, v in zip(leaves, *others):
            v = momentum * v + g + (decay if p.ndim > 1 else 0.0) * p
            new_v.append(v)
            new_p.append(p - rate * v)
        back = partial(jax.tree.unflatten, treedef)
        return back(new_p), back(new_v), loss

    return jax.jit(step, donate_argnums=(0, 1))
# %% [markdown] ex="decay_select" kind="why"
# Parameter groups exist because an optimiser object has to be told about each tensor. A
# function of a leaf asks the leaf: `p.ndim` has an answer while tracing, so the `if` costs
# nothing at run time. Decay in the loss gives the same gradient, but then the loss that
# you log is not the loss that you compare. The velocity is as large as the parameters and
# replaced in each step, so it is donated for the same reason.
# %% [markdown] ex="gradient_probe" level="core" minutes=12
# ## Do the slopes agree?
#
# `torch.autograd.gradcheck` compares gradients with finite differences. Write the cheap
# version for a whole tree: `probe(loss_fn, params, key)` draws one random direction $d$,
# a tree like `params` with normal entries, scaled so that all its entries together have
# length 1. It returns two scalars:
#
# - the slope along $d$ by `jax.grad`: the sum of all products of gradient and direction;
# - the slope by the central difference
#   $\bigl(L(p + \epsilon d) - L(p - \epsilon d)\bigr) / 2\epsilon$ with
#   $\epsilon = 0.01$.
#
# Leaves draw independently, also leaves of one shape. No key is used twice. `params` is
# any tree of float32 arrays.
# %% ex="gradient_probe" kind="solution"
def probe(loss_fn, params, key):
    """(slope by grad, slope by differences) along a random direction."""
    ### BEGIN SOLUTION
    leaves, treedef = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    d = [jax.random.normal(k, p.shape) for k, p in zip(keys, leaves)]
    length = jnp.sqrt(sum((part**2).sum() for part in d))
    d = jax.tree.unflatten(treedef, [part / length for part in d])

    def moved(step):
        move = lambda p, part: p + step * part
        return loss_fn(jax.tree.map(move, params, d))

    products = jax.tree.map(lambda g, part: (g * part).sum(),
                            jax.grad(loss_fn)(params), d)
    slope = sum(jax.tree.leaves(products))
    return slope, (moved(0.01) - moved(-0.01)) / 0.02
    ### END SOLUTION
# %% [markdown] ex="gradient_probe" kind="hint"
# Flatten the parameters, split one key for each leaf, draw, and put the tree together
# with `jax.tree.unflatten`. One length belongs to the whole tree.
# %% [markdown] ex="gradient_probe" kind="hint"
# `jax.tree.map` of two trees moves the parameters and multiplies gradient and direction.
# `sum(jax.tree.leaves(tree))` adds scalars up.
# %% ex="gradient_probe" kind="check"
with check("linear_slopes", points=1,
           section="One tree, and the update does not grow"):
    def linear(params):
        return 3 * params["a"].sum() + 5 * params["b"].sum()

    params = {"a": jnp.zeros((40, 10)), "b": jnp.zeros(100)}
    pairs = [probe(linear, params, jax.random.key(seed)) for seed in range(30)]
    by_grad, by_steps = np.array(pairs).T
    expect_close(by_grad, by_steps, atol=2e-2, name="slopes by jax.grad")
    # Slopes along random directions vary by |g| / sqrt(entries).
    spread = float(np.std(by_grad) / np.sqrt((400 * 9 + 100 * 25) / 500))
    assert 0.6 < spread < 1.5, "the spread of directions of length 1"
# %% ex="gradient_probe" kind="check"
with check("a_lost_gradient_shows", points=1,
           section="One tree, and the update does not grow"):
    def broken(params):
        w, b = params
        return (jax.lax.stop_gradient(w) ** 2).sum() + (b**2).sum()

    params = (jnp.ones((5, 5)), jnp.ones(5))
    gaps = [abs(a - b) for a, b in
            (probe(broken, params, jax.random.key(seed)) for seed in range(5))]
    largest = float(max(gaps))
    assert largest > 0.2, "a gap where a gradient was stopped"
# %% ex="gradient_probe" kind="check"
with check("leaves_draw_alone", points=1,
           section="Python feeds the step, and reads as little as it can"):
    def difference(params):
        return (params["a"] - params["b"]).sum()

    params = {"a": jnp.zeros(50), "b": jnp.zeros(50)}
    run = partial(probe, difference, params)
    expect_keys_used_once(run, jax.random.key(0))
    slopes = [run(jax.random.key(seed))[0] for seed in range(5)]
    largest = float(max(map(abs, slopes)))
    assert largest > 1e-3, "directions that differ between leaves of one shape"
# %% ex="gradient_probe" kind="hidden"
with check("curved_slopes", points=1,
           section="One tree, and the update does not grow"):
    def curved(params):
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(params)) * 50

    params = [jnp.zeros(()), {"w": jnp.zeros((3, 2))}]
    compiled = jax.jit(partial(probe, curved))
    for seed in range(4):
        got = compiled(params, jax.random.key(seed))
        zeros = np.float32(0), np.float32(0)
        expect_close(got, zeros, atol=1e-2, name="slopes")
    # A direction of one entry is 1 or -1, and (0.01 d)**3 / 0.01 is 1e-4 d.
    got = probe(lambda p: 1e4 * p**3, jnp.zeros(()), jax.random.key(4))
    size = np.abs(np.float32(got))
    expect_close(size, np.float32([0, 1]), atol=1e-2, name="size of slopes")
# %% ex="gradient_probe" kind="wrong" fails="leaves_draw_alone"
# one key for all leaves, as one generator would serve all tensors
def probe(loss_fn, params, key):
    d = jax.tree.map(lambda p: jax.random.normal(key, p.shape), params)
    length = jnp.sqrt(sum((part**2).sum() for part in jax.tree.leaves(d)))
    d = jax.tree.map(lambda part: part / length, d)
    move = lambda s: jax.tree.map(lambda p, part: p + s * part, params, d)
    slope = sum(jax.tree.leaves(jax.tree.map(
        lambda g, part: (g * part).sum(), jax.grad(loss_fn)(params), d)))
    return slope, (loss_fn(move(0.01)) - loss_fn(move(-0.01))) / 0.02
# %% ex="gradient_probe" kind="wrong" fails="curved_slopes"
# one forward difference, half the work and an error of the first order
def probe(loss_fn, params, key):
    leaves, treedef = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    d = [jax.random.normal(k, p.shape) for k, p in zip(keys, leaves)]
    length = jnp.sqrt(sum((part**2).sum() for part in d))
    d = jax.tree.unflatten(treedef, [part / length for part in d])
    ahead = jax.tree.map(lambda p, part: p + 0.01 * part, params, d)
    slope = sum(jax.tree.leaves(jax.tree.map(
        lambda g, part: (g * part).sum(), jax.grad(loss_fn)(params), d)))
    return slope, (loss_fn(ahead) - loss_fn(params)) / 0.01
# %% ex="gradient_probe" kind="wrong" fails="curved_slopes"
# the step of `gradcheck`, which is meant for float64
def probe(loss_fn, params, key):
    leaves, treedef = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    d = [jax.random.normal(k, p.shape) for k, p in zip(keys, leaves)]
    length = jnp.sqrt(sum((part**2).sum() for part in d))
    d = jax.tree.unflatten(treedef, [part / length for part in d])
    move = lambda s: jax.tree.map(lambda p, part: p + s * part, params, d)
    slope = sum(jax.tree.leaves(jax.tree.map(
        lambda g, part: (g * part).sum(), jax.grad(loss_fn)(params), d)))
    return slope, (loss_fn(move(1e-6)) - loss_fn(move(-1e-6))) / 2e-6
# %% ex="gradient_probe" kind="wrong" fails="linear_slopes"
# each leaf has length 1, not all of them together
def probe(loss_fn, params, key):
    leaves, treedef = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    d = [jax.random.normal(k, p.shape) for k, p in zip(keys, leaves)]
    d = [part / jnp.sqrt((part**2).sum()) for part in d]
    d = jax.tree.unflatten(treedef, d)
    move = lambda s: jax.tree.map(lambda p, part: p + s * part, params, d)
    slope = sum(jax.tree.leaves(jax.tree.map(
        lambda g, part: (g * part).sum(), jax.grad(loss_fn)(params), d)))
    return slope, (loss_fn(move(0.01)) - loss_fn(move(-0.01))) / 0.02
# %% ex="gradient_probe" kind="alternate"
from jax.flatten_util import ravel_pytree

def probe(loss_fn, params, key):
    flat, back = ravel_pytree(params)
    d = jax.random.normal(key, flat.shape)
    d = d / jnp.linalg.norm(d)
    along = lambda step: loss_fn(back(flat + step * d))
    return jax.grad(along)(0.0), (along(0.01) - along(-0.01)) / 0.02
# %% [markdown] ex="gradient_probe" kind="why"
# One direction tests all entries at once, for two evaluations of the loss: an error in
# any leaf shifts the slope, unless the direction happens to be orthogonal to it. With one
# key for all, leaves of one shape get one direction, and errors of opposite sign cancel.
# The central difference is exact for a parabola; a forward difference is off by half the
# curvature times epsilon. In float32 a smaller epsilon makes rounding worse, not better.
# %% [markdown] ex="best_keep" level="core" minutes=10
# ## Early stopping without looking
#
# A PyTorch loop writes `if loss < best: best, stale = loss, 0; best_state = copy(...)`,
# and reads the loss for it. Write `track(state, params, loss)` so that nothing is read:
# it returns a new state and can be a part of a compiled step.
#
# - If `loss` is lower than `state["loss"]`, the new state holds this loss, these
#   `params`, and `stale` is 0.
# - Otherwise the old loss and params stay, and `stale` grows by 1. A loss of `nan` is
#   never lower, and its params may be `nan` too.
#
# The new state has the structure, shapes and dtypes of the old. `track` runs with and
# without `jax.jit`.
# %% ex="best_keep" kind="solution"
def track(state, params, loss):
    """Keep the best parameters so far.

    Args:
        state: {"loss": f32[], "params": tree of arrays, "stale": i32[]}
        params: a tree like state["params"]
        loss: f32[]

    Returns:
        A dict like `state`.
    """
    ### BEGIN SOLUTION
    better = loss < state["loss"]
    keep = lambda new, old: jnp.where(better, new, old)
    return {"loss": keep(loss, state["loss"]),
            "params": jax.tree.map(keep, params, state["params"]),
            "stale": keep(0, state["stale"] + 1)}
    ### END SOLUTION
# %% [markdown] ex="best_keep" kind="hint"
# `loss < state["loss"]` is an array. What chooses between two arrays by a third, and how
# is it applied to all leaves of two trees?
# %% [markdown] ex="best_keep" kind="hint"
# `jnp.where(better, new, old)` for the loss and the counter, and the same inside a
# `jax.tree.map` over `params` and `state["params"]`. A comparison with `nan` is false.
# %% ex="best_keep" kind="check"
with check("best_of_six", points=1,
           section="One tree, and the update does not grow"):
    state = {"loss": jnp.float32(jnp.inf), "params": {"w": jnp.zeros(2)},
             "stale": jnp.int32(0)}
    losses = [3.0, 2.0, 2.0, np.nan, 5.0, 1.0]
    wanted = [(3, 0, 0), (2, 1, 0), (2, 1, 1), (2, 1, 2), (2, 1, 3), (1, 5, 0)]
    for n, (loss, want) in enumerate(zip(losses, wanted)):
        # Where the loss is nan, the params have mostly become nan as well.
        params = {"w": jnp.full(2, np.nan if np.isnan(loss) else n)}
        params = jax.tree.map(jnp.float32, params)
        state = track(state, params, jnp.float32(loss))
        best, step, stale = want
        want = {"loss": np.float32(best), "stale": np.int32(stale),
                "params": {"w": np.full(2, step, np.float32)}}
        expect_close(state, want, name=f"state after loss {n + 1}")
# %% ex="best_keep" kind="check"
with check("nothing_is_read", points=1,
           section="What you read, you wait for"):
    state = {"loss": jnp.float32(2), "params": [jnp.zeros(2)],
             "stale": jnp.int32(1)}
    compiled = jax.jit(track)
    calls = [(state, [jnp.ones(2)], jnp.float32(loss)) for loss in (1, 3)]
    calls.append((compiled(*calls[0]), [jnp.ones(2)], jnp.float32(0)))
    expect_traces(compiled, calls, at_most=1)
    expect_same_tree(compiled(*calls[1]), state)
    expect_pure(track, calls)
# %% ex="best_keep" kind="hidden"
with check("many_runs_at_once", points=1,
           section="What you read, you wait for"):
    states = {"loss": jnp.array([1.0, 5.0]), "params": (jnp.zeros((2, 3)),),
              "stale": jnp.array([4, 4])}
    new = (jnp.ones((2, 3)),)
    got = jax.vmap(track)(states, new, jnp.array([2.0, 2.0]))
    want = {"loss": np.float32([1, 2]), "stale": np.int32([5, 0]),
            "params": (np.float32([[0, 0, 0], [1, 1, 1]]),)}
    expect_close(got, want, name="two states")
# %% ex="best_keep" kind="wrong" fails="nothing_is_read many_runs_at_once"
# a Python `if` on the loss
def track(state, params, loss):
    if loss < state["loss"]:
        return {"loss": loss, "params": params, "stale": jnp.int32(0)}
    return state | {"stale": state["stale"] + 1}
# %% ex="best_keep" kind="wrong" fails="best_of_six many_runs_at_once"
# the smaller loss is kept, and the parameters of the last step
def track(state, params, loss):
    better = loss < state["loss"]
    return {"loss": jnp.minimum(loss, state["loss"]), "params": params,
            "stale": jnp.where(better, 0, state["stale"] + 1)}
# %% ex="best_keep" kind="wrong" fails="best_of_six"
# the condition is turned round: `nan` and equal losses count as better
def track(state, params, loss):
    worse = loss > state["loss"]
    keep = lambda new, old: jnp.where(worse, old, new)
    return {"loss": keep(loss, state["loss"]),
            "params": jax.tree.map(keep, params, state["params"]),
            "stale": keep(0, state["stale"] + 1)}
# %% ex="best_keep" kind="wrong" fails="best_of_six"
# a product chooses, and `nan` times 0 is `nan`
def track(state, params, loss):
    better = loss < state["loss"]
    keep = lambda new, old: old + better * (new - old)
    return {"loss": jnp.where(better, loss, state["loss"]),
            "params": jax.tree.map(keep, params, state["params"]),
            "stale": jnp.where(better, 0, state["stale"] + 1)}
# %% ex="best_keep" kind="alternate"
@jax.jit
def track(state, params, loss):
    stale = state["stale"]
    new = {"loss": loss, "params": params, "stale": jnp.zeros_like(stale)}
    old = state | {"stale": stale + 1}
    return jax.lax.cond(loss < state["loss"], lambda: new, lambda: old)
# %% [markdown] ex="best_keep" kind="why"
# Choosing is an operation like any other, so the best parameters can be kept where they
# are, at the price of one copy of them on the device. Read `stale` once an epoch, to see
# whether to stop. The `if` needs the loss as a Python value: it waits in every step and
# fails under `jax.jit`. Keeping the smallest loss with the last parameters saves a model
# that never had that loss. And `not (a > b)` isn't `a <= b` for `nan`: one bad step would
# be the best for ever.
# %% [markdown] ex="epoch_scan" level="core" minutes=12
# ## An epoch in one program
#
# Write `run_epoch(params, key, x, y, size)`. It shuffles the rows by
# `jax.random.permutation(key, n)`, cuts the order into batches of `size`, drops what is
# left over, and takes a step of gradient descent with `loss_fn` and rate 0.1 for each
# batch. It returns the new params and the losses before each step, `f32[n // size]`.
#
# The epoch is one compiled program that holds the step once, however many batches there
# are. Further epochs, with other keys, don't trace again. Old params are donated; the
# data are not, and are not written into the program.
# %% ex="epoch_scan"
def loss_fn(params, x, y):
    """Mean squared error of a linear model; x: f32[n, d], y: f32[n]."""
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)
# %% ex="epoch_scan" kind="solution"
@jax.jit(static_argnames="size", donate_argnames="params")
def run_epoch(params, key, x, y, size):
    """(params after the epoch, losses f32[n // size])."""
    ### BEGIN SOLUTION
    def step(params, rows):
        loss, grads = jax.value_and_grad(loss_fn)(params, x[rows], y[rows])
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    n = len(y)
    order = jax.random.permutation(key, n)[: n // size * size]
    return jax.lax.scan(step, params, order.reshape(-1, size))
    ### END SOLUTION
# %% [markdown] ex="epoch_scan" kind="hint"
# Make a table of row numbers first, one batch a row. `jax.lax.scan` goes through the rows
# of an array and carries something along. What is carried here?
# %% [markdown] ex="epoch_scan" kind="hint"
# The function for `scan` takes `params` and the row numbers of a batch, and returns new
# params and the loss. `x` and `y` are arguments of `run_epoch`, so the inner function may
# use them.
# %% ex="epoch_scan" kind="check"
with check("same_losses", points=2,
           section="What you read, you wait for"):
    rng = np.random.default_rng(0)
    x, y = np.split(np.float32(rng.normal(size=(14, 3))), [2], axis=1)
    y = y[:, 0]
    w, b, losses = np.zeros(2), 0.0, []
    for rows in np.asarray(jax.random.permutation(jax.random.key(1), 14))[
            :12].reshape(3, 4):
        miss = x[rows] @ w + b - y[rows]
        losses.append((miss**2).mean())
        w, b = w - 0.2 * x[rows].T @ miss / 4, b - 0.2 * miss.mean()
    zero = {"w": jnp.zeros(2), "b": jnp.zeros(())}
    got = run_epoch(zero, jax.random.key(1), jnp.array(x), jnp.array(y), 4)
    want = {"w": np.float32(w), "b": np.float32(b)}
    expect_close(got, (want, np.float32(losses)), atol=1e-5)
# %% ex="epoch_scan" kind="check"
with check("one_step_recorded", points=1,
           section="What you read, you wait for"):
    def called(x):
        params = {"w": jnp.zeros(2), "b": jnp.zeros(())}
        return run_epoch(params, jax.random.key(0), x, x[:, 0], 2)

    # From 32 rows on, the permutation itself is recorded in one way.
    expect_constant_size(called, lambda n: jnp.ones((n, 2)), sizes=[40, 60])
# %% ex="epoch_scan" kind="check"
with check("epochs_share_a_trace", points=1,
           section="A jit around part of the step pays for the rest"):
    data = jnp.ones((9, 2)), jnp.ones(9)
    params = {"w": jnp.zeros(2), "b": jnp.zeros(())}
    calls = [(params, jax.random.key(n), *data, 3) for n in range(3)]
    expect_traces(run_epoch, calls, at_most=1)
    programs = len(jax.make_jaxpr(partial(run_epoch, size=3))(
        params, jax.random.key(0), *data).eqns)
    assert programs == 1, "one compiled program for the whole epoch"
    expect_donated(run_epoch, calls[0], "params")
# %% ex="epoch_scan" kind="hidden"
with check("data_survive", points=1,
           section="One tree, and the update does not grow"):
    x, y = jnp.ones((5, 2)), jnp.array([2.0, 2.0, 2.0, 2.0, 2.0])
    for size in (5, 2, 1):
        params = {"w": jnp.zeros(2), "b": jnp.zeros(())}
        params, losses = run_epoch(params, jax.random.key(2), x, y, size=size)
        # Each step leaves 0.4 of the error, which is 2 at first.
        want = np.float32(4 * 0.16 ** np.arange(5 // size))
        expect_close(losses, want, atol=1e-5, name=f"losses at size {size}")
    gone = x.is_deleted() or y.is_deleted()
    assert gone is False, "data that the next epoch can use"
# %% ex="epoch_scan" kind="wrong" fails="one_step_recorded"
# the Python loop is kept, under jit: each batch is recorded
@jax.jit(static_argnames="size", donate_argnames="params")
def run_epoch(params, key, x, y, size):
    losses, order = [], jax.random.permutation(key, len(y))
    for start in range(0, len(y) - size + 1, size):
        rows = order[start : start + size]
        loss, grads = jax.value_and_grad(loss_fn)(params, x[rows], y[rows])
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        losses.append(loss)
    return params, jnp.stack(losses)
# %% ex="epoch_scan" kind="wrong" fails="same_losses"
# `x` is shuffled and `y` is not
@jax.jit(static_argnames="size", donate_argnames="params")
def run_epoch(params, key, x, y, size):
    def step(params, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    full = len(y) // size * size
    x = jax.random.permutation(key, x)[:full].reshape(-1, size, x.shape[1])
    return jax.lax.scan(step, params, (x, y[:full].reshape(-1, size)))
# %% ex="epoch_scan" kind="wrong" fails="epochs_share_a_trace"
# shuffling and slicing stay outside of the compiled part, and nothing is donated
@jax.jit
def _scan(params, x, y):
    def step(params, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    return jax.lax.scan(step, params, (x, y))


def run_epoch(params, key, x, y, size):
    rows = jax.random.permutation(key, len(y))[: len(y) // size * size]
    rows = rows.reshape(-1, size)
    return _scan(params, x[rows], y[rows])
# %% ex="epoch_scan" kind="wrong" fails="data_survive"
# the data are donated as well
@jax.jit(static_argnames="size", donate_argnames=("params", "x", "y"))
def run_epoch(params, key, x, y, size):
    def step(params, rows):
        loss, grads = jax.value_and_grad(loss_fn)(params, x[rows], y[rows])
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    order = jax.random.permutation(key, len(y))[: len(y) // size * size]
    return jax.lax.scan(step, params, order.reshape(-1, size))
# %% ex="epoch_scan" kind="alternate"
def _epoch(params, key, x, y, size):
    steps = len(y) // size
    order = jax.random.permutation(key, len(y))

    def body(i, carry):
        params, losses = carry
        rows = jax.lax.dynamic_slice_in_dim(order, i * size, size)
        loss, grads = jax.value_and_grad(loss_fn)(params, x[rows], y[rows])
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        return params, losses.at[i].set(loss)

    return jax.lax.fori_loop(0, steps, body, (params, jnp.zeros(steps)))

run_epoch = jax.jit(_epoch, static_argnames="size", donate_argnames="params")
# %% [markdown] ex="epoch_scan" kind="why"
# The step is `params, batch -> params, loss`, and that is the signature that `scan` asks
# for. A Python loop under jit gives the same numbers and a program as long as the epoch,
# with a compile time to match. Shuffling rows by number keeps `x` and `y` together;
# whoever shuffles arrays must shuffle both by one order. The data come in as arguments
# and are shared by all epochs: neither donated nor written into the program.
# %% [markdown] ex="loop_mend" level="stretch" minutes=45
# ## Project: mend a training script
#
# The script below is a PyTorch program, translated line by line. It is slow,
# reuses a key and doesn't train all that it should. Mend all four functions; eight checks
# say how far you are.
#
# - `init(key)`: two layers, 64 to 32 to 10. Each `w` is normal with standard deviation
#   `inputs ** -0.5`, from bits of its own; each `b` is 0.
# - `step(params, x, y, rate)` returns new params and the *mean* loss before the step. All
#   leaves are updated. It is one compiled program, donates `params`, has no side effect,
#   and another `rate` does not trace again.
# - `train(key, x, y, epochs, size, rate)` returns params and all losses, an array of
#   shape `(epochs * (n // size),)`. Weights and orders depend on `key`. Each epoch has
#   an order of its own, leaves out the incomplete batch and uses `rate * 0.9**epoch`,
#   from epoch 0. No key is used twice. It reads no value, so it can itself be traced.
# %% ex="loop_mend" kind="starter"
history = []


def init(key):
    """[{"w": f32[64, 32], "b": f32[32]}, {"w": f32[32, 10], "b": f32[10]}]"""
    return [{"w": jax.random.normal(key, (i, o)), "b": jnp.zeros(o)}
            for i, o in ((64, 32), (32, 10))]


def loss_fn(params, x, y):
    """Cross-entropy of a batch; x: f32[n, 64], y: i32[n]."""
    h = jnp.tanh(x @ params[0]["w"] + params[0]["b"])
    logs = jax.nn.log_softmax(h @ params[1]["w"] + params[1]["b"])
    return -jnp.take_along_axis(logs, y[:, None], axis=1).sum()


def step(params, x, y, rate):
    """One step of gradient descent."""
    forward_backward = jax.jit(
        lambda params: jax.value_and_grad(loss_fn)(params, x, y))
    loss, grads = forward_backward(params)
    for layer, grad in zip(params, grads):
        layer["w"] -= rate * grad["w"]
    history.append(loss.item())


def train(key, x, y, epochs, size, rate):
    """Train a new network; x: f32[n, 64], y: i32[n]."""
    params = init(key)
    for epoch in range(epochs):
        order = jax.random.permutation(key, len(x))
        for start in range(0, len(x), size):
            rows = order[start : start + size]
            step(params, x[rows], y[rows], rate)
        rate = rate * 0.9
    return params, history
# %% ex="loop_mend" kind="solution"
def init(key):
    """[{"w": f32[64, 32], "b": f32[32]}, {"w": f32[32, 10], "b": f32[10]}]"""
    dims = ((64, 32), (32, 10))
    return [{"w": jax.random.normal(k, (i, o)) * i**-0.5, "b": jnp.zeros(o)}
            for k, (i, o) in zip(jax.random.split(key), dims)]


def loss_fn(params, x, y):
    """Mean cross-entropy of a batch; x: f32[n, 64], y: i32[n]."""
    h = jnp.tanh(x @ params[0]["w"] + params[0]["b"])
    logs = jax.nn.log_softmax(h @ params[1]["w"] + params[1]["b"])
    return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()


@jax.jit(donate_argnames="params")
def step(params, x, y, rate):
    """One step of gradient descent: (new params, loss before the step)."""
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), loss


def train(key, x, y, epochs, size, rate):
    """Train a new network; x: f32[n, 64], y: i32[n]; (params, losses)."""
    init_key, order_key = jax.random.split(key)
    params, losses, n = init(init_key), [], len(x)
    for epoch in range(epochs):
        order = jax.random.permutation(jax.random.fold_in(order_key, epoch), n)
        for start in range(0, n - size + 1, size):
            rows = order[start : start + size]
            params, loss = step(params, x[rows], y[rows], rate * 0.9**epoch)
            losses.append(loss)
    return params, jnp.stack(losses)
# %% [markdown] ex="loop_mend" kind="hint"
# Start with `step`: what it changes, it must return; the compiled function is defined
# once, outside; `x`, `y` and `rate` are arguments; one `jax.tree.map` reaches every leaf.
# %% [markdown] ex="loop_mend" kind="hint"
# Split the key before its first use. In `train`, one part makes the network, and
# `jax.random.fold_in(part, epoch)` the key of an epoch.
# %% [markdown] ex="loop_mend" kind="hint"
# Collect losses as arrays and stack them at the end. `range(0, n - size + 1, size)` holds
# the starts of complete batches only.
# %% ex="loop_mend" kind="check"
with check("init_spreads", points=1,
           section="Python feeds the step, and reads as little as it can"):
    expect_keys_used_once(init, jax.random.key(0))
    one, two = init(jax.random.key(0))
    leaves = one["w"], one["b"], two["w"], two["b"]
    shapes = [leaf.shape for leaf in leaves]
    assert shapes == [(64, 32), (32,), (32, 10), (10,)], "two layers"
    spreads = [float(one["w"].std() * 8), float(two["w"].std() * 32**0.5)]
    off = max(abs(spread - 1) for spread in spreads)
    assert off < 0.15, "a standard deviation of inputs ** -0.5"
    expect_close(one["b"], np.zeros(32), name="first biases")
    expect_close(two["b"], np.zeros(10), name="last biases")
# %% ex="loop_mend" kind="check"
with check("every_leaf_moves", points=2,
           section="One tree, and the update does not grow"):
    rng = np.random.default_rng(0)
    shapes = (64, 32), 32, (32, 10), 10, (5, 64)
    W, b, V, c, x = (np.float32(0.3 * rng.normal(size=s)) for s in shapes)
    y = np.int32([3, 1, 4, 1, 5])
    h = np.tanh(x @ W + b)
    p = np.exp(h @ V + c) / np.exp(h @ V + c).sum(1, keepdims=True)
    out = (p - np.eye(10)[y]) / 5
    back = out @ V.T * (1 - h**2)
    want = [{"w": W - 0.5 * x.T @ back, "b": b - 0.5 * back.sum(0)},
            {"w": V - 0.5 * h.T @ out, "b": c - 0.5 * out.sum(0)}]
    params = jax.tree.map(jnp.array, [{"w": W, "b": b}, {"w": V, "b": c}])
    got = step(params, jnp.array(x), jnp.array(y), 0.5)
    expect_close(got, (want, -np.log(p[np.arange(5), y]).mean()), atol=1e-5)
# %% ex="loop_mend" kind="check"
with check("one_program", points=2,
           section="A jit around part of the step pays for the rest"):
    params = [{"w": jnp.ones((64, 32)), "b": jnp.ones(32)},
              {"w": jnp.ones((32, 10)), "b": jnp.ones(10)}]
    calls = [(params, jnp.full((4, 64), rate), jnp.arange(4), rate)
             for rate in (0.5, 0.1, 0.01)]
    expect_traces(step, calls, at_most=1)
    programs = len(jax.make_jaxpr(step)(*calls[0]).eqns)
    assert programs == 1, "one compiled program for the whole step"
    expect_donated(step, calls[0], 0)
# %% ex="loop_mend" kind="check"
with check("nothing_on_the_side", points=1,
           section="An update is a result that you keep"):
    params = [{"w": jnp.ones((64, 32)), "b": jnp.ones(32)},
              {"w": jnp.ones((32, 10)), "b": jnp.ones(10)}]
    args = params, jnp.ones((4, 64)), jnp.arange(4), 0.1
    expect_pure(step, [args])
    x, y = jnp.ones((6, 64)), jnp.arange(6)
    expect_pure(lambda: train(jax.random.key(0), x, y, 1, 3, 0.1), [()])
# %% ex="loop_mend" kind="check"
with check("train_compiles_once", points=2,
           section="Python feeds the step, and reads as little as it can"):
    x, y = jnp.ones((11, 64)), jnp.arange(11) % 10
    run = lambda key: train(key, x, y, 3, 4, 0.1)
    expect_traces(run, [(jax.random.key(0),)], at_most=1)
    params, losses = run(jax.random.key(0))
    shape = jnp.shape(losses)
    assert shape == (6,), "two complete batches in each of three epochs"
# %% ex="loop_mend" kind="check"
with check("keys_used_once", points=1,
           section="Python feeds the step, and reads as little as it can"):
    x, y = jnp.ones((6, 64)), jnp.arange(6)
    run = lambda key: train(key, x, y, 2, 3, 0.1)
    expect_keys_used_once(run, jax.random.key(0))
    first, second = (train(jax.random.key(seed), x, y, 2, 3, 0.0)[0]
                     for seed in (0, 1))
    same = bool((first[0]["w"] == second[0]["w"]).all())
    assert same is False, "other weights for another key"
# %% ex="loop_mend" kind="check"
with check("reads_nothing", points=1, section="What you read, you wait for"):
    x, y = jnp.ones((6, 64)), jnp.arange(6)
    run = lambda key, x, y: train(key, x, y, 2, 3, 0.1)
    params, losses = jax.eval_shape(run, jax.random.key(0), x, y)
    assert losses.shape == (4,), "an array of four losses"
# %% ex="loop_mend" kind="check"
with check("digits_are_learnt", points=2,
           section="Python feeds the step, and reads as little as it can"):
    digits, order = load_digits(), np.random.default_rng(0).permutation(1797)
    x, y = np.float32(digits.data / 16)[order], np.int32(digits.target)[order]
    data = jnp.array(x[:1400]), jnp.array(y[:1400])
    # A step that returns nothing stops here, before the many of `train`.
    _, loss = step(init(jax.random.key(0)), data[0][:70], data[1][:70], 1.0)
    (one, two), _ = train(jax.random.key(1), *data, 3, 70, 1.0)
    h = np.tanh(x[1400:] @ np.asarray(one["w"]) + np.asarray(one["b"]))
    out = h @ np.asarray(two["w"]) + np.asarray(two["b"])
    logs = out - np.log(np.exp(out).sum(1, keepdims=True))
    loss = float(-logs[np.arange(397), y[1400:]].mean())
    assert loss < 0.35, "a loss on held-out digits below 0.35"
# %% ex="loop_mend" kind="hidden"
with check("epochs_are_shuffled", points=1,
           section="Python feeds the step, and reads as little as it can"):
    x = jnp.array(np.random.default_rng(1).normal(size=(24, 64)), jnp.float32)
    y = jnp.arange(24) % 10
    _, losses = train(jax.random.key(2), x, y, 3, 8, 0.0)
    epochs = np.asarray(losses).reshape(3, 3)
    # At rate 0 every epoch has the same mean, by other batches.
    expect_close(epochs.mean(1), np.full(3, epochs.mean()), atol=1e-4)
    gaps = [np.abs(np.sort(epochs[0]) - np.sort(e)).max() for e in epochs[1:]]
    smallest = float(min(gaps))
    assert smallest > 1e-3, "another order in every epoch"
# %% ex="loop_mend" kind="hidden"
with check("rate_decays", points=1,
           section="Python feeds the step, and reads as little as it can"):
    x, y = jnp.ones((4, 64)) / 8, jnp.full(4, 3)
    (one, two), losses = train(jax.random.key(3), x, y, 4, 4, 0.1)
    c, total = np.asarray(two["b"]), 0.0
    # The last bias moves by rate * (1 - p) for its label, p = exp(-loss).
    for epoch, loss in enumerate(np.asarray(losses)):
        total += 0.1 * 0.9**epoch * (1 - np.exp(-loss))
    expect_close(float(c[3]), float(total), atol=1e-5, name="bias 3")
# %% ex="loop_mend" kind="wrong" fails="one_program"
# the gradient is compiled, once; the update is not
def init(key):
    return [{"w": jax.random.normal(k, (i, o)) * i**-0.5, "b": jnp.zeros(o)}
            for k, (i, o) in zip(jax.random.split(key), ((64, 32), (32, 10)))]


@jax.jit
@jax.value_and_grad
def loss_and_grad(params, x, y):
    h = jnp.tanh(x @ params[0]["w"] + params[0]["b"])
    logs = jax.nn.log_softmax(h @ params[1]["w"] + params[1]["b"])
    return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()


def step(params, x, y, rate):
    loss, grads = loss_and_grad(params, x, y)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), loss


def train(key, x, y, epochs, size, rate):
    init_key, order_key = jax.random.split(key)
    params, losses, n = init(init_key), [], len(x)
    for epoch in range(epochs):
        order = jax.random.permutation(jax.random.fold_in(order_key, epoch), n)
        for start in range(0, n - size + 1, size):
            rows = order[start : start + size]
            params, loss = step(params, x[rows], y[rows], rate * 0.9**epoch)
            losses.append(loss)
    return params, jnp.stack(losses)
# %% ex="loop_mend" kind="wrong" fails="train_compiles_once epochs_are_shuffled"
# all is compiled, the last batch is shorter, and one order serves every epoch
def init(key):
    return [{"w": jax.random.normal(k, (i, o)) * i**-0.5, "b": jnp.zeros(o)}
            for k, (i, o) in zip(jax.random.split(key), ((64, 32), (32, 10)))]


def loss_fn(params, x, y):
    h = jnp.tanh(x @ params[0]["w"] + params[0]["b"])
    logs = jax.nn.log_softmax(h @ params[1]["w"] + params[1]["b"])
    return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()


@jax.jit(donate_argnames="params")
def step(params, x, y, rate):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), loss


def train(key, x, y, epochs, size, rate):
    init_key, order_key = jax.random.split(key)
    params, losses = init(init_key), []
    order = jax.random.permutation(order_key, len(x))
    for epoch in range(epochs):
        for start in range(0, len(x), size):
            rows = order[start : start + size]
            params, loss = step(params, x[rows], y[rows], rate * 0.9**epoch)
            losses.append(loss)
    return params, jnp.stack(losses)
# %% ex="loop_mend" kind="wrong" fails="one_program train_compiles_once"
# the rate is a setting, so it is static, and each epoch compiles
def init(key):
    return [{"w": jax.random.normal(k, (i, o)) * i**-0.5, "b": jnp.zeros(o)}
            for k, (i, o) in zip(jax.random.split(key), ((64, 32), (32, 10)))]


def loss_fn(params, x, y):
    h = jnp.tanh(x @ params[0]["w"] + params[0]["b"])
    logs = jax.nn.log_softmax(h @ params[1]["w"] + params[1]["b"])
    return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()


@jax.jit(static_argnames="rate", donate_argnames="params")
def step(params, x, y, rate):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), loss


def train(key, x, y, epochs, size, rate):
    init_key, order_key = jax.random.split(key)
    params, losses, n = init(init_key), [], len(x)
    for epoch in range(epochs):
        order = jax.random.permutation(jax.random.fold_in(order_key, epoch), n)
        for start in range(0, n - size + 1, size):
            rows = order[start : start + size]
            params, loss = step(params, x[rows], y[rows], rate * 0.9**epoch)
            losses.append(loss)
    return params, jnp.stack(losses)
# %% ex="loop_mend" kind="wrong" fails="nothing_on_the_side reads_nothing keys_used_once"
# the step is mended; the loop still logs by `.item()` and uses one key for two things
history = []


def init(key):
    return [{"w": jax.random.normal(k, (i, o)) * i**-0.5, "b": jnp.zeros(o)}
            for k, (i, o) in zip(jax.random.split(key), ((64, 32), (32, 10)))]


def loss_fn(params, x, y):
    h = jnp.tanh(x @ params[0]["w"] + params[0]["b"])
    logs = jax.nn.log_softmax(h @ params[1]["w"] + params[1]["b"])
    return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()


@jax.jit(donate_argnames="params")
def step(params, x, y, rate):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), loss


def train(key, x, y, epochs, size, rate):
    params, losses = init(key), []
    for epoch in range(epochs):
        key, subkey = jax.random.split(key)
        order = jax.random.permutation(subkey, len(x))
        for start in range(0, len(x) - size + 1, size):
            rows = order[start : start + size]
            params, loss = step(params, x[rows], y[rows], rate * 0.9**epoch)
            history.append(loss.item())
            losses.append(history[-1])
    return params, jnp.array(losses)
# %% ex="loop_mend" kind="wrong" fails="keys_used_once"
# weights from a key of their own, as after `torch.manual_seed(0)`
def init(key):
    return [{"w": jax.random.normal(k, (i, o)) * i**-0.5, "b": jnp.zeros(o)}
            for k, (i, o) in zip(jax.random.split(key), ((64, 32), (32, 10)))]


def loss_fn(params, x, y):
    h = jnp.tanh(x @ params[0]["w"] + params[0]["b"])
    logs = jax.nn.log_softmax(h @ params[1]["w"] + params[1]["b"])
    return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()


@jax.jit(donate_argnames="params")
def step(params, x, y, rate):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), loss


def train(key, x, y, epochs, size, rate):
    params, losses, n = init(jax.random.key(0)), [], len(x)
    for epoch in range(epochs):
        order = jax.random.permutation(jax.random.fold_in(key, epoch), n)
        for start in range(0, n - size + 1, size):
            rows = order[start : start + size]
            params, loss = step(params, x[rows], y[rows], rate * 0.9**epoch)
            losses.append(loss)
    return params, jnp.stack(losses)
# %% ex="loop_mend" kind="alternate"
def init(key):
    params = []
    for i, o in ((64, 32), (32, 10)):
        key, subkey = jax.random.split(key)
        w = jax.random.normal(subkey, (i, o)) / jnp.sqrt(i)
        params.append({"w": w, "b": jnp.zeros(o)})
    return params


def _loss(params, x, y):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    logits = x @ params[-1]["w"] + params[-1]["b"]
    chosen = logits[jnp.arange(len(y)), y]
    return (jax.nn.logsumexp(logits, axis=1) - chosen).mean()


def _step(params, x, y, rate):
    loss, grads = jax.value_and_grad(_loss)(params, x, y)
    params = [{k: layer[k] - rate * grad[k] for k in layer}
              for layer, grad in zip(params, grads)]
    return params, loss

step = jax.jit(_step, donate_argnums=0)


@partial(jax.jit, static_argnames=("epochs", "size"))
def train(key, x, y, epochs, size, rate):
    first, *rest = jax.random.split(key, epochs + 1)
    orders = [jax.random.permutation(k, len(x)) for k in rest]
    used = len(x) // size * size
    table = jnp.concatenate([o[:used].reshape(-1, size) for o in orders])
    rates = rate * 0.9 ** jnp.repeat(jnp.arange(epochs), used // size)

    def one(params, batch):
        rows, rate = batch
        return _step(params, x[rows], y[rows], rate)

    return jax.lax.scan(one, init(first), (table, rates))
# %% [markdown] ex="loop_mend" kind="why"
# A new lambda in each call is a new function, and `x`, `y` inside it are written into its
# program: every step compiles. An update of a dict in place changes the caller's tree,
# where a donated tree and a new one cost no more memory. A static rate compiles once an
# epoch, a shorter batch once more. One key for weights, and again for each order, makes
# them depend on one another and all epochs alike. `.item()` waits in each step. None of
# it raises an error, and without the checks only the losses and the clock would tell.
