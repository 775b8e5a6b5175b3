"""Run both sides of a row on the same inputs, and say where they part."""

import ast
import contextlib
import os
import re
import sys
import warnings
from dataclasses import dataclass

import numpy as np
from IPython.utils.capture import capture_output

from coursekit.rosetta import inputs

SECOND_KIND = {"int64": "int32", "complex128": "complex64", "uint64": "uint32"}
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Side:
    """What one framework answered: leaves, or the error that it raised."""

    leaves: tuple = ()
    error: str = ""


@dataclass(frozen=True)
class Verdict:
    """How the two sides compare: '' where they agree, else one sentence."""

    values: str = ""
    dtype: str = ""
    grad: str = ""

    def __bool__(self):
        return bool(self.values or self.dtype or self.grad)

    def __str__(self):
        return self.values or self.dtype or self.grad


# ---------------------------------------------------------------- running code


def namespace(framework):
    """The names that rows may use, of one framework."""
    shared = {"np": np}
    if framework == "torch":
        import torch

        return shared | {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    import jax
    import optax
    from flax import nnx

    names = {"jax": jax, "jnp": jax.numpy, "lax": jax.lax, "nnx": nnx, "optax": optax}
    return shared | names


def evaluate(code, names):
    """Run code; the value of its last statement: an expression, or what it assigns.

    A statement of another kind, such as an assertion, has the value None.
    """
    tree = ast.parse(code)
    *_, last = tree.body
    if isinstance(last, ast.Expr):
        result = tree.body.pop().value
    else:
        result = _assigned(last)
    exec(compile(tree, "<row>", "exec"), names)
    result = ast.fix_missing_locations(ast.Expression(result))
    return eval(compile(result, "<row>", "eval"), names)


def _assigned(statement):
    """What a statement binds or changes, as an expression: `x` of `x[0] = 5`."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return ast.Name(statement.name, ast.Load())
    target = getattr(statement, "target", None) or getattr(statement, "targets", [None])[0]
    while isinstance(target, (ast.Subscript, ast.Attribute)):
        target = target.value
    return _read(target) if target else ast.Constant(None)


def _read(target):
    """A target, `a` or `a, b`, as the expression that reads it."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return ast.Tuple([_read(item) for item in target.elts], ast.Load())
    return ast.Name(target.id, ast.Load())


def _code(row, framework, shown=None):
    parts = [row.before.get(framework), shown or getattr(row, framework), row.after.get(framework)]
    return "\n".join(part for part in parts if part)


def used(row):
    """The inputs of the group that a row's code names."""
    text = "\n".join((_code(row, "torch"), _code(row, "jax")))
    return {n: spec for n, spec in row.inputs.items() if re.search(rf"\b{n}\b", text)}


def in_torch(row, arrays):
    """PyTorch's side, as a Side."""
    import torch

    names = namespace("torch") | {n: torch.from_numpy(a.copy()) for n, a in arrays.items()}
    torch.manual_seed(0)
    return _side(lambda: evaluate(_code(row, "torch"), names))


def in_jax(row, arrays, code=None):
    """JAX's side, as a Side; `code` replaces what the row shows."""
    import jax.numpy as jnp

    names = namespace("jax") | {n: jnp.array(a) for n, a in arrays.items()}
    return _side(lambda: evaluate(_code(row, "jax", code), names))


@contextlib.contextmanager
def _silence():
    """Send elsewhere what compiled code writes to the descriptor of stderr."""
    held = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(held, 2)
        os.close(held)


def _side(run):
    try:
        with warnings.catch_warnings(), capture_output(), _silence():
            warnings.simplefilter("ignore")
            return Side(tuple(_leaves(run())))
    except Exception as error:  # whatever a framework raises is its answer
        first = (str(error).strip() or " ").splitlines()[0]
        return Side(error=f"{type(error).__name__}: {first}")


# ---------------------------------------------------------------- results


def _leaves(value):
    """Arrays, numbers and names of a result, in order."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(value[key])
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    else:
        yield _leaf(value)


def _leaf(value):
    import jax

    torch = sys.modules.get("torch")  # JAX's side runs without it
    if torch and isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        name = str(value.dtype).removeprefix("torch.")
        wide = value.float() if name == "bfloat16" else value
        return SECOND_KIND.get(name, name), np.array(wide.cpu())
    if isinstance(value, (jax.Array, np.ndarray)):
        name = str(value.dtype)
        wide = value.astype("float32") if name == "bfloat16" else value
        return name, np.array(wide)
    if torch and isinstance(value, torch.dtype):
        return "name", str(value).removeprefix("torch.")
    if isinstance(value, np.dtype) or hasattr(value, "dtype") and isinstance(value, type):
        return "name", np.dtype(value).name
    if isinstance(value, (bool, int, float, complex)):
        return "number", np.asarray(value)
    return "name", str(value)


def compare(torch_side, jax_side, how="values", tolerance=1e-5):
    """Where two sides part.

    Args:
      how: a key of `rows.COMPARES`.

    Returns:
      Verdict; sides that both raise agree.
    """
    if torch_side.error or jax_side.error:
        if torch_side.error and jax_side.error:
            return Verdict()
        who, side = ("torch", torch_side) if torch_side.error else ("jax", jax_side)
        return Verdict(values=f"{who} raises {side.error}")
    if how == "runs":
        return Verdict()
    if len(torch_side.leaves) != len(jax_side.leaves):
        return Verdict(
            values=f"{len(torch_side.leaves)} results in torch, {len(jax_side.leaves)} in jax"
        )
    pairs = zip(torch_side.leaves, jax_side.leaves)
    found = [_leaf_verdict(t, j, how, tolerance) for t, j in pairs]
    return next((v for v in found if v.values), next((v for v in found if v), Verdict()))


def _leaf_verdict(torch_leaf, jax_leaf, how, tolerance):
    (t_type, t), (j_type, j) = torch_leaf, jax_leaf
    if isinstance(t, str) or isinstance(j, str):
        same = isinstance(t, str) and isinstance(j, str) and t == j
        return Verdict("" if same else f"{t} in torch, {j} in jax")
    if t.shape != j.shape:
        return Verdict(f"shape {t.shape} in torch, {j.shape} in jax")
    if how != "shapes" and not _close(t, j, how, tolerance):
        return Verdict(f"{_short(t)} in torch, {_short(j)} in jax")
    if "number" not in (t_type, j_type) and t_type != j_type:
        return Verdict(dtype=f"{t_type} in torch, {j_type} in jax")
    return Verdict()


def _close(t, j, how, tolerance):
    if how == "distribution":
        spread = max(np.std(t.astype(float)), 1e-6)
        quantiles = [np.quantile(a.astype(float), QUANTILES) for a in (t, j)]
        return np.max(np.abs(quantiles[0] - quantiles[1])) < 0.1 * spread
    if t.dtype == bool or j.dtype == bool:
        return np.array_equal(t, j)
    if t.dtype.kind in "iu" and j.dtype.kind in "iu":
        return np.array_equal(t, j)
    return np.allclose(t, j, rtol=tolerance, atol=tolerance, equal_nan=True)


def _short(array):
    return np.array2string(array.ravel()[:6], precision=4, separator=", ", threshold=6)


# ---------------------------------------------------------------- gradients


def gradients(row, arrays):
    """Where the gradients of the two sides part: '' or one sentence.

    The loss is the sum of all real results, each weighted by its place.
    """
    floats = [n for n, a in arrays.items() if a.dtype == np.float32]
    if not floats or row.compare != "values":
        return ""
    ours = _side(lambda: _torch_gradients(row, arrays, floats))
    theirs = _side(lambda: _jax_gradients(row, arrays, floats))
    return str(compare(ours, theirs, tolerance=max(row.tolerance * 10, 1e-4)))


def _torch_gradients(row, arrays, floats):
    import torch

    leaves = {n: torch.from_numpy(a.copy()) for n, a in arrays.items()}
    for name in floats:
        leaves[name].requires_grad_()
    names = namespace("torch") | {n: t.clone() for n, t in leaves.items()}
    torch.manual_seed(0)
    results = torch.utils._pytree.tree_leaves(evaluate(_code(row, "torch"), names))
    real = [r for r in results if isinstance(r, torch.Tensor) and r.is_floating_point()]
    loss = sum((r * torch.from_numpy(_weights(r.shape))).sum() for r in real)
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        return [np.zeros_like(arrays[n]) for n in floats]
    loss.backward()
    return [
        np.zeros_like(arrays[n]) if leaves[n].grad is None else leaves[n].grad for n in floats
    ]


def _jax_gradients(row, arrays, floats):
    import jax
    import jax.numpy as jnp

    def loss(inputs):
        rest = {n: jnp.array(a) for n, a in arrays.items() if n not in floats}
        names = namespace("jax") | rest | inputs
        results = jax.tree.leaves(evaluate(_code(row, "jax"), names))
        real = [r for r in results if isinstance(r, jax.Array) and jnp.isrealobj(r)]
        real = [r for r in real if jnp.issubdtype(r.dtype, jnp.floating)]
        return sum((jnp.sum(r * _weights(r.shape)) for r in real), jnp.zeros(()))

    found = jax.grad(loss)({n: jnp.array(arrays[n]) for n in floats})
    return [found[n] for n in floats]


def _weights(shape):
    """Fixed weights, so that the gradient of every element counts on its own."""
    size = int(np.prod(shape))
    return (1 + np.arange(size, dtype=np.float32) % 7 / 7).reshape(tuple(shape))


# ---------------------------------------------------------------- a whole row


def sides(row, arrays):
    """(PyTorch's side, JAX's side) of a row on some inputs, {name: numpy array}."""
    return in_torch(row, arrays), in_jax(row, arrays)


def verdict(row, pair):
    """How the two sides of a row compare, gradients aside."""
    return compare(*pair, row.compare, row.tolerance)


def trials(row):
    """{'shown' or an edge: arrays} on which a row is run."""
    chosen = used(row)
    found = {"shown": inputs.shown(chosen)}
    if row.compare == "values" and "shown" not in row.edges:
        found |= {e: a for e, a in inputs.at_edges(chosen).items() if e not in row.skip}
    return found


def faults(row):
    """What is not as a row says: sentences, none where all is well."""
    if row.compare == "told":
        return []
    found = []
    for name, arrays in trials(row).items():
        pair = sides(row, arrays)
        if name == "shown" and pair[0].error and pair[1].error:
            found.append(f"both sides raise, so nothing is compared: {pair[1].error}")
        result = verdict(row, pair)
        # Where NaN, infinities or nothing at all stand, gradients mean little.
        if not result.values and name in ("shown", "one", "ties"):
            result = Verdict(dtype=result.dtype, grad=gradients(row, arrays))
        found += _judged(row, name, result)
    return found


def _judged(row, name, result):
    """A trial against what the row says of it."""
    told = name in row.edges
    dtype_told, grad_told = "dtype" in row.edges, "grad" in row.edges
    if told and not result:
        yield f"says that the two differ at '{name}', and they agree"
    if not told and result.values:
        yield f"{name}: {result.values}"
    if not told and result.dtype and not dtype_told:
        yield f"{name}: {result.dtype}"
    if not told and result.grad and not grad_told:
        yield f"{name}, gradient: {result.grad}"
    if name == "shown":
        if dtype_told and not result.dtype:
            yield "says that the dtypes differ, and they agree"
        if grad_told and not result.grad:
            yield "says that the gradients differ, and they agree"
