# %% [markdown]
# # Trace once, run many
#
# Eight exercises on what `jax.jit` records, when it records again, and what the
# record leaves out. Most checks look at how your function was traced; the right
# numbers alone are not enough. They go with the chapter of the same name.
# %%
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from tracecheck import check, counting, expect_close, expect_grad
from tracecheck import expect_donated, expect_pure, expect_traces, jaxpr_of
# %% [markdown] ex="jaxpr_read" level="warm-up" minutes=6
# ## Read what was recorded
#
# One Python function left both of these records (parameters of `reduce_sum` and
# `reduce_max` are shortened):
#
# ```text
# { lambda ; a:f32[4]. let
#     b:f32[4] = tanh a
#     c:f32[4] = div b 2.0:f32[]
#     d:f32[] = reduce_sum[axes=(0,)] c
#   in (d,) }
# { lambda ; a:f32[2,9]. let
#     b:f32[9] = reduce_max[axes=(0,)] a
#     c:f32[9] = tanh b
#     d:f32[9] = div c 3.0:f32[]
#     e:f32[] = reduce_sum[axes=(0,)] d
#   in (e,) }
# ```
#
# Write that function. For these two shapes it records the same equations in the same
# order. Other vectors and matrices are treated in the same way; the divisor is the
# square root of the length of the vector that is divided.
# %% ex="jaxpr_read" kind="solution"
def recorded(x):
    """The function behind the two records: f32[n] or f32[m, n] -> f32[]."""
    ### BEGIN SOLUTION
    if x.ndim == 2:
        x = x.max(axis=0)
    return jnp.sum(jnp.tanh(x) / math.sqrt(x.shape[0]))
    ### END SOLUTION
# %% [markdown] ex="jaxpr_read" kind="hint"
# Each equation is one `jnp` operation. What differs between the two records was
# decided in Python, by something that Python can see during a trace.
# %% [markdown] ex="jaxpr_read" kind="hint"
# 2.0 belongs to length 4 and 3.0 to length 9. No equation computes them, so they were
# ordinary Python numbers when the division was recorded.
# %% ex="jaxpr_read" kind="check"
with check("same_equations", points=1,
           section="Python runs once, and JAX records what it did"):
    common = "tanh div reduce_sum"
    for shape in [(4,), (25,), (2, 9), (3, 16)]:
        names = common if len(shape) == 1 else "reduce_max " + common
        eqns = jaxpr_of(recorded, jnp.ones(shape)).eqns
        found = " ".join(eqn.primitive.name for eqn in eqns)
        assert found == names, f"the equations `{names}` for {shape}"
# %% ex="jaxpr_read" kind="check"
with check("same_values", points=1,
           section="A jitted function sees shapes, not values"):
    roots = {(4,): 2, (25,): 5, (2, 9): 3, (3, 16): 4}
    for shape, root in roots.items():
        x = np.float32(np.linspace(-2, 1, math.prod(shape))).reshape(shape)
        row = x if x.ndim == 1 else x.max(axis=0)
        want, name = np.tanh(row).sum() / root, f"result for {shape}"
        expect_close(recorded(jnp.array(x)), want, name=name)
# %% ex="jaxpr_read" kind="hidden" apart=true
with check("other_shapes", points=1,
           section="A jitted function sees shapes, not values"):
    for shape in [(10,), (1,), (7, 49), (1, 5)]:
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        row = x if x.ndim == 1 else x.max(axis=0)
        want = np.tanh(row).sum() / np.sqrt(np.float32(len(row)))
        expect_close(recorded(jnp.array(x)), want, name=f"result for {shape}")
# %% ex="jaxpr_read" kind="wrong" fails="same_equations"
# every operation is written with the array library, as `torch.sqrt` would be
def recorded(x):
    if x.ndim == 2:
        x = x.max(axis=0)
    return jnp.sum(jnp.tanh(x) / jnp.sqrt(x.shape[0]))
# %% ex="jaxpr_read" kind="wrong" fails="same_equations"
# one path for all ranks, by `unsqueeze`: here, reshaping is recorded
def recorded(x):
    x = x.reshape(-1, x.shape[-1]).max(axis=0)
    return jnp.sum(jnp.tanh(x) / math.sqrt(x.shape[0]))
# %% ex="jaxpr_read" kind="wrong" fails="same_values other_shapes"
# the divisor is read from the record of the vector and kept for the matrix
def recorded(x):
    if x.ndim == 2:
        x = x.max(axis=0)
    return jnp.sum(jnp.tanh(x) / 2.0)
# %% ex="jaxpr_read" kind="wrong" fails="same_values other_shapes"
# both numbers are copied from the records, one for each rank
def recorded(x):
    if x.ndim == 1:
        return jnp.sum(jnp.tanh(x) / 2.0)
    return jnp.sum(jnp.tanh(x.max(axis=0)) / 3.0)
# %% ex="jaxpr_read" kind="alternate"
def recorded(x):
    vector = jnp.max(x, axis=0) if len(x.shape) > 1 else x
    squashed = jax.lax.tanh(vector) / len(vector) ** 0.5
    return squashed.sum()
# %% [markdown] ex="jaxpr_read" kind="why"
# A record holds array operations and nothing else. The `if` on `x.ndim` and the root
# of `x.shape[0]` ran in Python, on plain numbers, so the first left no trace and the
# second left a literal. `jnp.sqrt` of a plain integer gives the same number, but it
# is an operation: recorded, and left to XLA to fold. Reshaping both inputs to one rank
# also works; it records what Python could have decided. A literal that fits one shape
# is the opposite mistake: it was a value of that trace, not a constant of the
# function.
# %% [markdown] ex="state_return" level="warm-up" minutes=7
# ## Return what you used to change
#
# In PyTorch this would be a module with two buffers and a `print` in `forward`:
#
# ```python
# self.steps += 1
# self.mean += (x.mean(0) - self.mean) / self.steps
# print("step", self.steps.item())
# return x - self.mean
# ```
#
# Write `centre` as a pure, compiled function. It takes the state and a batch, and
# returns the new state and the centred batch. Nothing outside of it changes, and the
# state that was passed in stays as it was. Batches of one shape share one trace. In
# every call, one line is printed: `step 1`, `step 2`, and so on.
# %% ex="state_return" kind="solution"
@jax.jit
def centre(state, x):
    """Subtract the running mean of all batches so far, this one included.

    Args:
        state: {"mean": f32[d], "steps": i32[]}, both zero at first.
        x: f32[n, d]

    Returns:
        The new state, of the same structure, and f32[n, d].
    """
    ### BEGIN SOLUTION
    steps = state["steps"] + 1
    mean = state["mean"] + (x.mean(axis=0) - state["mean"]) / steps
    jax.debug.print("step {}", steps)
    return {"mean": mean, "steps": steps}, x - mean
    ### END SOLUTION
# %% [markdown] ex="state_return" kind="hint"
# What `forward` reads comes in as an argument, what it writes goes out as a result.
# Give the new values names of their own.
# %% [markdown] ex="state_return" kind="hint"
# A `print` in Python runs while tracing. `jax.debug.print` is recorded; it fills in
# the braces of its text itself: `jax.debug.print("n is {}", n)`.
# %% ex="state_return" kind="check"
with check("state_comes_back", points=1,
           section="What is not an argument is frozen into the program"):
    rng = np.random.default_rng(0)
    batches = rng.normal(size=(3, 5, 2)).astype(np.float32)
    state = {"mean": jnp.zeros(2), "steps": jnp.int32(0)}
    for n, batch in enumerate(batches, 1):
        state, centred = centre(state, batch)
        mean = batches[:n].mean(axis=(0, 1))
        want = {"mean": mean, "steps": np.int32(n)}
        expect_close(state, want, atol=1e-5, name="state")
        expect_close(centred, batch - mean, atol=1e-5, name="centred")
# %% ex="state_return" kind="check"
with check("prints_in_every_call", points=1,
           section="Python runs once, and JAX records what it did"):
    import contextlib
    import io

    state, said = {"mean": jnp.zeros(2), "steps": jnp.int32(0)}, io.StringIO()
    with contextlib.redirect_stdout(said):
        for batch in np.ones((3, 4, 2), np.float32):
            state, _ = centre(state, batch)
            jax.effects_barrier()
    printed = said.getvalue().splitlines()
    want = ["step 1", "step 2", "step 3"]
    assert printed == want, "in three calls, the lines step 1, step 2, step 3"
# %% ex="state_return" kind="check"
with check("nothing_else_changes", points=1,
           section="What is not an argument is frozen into the program"):
    means = jnp.arange(6.0).reshape(3, 2)
    states = [{"mean": m, "steps": jnp.int32(n)} for n, m in enumerate(means)]
    calls = [(state, jnp.ones((5, 2))) for state in states]
    expect_pure(centre, calls)
    expect_traces(centre, calls, at_most=1)
# %% ex="state_return" kind="hidden"
with check("resumes_anywhere", points=1,
           section="What is not an argument is frozen into the program"):
    state = {"mean": jnp.array([2.0, -1.0]), "steps": jnp.int32(4)}
    means = {1: np.float32([3.0, 0.0]), 2: np.float32([3.2, -0.4])}
    for rows, mean in means.items():
        batch = np.float32([[7.0, 4.0], [9.0, 0.0]])[:rows]
        got, centred = centre(state, batch)
        want = {"mean": mean, "steps": np.int32(5)}
        expect_close(got, want, name=f"state after {rows} rows")
        expect_close(centred, batch - mean, atol=1e-5, name="centred")
# %% ex="state_return" kind="wrong" fails="state_comes_back prints_in_every_call nothing_else_changes resumes_anywhere"
# the buffers stay where they were, outside of the function
running = {"mean": 0.0, "steps": 0}

@jax.jit
def centre(state, x):
    running["steps"] += 1
    running["mean"] += (x.mean(axis=0) - running["mean"]) / running["steps"]
    print("step", running["steps"])
    return state, x - running["mean"]
# %% ex="state_return" kind="wrong" fails="prints_in_every_call nothing_else_changes"
# pure in its values, but the print is still Python's
@jax.jit
def centre(state, x):
    steps = state["steps"] + 1
    mean = state["mean"] + (x.mean(axis=0) - state["mean"]) / steps
    print("step", steps)
    return {"mean": mean, "steps": steps}, x - mean
# %% ex="state_return" kind="wrong" fails="prints_in_every_call"
# an f-string, formatted by Python during the trace
@jax.jit
def centre(state, x):
    steps = state["steps"] + 1
    mean = state["mean"] + (x.mean(axis=0) - state["mean"]) / steps
    jax.debug.print(f"step {steps}")
    return {"mean": mean, "steps": steps}, x - mean
# %% ex="state_return" kind="alternate"
def _centre(state, x):
    steps = state["steps"] + jnp.int32(1)
    mean = state["mean"] * (steps - 1) / steps + jnp.mean(x, 0) / steps
    jax.debug.callback(lambda n: print("step", n), steps)
    return dict(state, mean=mean, steps=steps), x - mean

centre = jax.jit(_centre)
# %% [markdown] ex="state_return" kind="why"
# A compiled function sees its arguments and gives its results; Python around them
# runs once, in the trace. Buffers outside are therefore read once and written once,
# with a tracer, and every later call of that shape repeats the first one's state. The
# same goes for `print`. `jax.debug.print` is an operation of the record, so it runs
# in every call, but its text must reach it unformatted: an f-string is finished by
# Python before JAX sees it, and prints the tracer.
# %% [markdown] ex="step_compile" level="core" minutes=8
# ## Compile the whole step
#
# Write `make_step(momentum)`, which returns `step(params, velocity, lr, x, y)`. With
# the gradients $g$ of `loss_fn`, a step computes $v \leftarrow \mu v + g$ and then
# $p \leftarrow p - \eta v$ for every array in `params`, where $\mu$ is `momentum` and
# $\eta$ is `lr`. It returns the new `params`, the new `velocity` and the loss before
# the step. `jax.value_and_grad(loss_fn)(params, x, y)` also works when `params` is a
# dictionary: the gradients come as a dictionary with the same keys.
#
# Loss, gradients and update are one compiled program. A schedule changes `lr` in
# every step; that must not trace again.
# %% ex="step_compile"
def loss_fn(params, x, y):
    """Mean squared error of a linear model; x: f32[n, d], y: f32[n]."""
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)
# %% ex="step_compile" kind="solution"
def make_step(momentum):
    """Return step(params, velocity, lr, x, y) -> (params, velocity, loss)."""
    ### BEGIN SOLUTION
    @jax.jit
    def step(params, velocity, lr, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
        return params, velocity, loss

    return step
    ### END SOLUTION
# %% [markdown] ex="step_compile" kind="hint"
# Write the step as an ordinary function first and run it. Then ask where `jax.jit`
# goes, and how often the line that holds it runs.
# %% [markdown] ex="step_compile" kind="hint"
# `jax.value_and_grad(loss_fn)` gives loss and gradients in one go, and
# `jax.tree.map(f, a, b)` applies `f` to the arrays of two dictionaries, pair by pair.
# %% [markdown] ex="step_compile" kind="hint"
# Decorate the inner function. The loss stays an array: a Python number does not exist
# while tracing. `lr` is an ordinary argument.
# %% ex="step_compile" kind="check"
with check("two_steps", points=1,
           section="Jit the widest region, once"):
    x = np.array([[1, 2], [0, 1], [-1, 1]], np.float32)
    y, w, b = np.array([1, -1, 0], np.float32), np.zeros(2), np.zeros(())
    vw, vb, step = np.zeros(2), np.zeros(()), make_step(0.5)
    params, velocity = ({"w": jnp.zeros(2), "b": jnp.zeros(())} for _ in "pv")
    for lr in (0.1, 0.05):
        miss = x @ w + b - y
        want_loss = (miss**2).mean()
        vw, vb = 0.5 * vw + 2 * x.T @ miss / 3, 0.5 * vb + 2 * miss.mean()
        w, b = w - lr * vw, b - lr * vb
        params, velocity, loss = step(params, velocity, lr, x, y)
        expect_close(params, {"w": w, "b": b}, name="params")
        expect_close(velocity, {"w": vw, "b": vb}, name="velocity")
        expect_close(loss, want_loss, name="loss")
# %% ex="step_compile" kind="check"
with check("one_program", points=1,
           section="Jit the widest region, once"):
    step, params = make_step(0.9), {"w": jnp.zeros(2), "b": jnp.zeros(())}
    called = jax.make_jaxpr(lambda p, v, x, y: step(p, v, 0.1, x, y))
    record = called(params, params, jnp.ones((3, 2)), jnp.ones(3))
    outside = [eqn for eqn in record.eqns if eqn.primitive.name != "jit"]
    operations, programs = len(outside), len(record.eqns)
    assert operations == 0, "no operation outside of the compiled step"
    assert programs == 1, "one compiled program for the whole step"
# %% ex="step_compile" kind="check"
with check("rates_share_a_trace", points=1,
           section="The cache key is what the trace could see"):
    params = {"w": jnp.zeros(2), "b": jnp.zeros(())}
    data = jnp.ones((3, 2)), jnp.ones(3)
    calls = [(params, params, lr, *data) for lr in (0.1, 0.1, 0.05, 0.01)]
    expect_traces(make_step(0.9), calls, at_most=1)
# %% ex="step_compile" kind="hidden"
with check("other_momentum", points=1,
           section="Jit the widest region, once"):
    params, velocity = ({"w": jnp.ones(4), "b": jnp.zeros(())} for _ in "pv")
    batch = jnp.eye(4), jnp.zeros(4)
    params, velocity, loss = make_step(0.0)(params, velocity, 1.0, *batch)
    want = {"w": np.full(4, 0.5), "b": np.float32(-2.0)}
    expect_close(params, want, name="params")
    expect_close(velocity["b"], 2.0, name="velocity['b']")
    expect_close(loss, 1.0, name="loss")
# %% ex="step_compile" kind="wrong" fails="one_program"
# only the gradient is compiled; the update runs operation by operation
def make_step(momentum):
    grad_fn = jax.jit(jax.value_and_grad(loss_fn))

    def step(params, velocity, lr, x, y):
        loss, grads = grad_fn(params, x, y)
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
        return params, velocity, loss

    return step
# %% ex="step_compile" kind="wrong" fails="rates_share_a_trace"
# jit is applied inside the step, to a function that is new in every call
def make_step(momentum):
    def step(params, velocity, lr, x, y):
        @jax.jit
        def update(params, velocity, x, y):
            loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
            velocity = jax.tree.map(
                lambda v, g: momentum * v + g, velocity, grads
            )
            params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
            return params, velocity, loss

        return update(params, velocity, x, y)

    return step
# %% ex="step_compile" kind="wrong" fails="rates_share_a_trace"
# the learning rate is a setting, so it is made static
def make_step(momentum):
    @jax.jit(static_argnames="lr")
    def step(params, velocity, lr, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
        return params, velocity, loss

    return step
# %% ex="step_compile" kind="wrong" fails="two_steps one_program rates_share_a_trace other_momentum"
# `loss.item()` in the step, as in a training loop
def make_step(momentum):
    @jax.jit
    def step(params, velocity, lr, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
        return params, velocity, loss.item()

    return step
# %% ex="step_compile" kind="alternate"
@jax.jit
def _step(momentum, params, velocity, lr, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    velocity = {k: momentum * velocity[k] + grads[k] for k in grads}
    params = {k: params[k] - lr * velocity[k] for k in params}
    return params, velocity, loss


def make_step(momentum):
    return partial(_step, momentum)
# %% ex="step_compile" kind="alternate"
def make_step(momentum):
    def step(params, velocity, lr, x, y):
        loss, grads = jax.jit(jax.value_and_grad(loss_fn))(params, x, y)
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
        return params, velocity, loss

    return jax.jit(step, donate_argnames=("params", "velocity"))
# %% [markdown] ex="step_compile" kind="why"
# The compiler merges and deletes within one program only. With the gradient alone
# compiled, the numbers are right and each line of the update is a program of its own,
# for every array. `momentum` may be closed over, because one `make_step` has one
# momentum; `lr` changes, so it is an argument, and as an ordinary one its value is
# not in the key. A static rate compiles once for each value of the schedule. A jit
# inside the step belongs to a function that is born with the call, so it never finds
# its program again. `.item()` needs the number now; return the array and read it
# outside.
# %% [markdown] ex="static_choose" level="core" minutes=10
# ## Choose what is static
#
# `frames` cuts a signal into overlapping windows. It runs without `jax.jit`, and
# under a plain `jax.jit`, as it stands, it fails. In use, `width` and `centred` take
# a few values; `gain` comes from a slider and takes any.
#
# Mend it so that it stays compiled and gives what it gave before. For one signal, all
# gains share a trace; only a new `width` or another `centred` may cost one more.
# `gain` is data: it may be a Python number or an array, also under `jax.vmap`.
# %% ex="static_choose" kind="starter"
@jax.jit
def frames(signal, width, gain, centred):
    """Overlapping windows of a signal, clipped to [-1, 1] when amplified.

    Args:
        signal: f32[n]
        width: int, the length of a window
        gain: float; only a gain above 1 has an effect
        centred: bool, whether to subtract the mean of each window

    Returns:
        f32[n - width + 1, width]
    """
    starts = jnp.arange(signal.shape[0] - width + 1)
    windows = signal[starts[:, None] + jnp.arange(width)]
    if centred:
        windows = windows - windows.mean(axis=1, keepdims=True)
    if gain > 1.0:
        windows = jnp.clip(gain * windows, -1.0, 1.0)
    return windows
# %% ex="static_choose" kind="solution"
@jax.jit(static_argnames=("width", "centred"))
def frames(signal, width, gain, centred):
    """Overlapping windows of a signal, clipped to [-1, 1] when amplified.

    Args:
        signal: f32[n]
        width: int, the length of a window
        gain: float; only a gain above 1 has an effect
        centred: bool, whether to subtract the mean of each window

    Returns:
        f32[n - width + 1, width]
    """
    starts = jnp.arange(signal.shape[0] - width + 1)
    windows = signal[starts[:, None] + jnp.arange(width)]
    if centred:
        windows = windows - windows.mean(axis=1, keepdims=True)
    return jnp.where(gain > 1.0, jnp.clip(gain * windows, -1.0, 1.0), windows)
# %% [markdown] ex="static_choose" kind="hint"
# Ask of each argument: does the trace need its value to know a shape or which lines
# to record? And how many values will it ever take?
# %% [markdown] ex="static_choose" kind="hint"
# `width` is part of a shape and `centred` is a flag with two values. `gain` has no
# end of values, so the line that branches on it has to change, not its role.
# %% [markdown] ex="static_choose" kind="hint"
# Name the static arguments in `@jax.jit(static_argnames=...)`, and record both sides
# of the choice by gain with `jnp.where`.
# %% ex="static_choose" kind="check"
with check("same_windows", points=1,
           section="A jitted function sees shapes, not values"):
    signal = np.array([0.1, 0.4, -0.2, 0.8, -0.6], np.float32)
    settings = [(2, 0.5, False), (3, 2.0, False), (3, 4.0, True)]
    for width, gain, centred in settings:
        want = np.lib.stride_tricks.sliding_window_view(signal, width)
        if centred:
            want = want - want.mean(axis=1, keepdims=True)
        if gain > 1:
            want = np.clip(gain * want, -1, 1)
        expect_close(frames(jnp.array(signal), width, gain, centred), want)
# %% ex="static_choose" kind="check"
with check("gains_share_a_trace", points=1,
           section="The cache key is what the trace could see"):
    signal = jnp.linspace(-1, 1, 9)
    one = [(signal, 3, gain, False) for gain in (0.5, 1.0, 1.5, 2.0)]
    expect_traces(frames, one, at_most=1)
    calls = [(signal, width, gain, centred) for width in (2, 4)
             for centred in (True, False) for gain in (0.5, 2.0)]
    expect_traces(frames, calls, at_most=4)
# %% ex="static_choose" kind="check"
with check("gain_is_data", points=1,
           section="A jitted function sees shapes, not values"):
    signal, gains = jnp.array([0.25, -0.5, 0.75]), jnp.array([0.5, 2.0, 3.0])
    got = jax.vmap(lambda gain: frames(signal, 2, gain, False))(gains)
    plain = np.array([[0.25, -0.5], [-0.5, 0.75]], np.float32)
    want = [plain, np.clip(2 * plain, -1, 1), np.clip(3 * plain, -1, 1)]
    expect_close(got, np.stack(want), name="windows for three gains")
    calls = [(signal, 2, gain, False) for gain in gains]
    expect_traces(frames, calls, at_most=1)
# %% ex="static_choose" kind="hidden"
with check("one_window", points=1,
           section="A jitted function sees shapes, not values"):
    signal = np.array([0.5, -1.0, 2.0, 0.5], np.float32)
    for gain, centred in [(1.0, True), (3.0, True), (-2.0, False)]:
        want = signal[None] - 0.5 if centred else signal[None]
        want = np.clip(gain * want, -1, 1) if gain > 1 else want
        got = frames(jnp.array(signal), 4, jnp.float32(gain), centred)
        expect_close(got, want, name=f"windows at gain {gain}")
# %% ex="static_choose" kind="wrong" fails="gains_share_a_trace gain_is_data one_window"
# everything that is not an image or a weight is made static
@jax.jit(static_argnames=("width", "gain", "centred"))
def frames(signal, width, gain, centred):
    starts = jnp.arange(signal.shape[0] - width + 1)
    windows = signal[starts[:, None] + jnp.arange(width)]
    if centred:
        windows = windows - windows.mean(axis=1, keepdims=True)
    if gain > 1.0:
        windows = jnp.clip(gain * windows, -1.0, 1.0)
    return windows
# %% ex="static_choose" kind="wrong" fails="same_windows gains_share_a_trace gain_is_data one_window"
# numbers are data and only flags are static
@jax.jit(static_argnames="centred")
def frames(signal, width, gain, centred):
    starts = jnp.arange(signal.shape[0] - width + 1)
    windows = signal[starts[:, None] + jnp.arange(width)]
    if centred:
        windows = windows - windows.mean(axis=1, keepdims=True)
    return jnp.where(gain > 1.0, jnp.clip(gain * windows, -1.0, 1.0), windows)
# %% ex="static_choose" kind="wrong" fails="same_windows gains_share_a_trace gain_is_data one_window"
# the right arguments are static, and `if gain > 1.0` stays
@jax.jit(static_argnames=("width", "centred"))
def frames(signal, width, gain, centred):
    starts = jnp.arange(signal.shape[0] - width + 1)
    windows = signal[starts[:, None] + jnp.arange(width)]
    if centred:
        windows = windows - windows.mean(axis=1, keepdims=True)
    if gain > 1.0:
        windows = jnp.clip(gain * windows, -1.0, 1.0)
    return windows
# %% ex="static_choose" kind="wrong" fails="gain_is_data"
# Python chooses by gain before the compiled part, as `if` does in eager code
@jax.jit(static_argnames=("width", "centred"))
def _cut(signal, width, gain, bound, centred):
    starts = jnp.arange(signal.shape[0] - width + 1)
    windows = signal[starts[:, None] + jnp.arange(width)]
    if centred:
        windows = windows - windows.mean(axis=1, keepdims=True)
    return jnp.clip(gain * windows, -bound, bound)


def frames(signal, width, gain, centred):
    if gain > 1.0:
        return _cut(signal, width, gain, 1.0, centred)
    return _cut(signal, width, 1.0, math.inf, centred)
# %% ex="static_choose" kind="alternate"
@jax.jit(static_argnums=1)
def frames(signal, width, gain, centred):
    count = len(signal) - width + 1
    windows = jnp.stack([signal[i : i + count] for i in range(width)], axis=1)
    windows -= jnp.where(centred, windows.mean(axis=1, keepdims=True), 0.0)
    loud = jnp.clip(gain * windows, -1.0, 1.0)
    return jax.lax.cond(gain > 1.0, lambda: loud, lambda: windows)
# %% [markdown] ex="static_choose" kind="why"
# A static argument costs one program per value, so it suits what decides a shape or
# selects code, and takes few values: `width` must be static, `centred` may be. `gain`
# has no end of values and shapes nothing. With a static gain each position of the
# slider compiles, an array is refused because it can't be hashed, and `jax.vmap` has
# nothing to map over. Deciding in Python before the compiled part keeps the traces
# few, but `bool()` needs the number: it waits for the device, and fails inside any
# transformation. `jnp.where` records the choice itself.
# %% [markdown] ex="mask_average" level="core" minutes=10
# ## Average what is valid
#
# The PyTorch line is `-p[mask].log().mean()`. Write `masked_nll(p, mask)`, the same
# mean of $-\log p$ over the valid entries, so that it runs with and without
# `jax.jit`, and under `jax.grad`.
#
# Entries that are not valid hold anything: 0, negative numbers, `inf`, `nan`. They
# must show neither in the value nor in the gradient, where their place is 0. When
# nothing is valid, value and gradient are 0.
# %% ex="mask_average" kind="solution"
def masked_nll(p, mask):
    """Mean of -log(p) where mask is true; f32[n], bool[n] -> f32[]."""
    ### BEGIN SOLUTION
    safe = jnp.where(mask, p, 1.0)
    return -jnp.log(safe).sum() / jnp.maximum(mask.sum(), 1)
    ### END SOLUTION
# %% [markdown] ex="mask_average" kind="hint"
# How many entries a mask picks is a value, and a shape can't depend on it. Keep all
# entries, and give those that don't count a number that does no harm.
# %% [markdown] ex="mask_average" kind="hint"
# The gradient visits the side that `jnp.where` did not choose, and 0 times `inf` is
# `nan`. So the harmless number must stand there before the logarithm, not after it.
# %% [markdown] ex="mask_average" kind="hint"
# Whose logarithm is 0? The mean divides by the number of valid entries; that number
# can be 0, and then the sum is 0 as well.
# %% ex="mask_average" kind="check"
with check("clean_value", points=1,
           section="A new shape is a new program"):
    p = np.array([0.5, 0.0, 0.25, np.inf, np.nan, -1.0, 0.8], np.float32)
    mask = np.array([1, 0, 1, 0, 0, 0, 1], bool)
    want = -np.log(p[mask]).mean()
    compiled = jax.jit(masked_nll)
    p, mask, none = jnp.array(p), jnp.array(mask), jnp.zeros(7, bool)
    expect_close(compiled(p, mask), want, name="compiled mean")
    expect_close(masked_nll(p, mask), want, name="eager mean")
    expect_close(compiled(p, none), 0.0, name="mean of no entries")
# %% ex="mask_average" kind="check"
with check("clean_gradient", points=2,
           section="A new shape is a new program"):
    mask, none = np.array([0, 1, 0, 1, 0, 1], bool), np.zeros(6, bool)
    want = np.array([0, -1 / 0.5, 0, -1 / 0.25, 0, -1 / 0.8], np.float32) / 3
    for filler in (0.0, -1.0, np.inf, np.nan):
        p = [filler, 0.5, filler, 0.25, filler, 0.8]
        p = jnp.array(p, jnp.float32)
        expect_grad(jax.jit(masked_nll), (p, mask), want)
        expect_grad(jax.jit(masked_nll), (p, none), np.zeros(6, np.float32))
# %% ex="mask_average" kind="hidden" apart=true
with check("all_or_nothing", points=1,
           section="A new shape is a new program"):
    p, none, every = jnp.array([0.5, 0.2]), np.zeros(2, bool), np.ones(2, bool)
    expect_close(jax.jit(masked_nll)(p, none), 0.0)
    expect_grad(jax.jit(masked_nll), (p, none), np.zeros(2, np.float32))
    expect_close(jax.jit(masked_nll)(p, every), -np.log([0.5, 0.2]).mean())
    expect_traces(jax.jit(masked_nll), [(p, none), (p, every)], at_most=1)
# %% ex="mask_average" kind="wrong" fails="clean_value clean_gradient all_or_nothing"
# the PyTorch line, word for word
def masked_nll(p, mask):
    return -jnp.log(p[mask]).mean()
# %% ex="mask_average" kind="wrong" fails="clean_value clean_gradient"
# multiply by the mask as a float
def masked_nll(p, mask):
    weight = mask.astype(jnp.float32)
    return -(weight * jnp.log(p)).sum() / jnp.maximum(weight.sum(), 1.0)
# %% ex="mask_average" kind="wrong" fails="clean_gradient"
# one `jnp.where`, after the logarithm: a clean value and a spoilt gradient
def masked_nll(p, mask):
    logs = jnp.where(mask, jnp.log(p), 0.0)
    return -logs.sum() / jnp.maximum(mask.sum(), 1)
# %% ex="mask_average" kind="wrong" fails="clean_gradient"
# extract with `nonzero`: entry 0 fills the rest, and its slope comes along
def masked_nll(p, mask):
    rows = jnp.nonzero(mask, size=mask.size, fill_value=0)
    real = jnp.arange(mask.size) < mask.sum()
    logs = jnp.where(real, jnp.log(p[rows]), 0.0)
    return -logs.sum() / jnp.maximum(mask.sum(), 1)
# %% ex="mask_average" kind="wrong" fails="clean_value all_or_nothing"
# safe logarithms, and a mean of no entries
def masked_nll(p, mask):
    return -jnp.mean(jnp.log(jnp.where(mask, p, 1.0)), where=mask)
# %% ex="mask_average" kind="alternate"
def masked_nll(p, mask):
    q = jax.lax.select(mask, p, jnp.ones_like(p))
    count = mask.sum(dtype=jnp.float32)
    total = -(mask * jnp.log(q)).sum()
    return total / jnp.where(count > 0, count, 1.0)
# %% [markdown] ex="mask_average" kind="why"
# The number of valid entries is a value, so `p[mask]` has no shape to be traced with.
# Selecting keeps the shape. It must happen before the logarithm: `jnp.where` after it
# chooses the right value, but the gradient of both sides is computed, and the
# unwanted one arrives as 0 times `inf`, which is `nan`. Multiplying by the mask fails
# at once, for the same reason. Clamping helps against 0 only. An entry replaced by 1
# has logarithm 0 and gradient 0, whatever stood there. The denominator needs the same
# care: a mean over nothing is 0 divided by 0.
# %% [markdown] ex="lengths_pad" level="core" minutes=12
# ## Fifty lengths, four programs
#
# Signals of any length up to 512 arrive as NumPy arrays. Their score is the largest
# value minus the mean. Write two functions:
#
# - `spread(values, length)` computes the score of the first `length` values. What
#   stands behind them is padding, of any content, and must not matter.
# - `make_scorer(kernel, sizes)` returns `score(values)`. It compiles `kernel`, which
#   has the signature of `spread`, for array lengths listed in `sizes` and no others,
#   and uses the smallest that fits. The sizes come in any order.
#
# However many lengths arrive, there are at most as many traces as sizes.
# %% ex="lengths_pad" kind="solution"
def spread(values, length):
    """Largest minus mean of values[:length]; f32[size], i32[] -> f32[]."""
    ### BEGIN SOLUTION
    valid = jnp.arange(values.shape[0]) < length
    largest = jnp.where(valid, values, -jnp.inf).max()
    return largest - jnp.where(valid, values, 0.0).sum() / length
    ### END SOLUTION


def make_scorer(kernel, sizes):
    """Return score(values) for a NumPy f32[n], 1 <= n <= max(sizes)."""
    ### BEGIN SOLUTION
    compiled = jax.jit(kernel)

    def score(values):
        length = len(values)
        size = min(s for s in sizes if s >= length)
        return compiled(np.pad(values, (0, size - length)), length)

    return score
    ### END SOLUTION
# %% [markdown] ex="lengths_pad" kind="hint"
# Two values leave `score` for the compiled function: an array of one of few lengths,
# and the true length. Which of the two may be in the cache key?
# %% [markdown] ex="lengths_pad" kind="hint"
# Compare `jnp.arange` of the whole size with the length to get a mask. Sum and
# maximum each need a filler of their own.
# %% [markdown] ex="lengths_pad" kind="hint"
# The filler is 0 for the sum and `-jnp.inf` for the maximum. Pad outside of the
# compiled function, which should never see an array of another length.
# %% ex="lengths_pad" kind="check"
with check("padding_has_no_say", points=1,
           section="A new shape is a new program"):
    values = np.array([-3.0, -1.0, -2.0, -4.0], np.float32)
    for filler in (0.0, 9.0, np.inf, np.nan):
        tail = np.full(3, filler, np.float32)
        padded = jnp.array(np.concatenate([values, tail]))
        name = f"score (padding: {filler})"
        expect_close(jax.jit(spread)(padded, 4), 1.5, name=name)
# %% ex="lengths_pad" kind="check"
with check("four_programs", points=2,
           section="A new shape is a new program"):
    rng, seen = np.random.default_rng(0), counting(spread)
    score = make_scorer(seen, (512, 64, 256, 128))
    for length in rng.permutation(np.arange(1, 513))[:50]:
        values = rng.normal(-3, size=length).astype(np.float32)
        want, name = values.max() - values.mean(), f"score at length {length}"
        expect_close(score(values), want, atol=1e-5, name=name)
    traces = seen.count
    assert traces == 4, "`kernel` traced once for each of the 4 sizes"
# %% ex="lengths_pad" kind="check"
with check("smallest_that_fits", points=1,
           section="A new shape is a new program"):
    used = []

    def kernel(values, length):
        used.append(values.shape[0])
        return jnp.float32(values.shape[0]) + 0 * length

    score = make_scorer(kernel, (30, 100, 10))
    lengths = (10, 11, 1, 30, 31, 100, 99)
    got = [int(score(np.ones(n, np.float32))) for n in lengths]
    want = [10, 30, 10, 30, 100, 100, 100]
    assert got == want, "`kernel` called with the smallest size that fits"
    traced = sorted(used)
    assert traced == [10, 30, 100], "one trace for each of three sizes"
# %% ex="lengths_pad" kind="hidden"
with check("two_scorers", points=1,
           section="A new shape is a new program"):
    def unused(values, length):
        return jnp.int32(values.shape[0] - length)

    one, two = make_scorer(unused, [5]), make_scorer(unused, [9, 7])
    calls = (one, 5), (two, 5), (one, 1), (two, 8), (two, 7)
    places = [int(score(np.ones(n, np.float32))) for score, n in calls]
    assert places == [0, 2, 4, 1, 0], "the sizes of each scorer alone"
# %% ex="lengths_pad" kind="wrong" fails="padding_has_no_say four_programs smallest_that_fits"
# the true length is a shape, so it is made static and used to slice
def spread(values, length):
    return values[:length].max() - values[:length].mean()


def make_scorer(kernel, sizes):
    compiled = jax.jit(kernel, static_argnums=1)

    def score(values):
        size = min(s for s in sizes if s >= len(values))
        return compiled(np.pad(values, (0, size - len(values))), len(values))

    return score
# %% ex="lengths_pad" kind="wrong" fails="padding_has_no_say four_programs"
# zeros are taken for neutral, as in `pad_sequence`
def spread(values, length):
    values = jnp.where(jnp.arange(values.shape[0]) < length, values, 0.0)
    return values.max() - values.mean()


def make_scorer(kernel, sizes):
    compiled = jax.jit(kernel)

    def score(values):
        size = min(s for s in sizes if s >= len(values))
        return compiled(np.pad(values, (0, size - len(values))), len(values))

    return score
# %% ex="lengths_pad" kind="wrong" fails="four_programs smallest_that_fits two_scorers"
# right masks, but no padding: jit is left to sort the lengths out
def spread(values, length):
    valid = jnp.arange(values.shape[0]) < length
    largest = jnp.where(valid, values, -jnp.inf).max()
    return largest - jnp.where(valid, values, 0.0).sum() / length


def make_scorer(kernel, sizes):
    compiled = jax.jit(kernel)
    return lambda values: compiled(values, len(values))
# %% ex="lengths_pad" kind="wrong" fails="four_programs smallest_that_fits two_scorers"
# everything is padded to the largest size: one program, and too much work
def spread(values, length):
    valid = jnp.arange(values.shape[0]) < length
    largest = jnp.where(valid, values, -jnp.inf).max()
    return largest - jnp.where(valid, values, 0.0).sum() / length


def make_scorer(kernel, sizes):
    compiled = jax.jit(kernel)

    def score(values):
        padded = np.zeros(max(sizes), np.float32)
        padded[: len(values)] = values
        return compiled(padded, len(values))

    return score
# %% ex="lengths_pad" kind="wrong" fails="four_programs smallest_that_fits two_scorers"
# the score is computed on the spot, and `kernel` is never called
def spread(values, length):
    valid = jnp.arange(values.shape[0]) < length
    largest = jnp.where(valid, values, -jnp.inf).max()
    return largest - jnp.where(valid, values, 0.0).sum() / length


def make_scorer(kernel, sizes):
    return lambda values: values.max() - values.mean()
# %% ex="lengths_pad" kind="wrong" fails="four_programs smallest_that_fits two_scorers"
# the first size that fits, as if the sizes were sorted
def spread(values, length):
    valid = jnp.arange(values.shape[0]) < length
    largest = jnp.where(valid, values, -jnp.inf).max()
    return largest - jnp.where(valid, values, 0.0).sum() / length


def make_scorer(kernel, sizes):
    compiled = jax.jit(kernel)

    def score(values):
        size = next(s for s in sizes if s >= len(values))
        return compiled(np.pad(values, (0, size - len(values))), len(values))

    return score
# %% ex="lengths_pad" kind="alternate"
def spread(values, length):
    valid = jnp.arange(values.size) < length
    return values.max(where=valid, initial=-jnp.inf) - values.mean(where=valid)


def make_scorer(kernel, sizes):
    programs = {size: jax.jit(kernel) for size in sorted(sizes)}

    def score(values):
        size = next(s for s in programs if len(values) <= s)
        padded = np.full(size, np.nan, np.float32)
        padded[: len(values)] = values
        return programs[size](padded, np.int32(len(values)))

    return score
# %% [markdown] ex="lengths_pad" kind="why"
# A length that is a shape is in the cache key; a length that is an argument is not.
# So the array has one of few lengths and the true one travels beside it. As a static
# argument it would be back in the key, one program for each length. Padding must then
# be made invisible operation by operation: 0 is neutral for a sum and `-inf` for a
# maximum, and a mean has to divide by the true length. Selecting, not multiplying,
# keeps `nan` out. The padding itself is NumPy's business: each eager `jnp.pad` would
# compile a small program for its length, and no count of your own traces would show
# it.
# %% [markdown] ex="module_refresh" level="stretch" minutes=12
# ## The model that would not change
#
# `Model` was carried over from PyTorch: an object that holds its weights and its
# mode. It answers quickly, but after the first call new weights have no effect, and
# neither has `model.training = False`.
#
# Mend the class. Attributes and calls stay as they are: `model.params = ...`,
# `model.training = ...`, `model(x)`, and each call uses what the attributes hold at
# that moment. New weights of the same shapes never trace again; each of the two modes
# is traced once. `forward` branches on `training` in Python. Weights are not written
# into the program.
# %% ex="module_refresh" kind="starter"
class Model:
    """A PyTorch-like object around forward(params, x, training)."""

    def __init__(self, forward, params):
        self.forward = forward
        self.params, self.training = params, True
        self._compiled = jax.jit(self._run)

    def _run(self, x):
        return self.forward(self.params, x, self.training)

    def __call__(self, x):
        return self._compiled(x)
# %% ex="module_refresh" kind="solution"
class Model:
    """A PyTorch-like object around forward(params, x, training)."""

    def __init__(self, forward, params):
        self.params, self.training = params, True
        self._compiled = jax.jit(forward, static_argnums=2)

    def __call__(self, x):
        return self._compiled(self.params, x, self.training)
# %% [markdown] ex="module_refresh" kind="hint"
# When does `_run` read `self.params`, and how often does `_run` run?
# %% [markdown] ex="module_refresh" kind="hint"
# Read the attributes in `__call__`, which is not compiled and runs in every call.
# What is compiled gets everything as arguments. Are both of the same kind?
# %% ex="module_refresh" kind="check"
with check("attributes_are_read", points=1,
           section="What is not an argument is frozen into the program"):
    def forward(params, x, training):
        h = x @ params["w"]
        return jnp.tanh(h) if training else h

    x, w = np.array([0.5, -1.0], np.float32), np.float32([[1, 2], [3, 4]])
    model = Model(forward, {"w": jnp.array(w)})
    expect_close(model(x), np.tanh(x @ w), name="first call")
    model.params = {"w": jnp.array(w + 1)}
    expect_close(model(x), np.tanh(x @ (w + 1)), name="call with new weights")
    model.training = False
    expect_close(model(x), x @ (w + 1), name="call with training = False")
# %% ex="module_refresh" kind="check"
with check("one_trace_per_mode", points=1,
           section="The cache key is what the trace could see"):
    def forward(params, x, training):
        return x * params["w"] if training else x + params["w"]

    seen = counting(forward)
    model = Model(seen, {"w": jnp.float32(0)})
    for n in range(8):
        model.params, model.training = {"w": jnp.float32(n)}, n % 2 == 0
        want = 3.0 * n if n % 2 == 0 else 3.0 + n
        expect_close(model(jnp.float32(3)), want, name=f"call {n + 1}")
    traces = seen.count
    assert traces == 2, "one trace for each of two modes in 8 calls"
# %% ex="module_refresh" kind="hidden"
with check("weights_stay_outside", points=1,
           section="What is not an argument is frozen into the program"):
    def forward(params, x, training):
        kinds.append(isinstance(params["w"], jax.core.Tracer))
        return params["w"] * x if training else x

    kinds, first = [], Model(forward, {"w": jnp.ones(3)})
    second = Model(forward, {"w": jnp.full(3, 2.0)})
    second.training = False
    one = np.ones(3, np.float32)
    expect_close(first(jnp.ones(3)), one, name="first model")
    first.params = second.params
    expect_close(first(jnp.ones(3)), 2 * one, name="new weights")
    expect_close(second(jnp.ones(3)), one, name="second model")
    constants = kinds.count(False)
    assert constants == 0, "no trace that finds the weights as constants"
# %% ex="module_refresh" kind="wrong" fails="attributes_are_read one_trace_per_mode weights_stay_outside"
# the method is compiled and `self` is static
class Model:
    def __init__(self, forward, params):
        self.forward, self.params, self.training = forward, params, True

    @jax.jit(static_argnums=0)
    def __call__(self, x):
        return self.forward(self.params, x, self.training)
# %% ex="module_refresh" kind="wrong" fails="one_trace_per_mode weights_stay_outside"
# compile in every call: always fresh, never fast
class Model:
    def __init__(self, forward, params):
        self.forward, self.params, self.training = forward, params, True

    def __call__(self, x):
        @jax.jit
        def run(x):
            return self.forward(self.params, x, self.training)

        return run(x)
# %% ex="module_refresh" kind="wrong" fails="attributes_are_read one_trace_per_mode weights_stay_outside"
# weights and mode both become ordinary arguments
class Model:
    def __init__(self, forward, params):
        self.params, self.training = params, True
        self._compiled = jax.jit(forward)

    def __call__(self, x):
        return self._compiled(self.params, x, self.training)
# %% ex="module_refresh" kind="wrong" fails="attributes_are_read one_trace_per_mode"
# the weights become an argument and the mode is forgotten
class Model:
    def __init__(self, forward, params):
        self.params, self.training = params, True
        self._compiled = jax.jit(lambda p, x: forward(p, x, self.training))

    def __call__(self, x):
        return self._compiled(self.params, x)
# %% ex="module_refresh" kind="alternate"
class Model:
    def __init__(self, forward, params):
        self.params, self.training = params, True
        train, evaluate = (partial(forward, training=t) for t in (True, False))
        self._modes = {True: jax.jit(train), False: jax.jit(evaluate)}

    def __call__(self, x):
        return self._modes[self.training](self.params, x)
# %% ex="module_refresh" kind="alternate"
@jax.tree_util.register_pytree_node_class
class Model:
    def __init__(self, forward, params, training=True):
        self.forward, self.params, self.training = forward, params, training

    def tree_flatten(self):
        return (self.params,), (self.forward, self.training)

    @classmethod
    def tree_unflatten(cls, fixed, parts):
        return cls(fixed[0], parts[0], fixed[1])

    @jax.jit
    def __call__(self, x):
        return self.forward(self.params, x, self.training)
# %% [markdown] ex="module_refresh" kind="why"
# `_run` reads `self` when it runs, and under jit it runs once for each shape. What it
# read is then part of the program: the weights as literals, the mode as the one
# branch that was recorded. A static `self` does not help, since the key of an object
# is its identity and that never changes. Making a new jitted function in each call
# gives fresh answers at the price of a trace each time. So attributes are read
# outside and passed in: weights as an ordinary argument, because they are data, and
# the mode as a static one, because it selects code. An ordinary mode fails at the
# `if` in `forward`.
# %% [markdown] ex="ring_write" level="stretch" minutes=20
# ## A ring buffer without a copy
#
# A replay buffer of `capacity` rows is filled in blocks and wraps around at its end.
# Write `make_write(capacity)`; it returns a compiled `write(ring, rows, count)`:
#
# - The first `count` rows of the block go to the places `next`, `next + 1`, ...,
#   modulo `capacity`; all other places keep their content. `count` may be 0, and a
#   block has at most `capacity` rows.
# - `next` moves on by `count`, modulo `capacity`.
# - Blocks of one shape share a trace, whatever `count` is.
# - The buffer is written in place: the caller gives the old ring away. The block
#   still belongs to the caller.
# %% ex="ring_write" kind="solution"
def make_write(capacity):
    """Return write(ring, rows, count) -> ring.

    ring: {"data": f32[capacity, d], "next": i32[]}; rows: f32[k, d];
    count: an integer from 0 to k, a Python number or an array.
    """
    ### BEGIN SOLUTION
    @jax.jit(donate_argnames="ring")
    def write(ring, rows, count):
        offset = jnp.arange(rows.shape[0])
        place = (ring["next"] + offset) % capacity
        place = jnp.where(offset < count, place, capacity)
        data = ring["data"].at[place].set(rows, mode="drop")
        return {"data": data, "next": (ring["next"] + count) % capacity}

    return write
    ### END SOLUTION
# %% [markdown] ex="ring_write" kind="hint"
# How many rows count is a value, so no shape may depend on it. Either ask of each
# place of the ring which row it takes, if any; or give each row a place, and those
# that don't count one that harms nobody.
# %% [markdown] ex="ring_write" kind="hint"
# The first way ends in a `jnp.where` between rows and old content. The second ends in
# `data.at[places].set(rows, mode="drop")`, which skips places that are too large; a
# negative place counts from the end.
# %% [markdown] ex="ring_write" kind="hint"
# Row `i` goes to place `(next + i) % capacity`; place `j` takes row
# `(j - next) % capacity`, if that is below `count`. Donate the ring by name, with
# `donate_argnames`, and nothing else.
# %% ex="ring_write" kind="check"
with check("right_rows", points=1,
           section="A new shape is a new program"):
    data, start = np.full((5, 2), -1, np.float32), 0
    ring = {"data": jnp.array(data), "next": jnp.int32(0)}
    write = make_write(5)
    for n, count in enumerate([2, 1, 3, 0, 2, 3, 1], 1):
        rows = (10 * n + np.arange(6, dtype=np.float32)).reshape(3, 2)
        ring = write(ring, jnp.array(rows), count)
        for i in range(count):
            data[(start + i) % 5] = rows[i]
        start = (start + count) % 5
        want = {"data": data, "next": np.int32(start)}
        expect_close(ring, want, name=f"block {n}: ring")
# %% ex="ring_write" kind="check"
with check("counts_share_a_trace", points=1,
           section="The cache key is what the trace could see"):
    counts = (0, 3, 1, 4)
    rings = [{"data": jnp.zeros((8, 2)), "next": jnp.int32(n)} for n in counts]
    calls = [(ring, jnp.ones((4, 2)), n) for ring, n in zip(rings, counts)]
    expect_traces(make_write(8), calls, at_most=1)
# %% ex="ring_write" kind="check"
with check("written_in_place", points=1,
           section="Jit the widest region, once"):
    ring = {"data": jnp.zeros((8, 2)), "next": jnp.int32(6)}
    expect_donated(make_write(8), (ring, jnp.ones((4, 2)), 3), "ring")
# %% ex="ring_write" kind="check"
with check("block_survives", points=1,
           section="Jit the widest region, once"):
    import warnings

    ring = {"data": jnp.zeros((4, 1)), "next": jnp.int32(2)}
    rows, write = jnp.array([[1.0], [2.0], [3.0]]), make_write(4)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Some donated buffers")
        for count in (np.int32(3), jnp.int32(2)):
            ring = write(ring, rows, count)
    assert not rows.is_deleted(), "a block that the caller can use again"
    want = np.array([[3.0], [1.0], [2.0], [2.0]], np.float32)
    expect_close(ring, {"data": want, "next": np.int32(3)}, name="ring")
# %% ex="ring_write" kind="hidden"
with check("full_blocks", points=1,
           section="A new shape is a new program"):
    data, start, write = np.zeros((3, 1), np.float32), 1, make_write(3)
    ring = {"data": jnp.array(data), "next": jnp.int32(start)}
    for n, count in enumerate((3, 0, 2, 3, 1), 1):
        rows = np.float32([[n], [n + 0.25], [n + 0.5]])
        ring = write(ring, jnp.array(rows), jnp.int32(count))
        for row in rows[:count]:
            data[start] = row
            start = (start + 1) % 3
        want = {"data": data, "next": np.int32(start)}
        expect_close(ring, want, name=f"ring after block {n}")
# %% ex="ring_write" kind="wrong" fails="written_in_place"
# everything is right and nothing is donated
def make_write(capacity):
    @jax.jit
    def write(ring, rows, count):
        offset = jnp.arange(rows.shape[0])
        place = (ring["next"] + offset) % capacity
        place = jnp.where(offset < count, place, capacity)
        data = ring["data"].at[place].set(rows, mode="drop")
        return {"data": data, "next": (ring["next"] + count) % capacity}

    return write
# %% ex="ring_write" kind="wrong" fails="block_survives"
# all that is large is donated, the block of the caller as well
def make_write(capacity):
    @jax.jit(donate_argnames=("ring", "rows"))
    def write(ring, rows, count):
        offset = jnp.arange(rows.shape[0])
        place = (ring["next"] + offset) % capacity
        place = jnp.where(offset < count, place, capacity)
        data = ring["data"].at[place].set(rows, mode="drop")
        return {"data": data, "next": (ring["next"] + count) % capacity}

    return write
# %% ex="ring_write" kind="wrong" fails="counts_share_a_trace block_survives full_blocks"
# `rows[:count]` as in PyTorch, with `count` static to make it work
def make_write(capacity):
    @jax.jit(static_argnames="count", donate_argnames="ring")
    def write(ring, rows, count):
        place = (ring["next"] + jnp.arange(count)) % capacity
        data = ring["data"].at[place].set(rows[:count])
        return {"data": data, "next": (ring["next"] + count) % capacity}

    return write
# %% ex="ring_write" kind="wrong" fails="right_rows block_survives full_blocks"
# `dynamic_update_slice` does not wrap around: at the end it moves the block back
def make_write(capacity):
    @jax.jit(donate_argnames="ring")
    def write(ring, rows, count):
        corner = ring["next"], 0
        old = jax.lax.dynamic_slice(ring["data"], corner, rows.shape)
        block = jnp.where(jnp.arange(len(rows))[:, None] < count, rows, old)
        data = jax.lax.dynamic_update_slice(ring["data"], block, corner)
        return {"data": data, "next": (ring["next"] + count) % capacity}

    return write
# %% ex="ring_write" kind="alternate"
def make_write(capacity):
    def write(ring, rows, count):
        source = (jnp.arange(capacity) - ring["next"]) % capacity
        new = jnp.take(rows, source, axis=0, mode="clip")
        data = jnp.where((source < count)[:, None], new, ring["data"])
        return {"data": data, "next": (ring["next"] + count) % capacity}

    return jax.jit(write, donate_argnums=0)
# %% ex="ring_write" kind="alternate"
def make_write(capacity):
    @jax.jit(donate_argnums=(0,))
    def write(ring, rows, count):
        def put(i, data):
            return data.at[(ring["next"] + i) % capacity].set(rows[i])

        data = jax.lax.fori_loop(0, count, put, ring["data"])
        return ring | {"data": data, "next": (ring["next"] + count) % capacity}

    return write
# %% [markdown] ex="ring_write" kind="why"
# Three rules meet here. The number of rows to write is a value, so all rows are
# written, and those that don't count go to `capacity`, which is out of range and
# dropped. `next` and `count` stay traced, so one program serves them all; a static
# `count` compiles for each value and refuses an array. An argument belongs to the
# caller: without donation each write copies the whole buffer, and donating the block
# too gains nothing, since no result has its shape. `dynamic_update_slice` looks like
# the obvious tool, but it moves a block that would cross the end.
