# %% [markdown]
# # Gradients are functions
#
# Nine exercises on gradients as values: taken by a part of the arguments, added up,
# cut off, composed, and computed with little memory. Many checks look at what your
# function computes on the way. They go with the chapter of the same name.
# %%
import math

import jax
import jax.numpy as jnp
import numpy as np
from tracecheck import check, counting, expect_close, expect_constant_size
from tracecheck import expect_grad, expect_pure, iter_eqns, jaxpr_of
# %% [markdown] ex="grad_orders" level="warm-up" minutes=5
# ## A list of derivatives
#
# In PyTorch you would keep the graph alive with `create_graph=True` and ask for one
# order after the other, at one point. Write `derivatives(f, k)`: it returns a list of
# `k + 1` functions, `f` itself and its derivatives up to order `k`. No point is involved
# yet.
#
# `f` takes one float and returns one. Whoever has the list may call its functions in any
# order, compile them, or map them over an array.
# %% ex="grad_orders" kind="solution"
def derivatives(f, k):
    """[f, f', f'', ...]: k + 1 functions, each from one float to one float."""
    ### BEGIN SOLUTION
    functions = [f]
    for _ in range(k):
        functions.append(jax.grad(functions[-1]))
    return functions
    ### END SOLUTION
# %% [markdown] ex="grad_orders" kind="hint"
# `jax.grad(g)` is a function like `g`. Which function of the list is the next one made
# from?
# %% [markdown] ex="grad_orders" kind="hint"
# Grow the list from its last entry. If you write a `lambda`, ask when it looks up the
# names in its body.
# %% ex="grad_orders" kind="check"
with check("polynomial_orders", points=1, section="Derivatives compose"):
    poly = np.poly1d([2.0, 0.0, -1.0, 5.0])
    got = derivatives(lambda x: (2 * x * x - 1) * x + 5, 4)
    count = len(got)
    assert count == 5, "k + 1 functions"
    for order in (3, 0, 4, 1, 2):
        want = np.float32(poly.deriv(order)(1.5))
        expect_close(got[order](jnp.float32(1.5)), want, name=f"order {order}")
# %% ex="grad_orders" kind="check"
with check("orders_transform", points=1, section="Derivatives compose"):
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    third = derivatives(jnp.sin, 3)[3]
    expect_close(jax.jit(jax.vmap(third))(x), -np.cos(x), name="sin, order 3")
# %% ex="grad_orders" kind="hidden"
with check("orders_of_exp", points=1, section="Derivatives compose"):
    got = derivatives(lambda x: jnp.exp(-2 * x), 6)
    for order in range(7):
        want = np.float32((-2.0) ** order * np.exp(-0.5))
        value = got[order](jnp.float32(0.25))
        expect_close(value, want, name=f"order {order}")
    alone = len(derivatives(jnp.cos, 0))
    assert alone == 1, "one function for k = 0"
# %% ex="grad_orders" kind="wrong" fails="polynomial_orders orders_transform orders_of_exp"
# each entry is made from `f`, so all of them have order 1
def derivatives(f, k):
    functions = [f]
    for _ in range(k):
        functions.append(jax.grad(f))
    return functions
# %% ex="grad_orders" kind="wrong" fails="polynomial_orders orders_transform orders_of_exp"
# `.item()`, to have a number: to the next order it is a constant
def derivatives(f, k):
    functions = [f]
    for _ in range(k):
        functions.append(lambda x, g=jax.grad(functions[-1]): g(x).item())
    return functions
# %% ex="grad_orders" kind="wrong" fails="polynomial_orders orders_transform orders_of_exp"
# difference quotients of difference quotients
def derivatives(f, k):
    functions = [f]
    for _ in range(k):
        functions.append(
            lambda x, g=functions[-1]: (g(x + 1e-3) - g(x - 1e-3)) / 2e-3
        )
    return functions
# %% ex="grad_orders" kind="alternate"
def derivatives(f, k):
    if k == 0:
        return [f]
    slope = lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]
    return [f] + derivatives(slope, k - 1)
# %% ex="grad_orders" kind="alternate"
def derivatives(f, k):
    def order(n):
        return f if n == 0 else jax.jacfwd(order(n - 1))

    return [order(n) for n in range(k + 1)]
# %% [markdown] ex="grad_orders" kind="why"
# A gradient is a function of the same argument, so the list grows from its own last
# entry, and nothing has to be kept alive between orders. What comes out of a derivative
# must stay an array. `.item()` leaves JAX: the next `grad` takes the plain number for a
# constant and returns 0, without a word, and under `jit` there is no number to be had.
# Difference quotients lose digits at each order; in float32 none are left at the third.
# %% [markdown] ex="grad_accumulate" level="warm-up" minutes=8
# ## Accumulate without `.grad`
#
# A data set is too large for one backward pass and arrives in batches of different
# lengths, from a generator. `loss(params, x, y)` is the mean over one batch. Write
# `accumulate(loss, params, batches)`. It returns the pair of
#
# - the mean loss over all examples of all batches, and
# - the gradient of that mean by `params`, any tree of float arrays.
#
# `loss` runs once for each batch, and one batch is held at a time. A second call starts
# from zero.
# %% ex="grad_accumulate" kind="solution"
def accumulate(loss, params, batches):
    """Mean loss over all examples, and its gradient by params.

    Args:
        loss: loss(params, x, y) -> f32[], the mean over a batch.
        params: tree of float arrays.
        batches: iterable of (x, y); x: f32[n, ...], y: f32[n, ...]; n varies.
    """
    ### BEGIN SOLUTION
    count, total = 0, (0.0, jax.tree.map(jnp.zeros_like, params))
    for x, y in batches:
        part = jax.value_and_grad(loss)(params, x, y)
        total = jax.tree.map(lambda a, b: a + len(x) * b, total, part)
        count += len(x)
    return jax.tree.map(lambda a: a / count, total)
    ### END SOLUTION
# %% [markdown] ex="grad_accumulate" kind="hint"
# One function gives loss and gradient for one forward pass. Its result is a tree, so a
# running total of it can be added up in one line.
# %% [markdown] ex="grad_accumulate" kind="hint"
# A mean times its number of examples is a sum. Add sums, count examples, and divide at
# the end.
# %% ex="grad_accumulate" kind="check"
with check("mean_over_all", points=1,
           section="Nothing is stored, so nothing has to be cleared"):
    x = np.arange(20, dtype=np.float32).reshape(10, 2) / 10
    y, w = np.cos(x[:, 0]), np.array([0.5, -1.0], np.float32)
    parts = slice(0, 2), slice(2, 9), slice(9, 10)
    batches = [(jnp.array(x[part]), jnp.array(y[part])) for part in parts]
    got = accumulate(lambda p, x, y: ((x @ p["w"] - y) ** 2).mean(),
                     {"w": jnp.array(w)}, batches)
    miss = x @ w - y
    want = (miss**2).mean(), {"w": x.T @ miss / 5}
    expect_close(got, want, name="(loss, gradient)")
# %% ex="grad_accumulate" kind="check"
with check("one_pass_per_batch", points=1,
           section="`grad` takes a function and returns a function"):
    drawn, seen = [], []
    def loss(w, x, y):
        seen.append((len(x), len(drawn)))
        return (w * x - y).mean()

    def batches():
        for n in (3, 1, 4):
            drawn.append(n)
            yield jnp.ones(n), jnp.zeros(n)

    accumulate(loss, jnp.float32(2.0), batches())
    want = [(3, 1), (1, 2), (4, 3)]
    assert seen == want, f"(length, batches drawn so far) at each pass: {want}"
# %% ex="grad_accumulate" kind="hidden"
with check("starts_from_zero", points=1,
           section="Nothing is stored, so nothing has to be cleared"):
    def loss(p, x, y):
        return (p["scale"] * x - p["shift"][0] - y).mean()

    p = {"scale": jnp.float32(2.0), "shift": (jnp.float32(1.0),)}
    batches = [(jnp.ones(2), jnp.zeros(2)), (jnp.full(6, 3.0), jnp.ones(6))]
    expect_pure(accumulate, [(loss, p, batches)])
    want = (3.25, {"scale": np.float32(2.5), "shift": (np.float32(-1.0),)})
    expect_close(accumulate(loss, p, batches), want, name="(loss, gradient)")
# %% ex="grad_accumulate" kind="wrong" fails="mean_over_all starts_from_zero"
# the mean of the batches' means: right for batches of one length
def accumulate(loss, params, batches):
    parts = [jax.value_and_grad(loss)(params, x, y) for x, y in batches]
    return jax.tree.map(lambda *a: sum(a) / len(parts), *parts)
# %% ex="grad_accumulate" kind="wrong" fails="starts_from_zero"
# a `.grad` of one's own: the second call finds what the first one left
grads = {}

def accumulate(loss, params, batches):
    count, total = 0, grads.get(loss, (0.0, jax.tree.map(jnp.zeros_like, params)))
    for x, y in batches:
        part = jax.value_and_grad(loss)(params, x, y)
        total = jax.tree.map(lambda a, b: a + len(x) * b, total, part)
        count += len(x)
    grads[loss] = total
    return jax.tree.map(lambda a: a / count, total)
# %% ex="grad_accumulate" kind="wrong" fails="one_pass_per_batch"
# the loss first and then its gradient, as in forward and backward
def accumulate(loss, params, batches):
    count, value = 0, 0.0
    total = jax.tree.map(jnp.zeros_like, params)
    for x, y in batches:
        value += len(x) * loss(params, x, y)
        g = jax.grad(loss)(params, x, y)
        total = jax.tree.map(lambda a, b: a + len(x) * b, total, g)
        count += len(x)
    return value / count, jax.tree.map(lambda a: a / count, total)
# %% ex="grad_accumulate" kind="wrong" fails="one_pass_per_batch"
# right numbers, but all batches at once in memory
def accumulate(loss, params, batches):
    xs, ys = zip(*batches)
    return jax.value_and_grad(loss)(params, jnp.concatenate(xs), jnp.concatenate(ys))
# %% ex="grad_accumulate" kind="wrong" fails="one_pass_per_batch"
# a list, to count the examples first: all batches are held
def accumulate(loss, params, batches):
    batches = list(batches)
    count, total = sum(len(x) for x, _ in batches), None
    for x, y in batches:
        part = jax.value_and_grad(loss)(params, x, y)
        part = jax.tree.map(lambda a: len(x) / count * a, part)
        total = part if total is None else jax.tree.map(jnp.add, total, part)
    return total
# %% ex="grad_accumulate" kind="alternate"
def accumulate(loss, params, batches):
    seen, mean = 0, None
    for x, y in batches:
        seen += x.shape[0]
        share = x.shape[0] / seen
        value, pull = jax.vjp(lambda p: loss(p, x, y), params)
        part = value, pull(jnp.ones_like(value))[0]
        if mean is None:
            mean = part
        mean = jax.tree.map(lambda m, a: m + share * (a - m), mean, part)
    return mean
# %% [markdown] ex="grad_accumulate" kind="why"
# The gradient is a return value, so whoever wants a total adds one up and decides where
# it starts. A total that lives outside of the function is PyTorch's `.grad`, and needs a
# `zero_grad()` that nobody calls. Means add up only with their weights: a batch of one
# example must not count as much as a batch of seven. And `value_and_grad` gives both
# numbers for one forward pass; the loss and then its gradient are two.
# %% [markdown] ex="grad_freeze" level="core" minutes=12
# ## Freeze by not asking
#
# A pretrained model gets a new head. In PyTorch: `requires_grad_(False)` for the rest.
#
# Write `make_step(loss, trainable)`. `loss(params, x, y)` returns the pair (loss,
# predictions), and `params` is a dictionary whose entries may be trees. The result,
# `step(params, lr, x, y)`, returns
#
# - new params: entries named in `trainable` moved by `-lr` times their gradient, all
#   others as they were. Some of these are integer tables;
# - the loss and the predictions before the move, from the same forward pass.
#
# No gradient is computed for what is frozen, and the dictionary that was passed in stays
# as it was.
# %% ex="grad_freeze" kind="solution"
def make_step(loss, trainable):
    """Return step(params, lr, x, y) -> (params, loss, predictions).

    Args:
        loss: loss(params, x, y) -> (f32[], predictions)
        trainable: tuple of names, keys of params.
    """
    ### BEGIN SOLUTION
    def loss_of(chosen, rest, x, y):
        return loss(rest | chosen, x, y)

    def step(params, lr, x, y):
        chosen = {name: params[name] for name in trainable}
        rest = {name: params[name] for name in params if name not in trainable}
        fn = jax.value_and_grad(loss_of, has_aux=True)
        (value, predictions), grads = fn(chosen, rest, x, y)
        chosen = jax.tree.map(lambda p, g: p - lr * g, chosen, grads)
        return rest | chosen, value, predictions

    return step
    ### END SOLUTION
# %% [markdown] ex="grad_freeze" kind="hint"
# `jax.grad` differentiates by one argument. What must that argument hold, and what must
# go elsewhere?
# %% [markdown] ex="grad_freeze" kind="hint"
# Split the dictionary in two and write a function of both parts that joins them for
# `loss`: `rest | chosen` makes a new dictionary.
# %% [markdown] ex="grad_freeze" kind="hint"
# `has_aux=True` hands the predictions through; then the result has the form
# `(value, predictions), grads`.
# %% ex="grad_freeze" kind="check"
with check("head_moves", points=1,
           section="Nothing is stored, so nothing has to be cleared"):
    def loss(p, x, y):
        out = p["base"]["scale"] * x[:, p["columns"]] @ p["head"]
        return ((out - y) ** 2).mean(), out

    p = {"base": {"scale": jnp.float32(2)}, "columns": jnp.array([2, 0]),
         "head": jnp.array([1.0, -1.0])}
    x, before = np.arange(12, dtype=np.float32).reshape(4, 3) / 12, dict(p)
    h, head = 2 * x[:, [2, 0]], np.array([1, -1], np.float32)
    out = h @ head
    new = p | {"head": head - 0.1 * h.T @ (out - 1) / 2}
    want = new, ((out - 1) ** 2).mean(), out
    got = make_step(loss, ("head",))(p, 0.1, jnp.array(x), jnp.ones(4))
    expect_close((p, *got), (before, *want), name="(passed in, params, ...)")
# %% ex="grad_freeze" kind="check"
with check("frozen_costs_nothing", points=1,
           section="Nothing is stored, so nothing has to be cleared"):
    def loss(p, x, y):
        out = x @ p["first"] @ p["second"]
        return ((out - y) ** 2).mean(), out

    p = {"first": jnp.ones((6, 5)), "second": jnp.ones((5, 4))}
    step = make_step(loss, ("second",))
    record = jaxpr_of(step, p, 0.1, jnp.ones((3, 6)), jnp.ones((3, 4)))
    names = [eqn.primitive.name for eqn in iter_eqns(record)]
    products = names.count("dot_general")
    assert products == 3, "3 matrix products: 2 forward, 1 for the gradient"
# %% ex="grad_freeze" kind="hidden"
with check("one_pass_params_kept", points=1,
           section="`grad` takes a function and returns a function"):
    def loss(p, x, y):
        out = p["a"][0] * x + p["a"][1] + p["b"]
        return ((out - y) ** 2).mean(), out

    p = {"a": (jnp.float32(1), jnp.float32(2)), "b": jnp.float32(3), "n": 7}
    x, y = jnp.array([1.0, 3.0]), jnp.zeros(2)
    seen = counting(loss)
    new, value, out = make_step(seen, ("a",))(p, 0.5, x, y)
    passes = seen.count
    assert passes == 1, "one pass of the loss"
    old = {"a": (1.0, 2.0), "b": 3.0, "n": 7}
    expect_close(p, old, name="the params passed in")
    want = {"a": (-14.0, -5.0), "b": 3.0, "n": 7}
    expect_close(new, want, name="new params")
    want = 50.0, np.array([6, 8], np.float32)
    expect_close((value, out), want, name="(loss, predictions)")
    both = make_step(loss, ("b", "a"))(p, 0.5, x, y)[0]
    expect_close((both["b"], both["a"][1]), (-4.0, -5.0), name="b and a[1]")
# %% ex="grad_freeze" kind="wrong" fails="head_moves frozen_costs_nothing one_pass_params_kept"
# differentiate by everything, and throw away what is frozen
def make_step(loss, trainable):
    def step(params, lr, x, y):
        (value, out), grads = jax.value_and_grad(loss, has_aux=True)(params, x, y)
        new = {
            name: jax.tree.map(lambda p, g: p - lr * g, params[name], grads[name])
            for name in trainable
        }
        return params | new, value, out

    return step
# %% ex="grad_freeze" kind="wrong" fails="head_moves one_pass_params_kept"
# the optimiser's habit: parameters are updated where they are
def make_step(loss, trainable):
    def loss_of(chosen, rest, x, y):
        return loss({**rest, **chosen}, x, y)

    def step(params, lr, x, y):
        chosen = {name: params[name] for name in trainable}
        rest = {name: params[name] for name in params if name not in trainable}
        fn = jax.value_and_grad(loss_of, has_aux=True)
        (value, out), grads = fn(chosen, rest, x, y)
        for name in trainable:
            params[name] = jax.tree.map(lambda p, g: p - lr * g, params[name], grads[name])
        return params, value, out

    return step
# %% ex="grad_freeze" kind="wrong" fails="frozen_costs_nothing one_pass_params_kept"
# without `has_aux`, a second forward pass fetches the predictions
def make_step(loss, trainable):
    def step(params, lr, x, y):
        value, out = loss(params, x, y)
        chosen = {name: params[name] for name in trainable}
        grads = jax.grad(lambda c: loss(params | c, x, y)[0])(chosen)
        chosen = jax.tree.map(lambda p, g: p - lr * g, chosen, grads)
        return params | chosen, value, out

    return step
# %% ex="grad_freeze" kind="wrong" fails="head_moves frozen_costs_nothing one_pass_params_kept"
# a pair comes out of `loss`, and `grad` is not told
def make_step(loss, trainable):
    def step(params, lr, x, y):
        chosen = {name: params[name] for name in trainable}
        fn = jax.value_and_grad(lambda c: loss(params | c, x, y))
        (value, out), grads = fn(chosen)
        chosen = jax.tree.map(lambda p, g: p - lr * g, chosen, grads)
        return params | chosen, value, out

    return step
# %% ex="grad_freeze" kind="alternate"
def make_step(loss, trainable):
    @jax.jit
    def step(params, lr, x, y):
        parts = tuple(params[name] for name in trainable)

        def of_parts(*parts):
            return loss({**params, **dict(zip(trainable, parts))}, x, y)

        value, pull, out = jax.vjp(of_parts, *parts, has_aux=True)
        grads = pull(jnp.ones_like(value))
        moved = jax.tree.map(lambda p, g: p - lr * g, parts, grads)
        return {**params, **dict(zip(trainable, moved))}, value, out

    return step
# %% [markdown] ex="grad_freeze" kind="why"
# What is not in the differentiated argument is a constant, so no operation is recorded
# for its gradient, and an integer table does no harm there. Differentiating by all and
# dropping a part computes what nobody wants, and fails at the integers. The predictions
# are a by-product: with `has_aux=True` they come from the pass that is made anyway.
# Without it, a pair is not a scalar. And updating in place changes the caller's
# dictionary, although its arrays can't change.
# %% [markdown] ex="stop_straight" level="core" minutes=10
# ## A gradient through rounding
#
# Rounding has the derivative 0 almost everywhere, so nothing trains through it. The
# **straight-through** trick computes with the rounded value and differentiates as if it
# had not been rounded. Write `quantise(x, levels)`:
#
# - its value is `x`, clipped to [-1, 1] and rounded to the nearest multiple of
#   `1 / levels`;
# - its derivative by `x` is that of the clipping alone: 1 inside of (-1, 1), 0 outside.
#
# It works for arrays of any shape, under `jax.jit`, in reverse mode and in forward mode.
# %% ex="stop_straight" kind="solution"
def quantise(x, levels):
    """Clip to [-1, 1], round to multiples of 1/levels; the shape stays."""
    ### BEGIN SOLUTION
    clipped = jnp.clip(x, -1.0, 1.0)
    rounded = jnp.round(clipped * levels) / levels
    return clipped + jax.lax.stop_gradient(rounded - clipped)
    ### END SOLUTION
# %% [markdown] ex="stop_straight" kind="hint"
# Write the result as a sum of two parts: one has the derivative that you want, the other
# brings the value right and counts as a constant.
# %% [markdown] ex="stop_straight" kind="hint"
# In PyTorch the second part would be detached. `jax.lax.stop_gradient` takes its place.
# Which of `x` and the clipped `x` has the derivative 0 outside?
# %% ex="stop_straight" kind="check"
with check("rounded_value", points=1,
           section="Nothing is stored, so nothing has to be cleared"):
    x = np.array([-3.0, -0.9, -0.13, 0.0, 0.3, 0.62, 1.4], np.float32)
    for levels in (1, 4, 10):
        want = np.round(np.clip(x, -1, 1) * levels) / levels
        got = jax.jit(quantise)(x, levels)
        expect_close(got, want, name=f"{levels} levels")
# %% ex="stop_straight" kind="check"
with check("straight_slope", points=1,
           section="Nothing is stored, so nothing has to be cleared"):
    x = np.array([-3.0, -0.9, -0.13, 0.1, 0.3, 0.62, 1.4], np.float32)
    want = (np.abs(x) < 1).astype(np.float32)
    expect_grad(lambda x: quantise(x, 4).sum(), (jnp.array(x),), want)
# %% ex="stop_straight" kind="hidden"
with check("both_modes", points=1,
           section="Forward mode pushes, reverse mode pulls"):
    x = np.array([[-1.5, -0.4], [0.2, 0.8], [1.1, 0.6]], np.float32)
    v = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    args = (jnp.array(x),), (jnp.array(v),)
    pushed = jax.jvp(lambda x: quantise(x, 8), *args)[1]
    expect_close(pushed, v * (np.abs(x) < 1), name="pushed")

    def total(x):
        return jnp.square(quantise(x, 4)).sum()

    q = np.round(np.clip(x, -1, 1) * 4) / 4
    expect_grad(jax.jit(total), (jnp.array(x),), 2 * q * (np.abs(x) < 1))
# %% ex="stop_straight" kind="wrong" fails="straight_slope both_modes"
# round, and hope that the gradient goes through
def quantise(x, levels):
    return jnp.round(jnp.clip(x, -1.0, 1.0) * levels) / levels
# %% ex="stop_straight" kind="wrong" fails="straight_slope both_modes"
# `x + (q - x).detach()`: the clipping is detached as well
def quantise(x, levels):
    rounded = jnp.round(jnp.clip(x, -1.0, 1.0) * levels) / levels
    return x + jax.lax.stop_gradient(rounded - x)
# %% ex="stop_straight" kind="wrong" fails="straight_slope both_modes"
# the wrong part is cut off, and what is left cancels
def quantise(x, levels):
    clipped = jnp.clip(x, -1.0, 1.0)
    rounded = jnp.round(clipped * levels) / levels
    return jax.lax.stop_gradient(clipped) + (rounded - clipped)
# %% ex="stop_straight" kind="wrong" fails="both_modes"
# an `autograd.Function`, translated: it has a backward rule and no forward one
@jax.custom_vjp
def quantise(x, levels):
    return jnp.round(jnp.clip(x, -1.0, 1.0) * levels) / levels


quantise.defvjp(
    lambda x, levels: (quantise(x, levels), jnp.abs(x) < 1),
    lambda inside, g: (g * inside, None),
)
# %% ex="stop_straight" kind="alternate"
@jax.custom_jvp
def _round(x):
    return jnp.round(x)


_round.defjvp(lambda primals, tangents: (_round(*primals), tangents[0]))


def quantise(x, levels):
    return _round(jnp.clip(x, -1.0, 1.0) * levels) / levels
# %% ex="stop_straight" kind="alternate"
def quantise(x, levels):
    stop = jax.lax.stop_gradient
    rounded = stop(jnp.round(jnp.clip(x, -1.0, 1.0) * levels) / levels)
    return rounded + jnp.where(jnp.abs(x) < 1, x - stop(x), 0.0)
# %% [markdown] ex="stop_straight" kind="why"
# `clipped + stop_gradient(rounded - clipped)` is `rounded` in value, and `clipped` for
# every derivative. With `x` in place of `clipped` the value is the same, but far outside
# of the range the gradient still pushes. If the wrong part is cut off, the derivative is
# that of rounding minus that of clipping. A rule of one's own works too, but
# `jax.custom_vjp` serves reverse mode alone; `jax.custom_jvp` serves both.
# %% [markdown] ex="where_unit" level="core" minutes=10
# ## The direction of nothing
#
# `F.normalize` in PyTorch divides a vector by its length. Write `unit(v)` for an array of
# vectors along the last axis:
#
# - a vector other than 0 is divided by its length, exactly: no `eps` in the result, however
#   short the vector (lengths from 1e-6 on are tried);
# - for a vector of zeros, the value is zeros, and so is the derivative.
#
# Values and gradients are never `nan`, with `jax.jit` and without, in either mode.
# %% ex="where_unit" kind="solution"
def unit(v):
    """v divided by its length; f32[..., d] -> f32[..., d]."""
    ### BEGIN SOLUTION
    square = (v * v).sum(axis=-1, keepdims=True)
    zero = square == 0
    length = jnp.sqrt(jnp.where(zero, 1.0, square))
    return jnp.where(zero, 0.0, v / length)
    ### END SOLUTION
# %% [markdown] ex="where_unit" kind="hint"
# Two operations are in danger at 0: the root, whose slope is infinite there, and the
# division. Which number could they get instead?
# %% [markdown] ex="where_unit" kind="hint"
# The derivative of `jnp.where` visits both sides. Select before the root, and once more
# at the end.
# %% ex="where_unit" kind="check"
with check("exact_directions", points=1,
           section="A branch that is not taken still counts"):
    v = np.array([[3, 4], [0, 0], [0, -1e-6], [-6e-6, 8e-6]], np.float32)
    want = np.array([[0.6, 0.8], [0, 0], [0, -1], [-0.6, 0.8]], np.float32)
    expect_close(unit(jnp.array(v)), want)
    expect_close(jax.jit(unit)(jnp.array(v[1])), want[1], name="one vector")
# %% ex="where_unit" kind="check"
with check("finite_gradient", points=1,
           section="A branch that is not taken still counts"):
    v = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, -1.0]], np.float32)
    c = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    length = np.array([[5.0], [1.0], [np.sqrt(2)]], np.float32)
    u = v / length
    want = (c - u * (u * c).sum(1, keepdims=True)) / length
    want[1] = 0
    expect_grad(lambda v: (unit(v) * c).sum(), (jnp.array(v),), want)
# %% ex="where_unit" kind="hidden"
with check("any_vectors", points=1,
           section="A branch that is not taken still counts"):
    from hypothesis import given, settings, strategies as st

    @jax.jit
    def slopes(v):
        return unit(v), jax.jacfwd(unit)(v), jax.jacrev(unit)(v)

    number = st.sampled_from([0.0, -0.0, 1.0, -2.0, 1e-6, 300.0])

    @settings(max_examples=15, derandomize=True, deadline=None, database=None)
    @given(st.lists(number, min_size=3, max_size=3))
    def direction_of(values):
        v = np.array(values, np.float32)
        length = np.sqrt((v.astype(float) ** 2).sum())
        u, pushed, pulled = slopes(jnp.array(v))
        want = v / (length or 1)
        expect_close(u, want.astype(np.float32), name=f"direction of {values}")
        jacobian = (np.eye(3) - np.outer(want, want)) * (length > 0)
        for got in (pushed, pulled):
            scaled = np.array(got) * (length or 1)
            expect_close(scaled, jacobian.astype(np.float32), atol=1e-5,
                         name=f"Jacobian at {values}, times the length")

    direction_of()
# %% ex="where_unit" kind="wrong" fails="finite_gradient any_vectors"
# one `jnp.where`, around the result
def unit(v):
    length = jnp.sqrt((v * v).sum(axis=-1, keepdims=True))
    return jnp.where(length > 0, v / length, 0.0)
# %% ex="where_unit" kind="wrong" fails="exact_directions finite_gradient any_vectors"
# an `eps` under the root: everything is finite and nothing is exact
def unit(v):
    return v / jnp.sqrt((v * v).sum(axis=-1, keepdims=True) + 1e-12)
# %% ex="where_unit" kind="wrong" fails="finite_gradient any_vectors"
# `F.normalize`, translated: the value is right
def unit(v):
    length = jnp.linalg.norm(v, axis=-1, keepdims=True)
    return v / jnp.maximum(length, 1e-12)
# %% ex="where_unit" kind="wrong" fails="finite_gradient any_vectors"
# select before the root and not after it: at 0, the derivative is that of `v`
def unit(v):
    square = (v * v).sum(axis=-1, keepdims=True)
    return v / jnp.sqrt(jnp.where(square == 0, 1.0, square))
# %% ex="where_unit" kind="wrong" fails="exact_directions finite_gradient any_vectors"
# a Python `if`, which can ask one vector and not many
def unit(v):
    length = jnp.linalg.norm(v, axis=-1, keepdims=True)
    if length == 0:
        return jnp.zeros_like(v)
    return v / length
# %% ex="where_unit" kind="alternate"
def unit(v):
    some = jnp.any(v != 0, axis=-1, keepdims=True)
    safe = jnp.where(some, v, 1.0)
    length = jnp.linalg.norm(safe, axis=-1, keepdims=True)
    return jnp.where(some, safe / length, 0.0)
# %% ex="where_unit" kind="alternate"
def unit(v):
    def one(v):
        square = v @ v
        return jax.lax.cond(
            square > 0, lambda v: v * jax.lax.rsqrt(v @ v), lambda v: 0 * v, v
        )

    return jax.vmap(one)(v.reshape(-1, v.shape[-1])).reshape(v.shape)
# %% [markdown] ex="where_unit" kind="why"
# Both sides of a `where` are differentiated, and the unwanted one contributes 0 times
# infinity. So a harmless number must reach the root and the division, which is what the
# first `where` is for. The second one says what happens at 0: without it the value is
# right, but the derivative is that of `v / 1`. An `eps` keeps `nan` away at the price of
# short vectors, and leaves a huge derivative at 0. So does `F.normalize`: PyTorch takes 0
# for the slope of a norm at 0, which avoids `nan`, and is left with `1 / eps`, or 1e12.
# %% [markdown] ex="hvp_tree" level="core" minutes=10
# ## Curvature without a matrix
#
# Optimisers and influence functions need the Hessian of a loss times one direction, and
# a model has too many parameters for the Hessian itself. Write
# `curvature(f, params, direction)`:
#
# - `f` maps a tree of float arrays to a scalar; `direction` is a tree like `params`;
# - the result is the Hessian of `f` at `params` times `direction`, again a tree like
#   `params`, exact up to rounding;
# - no array on the way is larger than the largest in `params`, apart from what `f` makes
#   itself.
# %% ex="hvp_tree" kind="solution"
def curvature(f, params, direction):
    """The Hessian of f at params, times direction: a tree like params."""
    ### BEGIN SOLUTION
    return jax.jvp(jax.grad(f), (params,), (direction,))[1]
    ### END SOLUTION
# %% [markdown] ex="hvp_tree" kind="hint"
# The Hessian is the Jacobian of the gradient. Which of the two modes gives a Jacobian
# times a vector?
# %% [markdown] ex="hvp_tree" kind="hint"
# `jax.grad(f)` maps a tree to a tree. `jax.jvp(g, (x,), (v,))` returns `g(x)` and what
# was pushed, for trees as well.
# %% ex="hvp_tree" kind="check"
with check("hessian_times_direction", points=1,
           section="Forward mode pushes, reverse mode pulls"):
    a, da = np.array([[1, 2, -1], [0.5, 0, 1]], np.float32)
    b, db = np.float32(3.0), np.float32(-2.0)
    got = curvature(lambda p: (p["a"] ** 3).sum() + p["b"] ** 2 * p["a"].sum(),
                    {"a": jnp.array(a), "b": jnp.array(b)},
                    {"a": jnp.array(da), "b": jnp.array(db)})
    want = {"a": 6 * a * da + 2 * b * db,
            "b": 2 * a.sum() * db + 2 * b * da.sum()}
    expect_close(got, want, name="product")
# %% ex="hvp_tree" kind="check"
with check("nothing_square", points=1,
           section="Forward mode pushes, reverse mode pulls"):
    x = jnp.linspace(0.0, 1.0, 300)
    rough = lambda x: jnp.cos(x).sum() + ((x[1:] - x[:-1]) ** 4).sum()
    record = jaxpr_of(lambda x, v: curvature(rough, x, v), x, x)
    eqns = iter_eqns(record)
    largest = max(out.aval.size for eqn in eqns for out in eqn.outvars)
    assert largest <= 300, "no array of more than 300 numbers"
# %% ex="hvp_tree" kind="hidden"
with check("deep_tree", points=1,
           section="Forward mode pushes, reverse mode pulls"):
    rng = np.random.default_rng(0)
    w, dw = rng.normal(size=(2, 3, 2)).astype(np.float32)
    b, db = rng.normal(size=(2, 2)).astype(np.float32)

    def f(p):
        (w, (b,)) = p["layer"]
        return jnp.exp(w.sum(axis=0) * b).sum() + 0.5 * (w**2).sum()

    tree = lambda w, b: {"layer": (jnp.array(w), [jnp.array(b)])}
    s, ds = w.sum(0), dw.sum(0)
    e, inner = np.exp(s * b), ds * b + s * db
    hw, hb = e * inner * b + e * db + dw, e * inner * s + e * ds
    got = jax.jit(lambda p, v: curvature(f, p, v))(tree(w, b), tree(dw, db))
    want = {"layer": (hw, [hb])}
    expect_close(got, want, rtol=1e-5, atol=1e-5, name="product")
# %% ex="hvp_tree" kind="wrong" fails="hessian_times_direction nothing_square deep_tree"
# the matrix first, and then the product: made for one array, and square
def curvature(f, params, direction):
    return jax.hessian(f)(params) @ direction
# %% ex="hvp_tree" kind="wrong" fails="hessian_times_direction deep_tree"
# a difference of two gradients
def curvature(f, params, direction):
    moved = jax.tree.map(lambda p, d: p + 1e-3 * d, params, direction)
    pairs = jax.grad(f)(moved), jax.grad(f)(params)
    return jax.tree.map(lambda a, b: (a - b) / 1e-3, *pairs)
# %% ex="hvp_tree" kind="wrong" fails="hessian_times_direction nothing_square deep_tree"
# `grad` of `grad`, as for a function of one number
def curvature(f, params, direction):
    second = jax.grad(jax.grad(f))(params)
    return jax.tree.map(jnp.multiply, second, direction)
# %% ex="hvp_tree" kind="wrong" fails="hessian_times_direction deep_tree"
# the gradient's outer product with itself, taken for the Hessian
def curvature(f, params, direction):
    g = jax.grad(f)(params)
    along = sum(map(jnp.vdot, jax.tree.leaves(g), jax.tree.leaves(direction)))
    return jax.tree.map(lambda a: along * a, g)
# %% ex="hvp_tree" kind="alternate"
def curvature(f, params, direction):
    def slope(params):
        g = jax.grad(f)(params)
        return sum(jax.tree.leaves(jax.tree.map(jnp.vdot, g, direction)))

    return jax.grad(slope)(params)
# %% ex="hvp_tree" kind="alternate"
def curvature(f, params, direction):
    _, push = jax.linearize(jax.grad(f), params)
    return push(direction)
# %% ex="hvp_tree" kind="alternate"
def curvature(f, params, direction):
    slope = lambda p: jax.jvp(f, (p,), (direction,))[1]
    return jax.grad(slope)(params)
# %% [markdown] ex="hvp_tree" kind="why"
# The Hessian is the Jacobian of the gradient, and forward mode multiplies a Jacobian by
# a vector without building it. It costs about as much as two gradients, whatever the
# number of parameters, and works on trees as it stands. PyTorch's way, `backward` twice
# with `create_graph=True`, is reverse over reverse: also right, with more to remember.
# Differences of gradients lose digits, and `grad` of `grad` exists for one number only.
# %% [markdown] ex="jacobian_choose" level="core" minutes=10
# ## Push or pull
#
# `jax.jacobian` always pulls. Write `cheap_jacobian(f, x)` for an `f` from `f32[n]` to
# `f32[m]`. It returns the Jacobian, `f32[m, n]`, and chooses the mode that needs fewer
# passes. The passes are batched: the program does not grow with `n` or `m`, and where the
# arrays that `f` makes are not larger than its input and output, none on the way is larger
# than the Jacobian.
#
# It also works inside of `jax.jit`.
# %% ex="jacobian_choose" kind="solution"
def cheap_jacobian(f, x):
    """The Jacobian of f at x, f32[m, n], for f: f32[n] -> f32[m]."""
    ### BEGIN SOLUTION
    outputs = jax.eval_shape(f, x).size
    mode = jax.jacfwd if x.size < outputs else jax.jacrev
    return mode(f)(x)
    ### END SOLUTION
# %% [markdown] ex="jacobian_choose" kind="hint"
# Forward mode fills one column in a pass, reverse mode one row. Both numbers are shapes.
# %% [markdown] ex="jacobian_choose" kind="hint"
# `jax.eval_shape(f, x)` gives the shape of the output without computing it. Shapes are
# known while tracing, so a Python `if` may compare them.
# %% ex="jacobian_choose" kind="check"
with check("right_jacobian", points=1,
           section="Forward mode pushes, reverse mode pulls"):
    t = np.linspace(0, 1, 5, dtype=np.float32)
    tall = lambda x: jnp.sin(x[0] * t) + x[1] * t
    want = np.stack([t * np.cos(2 * t), t], axis=1)
    got = cheap_jacobian(tall, jnp.array([2.0, 3.0]))
    expect_close(got, want, name="tall")
    wide = lambda x: jnp.stack([(x**2).sum(), x[0]])
    want = np.stack([2 * t, np.eye(5, dtype=np.float32)[0]])
    got = jax.jit(lambda x: cheap_jacobian(wide, x))(t)
    expect_close(got, want, name="wide")
# %% ex="jacobian_choose" kind="check"
with check("fewer_passes", points=1,
           section="Forward mode pushes, reverse mode pulls"):
    t = jnp.linspace(0, 1, 300)
    tall = lambda x: jnp.sin(x[0] * t) + x[1] * t
    wide = lambda x: jnp.sin(x).reshape(3, -1).sum(axis=1)
    for case, f, x, most in [("tall (2 -> 300)", tall, jnp.ones(2), 600),
                             ("wide (300 -> 3)", wide, t, 900)]:
        eqns = iter_eqns(jaxpr_of(lambda x: cheap_jacobian(f, x), x))
        largest = max(out.aval.size for eqn in eqns for out in eqn.outvars)
        said = f"{case}: no array larger than the Jacobian's {most} numbers"
        assert largest <= most, said
# %% ex="jacobian_choose" kind="hidden"
with check("same_program_at_any_size", points=1,
           section="Forward mode pushes, reverse mode pulls"):
    tall = lambda x: jnp.concatenate([x, jnp.cos(x)])            # n -> 2n
    wide = lambda x: jnp.sin(x).reshape(-1, 2).sum(axis=1)       # 2n -> n
    for f in (tall, wide):
        of_f = lambda x: cheap_jacobian(f, x)
        expect_constant_size(of_f, lambda n: (jnp.ones(n),), (4, 10))
    got = cheap_jacobian(lambda x: x * x, jnp.array([1.0, 2.0, 3.0]))
    want = np.diag(np.array([2, 4, 6], np.float32))
    expect_close(got, want, name="square")
    got = cheap_jacobian(lambda x: jnp.stack([x[0], 2 * x[0]]), jnp.ones(1))
    expect_close(got, np.array([[1.0], [2.0]], np.float32), name="one column")
# %% ex="jacobian_choose" kind="wrong" fails="fewer_passes"
# `jax.jacobian`, as `torch.autograd.functional.jacobian`
def cheap_jacobian(f, x):
    return jax.jacobian(f)(x)
# %% ex="jacobian_choose" kind="wrong" fails="fewer_passes"
# the modes are swapped: pull for tall, push for wide
def cheap_jacobian(f, x):
    outputs = jax.eval_shape(f, x).size
    return jax.jacrev(f)(x) if x.size < outputs else jax.jacfwd(f)(x)
# %% ex="jacobian_choose" kind="wrong" fails="same_program_at_any_size"
# one `backward()` for each output: nothing is large, and the program is endless
def cheap_jacobian(f, x):
    rows = [jax.grad(lambda x: f(x)[i])(x) for i in range(f(x).size)]
    return jnp.stack(rows)
# %% ex="jacobian_choose" kind="wrong" fails="same_program_at_any_size"
# the right mode in a Python loop: one `jvp` or `vjp` in the program for each pass
def cheap_jacobian(f, x):
    y, pull = jax.vjp(f, x)
    if y.size <= x.size:
        return jnp.stack([pull(u)[0] for u in jnp.eye(y.size)])
    push = lambda v: jax.jvp(f, (x,), (v,))[1]
    return jnp.stack([push(v) for v in jnp.eye(x.size)], axis=1)
# %% ex="jacobian_choose" kind="wrong" fails="right_jacobian fewer_passes same_program_at_any_size"
# `grad` of a function with many outputs
def cheap_jacobian(f, x):
    return jax.vmap(jax.grad(f))(x)
# %% ex="jacobian_choose" kind="alternate"
def cheap_jacobian(f, x):
    y, pull = jax.vjp(f, x)
    if y.size <= x.size:
        return jax.vmap(lambda u: pull(u)[0])(jnp.eye(y.size))
    push = lambda v: jax.jvp(f, (x,), (v,))[1]
    return jax.vmap(push, out_axes=1)(jnp.eye(x.size))
# %% [markdown] ex="jacobian_choose" kind="why"
# A push fills a column and a pull fills a row, so the shape of the Jacobian decides. The
# shape is known before anything is computed, and Python may branch on it in any trace.
# With the wrong mode, an operation on 300 numbers is carried out for 300 directions at
# once. A loop over the outputs, each with its own backward pass, never has a large array,
# but it writes `f` into the program once for each row.
# %% [markdown] ex="clip_each" level="stretch" minutes=15
# ## Clip each example
#
# Private training limits what one example can do to the weights: its gradient, taken over
# all parameters, may have a norm of at most `bound`. Write
# `clipped_grad(loss, params, x, y, bound)`:
#
# - `loss(params, x[i], y[i])` is the loss of one example;
# - the gradient of each example is scaled down to norm `bound`, if it is longer;
# - the result is the mean of the scaled gradients over the batch, a tree like `params`.
#
# The norm goes over all leaves together. A gradient of 0 stays 0. The program is the same
# at every batch size.
# %% ex="clip_each" kind="solution"
def clipped_grad(loss, params, x, y, bound):
    """Mean over the batch of per-example gradients, clipped to norm `bound`.

    Args:
        loss: loss(params, f32[d], f32[]) -> f32[], for one example.
        params: tree of float arrays.
        x: f32[n, d]; y: f32[n]; bound: float, above 0.
    """
    ### BEGIN SOLUTION
    def one(x, y):
        g = jax.grad(loss)(params, x, y)
        square = sum((leaf**2).sum() for leaf in jax.tree.leaves(g))
        scale = bound / jnp.sqrt(jnp.maximum(square, bound**2))
        return jax.tree.map(lambda leaf: scale * leaf, g)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(one)(x, y))
    ### END SOLUTION
# %% [markdown] ex="clip_each" kind="hint"
# Write it for one example first: gradient, norm over all leaves, scale. Which
# transformation turns that into a function of a batch?
# %% [markdown] ex="clip_each" kind="hint"
# `jax.tree.leaves(g)` lists the arrays of a gradient; the squared norm is the sum of all
# their squares. `jax.vmap` maps over `x` and `y`, and leaves alone what is closed over.
# %% [markdown] ex="clip_each" kind="hint"
# The factor is `bound / max(norm, bound)`: it is never above 1, and never divides by 0.
# %% ex="clip_each" kind="check"
with check("mean_of_clipped", points=1, section="Derivatives compose"):
    x = np.array([[3, 4], [0.1, 0], [2, 1], [-2, 1]], np.float32)
    y = np.array([1, 0.3, 0.5, 0], np.float32)
    w = np.array([1, -2], np.float32)
    loss = lambda p, x, y: 0.5 * (x @ p["w"] + p["b"] - y) ** 2
    p = {"w": jnp.array(w), "b": jnp.float32(0.5)}
    miss = x @ w + 0.5 - y
    each = miss[:, None] * np.concatenate([x, np.ones((4, 1))], axis=1)
    norm = np.linalg.norm(each, axis=1, keepdims=True)  # one is 0
    mean = (each * 2.0 / np.maximum(norm, 2.0)).mean(axis=0).astype(np.float32)
    got = clipped_grad(loss, p, jnp.array(x), jnp.array(y), 2.0)
    expect_close(got, {"w": mean[:2], "b": mean[2]}, name="gradient")
# %% ex="clip_each" kind="check"
with check("same_program_for_any_batch", points=1,
           section="Derivatives compose"):
    def of_batch(x, y):
        loss = lambda w, x, y: (x @ w - y) ** 2
        return clipped_grad(loss, jnp.ones(2), x, y, 1.0)

    batch = lambda n: (jnp.ones((n, 2)), jnp.ones(n))
    expect_constant_size(of_batch, batch, (2, 7))
# %% ex="clip_each" kind="hidden"
with check("zero_gradient_stays", points=1,
           section="A branch that is not taken still counts"):
    loss = lambda p, x, y: (p["w"][0] * x[0] - y) ** 2
    p, x = {"w": (jnp.float32(2.0),)}, jnp.array([[1.0], [3.0]])
    for bound, want in ((1.0, 0.5), (1000.0, 18.0)):
        got = clipped_grad(loss, p, x, jnp.array([2.0, 0.0]), bound)
        name = f"gradient with bound {bound}"
        expect_close(got, {"w": (np.float32(want),)}, name=name)
    got = jax.jit(lambda x: clipped_grad(loss, p, x, 2 * x[:, 0], 1.0))(x)
    expect_close(got, {"w": (np.float32(0),)}, name="gradient at a good fit")
# %% ex="clip_each" kind="wrong" fails="mean_of_clipped zero_gradient_stays"
# `clip_grad_norm_` after the mean: one example still decides the direction
def clipped_grad(loss, params, x, y, bound):
    def mean_loss(params):
        return jax.vmap(loss, (None, 0, 0))(params, x, y).mean()

    g = jax.grad(mean_loss)(params)
    norm = jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(g)))
    return jax.tree.map(lambda leaf: leaf * bound / jnp.maximum(norm, bound), g)
# %% ex="clip_each" kind="wrong" fails="mean_of_clipped"
# each array is clipped by itself
def clipped_grad(loss, params, x, y, bound):
    def one(x, y):
        g = jax.grad(loss)(params, x, y)
        norm = lambda leaf: jnp.sqrt((leaf**2).sum())
        return jax.tree.map(lambda a: a * bound / jnp.maximum(norm(a), bound), g)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(one)(x, y))
# %% ex="clip_each" kind="wrong" fails="same_program_for_any_batch"
# a loop over the examples, with a `backward()` for each
def clipped_grad(loss, params, x, y, bound):
    total = jax.tree.map(jnp.zeros_like, params)
    for i in range(len(x)):
        g = jax.grad(loss)(params, x[i], y[i])
        norm = jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(g)))
        scale = bound / jnp.maximum(norm, bound)
        total = jax.tree.map(lambda t, leaf: t + scale * leaf, total, g)
    return jax.tree.map(lambda t: t / len(x), total)
# %% ex="clip_each" kind="wrong" fails="mean_of_clipped zero_gradient_stays"
# the factor is new norm by old norm: for a gradient of 0 it is 0 / 0
def clipped_grad(loss, params, x, y, bound):
    each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, x, y)
    square = lambda g: sum((a**2).sum() for a in jax.tree.leaves(g))
    norm = jnp.sqrt(jax.vmap(square)(each))
    scale = jnp.minimum(norm, bound) / norm
    return jax.tree.map(lambda a: jnp.tensordot(scale, a, axes=1) / len(x), each)
# %% ex="clip_each" kind="wrong" fails="mean_of_clipped zero_gradient_stays"
# a direction times a length: 0 has no direction
def clipped_grad(loss, params, x, y, bound):
    def one(x, y):
        g = jax.grad(loss)(params, x, y)
        norm = jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(g)))
        return jax.tree.map(lambda leaf: leaf / norm * jnp.minimum(norm, bound), g)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(one)(x, y))
# %% ex="clip_each" kind="alternate"
def clipped_grad(loss, params, x, y, bound):
    each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, x, y)
    flat = [leaf.reshape(len(x), -1) for leaf in jax.tree.leaves(each)]
    norm = jnp.linalg.norm(jnp.concatenate(flat, axis=1), axis=1)
    long = norm > bound
    scale = jnp.where(long, bound / jnp.where(long, norm, 1.0), 1.0) / len(x)
    return jax.tree.map(lambda g: jnp.tensordot(scale, g, axes=1), each)
# %% ex="clip_each" kind="alternate"
def clipped_grad(loss, params, x, y, bound):
    def add(total, example):
        g = jax.grad(loss)(params, *example)
        norm = jnp.sqrt(sum(jnp.vdot(a, a) for a in jax.tree.leaves(g)))
        scale = 1.0 / jnp.maximum(1.0, norm / bound) / len(x)
        return jax.tree.map(lambda t, a: t + scale * a, total, g), None

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), (x, y))[0]
# %% [markdown] ex="clip_each" kind="why"
# `backward()` has added the examples up before you can look at one, and a sum can't be
# taken apart again; clipping it limits the step and not the example. `grad` of the loss
# of one example is a function, so `vmap` of it gives all gradients in one program. A
# Python loop gives the same numbers and writes the backward pass once for each example.
# The norm belongs to the whole gradient, not to a leaf. And 0 divided by its own norm is
# `nan`; dividing by the larger of norm and bound never is.
# %% [markdown] ex="checkpoint_chunks" level="stretch" minutes=20
# ## A long run in little memory
#
# A simulation applies `body(c, state)` many times, and its end is differentiated by `c`.
# Write `make_run(body, steps)`; it returns `run(c, state)`, the state after `steps`
# applications.
#
# The memory that the compiled gradient needs grows with the square root of `steps`, not
# with `steps`. `steps` is any number from 1 on, not only a square or a product of nice
# factors. `state` is an array or a tree of arrays. The loop is recorded as a loop: Python
# calls `body` a few times, and the program does not grow with `steps`.
# %% ex="checkpoint_chunks" kind="solution"
def make_run(body, steps):
    """Return run(c, state) -> state, which applies body `steps` times."""
    ### BEGIN SOLUTION
    def repeat(body, n):
        def run(c, state):
            once = lambda state, _: (body(c, state), None)
            return jax.lax.scan(once, state, length=n)[0]

        return run

    size = math.isqrt(steps)
    chunks = repeat(jax.checkpoint(repeat(body, size)), steps // size)
    rest = repeat(body, steps % size)
    return lambda c, state: rest(c, chunks(c, state))
    ### END SOLUTION
# %% [markdown] ex="checkpoint_chunks" kind="hint"
# The chapter's `repeat` makes a recorded loop of a body. A loop is a function of `c` and
# `state` again, so it can be a body itself. Which of the two loops is to be wrapped?
# %% [markdown] ex="checkpoint_chunks" kind="hint"
# Wrap the inner loop, of about √n steps. If n is not a product of the two lengths, some
# steps are left over: how many at most, and do they need wrapping?
# %% ex="checkpoint_chunks" kind="check"
with check("any_number_of_steps", points=1,
           section="`checkpoint` trades time for memory"):
    c, start = np.float32(0.9), np.array([1.0, -2.0], np.float32)
    for steps in (1, 3, 16, 23):
        run = jax.jit(make_run(lambda c, s: c * s + 1, steps))
        want = start
        for _ in range(steps):
            want = c * want + 1
        expect_close(run(c, start), want, name=f"state after {steps} steps")
# %% ex="checkpoint_chunks" kind="check"
with check("root_of_memory", points=2,
           section="`checkpoint` trades time for memory"):
    def slope(c, steps):
        body = lambda c, s: jnp.sin(c * jnp.tanh(s))
        final = lambda c: make_run(body, steps)(c, jnp.ones(1000)).sum()
        return jax.grad(final)(c)

    def bytes_for(steps):
        program = jax.jit(slope, static_argnums=1).lower(c, steps).compile()
        return program.memory_analysis().temp_size_in_bytes

    c = jnp.float32(1)
    expect_constant_size(slope, lambda n: (c, n), (64, 144))
    growth = round(bytes_for(10**6) / bytes_for(10**4), 1)
    assert growth < 20, "less than 20 times the memory for 100 times the steps"
# %% ex="checkpoint_chunks" kind="hidden"
with check("trees_and_loops", points=1,
           section="`checkpoint` trades time for memory"):
    def body(c, state):
        return {"x": state["x"] + c * state["v"], "v": c * state["v"]}

    seen, start = counting(body), {"x": jnp.float32(0), "v": jnp.float32(1)}
    run = make_run(seen, 37)
    slope = jax.jit(jax.grad(lambda c: run(c, start)["x"]))(jnp.float32(1.0))
    want = np.float32(37 * 38 / 2)
    expect_close(slope, want, name="gradient after 37 steps")
    calls = seen.count
    assert calls < 25, "few calls of the body, however many steps"
# %% ex="checkpoint_chunks" kind="wrong" fails="root_of_memory"
# wrap the whole: the backward pass has to hold all of it again
def make_run(body, steps):
    @jax.checkpoint
    def run(c, state):
        return jax.lax.scan(lambda s, _: (body(c, s), None), state, length=steps)[0]

    return run
# %% ex="checkpoint_chunks" kind="wrong" fails="root_of_memory"
# wrap each step: one state for each is still kept
def make_run(body, steps):
    body = jax.checkpoint(body)

    def run(c, state):
        return jax.lax.scan(lambda s, _: (body(c, s), None), state, length=steps)[0]

    return run
# %% ex="checkpoint_chunks" kind="wrong" fails="root_of_memory"
# each step wrapped, in a Python loop: `body` is traced once and stands there n times
def make_run(body, steps):
    def run(c, state):
        for _ in range(steps):
            state = jax.checkpoint(body)(c, state)
        return state

    return run
# %% ex="checkpoint_chunks" kind="wrong" fails="root_of_memory"
# chunks of a fixed size: their number is in proportion to the steps
def make_run(body, steps):
    def repeat(body, n):
        def run(c, state):
            once = lambda state, _: (body(c, state), None)
            return jax.lax.scan(once, state, length=n)[0]

        return run

    chunks = repeat(jax.checkpoint(repeat(body, 60)), steps // 60)
    rest = repeat(body, steps % 60)
    return lambda c, state: rest(c, chunks(c, state))
# %% ex="checkpoint_chunks" kind="wrong" fails="any_number_of_steps trees_and_loops"
# chunks of equal size, and what is left over is forgotten
def make_run(body, steps):
    size = math.isqrt(steps)

    @jax.checkpoint
    def chunk(c, state):
        return jax.lax.scan(lambda s, _: (body(c, s), None), state, length=size)[0]

    def run(c, state):
        count = steps // size
        return jax.lax.scan(lambda s, _: (chunk(c, s), None), state, length=count)[0]

    return run
# %% ex="checkpoint_chunks" kind="wrong" fails="root_of_memory"
# chunks in Python loops: little memory, and a program as long as the run
def make_run(body, steps):
    size = math.isqrt(steps)

    def chunk(c, state, n):
        for _ in range(n):
            state = body(c, state)
        return state

    def run(c, state):
        done = 0
        while done < steps:
            n = min(size, steps - done)
            state = jax.checkpoint(chunk, static_argnums=2)(c, state, n)
            done += n
        return state

    return run
# %% ex="checkpoint_chunks" kind="alternate"
def make_run(body, steps):
    size = math.isqrt(steps - 1) + 1

    def once(c, state, i):
        new = body(c, state)
        kept = lambda a, b: jnp.where(i < steps, a, b)
        return jax.tree.map(kept, new, state)

    @jax.checkpoint
    def chunk(c, state, numbers):
        step = lambda state, i: (once(c, state, i), None)
        return jax.lax.scan(step, state, numbers)[0]

    def run(c, state):
        numbers = jnp.arange(size * size).reshape(size, size)
        step = lambda state, row: (chunk(c, state, row), None)
        return jax.lax.scan(step, state, numbers)[0]

    return run
# %% [markdown] ex="checkpoint_chunks" kind="why"
# A wrapped piece keeps its inputs, and while its backward pass runs it keeps all of its
# residuals. So the peak is the number of pieces plus the length of one, and that is least
# when both are about the square root. Wrapping the whole makes one piece as long as the
# run; wrapping each step makes as many pieces as steps. What is left over is shorter than
# a piece and needs no wrapping. Python loops would do for the memory, but tracing and
# compiling then grow with `steps`.
