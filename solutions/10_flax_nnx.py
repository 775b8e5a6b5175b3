# %% [markdown]
# # Modules that carry their state
#
# Eight exercises on `flax.nnx`: what a module registers, what it changes while it
# runs, and who gets to see the change. Checks look at the variables of your models,
# not only at their outputs. They go with the chapter of the same name.
# %%
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from tracecheck import check, count_primitives, counting, expect_close
from tracecheck import expect_traces
# %% [markdown] ex="params_count" level="warm-up" minutes=5
# ## Count what trains
#
# Write `count(model)`. It returns a dict with one entry for each attribute of `model`
# that holds parameters (`nnx.Param`) somewhere below it: the name of the attribute
# and the number of those parameters, as a Python integer.
#
# Running statistics, keys and counters don't count. An attribute without parameters
# has no entry. A layer that stands under two names is counted once, under either.
# %% ex="params_count" kind="solution"
def count(model):
    """{name of an attribute: number of parameters below it}"""
    ### BEGIN SOLUTION
    totals = {}
    for path, variable in nnx.to_flat_state(nnx.state(model, nnx.Param)):
        totals[path[0]] = totals.get(path[0], 0) + variable.size
    return totals
    ### END SOLUTION
# %% [markdown] ex="params_count" kind="hint"
# A filter chooses variables by type. Which function of nnx gives the state of a model,
# and which one lists a state with paths?
# %% [markdown] ex="params_count" kind="hint"
# `nnx.to_flat_state(nnx.state(model, nnx.Param))` gives pairs of path and variable.
# The first step of a path is the name of the attribute.
# %% ex="params_count" kind="check"
with check("by_attribute", points=1,
           section="Filters say what trains"):
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.body = nnx.List([nnx.Linear(3, 4, rngs=rngs) for _ in "ab"])
            self.norm = nnx.BatchNorm(4, rngs=rngs)
            self.drop = nnx.Dropout(0.5, rngs=rngs)

    got = count(Net(nnx.Rngs(0)))
    names = sorted(got)
    assert names == ["body", "norm"], "entries for body and norm"
    assert got["norm"] == 8, "a scale and a bias in norm, 8 numbers"
    assert got["body"] == 32, "two layers of 16 in body"
    kinds = {type(number) for number in got.values()}
    assert kinds == {int}, "Python integers"
# %% ex="params_count" kind="hidden"
with check("shared_once", points=1,
           section="Filters say what trains"):
    class Tied(nnx.Module):
        def __init__(self, rngs):
            self.enc = self.dec = nnx.Linear(2, 3, rngs=rngs)
            self.gain = nnx.Param(jnp.ones((5, 5)))
            self.calls = nnx.Variable(jnp.zeros(7))

    got = count(Tied(nnx.Rngs(0)))
    total = sum(got.values())
    assert total == 34, "9 numbers of the shared layer and 25 of the gain"
    assert got["gain"] == 25, "25 numbers in gain, a variable of its own"
# %% ex="params_count" kind="wrong" fails="by_attribute shared_once"
# all leaves of the module are counted: statistics and keys too, shared ones twice
def count(model):
    totals = {}
    for path, leaf in jax.tree.leaves_with_path(model):
        totals[path[0].name] = totals.get(path[0].name, 0) + leaf.size
    return totals
# %% ex="params_count" kind="wrong" fails="shared_once"
# attribute by attribute, so that a shared layer is met twice
def count(model):
    sizes = {name: sum(p.size for p in jax.tree.leaves(
                 nnx.state(child, nnx.Param)))
             for name, child in vars(model).items()
             if isinstance(child, (nnx.Module, nnx.List, nnx.Dict))}
    return {name: total for name, total in sizes.items() if total}
# %% ex="params_count" kind="wrong" fails="by_attribute"
# one entry for each variable instead of each attribute
def count(model):
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {".".join(map(str, path)): int(v.size) for path, v in flat}
# %% ex="params_count" kind="alternate"
def count(model):
    parts = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    sizes = {k: sum(a.size for a in jax.tree.leaves(v))
             for k, v in parts.items()}
    return {k: n for k, n in sizes.items() if n}
# %% [markdown] ex="params_count" kind="why"
# `nnx.state` walks through the object and meets each variable once, so a shared layer
# has one entry, under the first of its names. JAX's own functions see a tree, where
# it stands twice, and they see every leaf: a batch normalisation has as many
# statistics as parameters. The type of a variable is the difference, and the filter
# asks for it.
# %% [markdown] ex="modules_list" level="warm-up" minutes=7
# ## Layers in a list
#
# Write the module `Tower(widths, rngs)`. With widths `[8, 16, 4]` it holds the linear
# layers 8 → 16 and 16 → 4, applied in this order, with a ReLU after each but the last.
# One width means no layer: the input comes back.
#
# `grow(width, rngs)` appends one more layer, from the last width to `width`. Whenever
# a layer is added, its parameters must be in `nnx.state(tower, nnx.Param)`, and JAX
# must see them as leaves of the tower. All keys come from the `rngs` that are passed.
# %% ex="modules_list" kind="starter"
class Tower(nnx.Module):
    """A stack of linear layers; f32[n, widths[0]] -> f32[n, widths[-1]]."""

    def __init__(self, widths, rngs):
        raise NotImplementedError

    def grow(self, width, rngs):
        raise NotImplementedError

    def __call__(self, x):
        raise NotImplementedError
# %% ex="modules_list" kind="solution"
class Tower(nnx.Module):
    """A stack of linear layers; f32[n, widths[0]] -> f32[n, widths[-1]]."""

    def __init__(self, widths, rngs):
        self.width, self.layers = widths[0], nnx.List([])
        for width in widths[1:]:
            self.grow(width, rngs)

    def grow(self, width, rngs):
        self.layers.append(nnx.Linear(self.width, width, rngs=rngs))
        self.width = width

    def __call__(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x if i == 0 else nnx.relu(x))
        return x
# %% [markdown] ex="modules_list" kind="hint"
# A bare list of layers is refused at the end of `__init__`. An empty one is not, and
# what is appended to it later is lost.
# %% [markdown] ex="modules_list" kind="hint"
# `nnx.List([])` is a list that registers what you append to it.
# %% ex="modules_list" kind="check"
with check("applied_in_order", points=1,
           section="A module is an object and a tree"):
    tower = Tower([3, 5, 4, 2], nnx.Rngs(0))
    flat = nnx.to_flat_state(nnx.state(tower, nnx.Param))
    shapes = sorted(v.shape for path, v in flat if path[-1] == "kernel")
    assert shapes == [(3, 5), (4, 2), (5, 4)], "three kernels, of these widths"
    w = {v.shape: np.asarray(v[...]) for path, v in flat}
    x = np.float32([[1, -2, 0.5], [0, 1, 1]])
    h = np.maximum(np.maximum(x @ w[3, 5], 0) @ w[5, 4], 0)
    expect_close(tower(x), h @ w[4, 2], atol=1e-5, name="output")
# %% ex="modules_list" kind="check"
with check("grown_is_registered", points=1,
           section="A module is an object and a tree"):
    rngs = nnx.Rngs(0)
    tower = Tower([3, 3], rngs)
    tower.grow(3, rngs)
    params = jax.tree.leaves(nnx.state(tower, nnx.Param))
    assert len(params) == 4, "a kernel and a bias of two layers in the state"
    leaves = len(jax.tree.leaves(tower))
    assert leaves == 4, "four leaves of the tower"
    first, second = (p for p in params if p.ndim == 2)
    assert (first != second).any(), "different weights in the two layers"
# %% ex="modules_list" kind="hidden"
with check("grown_from_nothing", points=1,
           section="A module is an object and a tree"):
    tower, x = Tower([2], nnx.Rngs(0)), np.float32([[1, -1]])
    expect_close(tower(x), x, name="output without layers")
    tower.grow(3, nnx.Rngs(1))
    params = nnx.to_flat_state(nnx.state(tower, nnx.Param))
    assert len(params) == 2, "a kernel and a bias of one layer in the state"
    kernel = {v.shape: np.asarray(v[...]) for _, v in params}[2, 3]
    expect_close(tower(x), x @ kernel, atol=1e-6, name="output")
    other = Tower([2], nnx.Rngs(0))
    other.grow(3, nnx.Rngs(2))
    assert (other(x) != tower(x)).any(), "other weights from other rngs"
# %% ex="modules_list" kind="wrong" fails="applied_in_order grown_is_registered grown_from_nothing"
# a bare list, as nobody does in PyTorch twice
class Tower(nnx.Module):
    def __init__(self, widths, rngs):
        self.width, self.layers = widths[0], []
        for width in widths[1:]:
            self.grow(width, rngs)

    def grow(self, width, rngs):
        self.layers.append(nnx.Linear(self.width, width, rngs=rngs))
        self.width = width

    def __call__(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x if i == 0 else nnx.relu(x))
        return x
# %% ex="modules_list" kind="wrong" fails="grown_is_registered grown_from_nothing"
# every layer starts a generator of its own, with the same seed
class Tower(nnx.Module):
    def __init__(self, widths, rngs):
        self.width, self.layers = widths[0], nnx.List([])
        for width in widths[1:]:
            self.grow(width, rngs)

    def grow(self, width, rngs):
        self.layers.append(nnx.Linear(self.width, width, rngs=nnx.Rngs(0)))
        self.width = width

    def __call__(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x if i == 0 else nnx.relu(x))
        return x
# %% ex="modules_list" kind="wrong" fails="grown_from_nothing"
# a seed of its own for every layer: they differ, and every tower is the same
class Tower(nnx.Module):
    def __init__(self, widths, rngs):
        self.width, self.layers = widths[0], nnx.List([])
        for width in widths[1:]:
            self.grow(width, rngs)

    def grow(self, width, rngs):
        seed = nnx.Rngs(len(self.layers))
        self.layers.append(nnx.Linear(self.width, width, rngs=seed))
        self.width = width

    def __call__(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x if i == 0 else nnx.relu(x))
        return x
# %% ex="modules_list" kind="wrong" fails="applied_in_order"
# a ReLU after every layer, the last included
class Tower(nnx.Module):
    def __init__(self, widths, rngs):
        self.width, self.layers = widths[0], nnx.List([])
        for width in widths[1:]:
            self.grow(width, rngs)

    def grow(self, width, rngs):
        self.layers.append(nnx.Linear(self.width, width, rngs=rngs))
        self.width = width

    def __call__(self, x):
        if len(self.layers) == 1:
            return self.layers[0](x)
        for layer in self.layers:
            x = nnx.relu(layer(x))
        return x
# %% ex="modules_list" kind="alternate"
class Tower(nnx.Module):
    def __init__(self, widths, rngs):
        self.widths = tuple(widths[:1])
        for width in widths[1:]:
            self.grow(width, rngs)

    def grow(self, width, rngs):
        layer = nnx.Linear(self.widths[-1], width, rngs=rngs)
        setattr(self, f"layer{len(self.widths)}", layer)
        self.widths = self.widths + (width,)

    def __call__(self, x):
        for i in range(1, len(self.widths)):
            x = getattr(self, f"layer{i}")(nnx.relu(x) if i > 1 else x)
        return x
# %% [markdown] ex="modules_list" kind="why"
# An attribute is data or static, and a bare list is static. Flax notices arrays in it
# on assignment and at the end of `__init__`, so a tower with layers raises. A tower
# of one width holds an empty list, which is fine at that moment; the layer that
# `grow` appends later runs, and nobody trains it. `nnx.List` is data from the start.
# And a seed inside of the module is a fixed one: all layers start equal.
# %% [markdown] ex="norm_port" level="core" minutes=12
# ## Batch normalisation with PyTorch's conventions
#
# Write the module `Norm(width, momentum=0.1)` for inputs of shape (n, width). It has
# the parameters `scale` (ones) and `bias` (zeros), the running statistics `mean`
# (zeros) and `var` (ones), of type `nnx.BatchStat`, and follows PyTorch:
#
# - In training, it normalises by the mean and the biased variance of the batch, with
#   an epsilon of 1e-5. `momentum` is the share of the new value in the running
#   statistics, and the running variance takes in the unbiased one.
# - In evaluation, it normalises by the running statistics and changes nothing.
# - In both, it multiplies by `scale` and adds `bias` at the end.
#
# `train()` and `eval()`, also of a module that holds it, switch its mode. It starts
# in training mode. All four stay variables, and `nnx.jit` carries them.
# %% ex="norm_port" kind="starter"
class Norm(nnx.Module):
    """f32[n, width] -> f32[n, width], n at least 2 in training."""

    def __init__(self, width, momentum=0.1):
        self.scale = nnx.Param(jnp.ones(width))
        self.bias = nnx.Param(jnp.zeros(width))
        self.mean = nnx.BatchStat(jnp.zeros(width))
        self.var = nnx.BatchStat(jnp.ones(width))
        # what else does it need to know?

    def __call__(self, x):
        raise NotImplementedError
# %% ex="norm_port" kind="solution"
class Norm(nnx.Module):
    """f32[n, width] -> f32[n, width], n at least 2 in training."""

    def __init__(self, width, momentum=0.1):
        self.scale = nnx.Param(jnp.ones(width))
        self.bias = nnx.Param(jnp.zeros(width))
        self.mean = nnx.BatchStat(jnp.zeros(width))
        self.var = nnx.BatchStat(jnp.ones(width))
        self.momentum, self.use_running_average = momentum, False

    def __call__(self, x):
        mean, var = self.mean[...], self.var[...]
        if not self.use_running_average:
            keep, n = 1 - self.momentum, len(x)
            self.mean[...] = keep * mean + self.momentum * x.mean(0)
            self.var[...] = keep * var + self.momentum * x.var(0) * n / (n - 1)
            mean, var = x.mean(0), x.var(0)
        unit = (x - mean) / jnp.sqrt(var + 1e-5)
        return self.scale[...] * unit + self.bias[...]
# %% [markdown] ex="norm_port" kind="hint"
# `nnx.BatchNorm` has no option for the unbiased variance, so write the class yourself.
# `eval()` sets an attribute of which name?
# %% [markdown] ex="norm_port" kind="hint"
# Write into the variables by `self.mean[...] = ...`. An assignment to `self.mean`
# would replace the variable by an array.
# %% [markdown] ex="norm_port" kind="hint"
# The unbiased variance is `x.var(0) * n / (n - 1)`, or `x.var(0, ddof=1)`. It goes
# into the running statistics alone.
# %% ex="norm_port" kind="check"
with check("training_follows_torch", points=2,
           section="State and mode live in the module"):
    x = np.float32([[1, 2], [3, -2], [5, 9]])
    norm, mean, var = Norm(2), np.zeros(2), np.ones(2)
    for batch in (x, x + 1, 2 * x):
        mean = 0.9 * mean + 0.1 * batch.mean(0)
        var = 0.9 * var + 0.1 * batch.var(0, ddof=1)
        want = (batch - batch.mean(0)) / np.sqrt(batch.var(0) + 1e-5)
        expect_close(norm(batch), want, atol=1e-5, name="output")
        expect_close(norm.mean[...], mean, atol=1e-5, name="running mean")
        expect_close(norm.var[...], var, atol=1e-5, name="running var")
# %% ex="norm_port" kind="check"
with check("modes_switch", points=1,
           section="State and mode live in the module"):
    norm = Norm(2)
    holder = nnx.Sequential(norm)
    norm.mean[...], norm.var[...] = jnp.array([1.0, 2]), jnp.array([4.0, 9])
    holder.eval()
    x = np.float32([[3, 5], [1, -1]])
    want = (x - np.float32([1, 2])) / np.float32([2, 3])
    expect_close(holder(x), want, atol=1e-4, name="output in evaluation")
    expect_close(norm.mean[...], np.float32([1, 2]), name="running mean")
    expect_close(norm.var[...], np.float32([4, 9]), name="running var")
    holder.train()
    expect_close(holder(x), np.float32([[1, 1], [-1, -1]]), atol=1e-4)
# %% ex="norm_port" kind="hidden"
with check("variables_survive", points=1,
           section="`nnx.jit` carries changes back, `jax.jit` drops them"):
    norm = Norm(3, momentum=0.5)
    norm.scale[...], norm.bias[...] = jnp.full(3, 2.0), jnp.full(3, -1.0)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    got = nnx.jit(lambda norm, x: norm(x))(norm, x)
    unit = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    expect_close(got, 2 * unit - 1, atol=1e-4, name="output")
    expect_close(norm.mean[...], x.mean(0) / 2, atol=1e-5, name="mean")
    want = (1 + x.var(0, ddof=1)) / 2
    expect_close(norm.var[...], want, atol=1e-5, name="var")
    kinds = [len(jax.tree.leaves(nnx.state(norm, kind)))
             for kind in (nnx.Param, nnx.BatchStat)]
    assert kinds == [2, 2], "two parameters and two statistics after the call"
# %% ex="norm_port" kind="wrong" fails="training_follows_torch variables_survive"
# Flax's layer with PyTorch's number
class Norm(nnx.BatchNorm):
    def __init__(self, width, momentum=0.1):
        super().__init__(width, momentum=momentum, rngs=nnx.Rngs(0))
# %% ex="norm_port" kind="wrong" fails="training_follows_torch variables_survive"
# the momentum is turned around, and the variance stays biased
class Norm(nnx.BatchNorm):
    def __init__(self, width, momentum=0.1):
        super().__init__(width, momentum=1 - momentum, rngs=nnx.Rngs(0))
# %% ex="norm_port" kind="wrong" fails="training_follows_torch modes_switch variables_survive"
# assigning to the attributes replaces the variables by arrays
class Norm(nnx.Module):
    def __init__(self, width, momentum=0.1):
        self.scale = nnx.Param(jnp.ones(width))
        self.bias = nnx.Param(jnp.zeros(width))
        self.mean = nnx.BatchStat(jnp.zeros(width))
        self.var = nnx.BatchStat(jnp.ones(width))
        self.momentum, self.training = momentum, True

    def __call__(self, x):
        mean, var, m = self.mean, self.var, self.momentum
        if self.training:
            mean, var = x.mean(0), x.var(0, ddof=1)
            self.mean = (1 - m) * self.mean + m * mean
            self.var = (1 - m) * self.var + m * var
        return self.scale * (x - mean) / jnp.sqrt(var + 1e-5) + self.bias
# %% ex="norm_port" kind="wrong" fails="variables_survive"
# scale and bias are stored and never used: the same numbers until they are trained
class Norm(nnx.BatchNorm):
    def __init__(self, width, momentum=0.1):
        super().__init__(width, momentum=1 - momentum, rngs=nnx.Rngs(0))

    def __call__(self, x):
        out = (super().__call__(x) - self.bias[...]) / self.scale[...]
        if not self.use_running_average:
            n, share = len(x), 1 - self.momentum
            self.var[...] += share * x.var(0) / (n - 1)
        return out
# %% ex="norm_port" kind="wrong" fails="modes_switch"
# the mode is an attribute named `training`, which `eval()` of Flax does not know
class Norm(nnx.Module):
    def __init__(self, width, momentum=0.1):
        self.scale = nnx.Param(jnp.ones(width))
        self.bias = nnx.Param(jnp.zeros(width))
        self.mean = nnx.BatchStat(jnp.zeros(width))
        self.var = nnx.BatchStat(jnp.ones(width))
        self.momentum, self.training = momentum, True

    def __call__(self, x):
        mean, var, m = self.mean[...], self.var[...], self.momentum
        if self.training:
            self.mean[...] = (1 - m) * mean + m * x.mean(0)
            self.var[...] = (1 - m) * var + m * x.var(0, ddof=1)
            mean, var = x.mean(0), x.var(0)
        unit = (x - mean) / jnp.sqrt(var + 1e-5)
        return self.scale[...] * unit + self.bias[...]
# %% ex="norm_port" kind="alternate"
class Norm(nnx.BatchNorm):
    def __init__(self, width, momentum=0.1):
        super().__init__(width, momentum=1 - momentum, rngs=nnx.Rngs(0))
        self.share = momentum

    def __call__(self, x):
        out = super().__call__(x)
        if not self.use_running_average:
            n = x.shape[0]
            self.var[...] += self.share * jnp.var(x, axis=0) / (n - 1)
        return out
# %% [markdown] ex="norm_port" kind="why"
# A port that copies the number 0.1 forgets nine tenths of its statistics in each
# step; one that writes 0.9 is close, and off by n/(n-1) in the variance. PyTorch
# normalises by the biased variance and stores the unbiased one, so the two must not
# be mixed. `self.mean[...] = ...` writes into the box, while `self.mean = ...` throws
# the box away, and with it the type that filters look for. `eval()` sets
# `use_running_average` and `deterministic`, wherever a module has one of them.
# %% [markdown] ex="eval_view" level="core" minutes=7
# ## Evaluate without a trace left behind
#
# During training, somebody wants the accuracy on other data. Write
# `accuracy(model, x, y)`: the share of rows of `x` for which the largest logit of
# `model(x)` stands at `y`, with dropout off and running statistics in use.
#
# The call leaves nothing behind. Statistics, random streams and the mode of every
# layer are afterwards what they were before, also where some layers are in evaluation
# mode and others are not. Two calls give the same number. A model without dropout and
# statistics works too.
# %% ex="eval_view" kind="solution"
def accuracy(model, x, y):
    """model: logits f32[n, k] of x; y: i32[n] -> f32[]"""
    ### BEGIN SOLUTION
    steady = nnx.view(model, deterministic=True, use_running_average=True,
                      raise_if_not_found=False)
    return (steady(x).argmax(axis=-1) == y).mean()
    ### END SOLUTION
# %% [markdown] ex="eval_view" kind="hint"
# Switching modes and switching back needs to know what each layer was before. Is
# there a way that switches nothing?
# %% [markdown] ex="eval_view" kind="hint"
# `nnx.view` gives a second module with the same variables and other attributes. For
# models without any such attribute, `raise_if_not_found=False`.
# %% ex="eval_view" kind="check"
with check("steady_accuracy", points=1,
           section="State and mode live in the module"):
    drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
    model = nnx.Sequential(nnx.BatchNorm(2, rngs=nnx.Rngs(0)), drop)
    model.layers[0].mean[...] = jnp.array([3.0, 0.0])
    x = np.tile(np.float32([[5, 1], [8, 1.5], [2, -3], [4, 2]]), (8, 1))
    y = np.tile([0, 1, 0, 1], 8)
    for call in range(3):
        expect_close(accuracy(model, x, y), np.float32(0.75), name="accuracy")
# %% ex="eval_view" kind="check"
with check("nothing_moves", points=1,
           section="State and mode live in the module"):
    model = nnx.Sequential(nnx.BatchNorm(2, rngs=nnx.Rngs(0)),
                           nnx.Dropout(0.5, rngs=nnx.Rngs(0)))
    before = [np.asarray(v[...]) for v in (
        model.layers[0].mean, model.layers[0].var, model.layers[1].rngs.count)]
    accuracy(model, np.float32([[5, 1], [7, 2]]), np.array([0, 1]))
    after = [np.asarray(v[...]) for v in (
        model.layers[0].mean, model.layers[0].var, model.layers[1].rngs.count)]
    expect_close(after, before, name="statistics and stream")
    modes = model.layers[0].use_running_average, model.layers[1].deterministic
    assert modes == (False, False), "both layers in training mode afterwards"
# %% ex="eval_view" kind="hidden"
with check("mixed_modes_stay", points=1,
           section="State and mode live in the module"):
    x, y = np.float32([[1, 0], [0, 1]]), np.array([0, 0])
    model = nnx.Sequential(nnx.BatchNorm(2, rngs=nnx.Rngs(0)),
                           nnx.Dropout(0.5, rngs=nnx.Rngs(0)))
    model.layers[0].eval()
    expect_close(accuracy(model, x, y), np.float32(0.5), name="accuracy")
    modes = model.layers[0].use_running_average, model.layers[1].deterministic
    assert modes == (True, False), "the mode of each layer as it was"
    plain = nnx.Sequential(nnx.Linear(2, 2, rngs=nnx.Rngs(0)))
    plain.layers[0].kernel[...] = jnp.eye(2)
    expect_close(accuracy(plain, x, y), np.float32(0.5), name="linear model")
# %% ex="eval_view" kind="wrong" fails="nothing_moves mixed_modes_stay"
# the mode is switched, and the way back forgotten
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(axis=-1) == y).mean()
# %% ex="eval_view" kind="wrong" fails="mixed_modes_stay"
# there and back, as in PyTorch: frozen layers come back in training mode
def accuracy(model, x, y):
    model.eval()
    result = (model(x).argmax(axis=-1) == y).mean()
    model.train()
    return result
# %% ex="eval_view" kind="wrong" fails="steady_accuracy mixed_modes_stay"
# `jax.jit` drops all changes, but dropout is still on
def accuracy(model, x, y):
    return jax.jit(lambda m, x: (m(x).argmax(-1) == y).mean())(model, x)
# %% ex="eval_view" kind="wrong" fails="steady_accuracy mixed_modes_stay"
# running statistics are in use, and dropout is forgotten
def accuracy(model, x, y):
    steady = nnx.clone(nnx.view(model, use_running_average=True,
                                raise_if_not_found=False))
    return (steady(x).argmax(axis=-1) == y).mean()
# %% ex="eval_view" kind="wrong" fails="steady_accuracy"
# dropout is off, and the statistics are those of the batch
def accuracy(model, x, y):
    steady = nnx.clone(nnx.view(model, deterministic=True,
                                raise_if_not_found=False))
    return (steady(x).argmax(axis=-1) == y).mean()
# %% ex="eval_view" kind="wrong" fails="mixed_modes_stay"
# a view insists on layers that have the attribute: a linear model raises
def accuracy(model, x, y):
    steady = nnx.view(model, deterministic=True, use_running_average=True)
    return (steady(x).argmax(axis=-1) == y).mean()
# %% ex="eval_view" kind="alternate"
def accuracy(model, x, y):
    copy = nnx.clone(model)
    copy.eval()
    return jnp.mean(jnp.argmax(copy(x), axis=1) == y)
# %% [markdown] ex="eval_view" kind="why"
# `eval()` and `train()` write to every layer and remember nothing, so whoever froze a
# layer by `norm.eval()` loses that by a round trip. A view has its own attributes and
# borrows the variables: nothing needs to be undone. A clone works as well and copies
# the arrays. Dropping changes by `jax.jit` protects the state and not the result,
# since the mode is what decides about dropout.
# %% [markdown] ex="freeze_tune" level="core" minutes=10
# ## Train one part
#
# Write `make_tuner(model, tx, part)`, which returns an optimizer and a step:
#
# - `step(model, opt, x, y)` does one compiled update of the parameters below the
#   attribute `part`, with the optax transformation `tx` and the gradients of
#   `squared_loss`, and returns the loss before the update;
# - all other parameters keep their exact values, whatever `tx` does;
# - the optimizer holds state for the parameters below `part` alone.
#
# The step changes `model` and `opt` in place.
# %% ex="freeze_tune"
def squared_loss(model, x, y):
    """Mean squared error; model(x) and y: f32[n, k]."""
    return ((model(x) - y) ** 2).mean()
# %% ex="freeze_tune" kind="solution"
def make_tuner(model, tx, part):
    """Return (nnx.Optimizer, step(model, opt, x, y) -> f32[])."""
    ### BEGIN SOLUTION
    trainable = nnx.All(nnx.Param, nnx.PathContains(part))
    argnums = nnx.DiffState(0, trainable)

    @nnx.jit
    def step(model, opt, x, y):
        loss_and_grads = nnx.value_and_grad(squared_loss, argnums=argnums)
        loss, grads = loss_and_grads(model, x, y)
        opt.update(model, grads)
        return loss

    return nnx.Optimizer(model, tx, wrt=trainable), step
    ### END SOLUTION
# %% [markdown] ex="freeze_tune" kind="hint"
# One filter says what trains: a `Param`, and below the attribute. Two places have to
# hear of it.
# %% [markdown] ex="freeze_tune" kind="hint"
# The optimizer takes the filter as `wrt=`, the gradient as
# `argnums=nnx.DiffState(0, filter)`.
# %% ex="freeze_tune" kind="check"
with check("part_moves", points=1,
           section="Filters say what trains"):
    class Two(nnx.Module):
        def __init__(self):
            self.a, self.b = (nnx.Param(jnp.float32([v])) for v in (2.0, 3.0))

        def __call__(self, x):
            return self.a * self.b * x

    model, x, y = Two(), jnp.ones((4, 1)), jnp.zeros((4, 1))
    opt, step = make_tuner(model, optax.sgd(0.01), "b")
    expect_close(step(model, opt, x, y), np.float32(36), name="loss")
    expect_close(model.b[...], np.float32([3 - 0.24]), name="b")
    expect_close(model.a[...], np.float32([2]), name="a")
# %% ex="freeze_tune" kind="check"
with check("state_of_part_only", points=1,
           section="Filters say what trains"):
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.body = nnx.Linear(7, 5, rngs=rngs)
            self.head = nnx.Sequential(nnx.BatchNorm(5, rngs=rngs),
                                       nnx.Linear(5, 2, rngs=rngs))

        def __call__(self, x):
            return self.head(self.body(x))

    opt, _ = make_tuner(Net(nnx.Rngs(0)), optax.adam(0.1), "head")
    held = sum(leaf.size for leaf in jax.tree.leaves(opt) if leaf.ndim)
    assert held == 44, "two moments for each of the head's 22 parameters"
# %% ex="freeze_tune" kind="check"
with check("step_is_compiled", points=1,
           section="`nnx.jit` carries changes back, `jax.jit` drops them"):
    sgd = optax.sgd(0.1)
    tx = sgd._replace(update=counting(sgd.update))
    model = nnx.Sequential(nnx.Linear(2, 1, rngs=nnx.Rngs(0)))
    opt, step = make_tuner(model, tx, "layers")
    for call in range(3):
        step(model, opt, jnp.ones((3, 2)), jnp.zeros((3, 1)))
    runs = tx.update.count
    assert runs == 1, "Python's update run by the first of three calls alone"
# %% ex="freeze_tune" kind="hidden"
with check("decay_stays_out", points=1,
           section="Filters say what trains"):
    class Deep(nnx.Module):
        def __init__(self, rngs):
            self.body = nnx.Linear(2, 2, rngs=rngs)
            self.norm = nnx.BatchNorm(2, rngs=rngs)
            self.head = nnx.Linear(2, 1, rngs=rngs)

        def __call__(self, x):
            return self.head(self.norm(self.body(x)))

    model, x = Deep(nnx.Rngs(0)), jnp.float32([[1, 2], [3, 1], [0, 5]])
    opt, step = make_tuner(model, optax.adamw(0.1, weight_decay=0.5), "body")
    frozen = nnx.All(nnx.Param, nnx.Not(nnx.PathContains("body")))
    take = lambda only: [np.asarray(a) for a in
                         jax.tree.leaves(nnx.state(model, only))]
    held, kernel = take(frozen), np.asarray(model.body.kernel[...])
    losses = [step(model, opt, x, x[:, :1]) for _ in range(2)]
    expect_close(take(frozen), held, rtol=0, atol=0, name="other parameters")
    moved = np.abs(model.body.kernel[...] - kernel).max()
    assert moved > 0.01, "a body that has moved"
    assert opt.step[...] == 2, "an optimizer that has counted two updates"
# %% ex="freeze_tune" kind="wrong" fails="state_of_part_only decay_stays_out"
# gradients of the rest are zeroed; the optimizer still holds and decays everything
def make_tuner(model, tx, part):
    @nnx.jit
    def step(model, opt, x, y):
        loss, grads = nnx.value_and_grad(squared_loss)(model, x, y)
        grads = jax.tree.map_with_path(
            lambda path, g: g if path[0].key == part else 0 * g, grads)
        opt.update(model, grads)
        return loss

    return nnx.Optimizer(model, tx, wrt=nnx.Param), step
# %% ex="freeze_tune" kind="wrong" fails="part_moves state_of_part_only decay_stays_out"
# the gradient hears of the filter and the optimizer does not
def make_tuner(model, tx, part):
    trainable = nnx.All(nnx.Param, nnx.PathContains(part))

    @nnx.jit
    def step(model, opt, x, y):
        loss, grads = nnx.value_and_grad(
            squared_loss, argnums=nnx.DiffState(0, trainable))(model, x, y)
        opt.update(model, grads)
        return loss

    return nnx.Optimizer(model, tx, wrt=nnx.Param), step
# %% ex="freeze_tune" kind="wrong" fails="step_is_compiled"
# nothing is compiled: every step runs its Python
def make_tuner(model, tx, part):
    trainable = nnx.All(nnx.Param, nnx.PathContains(part))
    loss_and_grads = nnx.value_and_grad(
        squared_loss, argnums=nnx.DiffState(0, trainable))

    def step(model, opt, x, y):
        loss, grads = loss_and_grads(model, x, y)
        opt.update(model, grads)
        return loss

    return nnx.Optimizer(model, tx, wrt=trainable), step
# %% ex="freeze_tune" kind="wrong" fails="state_of_part_only"
# the filter asks for the place alone, so running statistics are trained, too
def make_tuner(model, tx, part):
    trainable = nnx.PathContains(part)

    @nnx.jit
    def step(model, opt, x, y):
        loss, grads = nnx.value_and_grad(
            squared_loss, argnums=nnx.DiffState(0, trainable))(model, x, y)
        opt.update(model, grads)
        return loss

    return nnx.Optimizer(model, tx, wrt=trainable), step
# %% ex="freeze_tune" kind="wrong" fails="part_moves decay_stays_out"
# compiled by `jax.jit`: the loss is right and every update is lost
def make_tuner(model, tx, part):
    trainable = nnx.All(nnx.Param, nnx.PathContains(part))

    @jax.jit
    def step(model, opt, x, y):
        loss, grads = nnx.value_and_grad(
            squared_loss, argnums=nnx.DiffState(0, trainable))(model, x, y)
        opt.update(model, grads)
        return loss

    return nnx.Optimizer(model, tx, wrt=trainable), step
# %% ex="freeze_tune" kind="alternate"
def make_tuner(model, tx, part):
    def trainable(path, variable):
        return isinstance(variable, nnx.Param) and path[0] == part

    def step(model, opt, x, y):
        loss, grads = nnx.value_and_grad(squared_loss)(model, x, y)
        opt.update(model, nnx.filter_state(grads, trainable))
        return loss

    return nnx.Optimizer(model, tx, wrt=trainable), nnx.jit(step)
# %% [markdown] ex="freeze_tune" kind="why"
# Freezing has two sides. The gradient decides what is computed, the optimizer what is
# held and changed. A gradient of zero is not the same as no gradient: weight decay
# and old momentum move a parameter without any. If only one of them hears of the
# filter, the trees differ and optax refuses. And `jax.jit` would hand a copy to the
# step and throw it away afterwards.
# %% [markdown] ex="embed_tie" level="core" minutes=8
# ## One matrix, two uses
#
# Write `Model(vocab, width, rngs)`, a language model in its smallest form: tokens are
# embedded, go through `mix` and a tanh, and the logits are the products with the
# embeddings. With the embedding matrix $E$, mixing weights $W$ and bias $b$, a token
# $t$ has the logits $\tanh(E_t W + b)\, E^\top$.
#
# `embed` is an `nnx.Embed`, `mix` an `nnx.Linear`. $E$ is stored once: three leaves
# in all, for nnx and for JAX, and the gradient by $E$ adds both uses even under plain
# `jax.grad`.
# %% ex="embed_tie" kind="starter"
class Model(nnx.Module):
    """i32[n] -> f32[n, vocab]; input and output embeddings are one matrix."""

    def __init__(self, vocab, width, rngs):
        raise NotImplementedError

    def __call__(self, tokens):
        raise NotImplementedError
# %% ex="embed_tie" kind="solution"
class Model(nnx.Module):
    """i32[n] -> f32[n, vocab]; input and output embeddings are one matrix."""

    def __init__(self, vocab, width, rngs):
        self.embed = nnx.Embed(vocab, width, rngs=rngs)
        self.mix = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, tokens):
        h = nnx.tanh(self.mix(self.embed(tokens)))
        return h @ self.embed.embedding[...].T
# %% [markdown] ex="embed_tie" kind="hint"
# A tree has no aliases. What is stored under two names is two leaves for JAX.
# %% [markdown] ex="embed_tie" kind="hint"
# Make no second layer. `self.embed.embedding[...]` is the matrix, of shape
# (vocab, width).
# %% ex="embed_tie" kind="check"
with check("tied_logits", points=1,
           section="Filters say what trains"):
    model, tokens = Model(6, 3, nnx.Rngs(0)), np.array([1, 4, 4])
    E = np.asarray(model.embed.embedding[...])
    model.mix.bias[...] = jnp.float32([0.1, 0.2, 0.3])
    W = np.asarray(model.mix.kernel[...])
    for factor in (1, 2):
        model.embed.embedding[...] = jnp.asarray(factor * E)
        h = np.tanh(factor * E[tokens] @ W + np.float32([0.1, 0.2, 0.3]))
        want = h @ (factor * E).T
        expect_close(model(tokens), want, atol=1e-5, name="logits")
# %% ex="embed_tie" kind="check"
with check("stored_once", points=1,
           section="Filters say what trains"):
    model = Model(6, 3, nnx.Rngs(0))
    for_jax = len(jax.tree.leaves(model))
    assert for_jax == 3, "three leaves for JAX"
    for_nnx = sum(p.size for p in jax.tree.leaves(nnx.state(model, nnx.Param)))
    assert for_nnx == 30, "18 numbers of the matrix and 12 of mix"
# %% ex="embed_tie" kind="hidden"
with check("both_uses_count", points=1,
           section="Filters say what trains"):
    model = Model(4, 2, nnx.Rngs(0))
    model.embed.embedding[...] = jnp.arange(8.0).reshape(4, 2) / 10
    model.mix.kernel[...] = jnp.eye(2)
    grads = jax.grad(lambda m: m(np.array([2])).sum())(model)
    E = np.arange(8).reshape(4, 2) / 10
    h, total = np.tanh(E[2]), E.sum(0)
    want = np.tile(h, (4, 1))
    want[2] += (1 - h**2) * total
    got = grads.embed.embedding[...]
    expect_close(got, want, atol=1e-5, name="gradient of the matrix")
# %% ex="embed_tie" kind="wrong" fails="tied_logits stored_once both_uses_count"
# the output layer gets a copy: equal at first
class Model(nnx.Module):
    def __init__(self, vocab, width, rngs):
        self.embed = nnx.Embed(vocab, width, rngs=rngs)
        self.mix = nnx.Linear(width, width, rngs=rngs)
        self.out = nnx.Linear(width, vocab, use_bias=False, rngs=rngs)
        self.out.kernel[...] = self.embed.embedding[...].T

    def __call__(self, tokens):
        return self.out(nnx.tanh(self.mix(self.embed(tokens))))
# %% ex="embed_tie" kind="wrong" fails="stored_once both_uses_count"
# PyTorch's `self.out.weight = self.embed.weight`: an alias, which JAX's trees lose
class Model(nnx.Module):
    def __init__(self, vocab, width, rngs):
        self.embed = nnx.Embed(vocab, width, rngs=rngs)
        self.mix = nnx.Linear(width, width, rngs=rngs)
        self.out = self.embed

    def __call__(self, tokens):
        return self.out.attend(nnx.tanh(self.mix(self.embed(tokens))))
# %% ex="embed_tie" kind="wrong" fails="both_uses_count"
# the output matrix is detached, so one of its uses has no gradient
class Model(nnx.Module):
    def __init__(self, vocab, width, rngs):
        self.embed = nnx.Embed(vocab, width, rngs=rngs)
        self.mix = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, tokens):
        out = jax.lax.stop_gradient(self.embed.embedding[...])
        return nnx.tanh(self.mix(self.embed(tokens))) @ out.T
# %% ex="embed_tie" kind="alternate"
class Model(nnx.Module):
    def __init__(self, vocab, width, rngs):
        self.embed = nnx.Embed(vocab, width, rngs=rngs)
        self.mix = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, tokens):
        return self.embed.attend(jnp.tanh(self.mix(self.embed(tokens))))
# %% [markdown] ex="embed_tie" kind="why"
# A copy is tied for no longer than the first update. An alias is tied for as long as
# nnx handles the model: `nnx.split` and `nnx.grad` know that it is one object. Every
# function of JAX sees two leaves and gives each the derivative by its own use. Store
# the matrix once and use it twice, and there is nothing to lose. `nnx.Embed.attend`
# is that second use, by its usual name.
# %% [markdown] ex="split_step" level="core" minutes=10
# ## The split form
#
# Write `make_step(model, tx)`, which returns `(state, step)` for plain JAX:
#
# - `state` is a pytree with all that changes: the parameters, the other variables of
#   the model and the state of an optimizer for its `nnx.Param`s with `tx`;
# - `step(state, x, y)` returns the new state, of the same structure, and the loss
#   before the update, by `mean_loss`;
# - a step is compiled as a whole by `jax.jit` and traced once for a shape;
# - `model` itself is never changed by a step.
# %% ex="split_step"
def mean_loss(model, x, y):
    """Mean squared error; model(x) and y: f32[n]."""
    return ((model(x) - y) ** 2).mean()


class Line(nnx.Module):
    """f32[n, d] -> f32[n]; counts its calls, as a statistic would."""

    def __init__(self, d):
        self.w = nnx.Param(jnp.zeros(d))
        self.calls = nnx.Variable(jnp.int32(0))

    def __call__(self, x):
        self.calls[...] += 1
        return x @ self.w[...]
# %% ex="split_step" kind="solution"
def make_step(model, tx):
    """Return (state, step(state, x, y) -> (state, f32[]))."""
    ### BEGIN SOLUTION
    opt = nnx.Optimizer(model, tx, wrt=nnx.Param)
    graphdef, state = nnx.split((model, opt))

    @jax.jit
    def step(state, x, y):
        model, opt = nnx.merge(graphdef, state)
        loss, grads = nnx.value_and_grad(mean_loss)(model, x, y)
        opt.update(model, grads)
        return nnx.state((model, opt)), loss

    return state, step
    ### END SOLUTION
# %% [markdown] ex="split_step" kind="hint"
# Split once, outside of the step. The definition is the same in every step, so the
# step can close over it; the state is its argument and its result.
# %% [markdown] ex="split_step" kind="hint"
# `nnx.split((model, opt))` takes both apart, `nnx.merge` puts them together in the
# step, and `nnx.state((model, opt))` is what to return.
# %% ex="split_step" kind="check"
with check("two_updates", points=1,
           section="The split form costs less Python"):
    x, y, w = np.float32([[1, 2], [0, 1]]), np.float32([1, -1]), np.zeros(2)
    state, step = make_step(Line(2), optax.sgd(0.1))
    for _ in range(2):
        state, loss = step(state, x, y)
        expect_close(loss, ((x @ w - y) ** 2).mean(), name="loss")
        w = w - 0.1 * x.T @ (x @ w - y)
    flat = [np.asarray(a) for a in jax.tree.leaves(state)]
    found = any(np.allclose(a, w) for a in flat if a.shape == (2,))
    assert found, "the weights after two updates in the state"
    seen = [int(a) for a in flat if a.shape == () and a.dtype == np.int32]
    assert 2 in seen, "a call counter in the state, at 2"
# %% ex="split_step" kind="check"
with check("one_trace_same_tree", points=1,
           section="The split form costs less Python"):
    adam = optax.adam(0.1)
    tx = adam._replace(update=counting(adam.update))
    state, step = make_step(Line(2), tx)
    x, y = jnp.ones((3, 2)), jnp.zeros(3)
    old = jax.tree.map(jnp.copy, state)
    new, _ = step(state, x, y)
    same = jax.tree.structure(new) == jax.tree.structure(old)
    assert same, "a new state of the old structure"
    expect_traces(step, [(old, x, y), (new, x + 1, y)], at_most=1)
    traced = tx.update.count
    step(new, x, y)
    assert tx.update.count == traced, "the optimizer in the compiled step"
# %% ex="split_step" kind="check"
with check("model_stays", points=1,
           section="`nnx.jit` carries changes back, `jax.jit` drops them"):
    model = Line(1)
    state, step = make_step(model, optax.sgd(0.1))
    for _ in range(2):
        state, _ = step(state, jnp.ones((2, 1)), jnp.ones(2))
    expect_close(model.w[...], np.zeros(1), name="w of the model")
    expect_close(model.calls[...], np.int32(0), name="calls of the model")
# %% ex="split_step" kind="hidden"
with check("momentum_is_carried", points=1,
           section="The split form costs less Python"):
    model = Line(1)
    model.w[...] = jnp.float32([4.0])
    state, step = make_step(model, optax.sgd(0.1, momentum=0.5))
    w, v = 4.0, 0.0
    for _ in range(4):
        state, loss = step(state, np.ones((1, 1), np.float32), np.zeros(1))
        expect_close(loss, np.float32(w**2), name="loss")
        v = 0.5 * v + 2 * w
        w -= 0.1 * v
# %% ex="split_step" kind="wrong" fails="model_stays"
# the objects themselves are the state: `nnx.jit` changes them in place
def make_step(model, tx):
    opt = nnx.Optimizer(model, tx, wrt=nnx.Param)

    @nnx.jit
    def step(state, x, y):
        model, opt = state
        loss, grads = nnx.value_and_grad(mean_loss)(model, x, y)
        opt.update(model, grads)
        return loss

    return (model, opt), lambda state, x, y: (state, step(state, x, y))
# %% ex="split_step" kind="wrong" fails="two_updates"
# what is no parameter is closed over and left behind
def make_step(model, tx):
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)

    @jax.jit
    def step(state, x, y):
        def loss(params):
            merged = nnx.merge(graphdef, params, rest, copy=True)
            return mean_loss(merged, x, y)

        params, moments = state
        value, grads = jax.value_and_grad(loss)(params)
        updates, moments = tx.update(grads, moments, params)
        return (optax.apply_updates(params, updates), moments), value

    return (params, tx.init(params)), step
# %% ex="split_step" kind="wrong" fails="one_trace_same_tree"
# split and merged, and not compiled
def make_step(model, tx):
    graphdef, state = nnx.split((model, nnx.Optimizer(model, tx, wrt=nnx.Param)))

    def step(state, x, y):
        model, opt = nnx.merge(graphdef, state, copy=True)
        loss, grads = nnx.value_and_grad(mean_loss)(model, x, y)
        opt.update(model, grads)
        return nnx.state((model, opt)), loss

    return state, step
# %% ex="split_step" kind="wrong" fails="one_trace_same_tree"
# the gradient is compiled, and the optimizer runs as Python, operation by operation
def make_step(model, tx):
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)

    def loss(params, rest, x, y):
        merged = nnx.merge(graphdef, params, rest, copy=True)
        return mean_loss(merged, x, y), nnx.state(merged, nnx.Not(nnx.Param))

    grad = jax.jit(jax.value_and_grad(loss, has_aux=True))

    def step(state, x, y):
        params, rest, moments = state
        (value, rest), grads = grad(params, rest, x, y)
        updates, moments = tx.update(grads, moments, params)
        return (optax.apply_updates(params, updates), rest, moments), value

    return (params, rest, tx.init(params)), step
# %% ex="split_step" kind="alternate"
def make_step(model, tx):
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)

    def loss(params, rest, x, y):
        merged = nnx.merge(graphdef, params, rest, copy=True)
        return mean_loss(merged, x, y), nnx.state(merged, nnx.Not(nnx.Param))

    def step(state, x, y):
        params, rest, moments = state
        grad = jax.value_and_grad(loss, has_aux=True)
        (value, rest), grads = grad(params, rest, x, y)
        updates, moments = tx.update(grads, moments, params)
        return (optax.apply_updates(params, updates), rest, moments), value

    return (params, rest, tx.init(params)), jax.jit(step)
# %% [markdown] ex="split_step" kind="why"
# The graphdef is hashable and never changes, so a closure may hold it. All else goes
# in and out. Whoever splits off the parameters alone must still return the rest, or
# counters and running statistics stay at their first value: a closure freezes them.
# Objects as state work under `nnx.jit` and are changed in place, which is what the
# split form avoids. Without `jax.jit` the numbers are right, and every step runs its
# Python again.
# %% [markdown] ex="ensemble_map" level="stretch" minutes=14
# ## An ensemble in one program
#
# Write `ensemble(create, keys)`. `create(rngs)` makes a model; `keys` are $k$ typed
# keys. It returns `(states, predict)`:
#
# - `states` is the state of all members: each leaf has a first axis of length $k$, and
#   member $i$ is what `create(nnx.Rngs(keys[i]))` makes;
# - `predict(states, x)` returns the mean over all members of the softmax of their
#   logits, in evaluation mode, for `x` of shape (n, d).
#
# `predict` is compiled once for a shape and runs all members at the same time: there
# is no loop over members, neither when they are made nor when they predict.
# %% ex="ensemble_map" kind="solution"
def ensemble(create, keys):
    """Return (states, predict(states, x) -> f32[n, classes])."""
    ### BEGIN SOLUTION
    template = create(nnx.Rngs(0))
    template.eval()
    graphdef = nnx.graphdef(template)
    states = jax.vmap(lambda key: nnx.state(create(nnx.Rngs(key))))(keys)

    def member(state, x):
        return jax.nn.softmax(nnx.merge(graphdef, state)(x))

    @jax.jit
    def predict(states, x):
        return jax.vmap(member, in_axes=(0, None))(states, x).mean(axis=0)

    return states, predict
    ### END SOLUTION
# %% [markdown] ex="ensemble_map" kind="hint"
# The definition of all members is the same, only their states differ. A function from
# a key to a state can be mapped over keys.
# %% [markdown] ex="ensemble_map" kind="hint"
# Make one model in Python for its definition: put it into evaluation mode first, since
# the mode is part of the definition, and take `nnx.graphdef(model)`.
# %% [markdown] ex="ensemble_map" kind="hint"
# `jax.vmap(lambda key: nnx.state(create(nnx.Rngs(key))))(keys)` makes the states. In
# `predict`, map `nnx.merge(graphdef, state)(x)` over the first axis of the states.
# %% ex="ensemble_map" kind="check"
with check("members_differ", points=1,
           section="The split form costs less Python"):
    create = lambda rngs: nnx.Sequential(nnx.Linear(2, 3, rngs=rngs))
    keys = jax.random.split(jax.random.key(3), 4)
    states, predict = ensemble(create, keys)
    kernels = [a for a in jax.tree.leaves(states) if a.ndim == 3]
    assert len(kernels) == 1, "one leaf with the kernels of all members"
    own = np.stack([create(nnx.Rngs(k)).layers[0].kernel[...] for k in keys])
    expect_close(kernels[0], own, atol=1e-6, name="kernels by key")
    x = np.float32([[1, 2], [-1, 0.5]])
    for factor in (1, 2):
        scaled = jax.tree.map(lambda a: factor * a, states)
        logits = np.exp(factor * np.einsum("nd,kdc->knc", x, own))
        want = (logits / logits.sum(-1, keepdims=True)).mean(0)
        expect_close(predict(scaled, x), want, atol=1e-5, name="mean")
# %% ex="ensemble_map" kind="check"
with check("no_python_loop", points=1,
           section="The split form costs less Python"):
    create = counting(lambda rngs: nnx.Linear(2, 3, rngs=rngs))
    sizes, x = [], jnp.ones((5, 2))
    for k in (2, 6):
        before = create.count
        keys = jax.random.split(jax.random.key(0), k)
        states, predict = ensemble(create, keys)
        made = create.count - before
        assert made <= 3, "at most three calls of create, however many members"
        found = count_primitives(predict, states, x)
        sizes.append(sum(found.values()))
    assert sizes[0] == sizes[1], "a program that is as long for more members"
    assert not {"scan", "while"} & set(found), "no loop over members in it"
    expect_traces(predict, [(states, x), (states, x + 1)], at_most=1)
# %% ex="ensemble_map" kind="hidden"
with check("evaluation_mode", points=1,
           section="State and mode live in the module"):
    class Noisy(nnx.Module):
        def __init__(self, rngs):
            self.w = nnx.Param(jax.random.normal(rngs.params(), (2, 2)))
            drawn = jax.random.normal(rngs.params(), (1, 2))
            self.shift = nnx.BatchStat(drawn)
            self.norm = nnx.BatchNorm(2, rngs=rngs)
            self.drop = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return self.drop(self.norm(x @ self.w[...])) + self.shift[...]

    keys = jax.random.split(jax.random.key(1), 3)
    states, predict = ensemble(Noisy, keys)
    x = np.float32([[1, 2], [3, -1], [0, 1]])
    leaves = jax.tree.leaves(states)
    w, shift = (np.asarray(next(a for a in leaves if a.shape == shape))
                for shape in ((3, 2, 2), (3, 1, 2)))
    scaled = np.einsum("nd,kdc->knc", x, w) / np.sqrt(1 + 1e-5)
    logits = np.exp(scaled + shift)
    want = (logits / logits.sum(-1, keepdims=True)).mean(0)
    for call in range(2):
        expect_close(predict(states, x), want, atol=1e-5, name="mean")
# %% ex="ensemble_map" kind="wrong" fails="no_python_loop"
# a list of models, stacked in the end: one call of `create` for each
def ensemble(create, keys):
    models = [create(nnx.Rngs(key)) for key in keys]
    for model in models:
        model.eval()
    graphdef = nnx.graphdef(models[0])
    states = jax.tree.map(lambda *a: jnp.stack(a), *map(nnx.state, models))

    @jax.jit
    def predict(states, x):
        one = lambda s: jax.nn.softmax(nnx.merge(graphdef, s)(x))
        return jax.vmap(one)(states).mean(axis=0)

    return states, predict
# %% ex="ensemble_map" kind="wrong" fails="evaluation_mode"
# the mode is left as it was when the model was made
def ensemble(create, keys):
    graphdef = nnx.graphdef(create(nnx.Rngs(0)))
    states = jax.vmap(lambda key: nnx.state(create(nnx.Rngs(key))))(keys)

    @jax.jit
    def predict(states, x):
        one = lambda s: jax.nn.softmax(nnx.merge(graphdef, s, copy=True)(x))
        return jax.vmap(one)(states).mean(axis=0)

    return states, predict
# %% ex="ensemble_map" kind="wrong" fails="members_differ"
# one seed for all, as after `torch.manual_seed` before each model
def ensemble(create, keys):
    model = create(nnx.Rngs(0))
    model.eval()
    graphdef, state = nnx.split(model)
    states = jax.tree.map(lambda a: jnp.stack([a] * len(keys)), state)
    run = lambda s, x: jax.nn.softmax(nnx.merge(graphdef, s)(x))
    many = jax.vmap(run, in_axes=(0, None))
    return states, jax.jit(lambda states, x: many(states, x).mean(axis=0))
# %% ex="ensemble_map" kind="wrong" fails="members_differ evaluation_mode"
# the logits are averaged before the softmax
def ensemble(create, keys):
    model = create(nnx.Rngs(0))
    model.eval()
    graphdef = nnx.graphdef(model)
    states = jax.vmap(lambda key: nnx.state(create(nnx.Rngs(key))))(keys)

    @jax.jit
    def predict(states, x):
        logits = jax.vmap(lambda s: nnx.merge(graphdef, s)(x))(states)
        return jax.nn.softmax(logits.mean(axis=0))

    return states, predict
# %% ex="ensemble_map" kind="wrong" fails="no_python_loop"
# a loop in the program, one member after another
def ensemble(create, keys):
    model = create(nnx.Rngs(0))
    model.eval()
    graphdef = nnx.graphdef(model)
    states = jax.vmap(lambda key: nnx.state(create(nnx.Rngs(key))))(keys)

    @jax.jit
    def predict(states, x):
        one = lambda s: jax.nn.softmax(nnx.merge(graphdef, s)(x))
        return jax.lax.map(one, states).mean(axis=0)

    return states, predict
# %% ex="ensemble_map" kind="wrong" fails="members_differ"
# `predict` closes over the states that it should be given
def ensemble(create, keys):
    model = create(nnx.Rngs(0))
    model.eval()
    graphdef = nnx.graphdef(model)
    states = jax.vmap(lambda key: nnx.state(create(nnx.Rngs(key))))(keys)

    @jax.jit
    def predict(_, x):
        one = lambda s: jax.nn.softmax(nnx.merge(graphdef, s)(x))
        return jax.vmap(one)(states).mean(axis=0)

    return states, predict
# %% ex="ensemble_map" kind="wrong" fails="evaluation_mode"
# parameters alone are mapped; all members share the other variables of one model
def ensemble(create, keys):
    model = create(nnx.Rngs(0))
    model.eval()
    graphdef, _, rest = nnx.split(model, nnx.Param, ...)
    make = lambda key: nnx.state(create(nnx.Rngs(key)), nnx.Param)
    run = lambda s, x: jax.nn.softmax(nnx.merge(graphdef, s, rest)(x))
    many = jax.vmap(run, in_axes=(0, None))
    return jax.vmap(make)(keys), jax.jit(lambda s, x: many(s, x).mean(axis=0))
# %% ex="ensemble_map" kind="alternate"
def ensemble(create, keys):
    models = nnx.vmap(lambda key: create(nnx.Rngs(key)))(keys)
    models.eval()
    graphdef, states = nnx.split(models)

    @jax.jit
    def predict(states, x):
        models = nnx.merge(graphdef, states)
        run = nnx.vmap(lambda model, x: model(x), in_axes=(0, None))
        return jax.nn.softmax(run(models, x), axis=-1).mean(0)

    return states, predict
# %% [markdown] ex="ensemble_map" kind="why"
# All members share a definition, so an ensemble is one definition with a bigger
# state, and `jax.vmap` adds an axis to every operation instead of repeating it. A
# Python loop makes and compiles each member by itself. The mode belongs to the
# definition: it has to be set before the split. Distinct keys are what makes the
# members differ; one state repeated is an ensemble of one.
