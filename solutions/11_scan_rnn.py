# %% [markdown]
# # A recurrent network is a scan
#
# Eight exercises on cells, scans and what passes from step to step: states, padding,
# keys and gradients. Most checks look at the recorded program or at gradients; the
# right numbers alone are not enough. They go with the chapter of the same name.
# %%
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tracecheck import check, count_primitives, expect_close
from tracecheck import expect_constant_size, expect_keys_used_once
# %% [markdown] ex="rnn_scan" level="warm-up" minutes=7
# ## One body for all steps
#
# A plain recurrent network computes $h_t = \tanh(x_t W + h_{t-1} U + b)$, from
# $h_0 = 0$. In PyTorch, with a batch in front:
#
# ```python
# h, ys = torch.zeros(len(xs), width), []
# for t in range(xs.shape[1]):
#     h = torch.tanh(xs[:, t] @ W + h @ U + b)
#     ys.append(h)
# return torch.stack(ys, dim=1)
# ```
#
# Write `rnn(params, xs)`, which returns the same states. The program must not grow with
# the number of steps, nor with the number of sequences.
# %% ex="rnn_scan" kind="solution"
def rnn(params, xs):
    """States of a tanh network.

    params: {"W": f32[d, width], "U": f32[width, width], "b": f32[width]}
    xs: f32[batch, steps, d]

    Returns f32[batch, steps, width].
    """
    ### BEGIN SOLUTION
    def tick(h, x):
        h = jnp.tanh(x @ params["W"] + h @ params["U"] + params["b"])
        return h, h

    def one(xs):
        return lax.scan(tick, jnp.zeros_like(params["b"]), xs)[1]

    return jax.vmap(one)(xs)
    ### END SOLUTION
# %% [markdown] ex="rnn_scan" kind="hint"
# Which axis does `lax.scan` go through, and which one is time here?
# %% [markdown] ex="rnn_scan" kind="hint"
# Write it for one sequence and map that over the batch, or move time to the front and
# carry one state for each sequence. In the second case, move it back at the end.
# %% ex="rnn_scan" kind="check"
with check("same_states", points=1,
           section="A cell is one step, and scan runs it"):
    rng = np.random.default_rng(0)
    shapes = {"W": (2, 3), "U": (3, 3), "b": (3,)}
    p = {k: np.float32(rng.normal(size=s)) for k, s in shapes.items()}
    xs = np.float32(rng.normal(size=(4, 5, 2)))
    h, ys = np.zeros((4, 3), np.float32), []
    for t in range(5):
        h = np.tanh(xs[:, t] @ p["W"] + h @ p["U"] + p["b"])
        ys.append(h)
    expect_close(rnn(p, jnp.array(xs)), np.stack(ys, 1), atol=1e-5)
# %% ex="rnn_scan" kind="check"
with check("body_stays", points=1,
           section="Compile time follows the cell, memory the sequence"):
    p = {"W": jnp.ones((2, 3)), "U": jnp.ones((3, 3)), "b": jnp.ones(3)}
    steps = lambda n: (p, jnp.ones((2, n, 2)))
    sequences = lambda n: (p, jnp.ones((n, 4, 2)))
    expect_constant_size(rnn, steps, sizes=[2, 5, 40])
    expect_constant_size(rnn, sequences, sizes=[2, 5, 40])
# %% ex="rnn_scan" kind="hidden" apart=true
with check("square_batch", points=1,
           section="A cell is one step, and scan runs it"):
    p = {"W": np.eye(2, dtype=np.float32), "U": np.eye(2, dtype=np.float32),
         "b": np.float32([0.5, -0.5])}
    for shape in [(3, 3, 2), (1, 4, 2), (4, 1, 2)]:
        xs = np.float32(np.random.default_rng(1).normal(size=shape))
        h, ys = np.zeros((shape[0], 2), np.float32), []
        for t in range(shape[1]):
            h = np.tanh(xs[:, t] + h + p["b"])
            ys.append(h)
        got, name = rnn(p, jnp.array(xs)), f"states for {shape}"
        expect_close(got, np.stack(ys, 1), atol=1e-5, name=name)
# %% ex="rnn_scan" kind="wrong" fails="body_stays"
# the PyTorch loop with other names: each step leaves its own copy
def rnn(params, xs):
    h, ys = jnp.zeros((len(xs), len(params["b"]))), []
    for t in range(xs.shape[1]):
        h = jnp.tanh(xs[:, t] @ params["W"] + h @ params["U"] + params["b"])
        ys.append(h)
    return jnp.stack(ys, axis=1)
# %% ex="rnn_scan" kind="wrong" fails="same_states square_batch"
# batch first as in `batch_first=True`: the scan goes through the sequences
def rnn(params, xs):
    def tick(h, x):
        h = jnp.tanh(x @ params["W"] + h @ params["U"] + params["b"])
        return h, h

    h0 = jnp.zeros((xs.shape[1], len(params["b"])))
    return lax.scan(tick, h0, xs)[1]
# %% ex="rnn_scan" kind="wrong" fails="same_states square_batch"
# time goes to the front and is left there
def rnn(params, xs):
    def tick(h, x):
        h = jnp.tanh(x @ params["W"] + h @ params["U"] + params["b"])
        return h, h

    h0 = jnp.zeros((len(xs), len(params["b"])))
    return lax.scan(tick, h0, xs.swapaxes(0, 1))[1]
# %% ex="rnn_scan" kind="alternate"
def rnn(params, xs):
    inputs = jnp.moveaxis(xs @ params["W"] + params["b"], 1, 0)
    tick = lambda h, i: (jnp.tanh(i + h @ params["U"]),) * 2
    _, ys = lax.scan(tick, jnp.zeros(inputs.shape[1:], xs.dtype), inputs)
    return jnp.moveaxis(ys, 0, 1)
# %% [markdown] ex="rnn_scan" kind="why"
# A scan goes through the leading axis, whatever you call it. With the batch in front it
# carries a state from one sequence to the next, without an error when the shapes happen
# to fit. Mapping one sequence's scan by `vmap` keeps time where the scan wants it, and
# still gives one loop with a batch of states. The Python loop computes the same numbers,
# and its program grows with every step.
# %% [markdown] ex="gates_port" level="warm-up" minutes=8
# ## A GRU with PyTorch's weights
#
# `w` holds the arrays of a PyTorch `nn.GRUCell`, as `state_dict` gives them: matrices
# are (out, in), the three gates are stacked in the order reset, update, candidate. Write
# `gru_step(w, h, x)`, one step with PyTorch's numbers:
#
# $$n = \tanh(W_n x + b_n + r \odot (U_n h + c_n)), \quad
# h' = (1 - z) \odot n + z \odot h$$
#
# where $r$ and $z$ are sigmoids of $W x + b + U h + c$ with their own parts of the
# weights. `h` and `x` may have any number of leading axes, the same for both.
# %% ex="gates_port" kind="solution"
def gru_step(w, h, x):
    """One step of a GRU: f32[..., width], f32[..., d] -> f32[..., width].

    w: {"weight_ih": f32[3 * width, d], "weight_hh": f32[3 * width, width],
        "bias_ih": f32[3 * width], "bias_hh": f32[3 * width]}
    """
    ### BEGIN SOLUTION
    from_x = x @ w["weight_ih"].T + w["bias_ih"]
    from_h = h @ w["weight_hh"].T + w["bias_hh"]
    xr, xz, xn = jnp.split(from_x, 3, axis=-1)
    hr, hz, hn = jnp.split(from_h, 3, axis=-1)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    n = jnp.tanh(xn + r * hn)
    return (1 - z) * n + z * h
    ### END SOLUTION
# %% [markdown] ex="gates_port" kind="hint"
# Two products are enough, one for `x` and one for `h`. What is split along which axis?
# %% [markdown] ex="gates_port" kind="hint"
# `jnp.split(a, 3, axis=-1)` gives the three parts of a product. Don't add the two
# products before you have split them: the candidate needs them apart.
# %% ex="gates_port" kind="check"
with check("one_step", points=1,
           section="Ported weights need the right gates"):
    rng = np.random.default_rng(0)
    shapes = {"weight_ih": (9, 2), "weight_hh": (9, 3), "bias_ih": (9,),
              "bias_hh": (9,)}
    w = {k: np.float32(rng.normal(size=s)) for k, s in shapes.items()}
    h, x = np.float32([0.5, -0.25, 0.75]), np.float32([1.0, -2.0])
    a = w["weight_ih"] @ x + w["bias_ih"]
    b = w["weight_hh"] @ h + w["bias_hh"]
    r, z = (1 / (1 + np.exp(-(a + b)[i:i + 3])) for i in (0, 3))
    want = (1 - z) * np.tanh(a[6:] + r * b[6:]) + z * h
    expect_close(gru_step(w, jnp.array(h), jnp.array(x)), want, atol=1e-5)
# %% ex="gates_port" kind="check"
with check("leading_axes", points=1,
           section="A cell is one step, and scan runs it"):
    rng = np.random.default_rng(1)
    shapes = {"weight_ih": (6, 4), "weight_hh": (6, 2), "bias_ih": (6,),
              "bias_hh": (6,)}
    w = {k: np.float32(rng.normal(size=s)) for k, s in shapes.items()}
    for axes in [(3,), (2, 3), (6,)]:
        h = np.float32(rng.normal(size=(*axes, 2)))
        x = np.float32(rng.normal(size=(*axes, 4)))
        a = x @ w["weight_ih"].T + w["bias_ih"]
        b = h @ w["weight_hh"].T + w["bias_hh"]
        r, z = (1 / (1 + np.exp(-(a + b)[..., i:i + 2])) for i in (0, 2))
        want = (1 - z) * np.tanh(a[..., 4:] + r * b[..., 4:]) + z * h
        got = gru_step(w, jnp.array(h), jnp.array(x))
        expect_close(got, want, atol=1e-5, name=f"states for axes {axes}")
# %% ex="gates_port" kind="hidden"
with check("hidden_bias", points=1,
           section="Ported weights need the right gates"):
    w = {"weight_ih": np.zeros((3, 1)), "weight_hh": np.zeros((3, 1)),
         "bias_ih": np.array([-1.0, 0.0, 0.0]),
         "bias_hh": np.array([0.0, 0.0, 2.0])}
    w = {k: jnp.array(v, jnp.float32) for k, v in w.items()}
    want = np.float32([0.5 * np.tanh(2 / (1 + np.e)) + 0.5])
    expect_close(gru_step(w, jnp.ones(1), jnp.ones(1)), want, atol=1e-5)
# %% ex="gates_port" kind="wrong" fails="one_step leading_axes hidden_bias"
# one bias, as in most layers: what belongs to the candidate is no longer reset
def gru_step(w, h, x):
    bias = w["bias_ih"] + w["bias_hh"]
    xr, xz, xn = jnp.split(x @ w["weight_ih"].T + bias, 3, axis=-1)
    hr, hz, hn = jnp.split(h @ w["weight_hh"].T, 3, axis=-1)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    return (1 - z) * jnp.tanh(xn + r * hn) + z * h
# %% ex="gates_port" kind="wrong" fails="one_step leading_axes"
# the gate of the first paper: it resets the state before the product
def gru_step(w, h, x):
    ur, uz, un = jnp.split(w["weight_hh"].T, 3, axis=-1)
    cr, cz, cn = jnp.split(w["bias_hh"], 3)
    xr, xz, xn = jnp.split(x @ w["weight_ih"].T + w["bias_ih"], 3, axis=-1)
    r = jax.nn.sigmoid(xr + h @ ur + cr)
    z = jax.nn.sigmoid(xz + h @ uz + cz)
    return (1 - z) * jnp.tanh(xn + (r * h) @ un + r * cn) + z * h
# %% ex="gates_port" kind="wrong" fails="one_step leading_axes hidden_bias"
# the gates in the order update, reset, as other libraries store them
def gru_step(w, h, x):
    from_x = x @ w["weight_ih"].T + w["bias_ih"]
    from_h = h @ w["weight_hh"].T + w["bias_hh"]
    xz, xr, xn = jnp.split(from_x, 3, axis=-1)
    hz, hr, hn = jnp.split(from_h, 3, axis=-1)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    return (1 - z) * jnp.tanh(xn + r * hn) + z * h
# %% ex="gates_port" kind="wrong" fails="leading_axes"
# the weights in front, as in the formula: right for one vector only
def gru_step(w, h, x):
    xr, xz, xn = jnp.split(w["weight_ih"] @ x + w["bias_ih"], 3)
    hr, hz, hn = jnp.split(w["weight_hh"] @ h + w["bias_hh"], 3)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    return (1 - z) * jnp.tanh(xn + r * hn) + z * h
# %% ex="gates_port" kind="alternate"
def gru_step(w, h, x):
    width = h.shape[-1]
    a = jnp.einsum("...d,od->...o", x, w["weight_ih"]) + w["bias_ih"]
    b = jnp.einsum("...d,od->...o", h, w["weight_hh"]) + w["bias_hh"]
    gates = jax.nn.sigmoid((a + b)[..., :2 * width])
    r, z = gates[..., :width], gates[..., width:]
    n = jnp.tanh(a[..., 2 * width:] + r * b[..., 2 * width:])
    return n + z * (h - n)
# %% [markdown] ex="gates_port" kind="why"
# The two biases stand in one sum in $r$ and $z$, so there one of them is redundant. In
# the candidate, $c_n$ is inside of what $r$ multiplies: added to $b_n$, it can no
# longer be reset. For the same reason, $r$ times the product is not the product with
# $r \odot h$: a matrix mixes what an elementwise gate keeps apart. Nothing in the shapes
# tells the variants, or the order of the gates, from each other. Compare numbers.
# %% [markdown] ex="padding_freeze" level="core" minutes=12
# ## Nothing moves beyond the end
#
# Write `run_masked(cell, state, xs, length)` for one sequence. `cell(state, x)` returns
# the next state and an output, as `tick` does; a state is any pytree of arrays, for
# instance the pair of an LSTM.
#
# - The first `length` rows of `xs` are real. `length` may be traced, also by `jax.vmap`,
#   and may be 0.
# - It returns the state after the last real step, and the outputs, which are 0 in the
#   rows beyond.
# - The rest of `xs` holds anything, also `nan`. It shows neither in the results nor in
#   any gradient.
# - The program does not grow with the number of steps.
# %% ex="padding_freeze" kind="solution"
def run_masked(cell, state, xs, length):
    """(state, f32[steps, d], int) -> (state, outputs: [steps, ...])."""
    ### BEGIN SOLUTION
    real = jnp.arange(len(xs)) < length
    clean = jnp.where(real[:, None], xs, 0)

    def tick(state, step):
        real, x = step
        new, y = cell(state, x)
        state = jax.tree.map(lambda n, s: jnp.where(real, n, s), new, state)
        return state, jnp.where(real, y, 0)

    return lax.scan(tick, state, (real, clean))
    ### END SOLUTION
# %% [markdown] ex="padding_freeze" kind="hint"
# Each step needs to know whether it is real. `xs` of a scan may be a pair of arrays.
# %% [markdown] ex="padding_freeze" kind="hint"
# `jnp.where` keeps `nan` out of a value and not out of a gradient. So what must not be
# `nan`, and where?
# %% [markdown] ex="padding_freeze" kind="hint"
# Replace the padding in `xs` by zeros before the scan. In the step, choose between the
# new and the old state with `jax.tree.map`, array by array.
# %% ex="padding_freeze" kind="check"
with check("true_end", points=1, section="Padding must not move the state"):
    def cell(state, x):
        h, n = state["h"] * 0.5 + x, state["n"] + 1
        return {"h": h, "n": n}, h * n

    xs = np.float32([[1, 2], [3, 4], [5, 6], [9, 9], [9, 9]])
    start = {"h": jnp.zeros(2), "n": jnp.int32(0)}
    fn = jax.jit(lambda xs, n: run_masked(cell, start, xs, n))
    h, outs = np.zeros(2, np.float32), np.zeros((5, 2), np.float32)
    for n in range(4):
        want = {"h": h, "n": np.int32(n)}, outs.copy()
        expect_close(fn(xs, n), want, name=f"result at length {n}")
        h = h * 0.5 + xs[n]
        outs[n] = h * (n + 1)
# %% ex="padding_freeze" kind="check"
with check("clean_gradient", points=2,
           section="Padding must not move the state"):
    def energy(a, xs, length):
        cell = lambda h, x: (jnp.tanh(a * h) + jnp.exp(x),) * 2
        h, ys = run_masked(cell, jnp.zeros(1), xs, length)
        return (h + ys.sum()).sum()

    slope = jax.jit(jax.grad(energy, argnums=(0, 1)))
    real = np.float32([[0.5], [-0.25], [1.0]])
    want, want_xs = slope(0.7, jnp.array(real), 3)
    for rubbish in (0.0, 1e6, np.nan, np.inf):
        xs = np.concatenate([real, np.full((3, 1), rubbish, np.float32)])
        padded = np.concatenate([want_xs, np.zeros((3, 1), np.float32)])
        got, name = slope(0.7, jnp.array(xs), 3), f"slopes, padding {rubbish}"
        expect_close(got, (want, padded), name=name)
# %% ex="padding_freeze" kind="check"
with check("steps_stay", points=1,
           section="Compile time follows the cell, memory the sequence"):
    cell = lambda h, x: (jnp.sin(h + x), h)
    run = lambda xs: run_masked(cell, jnp.zeros(2), xs, 3)
    expect_constant_size(run, lambda n: (jnp.ones((n, 2)),), [4, 9, 50])
# %% ex="padding_freeze" kind="hidden"
with check("batch_of_pairs", points=1,
           section="Padding must not move the state"):
    cell = lambda s, x: ((s[0] + x, s[1] * x), s[0])
    xs = np.float32([[[2], [3], [4]], [[2], [np.nan], [np.nan]]])
    lengths, zero = np.array([3, 1]), np.zeros(1, np.float32)

    def total(ones):
        one = lambda h, x, n: run_masked(cell, (zero, h), x, n)
        (added, product), ys = jax.vmap(one)(ones, xs, lengths)
        return product.sum(), (added, product, ys)

    run = jax.jit(jax.value_and_grad(total, has_aux=True))
    (_, (added, product, ys)), slope = run(jnp.ones((2, 1)))
    expect_close(added, np.float32([[9], [2]]), name="first of the pair")
    expect_close(product, np.float32([[24], [2]]), name="second of the pair")
    want = np.float32([[[0], [2], [5]], [[0], [0], [0]]])
    expect_close(ys, want, name="outputs")
    expect_close(slope, np.float32([[24], [2]]), name="slopes in a batch")
# %% ex="padding_freeze" kind="wrong" fails="clean_gradient batch_of_pairs"
# only results are chosen: the value is right and the gradient is `nan`
def run_masked(cell, state, xs, length):
    def tick(state, step):
        t, x = step
        new, y = cell(state, x)
        pick = lambda n, s: jnp.where(t < length, n, s)
        return jax.tree.map(pick, new, state), jnp.where(t < length, y, 0)

    return lax.scan(tick, state, (jnp.arange(len(xs)), xs))
# %% ex="padding_freeze" kind="wrong" fails="true_end clean_gradient batch_of_pairs"
# outputs are cleaned and the state goes on, as with a padded `nn.GRU`
def run_masked(cell, state, xs, length):
    real = jnp.arange(len(xs)) < length
    state, ys = lax.scan(cell, state, jnp.where(real[:, None], xs, 0))
    return state, jnp.where(real[:, None], ys, 0)
# %% ex="padding_freeze" kind="wrong" fails="clean_gradient batch_of_pairs"
# the padding is multiplied away, and 0 times `nan` is `nan`
def run_masked(cell, state, xs, length):
    def tick(state, step):
        t, x = step
        new, y = cell(state, x * (t < length))
        pick = lambda n, s: jnp.where(t < length, n, s)
        return jax.tree.map(pick, new, state), jnp.where(t < length, y, 0)

    return lax.scan(tick, state, (jnp.arange(len(xs)), xs))
# %% ex="padding_freeze" kind="wrong" fails="true_end clean_gradient batch_of_pairs"
# `xs[:length]`, as in eager code: a traced length can't be a shape
def run_masked(cell, state, xs, length):
    state, ys = lax.scan(cell, state, xs[:length])
    return state, jnp.pad(ys, ((0, len(xs) - length), (0, 0)))
# %% ex="padding_freeze" kind="wrong" fails="clean_gradient"
# only `nan` and `inf` are replaced: a large number overflows in the cell
def run_masked(cell, state, xs, length):
    def tick(state, step):
        t, x = step
        new, y = cell(state, x)
        pick = lambda n, s: jnp.where(t < length, n, s)
        return jax.tree.map(pick, new, state), jnp.where(t < length, y, 0)

    clean = jnp.where(jnp.isfinite(xs), xs, 0)
    return lax.scan(tick, state, (jnp.arange(len(xs)), clean))
# %% ex="padding_freeze" kind="alternate"
def run_masked(cell, state, xs, length):
    like = jax.eval_shape(cell, state, xs[0])[1]

    def tick(state, step):
        skip = lambda: (state, jnp.zeros(like.shape, like.dtype))
        return lax.cond(step[0] < length, lambda: cell(state, step[1]), skip)

    rows = jnp.arange(len(xs))
    xs = jnp.where(rows[:, None] < length, xs, jnp.zeros_like(xs))
    return lax.scan(tick, state, (rows, xs))
# %% [markdown] ex="padding_freeze" kind="why"
# Three places need the mask. The state, or the cell moves on through nothing. The
# outputs, or an average counts them. And the input: on the way back `jnp.where` sends 0
# into the side that it did not choose, and 0 times the slope at `nan` is `nan`. A
# product with the mask is no cure, for the same reason. A slice by the length is, in
# eager mode only. `jax.tree.map` chooses for every array of the state; an LSTM whose
# second array goes on is a mistake that no shape shows.
# %% [markdown] ex="reverse_align" level="core" minutes=10
# ## Backwards from the true end
#
# A bidirectional network needs the outputs of a cell that reads each sequence from its
# last real row to its first. In PyTorch, packed sequences see to that. Write
# `run_backwards(cell, h, xs, length)` for one padded sequence:
#
# - `cell(h, x)` returns the next state, which is also the output.
# - Row $t$ of the result is the state after the cell has read rows `length - 1` down
#   to $t$. Rows beyond the end are 0.
# - `length` may be traced, from 0 to the number of rows. Rows beyond it are finite, and
#   change nothing.
#
# One scan is enough.
# %% ex="reverse_align" kind="solution"
def run_backwards(cell, h, xs, length):
    """f32[width], f32[steps, d], int -> f32[steps, width]."""
    ### BEGIN SOLUTION
    def tick(h, step):
        real, x = step
        h = jnp.where(real, cell(h, x), h)
        return h, jnp.where(real, h, 0)

    real = jnp.arange(len(xs)) < length
    return lax.scan(tick, h, (real, xs), reverse=True)[1]
    ### END SOLUTION
# %% [markdown] ex="reverse_align" kind="hint"
# Read from the end, the padding comes first. What must the state be when the first real
# row is read?
# %% [markdown] ex="reverse_align" kind="hint"
# `lax.scan(..., reverse=True)` starts at the end and puts each output in the row of its
# input. Or reorder the rows yourself, before the scan and after it.
# %% ex="reverse_align" kind="check"
with check("aligned", points=1, section="Padding must not move the state"):
    cell = lambda h, x: 0.5 * h + x
    xs = np.float32([[1], [2], [4], [8], [100], [100]])
    fn = jax.jit(lambda xs, n: run_backwards(cell, jnp.ones(1), xs, n))
    for n in (4, 2):
        want, h = np.zeros((6, 1), np.float32), 1.0
        for t in reversed(range(n)):
            h = 0.5 * h + xs[t, 0]
            want[t] = h
        expect_close(fn(xs, n), want, name=f"outputs at length {n}")
# %% ex="reverse_align" kind="check"
with check("padding_is_mute", points=1,
           section="Padding must not move the state"):
    cell = lambda h, x: jnp.tanh(h + x + 1)
    xs = np.float32(np.random.default_rng(0).normal(size=(7, 3)))
    other = xs.copy()
    other[4:] = 1e3
    run = lambda xs: run_backwards(cell, jnp.ones(3), jnp.array(xs), 4)
    same = bool((run(xs) == run(other)).all())
    assert same, "the same numbers, whatever the padding is"
# %% ex="reverse_align" kind="check"
with check("one_scan", points=1,
           section="Compile time follows the cell, memory the sequence"):
    run = lambda xs: run_backwards(lambda h, x: h + x, jnp.zeros(2), xs, 3)
    scans = count_primitives(run, jnp.ones((5, 2)))["scan"]
    assert scans == 1, "one scan"
    expect_constant_size(run, lambda n: (jnp.ones((n, 2)),), [4, 9, 50])
# %% ex="reverse_align" kind="hidden"
with check("ends", points=1, section="Padding must not move the state"):
    cell = lambda h, x: 2 * h + x
    xs = np.float32([[1], [2], [3]])
    start, rows = jnp.ones(1), jnp.array(xs)
    run = jax.vmap(lambda n: run_backwards(cell, start, rows, n))
    want = [[0, 0, 0], [3, 0, 0], [9, 4, 0], [25, 12, 5]]
    got = run(jnp.arange(4))[..., 0]
    expect_close(got, np.float32(want), name="outputs at lengths 0 to 3")
# %% ex="reverse_align" kind="wrong" fails="aligned padding_is_mute ends"
# the whole row is flipped, so the cell reads the padding first
def run_backwards(cell, h, xs, length):
    tick = lambda h, x: (cell(h, x),) * 2
    ys = lax.scan(tick, h, xs[::-1])[1][::-1]
    return jnp.where(jnp.arange(len(xs))[:, None] < length, ys, 0)
# %% ex="reverse_align" kind="wrong" fails="aligned ends"
# the real part is flipped, and the outputs stay in the order of reading
def run_backwards(cell, h, xs, length):
    t = jnp.arange(len(xs))
    xs = xs[jnp.where(t < length, length - 1 - t, t)]
    ys = lax.scan(lambda h, x: (cell(h, x),) * 2, h, xs)[1]
    return jnp.where(t[:, None] < length, ys, 0)
# %% ex="reverse_align" kind="wrong" fails="aligned ends"
# zeros in place of the padding: the cell still moves while it reads them
def run_backwards(cell, h, xs, length):
    real = (jnp.arange(len(xs)) < length)[:, None]
    clean = jnp.where(real, xs, 0)
    tick = lambda h, x: (cell(h, x),) * 2
    ys = lax.scan(tick, h, clean, reverse=True)[1]
    return jnp.where(real, ys, 0)
# %% ex="reverse_align" kind="alternate"
def run_backwards(cell, h, xs, length):
    t = jnp.arange(len(xs))
    order = jnp.where(t < length, length - 1 - t, t)
    _, ys = lax.scan(lambda h, x: (cell(h, x),) * 2, h, xs[order])
    return jnp.where(t[:, None] < length, ys[order], 0)
# %% [markdown] ex="reverse_align" kind="why"
# Read from the end, the padding comes first, so the first real row must meet the state
# that was passed in. Either the state is frozen while padding is read, or the rows are
# reordered so that padding comes last. Flipping the whole row does neither. Zeros are
# input like any other: most cells move on zeros, because they have biases and
# decay. `reverse=True` puts each output beside its input; after a flip by hand, the
# outputs have to be flipped back, by the same index.
# %% [markdown] ex="chunks_detach" level="core" minutes=12
# ## A gradient that ends at the border
#
# A tiny network with one weight: $h_t = \tanh(a h_{t-1} + x_t)$ from $h_0 = 0$, with the
# loss $\frac1T \sum_t (h_t - y_t)^2$. In PyTorch, truncated backpropagation calls
# `h = h.detach()` after each chunk.
#
# Write `truncated_loss(a, xs, ys, span)`. Its value is the loss of the whole sequence.
# Its gradient by `a` goes back to the start of each chunk of `span` steps and not beyond.
# `span` is a Python number that divides the length. The program does not grow with the
# number of chunks.
# %% ex="chunks_detach" kind="solution"
def truncated_loss(a, xs, ys, span):
    """f32[], f32[T], f32[T], int -> f32[]."""
    ### BEGIN SOLUTION
    def tick(h, step):
        x, y = step
        h = jnp.tanh(a * h + x)
        return h, (h - y) ** 2

    def chunk(h, part):
        return lax.scan(tick, lax.stop_gradient(h), part)

    parts = xs.reshape(-1, span), ys.reshape(-1, span)
    return lax.scan(chunk, jnp.zeros(()), parts)[1].mean()
    ### END SOLUTION
# %% [markdown] ex="chunks_detach" kind="hint"
# A chunk is a scan over its steps. Going from chunk to chunk is a scan too: its carry is
# the state at the border.
# %% [markdown] ex="chunks_detach" kind="hint"
# Reshape both signals to (chunks, span). `lax.stop_gradient` goes around the state where
# a chunk begins; the losses of the steps are returned and averaged at the end.
# %% ex="chunks_detach" kind="check"
with check("value_and_slope", points=2,
           section="A carry across chunks cuts the gradient"):
    xs, ys = np.float32(np.random.default_rng(0).normal(size=(2, 12)))
    for span in (3, 4, 12):
        a, h, slope, loss, grad = 0.8, 0.0, 0.0, 0.0, 0.0
        for t in range(12):
            slope = 0.0 if t % span == 0 else slope
            new = np.tanh(a * h + xs[t])
            slope = (1 - new**2) * (h + a * slope)
            h, loss = new, loss + (new - ys[t]) ** 2 / 12
            grad += 2 * (new - ys[t]) * slope / 12
        fn = jax.jit(jax.value_and_grad(truncated_loss), static_argnums=3)
        value, by_a = fn(jnp.float32(a), jnp.array(xs), jnp.array(ys), span)
        expect_close(value, loss, atol=1e-5, name="loss")
        expect_close(by_a, grad, rtol=1e-4, name=f"gradient for span {span}")
# %% ex="chunks_detach" kind="check"
with check("few_equations", points=1,
           section="Compile time follows the cell, memory the sequence"):
    args_of = lambda n: (jnp.float32(0.5), jnp.ones(n), jnp.ones(n))
    fn = lambda a, x, y: truncated_loss(a, x, y, 5)
    expect_constant_size(fn, args_of, sizes=[5, 10, 50])
# %% ex="chunks_detach" kind="hidden" apart=true
with check("slope_by_inputs", points=1,
           section="A carry across chunks cuts the gradient"):
    def last_chunk(xs):
        ys = jnp.zeros(6)
        zero = truncated_loss(0.9, xs, ys, 3)
        one = truncated_loss(0.9, xs, ys.at[5].set(1), 3)
        return one - zero          # depends on the last state only

    slope = jax.grad(last_chunk)(jnp.full(6, 0.1))
    before = float(jnp.abs(slope[:3]).max())
    assert before == 0, "no slope by the chunk before"
    within = float(jnp.abs(slope[3:]).min())
    assert within > 0, "a slope by each step of the last chunk"
# %% ex="chunks_detach" kind="wrong" fails="value_and_slope slope_by_inputs"
# a scan over chunks that cuts nothing: inside one function, JAX goes on
def truncated_loss(a, xs, ys, span):
    def tick(h, step):
        h = jnp.tanh(a * h + step[0])
        return h, (h - step[1]) ** 2

    chunk = lambda h, part: lax.scan(tick, h, part)
    parts = xs.reshape(-1, span), ys.reshape(-1, span)
    return lax.scan(chunk, jnp.zeros(()), parts)[1].mean()
# %% ex="chunks_detach" kind="wrong" fails="value_and_slope"
# each chunk starts from zero, so the state is lost with the gradient
def truncated_loss(a, xs, ys, span):
    def tick(h, step):
        h = jnp.tanh(a * h + step[0])
        return h, (h - step[1]) ** 2

    chunk = lambda x, y: lax.scan(tick, jnp.zeros(()), (x, y))[1]
    parts = xs.reshape(-1, span), ys.reshape(-1, span)
    return jax.vmap(chunk)(*parts).mean()
# %% ex="chunks_detach" kind="wrong" fails="value_and_slope slope_by_inputs"
# `detach` in every step: nothing is left of the past
def truncated_loss(a, xs, ys, span):
    def tick(h, step):
        h = jnp.tanh(a * lax.stop_gradient(h) + step[0])
        return h, (h - step[1]) ** 2

    return lax.scan(tick, jnp.zeros(()), (xs, ys))[1].mean()
# %% ex="chunks_detach" kind="wrong" fails="few_equations"
# the PyTorch loop over chunks: right, and unrolled
def truncated_loss(a, xs, ys, span):
    def tick(h, step):
        h = jnp.tanh(a * h + step[0])
        return h, (h - step[1]) ** 2

    h, total = jnp.zeros(()), 0.0
    for i in range(0, len(xs), span):
        h, losses = lax.scan(tick, h, (xs[i:i + span], ys[i:i + span]))
        h, total = lax.stop_gradient(h), total + losses.sum()
    return total / len(xs)
# %% ex="chunks_detach" kind="alternate"
def truncated_loss(a, xs, ys, span):
    def tick(h, step):
        t, x, y = step
        h = jnp.where(t % span == 0, lax.stop_gradient(h), h)
        h = jnp.tanh(a * h + x)
        return h, (h - y) ** 2

    steps = jnp.arange(len(xs)), xs, ys
    return jnp.mean(lax.scan(tick, jnp.float32(0), steps)[1])
# %% [markdown] ex="chunks_detach" kind="why"
# `lax.stop_gradient` is `detach`: the identity on the way forward, zero on the way back.
# Around the state at the start of a chunk, it leaves the value alone and drops what the
# weight did before. In every step, it drops all of the past; on a state that starts from
# zero, the value is wrong too. Between two *calls* of a differentiated function none of
# this is needed, since an argument has no past. The outer loop is a scan as well, or the
# program grows with the number of chunks.
# %% [markdown] ex="sample_feed" level="core" minutes=12
# ## Draw, and feed back
#
# A network that writes text draws a token, reads it, draws the next. In PyTorch:
#
# ```python
# for _ in range(n):
#     h, logits = step(h, token)
#     token = torch.multinomial(logits.softmax(-1), 1)
# ```
#
# Write `sample(step, h, first, key, n)`, which returns the `n` tokens that were drawn,
# `first` not included. `step(h, token)` returns the next state and logits, f32[tokens].
# Each token is drawn by `jax.random.categorical` with a key of its own, and no key is
# used twice. `n` is a Python number, and the program does not grow with it.
# %% ex="sample_feed" kind="solution"
def sample(step, h, first, key, n):
    """A state, i32[], a typed key, int -> i32[n]."""
    ### BEGIN SOLUTION
    def tick(carry, key):
        h, token = carry
        h, logits = step(h, token)
        token = jax.random.categorical(key, logits)
        return (h, token), token

    start = h, jnp.int32(first)
    return lax.scan(tick, start, jax.random.split(key, n))[1]
    ### END SOLUTION
# %% [markdown] ex="sample_feed" kind="hint"
# What does the next step need from this one? All of that is the carry. What is different
# in each step, and known before the loop?
# %% [markdown] ex="sample_feed" kind="hint"
# `jax.random.split(key, n)` is an array of keys, and a scan can go through it. The carry
# is the pair of state and token; it must keep its dtypes.
# %% ex="sample_feed" kind="check"
with check("fed_back", points=1,
           section="A cell is one step, and scan runs it"):
    def step(h, token):          # forces the token 2 * token + h, modulo 7
        forced = (2 * token + h) % 7
        return h + 1, jnp.where(jnp.arange(7) == forced, 0.0, -jnp.inf)

    token, want = 3, []
    for h in range(10):
        token = (2 * token + h) % 7
        want.append(token)
    got = sample(step, jnp.int32(0), 3, jax.random.key(0), 10)
    expect_close(got, np.array(want, np.int32), name="tokens")
# %% ex="sample_feed" kind="check"
with check("new_key_each_step", points=1,
           section="A cell is one step, and scan runs it"):
    step = lambda h, token: (h, jnp.zeros(1000))
    fn = lambda key: sample(step, jnp.zeros(1), 0, key, 20)
    keys = jax.random.split(jax.random.key(1))
    expect_keys_used_once(fn, keys[0])
    drawn = np.asarray(jax.vmap(fn)(keys))
    different = len(np.unique(drawn[0]))
    assert different > 15, "more than 15 different tokens of 20, from 1000"
    other = (drawn[0] != drawn[1]).sum()
    assert other > 15, "other tokens from another key"
# %% ex="sample_feed" kind="check"
with check("draws_stay", points=1,
           section="Compile time follows the cell, memory the sequence"):
    def fn(key, like):
        step = lambda h, token: (jnp.sin(h), h)
        return sample(step, jnp.zeros(4), 0, key, like.shape[0])

    args_of = lambda n: (jax.random.key(0), jnp.zeros(n))
    expect_constant_size(fn, args_of, sizes=[2, 7, 50])
# %% ex="sample_feed" kind="hidden"
with check("follows_the_logits", points=1,
           section="A cell is one step, and scan runs it"):
    odds = np.float32([0.1, 0.6, 0.3])
    step = lambda h, token: (h, jnp.array(np.log(odds)))
    fn = jax.vmap(lambda key: sample(step, jnp.zeros(1), 0, key, 5))
    drawn = np.asarray(fn(jax.random.split(jax.random.key(3), 600)))
    share = np.bincount(drawn.ravel(), minlength=3) / drawn.size
    miss = float(np.abs(share - odds).max())
    assert miss < 0.05, "tokens as frequent as the logits say"
# %% ex="sample_feed" kind="wrong" fails="new_key_each_step"
# one key for all steps, as if it were a generator with a state
def sample(step, h, first, key, n):
    def tick(carry, _):
        h, logits = step(*carry)
        token = jax.random.categorical(key, logits)
        return (h, token), token

    return lax.scan(tick, (h, jnp.int32(first)), None, length=n)[1]
# %% ex="sample_feed" kind="wrong" fails="fed_back"
# the keys are right, and every step reads the first token
def sample(step, h, first, key, n):
    def tick(h, key):
        h, logits = step(h, jnp.int32(first))
        return h, jax.random.categorical(key, logits)

    return lax.scan(tick, h, jax.random.split(key, n))[1]
# %% ex="sample_feed" kind="wrong" fails="new_key_each_step follows_the_logits"
# `argmax`, so nothing is drawn
def sample(step, h, first, key, n):
    def tick(carry, _):
        h, logits = step(*carry)
        token = logits.argmax().astype(jnp.int32)
        return (h, token), token

    return lax.scan(tick, (h, jnp.int32(first)), None, length=n)[1]
# %% ex="sample_feed" kind="wrong" fails="draws_stay"
# a Python loop around the draws
def sample(step, h, first, key, n):
    token, tokens = jnp.int32(first), []
    for subkey in jax.random.split(key, n):
        h, logits = step(h, token)
        token = jax.random.categorical(subkey, logits)
        tokens.append(token)
    return jnp.stack(tokens)
# %% ex="sample_feed" kind="alternate"
def sample(step, h, first, key, n):
    def tick(carry, _):
        h, token, key = carry
        h, logits = step(h, token)
        key, subkey = jax.random.split(key)
        token = jax.random.categorical(subkey, logits)
        return (h, token, key), token

    start = (h, jnp.asarray(first, jnp.int32), key)
    return lax.scan(tick, start, length=n)[1]
# %% ex="sample_feed" kind="alternate"
def sample(step, h, first, key, n):
    def tick(carry, t):
        h, logits = step(*carry)
        token = jax.random.categorical(jax.random.fold_in(key, t), logits)
        return (h, token), token

    return lax.scan(tick, (h, jnp.int32(first)), jnp.arange(n))[1]
# %% [markdown] ex="sample_feed" kind="why"
# A scan's body is one program for all steps, so a key that it closes over is the same
# key in each of them, and draws the same noise. What differs from step to step comes in
# as `xs`, or is carried: an array of keys, a key that is split, or the number of the step
# folded into a key. The state and the drawn token both decide what comes next, so both
# are carried, and the token as an int32 from the start.
# %% [markdown] ex="memory_halve" level="core" minutes=8
# ## Half the memory, the same gradient
#
# `heavy_energy` runs a network for many steps. Its gradient keeps all that a step
# computes, until it comes back to that step.
#
# Write `lean_energy(p, h, xs)`: the same loss and the same gradients for any number of
# steps, with a compiled gradient that needs less than half of the temporary memory for
# 256 steps. It stays a loop in the record: the program does not grow with the number of
# steps.
# %% ex="memory_halve"
def heavy_energy(p, h, xs):
    """Energy of the last state; p: {"w": f32[k, k]}, f32[k], f32[steps, k]."""
    def tick(h, x):
        for _ in range(4):
            h = jnp.tanh(jnp.sin(h @ p["w"]) + x)
        return h, None

    h, _ = lax.scan(tick, h, xs)
    return jnp.square(h).sum()
# %% ex="memory_halve" kind="solution"
def lean_energy(p, h, xs):
    """heavy_energy in less memory: the same arguments, the same result."""
    ### BEGIN SOLUTION
    @jax.checkpoint
    def tick(h, x):
        for _ in range(4):
            h = jnp.tanh(jnp.sin(h @ p["w"]) + x)
        return h, None

    h, _ = lax.scan(tick, h, xs)
    return jnp.square(h).sum()
    ### END SOLUTION
# %% [markdown] ex="memory_halve" kind="hint"
# What has to be kept of a step, if the way back may compute the step again?
# %% [markdown] ex="memory_halve" kind="hint"
# `jax.checkpoint` wraps a function and keeps its inputs only. Which function is run many
# times, and has one small state as its input?
# %% ex="memory_halve" kind="check"
with check("half_the_memory", points=2,
           section="Compile time follows the cell, memory the sequence"):
    def plain(p, h, xs):
        def tick(h, x):
            for _ in range(4):
                h = jnp.tanh(jnp.sin(h @ p["w"]) + x)
            return h, None
        return jnp.square(lax.scan(tick, h, xs)[0]).sum()
    args_of = lambda n: ({"w": jnp.eye(16)}, jnp.ones(16), jnp.ones((n, 16)))
    expect_constant_size(lean_energy, args_of, sizes=[4, 16])
    programs = [jax.jit(jax.grad(fn)).lower(*args_of(256)).compile()
                for fn in (lean_energy, plain)]
    lean, full = (c.memory_analysis().temp_size_in_bytes for c in programs)
    share = lean / full
    assert share < 0.5, "less than half of the memory, for 256 steps"
# %% ex="memory_halve" kind="check"
with check("same_gradient", points=1,
           section="Compile time follows the cell, memory the sequence"):
    def plain(p, h, xs):
        for x in xs:
            for _ in range(4):
                h = jnp.tanh(jnp.sin(h @ p["w"]) + x)
        return jnp.square(h).sum()

    rng = np.random.default_rng(0)
    w, xs = (np.float32(rng.normal(size=s)) for s in [(4, 4), (3, 4)])
    args = {"w": w}, np.full(4, 0.1, np.float32), xs / 2
    got, want = (jax.jit(jax.value_and_grad(fn, argnums=(0, 1, 2)))(*args)
                 for fn in (lean_energy, plain))
    expect_close(got[0], want[0], atol=1e-5, name="loss")
    expect_close(got[1], want[1], rtol=1e-3, atol=1e-4, name="gradients")
# %% ex="memory_halve" kind="hidden"
with check("still_a_scan", points=1,
           section="Compile time follows the cell, memory the sequence"):
    p, h = {"w": jnp.ones((3, 3))}, jnp.ones(3)
    args_of = lambda n: (p, h, jnp.ones((n, 3)))
    expect_constant_size(jax.grad(lean_energy), args_of, sizes=[4, 16, 36])
# %% ex="memory_halve" kind="wrong" fails="half_the_memory"
# around everything, as `checkpoint(model, x)`: the way back makes it all again
@jax.checkpoint
def lean_energy(p, h, xs):
    def tick(h, x):
        for _ in range(4):
            h = jnp.tanh(jnp.sin(h @ p["w"]) + x)
        return h, None

    return jnp.square(lax.scan(tick, h, xs)[0]).sum()
# %% ex="memory_halve" kind="wrong" fails="half_the_memory same_gradient"
# `stop_gradient` on the state does save memory, and loses the gradient
def lean_energy(p, h, xs):
    def tick(h, x):
        h = lax.stop_gradient(h)
        for _ in range(4):
            h = jnp.tanh(jnp.sin(h @ p["w"]) + x)
        return h, None

    return jnp.square(lax.scan(tick, h, xs)[0]).sum()
# %% ex="memory_halve" kind="wrong" fails="half_the_memory"
# a policy that keeps everything leaves `checkpoint` nothing to drop
def lean_energy(p, h, xs):
    def tick(h, x):
        for _ in range(4):
            h = jnp.tanh(jnp.sin(h @ p["w"]) + x)
        return h, None

    keep = jax.checkpoint_policies.everything_saveable
    tick = jax.checkpoint(tick, policy=keep)
    return jnp.square(lax.scan(tick, h, xs)[0]).sum()
# %% ex="memory_halve" kind="wrong" fails="half_the_memory still_a_scan"
# each step is checkpointed, and a Python loop makes a copy of it for each row
def lean_energy(p, h, xs):
    @jax.checkpoint
    def tick(h, x):
        for _ in range(4):
            h = jnp.tanh(jnp.sin(h @ p["w"]) + x)
        return h

    for x in xs:
        h = tick(h, x)
    return jnp.square(h).sum()
# %% ex="memory_halve" kind="alternate"
def lean_energy(p, h, xs):
    def tick(h, x):
        for _ in range(4):
            h = jnp.tanh(jnp.sin(h @ p["w"]) + x)
        return h, None

    def chunk(h, part):
        return lax.scan(tick, h, part)

    size = 4 if len(xs) % 4 == 0 else 1
    parts = xs.reshape(-1, size, xs.shape[1])
    h, _ = lax.scan(jax.checkpoint(chunk), h, parts)
    return jnp.square(h).sum()
# %% [markdown] ex="memory_halve" kind="why"
# A checkpointed step keeps what goes into it, a state and a row, and computes its eight
# intermediate results again on the way back, one step at a time. Around the whole
# function there is nothing to gain: the way back starts by running everything again, with
# all residuals, and only then goes through them. `stop_gradient` needs little memory
# because it drops the gradient itself. Chunks of steps may save more, and need a rest
# of their own where they do not divide the length.
# %% [markdown] ex="layers_stack" level="stretch" minutes=15
# ## Deep in one program
#
# A stack of equal layers in PyTorch is `nn.GRU(width, width, num_layers=L)`, or a
# `ModuleList` and a loop. Here the weights of all layers come stacked: each array in
# `layers` has a leading axis of $L$.
#
# Write `run_deep(cell, layers, xs)`. `cell(p, h, x)` returns the next state, which is
# also the output; `p` holds one layer's weights. The outputs of each layer are the inputs
# of the next one. All states start at 0, and have the shape and dtype of one row of `xs`.
#
# It returns the last states of all layers, `[L, width]`, and the outputs of the last
# layer, `[steps, width]`. The program grows neither with the steps nor with $L$.
# %% ex="layers_stack" kind="solution"
def run_deep(cell, layers, xs):
    """Weights [L, ...], f32[steps, width] -> states and outputs, as above."""
    ### BEGIN SOLUTION
    def layer(xs, p):
        def tick(h, x):
            h = cell(p, h, x)
            return h, h

        last, ys = lax.scan(tick, jnp.zeros_like(xs[0]), xs)
        return ys, last

    ys, states = lax.scan(layer, xs, layers)
    return states, ys
    ### END SOLUTION
# %% [markdown] ex="layers_stack" kind="hint"
# One layer is a scan over time. What does a layer hand to the next one, and what does it
# leave behind?
# %% [markdown] ex="layers_stack" kind="hint"
# A scan over `layers` gets the weights of one layer in each step, as a tree. Its carry
# is a whole sequence; what it stacks are the last states.
# %% ex="layers_stack" kind="check"
with check("three_layers", points=1,
           section="Ported weights need the right gates"):
    rng = np.random.default_rng(0)
    w, b = np.float32(rng.normal(size=(3, 2, 2))), np.float32([1, -1, 0.5])
    xs = np.float32(rng.normal(size=(5, 2)))
    cell = lambda p, h, x: jnp.tanh(x @ p["w"] + p["b"] - 0.5 * h)
    ys, lasts = xs, []
    for i in range(3):
        h, below, ys = np.zeros(2, np.float32), ys, []
        for x in below:
            h = np.tanh(x @ w[i] + b[i] - 0.5 * h)
            ys.append(h)
        lasts.append(h)
    got = run_deep(cell, {"w": jnp.array(w), "b": jnp.array(b)}, jnp.array(xs))
    expect_close(tuple(got), (np.stack(lasts), np.stack(ys)), atol=1e-5)
# %% ex="layers_stack" kind="check"
with check("depth_stays", points=1,
           section="Compile time follows the cell, memory the sequence"):
    cell = lambda p, h, x: jnp.sin(h + x * p)
    fn = lambda layers, xs: run_deep(cell, layers, xs)
    deeper = lambda n: (jnp.ones((n, 2)), jnp.ones((4, 2)))
    longer = lambda n: (jnp.ones((3, 2)), jnp.ones((n, 2)))
    expect_constant_size(fn, deeper, sizes=[2, 5, 30])
    expect_constant_size(fn, longer, sizes=[2, 5, 30])
# %% ex="layers_stack" kind="hidden"
with check("one_layer_one_step", points=1,
           section="Ported weights need the right gates"):
    cell = lambda p, h, x: 2 * h + p * x
    for layers, steps in (([3.0], 1), ([3.0], 3), ([3.0, 2.0], 1)):
        got = run_deep(cell, jnp.array(layers), jnp.ones((steps, 1)))
        ys, lasts = np.ones(steps), []
        for p in layers:
            h, below, ys = 0.0, ys, []
            for x in below:
                h = 2 * h + p * x
                ys.append(h)
            lasts.append([h])
        name = f"results for {len(layers)} layers, {steps} steps"
        want = np.float32(lasts), np.float32(ys)[:, None]
        expect_close(tuple(got), want, name=name)
# %% ex="layers_stack" kind="wrong" fails="depth_stays"
# a Python loop over the layers, as over a ModuleList
def run_deep(cell, layers, xs):
    states = []
    for i in range(len(jax.tree.leaves(layers)[0])):
        p = jax.tree.map(lambda leaf: leaf[i], layers)
        tick = lambda h, x: (cell(p, h, x),) * 2
        last, xs = lax.scan(tick, jnp.zeros_like(xs[0]), xs)
        states.append(last)
    return jnp.stack(states), xs
# %% ex="layers_stack" kind="wrong" fails="three_layers one_layer_one_step"
# `vmap` over the layers: each of them reads the input, not the layer below
def run_deep(cell, layers, xs):
    def layer(p):
        tick = lambda h, x: (cell(p, h, x),) * 2
        return lax.scan(tick, jnp.zeros_like(xs[0]), xs)

    states, ys = jax.vmap(layer)(layers)
    return states, ys[-1]
# %% ex="layers_stack" kind="wrong" fails="three_layers one_layer_one_step"
# the state goes on from layer to layer, as if time did not start again
def run_deep(cell, layers, xs):
    def layer(carry, p):
        h, xs = carry
        last, ys = lax.scan(lambda h, x: (cell(p, h, x),) * 2, h, xs)
        return (last, ys), last

    (_, ys), states = lax.scan(layer, (jnp.zeros_like(xs[0]), xs), layers)
    return states, ys
# %% ex="layers_stack" kind="alternate"
def run_deep(cell, layers, xs):
    def tick(states, x):
        def layer(x, args):
            h = cell(*args, x)
            return h, h

        y, states = lax.scan(layer, x, (layers, states))
        return states, y

    depth = jax.tree.leaves(layers)[0].shape[0]
    start = jnp.zeros((depth, *xs.shape[1:]), xs.dtype)
    return lax.scan(tick, start, xs)
# %% [markdown] ex="layers_stack" kind="why"
# What is carried from layer to layer is a sequence, so the outer carry is a whole array of
# outputs, and the last states are what it leaves behind. The order of the loops may also
# be swapped: for each step, a scan through the layers, with all states as carry. That is
# how a network runs on a stream. `vmap` treats layers as independent, which they aren't.
# A Python loop compiles one body for each layer, which shows when there are dozens.
