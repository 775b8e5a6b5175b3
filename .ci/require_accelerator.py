"""Stop, in one sentence, where the notebooks would not run on a GPU or TPU."""

import importlib.util
import sys

NEEDED = ("jax", "flax", "optax", "matplotlib", "sklearn", "nbval", "xdist", "jupytext")
HOW = "pip install '.[course,test]' flax optax matplotlib scikit-learn"

missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if missing:
    sys.exit(f"{sys.executable} lacks {', '.join(missing)}: {HOW}")

import jax  # noqa: E402

if jax.default_backend() == "cpu":
    sys.exit(f"JAX sees no GPU or TPU from {sys.executable}: nothing is tested.")
print(f"Testing on {', '.join(str(device) for device in jax.devices())}")
