"""Every row of the dictionary, run in both frameworks."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coursekit.rosetta import inputs, rows, run

ROWS = rows.all_rows()
ALIKE = [r for r in ROWS if r.compare != "told" and "shown" not in r.edges]
VARIED = [r for r in ALIKE if r.compare == "values" and run.used(r)]
NAMES = {"ids": lambda row: row.name}
# Few sizes, as JAX compiles every operation for each of them; many values, and of
# so few kinds that ties are frequent.
OTHER_SIZES = dict.fromkeys(inputs.SIZES, 2)
HALVES = st.integers(-6, 6).map(lambda i: i / 2)


@pytest.mark.torch
@pytest.mark.parametrize("row", ROWS, **NAMES)
def test_a_row_is_true(row):
    assert run.faults(row) == []


@pytest.mark.parametrize("row", ALIKE, **NAMES)
def test_the_jax_side_runs(row):
    assert run.in_jax(row, inputs.shown(run.used(row))).error == ""


@pytest.mark.torch
@pytest.mark.parametrize("row", VARIED, **NAMES)
@settings(
    max_examples=4, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(data=st.data())
def test_a_row_is_true_of_any_input(row, data):
    sizes = data.draw(st.sampled_from([inputs.SIZES, OTHER_SIZES]))
    arrays = {n: drawn(data, spec, sizes) for n, spec in run.used(row).items()}
    result = run.verdict(row, run.sides(row, arrays))
    if "ties" not in row.edges:
        assert not result.values, arrays


def drawn(data, spec, sizes):
    """Values of few kinds where nothing bounds them, else as the input draws them."""
    if spec.dtype != "float32" or spec.words:
        seed = data.draw(st.integers(0, 99))
        return spec.draw(np.random.default_rng(seed), sizes)
    shape = spec.shape(sizes)
    size = int(np.prod(shape))
    values = data.draw(st.lists(HALVES, min_size=size, max_size=size))
    return np.array(values, np.float32).reshape(shape)
