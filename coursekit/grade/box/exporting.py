"""In the learner's process: an answer becomes a program of arrays alone.

A typed key of `jax.random` travels as its words, since a program holds arrays only.
"""

KEY = "typed key"


def export(export_answer, fn, arrays):
    """A program that can be differentiated, where the answer can."""
    try:
        return export_answer(fn, *arrays, vjp_order=1)
    except Exception:
        return export_answer(fn, *arrays)


def bind(fn, spec):
    """A function of the arrays alone, and what it is exported for."""
    import jax
    import numpy as np

    def of_arrays(*values):
        values = iter(values)
        full = [_value(part, values) for part in spec["leaves"]]
        return _unwrapped(fn(*_rebuild(spec["args"], full)))

    arrays = [
        jax.ShapeDtypeStruct(tuple(part["shape"]), np.dtype(part["dtype"]))
        for part in spec["leaves"] if "shape" in part
    ]  # fmt: skip
    return of_arrays, arrays


def _value(part, values):
    """An argument: sent as it is, or the next array; a key travels as its words."""
    import jax

    if "shape" not in part:
        return part["value"]
    array = next(values)
    return jax.random.wrap_key_data(array, impl=part["key"]) if "key" in part else array


def _unwrapped(tree):
    """Results, with typed keys as {KEY: words}: a program holds arrays only."""
    import jax

    def unwrap(leaf):
        dtype = getattr(leaf, "dtype", None)
        if dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
            return {KEY: jax.random.key_data(leaf)}
        return leaf

    return jax.tree.map(unwrap, tree)


def _rebuild(tree, leaves):
    kind, content = tree
    if kind == "leaf":
        return leaves[content]
    if kind == "dict":
        return {key: _rebuild(value, leaves) for key, value in content}
    items = [_rebuild(item, leaves) for item in content]
    return items if kind == "list" else tuple(items)
