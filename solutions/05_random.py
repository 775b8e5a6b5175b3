# %% [markdown]
# # Randomness is an argument
#
# Eight exercises on keys: derive them, spend each once, and give layers, examples, steps
# and names streams of their own. They go with the chapter of the same name. Most checks
# look at which keys your function uses and what its numbers depend on.
# %%
import jax
import jax.numpy as jnp
import numpy as np
from tracecheck import check, expect_close, expect_constant_size
from tracecheck import expect_keys_used_once, expect_pure, expect_traces
from tracecheck import expect_typed_key
# %% [markdown] ex="layers_init" level="warm-up" minutes=6
# ## Initialise every layer
#
# `torch.nn.Linear` takes its numbers from a generator that moves on by itself. Here the
# numbers come from one key.
#
# Write `init_mlp(key, sizes)`. For `sizes` such as `(64, 32, 10)` it returns a list of
# dictionaries, one a layer, with `w` of shape `(n_in, n_out)` and `b` of shape `(n_out,)`,
# both float32. Draw `w` from a normal distribution with standard deviation
# `n_in ** -0.5` and `b` from a uniform one between -0.1 and 0.1. No two arrays may share
# their random bits, and the same key gives the same list.
# %% ex="layers_init" kind="solution"
def init_mlp(key, sizes):
    """A list of {'w': (n_in, n_out), 'b': (n_out,)}, float32."""
    params = []
    for n_in, n_out in zip(sizes, sizes[1:]):
        ### BEGIN SOLUTION
        key, w_key, b_key = jax.random.split(key, 3)
        w = jax.random.normal(w_key, (n_in, n_out)) * n_in**-0.5
        b = jax.random.uniform(b_key, (n_out,), minval=-0.1, maxval=0.1)
        ### END SOLUTION
        params.append({"w": w, "b": b})
    return params
# %% [markdown] ex="layers_init" kind="hint"
# Each turn of the loop needs two keys to draw with, and one that lives on into the next
# turn.
# %% [markdown] ex="layers_init" kind="hint"
# `jax.random.split` takes the number of parts as its second argument, and its result can
# be unpacked like a tuple.
# %% ex="layers_init" kind="check"
with check("layers_have_shapes", points=1, section="Keys grow like a tree"):
    params = init_mlp(jax.random.key(0), (64, 32, 10))
    shapes = [(layer["w"].shape, layer["b"].shape) for layer in params]
    assert shapes == [((64, 32), (32,)), ((32, 10), (10,))], "two layers"
    dtypes = {str(leaf.dtype) for leaf in jax.tree.leaves(params)}
    assert dtypes == {"float32"}, "float32 everywhere"
    spread = float(params[0]["w"].std())
    assert 0.11 < spread < 0.14, "a standard deviation of 64 ** -0.5"
    largest = float(jnp.abs(params[0]["b"]).max())
    assert 0.05 < largest <= 0.1, "biases between -0.1 and 0.1"
# %% ex="layers_init" kind="check"
with check("layers_spend_once", points=1,
           section="A key is used once, and JAX can check it"):
    init = lambda key: init_mlp(key, (8, 8, 8))
    expect_pure(init, [(jax.random.key(0),)])
    expect_keys_used_once(init, jax.random.key(0))
    one, two = init(jax.random.key(0)), init(jax.random.key(1))
    gap = float(jnp.abs(one[0]["w"] - two[0]["w"]).max())
    assert gap > 0, "other numbers for another key"
# %% ex="layers_init" kind="hidden" apart=true
with check("layers_differ", points=1,
           section="A key is used once, and JAX can check it"):
    one = init_mlp(jax.random.key(1), (16, 16, 16, 16))
    other = init_mlp(jax.random.key(2), (16, 16, 16, 16))
    arrays = [layer["w"] for layer in one + other]
    for i, left in enumerate(arrays):
        for right in arrays[:i]:
            shared = float(jnp.abs(left - right).max())
            assert shared > 0, "other numbers in every layer and for every key"
    params = init_mlp(jax.random.key(3), (1, 64, 1, 64))
    arrays = [np.ravel(layer[name]) for layer in params for name in ("w", "b")]
    table = np.corrcoef([array for array in arrays if array.size == 64])
    match = float(np.abs(table - np.eye(len(table))).max())
    assert match < 0.6, "no two arrays from the same random bits"
# %% ex="layers_init" kind="wrong" fails="layers_spend_once layers_differ"
# one key for everything, as if a draw moved it on
def init_mlp(key, sizes):
    params = []
    for n_in, n_out in zip(sizes, sizes[1:]):
        w = jax.random.normal(key, (n_in, n_out)) * n_in**-0.5
        b = jax.random.uniform(key, (n_out,), minval=-0.1, maxval=0.1)
        params.append({"w": w, "b": b})
    return params
# %% ex="layers_init" kind="wrong" fails="layers_spend_once layers_differ"
# a key for each layer, shared by its weights and its bias
def init_mlp(key, sizes):
    params = []
    keys = jax.random.split(key, len(sizes) - 1)
    for k, n_in, n_out in zip(keys, sizes, sizes[1:]):
        w = jax.random.normal(k, (n_in, n_out)) * n_in**-0.5
        b = jax.random.uniform(k, (n_out,), minval=-0.1, maxval=0.1)
        params.append({"w": w, "b": b})
    return params
# %% ex="layers_init" kind="wrong" fails="layers_spend_once layers_differ"
# the key is split in every turn, and the part that lives on is dropped
def init_mlp(key, sizes):
    params = []
    for n_in, n_out in zip(sizes, sizes[1:]):
        w_key, b_key = jax.random.split(key)
        w = jax.random.normal(w_key, (n_in, n_out)) * n_in**-0.5
        b = jax.random.uniform(b_key, (n_out,), minval=-0.1, maxval=0.1)
        params.append({"w": w, "b": b})
    return params
# %% ex="layers_init" kind="wrong" fails="layers_differ"
# numbers of keys that meet: the bias of a layer and the weights of the next one
def init_mlp(key, sizes):
    params = []
    for i, (n_in, n_out) in enumerate(zip(sizes, sizes[1:])):
        w_key, b_key = jax.random.fold_in(key, i), jax.random.fold_in(key, i + 1)
        w = jax.random.normal(w_key, (n_in, n_out)) * n_in**-0.5
        b = jax.random.uniform(b_key, (n_out,), minval=-0.1, maxval=0.1)
        params.append({"w": w, "b": b})
    return params
# %% ex="layers_init" kind="alternate"
def init_mlp(key, sizes):
    keys = iter(jax.random.split(key, 2 * (len(sizes) - 1)))
    return [
        {"w": jax.random.normal(next(keys), (m, n)) / jnp.sqrt(jnp.float32(m)),
         "b": jax.random.uniform(next(keys), (n,), jnp.float32, -0.1, 0.1)}
        for m, n in zip(sizes, sizes[1:])
    ]
# %% [markdown] ex="layers_init" kind="why"
# A draw does not move a key on; only `split` makes new ones. Two draws from one key share
# their bits, even when shape and distribution differ: a bias made from the bits of the
# weights looks random and is not independent of them. Splitting the same key again gives
# the same parts again, so the part that lives on must take the old name.
# %% [markdown] ex="reuse_find" level="warm-up" minutes=6
# ## Find the shared key
#
# This function corrupts a batch for a denoising model: noise on every pixel, a mask that
# drops pixels, and one gain for each image. It runs, its shapes are right, and three
# arrays that should be independent are not.
#
# Mend it. Noise, mask and gain must be drawn from keys of their own; everything else
# stays as it is.
# %% ex="reuse_find" kind="solution"
def corrupt(key, images, rate=0.5):
    """Corrupted images, noise, mask, gain; images: float32 (n, pixels)."""
    ### BEGIN SOLUTION
    noise_key, mask_key, gain_key = jax.random.split(key, 3)
    noise = jax.random.uniform(noise_key, images.shape)
    mask = jax.random.uniform(mask_key, images.shape) >= rate
    gain = jax.random.uniform(gain_key, (images.shape[0], 1))
    ### END SOLUTION
    return gain * (images + noise) * mask, noise, mask, gain
# %% ex="reuse_find" kind="starter"
def corrupt(key, images, rate=0.5):
    """Corrupted images, noise, mask, gain; images: float32 (n, pixels)."""
    noise = jax.random.uniform(key, images.shape)
    mask = jax.random.uniform(key, images.shape) >= rate
    gain = jax.random.uniform(key, (images.shape[0], 1))
    return gain * (images + noise) * mask, noise, mask, gain
# %% [markdown] ex="reuse_find" kind="hint"
# Count the draws. Each of them needs a key that no other draw has seen.
# %% [markdown] ex="reuse_find" kind="hint"
# `with jax.debug_key_reuse(True):` around a call names the line of a second use.
# %% ex="reuse_find" kind="check"
with check("draws_have_own_keys", points=1,
           section="A key is used once, and JAX can check it"):
    expect_keys_used_once(corrupt, jax.random.key(0), jnp.zeros((4, 16)))
# %% ex="reuse_find" kind="check"
with check("mask_ignores_noise", points=1,
           section="A key is used once, and JAX can check it"):
    _, noise, mask, _ = corrupt(jax.random.key(0), jnp.zeros((64, 64)))
    kept, dropped = float(noise[mask].mean()), float(noise[~mask].mean())
    gap = abs(kept - dropped)
    assert gap < 0.05, "the same mean noise in kept and in dropped pixels"
# %% ex="reuse_find" kind="hidden"
with check("gain_ignores_noise", points=1,
           section="A key is used once, and JAX can check it"):
    _, noise, _, gain = corrupt(jax.random.key(5), jnp.zeros((512, 1)))
    match = abs(float(np.corrcoef(noise[:, 0], gain[:, 0])[0, 1]))
    assert match < 0.15, "a gain that does not follow the noise"
    zeros, key = jnp.zeros((512, 1)), jax.random.key(7)
    _, _, mask, gain = corrupt(key, zeros, rate=0.25)
    match = abs(float(np.corrcoef(mask[:, 0], gain[:, 0])[0, 1]))
    assert match < 0.15, "a gain that does not follow the mask"
    kept = float(mask.mean())
    assert 0.65 < kept < 0.85, "three quarters of the pixels kept at rate 0.25"
    ones, key = jnp.ones((3, 5)), jax.random.key(6)
    out, noise, mask, gain = map(np.asarray, corrupt(key, ones, rate=0.2))
    expect_close(jnp.array(out), gain * (1 + noise) * mask)
# %% ex="reuse_find" kind="wrong" fails="draws_have_own_keys gain_ignores_noise"
# the mask is mended, because its error is the one that shows
def corrupt(key, images, rate=0.5):
    key, mask_key = jax.random.split(key)
    noise = jax.random.uniform(key, images.shape)
    mask = jax.random.uniform(mask_key, images.shape) >= rate
    gain = jax.random.uniform(key, (images.shape[0], 1))
    return gain * (images + noise) * mask, noise, mask, gain
# %% ex="reuse_find" kind="wrong" fails="draws_have_own_keys"
# the old key is split and then drawn from as well
def corrupt(key, images, rate=0.5):
    mask_key, gain_key = jax.random.split(key)
    noise = jax.random.uniform(key, images.shape)
    mask = jax.random.uniform(mask_key, images.shape) >= rate
    gain = jax.random.uniform(gain_key, (images.shape[0], 1))
    return gain * (images + noise) * mask, noise, mask, gain
# %% ex="reuse_find" kind="alternate"
def corrupt(key, images, rate=0.5):
    keys = [jax.random.fold_in(key, i) for i in range(3)]
    noise = jax.random.uniform(keys[0], images.shape)
    mask = jax.random.bernoulli(keys[1], 1 - rate, images.shape)
    gain = jax.random.uniform(keys[2], (len(images), 1))
    return gain * (images + noise) * mask, noise, mask, gain
# %% [markdown] ex="reuse_find" kind="why"
# Equal keys give equal bits, whatever is made of them. Mask and noise were the same
# uniform numbers, so a kept pixel always had strong noise. No shape or range shows it;
# only a test of independence or the checker of JAX does. A split uses a key up as much as
# a draw: its parts are computed from the same two words that a draw would read.
# %% [markdown] ex="step_fold" level="core" minutes=8
# ## A step that can be resumed
#
# Write `noisy_step(root, step, x)`: it returns `x` plus standard normal noise of the
# same shape. The noise depends on `root` and on the number of the step, and on nothing
# else, so a run that restarts at step 1000 goes on exactly as it would have. All steps
# share one compiled program.
# %% ex="step_fold" kind="solution"
@jax.jit
def noisy_step(root, step, x):
    """x plus noise of this step; root is a typed key, step an integer."""
    ### BEGIN SOLUTION
    key = jax.random.fold_in(root, step)
    return x + jax.random.normal(key, x.shape)
    ### END SOLUTION
# %% [markdown] ex="step_fold" kind="hint"
# A chain of splits remembers the past. Which function goes from a key and a number to a
# key at once?
# %% [markdown] ex="step_fold" kind="hint"
# The number may be a traced value, so the step need not be static.
# %% ex="step_fold" kind="check"
with check("steps_differ", points=1,
           section="A step asks for its key by number"):
    root, x = jax.random.key(0), jnp.zeros(64)
    noise = [noisy_step(root, step, x) for step in (0, 1, 2, 1)]
    expect_close(noise[3], np.asarray(noise[1]), name="step 1, asked again")
    gaps = [float(jnp.abs(noise[i] - noise[i + 1]).max()) for i in range(2)]
    assert min(gaps) > 0, "other noise in every step"
    other = noisy_step(jax.random.key(9), 0, x)
    gap = float(jnp.abs(noise[0] - other).max())
    assert gap > 0, "other noise for another root"
# %% ex="step_fold" kind="check"
with check("steps_share_a_trace", points=1,
           section="A step asks for its key by number"):
    root, x = jax.random.key(0), jnp.zeros(4)
    calls = [(root, jnp.int32(step), x) for step in range(4)]
    expect_traces(noisy_step, calls, at_most=1)
# %% ex="step_fold" kind="hidden" apart=true
with check("roots_differ", points=1,
           section="A step asks for its key by number"):
    x = jnp.zeros(1000)
    one = noisy_step(jax.random.key(1), 5, x)
    two = noisy_step(jax.random.key(2), 5, x)
    gap = float(jnp.abs(one - two).max())
    assert gap > 0, "other noise for another root"
    spread = float(one.std())
    assert 0.9 < spread < 1.1, "noise of standard deviation 1"
    shifted = noisy_step(jax.random.key(1), 5, x + 3) - one
    expect_close(shifted, np.full(1000, 3.0, np.float32), atol=1e-5)
    six = noisy_step(jax.random.key(1), 6, x)
    match = abs(float(np.corrcoef(one, six)[0, 1]))
    assert match < 0.15, "noise of two steps without relation"
# %% ex="step_fold" kind="wrong" fails="steps_differ roots_differ"
# the root is drawn from, as if it moved on
@jax.jit
def noisy_step(root, step, x):
    return x + jax.random.normal(root, x.shape)
# %% ex="step_fold" kind="wrong" fails="steps_differ roots_differ"
# the step is taken as a seed, and the root is forgotten
@jax.jit
def noisy_step(root, step, x):
    return x + jax.random.normal(jax.random.key(step), x.shape)
# %% ex="step_fold" kind="wrong" fails="steps_share_a_trace"
# the step drives a Python loop of splits
def noisy_step(root, step, x):
    key = root
    for _ in range(int(step) + 1):
        key, subkey = jax.random.split(key)
    return x + jax.random.normal(subkey, x.shape)
# %% ex="step_fold" kind="alternate"
def noisy_step(root, step, x):
    return _noisy(jax.random.fold_in(root, step), x)

_noisy = jax.jit(lambda key, x: x + jax.random.normal(key, x.shape))
# %% [markdown] ex="step_fold" kind="why"
# `fold_in` is a function of key and number, so step 1000 does not need the 1000 before it.
# The step is data: as a traced argument it changes nothing in the program. A loop of
# splits gives good numbers too, but it takes longer with every step and cannot be traced
# over the step. A seed made from the step alone gives every run the same noise.
# %% [markdown] ex="batch_noise" level="core" minutes=10
# ## Noise that follows the example
#
# A batch is a list of row numbers. Write `augment(key, images, rows)`: it returns
# `images[rows]` plus 0.1 times standard normal noise. The noise of an example depends on
# the key and on its row number alone. It must not matter which other rows are in the
# batch, how many, or in which order, and two rows have different noise. The program must
# not grow with the batch.
# %% ex="batch_noise" kind="solution"
def augment(key, images, rows):
    """images[rows] with noise: float32 (n, d), int32 (b,) -> (b, d)."""
    ### BEGIN SOLUTION
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, rows)
    draw = lambda key: jax.random.normal(key, images.shape[1:])
    return images[rows] + 0.1 * jax.vmap(draw)(keys)
    ### END SOLUTION
# %% [markdown] ex="batch_noise" kind="hint"
# `split(key, len(rows))` gives a key to each *place* in the batch. You want a key for
# each *number* in `rows`.
# %% [markdown] ex="batch_noise" kind="hint"
# Write it for one row first: fold the number into the key, draw a vector. Then map over
# the rows with `jax.vmap`.
# %% ex="batch_noise" kind="check"
with check("order_does_not_matter", points=1,
           section="Every example gets a key of its own"):
    images, rows = jnp.zeros((20, 8)), jnp.arange(20)
    key = jax.random.key(0)
    there = augment(key, images, rows)
    back = augment(key, images, rows[::-1])[::-1]
    expect_close(back, np.asarray(there), name="noise in a reversed batch")
    alone = augment(key, images, rows[7:8])[0]
    expect_close(alone, np.asarray(there[7]), name="noise of row 7 alone")
    spread = float(there.std())
    assert 0.07 < spread < 0.13, "noise of standard deviation 0.1"
# %% ex="batch_noise" kind="check"
with check("batch_is_one_program", points=1,
           section="Every example gets a key of its own"):
    images, key = jnp.zeros((64, 8)), jax.random.key(0)
    args_of = lambda n: (key, images, jnp.arange(n))
    expect_constant_size(augment, args_of, [4, 16, 64])
# %% ex="batch_noise" kind="hidden" apart=true
with check("rows_differ", points=1,
           section="Every example gets a key of its own"):
    images = jnp.arange(40.0).reshape(5, 8)
    rows = jnp.array([4, 0, 2, 0])
    noise = (augment(jax.random.key(3), images, rows) - images[rows]) / 0.1
    gap = float(jnp.abs(noise[0] - noise[1]).max())
    assert gap > 0.01, "other noise for another row"
    again = np.asarray(noise[3])
    expect_close(noise[1], again, name="noise of a repeated row")
    key, zeros = jax.random.key(4), jnp.zeros((80, 8))
    many = np.asarray(augment(key, zeros, jnp.arange(80))) / 0.1
    spread = float(many.std())
    assert 0.9 < spread < 1.1, "noise of standard deviation 0.1"
    across = abs(float(np.corrcoef(many[:-1].ravel(), many[1:].ravel())[0, 1]))
    assert across < 0.15, "no relation between the noise of neighbours"
# %% ex="batch_noise" kind="wrong" fails="order_does_not_matter rows_differ"
# one draw for the whole batch, as with a generator
def augment(key, images, rows):
    batch = images[rows]
    return batch + 0.1 * jax.random.normal(key, batch.shape)
# %% ex="batch_noise" kind="wrong" fails="order_does_not_matter rows_differ"
# a key for each place in the batch
def augment(key, images, rows):
    keys = jax.random.split(key, len(rows))
    draw = lambda key: jax.random.normal(key, images.shape[1:])
    return images[rows] + 0.1 * jax.vmap(draw)(keys)
# %% ex="batch_noise" kind="wrong" fails="batch_is_one_program"
# a Python loop over the rows
def augment(key, images, rows):
    noisy = []
    for i in range(len(rows)):
        subkey = jax.random.fold_in(key, rows[i])
        noisy.append(images[rows[i]] + 0.1 * jax.random.normal(subkey, images.shape[1:]))
    return jnp.stack(noisy)
# %% ex="batch_noise" kind="wrong" fails="rows_differ"
# the same noise for all, so that the order cannot matter
def augment(key, images, rows):
    return images[rows] + 0.1 * jax.random.normal(key, images.shape[1:])
# %% ex="batch_noise" kind="alternate"
def augment(key, images, rows):
    every = jax.random.normal(key, images.shape)
    return images[rows] + 0.1 * every[rows]
# %% ex="batch_noise" kind="alternate"
def augment(key, images, rows):
    def one(row):
        row_key = jax.random.fold_in(key, row)
        noise = jax.random.normal(row_key, images[0].shape)
        return images[row] + 0.1 * noise
    return jax.lax.map(one, rows)
# %% [markdown] ex="batch_noise" kind="why"
# The key of an example is a function of its row number, so nothing else can reach it. One
# draw for the batch, or one split by its length, hangs the noise on the place in the
# batch: shuffle differently and the run is another one. A loop gives right numbers and a
# program that grows with the batch. Drawing noise for the whole data set and indexing it
# is right as well, and costs memory for rows that nobody asked for.
# %% [markdown] ex="epoch_order" level="core" minutes=8
# ## An epoch in any order you can name
#
# Write `epoch_batches(root, epoch, n, size)`: an integer array of shape
# `(n // size, size)` that holds row numbers below `n`. No row stands twice in an epoch,
# the last incomplete batch is dropped, and which rows are dropped changes from epoch to
# epoch. The order depends on `root` and `epoch` alone, and asking for epoch 7 does not
# need epochs 0 to 6. `n` and `size` are static; the epoch is not.
# %% ex="epoch_order" kind="solution"
def epoch_batches(root, epoch, n, size):
    """Row numbers of an epoch: int32 (n // size, size)."""
    ### BEGIN SOLUTION
    rows = jax.random.permutation(jax.random.fold_in(root, epoch), n)
    full = n // size
    return rows[: full * size].reshape(full, size)
    ### END SOLUTION
# %% [markdown] ex="epoch_order" kind="hint"
# Shuffle once for the epoch and cut the result into batches, instead of drawing each
# batch.
# %% [markdown] ex="epoch_order" kind="hint"
# `jax.random.permutation(key, n)` shuffles the numbers below `n`. Which key belongs to
# this epoch?
# %% ex="epoch_order" kind="check"
with check("each_row_once", points=1,
           section="A step asks for its key by number"):
    batches = epoch_batches(jax.random.key(0), 0, 50, 8)
    shape = batches.shape
    assert shape == (6, 8), "6 batches of 8"
    rows = np.unique(np.asarray(batches))
    distinct = len(rows)
    assert distinct == 48, "48 different rows"
    assert 0 <= rows[0] and rows[-1] < 50, "rows below 50"
# %% ex="epoch_order" kind="check"
with check("epochs_differ", points=1,
           section="A step asks for its key by number"):
    root = jax.random.key(0)
    compiled = jax.jit(epoch_batches, static_argnames=("n", "size"))
    seven = compiled(root, 7, n=50, size=8)
    expect_close(epoch_batches(root, 7, 50, 8), np.asarray(seven))
    moved = int((seven != compiled(root, 8, n=50, size=8)).sum())
    assert moved > 24, "another order in the next epoch"
    moved = int((seven != epoch_batches(jax.random.key(1), 7, 50, 8)).sum())
    assert moved > 24, "another order for another root"
# %% ex="epoch_order" kind="hidden" apart=true
with check("every_row_gets_its_turn", points=1,
           section="A step asks for its key by number"):
    seen = set()
    for epoch in range(12):
        batches = epoch_batches(jax.random.key(1), jnp.int32(epoch), 21, 6)
        seen |= set(np.asarray(batches).ravel())
    missing = 21 - len(seen)
    assert missing == 0, "rows dropped in one epoch to come in another"
    one = epoch_batches(jax.random.key(1), 0, 40, 4)
    moved = int((one != epoch_batches(jax.random.key(2), 0, 40, 4)).sum())
    assert moved > 20, "another order for another root"
# %% ex="epoch_order" kind="wrong" fails="each_row_once"
# drawn with replacement, as `torch.randint` would
def epoch_batches(root, epoch, n, size):
    key = jax.random.fold_in(root, epoch)
    return jax.random.randint(key, (n // size, size), 0, n)
# %% ex="epoch_order" kind="wrong" fails="each_row_once"
# no row twice in a batch, but twice in an epoch
def epoch_batches(root, epoch, n, size):
    keys = jax.random.split(jax.random.fold_in(root, epoch), n // size)
    draw = lambda key: jax.random.choice(key, n, (size,), replace=False)
    return jax.vmap(draw)(keys)
# %% ex="epoch_order" kind="wrong" fails="epochs_differ every_row_gets_its_turn"
# the root shuffles, and every epoch looks the same
def epoch_batches(root, epoch, n, size):
    rows = jax.random.permutation(root, n)
    full = n // size
    return rows[: full * size].reshape(full, size)
# %% ex="epoch_order" kind="wrong" fails="every_row_gets_its_turn"
# the tail is cut off before the shuffle
def epoch_batches(root, epoch, n, size):
    key = jax.random.fold_in(root, epoch)
    full = n // size
    return jax.random.permutation(key, full * size).reshape(full, size)
# %% ex="epoch_order" kind="alternate"
def epoch_batches(root, epoch, n, size):
    key = jax.random.fold_in(root, epoch)
    order = jnp.argsort(jax.random.uniform(key, (n,)))
    return order[: n - n % size].reshape(-1, size)
# %% [markdown] ex="epoch_order" kind="why"
# A permutation from the epoch's own key is the whole data loader's state: an integer.
# Batches drawn one by one repeat rows across batches, and a draw with replacement does so
# inside them. If the tail is cut off before the shuffle, the same last rows are never
# seen. With a `torch.Generator`, the order of epoch 7 depends on the seven before it.
# %% [markdown] ex="ensemble_init" level="core" minutes=8
# ## An ensemble from one key
#
# Write `init_ensemble(key, count, n_in, n_out)`. It returns a dictionary with `w` of
# shape `(count, n_in, n_out)`, standard normal, and `b` of shape `(count, n_out)`,
# standard normal too: `count` linear layers, stacked. Members differ from one another.
# Each key is used once. The program does not grow with `count`, which is static. The
# natural way is to write the initialiser for one member, and to map it.
# %% ex="ensemble_init" kind="solution"
def init_ensemble(key, count, n_in, n_out):
    """{'w': (count, n_in, n_out), 'b': (count, n_out)}, float32."""
    ### BEGIN SOLUTION
    def member(key):
        w_key, b_key = jax.random.split(key)
        w = jax.random.normal(w_key, (n_in, n_out))
        return {"w": w, "b": jax.random.normal(b_key, (n_out,))}

    return jax.vmap(member)(jax.random.split(key, count))
    ### END SOLUTION
# %% [markdown] ex="ensemble_init" kind="hint"
# A key array has a leading axis like any array. `jax.vmap` hands your function one key.
# %% [markdown] ex="ensemble_init" kind="hint"
# `jax.vmap` stacks every leaf of what the member's function returns, so a dictionary for
# one member becomes the dictionary for all.
# %% ex="ensemble_init" kind="check"
with check("members_differ", points=1,
           section="Every example gets a key of its own"):
    params = init_ensemble(jax.random.key(0), 5, 6, 3)
    shapes = (params["w"].shape, params["b"].shape)
    assert shapes == ((5, 6, 3), (5, 3)), "five members, stacked"
    for name in ("w", "b"):
        rows = np.asarray(params[name]).reshape(5, -1)
        distinct = len(np.unique(rows[:, 0]))
        assert distinct == 5, "other numbers in every member"
# %% ex="ensemble_init" kind="check"
with check("ensemble_is_one_program", points=1,
           section="Every example gets a key of its own"):
    init = lambda key, like: init_ensemble(key, len(like), 6, 3)
    args_of = lambda n: (jax.random.key(0), jnp.zeros(n))
    expect_constant_size(init, args_of, [2, 8, 32])
# %% ex="ensemble_init" kind="hidden"
with check("ensemble_spends_once", points=1,
           section="A key is used once, and JAX can check it"):
    init = lambda key: init_ensemble(key, 4, 3, 3)
    expect_keys_used_once(init, jax.random.key(0))
    params = init_ensemble(jax.random.key(9), 400, 4, 4)
    match = np.corrcoef(params["w"][:, 0, 0], params["b"][:, 0])[0, 1]
    assert abs(match) < 0.2, "weights and biases without relation"
    match = np.corrcoef(params["w"][1:, 0, 0], params["b"][:-1, 0])[0, 1]
    assert abs(match) < 0.2, "no relation between neighbours either"
    spread = float(params["w"].std())
    assert 0.95 < spread < 1.05, "a standard deviation of 1"
# %% ex="ensemble_init" kind="wrong" fails="members_differ ensemble_spends_once"
# one member, copied
def init_ensemble(key, count, n_in, n_out):
    w_key, b_key = jax.random.split(key)
    w = jax.random.normal(w_key, (n_in, n_out))
    b = jax.random.normal(b_key, (n_out,))
    return {"w": jnp.stack([w] * count), "b": jnp.stack([b] * count)}
# %% ex="ensemble_init" kind="wrong" fails="ensemble_is_one_program"
# a loop and a stack, as for a list of modules
def init_ensemble(key, count, n_in, n_out):
    ws, bs = [], []
    for _ in range(count):
        key, w_key, b_key = jax.random.split(key, 3)
        ws.append(jax.random.normal(w_key, (n_in, n_out)))
        bs.append(jax.random.normal(b_key, (n_out,)))
    return {"w": jnp.stack(ws), "b": jnp.stack(bs)}
# %% ex="ensemble_init" kind="wrong" fails="ensemble_spends_once"
# a member's key is drawn from twice
def init_ensemble(key, count, n_in, n_out):
    def member(key):
        w = jax.random.normal(key, (n_in, n_out))
        return {"w": w, "b": jax.random.normal(key, (n_out,))}
    return jax.vmap(member)(jax.random.split(key, count))
# %% ex="ensemble_init" kind="wrong" fails="ensemble_spends_once"
# keys made by number, and a member's second number is the next one's first
def init_ensemble(key, count, n_in, n_out):
    def member(i):
        w_key, b_key = jax.random.fold_in(key, i), jax.random.fold_in(key, i + 1)
        w = jax.random.normal(w_key, (n_in, n_out))
        return {"w": w, "b": jax.random.normal(b_key, (n_out,))}
    return jax.vmap(member)(jnp.arange(count))
# %% ex="ensemble_init" kind="alternate"
def init_ensemble(key, count, n_in, n_out):
    w_key, b_key = jax.random.split(key)
    return {"w": jax.random.normal(w_key, (count, n_in, n_out)),
            "b": jax.random.normal(b_key, (count, n_out))}
# %% [markdown] ex="ensemble_init" kind="why"
# A function of one key, mapped over an array of keys, is the JAX form of 'a list of
# modules': one program whatever the count. Two large draws give the same shapes and are
# fine here; mapping keeps its advantage when the initialiser is somebody else's. A copied
# member is the quiet mistake: an ensemble whose members agree because they are the same.
# %% [markdown] ex="stream_thread" level="stretch" minutes=10
# ## A generator that survives jit
#
# You like `g.normal(shape)` better than splitting by hand. Write a class `Stream` with
# that comfort and without a hidden key. `Stream(key)` holds a typed key in its attribute
# `key`. `stream.normal(shape)` returns a pair: the numbers, and the stream to go on with;
# the stream that was asked stays as it is. A `Stream` can be an argument and a result of
# a jitted function, and all calls of that function share a trace.
#
# The last two methods tell JAX that the key is the array inside; they are right as they
# stand, and the [chapter on pytrees](../chapters/07_pytrees.ipynb) explains them.
# %% ex="stream_thread" kind="solution"
@jax.tree_util.register_pytree_node_class
class Stream:
    """A source of random numbers that is a value: a typed key with methods."""

    def __init__(self, key):
        self.key = key

    def normal(self, shape):
        """Standard normal float32 numbers, and the next stream."""
        ### BEGIN SOLUTION
        key, subkey = jax.random.split(self.key)
        return jax.random.normal(subkey, shape), Stream(key)
        ### END SOLUTION

    def tree_flatten(self):
        return (self.key,), None

    @classmethod
    def tree_unflatten(cls, static, children):
        return cls(*children)
# %% [markdown] ex="stream_thread" kind="hint"
# A method that changes `self` changes it while tracing. Return what has changed.
# %% [markdown] ex="stream_thread" kind="hint"
# Split the key in two. One part is for the numbers, the other for the stream that you
# return.
# %% ex="stream_thread" kind="check"
with check("stream_goes_on", points=1,
           section="A hidden key freezes under jit"):
    start = Stream(jax.random.key(0))
    one, after = start.normal((4,))
    two, _ = after.normal((4,))
    again, _ = start.normal((4,))
    expect_typed_key(after.key)
    expect_close(again, np.asarray(one), name="a second draw from one stream")
    gap = float(jnp.abs(one - two).max())
    assert gap > 0, "other numbers from the next stream"
# %% ex="stream_thread" kind="check"
with check("stream_passes_jit", points=1,
           section="A hidden key freezes under jit"):
    @jax.jit
    def noisy(stream, x):
        noise, stream = stream.normal(x.shape)
        return x + noise, stream
    x, stream = jnp.zeros(3), Stream(jax.random.key(0))
    _, later = noisy(stream, x)
    assert isinstance(later, Stream), "a Stream as a result of jit"
    other = Stream(jax.random.key(7))
    expect_traces(noisy, [(stream, x), (later, x), (other, x)])
# %% ex="stream_thread" kind="hidden"
with check("stream_works_anywhere", points=2,
           section="A hidden key freezes under jit"):
    def body(stream, _):
        numbers, stream = stream.normal((2,))
        return stream, numbers
    _, drawn = jax.lax.scan(body, Stream(jax.random.key(1)), length=4)
    distinct = len(np.unique(np.asarray(drawn)))
    assert distinct == 8, "eight different numbers from a scan"
    draw = lambda key: Stream(key).normal((3,))[0]
    expect_keys_used_once(draw, jax.random.key(2))
    many = jax.vmap(lambda key: Stream(key).normal((2,))[0])(
        jax.random.split(jax.random.key(3), 5))
    assert many.shape == (5, 2), "streams under vmap"
# %% ex="stream_thread" kind="wrong" fails="stream_goes_on stream_passes_jit stream_works_anywhere"
# the attribute is changed in place, and nothing is returned but the numbers
@jax.tree_util.register_pytree_node_class
class Stream:
    def __init__(self, key):
        self.key = key
    def normal(self, shape):
        self.key, subkey = jax.random.split(self.key)
        return jax.random.normal(subkey, shape)
    def tree_flatten(self):
        return (self.key,), None
    @classmethod
    def tree_unflatten(cls, static, children):
        return cls(*children)
# %% ex="stream_thread" kind="wrong" fails="stream_passes_jit stream_works_anywhere"
# a plain class, which jit cannot look into
class Stream:
    def __init__(self, key):
        self.key = key
    def normal(self, shape):
        key, subkey = jax.random.split(self.key)
        return jax.random.normal(subkey, shape), Stream(key)
# %% ex="stream_thread" kind="wrong" fails="stream_goes_on stream_works_anywhere"
# the next stream keeps the key that was drawn from
@jax.tree_util.register_pytree_node_class
class Stream:
    def __init__(self, key):
        self.key = key
    def normal(self, shape):
        return jax.random.normal(self.key, shape), Stream(self.key)
    def tree_flatten(self):
        return (self.key,), None
    @classmethod
    def tree_unflatten(cls, static, children):
        return cls(*children)
# %% ex="stream_thread" kind="wrong" fails="stream_goes_on"
# the pair is right, but the stream that was asked moves on as well
@jax.tree_util.register_pytree_node_class
class Stream:
    def __init__(self, key):
        self.key = key
    def normal(self, shape):
        self.key, subkey = jax.random.split(self.key)
        return jax.random.normal(subkey, shape), Stream(self.key)
    def tree_flatten(self):
        return (self.key,), None
    @classmethod
    def tree_unflatten(cls, static, children):
        return cls(*children)
# %% ex="stream_thread" kind="alternate"
import dataclasses

@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stream:
    key: jax.Array
    def normal(self, shape):
        parts = jax.random.split(self.key)
        rest = dataclasses.replace(self, key=parts[0])
        return jax.random.normal(parts[1], shape), rest
# %% [markdown] ex="stream_thread" kind="why"
# The comfort of a generator is a method; its danger is the change of state. Returned as a
# value, the new state passes through jit, scan and vmap like any array. A class has to be
# registered before JAX looks inside, and its key is a child, not static: as a static
# value it would have to be hashable, and every key would be a trace of its own. A method
# that also moves the old stream on works until it is traced.
# %% [markdown] ex="names_fold" level="stretch" minutes=14
# ## Numbers that belong to a name
#
# With a chain of splits, a new layer in the middle changes the numbers of all layers
# behind it. Write `init_named(root, shapes)`: `shapes` maps names to shapes, and the
# result maps the same names to standard normal float32 arrays. The numbers of a name
# depend on `root`, the name and its shape alone: adding, removing or reordering other
# names changes nothing, and neither does a new Python process. Two names don't share
# their numbers, up to the rare accident of a 32-bit number. No name needs to be known in
# advance.
# %% ex="names_fold" kind="solution"
import zlib


def init_named(root, shapes):
    """{name: float32 array of its shape}; root is a typed key."""
    ### BEGIN SOLUTION
    def draw(name, shape):
        number = zlib.crc32(name.encode())
        return jax.random.normal(jax.random.fold_in(root, number), shape)

    return {name: draw(name, shape) for name, shape in shapes.items()}
    ### END SOLUTION
# %% [markdown] ex="names_fold" kind="hint"
# `fold_in` wants an integer below $2^{32}$. Turn the name into one, with a function that
# depends on its letters and on nothing else.
# %% [markdown] ex="names_fold" kind="hint"
# Python's `hash` of a string is salted: it differs from process to process. A checksum
# such as `zlib.crc32` does not. It takes bytes: `name.encode()`.
# %% ex="names_fold" kind="check"
with check("neighbours_do_not_matter", points=1,
           section="Keys grow like a tree"):
    root = jax.random.key(0)
    few = init_named(root, {"embed": (3,), "head": (4,)})
    more = init_named(root, {"attn": (2,), "head": (4,), "embed": (3,)})
    assert list(few) == ["embed", "head"], "the same names as in shapes"
    for name in few:
        want = np.asarray(few[name])
        expect_close(more[name], want, name=f"{name} beside other names")
    gap = abs(float(few["embed"][0] - few["head"][0]))
    assert gap > 0, "other numbers for another name"
# %% ex="names_fold" kind="check"
with check("order_of_letters_counts", points=1,
           section="Keys grow like a tree"):
    names = ("ab", "ba", "aca", "bab", "layer1", "layer2",
             "encoder.w", "decoder.w", "block.0.w", "block.1.w")
    drawn = init_named(jax.random.key(0), {name: (2,) for name in names})
    distinct = len({float(array[0]) for array in drawn.values()})
    assert distinct == 10, "ten names, ten sets of numbers"
    other = init_named(jax.random.key(1), {"ab": (2,)})
    gap = float(jnp.abs(other["ab"] - drawn["ab"]).max())
    assert gap > 0, "other numbers for another root"
# %% ex="names_fold" kind="hidden"
with check("processes_agree", points=2,
           section="The same bits everywhere, within one version"):
    import builtins
    shapes = {"embed": (3,), "block.0.w": (2, 2), "": (1,), "später": (2,)}
    here = init_named(jax.random.key(4), shapes)
    plain_hash = builtins.hash
    builtins.hash = lambda thing: plain_hash(thing) ^ 0x5EED
    try:
        elsewhere = init_named(jax.random.key(4), shapes)
    finally:
        builtins.hash = plain_hash
    for name in shapes:
        expect_close(elsewhere[name], np.asarray(here[name]),
                     name="an array in a process with another salt of `hash`")
    other = init_named(jax.random.key(5), shapes)
    gap = float(jnp.abs(other["embed"] - here["embed"]).max())
    assert gap > 0, "other numbers for another root"
    init = lambda root: init_named(root, {"a": (2,), "b": (2,), "c": (2,)})
    expect_keys_used_once(init, jax.random.key(6))
    names = [f"layer.{i}.w" for i in range(200)]
    many = init_named(jax.random.key(7), dict.fromkeys(names, (2,)))
    distinct = len({float(array[0]) for array in many.values()})
    assert distinct > 195, "numbers of its own for each of 200 names"
# %% ex="names_fold" kind="wrong" fails="neighbours_do_not_matter"
# a chain of splits in the order of the names
def init_named(root, shapes):
    made, key = {}, root
    for name, shape in shapes.items():
        key, subkey = jax.random.split(key)
        made[name] = jax.random.normal(subkey, shape)
    return made
# %% ex="names_fold" kind="wrong" fails="neighbours_do_not_matter"
# sorted names: the order no longer matters, a new name still does
def init_named(root, shapes):
    return {
        name: jax.random.normal(jax.random.fold_in(root, i), shapes[name])
        for i, name in enumerate(sorted(shapes))
    }
# %% ex="names_fold" kind="wrong" fails="processes_agree"
# the hash of the string, which is salted in every process
def init_named(root, shapes):
    return {
        name: jax.random.normal(jax.random.fold_in(root, hash(name) % 2**32), shape)
        for name, shape in shapes.items()
    }
# %% ex="names_fold" kind="wrong" fails="order_of_letters_counts processes_agree"
# the sum of the letters, which forgets their order
def init_named(root, shapes):
    return {
        name: jax.random.normal(jax.random.fold_in(root, sum(name.encode())), shape)
        for name, shape in shapes.items()
    }
# %% ex="names_fold" kind="wrong" fails="order_of_letters_counts processes_agree"
# as many bytes as fit into 32 bits: the last four, which other names have too
def init_named(root, shapes):
    made = {}
    for name, shape in shapes.items():
        number = int.from_bytes(name.encode(), "big") % 2**32
        made[name] = jax.random.normal(jax.random.fold_in(root, number), shape)
    return made
# %% ex="names_fold" kind="alternate"
import hashlib

def init_named(root, shapes):
    made = {}
    for name, shape in shapes.items():
        digest = hashlib.sha256(name.encode()).digest()
        number = int.from_bytes(digest[:4], "big")
        made[name] = jax.random.normal(jax.random.fold_in(root, number), shape)
    return made
# %% ex="names_fold" kind="alternate"
def init_named(root, shapes):
    made = {}
    for name, shape in shapes.items():
        key = jax.random.fold_in(root, len(name))
        for letter in name.encode():
            key = jax.random.fold_in(key, letter)
        made[name] = jax.random.normal(key, shape)
    return made
# %% [markdown] ex="names_fold" kind="why"
# A key may be derived from anything that is an integer, and a checksum makes an integer
# of a name. Then a checkpoint, a layer added in the middle or another order of creation
# leaves all other numbers alone. Positions, sorted or not, shift when a name is added.
# Python salts `hash` for strings in every process, so a run could not be repeated. A sum
# of letters gives anagrams the same stream: equal keys again, this time by way of a name.
