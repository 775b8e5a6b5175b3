# %% [markdown]
# # An optimiser is a pair of functions
#
# Eight exercises on optimisers that return what they change: steps, transformations,
# schedules, groups, and what stays in the state. They go with the chapter of the same
# name, and run without PyTorch.
# %%
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tracecheck import check, expect_close, expect_donated, expect_not_donated
from tracecheck import expect_pure, expect_same_tree, expect_traces
# %% [markdown] ex="optim_step" level="warm-up" minutes=8
# ## A step around any optimiser
#
# In PyTorch, five lines do for every optimizer:
#
# ```python
# opt.zero_grad()
# loss = loss_fn(model, batch)
# loss.backward()
# opt.step()
# return loss
# ```
#
# Write `make_step(tx, loss_fn)` for every optax optimiser. It returns
# `step(params, state, batch)`, compiled as one program, which returns the new
# parameters, the new state, and the loss before the step. Parameters and state are donated; the batch still belongs
# to the caller. Batches of one shape share a trace.
# %% ex="optim_step" kind="solution"
def make_step(tx, loss_fn):
    """Return step(params, state, batch) -> (params, state, loss f32[]).

    loss_fn(params, batch) -> f32[]; params and batch are trees of arrays.
    """
    ### BEGIN SOLUTION
    @jax.jit(donate_argnames=("params", "state"))
    def step(params, state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    return step
    ### END SOLUTION
# %% [markdown] ex="optim_step" kind="hint"
# Four things happen: loss and gradients, updates and a new state, new parameters, and
# the return of all three. Which of these does PyTorch do in place?
# %% [markdown] ex="optim_step" kind="hint"
# Some optimisers read the parameters: `tx.update(grads, state, params)`. Name what is
# donated: `@jax.jit(donate_argnames=("params", "state"))`.
# %% ex="optim_step" kind="check"
with check("momentum_steps", points=1,
           section="An optimiser is two functions and a state"):
    def loss_fn(params, batch):
        return jnp.sum((params["w"] - batch) ** 2) / 2

    w, v, batch = np.float32([1, -2]), np.float32([0, 0]), np.float32([3, 0])
    tx = optax.sgd(0.1, momentum=0.9)
    params, step = {"w": jnp.array(w)}, make_step(tx, loss_fn)
    state = tx.init(params)
    for n in range(3):
        before, v = ((w - batch) ** 2).sum() / 2, 0.9 * v + w - batch
        w = w - 0.1 * v
        params, state, loss = step(params, state, jnp.array(batch))
        expect_close(params, {"w": w}, atol=1e-6, name="params")
        expect_close(loss, before, name="loss")
# %% ex="optim_step" kind="check"
with check("every_optimiser", points=1,
           section="An optimiser is two functions and a state"):
    # All gradients are 0, so nothing moves the weights but their decay.
    tx = optax.adamw(0.1, weight_decay=0.5)
    params = {"w": jnp.ones(3)}
    step = make_step(tx, lambda p, batch: 0.0 * p["w"].sum() + batch)
    params, _, loss = step(params, tx.init(params), jnp.float32(7))
    expect_close(params["w"], np.full(3, 0.95, np.float32), name="params")
    expect_close(loss, np.float32(7), name="loss")
# %% ex="optim_step" kind="check"
with check("right_donations", points=1,
           section="An optimiser is two functions and a state"):
    # The batch has the shape of the loss: its memory could be taken.
    tx, params = optax.adam(0.1), {"w": jnp.ones(4)}
    step = make_step(tx, lambda p, batch: jnp.sum(p["w"] * batch["x"]))
    batch = {"x": jnp.float32(2)}
    calls = (params, tx.init(params), batch)
    expect_donated(step, calls, 0)
    expect_donated(step, calls, 1)
    expect_not_donated(step, calls, 2)
    expect_traces(step, [calls, calls], at_most=1)
    programs = len(jax.make_jaxpr(step)(*calls).eqns)
    assert programs == 1, "one compiled program, from gradients to parameters"
# %% ex="optim_step" kind="hidden"
with check("count_advances", points=1,
           section="A schedule is a function of the count"):
    rates = np.float32([0.5, 0.25, 0.0, 0.0])
    tx = optax.sgd(optax.linear_schedule(0.5, 0.0, 2))
    params, total = [jnp.zeros(2), {"b": jnp.zeros(())}], np.float32(0)
    def loss_fn(params, batch):
        return params[0].sum() + params[1]["b"] * batch

    state, step = tx.init(params), make_step(tx, loss_fn)
    for rate in rates:
        params, state, _ = step(params, state, jnp.float32(3))
        total = total + rate
        want = [np.full(2, -total), {"b": -3 * total}]
        want = jax.tree.map(np.float32, want)
        expect_close(params, want, name="params")
# %% ex="optim_step" kind="wrong" fails="momentum_steps count_advances"
# the optimiser is taken for an object that remembers
def make_step(tx, loss_fn):
    @jax.jit(donate_argnames=("params", "state"))
    def step(params, state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, _ = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    return step
# %% ex="optim_step" kind="wrong" fails="every_optimiser"
# the parameters are left out, since SGD and Adam don't ask for them
def make_step(tx, loss_fn):
    @jax.jit(donate_argnames=("params", "state"))
    def step(params, state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    return step
# %% ex="optim_step" kind="wrong" fails="right_donations"
# everything is donated, the batch of the caller as well
def make_step(tx, loss_fn):
    @jax.jit(donate_argnames=("params", "state", "batch"))
    def step(params, state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    return step
# %% ex="optim_step" kind="wrong" fails="momentum_steps every_optimiser count_advances"
# updates are subtracted, as gradients would be
def make_step(tx, loss_fn):
    @jax.jit(donate_argnames=("params", "state"))
    def step(params, state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, state = tx.update(grads, state, params)
        params = jax.tree.map(lambda p, u: p - u, params, updates)
        return params, state, loss

    return step
# %% ex="optim_step" kind="wrong" fails="right_donations"
# three programs, one for each of PyTorch's calls
def make_step(tx, loss_fn):
    backward = jax.jit(jax.value_and_grad(loss_fn))
    update = jax.jit(tx.update, donate_argnums=1)
    apply = jax.jit(optax.apply_updates, donate_argnums=0)

    def step(params, state, batch):
        loss, grads = backward(params, batch)
        updates, state = update(grads, state, params)
        return apply(params, updates), state, loss

    return step
# %% ex="optim_step" kind="alternate"
def make_step(tx, loss_fn):
    def step(params, state, batch):
        grads, loss = jax.grad(
            lambda p: (loss_fn(p, batch),) * 2, has_aux=True)(params)
        updates, state = tx.update(grads, state, params)
        params = jax.tree.map(jnp.add, params, updates)
        return params, state, loss

    return jax.jit(step, donate_argnums=(0, 1))
# %% [markdown] ex="optim_step" kind="why"
# `opt.step()` changes two things in place: the parameters, and the optimizer's memory.
# Both are results here, and both replace arrays of the same shapes, so both can be
# donated. If the state that comes back is the old one, momentum and count start anew
# in every step, without an error. Updates carry their sign already; they are added.
# Only some transformations read the parameters, and a step that serves them all passes
# them always. The batch is read only: whoever gave it may use it for the next epoch.
# %% [markdown] ex="lion_write" level="core" minutes=10
# ## A transformation that keeps only signs
#
# Lion takes the sign of a blend of its memory and the gradient, and then updates the
# memory with *another* factor. For every leaf, with $m = 0$ at first:
#
# $$u = \operatorname{sign}(b_1 m + (1 - b_1) g), \qquad
#   m \leftarrow b_2 m + (1 - b_2) g$$
#
# Write `lion_direction(b1, b2)`, a gradient transformation that returns $u$, without
# learning rate and minus sign: they come later in the chain. It works for any tree of
# float32 arrays, in `optax.chain`, under `jax.jit` and in `jax.lax.scan`. Don't use
# optax's own Lion.
# %% ex="lion_write" kind="solution"
class LionState(NamedTuple):
    """Memory of the gradients: a tree like the parameters."""

    memory: optax.Params


def lion_direction(b1, b2):
    """Return an optax.GradientTransformation; updates are -1, 0 or 1."""
    ### BEGIN SOLUTION
    def init(params):
        return LionState(optax.tree.zeros_like(params))

    def update(updates, state, params=None):
        signs = jax.tree.map(lambda m, g: jnp.sign(b1 * m + (1 - b1) * g),
                             state.memory, updates)
        memory = jax.tree.map(lambda m, g: b2 * m + (1 - b2) * g,
                              state.memory, updates)
        return signs, LionState(memory)

    return optax.GradientTransformation(init, update)
    ### END SOLUTION
# %% [markdown] ex="lion_write" kind="hint"
# `init` makes a tree of zeros. `update` walks memory and gradients together, once for
# the signs and once for the memory.
# %% [markdown] ex="lion_write" kind="hint"
# Both walks start from the *old* memory. Return
# `optax.GradientTransformation(init, update)`, where `update` takes gradients, a state
# and `params=None`.
# %% ex="lion_write" kind="check"
with check("three_signs", points=1,
           section="A transformation of your own is two functions"):
    m, grads = np.float32([0, 0, 0]), np.float32([[1, -1, 3], [-2, 0.1, -1],
                                                  [-1, 0.2, -6]])
    tx = optax.chain(lion_direction(0.5, 0.9), optax.scale(-0.1))
    state = tx.init({"w": jnp.zeros(3)})
    for n, g in enumerate(grads, 1):
        want = -0.1 * np.sign(0.5 * m + 0.5 * g)
        m = 0.9 * m + 0.1 * g
        got, state = tx.update({"w": jnp.array(g)}, state)
        expect_close(got, {"w": np.float32(want)}, name=f"updates {n}")
# %% ex="lion_write" kind="check"
with check("carries_in_scan", points=1,
           section="A transformation of your own is two functions"):
    tx, grads = lion_direction(0.9, 0.5), np.float32([4, -1, -1, -1, 0])
    state = tx.init(jnp.float32(0))
    step = lambda state, g: tx.update(g, state)[::-1]
    last, signs = jax.lax.scan(step, state, jnp.array(grads))
    # memories 0, 2, 0.5, -0.25, -0.625 before the five updates
    expect_close(signs, np.float32([1, 1, 1, -1, -1]), name="updates")
    expect_same_tree(last, state, name="state")
    own = not isinstance(state, optax.ScaleByLionState)
    assert own, "a transformation of your own, not optax's"
# %% ex="lion_write" kind="hidden"
with check("any_tree_one_trace", points=1,
           section="A transformation of your own is two functions"):
    tx = lion_direction(0.8, 0.95)
    draw = np.random.default_rng(0).normal
    like = lambda: (np.float32(draw(size=(2, 3))), [np.float32(draw(size=4))])
    params, memory = like(), (np.zeros((2, 3)), [np.zeros(4)])
    state, calls = tx.init(jax.tree.map(jnp.array, params)), []
    for _ in range(6):
        grads = like()
        calls.append((jax.tree.map(jnp.array, grads), state))
        got, state = tx.update(*calls[-1])
        want = jax.tree.map(lambda m, g: np.float32(np.sign(4 * m + g)),
                            memory, grads)
        memory = jax.tree.map(lambda m, g: 0.95 * m + 0.05 * g, memory, grads)
        expect_close(got, want, name="updates")
    expect_traces(jax.jit(tx.update), calls, at_most=1)
    expect_pure(tx.update, calls)
# %% ex="lion_write" kind="wrong" fails="three_signs carries_in_scan any_tree_one_trace"
# momentum first, then the sign of it: one factor is never used
class LionState(NamedTuple):
    memory: optax.Params


def lion_direction(b1, b2):
    def init(params):
        return LionState(optax.tree.zeros_like(params))

    def update(updates, state, params=None):
        memory = jax.tree.map(lambda m, g: b2 * m + (1 - b2) * g,
                              state.memory, updates)
        return jax.tree.map(jnp.sign, memory), LionState(memory)

    return optax.GradientTransformation(init, update)
# %% ex="lion_write" kind="wrong" fails="three_signs any_tree_one_trace"
# the blend is stored, since a step in place would have overwritten the memory
class LionState(NamedTuple):
    memory: optax.Params


def lion_direction(b1, b2):
    def init(params):
        return LionState(optax.tree.zeros_like(params))

    def update(updates, state, params=None):
        blend = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g,
                             state.memory, updates)
        memory = jax.tree.map(lambda m, g: b2 * m + (1 - b2) * g,
                              blend, updates)
        return jax.tree.map(jnp.sign, blend), LionState(memory)

    return optax.GradientTransformation(init, update)
# %% ex="lion_write" kind="wrong" fails="carries_in_scan any_tree_one_trace"
# the memory is made on first use, as PyTorch's optimizers do it
class LionState(NamedTuple):
    memory: optax.Params


def lion_direction(b1, b2):
    def init(params):
        return LionState(None)

    def update(updates, state, params=None):
        old = state.memory
        if old is None:
            old = optax.tree.zeros_like(updates)
        signs = jax.tree.map(lambda m, g: jnp.sign(b1 * m + (1 - b1) * g),
                             old, updates)
        memory = jax.tree.map(lambda m, g: b2 * m + (1 - b2) * g, old, updates)
        return signs, LionState(memory)

    return optax.GradientTransformation(init, update)
# %% ex="lion_write" kind="wrong" fails="three_signs carries_in_scan any_tree_one_trace"
# the minus sign is put in here too, so the chain climbs
class LionState(NamedTuple):
    memory: optax.Params


def lion_direction(b1, b2):
    def init(params):
        return LionState(optax.tree.zeros_like(params))

    def update(updates, state, params=None):
        signs = jax.tree.map(lambda m, g: -jnp.sign(b1 * m + (1 - b1) * g),
                             state.memory, updates)
        memory = jax.tree.map(lambda m, g: b2 * m + (1 - b2) * g,
                              state.memory, updates)
        return signs, LionState(memory)

    return optax.GradientTransformation(init, update)
# %% ex="lion_write" kind="wrong" fails="carries_in_scan"
# the ready-made one, which the statement rules out
def lion_direction(b1, b2):
    return optax.scale_by_lion(b1, b2)
# %% ex="lion_write" kind="alternate"
def lion_direction(b1, b2):
    memory = optax.ema(b2, debias=False)

    def update(grads, state, params=None):
        blend = optax.incremental_update(grads, state.ema, 1 - b1)
        _, state = memory.update(grads, state)
        return jax.tree.map(jnp.sign, blend), state

    return optax.GradientTransformation(memory.init, update)
# %% [markdown] ex="lion_write" kind="why"
# A transformation is a function of the old state, so there is no question of what has
# been overwritten already: both lines read the same memory. The state has to have its
# final structure from the start, because a scan compares what goes in with what comes
# out, and under `jit` another structure is another trace. Direction and length are
# kept apart: whoever puts the minus sign here can't combine it with the optax parts
# that follow.
# %% [markdown] ex="decay_groups" level="core" minutes=10
# ## AdamW with PyTorch's parameter groups
#
# A model was trained in PyTorch like this:
#
# ```python
# wide = [p for p in model.parameters() if p.ndim >= 2]
# rest = [p for p in model.parameters() if p.ndim < 2]
# opt = torch.optim.AdamW([
#     {"params": wide},
#     {"params": rest, "weight_decay": 0.0},
# ], lr=lr, weight_decay=weight_decay)
# ```
#
# Write `make_optimizer(lr, weight_decay)`, which makes the same steps for any tree of
# float32 arrays. PyTorch's other defaults are `betas=(0.9, 0.999)` and `eps=1e-8`; if
# `weight_decay` is left out, it is PyTorch's as well.
# %% ex="decay_groups" kind="starter"
def make_optimizer(lr, weight_decay=None):
    """AdamW that decays leaves with two or more axes, and no others."""
    return optax.adamw(lr)
# %% ex="decay_groups" kind="solution"
def make_optimizer(lr, weight_decay=1e-2):
    """AdamW that decays leaves with two or more axes, and no others."""
    def wide(params):
        return jax.tree.map(lambda p: p.ndim >= 2, params)

    return optax.adamw(lr, weight_decay=weight_decay, mask=wide)
# %% [markdown] ex="decay_groups" kind="hint"
# Both groups take the same Adam steps. They differ in one part of the chain, and a
# mask says where that part is applied.
# %% [markdown] ex="decay_groups" kind="hint"
# `optax.adamw` takes `mask`: a tree of bools, or a function that makes one from the
# parameters. Which of its defaults is not PyTorch's?
# %% ex="decay_groups" kind="check"
with check("three_steps", points=1,
           section="What a mask leaves out passes through"):
    p = {"w": np.full((2, 2), 3.0), "scale": np.ones(2), "b": np.ones(2)}
    tx, params = make_optimizer(0.1, 0.2), jax.tree.map(jnp.float32, p)
    state, m, v = tx.init(params), 0.0, 0.0
    for n, g in enumerate((1.0, -0.5, 2.0), 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        u = (m / (1 - 0.9**n)) / (math.sqrt(v / (1 - 0.999**n)) + 1e-8)
        p = {k: a - 0.1 * (u + (0.2 * a if k == "w" else 0))
             for k, a in p.items()}
        grads = jax.tree.map(lambda a: jnp.full(a.shape, g), params)
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    expect_close(params, p, atol=1e-5, name="params after 3 steps")
# %% ex="decay_groups" kind="check"
with check("decay_alone", points=1,
           section="Order in a chain decides what gets scaled"):
    # No gradients: what is left of a step is the decay, times 1 - lr * decay.
    params = {"w": jnp.full((1, 3), 2.0), "norm": {"scale": jnp.full(3, 2.0)}}
    for decay, kept in (((0.5,), 0.95), ((0.0,), 1.0), ((), 0.999)):
        tx = make_optimizer(0.1, *decay)
        grads = optax.tree.zeros_like(params)
        updates, _ = tx.update(grads, tx.init(params), params)
        new = optax.apply_updates(params, updates)
        want = np.full((1, 3), 2 * kept, np.float32)
        expect_close(new["w"], want, name=f"w with decay {decay}")
        same = np.full(3, 2, np.float32)
        expect_close(new["norm"]["scale"], same, name="scale")
# %% ex="decay_groups" kind="hidden"
with check("other_trees", points=1,
           section="What a mask leaves out passes through"):
    params = [jnp.full((2, 1, 1, 2), 4.0), (jnp.float32(4), jnp.full(5, 4.0))]
    tx = make_optimizer(0.01, 1.0)
    update, state = jax.jit(tx.update), tx.init(params)
    # 1e-8 is as long as eps, so the last leaf goes half as far as the others.
    grads = [jnp.full((2, 1, 1, 2), 3.0), (jnp.float32(3), jnp.full(5, 1e-8))]
    for _ in range(4):
        updates, state = update(grads, state, params)
        params = optax.apply_updates(params, updates)
    wide, rest, half = 4.0, 4.0 - 0.04, 4.0 - 0.02
    for _ in range(4):
        wide = wide - 0.01 * (1 + wide)
    want = [np.full((2, 1, 1, 2), wide), (rest, np.full(5, half))]
    want = jax.tree.map(np.float32, want)
    expect_close(params, want, atol=1e-5, name="params")
# %% ex="decay_groups" kind="wrong" fails="three_steps decay_alone other_trees"
# the decay is added to the gradient: PyTorch's Adam, not its AdamW
def make_optimizer(lr, weight_decay=1e-2):
    def wide(params):
        return jax.tree.map(lambda p: p.ndim >= 2, params)

    return optax.chain(
        optax.add_decayed_weights(weight_decay, mask=wide), optax.adam(lr))
# %% ex="decay_groups" kind="wrong" fails="three_steps decay_alone other_trees"
# leaves are chosen by the name of a bias; the scale of a norm is forgotten
def make_optimizer(lr, weight_decay=1e-2):
    def wide(params):
        return jax.tree.map_with_path(
            lambda path, _: "b" not in jax.tree_util.keystr(path), params)

    return optax.adamw(lr, weight_decay=weight_decay, mask=wide)
# %% ex="decay_groups" kind="wrong" fails="decay_alone"
# the default is optax's
def make_optimizer(lr, weight_decay=1e-4):
    def wide(params):
        return jax.tree.map(lambda p: p.ndim >= 2, params)

    return optax.adamw(lr, weight_decay=weight_decay, mask=wide)
# %% ex="decay_groups" kind="wrong" fails="three_steps other_trees"
# the mask is put around all of AdamW: other leaves get their raw gradients
def make_optimizer(lr, weight_decay=1e-2):
    def wide(params):
        return jax.tree.map(lambda p: p.ndim >= 2, params)

    return optax.masked(optax.adamw(lr, weight_decay=weight_decay), wide)
# %% ex="decay_groups" kind="wrong" fails="decay_alone"
# a decay of 0 counts as none given
def make_optimizer(lr, weight_decay=None):
    def wide(params):
        return jax.tree.map(lambda p: p.ndim >= 2, params)

    return optax.adamw(lr, weight_decay=weight_decay or 1e-2, mask=wide)
# %% ex="decay_groups" kind="wrong" fails="other_trees"
# eps is put inside the root
def make_optimizer(lr, weight_decay=1e-2):
    def wide(params):
        return jax.tree.map(lambda p: p.ndim >= 2, params)

    return optax.adamw(lr, eps=0.0, eps_root=1e-8, mask=wide,
                       weight_decay=weight_decay)
# %% ex="decay_groups" kind="alternate"
def make_optimizer(lr, weight_decay=1e-2):
    def label(params):
        return jax.tree.map(lambda p: "wide" if p.ndim > 1 else "rest", params)

    return optax.partition(
        {"wide": optax.adamw(lr, weight_decay=weight_decay),
         "rest": optax.adam(lr)}, label)
# %% ex="decay_groups" kind="alternate"
def make_optimizer(lr, weight_decay=1e-2):
    def decay(updates, params):
        return jax.tree.map(
            lambda u, p: u + weight_decay * p if p.ndim >= 2 else u,
            updates, params)

    return optax.chain(optax.scale_by_adam(), optax.stateless(decay),
                       optax.scale(-lr))
# %% [markdown] ex="decay_groups" kind="why"
# Groups in PyTorch are lists of parameters with their own numbers; a mask is a tree of
# bools, and the number stays one. It belongs to one part, the decay. Around the whole
# of AdamW, a mask hands the other leaves their gradients back, unscaled and with the
# wrong sign. What is spared are vectors and scalars, so ask for `ndim`: names differ
# from model to model, and the scale of a norm is no bias. PyTorch's default decay is
# a hundred times optax's.
# %% [markdown] ex="warmup_match" level="core" minutes=10
# ## The schedule of another codebase
#
# A PyTorch run used `LambdaLR` with this factor, and called `sched.step()` after every
# `opt.step()`:
#
# ```python
# def factor(k):                       # k updates were made before
#     if k < warmup:
#         return (k + 1) / warmup
#     done = (k - warmup) / (total - warmup)
#     return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
# ```
#
# Write `make_schedule(peak, warmup, total)`, which returns an optax schedule with
# the rates `peak * factor(k)`. The count may be a Python number or an array, traced or
# not. `warmup` is at least 1 and less than `total`.
# %% ex="warmup_match" kind="solution"
def make_schedule(peak, warmup, total):
    """Return schedule(count) -> rate of the update after `count` others."""
    ### BEGIN SOLUTION
    ramp = optax.linear_schedule(peak / warmup, peak, warmup - 1)
    fall = optax.cosine_decay_schedule(peak, total - warmup)
    return optax.join_schedules([ramp, fall], [warmup])
    ### END SOLUTION
# %% [markdown] ex="warmup_match" kind="hint"
# Write down the first rates for `warmup = 4`. From which value to which does the ramp
# go, and in how many steps? How long does the cosine last?
# %% [markdown] ex="warmup_match" kind="hint"
# `optax.join_schedules(schedules, boundaries)` gives each schedule a count that starts
# at its boundary. The ramp reaches the peak at count `warmup - 1`, the cosine leaves it
# at `warmup`. Or write one formula with `jnp.where`.
# %% ex="warmup_match" kind="check"
with check("same_rates", points=1,
           section="A schedule is a function of the count"):
    schedule = make_schedule(0.8, 4, 12)
    rates = [float(schedule(k)) for k in range(16)]
    ramp = [0.2, 0.4, 0.6, 0.8]
    done = np.minimum(np.arange(12) / 8, 1)
    want = np.append(ramp, 0.4 * (1 + np.cos(np.pi * done)))
    expect_close(np.float32(rates), want, atol=1e-6, name="rates 0 to 15")
# %% ex="warmup_match" kind="check"
with check("drives_an_optimiser", points=1,
           section="A schedule is a function of the count"):
    tx = optax.sgd(make_schedule(1.0, 2, 6))
    state, g = tx.init(jnp.ones(1)), jnp.ones(1)
    step = lambda state, _: tx.update(g, state)[::-1]
    _, updates = jax.lax.scan(step, state, length=7)
    cosine = [1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5, 0]
    want = -np.float32([0.5, 1, *cosine])
    expect_close(updates[:, 0], want, atol=1e-6, name="updates")
# %% ex="warmup_match" kind="hidden"
with check("other_lengths", points=1,
           section="A schedule is a function of the count"):
    for peak, warmup, total in ((0.3, 1, 5), (2.0, 10, 11), (1.0, 7, 40)):
        def factor(k):
            if k < warmup:
                return (k + 1) / warmup
            done = (k - warmup) / (total - warmup)
            return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))

        counts = np.arange(total + 5)
        want = np.float32([peak * factor(k) for k in counts.tolist()])
        schedule = make_schedule(peak, warmup, total)
        got = jax.jit(jax.vmap(schedule))(jnp.array(counts))
        expect_close(got, want, atol=1e-6, name=f"rates of {warmup}, {total}")
# %% ex="warmup_match" kind="wrong" fails="same_rates drives_an_optimiser other_lengths"
# the ready-made schedule: it climbs from 0 and gets to the peak one step later
def make_schedule(peak, warmup, total):
    return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, total)
# %% ex="warmup_match" kind="wrong" fails="same_rates drives_an_optimiser other_lengths"
# the first rate is right, but the ramp takes a step too many
def make_schedule(peak, warmup, total):
    return optax.warmup_cosine_decay_schedule(
        peak / warmup, peak, warmup, total)
# %% ex="warmup_match" kind="wrong" fails="drives_an_optimiser other_lengths"
# the factor as it stands, with Python's `if`
def make_schedule(peak, warmup, total):
    def schedule(k):
        if k < warmup:
            return peak * (k + 1) / warmup
        done = (k - warmup) / (total - warmup)
        return peak * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))

    return schedule
# %% ex="warmup_match" kind="wrong" fails="same_rates drives_an_optimiser other_lengths"
# the cosine is given the length of the whole run
def make_schedule(peak, warmup, total):
    ramp = optax.linear_schedule(peak / warmup, peak, warmup - 1)
    fall = optax.cosine_decay_schedule(peak, total)
    return optax.join_schedules([ramp, fall], [warmup])
# %% ex="warmup_match" kind="alternate"
def make_schedule(peak, warmup, total):
    def schedule(count):
        done = jnp.clip((count - warmup) / (total - warmup), 0.0, 1.0)
        fall = 0.5 * (1 + jnp.cos(jnp.pi * done))
        return peak * jnp.where(count < warmup, (count + 1) / warmup, fall)

    return schedule
# %% [markdown] ex="warmup_match" kind="why"
# A rate belongs to the number of updates made *before*, in both libraries: PyTorch
# applies `factor(0)` when the scheduler is made. So there is nothing to shift for the
# call; what differs is the ramp. This one starts at `peak / warmup` and arrives after
# `warmup - 1` steps, where the ready-made schedule arrives after `warmup`. The peak is
# used twice, at the end of the ramp and at the start of the cosine. A schedule gets a
# traced count, so it chooses by value.
# %% [markdown] ex="clip_twice" level="core" minutes=9
# ## Two limits
#
# A model sees a wild gradient now and then. Write
# `make_optimizer(lr, grad_limit, step_limit)`, an Adam with optax's defaults and two
# limits on global norms:
#
# - a gradient longer than `grad_limit` enters Adam with that length, in its own
#   direction;
# - what is added to the parameters is never longer than `step_limit`. Longer steps are
#   shortened to it and keep their direction; others are Adam's.
# %% ex="clip_twice" kind="solution"
def make_optimizer(lr, grad_limit, step_limit):
    """Adam between two limits: of gradients before, of steps after."""
    ### BEGIN SOLUTION
    return optax.chain(
        optax.clip_by_global_norm(grad_limit),
        optax.adam(lr),
        optax.clip_by_global_norm(step_limit))
    ### END SOLUTION
# %% [markdown] ex="clip_twice" kind="hint"
# One limit protects Adam's memory, the other the parameters. Which of the two sees
# what comes in, which what goes out?
# %% [markdown] ex="clip_twice" kind="hint"
# A chain runs in order, and `optax.adam` ends with the learning rate. To clip *steps*,
# the learning rate has to have been applied.
# %% ex="clip_twice" kind="check"
with check("outlier_is_forgotten", points=1,
           section="Order in a chain decides what gets scaled"):
    # Clipped, all gradients are alike, and Adam's steps are all of size lr.
    tx = make_optimizer(0.1, 1.0, 10.0)
    state = tx.init({"a": jnp.zeros(1), "b": jnp.zeros(1)})
    for g in (1.0, 1.0, 500.0, 1.0, 1.0):
        grads = {"a": jnp.array([0.6 * g]), "b": jnp.array([-0.8 * g])}
        updates, state = tx.update(grads, state)
        want = {"a": np.float32([-0.1]), "b": np.float32([0.1])}
        expect_close(updates, want, atol=1e-5, name=f"updates for {g}")
# %% ex="clip_twice" kind="check"
with check("step_is_bounded", points=1,
           section="Order in a chain decides what gets scaled"):
    # Adam's first step is -lr in each of 25 entries: 0.5 * 5 in length.
    grads = {"a": jnp.ones((4, 4)), "b": -jnp.ones(9)}
    tx = make_optimizer(0.5, 100.0, 1.0)
    updates, _ = tx.update(grads, tx.init(grads))
    want = {"a": np.full((4, 4), -0.2), "b": np.full(9, 0.2)}
    expect_close(updates, want, atol=1e-5, name="updates")
# %% ex="clip_twice" kind="hidden"
with check("short_ones_are_adams", points=1,
           section="Order in a chain decides what gets scaled"):
    tx = make_optimizer(0.3, 5.0, 0.5)
    state, m, v = tx.init(jnp.zeros(2)), np.zeros(2), np.zeros(2)
    rows = np.array([[1, -1], [0.5, 0], [30, 40], [0, -0.1], [-3, 4]])
    for n, g in enumerate(rows, 1):
        got, state = jax.jit(tx.update)(jnp.float32(g), state)
        g = g * min(1, 5 / np.linalg.norm(g))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        root = np.sqrt(v / (1 - 0.999**n)) + 1e-8
        want = -0.3 * (m / (1 - 0.9**n)) / root
        want = want * min(1, 0.5 / np.linalg.norm(want))
        expect_close(got, want, atol=1e-5, name=f"updates {n}")
# %% ex="clip_twice" kind="wrong" fails="step_is_bounded short_ones_are_adams"
# both limits are put where `clip_grad_norm_` stands
def make_optimizer(lr, grad_limit, step_limit):
    return optax.chain(
        optax.clip_by_global_norm(grad_limit),
        optax.clip_by_global_norm(step_limit),
        optax.adam(lr))
# %% ex="clip_twice" kind="wrong" fails="step_is_bounded short_ones_are_adams"
# the second limit stands before the learning rate
def make_optimizer(lr, grad_limit, step_limit):
    return optax.chain(
        optax.clip_by_global_norm(grad_limit),
        optax.scale_by_adam(),
        optax.clip_by_global_norm(step_limit),
        optax.scale(-lr))
# %% ex="clip_twice" kind="wrong" fails="outlier_is_forgotten"
# every array of gradients is clipped by its own norm
def make_optimizer(lr, grad_limit, step_limit):
    def shorten(updates, params):
        limit = optax.clip_by_global_norm(grad_limit)
        return jax.tree.map(lambda g: limit.update(g, limit.init(g))[0], updates)

    return optax.chain(optax.stateless(shorten), optax.adam(lr),
                       optax.clip_by_global_norm(step_limit))
# %% ex="clip_twice" kind="wrong" fails="outlier_is_forgotten step_is_bounded short_ones_are_adams"
# every entry is clipped by itself, which turns the direction
def make_optimizer(lr, grad_limit, step_limit):
    return optax.chain(
        optax.clip(grad_limit), optax.adam(lr), optax.clip(step_limit))
# %% ex="clip_twice" kind="wrong" fails="outlier_is_forgotten short_ones_are_adams"
# steps are bounded, and Adam remembers the outlier
def make_optimizer(lr, grad_limit, step_limit):
    return optax.chain(
        optax.adam(lr),
        optax.clip_by_global_norm(min(grad_limit, step_limit)))
# %% ex="clip_twice" kind="alternate"
def make_optimizer(lr, grad_limit, step_limit):
    def shorten(limit):
        def clip(tree, _):
            norm = optax.tree.norm(tree)
            rate = jnp.where(norm > limit, limit / norm, 1.0)
            return jax.tree.map(lambda a: rate * a, tree)

        return optax.stateless(clip)

    return optax.chain(shorten(grad_limit), optax.scale_by_adam(),
                       optax.scale_by_learning_rate(lr), shorten(step_limit))
# %% [markdown] ex="clip_twice" kind="why"
# The limits protect different things. Adam's average of squares has a memory of about
# a thousand steps, so an outlier that gets in makes all of them short. The length of a
# step is known only after Adam's division and after the learning rate, which are both
# links of the chain. A limit before the learning rate is a limit on something else.
# Clipping by entry is another operation: it changes the direction, and its limit is
# not one of lengths.
# %% [markdown] ex="rate_inject" level="core" minutes=10
# ## A rate that you change at will
#
# A PyTorch loop watches the validation loss and says `group["lr"] = rate` when it
# stalls. Write the two functions that it needs here:
#
# - `make_optimizer(rate)` returns SGD with a momentum of 0.9 (`torch.optim.SGD`'s, no
#   dampening). Its learning rate is kept in the state.
# - `set_rate(state, rate)` returns a state with another rate and everything else
#   unchanged. The old state stays as it was. `rate` is a Python number or a scalar
#   array, maybe traced.
#
# A jitted step shares one trace between all rates, however they are given. Parameters
# are float32.
# %% ex="rate_inject" kind="solution"
def make_optimizer(rate):
    """SGD with momentum 0.9 and its learning rate in the state."""
    ### BEGIN SOLUTION
    return optax.inject_hyperparams(optax.sgd)(rate, momentum=0.9)
    ### END SOLUTION


def set_rate(state, rate):
    """A state with this learning rate; the velocity is kept."""
    ### BEGIN SOLUTION
    rate = jnp.asarray(rate, jnp.float32)
    return optax.tree.set(state, learning_rate=rate)
    ### END SOLUTION
# %% [markdown] ex="rate_inject" kind="hint"
# `optax.inject_hyperparams` wraps a function such as `optax.sgd` and keeps its numbers
# in the state, by name.
# %% [markdown] ex="rate_inject" kind="hint"
# `optax.tree.set(state, learning_rate=...)` returns a changed copy. What is the type
# of the rate in a fresh state? Yours must have the same.
# %% ex="rate_inject" kind="check"
with check("new_rate_old_velocity", points=1,
           section="A schedule is a function of the count"):
    tx = make_optimizer(0.3)
    state, v = tx.init({"w": jnp.zeros(2)}), np.zeros(2)
    for rate, following in ((0.3, 0.01), (0.01, 2), (2, 0.5)):
        g = np.array([1.0, rate])
        v = 0.9 * v + g
        updates, state = tx.update({"w": jnp.float32(g)}, state)
        expect_close(updates, {"w": -rate * v}, atol=1e-6, name="updates")
        state = set_rate(state, following)
# %% ex="rate_inject" kind="check"
with check("rates_share_a_trace", points=1,
           section="A schedule is a function of the count"):
    tx, p = make_optimizer(0.1), jnp.ones(3)
    state = tx.init(p)
    rates = (0.05, 0.2, 1, np.float64(0.3), jnp.float32(0.4))
    states = [state, *(set_rate(state, rate) for rate in rates)]
    expect_traces(jax.jit(tx.update), [(p, s, p) for s in states], at_most=1)
    expect_pure(set_rate, [(state, 0.5)])
# %% ex="rate_inject" kind="hidden"
with check("rates_in_a_trace", points=1,
           section="A schedule is a function of the count"):
    tx = make_optimizer(0.5)
    start = tx.init((jnp.zeros(()), jnp.zeros(3)))

    def step(state, rate):
        grads = jnp.ones(()), jnp.arange(3.0)
        return tx.update(grads, set_rate(state, rate))[::-1]

    rates = np.float32([0.5, 0.1, 0.1, 0.0])
    last, updates = jax.lax.scan(step, start, jnp.array(rates))
    want = -rates * np.float32([1, 1.9, 2.71, 3.439])
    expect_close(updates[0], want, atol=1e-6, name="updates")
    expect_same_tree(last, start, name="state")
# %% ex="rate_inject" kind="wrong" fails="rates_share_a_trace"
# the rate is written into the state in place, as into a parameter group
def make_optimizer(rate):
    return optax.inject_hyperparams(optax.sgd)(rate, momentum=0.9)


def set_rate(state, rate):
    state.hyperparams["learning_rate"] = jnp.float32(rate)
    return state
# %% ex="rate_inject" kind="wrong" fails="rates_share_a_trace"
# the number goes in as it came, a Python float among arrays
def make_optimizer(rate):
    return optax.inject_hyperparams(optax.sgd)(rate, momentum=0.9)


def set_rate(state, rate):
    return optax.tree.set(state, learning_rate=rate)
# %% ex="rate_inject" kind="wrong" fails="new_rate_old_velocity rates_in_a_trace"
# a new optimiser for a new rate: its velocity is zero
def make_optimizer(rate):
    return optax.inject_hyperparams(optax.sgd)(rate, momentum=0.9)


def set_rate(state, rate):
    velocity = optax.tree.get(state, "trace")
    return make_optimizer(jnp.float32(rate)).init(velocity)
# %% ex="rate_inject" kind="alternate"
class RatedState(NamedTuple):
    rate: jax.Array
    velocity: optax.Params


def make_optimizer(rate):
    def init(params):
        return RatedState(jnp.float32(rate), optax.tree.zeros_like(params))

    def update(grads, state, params=None):
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g,
                                state.velocity, grads)
        updates = jax.tree.map(lambda v: -state.rate * v, velocity)
        return updates, state._replace(velocity=velocity)

    return optax.GradientTransformation(init, update)


def set_rate(state, rate):
    return state._replace(rate=jnp.asarray(rate, jnp.float32))
# %% [markdown] ex="rate_inject" kind="why"
# A rate that is closed over is a constant of the program; one in the state is an
# argument. So it has to look like one each time: a Python float is weakly typed, which
# is another type than the array that `init` made, and costs a trace. States are
# values: writing into the dict inside of one works until somebody keeps the old state,
# to go back to it, and finds the new rate there. `init` makes a fresh state, and with
# it a velocity of zero.
# %% [markdown] ex="subtree_freeze" level="core" minutes=10
# ## Freeze by name, to the last bit
#
# Parameters are a dict; its values are trees of float32 arrays. Write
# `freeze(tx, names)`, which wraps any optimiser:
#
# - entries with a key in `names` never change, not by a bit, whatever their gradients
#   are, `nan` included;
# - the other entries change as if `tx` had them alone;
# - the state holds no arrays for frozen entries, and it can be jitted.
# %% ex="subtree_freeze" kind="solution"
def freeze(tx, names):
    """Wrap tx: {key: tree} entries with a key in names are never changed."""
    ### BEGIN SOLUTION
    def label(params):
        return {k: "frozen" if k in names else "free" for k in params}

    return optax.partition(
        {"free": tx, "frozen": optax.set_to_zero()}, label)
    ### END SOLUTION
# %% [markdown] ex="subtree_freeze" kind="hint"
# Two kinds of entries, two transformations: one of them is `tx`. Which one makes
# updates of zero?
# %% [markdown] ex="subtree_freeze" kind="hint"
# `optax.partition` takes a dict of transformations and labels. The labels may be a
# function of the parameters, and one label may stand for a whole entry.
# %% ex="subtree_freeze" kind="check"
with check("frozen_to_the_bit", points=1,
           section="What a mask leaves out passes through"):
    params = {"base": {"w": jnp.full(3, 0.3)}, "head": jnp.full(3, 0.3)}
    tx = freeze(optax.adamw(0.1, weight_decay=0.5), {"base"})
    state = tx.init(params)
    for g in (1.0, -2.0, jnp.nan):
        head = 1.0 if math.isnan(g) else g
        grads = {"base": {"w": jnp.full(3, g)}, "head": jnp.full(3, head)}
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        frozen = np.asarray(params["base"]["w"]).tolist()
        assert frozen == [np.float32(0.3)] * 3, "three times 0.3, to the bit"
    assert not np.allclose(params["head"], 0.3), "a head that is trained"
# %% ex="subtree_freeze" kind="check"
with check("rest_as_if_alone", points=1,
           section="What a mask leaves out passes through"):
    tx = freeze(optax.sgd(0.5, momentum=0.5), ["a", "c"])
    # The "c" inside "ab" is no entry, and "ab" is not "a".
    params = {"a": jnp.ones(2), "ab": {"c": jnp.ones(2)}, "c": jnp.ones(2)}
    state, v, b = tx.init(params), 0.0, 1.0
    for g in (1.0, 3.0, -1.0):
        v = 0.5 * v + g
        b = b - 0.5 * v
        grads = jax.tree.map(lambda p: jnp.full(2, g), params)
        updates, state = jax.jit(tx.update)(grads, state, params)
        params = optax.apply_updates(params, updates)
    one = np.ones(2, np.float32)
    want = {"a": one, "ab": {"c": b * one}, "c": one}
    expect_close(params, want, name="params")
# %% ex="subtree_freeze" kind="check"
with check("no_memory_for_frozen", points=1,
           section="What a mask leaves out passes through"):
    params = {"big": jnp.ones((50, 50)), "small": [jnp.ones(4), jnp.ones(3)]}
    state = freeze(optax.adam(0.1), ("big",)).init(params)
    numbers = sum(np.size(a) for a in jax.tree.leaves(state))
    assert numbers < 2500, "a state without arrays for the frozen entry"
    assert numbers >= 14, "two averages for each of 7 trained numbers"
# %% ex="subtree_freeze" kind="hidden"
with check("norm_of_the_free", points=1,
           section="What a mask leaves out passes through"):
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1.0))
    params = {"x": (jnp.zeros(2), {"y": jnp.zeros(1)}), "z": jnp.zeros(2)}
    grads = {"x": (jnp.full(2, 1e6), {"y": jnp.ones(1)}),
             "z": jnp.array([3.0, 4.0])}
    for names in ({"x"}, set(), {"x", "z"}):
        wrapped = freeze(tx, names)
        updates, _ = wrapped.update(grads, wrapped.init(params), params)
        norm = 5 if "x" in names else math.sqrt(2e12 + 26)
        z = np.zeros(2) if "z" in names else np.array([-3, -4]) / norm
        expect_close(updates["z"], z, name=f"z, frozen: {sorted(names)}")
        still = "x" in names
        moved = float(optax.tree.norm(updates["x"])) > 0
        assert moved != still, "entries that move unless they are named"
# %% ex="subtree_freeze" kind="wrong" fails="frozen_to_the_bit rest_as_if_alone norm_of_the_free"
# the mask leaves frozen entries out, and their gradients pass through
def freeze(tx, names):
    def free(params):
        return {k: k not in names for k in params}

    return optax.masked(tx, free)
# %% ex="subtree_freeze" kind="wrong" fails="frozen_to_the_bit no_memory_for_frozen"
# gradients of zero; the decay still pulls
def freeze(tx, names):
    def frozen(params):
        return {k: k in names for k in params}

    return optax.chain(optax.masked(optax.set_to_zero(), frozen), tx)
# %% ex="subtree_freeze" kind="wrong" fails="no_memory_for_frozen norm_of_the_free"
# the updates are set to zero at the end, after all has been computed and stored
def freeze(tx, names):
    def frozen(params):
        return {k: k in names for k in params}

    return optax.chain(tx, optax.masked(optax.set_to_zero(), frozen))
# %% ex="subtree_freeze" kind="wrong" fails="rest_as_if_alone"
# the names are looked for anywhere in a path
def freeze(tx, names):
    def frozen(path, _):
        found = any(f"['{name}']" in jax.tree_util.keystr(path) for name in names)
        return "frozen" if found else "free"

    return optax.partition(
        {"free": tx, "frozen": optax.set_to_zero()},
        lambda params: jax.tree.map_with_path(frozen, params))
# %% ex="subtree_freeze" kind="wrong" fails="norm_of_the_free"
# an optimiser for each entry, which sees the norm of that entry only
def freeze(tx, names):
    def init(params):
        return {k: tx.init(p) for k, p in params.items() if k not in names}

    def update(grads, state, params):
        out = {k: tx.update(grads[k], s, params[k]) for k, s in state.items()}
        updates = {k: u for k, (u, _) in out.items()}
        state = {k: s for k, (_, s) in out.items()}
        return optax.tree.zeros_like(grads) | updates, state

    return optax.GradientTransformation(init, update)
# %% ex="subtree_freeze" kind="alternate"
def freeze(tx, names):
    def free(tree):
        return {k: v for k, v in tree.items() if k not in names}

    def update(grads, state, params=None):
        rest = None if params is None else free(params)
        updates, state = tx.update(free(grads), state, rest)
        return optax.tree.zeros_like(grads) | updates, state

    return optax.GradientTransformation(lambda p: tx.init(free(p)), update)
# %% [markdown] ex="subtree_freeze" kind="why"
# Three things can move a parameter: its gradient, the optimiser's memory, and its
# decay. Setting gradients to zero stops the first only. Setting updates to zero stops
# all, but Adam has stored two arrays for every frozen one, and a norm over all
# gradients has seen them too. A mask alone stops nothing: outside of it, gradients
# pass through and are added. Labels leave no gap: every leaf belongs to one
# transformation, and is a `MaskedNode` for the others.
# %% [markdown] ex="micro_weight" level="stretch" minutes=20
# ## Accumulate batches of unequal size
#
# `optax.MultiSteps` averages over batches; it doesn't know how large they were. Write
# `accumulate(tx, every)`, an `optax.GradientTransformationExtraArgs` whose `update`
# takes one more keyword: `tx.update(grads, state, params, size=n)`. Here `grads` is
# the mean over `n` examples, and `n` is an integer, a Python number or an array.
#
# - The first `every - 1` calls return updates of zero and leave the state of `tx`
#   alone.
# - The next one updates `tx`, once, with the mean over *all* examples of the `every`
#   calls. Then it starts anew.
# - It works for any tree of float32 arrays, under `jax.jit` and in `jax.lax.scan`, and
#   other sizes don't trace again.
# %% ex="micro_weight" kind="solution"
class GatherState(NamedTuple):
    """What was collected so far, and the state of the wrapped optimiser."""

    calls: jax.Array  # i32[]
    examples: jax.Array  # f32[]
    total: optax.Params
    inner: optax.OptState


def accumulate(tx, every):
    """Wrap tx: one update from `every` gradients, weighted by their sizes."""
    ### BEGIN SOLUTION
    def init(params):
        total, zero = optax.tree.zeros_like(params), jnp.float32(0)
        return GatherState(jnp.int32(0), zero, total, tx.init(params))

    def update(grads, state, params=None, *, size):
        examples = state.examples + size
        total = jax.tree.map(lambda t, g: t + size * g, state.total, grads)
        mean = jax.tree.map(lambda t: t / examples, total)
        updates, inner = tx.update(mean, state.inner, params)
        full = GatherState(jnp.int32(0), jnp.float32(0),
                           optax.tree.zeros_like(total), inner)
        part = GatherState(state.calls + 1, examples, total, state.inner)
        last = state.calls == every - 1
        state = jax.tree.map(lambda f, p: jnp.where(last, f, p), full, part)
        return jax.tree.map(lambda u: jnp.where(last, u, 0), updates), state

    return optax.GradientTransformationExtraArgs(init, update)
    ### END SOLUTION
# %% [markdown] ex="micro_weight" kind="hint"
# What has to be remembered between two calls? The number of calls, the number of
# examples, a sum of gradients in which each example counts once, and the state of
# `tx`.
# %% [markdown] ex="micro_weight" kind="hint"
# A mean times its size is a sum. Whether this is the last call is a value: compute both
# outcomes and choose between them with `jnp.where`, leaf by leaf, or use
# `jax.lax.cond`.
# %% [markdown] ex="micro_weight" kind="hint"
# Build two states of the same structure, one for a full round and one for a partial,
# and map `jnp.where(last, full, partial)` over them. Mind the dtypes: they have to be
# the ones that `init` made.
# %% ex="micro_weight" kind="check"
with check("every_example_counts", points=1,
           section="Waiting and averaging are state as well"):
    x = np.arange(12, dtype=np.float32).reshape(6, 2) ** 2
    tx = accumulate(optax.sgd(0.5), every=3)
    params = {"w": jnp.zeros(2)}
    state, none = tx.init(params), {"w": np.zeros(2)}
    for first, second in ((1, 3), (4, 5), (2, 4)):
        for n, rows in enumerate(np.split(x, (first, second))):
            grads = {"w": jnp.array(rows.mean(axis=0))}
            got, state = tx.update(grads, state, params, size=len(rows))
            want = {"w": -0.5 * x.mean(axis=0)} if n == 2 else none
            expect_close(got, want, rtol=1e-4, name=f"updates of call {n + 1}")
# %% ex="micro_weight" kind="check"
with check("inner_waits", points=1,
           section="Waiting and averaging are state as well"):
    # The inner schedule has the rates 1.0, 0.5 and 0: one for each round.
    tx = accumulate(optax.sgd(optax.linear_schedule(1.0, 0.0, 2)), every=2)
    state, g, got = tx.init(jnp.float32(0)), jnp.float32(2), []
    for size in (1, 1, 3, 1, 2, 2):
        update, state = tx.update(g, state, jnp.float32(0), size=size)
        got.append(float(update))
    assert got == [0, -2, 0, -1, 0, 0], "one step of the inner count a round"
# %% ex="micro_weight" kind="check"
with check("sizes_share_a_trace", points=1,
           section="A transformation of your own is two functions"):
    tx, g = accumulate(optax.adam(0.1), every=2), jnp.ones(3)
    start = tx.init(g)
    call = jax.jit(lambda s, n: tx.update(g, s, g, size=n))
    expect_traces(call, [(start, n) for n in (1, 2, 7)], at_most=1)
    body = lambda s, n: tx.update(g, s, g, size=n)[::-1]
    sizes = jnp.array([2, 3, 1, 1])
    last, updates = jax.lax.scan(body, start, sizes)
    want = np.float32([0, -0.1, 0, -0.1])
    expect_close(updates[:, 0], want, atol=1e-5, name="updates in a scan")
    expect_same_tree(last, start, name="state")
# %% ex="micro_weight" kind="hidden"
with check("still_in_between", points=1,
           section="Waiting and averaging are state as well"):
    # Decay would move the parameters in calls that should do nothing.
    tx = accumulate(optax.adamw(0.1, weight_decay=0.5), every=4)
    params = (jnp.full(2, 2.0), [jnp.full((1, 1), -2.0)])
    zero, state = optax.tree.zeros_like(params), tx.init(params)
    for n in range(1, 9):
        updates, state = tx.update(zero, state, params, size=np.int32(n))
        rate = -0.05 if n % 4 == 0 else 0.0
        want = jax.tree.map(lambda p: rate * np.asarray(p), params)
        expect_close(updates, want, name=f"updates of call {n}")
# %% ex="micro_weight" kind="hidden"
with check("every_one", points=1,
           section="Waiting and averaging are state as well"):
    tx = accumulate(optax.sgd(1.0, momentum=0.5), every=1)
    state, v = tx.init(jnp.zeros(2)), np.zeros(2)
    for size in (1, 8, 2):
        g = np.array([size, -1.0])
        v = 0.5 * v + g
        size = jnp.int32(size)
        got, state = tx.update(jnp.float32(g), state, jnp.zeros(2), size=size)
        expect_close(got, -v, name="updates")
# %% ex="micro_weight" kind="wrong" fails="every_example_counts"
# a mean of means, from the ready-made wrapper
def accumulate(tx, every):
    wait = optax.MultiSteps(tx, every)

    def update(grads, state, params=None, *, size):
        return wait.update(grads, state, params)

    return optax.GradientTransformationExtraArgs(wait.init, update)
# %% ex="micro_weight" kind="wrong" fails="every_example_counts inner_waits sizes_share_a_trace every_one"
# a sum, as `.grad` would hold it
def accumulate(tx, every):
    wait = optax.MultiSteps(tx, every, use_grad_mean=False)

    def update(grads, state, params=None, *, size):
        grads = jax.tree.map(lambda g: size * g, grads)
        return wait.update(grads, state, params)

    return optax.GradientTransformationExtraArgs(wait.init, update)
# %% ex="micro_weight" kind="wrong" fails="inner_waits"
# the updates are held back, but `tx` is updated in every call
class GatherState(NamedTuple):
    calls: jax.Array
    examples: jax.Array
    total: optax.Params
    inner: optax.OptState


def accumulate(tx, every):
    def init(params):
        total, zero = optax.tree.zeros_like(params), jnp.float32(0)
        return GatherState(jnp.int32(0), zero, total, tx.init(params))

    def update(grads, state, params=None, *, size):
        examples = state.examples + size
        total = jax.tree.map(lambda t, g: t + size * g, state.total, grads)
        mean = jax.tree.map(lambda t: t / examples, total)
        updates, inner = tx.update(mean, state.inner, params)
        last = state.calls == every - 1
        kept = jax.tree.map(lambda t: jnp.where(last, 0, t), total)
        state = GatherState((state.calls + 1) % every,
                            jnp.where(last, 0, examples), kept, inner)
        return jax.tree.map(lambda u: jnp.where(last, u, 0), updates), state

    return optax.GradientTransformationExtraArgs(init, update)
# %% ex="micro_weight" kind="wrong" fails="sizes_share_a_trace"
# Python counts the calls, as a training loop in PyTorch does
class GatherState(NamedTuple):
    calls: jax.Array
    examples: jax.Array
    total: optax.Params
    inner: optax.OptState


def accumulate(tx, every):
    def init(params):
        return GatherState(0, 0, optax.tree.zeros_like(params), tx.init(params))

    def update(grads, state, params=None, *, size):
        calls, examples = state.calls + 1, state.examples + size
        total = jax.tree.map(lambda t, g: t + size * g, state.total, grads)
        zero = optax.tree.zeros_like(grads)
        if calls < every:
            return zero, GatherState(calls, examples, total, state.inner)
        mean = jax.tree.map(lambda t: t / examples, total)
        updates, inner = tx.update(mean, state.inner, params)
        return updates, GatherState(0, 0, zero, inner)

    return optax.GradientTransformationExtraArgs(init, update)
# %% ex="micro_weight" kind="alternate"
def accumulate(tx, every):
    def init(params):
        total = optax.tree.zeros_like(params)
        return jnp.int32(0), jnp.float32(0), total, tx.init(params)

    def update(grads, state, params=None, *, size):
        calls, examples, total, inner = state
        examples = examples + jnp.float32(size)
        total = jax.tree.map(lambda t, g: t + size * g, total, grads)
        zero = optax.tree.zeros_like(total)

        def emit():
            mean = jax.tree.map(lambda t: t / examples, total)
            updates, new = tx.update(mean, inner, params)
            return updates, (jnp.int32(0), jnp.float32(0), zero, new)

        def wait():
            return zero, (calls + 1, examples, total, inner)

        return jax.lax.cond(calls + 1 == every, emit, wait)

    return optax.GradientTransformationExtraArgs(init, update)
# %% [markdown] ex="micro_weight" kind="why"
# A mean of means gives an example in a small batch more weight than one in a large
# batch; multiplied by its size, each mean is a sum again, and sums of examples can be
# added. Two counts are needed: calls decide *when*, examples decide *how much*. All
# that belongs to a round is reset with it. The inner optimiser must not notice the
# calls in between, or its schedule and its averages run ahead. Which call it is, is a
# value, so both outcomes have one structure, and `jnp.where` or `cond` chooses.
