# %% [markdown]
# # Feed the step and save the run
#
# Seven exercises on batches, orders, prefetching, sums and checkpoints. They go with
# the chapter of the same name, and run without PyTorch.
# %%
import collections
import math
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from tracecheck import check, expect_close, expect_keys_used_once
from tracecheck import expect_traces
# %% [markdown] ex="collate_types" level="warm-up" minutes=8
# ## A collate that decides the dtypes
#
# Write `collate(items)`, to be used as PyTorch's `collate_fn` or anywhere else. It
# turns a list of examples into one batch. An example is a tree (dictionaries, lists,
# tuples) of NumPy arrays and Python numbers; all examples have the same structure.
# The batch has that structure too, and its leaves are NumPy arrays with one axis more,
# in front:
#
# - `float64`, and so Python's `float`, becomes `float32`;
# - `int64`, and so a Python `int` that fits into it, becomes `int32`. Where a value
#   does not fit into `int32`, raise an `OverflowError`;
# - all other dtypes stay as they are.
# %% ex="collate_types" kind="solution"
def collate(items):
    """Stack a list of example trees into one tree of NumPy arrays."""
    ### BEGIN SOLUTION
    def stack(*leaves):
        array = np.stack(leaves)
        if array.dtype == np.float64:
            return array.astype(np.float32)
        if array.dtype == np.int64:
            if (array != array.astype(np.int32)).any():
                raise OverflowError("an integer does not fit into int32")
            return array.astype(np.int32)
        return array

    return jax.tree.map(stack, *items)
    ### END SOLUTION
# %% [markdown] ex="collate_types" kind="hint"
# `jax.tree.map` takes several trees of one structure. How do you hand it a list of
# them?
# %% [markdown] ex="collate_types" kind="hint"
# Stack first: NumPy then tells you the dtype. An integer fits if it is still the same
# number after `astype(np.int32)`.
# %% ex="collate_types" kind="check"
with check("dtypes_and_values", points=1,
           section="A batch is NumPy until the step takes it"):
    items = [{"x": np.full(3, n / 4), "y": n, "w": 0.5, "p": np.uint8([n])}
             for n in range(4)]
    batch = collate(items)
    want = {"x": np.float32, "y": np.int32, "w": np.float32, "p": np.uint8}
    for name, dtype in want.items():
        got = getattr(batch[name], "dtype", None)
        assert got == dtype, f"{name} as {np.dtype(dtype)}"
    expect_close(batch["x"], np.float32([[n / 4] * 3 for n in range(4)]))
    expect_close(batch["y"], np.int32([0, 1, 2, 3]), name="y")
# %% ex="collate_types" kind="check"
with check("numpy_and_trees", points=1,
           section="A batch is NumPy until the step takes it"):
    items = [(np.float16([n]), [n > 0, {"id": np.int16(n)}]) for n in range(3)]
    batch = collate(items)
    leaves = jax.tree.leaves(batch)
    kinds = {type(leaf).__name__ for leaf in leaves}
    assert kinds == {"ndarray"}, "leaves that are NumPy arrays"
    dtypes = [str(leaf.dtype) for leaf in leaves]
    assert dtypes == ["float16", "bool", "int16"], "the small dtypes kept"
    structure = jax.tree.structure(batch)
    assert structure == jax.tree.structure(items[0]), "the tree of an example"
# %% ex="collate_types" kind="check"
with check("large_integers", points=1,
           section="A batch is NumPy until the step takes it"):
    try:
        collate([{"id": 5}, {"id": 2**32 + 5}])
        raised = False
    except OverflowError:
        raised = True
    assert raised, "an OverflowError for 2**32 + 5"
# %% ex="collate_types" kind="hidden"
with check("border_values", points=1,
           section="A batch is NumPy until the step takes it"):
    borders = [-2**31, 2**31 - 1]
    expect_close(collate(borders), np.int32(borders), name="borders")
    try:
        collate([-2**31 - 1])
        raised = False
    except OverflowError:
        raised = True
    assert raised, "an OverflowError for -2**31 - 1"
# %% ex="collate_types" kind="wrong" fails="dtypes_and_values large_integers border_values"
# stacked and left at NumPy's dtypes
def collate(items):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *items)
# %% ex="collate_types" kind="wrong" fails="numpy_and_trees"
# device arrays, as `default_collate` gives tensors
def collate(items):
    return jax.tree.map(lambda *leaves: jnp.stack(
        [jnp.asarray(leaf) for leaf in leaves]), *items)
# %% ex="collate_types" kind="wrong" fails="large_integers border_values"
# narrowed without looking
def collate(items):
    narrow = {np.dtype("float64"): np.float32, np.dtype("int64"): np.int32}

    def stack(*leaves):
        array = np.stack(leaves)
        return array.astype(narrow.get(array.dtype, array.dtype))

    return jax.tree.map(stack, *items)
# %% ex="collate_types" kind="wrong" fails="dtypes_and_values numpy_and_trees large_integers border_values"
# everything becomes float32, labels too
def collate(items):
    return jax.tree.map(lambda *leaves: np.stack(leaves).astype(np.float32),
                        *items)
# %% ex="collate_types" kind="alternate"
def collate(items):
    columns = zip(*(jax.tree.leaves(item) for item in items))
    arrays = [np.array(column) for column in columns]
    for i, a in enumerate(arrays):
        if a.dtype == np.int64 and a.size:
            limits = np.iinfo(np.int32)
            if a.min() < limits.min or a.max() > limits.max:
                raise OverflowError("int32 is too small")
        small = {"float64": np.float32, "int64": np.int32}
        arrays[i] = a.astype(small.get(str(a.dtype), a.dtype))
    return jax.tree.unflatten(jax.tree.structure(items[0]), arrays)
# %% [markdown] ex="collate_types" kind="why"
# NumPy makes `float64` and `int64` of Python's numbers, and JAX cuts both to 32 bits
# when the batch arrives, in silence. For a float that is rounding. For an integer it
# drops the high bits: 2**32 + 5 arrives as 5. The collate is the last place where the
# full number is known. The result stays NumPy: whoever prefetches decides when it goes
# to the device, and worker processes should not hold device arrays at all.
# %% [markdown] ex="order_resume" level="core" minutes=10
# ## An epoch that starts in the middle
#
# Write `epoch_batches(key, epoch, n, size, start=0)`, which yields row numbers, one
# integer array of shape `(size,)` per batch. Over an epoch, no row of `range(n)`
# comes twice; `n // size` batches come, and the remaining rows are dropped.
#
# The order depends on `key`, a typed key, and `epoch`, and on nothing else: not on
# other epochs, on earlier calls, or on iterators that run at the same time. Epochs
# have different orders. `start=k` gives the batches from number `k` on, exactly as an
# iterator that was not interrupted gives them.
# %% ex="order_resume" kind="solution"
def epoch_batches(key, epoch, n, size, start=0):
    """Yield int arrays (size,) of row numbers: batches start to n // size."""
    ### BEGIN SOLUTION
    rows = jax.random.permutation(jax.random.fold_in(key, epoch), n)
    rows = np.asarray(rows)
    for k in range(start, n // size):
        yield rows[k * size:(k + 1) * size]
    ### END SOLUTION
# %% [markdown] ex="order_resume" kind="hint"
# One permutation belongs to one epoch. Which function makes a key from a key and a
# number?
# %% [markdown] ex="order_resume" kind="hint"
# `start` must not take part in the permutation. It only says where the slices begin.
# %% ex="order_resume" kind="check"
with check("one_epoch", points=1,
           section="The order is a function of key and epoch"):
    batches = [np.asarray(b) for b in
               epoch_batches(jax.random.key(3), 0, 23, 4)]
    shapes = [b.shape for b in batches]
    assert shapes == [(4,)] * 5, "five batches of four row numbers"
    rows = np.concatenate(batches)
    different = len(set(rows.tolist()))
    assert different == 20, "20 different rows in 5 batches"
    assert set(rows.tolist()) <= set(range(23)), "rows from 0 to 22"
    ordered = bool((np.diff(rows) > 0).all())
    assert not ordered, "a shuffled order"
# %% ex="order_resume" kind="check"
with check("starts_in_the_middle", points=1,
           section="The order is a function of key and epoch"):
    key = jax.random.key(4)
    whole = [np.asarray(b) for b in epoch_batches(key, 2, 31, 5)]
    for start in (1, 4, 6):
        rest = [np.asarray(b) for b in epoch_batches(key, 2, 31, 5, start)]
        number = len(rest)
        assert number == 6 - start, f"{6 - start} batches from {start} on"
        same = all(np.array_equal(a, b) for a, b in zip(rest, whole[start:]))
        assert same, f"the same batches from {start} on"
# %% ex="order_resume" kind="check"
with check("no_history", points=1,
           section="The order is a function of key and epoch"):
    key = jax.random.key(5)
    alone = [np.concatenate(list(epoch_batches(key, e, 40, 8)))
             for e in (1, 0)]
    pairs = zip(epoch_batches(key, 0, 40, 8), epoch_batches(key, 1, 40, 8))
    zero, one = (np.concatenate(part) for part in zip(*pairs))
    assert np.array_equal(zero, alone[1]), "epoch 0 in any company"
    assert np.array_equal(one, alone[0]), "epoch 1 in any company"
    assert not np.array_equal(zero, one), "another order in another epoch"
# %% ex="order_resume" kind="hidden"
with check("key_decides", points=1,
           section="The order is a function of key and epoch"):
    a, b = (np.concatenate(list(epoch_batches(jax.random.key(s), 7, 64, 8)))
            for s in (0, 1))
    assert not np.array_equal(a, b), "another order for another key"
    for epoch in (0, 3):
        expect_keys_used_once(
            lambda key: list(epoch_batches(key, epoch, 12, 4)),
            jax.random.key(2))
    left = list(epoch_batches(jax.random.key(0), 0, 7, 8))
    assert left == [], "no batch where there are too few rows"
# %% ex="order_resume" kind="wrong" fails="no_history"
# every epoch has the order of the key
def epoch_batches(key, epoch, n, size, start=0):
    rows = np.asarray(jax.random.permutation(key, n))
    for k in range(start, n // size):
        yield rows[k * size:(k + 1) * size]
# %% ex="order_resume" kind="wrong" fails="starts_in_the_middle no_history"
# a generator behind it, like PyTorch's
generator = np.random.default_rng(0)

def epoch_batches(key, epoch, n, size, start=0):
    rows = generator.permutation(n)
    for k in range(start, n // size):
        yield rows[k * size:(k + 1) * size]
# %% ex="order_resume" kind="wrong" fails="starts_in_the_middle"
# the start is counted in rows
def epoch_batches(key, epoch, n, size, start=0):
    rows = jax.random.permutation(jax.random.fold_in(key, epoch), n)
    for at in range(start, n // size * size, size):
        yield rows[at:at + size]
# %% ex="order_resume" kind="wrong" fails="one_epoch starts_in_the_middle"
# each batch is drawn on its own, so rows come twice or never
def epoch_batches(key, epoch, n, size, start=0):
    for k in range(n // size - start):
        here = jax.random.fold_in(jax.random.fold_in(key, epoch), k)
        yield jax.random.randint(here, (size,), 0, n)
# %% ex="order_resume" kind="alternate"
def epoch_batches(key, epoch, n, size, start=0):
    noise = jax.random.uniform(jax.random.fold_in(key, epoch), (n,))
    table = jnp.argsort(noise)[:n // size * size].reshape(-1, size)
    return iter(table[start:])
# %% [markdown] ex="order_resume" kind="why"
# `fold_in` goes to an epoch directly, so nothing has to be replayed, and a restart
# needs the key, the epoch and a number. A generator gives its numbers to whoever comes
# next: the second iterator changes what the first one sees. Permuting once and slicing
# later is what makes `start` free. Drawing each batch on its own would also resume,
# but it is no epoch: rows repeat and others are left out.
# %% [markdown] ex="prefetch_order" level="stretch" minutes=18
# ## A prefetcher that stops cleanly
#
# Write the generator `prefetch(batches, size)`. `batches` is any iterable of trees of
# NumPy arrays; `prefetch` yields them in order, as trees of `jax.Array`.
#
# - While the caller holds its k-th batch (the first has k = 1), at least
#   `k + size - 1` and at most `k + size` batches have been taken from `batches`, if
#   there are that many. Nothing is taken before the first is asked for.
# - If `batches` raises, the caller first gets all batches that came before, then the
#   same exception.
# - If the caller stops early and closes the generator, `batches` is closed too, if
#   it has a `close` method.
#
# One thread is enough; more are allowed.
# %% ex="prefetch_order" kind="solution"
def prefetch(batches, size):
    """Yield batches as jax.Array trees, `size` of them ahead; size >= 1."""
    ### BEGIN SOLUTION
    source, queue, end = iter(batches), collections.deque(), None
    try:
        while True:
            while end is None and len(queue) < size:
                try:
                    queue.append(jax.device_put(next(source)))
                except Exception as error:      # StopIteration as well
                    end = error
            if queue:
                yield queue.popleft()
            elif isinstance(end, StopIteration):
                return
            else:
                raise end
    finally:
        if hasattr(batches, "close"):
            batches.close()
    ### END SOLUTION
# %% [markdown] ex="prefetch_order" kind="hint"
# `ahead` of the chapter has the right order. What becomes of its queue when `batches`
# raises? Take batches with `next`, where you can catch.
# %% [markdown] ex="prefetch_order" kind="hint"
# Keep the exception in a variable, hand out what the queue still holds, and only then
# raise. `StopIteration` is one more way to end; return then.
# %% [markdown] ex="prefetch_order" kind="hint"
# Closing a generator raises `GeneratorExit` at its `yield`, so `finally` runs. Call
# `batches.close()` there, if it exists.
# %% ex="prefetch_order" kind="check"
with check("order_on_device", points=1, section="Load ahead, read late"):
    for size in (1, 3, 20):
        source = [{"x": np.full(2, n, np.float32)} for n in range(6)]
        got = list(prefetch(source, size))
        kinds = all(isinstance(b["x"], jax.Array) for b in got)
        assert kinds, "batches of jax.Array"
        values = [float(b["x"][0]) for b in got]
        assert values == [0, 1, 2, 3, 4, 5], "six batches, in order"
# %% ex="prefetch_order" kind="check"
with check("that_far_ahead", points=1, section="Load ahead, read late"):
    taken = []
    source = (taken.append(n) or np.float32(n) for n in range(20))
    stream = prefetch(source, 3)
    assert taken == [], "nothing is taken before it is asked for"
    for k in (1, 2, 3):
        next(stream)
        for _ in range(20):             # a thread may need a moment
            time.sleep(0.03 if len(taken) < k + 2 else 0.0)
        ahead = len(taken) - k
        assert 2 <= ahead <= 3, f"2 or 3 batches ahead of batch {k}"
    stream.close()
# %% ex="prefetch_order" kind="check"
with check("error_comes_last", points=1, section="Load ahead, read late"):
    def source():
        for n in range(4):
            yield np.float32(n)
        raise OSError("the disk is gone")

    got, said = [], None
    try:
        for batch in prefetch(source(), 3):
            got.append(float(batch))
    except OSError as error:
        said = str(error)
    assert got == [0, 1, 2, 3], "the four good batches first"
    assert said == "the disk is gone", "the error of the source"
# %% ex="prefetch_order" kind="hidden"
with check("closes_the_source", points=1, section="Load ahead, read late"):
    closed = []
    def source():
        try:
            for n in range(100):
                yield np.float32(n)
        finally:
            closed.append(True)

    origin = source()
    stream = prefetch(origin, 2)
    next(stream)
    stream.close()
    assert closed == [True], "a source that is closed with the prefetcher"

    class Files(list):
        def close(self):
            closed.append("files")

    stream = prefetch(Files([np.float32(0)] * 9), 2)
    next(stream)
    stream.close()
    assert closed[1:] == ["files"], "batches.close(), not its iterator's"
# %% ex="prefetch_order" kind="hidden"
with check("ends_of_sources", points=1, section="Load ahead, read late"):
    nothing = list(prefetch([], 2))
    assert nothing == [], "no batch from an empty source"
    def broken():
        raise KeyError("first")
        yield

    said = None
    try:
        list(prefetch(broken(), 2))
    except KeyError as error:
        said = error.args
    assert said == ("first",), "an error before the first batch"
# %% ex="prefetch_order" kind="wrong" fails="error_comes_last closes_the_source"
# a queue in front of a loop: an error overtakes the batches in the queue
def prefetch(batches, size):
    queue = collections.deque()
    for batch in batches:
        queue.append(jax.device_put(batch))
        if len(queue) > size:
            yield queue.popleft()
    yield from queue
# %% ex="prefetch_order" kind="wrong" fails="that_far_ahead error_comes_last closes_the_source"
# everything is loaded at once
def prefetch(batches, size):
    yield from [jax.device_put(batch) for batch in batches]
# %% ex="prefetch_order" kind="wrong" fails="error_comes_last ends_of_sources"
# any error ends the data, as a loader that 'skips' bad files would
def prefetch(batches, size):
    source, queue = iter(batches), collections.deque()
    try:
        while True:
            try:
                while len(queue) < size:
                    queue.append(jax.device_put(next(source)))
            except Exception:
                pass
            if not queue:
                return
            yield queue.popleft()
    finally:
        if hasattr(batches, "close"):
            batches.close()
# %% ex="prefetch_order" kind="wrong" fails="closes_the_source"
# the iterator is closed, and files behind `batches` stay open
def prefetch(batches, size):
    source, queue, end = iter(batches), collections.deque(), None
    try:
        while True:
            while end is None and len(queue) < size:
                try:
                    queue.append(jax.device_put(next(source)))
                except Exception as error:
                    end = error
            if queue:
                yield queue.popleft()
            elif isinstance(end, StopIteration):
                return
            else:
                raise end
    finally:
        if hasattr(source, "close"):
            source.close()
# %% ex="prefetch_order" kind="wrong" fails="that_far_ahead"
# sent to the device one at a time, when it is asked for
def prefetch(batches, size):
    try:
        for batch in batches:
            yield jax.device_put(batch)
    finally:
        if hasattr(batches, "close"):
            batches.close()
# %% ex="prefetch_order" kind="alternate"
def prefetch(batches, size):
    source, end = iter(batches), object()

    def load():
        batch = next(source, end)
        return end if batch is end else jax.device_put(batch)

    try:
        with ThreadPoolExecutor(1) as pool:
            queue = collections.deque(pool.submit(load) for _ in range(size))
            while (batch := queue.popleft().result()) is not end:
                queue.append(pool.submit(load))
                yield batch
    finally:
        getattr(batches, "close", lambda: None)()
# %% [markdown] ex="prefetch_order" kind="why"
# A queue separates taking from giving, so an error belongs to a place in the order:
# behind the batches that were good. If it overtakes them, a run that dies at a bad
# file has lost up to `size` good steps, and not the same ones with another `size`.
# Swallowing it is worse, since the epoch gets shorter without a word. `finally` runs
# when the caller breaks off, which is the moment to close files and threads. A future
# of a thread does the first part by itself: it holds a batch or an error.
# %% [markdown] ex="sums_update" level="core" minutes=8
# ## Sums that stay on the device
#
# Write `update(sums, losses, hits, real)`, compiled, for an evaluation in padded
# batches:
#
# - `sums` is `{"loss": f32[], "hits": i32[], "rows": i32[]}`, and so is the result;
# - `losses` is `f32[n]`, `hits` and `real` are `bool[n]`;
# - only rows where `real` is true count. The others may hold anything, `nan` too;
# - counts stay exact up to $2^{31} - 1$.
#
# It must also work inside of `jax.lax.scan`, so nothing is read while it runs. Batches
# of one shape share a trace.
# %% ex="sums_update" kind="solution"
@jax.jit
def update(sums, losses, hits, real):
    """Add a batch of n rows to the sums; only rows with real count."""
    ### BEGIN SOLUTION
    return {
        "loss": sums["loss"] + jnp.where(real, losses, 0.0).sum(),
        "hits": sums["hits"] + (hits & real).sum(dtype=jnp.int32),
        "rows": sums["rows"] + real.sum(dtype=jnp.int32),
    }
    ### END SOLUTION
# %% [markdown] ex="sums_update" kind="hint"
# A padded row may hold `nan`, and 0 times `nan` is `nan`. Choose instead.
# %% [markdown] ex="sums_update" kind="hint"
# The sum of Booleans is an integer. Divide nowhere: whoever reads the sums divides
# once, at the end.
# %% ex="sums_update" kind="check"
with check("real_rows_count", points=1, section="Load ahead, read late"):
    sums = {"loss": jnp.float32(0), "hits": jnp.int32(0), "rows": jnp.int32(0)}
    losses = np.float32([[1, 2, 4], [8, np.nan, np.inf]])
    hits = np.array([[True, False, True], [True, True, True]])
    real = np.array([[True, True, True], [True, False, False]])
    for batch in zip(losses, hits, real):
        sums = update(sums, *map(jnp.array, batch))
    want = {"loss": np.float32(15), "hits": np.int32(3), "rows": np.int32(4)}
    expect_close(sums, want, name="sums")
# %% ex="sums_update" kind="check"
with check("nothing_is_read", points=1, section="Load ahead, read late"):
    zero = {"loss": jnp.float32(0), "hits": jnp.int32(0), "rows": jnp.int32(0)}
    data = (jnp.ones((5, 3)), jnp.ones((5, 3), bool), jnp.ones((5, 3), bool))
    sums, _ = jax.lax.scan(lambda s, b: (update(s, *b), None), zero, data)
    want = {"loss": np.float32(15), "hits": np.int32(15), "rows": np.int32(15)}
    expect_close(sums, want, name="sums after a scan")
    calls = [(zero, *(part[n] for part in data)) for n in range(3)]
    expect_traces(update, calls, at_most=1)
# %% ex="sums_update" kind="hidden"
with check("large_counts", points=1, section="Load ahead, read late"):
    big = 2**24
    sums = {"loss": jnp.float32(1), "hits": jnp.int32(big),
            "rows": jnp.int32(big + 1)}
    real = jnp.array([True, True, False])
    yes, losses = jnp.array([True] * 3), jnp.float32([1, 2, np.nan])
    sums = update(sums, losses, yes, real)
    want = {"loss": np.float32(4), "hits": np.int32(big + 2),
            "rows": np.int32(big + 3)}
    expect_close(sums, want, name="sums")
# %% ex="sums_update" kind="wrong" fails="real_rows_count nothing_is_read large_counts"
# the mean of each batch is added up, like `total += loss.item()`
@jax.jit
def update(sums, losses, hits, real):
    return {"loss": sums["loss"] + jnp.mean(losses, where=real),
            "hits": sums["hits"] + (hits & real).sum(),
            "rows": sums["rows"] + real.sum()}
# %% ex="sums_update" kind="wrong" fails="nothing_is_read"
# `.item()` in every batch
def update(sums, losses, hits, real):
    losses = np.asarray(losses)
    real = np.asarray(real)
    return {"loss": sums["loss"] + jnp.float32(losses[real].sum().item()),
            "hits": sums["hits"] + jnp.int32((np.asarray(hits) & real).sum()),
            "rows": sums["rows"] + jnp.int32(real.sum().item())}
# %% ex="sums_update" kind="wrong" fails="real_rows_count large_counts"
# the padding counts as rows and hits
@jax.jit
def update(sums, losses, hits, real):
    return {"loss": sums["loss"] + jnp.where(real, losses, 0.0).sum(),
            "hits": sums["hits"] + hits.sum(),
            "rows": sums["rows"] + len(losses)}
# %% ex="sums_update" kind="wrong" fails="large_counts"
# counted in float32
@jax.jit
def update(sums, losses, hits, real):
    def count(total, which):
        return (total + which.astype(jnp.float32).sum()).astype(jnp.int32)

    return {"loss": sums["loss"] + jnp.where(real, losses, 0.0).sum(),
            "hits": count(sums["hits"].astype(jnp.float32), hits & real),
            "rows": count(sums["rows"].astype(jnp.float32), real)}
# %% ex="sums_update" kind="alternate"
def _update(sums, losses, hits, real):
    new = {"loss": jnp.sum(losses, where=real),
           "hits": jnp.count_nonzero(jnp.logical_and(hits, real)),
           "rows": jnp.count_nonzero(real)}
    return jax.tree.map(jnp.add, sums, new)

update = jax.jit(_update)
# %% [markdown] ex="sums_update" kind="why"
# A sum is a state: it goes in and comes out, on the device, and the host reads it once.
# `.item()` in each batch makes Python wait, and can't be traced. `jnp.where` chooses, so
# a `nan` in a padded row never enters the sum. 0 times `nan` is `nan`; that XLA may
# rewrite such a product is luck. A mean of means would give the rows of a short batch
# more weight, so sums and counts are kept apart. `float32` has 24 significant
# bits: beyond 2**24 it cannot add one.
# %% [markdown] ex="run_resume" level="core" minutes=15
# ## A run that goes on where it was
#
# Write `train(folder, make_state, step, until, every)`:
#
# - If `folder` holds Orbax checkpoints, restore the latest one, otherwise begin with
#   `make_state()`. The number of a checkpoint is the number of steps done.
# - `step(state)` returns the new state and a loss, and donates the state. Call it until
#   `until` steps are done, those before the restore included.
# - Save the whole state after each multiple of `every` steps.
# - Return the state and the list of the losses of this call. All files are written when
#   it returns.
#
# A state is a tree of arrays with typed keys and named tuples in it. `folder` is an
# absolute path; `make_toy` and `toy_step` are an example. The losses after a restart
# are those of the uninterrupted run, to the bit.
# %% ex="run_resume"
class Memory(NamedTuple):
    velocity: Any

def make_toy():
    return {"w": jnp.zeros(3), "opt": Memory(jnp.ones(3)),
            "key": jax.random.key(5), "n": jnp.int32(0)}

def _toy(state):
    key, subkey = jax.random.split(state["key"])
    velocity = 0.9 * state["opt"].velocity + jax.random.normal(subkey, (3,))
    w = state["w"] - 0.1 * velocity
    new = {"w": w, "opt": Memory(velocity), "key": key, "n": state["n"] + 1}
    return new, w.sum() + new["n"]

toy_step = jax.jit(_toy, donate_argnums=0)
# %% ex="run_resume" kind="solution"
def train(folder, make_state, step, until, every):
    """Return (state, losses of this call); resumes from folder's latest."""
    ### BEGIN SOLUTION
    losses = []
    with ocp.CheckpointManager(folder) as manager:
        done, state = manager.latest_step(), None
        if done is None:
            done, state = 0, make_state()
        else:
            expected = jax.eval_shape(make_state)
            state = manager.restore(
                done, args=ocp.args.StandardRestore(expected))
        for n in range(done + 1, until + 1):
            state, loss = step(state)
            losses.append(loss)
            if n % every == 0:
                manager.save(n, args=ocp.args.StandardSave(state))
    return state, losses
    ### END SOLUTION
# %% [markdown] ex="run_resume" kind="hint"
# `manager.latest_step()` is `None` for an empty folder. Without an abstract tree, named
# tuples come back as dictionaries; `jax.eval_shape(make_state)` makes one.
# %% [markdown] ex="run_resume" kind="hint"
# Opened in a `with`, the manager waits for its files at the end. Count the steps from
# the one that was restored, and save after the step.
# %% ex="run_resume" kind="check"
with check("same_losses", points=2, section="The state of a run is one tree"):
    state, want = make_toy(), []
    for _ in range(7):
        state, loss = toy_step(state)
        want.append(float(loss))
    folder = Path(tempfile.mkdtemp()) / "run"
    _, first = train(folder, make_toy, toy_step, 5, 2)
    numbers = len(first)
    assert numbers == 5, "5 losses from the first call"
    _, second = train(folder, make_toy, toy_step, 7, 2)
    numbers = len(second)
    assert numbers == 3, "3 losses after the checkpoint of step 4"
    got = [float(loss) for loss in (*first[:4], *second)]
    assert got == want, "the losses of the uninterrupted run, to the bit"
# %% ex="run_resume" kind="check"
with check("steps_on_disk", points=1,
           section="The state of a run is one tree"):
    folder = Path(tempfile.mkdtemp()) / "run"
    state, _ = train(folder, make_toy, toy_step, 4, 2)
    names = {p.name for p in folder.iterdir() if p.is_dir()}
    assert names == {"2", "4"}, "checkpoints of steps 2 and 4"
    tree = jax.tree.structure(state)
    assert tree == jax.tree.structure(make_toy()), "a state like make_state's"
# %% ex="run_resume" kind="hidden"
with check("torn_and_done", points=1,
           section="A killed save leaves a name that nobody reads"):
    folder = Path(tempfile.mkdtemp()) / "run"
    train(folder, make_toy, toy_step, 2, 2)
    (folder / "4.orbax-checkpoint-tmp").mkdir()
    state, losses = train(folder, make_toy, toy_step, 2, 2)
    numbers, steps = len(losses), int(state["n"])
    assert numbers == 0, "no step left to do"
    assert steps == 2, "the state after 2 steps"
# %% ex="run_resume" kind="wrong" fails="same_losses"
# weights are saved and everything else starts anew, like a lone state_dict
def train(folder, make_state, step, until, every):
    losses, state = [], make_state()
    with ocp.CheckpointManager(folder) as manager:
        done = manager.latest_step() or 0
        if done:
            saved = manager.restore(done)
            state = dict(state, w=saved["w"], n=saved["n"])
        for n in range(done + 1, until + 1):
            state, loss = step(state)
            losses.append(loss)
            if n % every == 0:
                manager.save(n, args=ocp.args.StandardSave(
                    {"w": state["w"], "n": state["n"]}))
    return state, losses
# %% ex="run_resume" kind="wrong" fails="same_losses"
# restored without an abstract tree: the named tuple is gone
def train(folder, make_state, step, until, every):
    losses = []
    with ocp.CheckpointManager(folder) as manager:
        done = manager.latest_step() or 0
        state = manager.restore(done) if done else make_state()
        for n in range(done + 1, until + 1):
            state, loss = step(state)
            losses.append(loss)
            if n % every == 0:
                manager.save(n, args=ocp.args.StandardSave(state))
    return state, losses
# %% ex="run_resume" kind="wrong" fails="same_losses torn_and_done"
# `until` is taken for the number of steps of this call
def train(folder, make_state, step, until, every):
    losses = []
    with ocp.CheckpointManager(folder) as manager:
        done, state = manager.latest_step() or 0, make_state()
        if done:
            state = manager.restore(done, args=ocp.args.StandardRestore(state))
        for n in range(done + 1, done + until + 1):
            state, loss = step(state)
            losses.append(loss)
            if n % every == 0:
                manager.save(n, args=ocp.args.StandardSave(state))
    return state, losses
# %% ex="run_resume" kind="alternate"
def train(folder, make_state, step, until, every):
    manager, losses, state = ocp.CheckpointManager(folder), [], make_state()
    done = manager.latest_step() or 0
    if done:
        state = manager.restore(done, args=ocp.args.StandardRestore(state))
    while done < until:
        state, loss = step(state)
        losses, done = losses + [loss], done + 1
        if done % every == 0:
            manager.save(done, args=ocp.args.StandardSave(state))
    manager.wait_until_finished()
    manager.close()
    return state, losses
# %% [markdown] ex="run_resume" kind="why"
# What a step hands to the next is one tree, so one save holds it all: weights, the
# optimiser's memory, the key, the count. Leave one out and the run goes on, with other
# losses and no error. The abstract tree gives the containers their types back; files
# know only lists and dictionaries. A torn save has another name and is not seen. And
# `until` counts from the first step of the run, or a restart would train for longer.
# %% [markdown] ex="target_half" level="core" minutes=8
# ## Ask for bfloat16
#
# Write `target(make_state, dtype)`, the abstract tree with which Orbax restores a state
# for serving. `make_state()` returns a dictionary with at least the entry `"params"`.
# In the result:
#
# - floating-point leaves below `"params"` have `dtype`;
# - all other leaves, such as integers, keys, and what stands beside `"params"`, are as
#   `make_state` makes them;
# - every leaf is a `jax.ShapeDtypeStruct`, and no array is computed or allocated.
# %% ex="target_half" kind="solution"
def target(make_state, dtype):
    """Return a tree of jax.ShapeDtypeStruct, structured like make_state()."""
    ### BEGIN SOLUTION
    def narrow(leaf):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return jax.ShapeDtypeStruct(leaf.shape, dtype)
        return leaf

    state = jax.eval_shape(make_state)
    return {**state, "params": jax.tree.map(narrow, state["params"])}
    ### END SOLUTION
# %% [markdown] ex="target_half" kind="hint"
# `jax.eval_shape` runs a function on tracers, and returns shapes and dtypes.
# %% [markdown] ex="target_half" kind="hint"
# `jnp.issubdtype(leaf.dtype, jnp.floating)` tells floats from integers and typed keys.
# %% ex="target_half" kind="check"
with check("restores", points=1, section="A restore asks for what it wants"):
    def make_state():
        return {"params": {"w": jnp.full((2, 3), 1.5), "ids": jnp.arange(4)},
                "opt": (jnp.zeros(3),), "key": jax.random.key(1)}

    tree = target(make_state, jnp.bfloat16)
    dtypes = [str(leaf.dtype) for leaf in jax.tree.leaves(tree)]
    want = ["key<fry>", "float32", "int32", "bfloat16"]
    assert dtypes == want, "bfloat16 for the float below params, nothing else"
    path = Path(tempfile.mkdtemp()) / "state"
    with ocp.StandardCheckpointer() as saver:
        saver.save(path, make_state())
        saver.wait_until_finished()
        got = saver.restore(path, tree)
    expect_close(got["params"]["w"].astype("float32"), np.full((2, 3), 1.5))
# %% ex="target_half" kind="check"
with check("nothing_computed", points=1,
           section="A restore asks for what it wants"):
    seen = []
    def make_state():
        w = jnp.zeros((3, 2))
        seen.append(isinstance(w, jax.core.Tracer))
        return {"params": [w], "n": jnp.int32(0)}

    tree = target(make_state, jnp.float16)
    kinds = {type(leaf).__name__ for leaf in jax.tree.leaves(tree)}
    assert kinds == {"ShapeDtypeStruct"}, "leaves without numbers"
    assert all(seen) and seen, "a make_state that runs on tracers only"
# %% ex="target_half" kind="hidden"
with check("other_trees", points=1,
           section="A restore asks for what it wants"):
    def make_state():
        params = (jnp.zeros(2, jnp.float16), {"k": jax.random.key(0)},
                  jnp.zeros((), bool))
        return {"params": params, "extra": jnp.zeros((2, 2)), "none": None}

    tree = target(make_state, jnp.bfloat16)
    got = [(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(tree)]
    want = [((2, 2), "float32"), ((2,), "bfloat16"), ((), "key<fry>"),
            ((), "bool")]
    assert got == want, "shapes and dtypes of another tree"
    structure = jax.tree.structure(tree)
    assert structure == jax.tree.structure(make_state()), "the same structure"
# %% ex="target_half" kind="wrong" fails="restores nothing_computed other_trees"
# every leaf, as `model.half()` would do it
def target(make_state, dtype):
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype),
                        make_state())
# %% ex="target_half" kind="wrong" fails="nothing_computed"
# a real state is made, only to read its shapes
def target(make_state, dtype):
    def narrow(leaf):
        floating = jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(dtype) if floating else leaf

    state = make_state()
    return dict(state, params=jax.tree.map(narrow, state["params"]))
# %% ex="target_half" kind="wrong" fails="restores other_trees"
# integers and keys below params are taken for weights
def target(make_state, dtype):
    state = jax.eval_shape(make_state)
    params = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype),
                          state["params"])
    return dict(state, params=params)
# %% ex="target_half" kind="wrong" fails="restores other_trees"
# the optimiser's floats are narrowed as well
def target(make_state, dtype):
    def narrow(leaf):
        floating = jnp.issubdtype(leaf.dtype, jnp.floating)
        return jax.ShapeDtypeStruct(leaf.shape, dtype) if floating else leaf

    return jax.tree.map(narrow, jax.eval_shape(make_state))
# %% ex="target_half" kind="alternate"
def target(make_state, dtype):
    def cast(x):
        return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

    def narrowed():
        state = make_state()
        return dict(state, params=jax.tree.map(cast, state["params"]))

    return jax.eval_shape(narrowed)
# %% [markdown] ex="target_half" kind="why"
# An abstract tree is a request, and Orbax converts while it reads. So the tree must be
# right leaf by leaf: a key has no other dtype, an index in bfloat16 is no index, and an
# optimiser that is narrowed trains differently. `jax.eval_shape` runs the function that
# makes the state on tracers, so a model larger than the memory can be described too.
# Making a real state to read its shapes costs what the restore is about to allocate.
# %% [markdown] ex="keep_policy" level="warm-up" minutes=8
# ## Which checkpoints to keep
#
# A manager keeps the latest few checkpoints to resume from, or the best few to serve.
# You want both. Write `keep(scores, latest, best)`. `scores` is a dictionary from step
# to score, larger is better. Return the sorted list of the steps to keep: the `latest`
# steps with the largest numbers, and the `best` steps with the largest scores. A step
# may be among both. Of two equal scores, the later step is the better one. A score of
# `nan` never is among the best. `latest` and `best` may be 0, or more than there are.
# %% ex="keep_policy" kind="solution"
def keep(scores, latest, best):
    """Return the sorted steps to keep; scores: {int: float}."""
    ### BEGIN SOLUTION
    newest = sorted(scores, reverse=True)[:latest]
    valid = [step for step in scores if not math.isnan(scores[step])]
    ranked = sorted(valid, key=lambda s: (scores[s], s), reverse=True)
    return sorted({*newest, *ranked[:best]})
    ### END SOLUTION
# %% [markdown] ex="keep_policy" kind="hint"
# Two sorted lists, cut, and a union of them. Mind that `steps[-0:]` is the whole list.
# %% [markdown] ex="keep_policy" kind="hint"
# `sorted` with a `nan` in it gives any order, so take those out first. A key of
# `(score, step)` decides between equals.
# %% ex="keep_policy" kind="check"
with check("latest_and_best", points=1,
           section="A killed save leaves a name that nobody reads"):
    scores = {0: 0.1, 10: 0.9, 20: 0.8, 30: 0.3, 40: 0.2}
    wanted = {(1, 2): [10, 20, 40], (2, 1): [10, 30, 40], (0, 0): [],
              (4, 1): [10, 20, 30, 40], (0, 1): [10], (1, 0): [40]}
    for (latest, best), want in wanted.items():
        got = list(keep(scores, latest, best))
        assert got == want, f"{want} for latest={latest}, best={best}"
# %% ex="keep_policy" kind="check"
with check("broken_scores", points=1,
           section="A killed save leaves a name that nobody reads"):
    scores = {1: 0.5, 2: float("nan"), 3: 0.7, 4: float("nan")}
    got = list(keep(scores, 1, 1))
    assert got == [3, 4], "step 3 as the best and step 4 as the latest"
    got = list(keep(scores, 0, 3))
    assert got == [1, 3], "only the two steps that have a score"
# %% ex="keep_policy" kind="hidden"
with check("ties_and_order", points=1,
           section="A killed save leaves a name that nobody reads"):
    scores = {200: 0.5, 9: 0.9, 30: 0.9, 100: -1.0}
    got = list(keep(scores, 1, 1))
    assert got == [30, 200], "the later one of two equal scores"
    got = list(keep(scores, 9, 9))
    assert got == [9, 30, 100, 200], "all steps, sorted as numbers"
    got = list(keep({}, 2, 2))
    assert got == [], "nothing from nothing"
# %% ex="keep_policy" kind="wrong" fails="latest_and_best broken_scores ties_and_order"
# the best alone, which deletes the step to resume from
def keep(scores, latest, best):
    ranked = sorted(scores, key=lambda s: (scores[s], s), reverse=True)
    return sorted(ranked[:best])
# %% ex="keep_policy" kind="wrong" fails="latest_and_best broken_scores"
# `[-n:]` keeps everything where n is 0
def keep(scores, latest, best):
    valid = [s for s in scores if scores[s] == scores[s]]
    ranked = sorted(valid, key=lambda s: (scores[s], s))
    return sorted({*sorted(scores)[-latest:], *ranked[-best:]})
# %% ex="keep_policy" kind="wrong" fails="broken_scores"
# nan counts as a large score
def keep(scores, latest, best):
    def rank(step):
        score = scores[step]
        return (math.inf if score != score else score, step)

    newest = sorted(scores, reverse=True)[:latest]
    return sorted({*newest, *sorted(scores, key=rank, reverse=True)[:best]})
# %% ex="keep_policy" kind="wrong" fails="latest_and_best broken_scores ties_and_order"
# the best of the latest
def keep(scores, latest, best):
    newest = sorted(scores, reverse=True)[:latest + best]
    valid = [s for s in newest if scores[s] == scores[s]]
    ranked = sorted(valid, key=lambda s: (scores[s], s), reverse=True)
    return sorted({*newest[:latest], *ranked[:best]})
# %% ex="keep_policy" kind="alternate"
def keep(scores, latest, best):
    steps = np.array(sorted(scores, reverse=True), int)
    values = np.array([scores[s] for s in steps.tolist()], float)
    order = np.argsort(-values, kind="stable")     # nan goes to the end
    good = steps[order][: min(best, int((~np.isnan(values)).sum()))]
    return sorted({*steps[:latest].tolist(), *good.tolist()})
# %% [markdown] ex="keep_policy" kind="why"
# Resuming and serving ask for different checkpoints, and a policy of one kind deletes
# what the other needs: with `best_fn` and a small `max_to_keep`, Orbax deletes the
# newest step as soon as it isn't among the best. A `nan` compares false with all
# numbers, so where it ends up in a sorted list is chance. Of equals, the later step is
# nearer to the end of the run. And a slice from `-0` is the whole list.
