# %% [markdown]
# # Branches and loops the compiler can see
#
# Eight exercises on control flow that is recorded: what a branch runs, alone and in a
# batch, what a loop costs to compile, and what can be differentiated. Many checks count
# how often your code runs. They go with the chapter of the same name.
# %%
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tracecheck import check, expect_close, expect_constant_size, expect_grad
from tracecheck import expect_primitives, expect_traces, iter_eqns, jaxpr_of
# %% [markdown] ex="branch_bounce" level="warm-up" minutes=5
# ## Bounce without an if
#
# In PyTorch, for many balls at once:
#
# ```python
# hit = (h < 0) & (v < 0)
# h[hit] = -h[hit]
# v[hit] = -keep * v[hit]
# ```
#
# Write `bounce(h, v, keep)`. It returns the new heights and velocities, for single balls
# as well as for arrays of any shape, with and without `jax.jit`. `keep` is one number for
# all balls, or one for each. What was passed in stays as it is.
# %% ex="branch_bounce" kind="solution"
def bounce(h, v, keep):
    """Turn balls round that are below the floor and falling.

    h, v: f32[...]; keep: a number or f32[...] -> (f32[...], f32[...])
    """
    ### BEGIN SOLUTION
    hit = (h < 0) & (v < 0)
    return jnp.where(hit, -h, h), jnp.where(hit, -keep * v, v)
    ### END SOLUTION
# %% [markdown] ex="branch_bounce" kind="hint"
# Every ball needs an answer of its own, so there is no one way for the program to go.
# Which of the tools chooses element by element?
# %% [markdown] ex="branch_bounce" kind="hint"
# `jnp.where(mask, a, b)` takes arrays. Python's `and` asks for one truth value; between
# arrays, write `&`.
# %% ex="branch_bounce" kind="check"
with check("single_ball", points=1,
           section="Where computes both sides, cond runs one"):
    cases = {(-0.5, -2.0): (0.5, 1.0), (-0.5, 2.0): (-0.5, 2.0),
             (0.5, -2.0): (0.5, -2.0), (-1.0, -4.0): (1.0, 2.0)}
    for (h, v), want in cases.items():
        got = jax.jit(bounce)(jnp.float32(h), jnp.float32(v), 0.5)
        expect_close(got, want, name=f"(h, v) from ({h}, {v})")
# %% ex="branch_bounce" kind="check"
with check("many_balls", points=1,
           section="Where computes both sides, cond runs one"):
    h = np.array([[-1.0, 0.0, 2.0], [-3.0, -0.5, 1.0]], np.float32)
    v = np.array([[-4.0, -1.0, 3.0], [2.0, -6.0, -5.0]], np.float32)
    want_h = np.array([[1.0, 0.0, 2.0], [-3.0, 0.5, 1.0]], np.float32)
    want_v = np.array([[3.0, -1.0, 3.0], [2.0, 4.5, -5.0]], np.float32)
    each = np.array([[0.5, 0.1, 0.2], [0.3, 0.25, 0.4]], np.float32)
    want_each = np.array([[2.0, -1.0, 3.0], [2.0, 1.5, -5.0]], np.float32)
    for how, fn in ("eager", bounce), ("compiled", jax.jit(bounce)):
        got = fn(jnp.array(h), jnp.array(v), 0.75)
        expect_close(got, (want_h, want_v), name=f"(h, v), {how}")
        got = fn(jnp.array(h), jnp.array(v), jnp.array(each))
        name = f"(h, v), a keep for each, {how}"
        expect_close(got, (want_h, want_each), name=name)
# %% ex="branch_bounce" kind="hidden"
with check("keep_for_each", points=1,
           section="Where computes both sides, cond runs one"):
    h, v = np.float32([-1, -1, 1, -1]), np.float32([-2, -4, -2, np.inf])
    keep = np.float32([0.5, 0.25, 0.5, 0.0])
    want = np.float32([1, 1, 1, -1]), np.float32([1, 1, -2, np.inf])
    for how, fn in ("eager", bounce), ("compiled", jax.jit(bounce)):
        got = fn(jnp.array(h), jnp.array(v), jnp.array(keep))
        expect_close(got, want, name=f"(h, v), {how}")
    calls = [(h, v, keep) for keep in (0.1, 0.2, 0.3)]
    expect_traces(jax.jit(bounce), calls, at_most=1)
# %% ex="branch_bounce" kind="wrong" fails="single_ball many_balls keep_for_each"
# one ball at a time, with Python's `if`
def bounce(h, v, keep):
    if h < 0 and v < 0:
        h, v = -h, -keep * v
    return h, v
# %% ex="branch_bounce" kind="wrong" fails="many_balls keep_for_each"
# a recorded branch, with one predicate for all balls
def bounce(h, v, keep):
    hit = (h < 0) & (v < 0)
    return lax.cond(hit, lambda: (-h, -keep * v), lambda: (h, v))
# %% ex="branch_bounce" kind="wrong" fails="many_balls keep_for_each"
# a branch for each ball, with one `keep` for all
def bounce(h, v, keep):
    def one(h, v):
        hit = (h < 0) & (v < 0)
        return lax.cond(hit, lambda: (-h, -keep * v), lambda: (h, v))

    return jnp.vectorize(one)(h, v)
# %% ex="branch_bounce" kind="wrong" fails="keep_for_each"
# arithmetic with the mask: 0 times infinity is not 0
def bounce(h, v, keep):
    hit = ((h < 0) & (v < 0)) * 1.0
    return h * (1 - 2 * hit), v * (1 - hit) - keep * v * hit
# %% ex="branch_bounce" kind="wrong" fails="single_ball many_balls keep_for_each"
# the mask becomes an index, as in PyTorch
def bounce(h, v, keep):
    hit = (h < 0) & (v < 0)
    return h.at[hit].set(-h[hit]), v.at[hit].set(-keep * v[hit])
# %% ex="branch_bounce" kind="alternate"
def bounce(h, v, keep):
    hit = jnp.logical_and(h < 0, v < 0)
    factor = jnp.where(hit, -keep, 1.0)
    return lax.select(hit, -h, h), v * factor
# %% [markdown] ex="branch_bounce" kind="why"
# A program for a batch goes one way, so what differs from ball to ball has to be a
# selection. Python's `if` fails at the first tracer, and `lax.cond` has one predicate for
# the whole call. A mask as an index makes a shape that depends on values. Adding up both
# sides, weighted by the mask, is not the same as choosing: an infinite value spoils the
# sum even where its weight is 0. `keep` is only computed with, so it stays traced.
# %% [markdown] ex="scan_history" level="warm-up" minutes=8
# ## Keep every state
#
# In PyTorch:
#
# ```python
# states = [state]
# for _ in range(n):
#     states.append(step(states[-1]))
# return torch.stack(states)
# ```
#
# Write `simulate(step, state, n)`, which returns this history: $n + 1$ states, the first
# one included. A state is any pytree of arrays; the history is the same pytree with one
# more axis in front of each array. `n` is a Python number, 0 or more.
#
# The program must not grow with `n`.
# %% ex="scan_history" kind="solution"
def simulate(step, state, n):
    """States 0 to n of a simulation: [...] -> [n + 1, ...] for each array."""
    ### BEGIN SOLUTION
    def tick(state, _):
        state = step(state)
        return state, state

    _, later = lax.scan(tick, state, None, length=n)
    return jax.tree.map(
        lambda first, rest: jnp.concatenate([first[None], rest]), state, later
    )
    ### END SOLUTION
# %% [markdown] ex="scan_history" kind="hint"
# Which of the three loops returns something for each pass? It stacks what you return as
# `y`, whatever pytree that is.
# %% [markdown] ex="scan_history" kind="hint"
# There is nothing to go through: `lax.scan(tick, state, None, length=n)`. Put the first
# state in front with `jax.tree.map`, array by array.
# %% ex="scan_history" kind="check"
with check("all_states", points=1,
           section="A recorded loop is one body, however long"):
    state = {"h": jnp.array([1.0, 2.0]), "n": jnp.int32(0)}
    step = lambda s: {"h": s["h"] * 0.5, "n": s["n"] + 1}
    want_h = np.float32([[1, 2], [0.5, 1], [0.25, 0.5], [0.125, 0.25]])
    want = {"h": want_h, "n": np.arange(4, dtype=np.int32)}
    run = lambda s: simulate(step, s, 3)
    expect_close(run(state), want, name="history")
    expect_close(jax.jit(run)(state), want, name="compiled history")
# %% ex="scan_history" kind="check"
with check("one_body", points=1,
           section="A recorded loop is one body, however long"):
    def run(like):
        return simulate(jnp.sin, jnp.float32(1), like.shape[0])

    expect_constant_size(run, lambda n: (jnp.zeros(n),), [3, 10, 50])
    fn = jax.jit(run)
    lowered = [fn.lower(jnp.zeros(n)).as_text() for n in (10, 50)]
    short, long = (len(text.splitlines()) for text in lowered)
    grown = long / short
    assert grown < 2, "what is compiled not to grow with n"
# %% ex="scan_history" kind="hidden"
with check("other_lengths", points=1,
           section="A recorded loop is one body, however long"):
    for n, shape in [(0, (2,)), (1, ()), (6, (1, 3))]:
        start = np.full(shape, 2.0, np.float32)
        want = np.stack([start * np.float32(0.5) ** i for i in range(n + 1)])
        got = simulate(lambda s: (s[0] * 0.5,), (jnp.array(start),), n)
        expect_close(got, (want,), name=f"history for n = {n}")
    last = lambda x: simulate(lambda x: x * x, x, 3)[-1]
    expect_grad(last, (jnp.float32(1.1),), np.float32(8 * 1.1**7))
# %% ex="scan_history" kind="wrong" fails="one_body"
# the PyTorch loop, word for word
def simulate(step, state, n):
    states = [state]
    for _ in range(n):
        states.append(step(states[-1]))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
# %% ex="scan_history" kind="wrong" fails="one_body"
# recorded once, and unrolled for the compiler
def simulate(step, state, n):
    tick = lambda s, _: (step(s), s)
    return lax.scan(tick, state, None, length=n + 1, unroll=True)[1]
# %% ex="scan_history" kind="wrong" fails="all_states other_lengths"
# the first state is forgotten
def simulate(step, state, n):
    def tick(state, _):
        state = step(state)
        return state, state

    return lax.scan(tick, state, None, length=n)[1]
# %% ex="scan_history" kind="wrong" fails="all_states one_body other_lengths"
# the list moves into the carry, where it would have to grow
def simulate(step, state, n):
    def tick(i, states):
        last = jax.tree.map(lambda s: s[-1], states)
        return jax.tree.map(lambda s, x: jnp.append(s, x[None], 0), states, step(last))

    return lax.fori_loop(0, n, tick, jax.tree.map(lambda s: s[None], state))
# %% ex="scan_history" kind="alternate"
def simulate(step, state, n):
    _, history = lax.scan(lambda s, _: (step(s), s), state, length=n + 1)
    return history
# %% ex="scan_history" kind="alternate"
def simulate(step, state, n):
    def write(i, carry):
        state, rows = carry
        state = step(state)
        put = lambda r, s: r.at[i + 1].set(s)
        return state, jax.tree.map(put, rows, state)

    rows = jax.tree.map(lambda s: jnp.repeat(s[None], n + 1, 0), state)
    return lax.fori_loop(0, n, write, (state, rows))[1]
# %% [markdown] ex="scan_history" kind="why"
# A Python loop gives the right states, and a program that is as long as the simulation.
# `scan` records one pass; what a pass returns beside the carry is stacked. The carry keeps
# its type, so it can't be the list: an array that grows has another shape after each pass.
# The first state was there before the first pass. Put it in front, or return the *old*
# state in each of $n + 1$ passes, which computes one step too many. `unroll=True` records one body
# too, and hands the compiler a copy for every pass.
# %% [markdown] ex="switch_dispatch" level="core" minutes=8
# ## One of many, or none
#
# `actions[index](x)` is the PyTorch line, with `index` from a tensor by `.item()`. Write
# `dispatch(index, actions, x)` so that it works when `index` is traced.
#
# - `actions` is a list of functions from `x` to an array of the shape and dtype of `x`.
# - Of the functions in the list, only the one that is wanted runs.
# - For an index that is out of range, negative ones included, the result is `nan`
#   throughout, and no function runs. It works under `vmap` as well, over `index` and `x`;
#   what runs there is not looked at.
# %% ex="switch_dispatch" kind="solution"
def dispatch(index, actions, x):
    """actions[index](x), or nan; index: i32[], x: f32[...] -> f32[...]."""
    ### BEGIN SOLUTION
    inside = (index >= 0) & (index < len(actions))
    nothing = lambda x: jnp.full_like(x, jnp.nan)
    place = jnp.where(inside, index, len(actions))
    return lax.switch(place, [*actions, nothing], x)
    ### END SOLUTION
# %% [markdown] ex="switch_dispatch" kind="hint"
# There is a recorded branch with many sides. What does it do with an index that is too
# large, and what with a negative one?
# %% [markdown] ex="switch_dispatch" kind="hint"
# The list may have one function more than you were given. Send every index that is out of
# range there.
# %% ex="switch_dispatch" kind="check"
with check("right_action", points=1,
           section="Where computes both sides, cond runs one"):
    actions = [jnp.square, jnp.negative, lambda x: x + 1]
    run = jax.jit(lambda i, x: dispatch(i, actions, x))
    cases = {0: 9.0, 1: -3.0, 2: 4.0, -1: np.nan, 3: np.nan}
    for index, want in cases.items():
        got = run(index, jnp.float32(3))
        expect_close(got, want, name=f"result for index {index}")
# %% ex="switch_dispatch" kind="check"
with check("only_one_runs", points=1,
           section="Where computes both sides, cond runs one"):
    def action(n):
        def act(x):
            jax.debug.callback(lambda: ran.append(n))
            return x + n
        return act

    ran, actions = [], [action(n) for n in range(4)]
    run = jax.jit(lambda i: dispatch(i, actions, jnp.float32(1)))
    for index, want in (2, [2]), (0, [0]), (3, [3]), (7, []), (-1, []):
        ran.clear()
        run(index).block_until_ready()
        jax.effects_barrier()
        assert ran == want, f"{want} to run for index {index}, and no other"
# %% ex="switch_dispatch" kind="hidden"
with check("out_of_range", points=1,
           section="Where computes both sides, cond runs one"):
    def act(x):
        jax.debug.callback(lambda: ran.append(1))
        return 2 * x

    ran, x = [], np.ones((2, 3), np.float32)
    run = jax.jit(lambda i, x: dispatch(i, [act, act], x))
    for index in (-1, -7, 2, 1000):
        got, want = run(index, x), np.full_like(x, np.nan)
        expect_close(got, want, name=f"result for index {index}")
    jax.effects_barrier()
    assert ran == [], "no action to run for an index out of range"
    batch = jax.vmap(lambda i, x: dispatch(i, [jnp.square, jnp.negative], x))
    got = batch(jnp.array([1, -1, 0, 2]), jnp.full(4, 3.0))
    want = np.float32([-3, np.nan, 9, np.nan])
    expect_close(got, want, name="results for [1, -1, 0, 2]")
# %% ex="switch_dispatch" kind="wrong" fails="right_action only_one_runs out_of_range"
# the list is indexed by Python
def dispatch(index, actions, x):
    if 0 <= index < len(actions):
        return actions[index](x)
    return jnp.full_like(x, jnp.nan)
# %% ex="switch_dispatch" kind="wrong" fails="right_action only_one_runs out_of_range"
# an index out of range is expected to look after itself
def dispatch(index, actions, x):
    return lax.switch(index, actions, x)
# %% ex="switch_dispatch" kind="wrong" fails="only_one_runs out_of_range"
# compute everything, stack it, and pick
def dispatch(index, actions, x):
    results = jnp.stack([act(x) for act in actions])
    inside = (index >= 0) & (index < len(actions))
    return jnp.where(inside, results[index], jnp.nan)
# %% ex="switch_dispatch" kind="wrong" fails="only_one_runs out_of_range"
# the right action runs in any case, and its result is thrown away
def dispatch(index, actions, x):
    result = lax.switch(index, actions, x)
    return jnp.where((index >= 0) & (index < len(actions)), result, jnp.nan)
# %% ex="switch_dispatch" kind="alternate"
def dispatch(index, actions, x):
    inside = (0 <= index) & (index < len(actions))
    return lax.cond(
        inside,
        lambda: lax.switch(index, actions, x),
        lambda: x * jnp.nan,
    )
# %% ex="switch_dispatch" kind="alternate"
def dispatch(index, actions, x):
    result = jnp.full_like(x, jnp.nan)
    for n, act in enumerate(actions):
        run = lambda old, x: act(x)
        result = lax.cond(index == n, run, lambda old, x: old, result, x)
    return result
# %% [markdown] ex="switch_dispatch" kind="why"
# A traced index has no value that a Python list could use. `lax.switch` records all the
# functions and runs one, but it clamps its index: -7 becomes 0, 1000 the last, and both
# give a plausible answer. So the index has to be brought into range first, here to one
# more function that answers `nan`. Choosing `nan` afterwards is too late, because by then
# an action has run. Stacking all results and picking one is what `vmap` would make of it.
# %% [markdown] ex="guard_loop" level="core" minutes=9
# ## The ball that keeps everybody waiting
#
# `landing` drops a ball from one metre and counts the steps until it is down. Where
# gravity does not pull down, it never is, and the answer is -1. For one ball that works.
# Map it over `g` with `jax.vmap`, put one such ball into the batch, and only the cap of
# 500 passes ends the loop.
#
# Mend it. In a batch, balls that never land keep the loop going for 9 passes at most, as
# many as a ball needs on Earth. After those it goes on only while a ball that lands is in
# the air. `g` may be anything: 0, negative, `nan`. `fall(h, v, g)` moves a ball by one
# step; use it as it is. The cap stays: a ball with a tiny `g` still answers 500.
# %% ex="guard_loop" kind="starter"
def landing(fall, g):
    """Steps until a ball lands, or -1; g: f32[] -> i32[]."""
    def move(state):
        n, h, v = state
        return n + 1, *fall(h, v, g)

    def aloft(state):
        n, h, v = state
        return (h > 0) & (n < 500)

    def drop():
        return lax.while_loop(aloft, move, (0, 1.0, 0.0))[0]

    return lax.cond(g > 0, drop, lambda: -1)
# %% ex="guard_loop" kind="solution"
def landing(fall, g):
    """Steps until a ball lands, or -1; g: f32[] -> i32[]."""
    lands = g > 0
    pull = jnp.where(lands, g, 9.81)

    def move(state):
        n, h, v = state
        return n + 1, *fall(h, v, pull)

    def aloft(state):
        n, h, v = state
        return (h > 0) & (n < 500)

    n, _, _ = lax.while_loop(aloft, move, (0, 1.0, 0.0))
    return jnp.where(lands, n, -1)
# %% [markdown] ex="guard_loop" kind="hint"
# What does `vmap` make of a `cond` whose predicate differs from ball to ball? Then who
# enters the loop?
# %% [markdown] ex="guard_loop" kind="hint"
# A batched loop goes on while any ball is in the air. Either such a ball never starts, or
# it is given something that brings it down soon.
# %% [markdown] ex="guard_loop" kind="hint"
# Let the loop's condition ask for `g > 0` as well; or replace such a `g` before the loop,
# with `jnp.where`, by one that pulls. Choose -1 after the loop. How does a comparison with `nan` come out?
# %% ex="guard_loop" kind="check"
with check("nobody_waits", points=1,
           section="Under vmap, both branches run"):
    def fall(h, v, g):
        jax.debug.callback(lambda: passes.append(1))
        return h + 0.05 * (v - 0.05 * g), v - 0.05 * g

    passes, batch = [], jax.vmap(lambda g: landing(fall, g))
    got = batch(jnp.array([9.81, 0.5, 0.0]))
    jax.effects_barrier()
    want, name = np.int32([9, 40, -1]), "steps for g = [9.81, 0.5, 0]"
    expect_close(got, want, name=name)
    made = len(passes)
    assert made <= 40, "40 passes at most, like the slowest that lands"
    got = batch(jnp.array([1e-5, 9.81]))
    expect_close(got, np.int32([500, 9]), name="steps for g = [1e-5, 9.81]")
# %% ex="guard_loop" kind="check"
with check("any_gravity", points=1,
           section="Under vmap, both branches run"):
    def fall(h, v, g):
        jax.debug.callback(lambda: passes.append(1))
        return h + 0.05 * (v - 0.05 * g), v - 0.05 * g

    gs, passes = [1.62, -9.81, np.nan, -0.0, 3.71], []
    got = jax.jit(jax.vmap(lambda g: landing(fall, g)))(jnp.array(gs))
    jax.effects_barrier()
    want, name = np.int32([22, -1, -1, -1, 15]), f"steps for g = {gs}"
    expect_close(got, want, name=name)
    made = len(passes)
    assert made <= 22, "22 passes at most, like the slowest that lands"
# %% ex="guard_loop" kind="hidden"
with check("nobody_lands", points=1,
           section="Under vmap, both branches run"):
    def fall(h, v, g):
        jax.debug.callback(lambda: passes.append(1))
        return h + 0.05 * (v - 0.05 * g), v - 0.05 * g

    gs, passes = [0.0, -1.0, np.nan, -np.inf], []
    got = jax.vmap(lambda g: landing(fall, g))(jnp.array(gs))
    jax.effects_barrier()
    expect_close(got, np.full(4, -1, np.int32), name=f"steps for g = {gs}")
    made = len(passes)
    assert made <= 9, "9 passes at most when no ball lands"
    for g, want in [(9.81, 9), (1.62, 22), (0.0, -1)]:
        single = jax.jit(lambda g: landing(fall, g))(g)
        expect_close(single, want, name=f"steps for g = {g}")
# %% ex="guard_loop" kind="wrong" fails="nobody_waits any_gravity nobody_lands"
# `clamp(min=eps)`: it lands now, but not soon
def landing(fall, g):
    pull = jnp.maximum(g, 1e-3)

    def move(state):
        n, h, v = state
        return n + 1, *fall(h, v, pull)

    aloft = lambda state: (state[1] > 0) & (state[0] < 500)
    n, _, _ = lax.while_loop(aloft, move, (0, 1.0, 0.0))
    return jnp.where(g > 0, n, -1)
# %% ex="guard_loop" kind="wrong" fails="any_gravity nobody_lands"
# only the zero is caught
def landing(fall, g):
    pull = jnp.where(g == 0, 9.81, g)

    def move(state):
        n, h, v = state
        return n + 1, *fall(h, v, pull)

    aloft = lambda state: (state[1] > 0) & (state[0] < 500)
    n, _, _ = lax.while_loop(aloft, move, (0, 1.0, 0.0))
    return jnp.where(g > 0, n, -1)
# %% ex="guard_loop" kind="wrong" fails="nobody_waits any_gravity nobody_lands"
# a Python `if` in front
def landing(fall, g):
    if not g > 0:
        return -1

    def move(state):
        n, h, v = state
        return n + 1, *fall(h, v, g)

    aloft = lambda state: (state[1] > 0) & (state[0] < 500)
    return lax.while_loop(aloft, move, (0, 1.0, 0.0))[0]
# %% ex="guard_loop" kind="wrong" fails="nobody_waits any_gravity nobody_lands"
# `jnp.where` instead of `cond`, around a loop that runs first
def landing(fall, g):
    def move(state):
        n, h, v = state
        return n + 1, *fall(h, v, g)

    aloft = lambda state: (state[1] > 0) & (state[0] < 500)
    n, _, _ = lax.while_loop(aloft, move, (0, 1.0, 0.0))
    return jnp.where(g > 0, n, -1)
# %% ex="guard_loop" kind="wrong" fails="nobody_waits"
# mended, so the cap seems to be of no more use
def landing(fall, g):
    def move(state):
        n, h, v = state
        return n + 1, *fall(h, v, g)

    aloft = lambda state: (g > 0) & (state[1] > 0)
    n, _, _ = lax.while_loop(aloft, move, (0, 1.0, 0.0))
    return jnp.where(g > 0, n, -1)
# %% ex="guard_loop" kind="alternate"
def landing(fall, g):
    def move(state):
        n, h, v = state
        return n + 1, *fall(h, v, g)

    aloft = lambda state: (g > 0) & (state[1] > 0) & (state[0] < 500)
    n, _, _ = lax.while_loop(aloft, move, (0, 1.0, 0.0))
    return lax.select(g > 0, n, -1)
# %% ex="guard_loop" kind="alternate"
def landing(fall, g):
    start = jnp.where(g > 0, 1.0, 0.0)

    def move(state):
        n, h, v = state
        return n + 1, *fall(h, v, g)

    aloft = lambda state: (state[1] > 0) & (state[0] < 500)
    n, _, _ = lax.while_loop(aloft, move, (0, start, 0.0))
    return jnp.where(n > 0, n, -1)
# %% [markdown] ex="guard_loop" kind="why"
# `vmap` turns the `cond` into a selection of results, so every ball goes through the loop,
# and a batched loop ends with its last element. A guard around the loop can't help; what
# goes into the loop can. Give such a ball a gravity that brings it down soon, or, sharper,
# let the condition of the loop refuse it: then it costs no pass. A tiny gravity also ends the loop, after more
# passes than everybody else needs. `g > 0` is false for `nan`, so it sorts out all cases;
# `g == 0` sorts out one.
# %% [markdown] ex="while_bisect" level="core" minutes=9
# ## Bisect until it is close enough
#
# ```python
# n = 0
# while hi - lo > tol and n < limit:
#     mid = (lo + hi) / 2
#     if f(mid) < 0:
#         lo = mid
#     else:
#         hi = mid
#     n += 1
# return n, (lo + hi) / 2
# ```
#
# Write `bisect(f, lo, hi, tol, limit)` so that it does this under `jax.jit` and
# `jax.vmap`, whichever of the four numbers is traced. It makes as many passes as needed
# and no more, and calls `f` once in each. `f` maps `f32[]` to `f32[]`.
# %% ex="while_bisect" kind="solution"
def bisect(f, lo, hi, tol, limit):
    """Return (passes: i32[], middle of the last interval: f32[])."""
    ### BEGIN SOLUTION
    def wide(state):
        n, lo, hi = state
        return (hi - lo > tol) & (n < limit)

    def halve(state):
        n, lo, hi = state
        mid = (lo + hi) / 2
        left = f(mid) < 0
        return n + 1, jnp.where(left, mid, lo), jnp.where(left, hi, mid)

    first = 0, jnp.float32(lo), jnp.float32(hi)
    n, lo, hi = lax.while_loop(wide, halve, first)
    return n, (lo + hi) / 2
    ### END SOLUTION
# %% [markdown] ex="while_bisect" kind="hint"
# Which loop stops by looking at its state? What changes from pass to pass is its state:
# three numbers.
# %% [markdown] ex="while_bisect" kind="hint"
# Python's `and` and `if` become `&` and `jnp.where`. A state keeps its dtypes, so begin
# with float32.
# %% ex="while_bisect" kind="check"
with check("right_passes", points=1,
           section="A recorded loop is one body, however long"):
    run = jax.jit(lambda *a: bisect(lambda x: x**3 - 5, *a))
    root = np.float32(5 ** (1 / 3))
    cases = {(0.5, 50): 3, (1e-3, 50): 12, (1e-3, 7): 7, (9.0, 50): 0}
    for (tol, limit), passes in cases.items():
        n, x = run(0.0, 4.0, tol, limit)
        case, near = f"for tol = {tol}, limit = {limit}", 4 / 2 ** (passes + 1)
        expect_close(n, passes, name=f"passes {case}")
        expect_close(x, root, atol=near, name=f"root {case}")
# %% ex="while_bisect" kind="check"
with check("no_pass_too_many", points=1,
           section="A recorded loop is one body, however long"):
    def f(x):
        jax.debug.callback(lambda: calls.append(1))
        return x - 1

    calls = []
    n, _ = jax.jit(lambda tol: bisect(f, 0.0, 4.0, tol, 100))(0.1)
    jax.effects_barrier()
    called = len(calls)
    assert called == 6, "6 runs of f for 6 passes, of at most 100"
    of_tol = jax.jit(lambda tol: bisect(jnp.sin, -1.0, 2.0, tol, 30))
    expect_traces(of_tol, [(tol,) for tol in (0.1, 0.01, 0.001)], at_most=1)
# %% ex="while_bisect" kind="hidden"
with check("in_a_batch", points=1,
           section="A recorded loop is one body, however long"):
    def cube(target, hi, tol, limit):
        return bisect(lambda x: x**3 - target, 0.0, hi, tol, limit)

    targets, his = jnp.array([8.0, 1, 27, 1]), jnp.array([4.0, 2, 8, 4])
    tols, limits = jnp.array([1e-3, 1, 1e-2, 1e-3]), jnp.array([50, 50, 50, 3])
    n, x = jax.vmap(cube)(targets, his, tols, limits)
    expect_close(n, np.int32([12, 1, 10, 3]), name="passes")
    wide = np.float32([1e-3, 1.0, 1e-2, 0.5])
    near = np.abs(np.asarray(x) - np.float32([2, 1, 3, 1])) <= wide
    assert near.all(), "every root within its last interval"
# %% ex="while_bisect" kind="wrong" fails="right_passes no_pass_too_many in_a_batch"
# Python's loop looks at the interval
def bisect(f, lo, hi, tol, limit):
    n = 0
    while hi - lo > tol and n < limit:
        mid = (lo + hi) / 2
        left = f(mid) < 0
        lo, hi = jnp.where(left, mid, lo), jnp.where(left, hi, mid)
        n += 1
    return n, (lo + hi) / 2
# %% ex="while_bisect" kind="wrong" fails="no_pass_too_many"
# always to the limit; what is not wanted is thrown away
def bisect(f, lo, hi, tol, limit):
    def halve(i, state):
        n, lo, hi = state
        mid, go = (lo + hi) / 2, hi - lo > tol
        left = f(mid) < 0
        return (n + go, jnp.where(go & left, mid, lo), jnp.where(go & ~left, mid, hi))

    first = (jnp.int32(0), jnp.float32(lo), jnp.float32(hi))
    n, lo, hi = lax.fori_loop(0, limit, halve, first)
    return n, (lo + hi) / 2
# %% ex="while_bisect" kind="wrong" fails="right_passes in_a_batch"
# the limit is forgotten
def bisect(f, lo, hi, tol, limit):
    def halve(state):
        n, lo, hi = state
        mid = (lo + hi) / 2
        left = f(mid) < 0
        return n + 1, jnp.where(left, mid, lo), jnp.where(left, hi, mid)

    first = (0, jnp.float32(lo), jnp.float32(hi))
    n, lo, hi = lax.while_loop(lambda s: s[2] - s[1] > tol, halve, first)
    return n, (lo + hi) / 2
# %% ex="while_bisect" kind="alternate"
def bisect(f, lo, hi, tol, limit):
    def halve(state):
        mid = 0.5 * (state["lo"] + state["hi"])
        new = {**state, "n": state["n"] + 1}
        left, right = {**new, "lo": mid}, {**new, "hi": mid}
        return lax.cond(f(mid) < 0, lambda: left, lambda: right)

    state = {"n": jnp.int32(0), "lo": jnp.float32(lo), "hi": jnp.float32(hi)}
    going = lambda s: jnp.logical_and(s["hi"] - s["lo"] > tol, s["n"] < limit)
    state = lax.while_loop(going, halve, state)
    return state["n"], 0.5 * (state["lo"] + state["hi"])
# %% ex="while_bisect" kind="alternate"
def bisect(f, lo, hi, tol, limit):
    def halve(state):
        n, lo, width = state
        width = width / 2
        return n + 1, lo + jnp.where(f(lo + width) < 0, width, 0.0), width

    going = lambda state: (state[2] > tol) & (state[0] < limit)
    first = (0, jnp.float32(lo), jnp.float32(hi) - jnp.float32(lo))
    n, lo, width = lax.while_loop(going, halve, first)
    return n, lo + width / 2
# %% [markdown] ex="while_bisect" kind="why"
# How often to halve is known by looking at the interval, so the loop is a `while_loop`,
# and its counter travels in the state. A Python `while` asks a tracer for a truth value. A
# `fori_loop` up to the limit gives the same numbers and computes all passes. The limit
# belongs into the condition: float32 has a smallest interval, and with a `tol` below it
# the loop would never end. Under `vmap` the loop runs until the last element is done, and
# JAX leaves finished elements as they are.
# %% [markdown] ex="loop_gradient" level="core" minutes=11
# ## A gradient for any number of passes
#
# `repeated` applies `f` to `x` `n` times. It is compiled with `n` as an ordinary
# argument, and the gradient with respect to `x` fails. A static `n` is no way out: there
# are too many values.
#
# Mend it, with the help of `most`, a Python number that `n` never exceeds. The gradient
# works for `n` from 0 to `most`, in one trace. The program does not grow with `most`.
# `f` maps an array to an array of the same shape and dtype; what it would give if it were
# applied more than `n` times, `inf` or `nan`, must show nowhere.
# %% ex="loop_gradient" kind="starter"
def repeated(f, x, n, most):
    """f(f(...f(x))), n times; x: f32[...], n: i32[], n <= most -> f32[...]."""
    return lax.fori_loop(0, n, lambda i, x: f(x), x)
# %% ex="loop_gradient" kind="solution"
def repeated(f, x, n, most):
    """f(f(...f(x))), n times; x: f32[...], n: i32[], n <= most -> f32[...]."""
    def apply(i, x):
        return lax.cond(i < n, f, lambda x: x, x)

    return lax.fori_loop(0, most, apply, x)
# %% [markdown] ex="loop_gradient" kind="hint"
# Reverse mode wants a number of passes that is known while tracing. Which number is?
# %% [markdown] ex="loop_gradient" kind="hint"
# Let the loop have `most` passes, and let those from `n` on change nothing. The pass has
# a number, `i`.
# %% [markdown] ex="loop_gradient" kind="hint"
# `jnp.where` computes both sides, and the gradient visits both. What runs one side only?
# %% ex="loop_gradient" kind="check"
with check("gradients", points=1,
           section="Reverse mode wants a length known in advance"):
    slope = jax.jit(jax.grad(lambda x, n: repeated(jnp.sin, x, n, 8)))
    for n in (0, 1, 3, 8):
        x, want = 0.7, 1.0
        for _ in range(n):
            x, want = np.sin(x), want * np.cos(x)
        expect_close(slope(0.7, n), want, name=f"gradient for n = {n}")
    f = lambda x: jnp.sqrt(x - 1)        # nan when applied a second time
    got = jax.jit(jax.grad(lambda x, n: repeated(f, x, n, 8)))(1.25, 1)
    expect_close(got, 1.0, name="gradient of sqrt(x - 1) for x = 1.25, n = 1")
# %% ex="loop_gradient" kind="check"
with check("numbers_share_a_trace", points=1,
           section="Reverse mode wants a length known in advance"):
    both = jax.jit(jax.value_and_grad(lambda x, n: repeated(jnp.sin, x, n, 9)))
    expect_traces(both, [(0.5, n) for n in (0, 2, 5, 9)], at_most=1)
# %% ex="loop_gradient" kind="check"
with check("size_without_most", points=1,
           section="Compile time follows the body, not the count"):
    def slope(x, n, like):
        return jax.grad(lambda x: repeated(jnp.sin, x, n, like.shape[0]))(x)

    args_of = lambda most: (jnp.float32(0.5), jnp.int32(2), jnp.zeros(most))
    expect_constant_size(slope, args_of, [4, 16, 64])
# %% ex="loop_gradient" kind="hidden"
with check("nothing_leaks", points=1,
           section="Where computes both sides, cond runs one"):
    def total(x, n):
        return repeated(lambda x: jnp.sqrt(x) - 1, x, n, 6).sum()

    x, both = np.float32([3.0, 2.2, 4.0]), jax.jit(jax.value_and_grad(total))
    slopes = []
    for n in (0, 1, 2):
        want, slope = x, np.ones(3, np.float32)
        for _ in range(n):
            want, slope = np.sqrt(want) - 1, slope / (2 * np.sqrt(want))
        value, grad = both(x, n)
        expect_close(value, want.sum(), name=f"sum for n = {n}")
        expect_close(grad, slope, name=f"gradient for n = {n}")
        slopes.append(slope)
    got = jax.vmap(jax.grad(total), (None, 0))(x, jnp.arange(3))
    expect_close(got, np.stack(slopes), name="gradients for three n at once")
# %% ex="loop_gradient" kind="wrong" fails="gradients nothing_leaks"
# compute every pass, and select
def repeated(f, x, n, most):
    def apply(i, x):
        return jnp.where(i < n, f(x), x)

    return lax.fori_loop(0, most, apply, x)
# %% ex="loop_gradient" kind="wrong" fails="gradients numbers_share_a_trace size_without_most nothing_leaks"
# a Python loop knows when to stop
def repeated(f, x, n, most):
    for _ in range(n):
        x = f(x)
    return x
# %% ex="loop_gradient" kind="wrong" fails="size_without_most"
# a Python loop to the maximum, each pass with its own branch
def repeated(f, x, n, most):
    for i in range(most):
        x = lax.cond(i < n, f, lambda x: x, x)
    return x
# %% ex="loop_gradient" kind="wrong" fails="gradients numbers_share_a_trace size_without_most nothing_leaks"
# another loop of unknown length
def repeated(f, x, n, most):
    apply = lambda state: (state[0] + 1, f(state[1]))
    return lax.while_loop(lambda s: (s[0] < n) & (s[0] < most), apply, (0, x))[1]
# %% ex="loop_gradient" kind="wrong" fails="gradients nothing_leaks"
# keep all states and pick one: the gradient of the others is 0 times infinity
def repeated(f, x, n, most):
    _, later = lax.scan(lambda x, _: (f(x), f(x)), x, None, length=most)
    return jnp.concatenate([jnp.asarray(x)[None], later])[n]
# %% ex="loop_gradient" kind="alternate"
def repeated(f, x, n, most):
    def apply(x, i):
        go = i < n
        safe = jnp.where(go, x, x0)
        return jnp.where(go, f(safe), x), None

    x0 = lax.stop_gradient(x)
    return lax.scan(apply, x, jnp.arange(most))[0]
# %% ex="loop_gradient" kind="alternate"
def repeated(f, x, n, most):
    def apply(carry, _):
        left, x = carry
        new = lax.cond(left > 0, lambda x: f(x), lambda x: x, x)
        return (left - 1, new), None

    (_, x), _ = lax.scan(apply, (jnp.asarray(n), x), length=most)
    return x
# %% [markdown] ex="loop_gradient" kind="why"
# With a traced number of passes, `fori_loop` is a `while_loop`, and reverse mode can't lay
# out memory for it. Its bound has to be known, and `n` decides in each pass whether
# anything happens. A selection computes `f` in all passes: where `f` takes the root of a
# negative number, the value is thrown away, and its gradient still arrives as 0 times
# `nan`. Picking one of all states fails in the same way. `cond` runs one side, and its
# gradient takes that side. The alternative is a `jnp.where` before `f` as well as after.
# %% [markdown] ex="batch_stop" level="stretch" minutes=16
# ## Stop when the last one has
#
# Under `vmap`, a `scan` with a `cond` in its body keeps its history and no longer stops. A
# `while_loop` that writes into an array stops and has no gradient. Write a loop for
# batches that has all three.
#
# `run_batch(going, step, states, most)` moves each element of a batch with `step` while
# `going` holds for it, `most` times at most. `going` and `step` take the state of *one*
# element, a pytree of arrays; `states` has a batch axis in front. It returns the number
# of steps of each element, and the path: the states after each of `most` passes, with
# that axis in front. An element that has stopped stays as it is.
#
# Once all have stopped, `step` does not run any more. Reverse mode works, also where
# `step` would make a stopped element `nan`, and so does `jax.jit`. The program does not grow with `most`.
# %% ex="batch_stop" kind="solution"
def run_batch(going, step, states, most):
    """Return (steps: i32[b], path); arrays [b, ...] become [most, b, ...]."""
    ### BEGIN SOLUTION
    def advance(n, state):
        move = lambda n, state: (n + 1, step(state))
        return lax.cond(going(state), move, lambda *same: same, n, state)

    def tick(carry, _):
        anyone = jax.vmap(going)(carry[1]).any()
        carry = lax.cond(anyone, jax.vmap(advance), lambda *same: same, *carry)
        return carry, carry[1]

    size = jax.tree.leaves(states)[0].shape[0]
    first = jnp.zeros(size, jnp.int32), states
    (n, _), path = lax.scan(tick, first, None, length=most)
    return n, path
    ### END SOLUTION
# %% [markdown] ex="batch_stop" kind="hint"
# A predicate that is not batched keeps its branch. So where does `vmap` belong: around
# the loop, or inside?
# %% [markdown] ex="batch_stop" kind="hint"
# One predicate for the whole batch: is anybody still going? Inside that branch, each
# element still needs a choice of its own.
# %% [markdown] ex="batch_stop" kind="hint"
# Write `advance` for one element, with a `lax.cond` on `going(state)`: under `vmap` it
# selects, and unlike `jnp.where` lets no `nan` of the side not taken into the gradient.
# The scan's body calls `lax.cond(anyone, jax.vmap(advance), ...)`.
# %% ex="batch_stop" kind="check"
with check("paths", points=1,
           section="A loop can keep its history and still stop"):
    starts = {"x": jnp.array([1.0, 6.0, 20.0]), "k": jnp.zeros((3, 2))}
    step = lambda s: {"x": s["x"] / 2, "k": s["k"] + 1}
    run = jax.jit(lambda s: run_batch(lambda s: s["x"] > 2, step, s, 6))
    x = [[1, 3, 10], [1, 1.5, 5], [1, 1.5, 2.5]] + 3 * [[1, 1.5, 1.25]]
    k = np.minimum(np.arange(1, 7)[:, None], [0, 2, 4]).astype(np.float32)
    want = {"x": np.float32(x), "k": np.repeat(k[..., None], 2, axis=2)}
    expect_close(run(starts), (np.int32([0, 2, 4]), want), name="(n, path)")
# %% ex="batch_stop" kind="check"
with check("stops_for_the_batch", points=1,
           section="Under vmap, both branches run"):
    def step(x):
        jax.debug.callback(lambda: passes.append(1))
        return x / 2

    passes = []
    run = jax.jit(lambda x: run_batch(lambda x: x > 1, step, x, 60))
    jax.block_until_ready(run(jnp.array([1.5, 33.0, 0.5, 3.0])))
    jax.effects_barrier()
    made = len(passes)
    assert made == 6, "6 passes, as many as the slowest element"
# %% ex="batch_stop" kind="check"
with check("gradient", points=1,
           section="Reverse mode wants a length known in advance"):
    def last(x):
        return run_batch(lambda x: x < 10, lambda x: x * x, x, 8)[1][-1].sum()

    x = np.float32([1.5, 3.0, 12.0])
    want = np.float32([8 * 1.5**7, 4 * 3.0**3, 1])
    expect_grad(jax.jit(last), (jnp.array(x),), want)
    root = lambda x: jnp.sqrt(x - 1)         # nan below 1
    total = lambda x: run_batch(lambda x: x > 1, root, x, 4)[1][-1].sum()
    slope = 0.25 / np.sqrt(3) / np.sqrt(np.sqrt(3) - 1)
    got = jax.grad(total)(jnp.array([0.25, 4.0]))
    expect_close(got, np.float32([1, slope]), name="gradient of sqrt(x - 1)")
# %% ex="batch_stop" kind="hidden"
with check("all_or_none", points=1,
           section="A loop can keep its history and still stop"):
    def step(x):
        jax.debug.callback(lambda: passes.append(1))
        return x + 1

    run = jax.jit(lambda x: run_batch(lambda x: x < 5, step, x, 5))
    for start, n, seen in [([9, 8], [0, 0], 0), ([-9, 4], [5, 1], 5)]:
        passes, start = [], np.float32(start)
        path = start + np.minimum(np.arange(1, 6)[:, None], n)
        want = np.int32(n), path.astype(np.float32)
        expect_close(run(start), want, name=f"(n, path) from {start}")
        jax.effects_barrier()
        made = len(passes)
        assert made == seen, "no pass more than the batch needs"
    sizes = lambda most: (jnp.ones(3), jnp.zeros(most))
    going = lambda x: x < 5
    grow = lambda x, like: run_batch(going, jnp.exp, x, like.shape[0])
    expect_constant_size(grow, sizes, [3, 30])
# %% ex="batch_stop" kind="wrong" fails="stops_for_the_batch all_or_none"
# the loop for one element, mapped
def run_batch(going, step, states, most):
    def one(state):
        def tick(carry, _):
            move = lambda n, s: (n + 1, step(s))
            carry = lax.cond(going(carry[1]), move, lambda *same: same, *carry)
            return carry, carry[1]

        (n, _), path = lax.scan(tick, (jnp.int32(0), state), None, length=most)
        return n, path

    return jax.vmap(one, out_axes=(0, 1))(states)
# %% ex="batch_stop" kind="wrong" fails="paths gradient all_or_none"
# one predicate for all, and everybody moves while anybody does
def run_batch(going, step, states, most):
    def tick(carry, _):
        go = jax.vmap(going)(carry[1])
        move = lambda n, s: (n + go, jax.vmap(step)(s))
        carry = lax.cond(go.any(), move, lambda *same: same, *carry)
        return carry, carry[1]

    size = jax.tree.leaves(states)[0].shape[0]
    first = jnp.zeros(size, jnp.int32), states
    (n, _), path = lax.scan(tick, first, None, length=most)
    return n, path
# %% ex="batch_stop" kind="wrong" fails="gradient"
# `jnp.where` for each element: 0 times the `nan` of one that has stopped
def run_batch(going, step, states, most):
    def advance(n, state):
        go = going(state)
        pick = lambda new, old: jnp.where(go, new, old)
        return n + go, jax.tree.map(pick, step(state), state)

    def tick(carry, _):
        anyone = jax.vmap(going)(carry[1]).any()
        carry = lax.cond(anyone, jax.vmap(advance), lambda *same: same, *carry)
        return carry, carry[1]

    size = jax.tree.leaves(states)[0].shape[0]
    first = jnp.zeros(size, jnp.int32), states
    (n, _), path = lax.scan(tick, first, None, length=most)
    return n, path
# %% ex="batch_stop" kind="wrong" fails="gradient"
# a `while_loop` that fills an array: it stops, and has no way back
def run_batch(going, step, states, most):
    def advance(state):
        go = going(state)
        pick = lambda new, old: jnp.where(go, new, old)
        return jax.tree.map(pick, step(state), state)

    def move(carry):
        i, n, states, path = carry
        n = n + jax.vmap(going)(states)
        states = jax.vmap(advance)(states)
        rest = lambda p, s: jnp.where(row.reshape(-1, *[1] * s.ndim) >= i, s, p)
        path = jax.tree.map(rest, path, states)
        return i + 1, n, states, path

    row = jnp.arange(most)
    alive = lambda c: (c[0] < most) & jax.vmap(going)(c[2]).any()
    size = jax.tree.leaves(states)[0].shape[0]
    path = jax.tree.map(lambda s: jnp.stack([s] * most), states)
    first = 0, jnp.zeros(size, jnp.int32), states, path
    _, n, _, path = lax.while_loop(alive, move, first)
    return n, path
# %% ex="batch_stop" kind="wrong" fails="paths stops_for_the_batch gradient all_or_none"
# Python breaks out of the loop
def run_batch(going, step, states, most):
    n, path = 0, []
    for _ in range(most):
        go = jax.vmap(going)(states)
        if not go.any():
            break
        new = jax.vmap(step)(states)
        states = jax.tree.map(lambda new, old: jnp.where(go, new, old), new, states)
        n = n + go
        path.append(states)
    return n, jax.tree.map(lambda *s: jnp.stack(s), *path)
# %% ex="batch_stop" kind="alternate"
def run_batch(going, step, states, most):
    def tick(states, _):
        go = jax.vmap(going)(states)

        def move(states):
            one = lambda go, s: lax.cond(go, step, lambda s: s, s)
            return jax.vmap(one)(go, states)

        states = lax.cond(jnp.any(go), move, lambda s: s, states)
        return states, (go, states)

    _, (went, path) = lax.scan(tick, states, length=most)
    return went.sum(0, dtype=jnp.int32), path
# %% [markdown] ex="batch_stop" kind="why"
# What decides is the predicate. Mapped from outside, it is batched, the branch becomes a
# selection, and all passes run. Here the loop is outside and `vmap` inside: one predicate,
# whether anybody is still going, stays a branch. Within it each element has a `cond` of its
# own, or those that have stopped would move on with the rest. `vmap` makes it a selection,
# and keeps its gradient clean; a `jnp.where` would not. The scan has a known
# length, so reverse mode goes through it; a `while_loop` has none. A Python `break` needs
# a truth value that does not exist while tracing.
# %% [markdown] ex="recurrence_parallel" level="stretch" minutes=14
# ## A recurrence by levels
#
# Write `recurrence(a, b, h0)`, which returns $h_1, \dots, h_T$ of
#
# $$h_t = a_t\,h_{t-1} + b_t$$
#
# for `a` and `b` of one shape: `f32[T]`, where `h0` is a number, or `f32[T, d]`, where
# `h0` is `f32[d]`. It is what many recurrent layers compute. No loop may run through the steps in order:
# there is neither a `scan` nor a `while` in the record, and the record grows with the
# logarithm of $T$. `a` may be anything, 0 included.
# %% ex="recurrence_parallel" kind="solution"
def recurrence(a, b, h0):
    """All h of h = a * h + b; a, b: f32[T, ...], h0: f32[...]."""
    ### BEGIN SOLUTION
    def then(first, second):
        a1, b1 = first
        a2, b2 = second
        return a2 * a1, a2 * b1 + b2

    scale, shift = lax.associative_scan(then, (a, b))
    return scale * h0 + shift
    ### END SOLUTION
# %% [markdown] ex="recurrence_parallel" kind="hint"
# A step is a function, $h \mapsto a h + b$. Two such steps after one another are again
# such a function. With which $a$ and $b$?
# %% [markdown] ex="recurrence_parallel" kind="hint"
# `lax.associative_scan(then, (a, b))` composes all steps up to each $t$. `then` gets two
# pairs, the earlier step first, and returns a pair.
# %% [markdown] ex="recurrence_parallel" kind="hint"
# $a_2(a_1 h + b_1) + b_2$ is the second step after the first. What comes out of the scan
# is a pair for every $t$; apply it to `h0`.
# %% ex="recurrence_parallel" kind="check"
with check("right_numbers", points=1,
           section="A recurrence need not run in order"):
    a = np.float32([[0.5, 2], [-1, 0.5], [0, 1], [0.25, -2], [1.5, 0]])
    b = np.float32([[1, 0], [0.5, -1], [-1, 2], [2, 0.5], [0, 1]])
    h0 = h = np.float32([3, -1])
    want = np.empty((5, 2), np.float32)
    for t in range(5):
        h = want[t] = a[t] * h + b[t]
    run = jax.jit(recurrence)
    flat = run(jnp.array(a[:, 0]), jnp.array(b[:, 0]), 3.0)
    expect_close(flat, want[:, 0], name="h of shape (5,)")
    both = run(jnp.array(a), jnp.array(b), jnp.array(h0))
    expect_close(both, want, name="h of shape (5, 2)")
# %% ex="recurrence_parallel" kind="check"
with check("few_levels", points=2,
           section="A recurrence need not run in order"):
    args = lambda size: (jnp.full(size, 0.5), jnp.ones(size), jnp.float32(1))
    expect_primitives(recurrence, args(256), lacks=("scan", "while"))
    records = [jaxpr_of(recurrence, *args(size)) for size in (32, 1024)]
    short, long = (len(list(iter_eqns(record))) for record in records)
    grown = long / short
    assert grown < 4, "a record at most 4 times as long for 32 times the steps"
# %% ex="recurrence_parallel" kind="hidden" apart=true
with check("any_coefficients", points=1,
           section="A recurrence need not run in order"):
    rng = np.random.default_rng(0)
    for shape in [(1,), (2, 3), (40,)]:
        a, b = rng.uniform(-1, 1, (2, *shape)).astype(np.float32)
        a[:: 5] = 0.0
        h0 = rng.normal(size=shape[1:]).astype(np.float32)
        h, want = h0, np.empty(shape, np.float32)
        for t in range(shape[0]):
            h = want[t] = a[t] * h + b[t]
        got, name = jax.jit(recurrence)(a, b, h0), f"h of shape {shape}"
        expect_close(got, want, rtol=1e-4, atol=1e-5, name=name)
# %% ex="recurrence_parallel" kind="wrong" fails="few_levels"
# one step after the other, compiled
def recurrence(a, b, h0):
    def tick(h, ab):
        h = ab[0] * h + ab[1]
        return h, h

    return lax.scan(tick, h0, (a, b))[1]
# %% ex="recurrence_parallel" kind="wrong" fails="few_levels"
# one step after the other, by Python
def recurrence(a, b, h0):
    states = [h0]
    for a_t, b_t in zip(a, b):
        states.append(a_t * states[-1] + b_t)
    return jnp.stack(states[1:])
# %% ex="recurrence_parallel" kind="wrong" fails="right_numbers any_coefficients"
# a matrix for each step, for one column only
def recurrence(a, b, h0):
    zero, one = jnp.zeros_like(a), jnp.ones_like(a)
    steps = jnp.array([[a, b], [zero, one]]).transpose(2, 0, 1)
    products = lax.associative_scan(lambda first, second: second @ first, steps)
    return products[:, 0, 0] * h0 + products[:, 0, 1]
# %% ex="recurrence_parallel" kind="wrong" fails="right_numbers any_coefficients"
# the closed form divides by a product of all factors
def recurrence(a, b, h0):
    product = jnp.cumprod(a, axis=0)
    return product * (h0 + jnp.cumsum(b / product, axis=0))
# %% ex="recurrence_parallel" kind="wrong" fails="right_numbers any_coefficients"
# the later step is taken for the first
def recurrence(a, b, h0):
    def then(second, first):
        return second[0] * first[0], second[0] * first[1] + second[1]

    scale, shift = lax.associative_scan(then, (a, b))
    return scale * h0 + shift
# %% ex="recurrence_parallel" kind="wrong" fails="right_numbers any_coefficients"
# `h = a * h + b` is combined directly, and it is not associative
def recurrence(a, b, h0):
    def then(first, second):
        return second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(then, (a, b.at[0].add(a[0] * h0)))[1]
# %% ex="recurrence_parallel" kind="alternate"
def recurrence(a, b, h0):
    def matmul(first, second):
        return second @ first

    one, zero = jnp.ones_like(a), jnp.zeros_like(a)
    rows = jnp.stack([jnp.stack([a, b], -1), jnp.stack([zero, one], -1)], -2)
    products = lax.associative_scan(matmul, rows)
    return products[..., 0, 0] * h0 + products[..., 0, 1]
# %% ex="recurrence_parallel" kind="alternate"
def recurrence(a, b, h0):
    b = b.at[0].add(a[0] * h0)
    span = 1
    while span < len(a):
        ones = jnp.ones((span, *a.shape[1:]))
        zeros = jnp.zeros((span, *a.shape[1:]))
        earlier_a = jnp.concatenate([ones, a[:-span]])
        earlier_b = jnp.concatenate([zeros, b[:-span]])
        a, b = a * earlier_a, a * earlier_b + b
        span *= 2
    return b
# %% [markdown] ex="recurrence_parallel" kind="why"
# The operation on numbers, from $h$ to the next $h$, can't be bracketed anew: there is no
# state to begin with in the middle. The steps themselves can, since two of them make one:
# scale by $a_2 a_1$, shift by $a_2 b_1 + b_2$. That composition is associative and not
# commutative, so the earlier step must stay the first argument. A scan over the steps is
# right and sequential. The closed form with `cumprod` divides by a product that underflows
# or is 0.
