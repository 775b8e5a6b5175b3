# %% [markdown]
# # Three questions
#
# Ten points in all, for tests of the grader.
# %%
import jax
import jax.numpy as jnp
import numpy as np
from tracecheck import check, expect_close, expect_constant_size, expect_traces

def reference(x):
    """What `three_centre` should give."""
    return x - x.mean()
# %% [markdown] ex="three_centre" level="warm-up" minutes=2
# ## Centre
#
# Subtract the mean of a vector.
# %% ex="three_centre" kind="solution"
def centre(x):
    """f32[n] -> f32[n], of mean 0."""
    ### BEGIN SOLUTION
    return x - jnp.mean(x)
    ### END SOLUTION
# %% [markdown] ex="three_centre" kind="hint"
# `jnp.mean` gives a scalar.
# %% ex="three_centre" kind="check"
with check("centre_values", points=2, section="A claim"):
    x = jnp.array([1.0, 2.0, 6.0])
    assert jnp.allclose(centre(x), reference(x)), "the vector without its mean"
# %% ex="three_centre" kind="hidden" apart=true
with check("centre_other_values", points=2, section="A claim"):
    x = np.float32([[4.0, 0.0], [-2.0, 1.0]])
    expect_close(centre(x), x - np.float32(0.75))
    expect_close(centre(x[0]), np.float32([2.0, -2.0]))
# %% ex="three_centre" kind="wrong" fails="centre_values centre_other_values"
# the sum is taken for the mean
def centre(x):
    return x - jnp.sum(x)
# %% ex="three_centre" kind="wrong" fails="centre_other_values"
# the length is read from the example
def centre(x):
    return x - jnp.sum(x) / 3
# %% ex="three_centre" kind="alternate"
centre = jax.jit(lambda x: x - x.sum() / x.size)
# %% [markdown] ex="three_centre" kind="why"
# The mean of what is left is zero.
# %% [markdown] ex="three_cumulate" level="core" minutes=4
# ## Cumulate
#
# Running sums by `jax.lax.scan`.
# %% ex="three_cumulate" kind="solution"
def cumulate(x):
    """f32[n] -> f32[n], the sums of what came so far."""
    ### BEGIN SOLUTION
    def add(total, value):
        total = total + value
        return total, total

    return jax.lax.scan(add, jnp.float32(0), x)[1]
    ### END SOLUTION
# %% ex="three_cumulate" kind="check"
with check("cumulate_values", points=1, section="A claim"):
    expect_close(cumulate(jnp.ones(4)), np.float32([1, 2, 3, 4]))
# %% [markdown] ex="three_cumulate" kind="hint"
# The carry is the sum.
# %% ex="three_cumulate" kind="hidden"
with check("cumulate_is_a_loop", points=2, section="A claim"):
    expect_constant_size(cumulate, lambda n: (jnp.ones(n),), [2, 5])
    expect_close(cumulate(jnp.arange(3.0)), np.float32([0, 1, 3]))
# %% ex="three_cumulate" kind="wrong" fails="cumulate_is_a_loop"
# a Python loop
def cumulate(x):
    return jnp.stack([x[: i + 1].sum() for i in range(len(x))])
# %% ex="three_cumulate" kind="wrong" fails="cumulate_values cumulate_is_a_loop"
# nothing is carried
def cumulate(x):
    return x
# %% [markdown] ex="three_cumulate" kind="why"
# One body, whatever the length.
# %% [markdown] ex="three_step" level="stretch" minutes=4
# ## Step
#
# A compiled step that traces once.
# %% ex="three_step" kind="solution"
@jax.jit
def step(w, x):
    """w - 0.5 x, elementwise: f32[n], f32[n] -> f32[n]."""
    ### BEGIN SOLUTION
    return w - 0.5 * x
    ### END SOLUTION
# %% [markdown] ex="three_step" kind="hint"
# It is compiled already.
# %% ex="three_step" kind="check"
with check("step_once", points=3, section="A claim"):
    w, x = jnp.ones(3), jnp.arange(3.0)
    expect_close(step(w, x), np.float32([1.0, 0.5, 0.0]))
    expect_traces(step, [(w, x), (w + 1, x)], at_most=1)
# %% ex="three_step" kind="wrong" fails="step_once"
# it is not compiled
def step(w, x):
    return w - 0.5 * x
# %% ex="three_step" kind="wrong" fails="step_once"
# the sign is wrong
@jax.jit
def step(w, x):
    return w + 0.5 * x
# %% [markdown] ex="three_step" kind="why"
# The values are no part of the key.
