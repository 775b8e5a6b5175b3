"""What a function becomes: its equations, counted and compared."""

import collections

import jax
import numpy as np

from tracecheck._calls import as_call, own_jit
from tracecheck.checks import CheckFailed


def jaxpr_of(fn, *args, **kwargs):
    """Trace `fn` and return its jaxpr, with or without `jax.jit` around it.

    Args:
        fn: a function; a jitted one is entered, so its own call does not count.
        args: its arguments. Arrays are traced; for a function that is not jitted,
            Python numbers, strings and other objects keep their value.
        kwargs: its keyword arguments.

    Returns:
        A `jax.extend.core.ClosedJaxpr`.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.make_jaxpr.html
    """
    found = own_jit(fn)
    if found is not None:
        jitted, front, given = found
        return jitted.trace(*front, *args, **given, **kwargs).jaxpr
    leaves, tree = jax.tree.flatten((args, kwargs))
    traced = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]

    def of_arrays(arrays):
        filled = dict(enumerate(leaves)) | dict(zip(traced, arrays))
        args, kwargs = jax.tree.unflatten(tree, filled.values())
        return fn(*args, **kwargs)

    return jax.make_jaxpr(of_arrays)([leaves[i] for i in traced])


def _is_array(leaf):
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct))


def iter_eqns(jaxpr):
    """Yield every equation, those of nested jaxprs (loops, branches) included.

    Args:
        jaxpr: a Jaxpr or ClosedJaxpr.

    Yields:
        `jax.extend.core.JaxprEqn`, an equation before those nested in it.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.make_jaxpr.html
    """
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for inner in _nested(list(eqn.params.values())):
            yield from iter_eqns(inner)


def _nested(value):
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _nested(part)
    elif hasattr(getattr(value, "jaxpr", value), "eqns"):
        yield value


def count_primitives(fn, *args, **kwargs):
    """Count the primitives that `fn` is made of, nested ones included.

    Args:
        fn: a function.
        args: its arguments, as for `jaxpr_of`.
        kwargs: its keyword arguments.

    Returns:
        A `collections.Counter` from a primitive's name to the number of equations.
        The body of a loop counts once, however often it runs.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.make_jaxpr.html
    """
    jaxpr = jaxpr_of(fn, *args, **kwargs)
    return collections.Counter(eqn.primitive.name for eqn in iter_eqns(jaxpr))


def expect_primitives(fn, args, *, has=(), lacks=()):
    """Expect some primitives in `fn`, and others not.

    Args:
        fn: a function.
        args: tuple of its arguments, or a `Call`.
        has: a primitive's name, or several, each of which must occur.
        lacks: a primitive's name, or several, none of which may occur.

    Raises:
        CheckFailed: names the primitive, and the ones that there are.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.make_jaxpr.html
    """
    call = as_call(args)
    found = count_primitives(fn, *call.args, **call.kwargs)
    for name in _names(has):
        if not found[name]:
            raise CheckFailed(f"a `{name}` in the jaxpr", f"none; {_summary(found)}")
    for name in _names(lacks):
        if found[name]:
            raise CheckFailed(f"no `{name}` in the jaxpr", f"{found[name]} of them")


def _names(names):
    return (names,) if isinstance(names, str) else tuple(names)


def _summary(found):
    most = [name for name, _ in found.most_common(5)]
    if not most:
        return "it has no equations"
    rest = len(found) - len(most)
    return "it has " + ", ".join(most) + (f" and {rest} more" if rest else "")


def expect_constant_size(fn, args_of, sizes):
    """Expect that the program does not grow with the data.

    A `scan` stays as long at any length; a Python loop is unrolled and grows.

    Args:
        fn: a function.
        args_of: gives, for a size, the tuple of arguments (or a `Call`).
        sizes: at least two sizes to compare.

    Returns:
        The number of equations, nested ones included.

    Raises:
        CheckFailed: gives the number of equations at each size.
        ValueError: when there are fewer than two sizes.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html
    """
    if len(set(sizes)) < 2:
        raise ValueError("expect_constant_size needs two different sizes or more")
    counts = [_equations(fn, as_call(args_of(size))) for size in sizes]
    if len(set(counts)) > 1:
        pairs = zip(counts, sizes, strict=True)
        raise CheckFailed(
            "the same number of equations at every size",
            ", ".join(f"{count} at size {size}" for count, size in pairs)
            + ": the program grows, as when a Python loop is unrolled",
        )
    return counts[0]


def _equations(fn, call):
    return sum(1 for _ in iter_eqns(jaxpr_of(fn, *call.args, **call.kwargs)))
