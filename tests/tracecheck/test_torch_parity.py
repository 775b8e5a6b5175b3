"""PyTorch as the oracle."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tracecheck import CheckFailed, expect_parity

A = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
B = np.linspace(0, 2, 12, dtype=np.float32).reshape(3, 4)
LABELS = np.array([0, 2])
needs_torch = pytest.mark.torch


def layer(a, b):
    return jnp.tanh(a @ b)


@needs_torch
def test_values_and_gradients():
    expect_parity(lambda a, b: (a @ b).tanh(), layer, (A, B))
    expect_parity(lambda a, b: (a @ b).tanh(), jax.jit(layer), (A, B), grads=False)


@needs_torch
def test_integers_and_several_results():
    import torch

    def loss(logits, labels):
        picked = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
        return jax.nn.logsumexp(logits, 1) - picked, logits.argmax(1)

    def torch_loss(logits, labels):
        losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        return losses, logits.argmax(1)

    expect_parity(torch_loss, loss, (A, LABELS))


@needs_torch
def test_pytrees_and_unused_inputs():
    params = {"w": B, "unused": A}
    expect_parity(
        lambda p, x: {"y": x @ p["w"]}, lambda p, x: {"y": x @ p["w"]}, (params, A)
    )


@needs_torch
@pytest.mark.parametrize(
    ("fn", "what"),
    [
        (lambda a, b: 2 * layer(a, b), "result"),
        (lambda a, b: layer(a, b).T, "shape"),
        (lambda a, b: layer(a, jax.lax.stop_gradient(b)), "gradient of input 1"),
        (lambda a, b: layer(a, b).astype(jnp.float16), "dtype"),
    ],
)
def test_differences(fn, what):
    with pytest.raises(CheckFailed, match=what):
        expect_parity(lambda a, b: (a @ b).tanh(), fn, (A, B))


@needs_torch
def test_errors_that_cancel_in_a_plain_sum_are_found():
    def torch_fn(x):
        return x * x

    def swapped(x):
        return jax.lax.stop_gradient(x * x - x * x[::-1]) + x * x[::-1]

    with pytest.raises(CheckFailed, match="gradient"):
        expect_parity(torch_fn, swapped, (A[0],))


def test_a_missing_torch_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="expect_parity needs PyTorch"):
        expect_parity(lambda x: x, lambda x: x, (A,))
