"""Random keys: typed ones, and each used once."""

import jax
import jax.numpy as jnp

from tracecheck import _frames
from tracecheck._calls import name_of
from tracecheck.checks import CheckFailed
from tracecheck.jaxprs import count_primitives

_HOW = "make it with jax.random.key(seed)"


def expect_typed_key(key, *, shape=(), name="key"):
    """Expect a typed random key, not a raw one of the older kind.

    Args:
        key: what should be a key.
        shape: of the array of keys; () for a single one.
        name: what to call it in the message.

    Raises:
        CheckFailed: says what it is, and how to make a typed key.

    Source: https://docs.jax.dev/en/latest/jax.random.html
    """
    if not _is_typed(key):
        raise CheckFailed(f"{name} to be a typed key", _what_it_is(key))
    if key.shape != tuple(shape):
        raise CheckFailed(f"{name} of shape {tuple(shape)}", f"shape {key.shape}")


def _is_typed(key):
    return isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)


def _is_raw(key):
    raw = isinstance(key, jax.Array) and key.dtype == jnp.uint32
    return raw and key.ndim > 0 and key.shape[-1] in (2, 4)


def _what_it_is(key):
    if _is_raw(key):
        return f"a raw key, uint32{list(key.shape)}: {_HOW}"
    if isinstance(key, jax.Array):
        return f"an array of dtype {key.dtype}: {_HOW}"
    return f"type {type(key).__name__}: {_HOW}"


def expect_keys_used_once(fn, *args):
    """Expect that a call of `fn` draws from, or splits, each key at most once.

    Args:
        fn: a function.
        args: its arguments, among them typed keys. The caller's own keys are not
            used up, as copies of them are passed.

    Raises:
        CheckFailed: names the line that used a key again; or says that `fn` makes
            or is given raw keys, whose use cannot be followed.

    Source: https://docs.jax.dev/en/latest/jax.experimental.key_reuse.html
    """
    for leaf in jax.tree.leaves(args):
        if _is_raw(leaf):
            raise CheckFailed("typed keys as arguments", _what_it_is(leaf))
    with jax.debug_key_reuse(True):
        try:
            fn(*_unused(args))
        except jax.errors.KeyReuseError as error:
            raise CheckFailed("each key to be used once", _used_twice(error)) from None
    if _uses_raw_keys(fn, args):
        want = f"{name_of(fn)} to use typed keys"
        raise CheckFailed(want, f"raw keys, whose use cannot be followed: {_HOW}")


def _uses_raw_keys(fn, args):
    try:
        return count_primitives(fn, *_unused(args))["random_wrap"] > 0
    except Exception:  # it has run, but cannot be traced, so nothing is known
        return False


def _unused(args):
    """The arguments, with keys that have not been used yet."""
    return jax.tree.map(lambda leaf: _copy(leaf) if _is_typed(leaf) else leaf, args)


def _copy(key):
    data = jax.random.key_data(key)
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(key))


def _used_twice(error):
    frames = _frames.user_frames(error.__traceback__)
    place = f", the second time at {_frames.where(*frames[-1])}" if frames else ""
    return f"a key that is used twice{place}"
