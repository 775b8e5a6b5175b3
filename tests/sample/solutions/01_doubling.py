# %% [markdown]
# # Doubling
#
# Two small exercises.
# %%
from tracecheck import check
# %% [markdown] ex="double_a_number" level="warm-up" minutes=2
# ## Double a number
#
# Return twice the argument.
# %% ex="double_a_number" kind="solution"
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
# %% [markdown] ex="double_a_number" kind="hint"
# Two times.
# %% ex="double_a_number" kind="check"
with check("doubles_two", points=1, section="A number doubles"):
    assert double(2) == 4, "four"
# %% ex="double_a_number" kind="hidden"
with check("doubles_three", points=2, section="A number doubles"):
    assert double(3) == 6, "six"
# %% ex="double_a_number" kind="alternate"
def double(x):
    return x + x
# %% ex="double_a_number" kind="wrong" fails="doubles_three"
# a square is no double
def double(x):
    return x**2
# %% ex="double_a_number" kind="wrong" fails="doubles_two doubles_three"
# nothing is returned
def double(x):
    2 * x
# %% [markdown] ex="double_a_number" kind="why"
# A double is a number and the same number again.
# A square happens to agree at two.
# So one example is no proof.
# %% [markdown] ex="halve_a_number" level="core" minutes=3
# ## Halve a number
#
# Return half of the argument.
# %% ex="halve_a_number" kind="solution"
def halve(x):
    return x / 2
# %% ex="halve_a_number" kind="starter"
def halve(x):
    return x
# %% [markdown] ex="halve_a_number" kind="hint"
# One over two.
# %% ex="halve_a_number" kind="check"
with check("halves_four", points=1, section="A number doubles"):
    assert halve(4) == 2, "two"
# %% ex="halve_a_number" kind="hidden"
with check("halves_three", points=1, section="A number doubles"):
    assert halve(3) == 1.5, "one and a half"
# %% ex="halve_a_number" kind="wrong" fails="halves_three"
# whole-number division
def halve(x):
    return x // 2
# %% ex="halve_a_number" kind="wrong" fails="halves_four"
# a special case forgotten
def halve(x):
    return 1.5
# %% [markdown] ex="halve_a_number" kind="why"
# Half of an odd number is no whole number.
# `/` divides, `//` rounds down.
# The hidden check has an odd number in it.
