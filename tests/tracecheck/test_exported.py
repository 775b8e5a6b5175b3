"""An exported answer is run and looked into without its Python."""

import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tracecheck import Exported, export_answer

X = np.arange(4, dtype=np.float32)


def scan(x):
    return jax.lax.scan(lambda c, x: (jnp.sin(c) + x, c), 0.0, x)


def unrolled(x):
    carry = 0.0
    for value in x:
        carry = jnp.sin(carry) + value
    return carry


@pytest.mark.parametrize("fn", [scan, jax.jit(scan), jax.jit(jax.vmap(jnp.sin))])
def test_values_survive(fn):
    program = Exported.load(export_answer(fn, X))
    got, want = program.call(X + 1), fn(X + 1)
    jax.tree.map(np.testing.assert_allclose, got, want)


def test_shapes_are_enough():
    data = export_answer(scan, jax.ShapeDtypeStruct((4,), jnp.float32))
    assert isinstance(data, bytes)
    np.testing.assert_allclose(Exported.load(data).call(X)[0], scan(X)[0])


def test_loops_are_counted():
    for n in (3, 30):
        loop = Exported.load(export_answer(scan, np.ones(n, np.float32)))
        assert loop.count_ops("while") == loop.count_ops("stablehlo.while") == 1
        assert loop.count_ops("sine") == 1
        long = Exported.load(export_answer(unrolled, np.ones(n, np.float32)))
        assert long.count_ops("while") == 0
        assert long.count_ops("sine") == n
        assert long.count_ops() > long.count_ops("sine") + long.count_ops("add")


def test_pytrees_keys_and_fixed_arguments():
    def noisy(params, key, n):
        return {"w": params["w"] * n + jax.random.normal(key, params["w"].shape)}

    params, key = {"w": jnp.ones(3)}, jax.random.key(0)
    for fn in (noisy, jax.jit(noisy, static_argnames="n")):
        program = Exported.load(export_answer(functools.partial(fn, n=2), params, key))
        got = program.call(params, key)
        np.testing.assert_allclose(got["w"], noisy(params, key, 2)["w"], rtol=1e-6)


def test_other_shapes_are_refused():
    program = Exported.load(export_answer(scan, X))
    with pytest.raises(ValueError):
        program.call(X[:2])


def test_the_python_of_the_answer_does_not_run_again():
    runs = []
    data = export_answer(lambda x: (runs.append(1), x * 2)[1], X)
    assert len(runs) == 1
    Exported.load(data).call(X)
    assert len(runs) == 1


WITHOUT = """
import sys
sys.modules["flatbuffers"] = None
import numpy, tracecheck
for act in (lambda: tracecheck.export_answer(abs, numpy.ones(2)),
            lambda: tracecheck.Exported.load(b"")):
    try:
        act()
    except ImportError as error:
        print(error)
print([name for name in ("torch", "IPython", "flax") if name in sys.modules])
"""


def test_a_missing_flatbuffers_is_named_and_little_else_is_imported():
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    lines = found.stdout.splitlines()
    assert "flatbuffers" in lines[0] and "pip install" in lines[0]
    assert lines[1:] == [lines[0], "[]"]
