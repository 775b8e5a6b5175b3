"""What becomes of PyTorch code when only names are replaced: of modules, and `dim`."""

import re

from coursekit.rosetta import run

MODULES = {
    "torch.nn.functional.": "jax.nn.",
    "torch.linalg.": "jnp.linalg.",
    "torch.fft.": "jnp.fft.",
    "torch.special.": "jax.scipy.special.",
    "torch.optim.": "optax.",
    "torch.nn.": "nnx.",
    "torch.": "jnp.",
    "F.": "jax.nn.",
    "nn.": "nnx.",
}
# In one pass, so that nothing is replaced twice; the longest name that fits comes first.
NAME = re.compile(r"(?<![\w.])(?:" + "|".join(map(re.escape, MODULES)) + ")")
SAME, USUALLY, SILENT, RAISES = "same", "usually", "silent", "raises"
OUTCOMES = {
    SAME: "give the same values everywhere",
    USUALLY: "give the same values on ordinary inputs, not at an edge",
    SILENT: "run and give something else",
    RAISES: "raise",
}
ARGUMENT = re.compile(r"\b(?:dim|keepdim)(?==)")
ARGUMENTS = {"dim": "axis", "keepdim": "keepdims"}


def translation(code):
    """PyTorch code with JAX's names: `torch.std(x, dim=1)` -> `jnp.std(x, axis=1)`."""
    code = NAME.sub(lambda found: MODULES[found[0]], code)
    return ARGUMENT.sub(lambda found: ARGUMENTS[found[0]], code)


def outcome(row):
    """How the literal translation of a row fares, on every input of the row.

    Returns:
      (a key of OUTCOMES, one sentence that says how it differs, or '').
    """
    code, verdicts = translation(row.torch), {}
    for name, arrays in run.trials(row).items():
        found = run.in_jax(row, arrays, code)
        if name == "shown" and found.error:
            return RAISES, found.error
        theirs = run.in_torch(row, arrays)
        verdicts[name] = str(run.compare(theirs, found, row.compare, row.tolerance))
    if verdicts["shown"]:
        return SILENT, verdicts["shown"]
    edge = next((f"{name}: {v}" for name, v in verdicts.items() if v), "")
    return (USUALLY, edge) if edge else (SAME, "")
