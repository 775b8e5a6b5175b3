"""A function as portable StableHLO: run it and count in it, without its Python.

The boundary: whoever exports runs the Python of the function; whoever loads the
bytes runs only the compiled program, so nothing in that Python can change how the
result is judged. It covers pure functions of arrays: their values, their shapes, and
what they are made of (loops, products, ...). It does not cover how often the function
was traced, whether it was jitted, what it printed, nor inputs of other shapes.
"""

import collections
import functools
import re

import jax
import jax.export

from tracecheck._calls import own_jit

_NEEDS = (
    "tracecheck.exported needs the package flatbuffers, in which jax.export writes "
    "its files: pip install flatbuffers"
)


def export_answer(fn, *args, vjp_order=0):
    """Export `fn` for arguments of these shapes and dtypes.

    Args:
        fn: a function of arrays, jitted or not, without side effects.
        args: arrays, `jax.ShapeDtypeStruct`, or pytrees of them (dicts, lists,
            tuples). Hold others fixed with `functools.partial`.
        vjp_order: how many times the program can be differentiated in reverse mode.

    Returns:
        The program, as bytes for `Exported.load`.

    Raises:
        ImportError: when the package flatbuffers is missing.
        Exception: whatever `fn` raises while it is traced.

    Source: https://docs.jax.dev/en/latest/jax.export.html
    """
    _need_flatbuffers()
    jitted, front, kwargs = own_jit(fn) or (None, (), {})
    if jitted is None or front or kwargs:
        jitted = jax.jit(lambda *args: fn(*args))
    return bytes(jax.export.export(jitted)(*args).serialize(vjp_order))


def _need_flatbuffers():
    try:
        import flatbuffers  # noqa: F401
    except ImportError as error:
        raise ImportError(_NEEDS) from error


class Exported:
    """A program that was exported; made by `Exported.load`."""

    def __init__(self, program):
        self._program = program
        self._ops = collections.Counter(re.findall(r"\bstablehlo\.(\w+)", self.text))

    @functools.cached_property
    def text(self):
        """The program as StableHLO text."""
        return self._program.mlir_module()

    @classmethod
    def load(cls, data):
        """Load what `export_answer` returned.

        Args:
            data: the bytes.

        Raises:
            ImportError: when the package flatbuffers is missing.

        Source: https://docs.jax.dev/en/latest/jax.export.html
        """
        _need_flatbuffers()
        return cls(jax.export.deserialize(bytearray(data)))

    def call(self, *args):
        """Run the program.

        Args:
            args: arrays of the shapes and dtypes that it was exported for.

        Raises:
            ValueError: when shapes, dtypes or structure are others.
        """
        return self._program.call(*args)

    def count_ops(self, name=None):
        """Count operations of StableHLO, those in loops and functions included.

        Args:
            name: such as "while" or "dot_general"; None counts all.
        """
        if name is None:
            return self._ops.total()
        return self._ops[name.removeprefix("stablehlo.")]
