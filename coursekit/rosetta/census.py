"""How far does `jnp.foo` for `torch.foo` carry? Counted over names, and over rows."""

import importlib
import inspect
import re
from functools import cache

from coursekit.rosetta import literal, rows

TORCH = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")
JAX = (
    "jax.numpy", "jax.nn", "jax.lax", "jax.numpy.linalg", "jax.numpy.fft",
    "jax.scipy.special", "jax.scipy.linalg", "jax.scipy.signal",
)  # fmt: skip
# Modules of PyTorch whose functions other modules merely import.
BORROWED = ("torch.overrides", "torch._jit_internal")
CALL = re.compile(r"(?:\btorch(?:\.\w+)*|\bF|\b[a-z])\.(\w+)\(")


@cache
def public(name):
    """The functions of a module that people call: documented, no class, not in place.

    Args:
      name: of the module, such as 'torch.linalg'.

    Returns:
      frozenset of names.
    """
    module = importlib.import_module(name)
    return frozenset(n for n in dir(module) if _is_public(n, getattr(module, n)))


def _is_public(name, value):
    home = getattr(value, "__module__", None) or "torch"
    own = home.partition(".")[0] in ("torch", "jax", "numpy") and home not in BORROWED
    named = name[0].isalpha() and name == name.lower() and not name.endswith("_")
    plain = callable(value) and not inspect.isclass(value)
    return named and plain and (own or inspect.isbuiltin(value)) and bool(value.__doc__)


@cache
def namesakes(name):
    """Functions of a PyTorch module whose name one of JAX's modules has as well."""
    return public(name) & frozenset().union(*map(public, JAX))


@cache
def fate(row):
    """What becomes of a row that is translated word for word, as `literal.outcome`."""
    return literal.outcome(row)


def functions(row):
    """The functions and methods of PyTorch that a row calls, such as {'std'}."""
    return set(CALL.findall(row.torch))


def called():
    """Names of PyTorch's public functions that a row calls, or methods of that name."""
    known = frozenset().union(*map(public, TORCH))
    return set().union(*(functions(row) for row in compared())) & known


def compared():
    """The rows whose results are compared, so that a translation can be judged by them."""
    return [row for row in rows.all_rows() if row.compare not in ("told", "runs")]


def fates():
    """{name of a called function that has a namesake: the worst fate of its rows}"""
    shared = called() & frozenset().union(*map(namesakes, TORCH))
    order, worst = list(literal.OUTCOMES), {}
    for row in compared():
        for name in functions(row) & shared:
            kind, _ = fate(row)
            worst[name] = max(worst.get(name, kind), kind, key=order.index)
    return worst
