"""PyTorch as the oracle: the same values and gradients, from the same NumPy inputs."""

import jax
import jax.numpy as jnp
import numpy as np

from tracecheck.values import expect_close


def expect_parity(torch_fn, jax_fn, inputs, *, grads=True, rtol=1e-4, atol=1e-5):
    """Expect a function in PyTorch and one in JAX to compute the same.

    Args:
        torch_fn: takes tensors; returns tensors, or lists, tuples, dicts of them.
        jax_fn: takes arrays; returns the same structure of arrays.
        inputs: tuple of NumPy arrays, or of pytrees of them, given to both.
        grads: whether to compare gradients too, with respect to all floating inputs.
            What is differentiated is the sum of the floating results, each weighted
            by the same random numbers, so that errors cannot cancel.
        rtol: relative tolerance.
        atol: absolute tolerance.

    Raises:
        CheckFailed: says where and by how much they differ; PyTorch's is wanted.
        ImportError: when PyTorch is not installed.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html
    """
    torch = _import_torch()
    tensors = jax.tree.map(lambda x: _tensor(torch, x, grads), tuple(inputs))
    arrays = jax.tree.map(jnp.asarray, tuple(inputs))
    want, got = torch_fn(*tensors), jax_fn(*arrays)
    expect_close(got, _to_numpy(want), rtol=rtol, atol=atol, name="result")
    if grads:
        wanted = _torch_gradients(torch, want, tensors)
        found = _jax_gradients(jax_fn, arrays)
        for n in range(len(arrays)):
            name = f"gradient of input {n}"
            expect_close(found[n], wanted[n], rtol=rtol, atol=atol, name=name)


def _import_torch():
    try:
        import torch
    except ImportError as error:
        raise ImportError("expect_parity needs PyTorch: pip install torch") from error
    return torch


def _tensor(torch, array, grads):
    tensor = torch.tensor(np.asarray(array))
    return tensor.requires_grad_(grads and tensor.is_floating_point())


def _to_numpy(tree):
    return jax.tree.map(lambda t: t.detach().cpu().resolve_conj().numpy(), tree)


def _weights(results):
    """Random numbers for each floating result; the same ones for both frameworks."""
    numbers = np.random.default_rng(0)
    return [numbers.standard_normal(x.shape).astype(np.float32) for x in results]


def _torch_gradients(torch, results, tensors):
    results = [t for t in jax.tree.leaves(results) if t.is_floating_point()]
    pairs = zip(results, _weights(results), strict=True)
    total = sum((t * torch.from_numpy(w)).sum() for t, w in pairs)
    leaves, tree = jax.tree.flatten(tensors)
    floating = [t for t in leaves if t.requires_grad]
    found = iter(torch.autograd.grad(total, floating, materialize_grads=True))
    kept = [next(found) if t.requires_grad else None for t in leaves]
    return _to_numpy(jax.tree.unflatten(tree, kept))


def _jax_gradients(fn, arrays):
    leaves, tree = jax.tree.flatten(arrays)
    places = [n for n, leaf in enumerate(leaves) if _is_floating(leaf)]

    def total(floating):
        filled = dict(enumerate(leaves)) | dict(zip(places, floating, strict=True))
        results = fn(*jax.tree.unflatten(tree, filled.values()))
        results = [x for x in jax.tree.leaves(results) if _is_floating(x)]
        pairs = zip(results, _weights(results), strict=True)
        return sum((x * w).sum() for x, w in pairs)

    found = iter(jax.grad(total)([leaves[n] for n in places]))
    kept = [next(found) if n in places else None for n in range(len(leaves))]
    return jax.tree.unflatten(tree, kept)


def _is_floating(array):
    return jnp.issubdtype(array.dtype, jnp.floating)
