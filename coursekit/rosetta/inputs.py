"""Inputs of rows: what the page shows, what lies at the edges, and what varies.

An input is written `"f32[n, m]"`, with words behind it where values are bounded:
`"f32[n, m] positive"`. Sizes that are letters vary; numbers stay.
"""

import re
import zlib
from dataclasses import dataclass

import numpy as np

DTYPES = {
    "f32": "float32", "f16": "float16", "i32": "int32", "i64": "int64", "i8": "int8",
    "u8": "uint8", "bool": "bool", "c64": "complex64",
}  # fmt: skip
SIZES = {"n": 3, "m": 4, "k": 2, "b": 2, "c": 3, "h": 5, "w": 6, "t": 5, "d": 4}
EDGES = {
    "empty": "every size that varies is 0",
    "one": "every size that varies is 1",
    "nan": "the first value is NaN (the last one, where values are sorted)",
    "inf": "the first value is infinite (or the last)",
    "ties": "all values are equal",
    "overflow": "every integer is the largest of its type",
}
WORDS = {"positive", "unit", "distinct", "spd", "sorted", "probs", "index"}
PATTERN = re.compile(r"(\w+)\[([\w, ]*)\]((?: \w+(?:\(\w+\))?)*)")


@dataclass(frozen=True)
class Input:
    """One array: its dtype, its sizes, and words that bound its values.

    Words: positive (> 0), unit (between 0 and 1), probs (rows sum to 1), distinct,
    sorted (along the last axis), spd (symmetric positive definite), index(n)
    (integers from 0 to n - 1, where n is a size).
    """

    dtype: str
    sizes: tuple
    words: dict

    @classmethod
    def read(cls, spec):
        """The Input that a text such as 'f32[n, 3] positive' describes.

        Raises:
          ValueError: the text has another form.
        """
        match = PATTERN.fullmatch(spec)
        if not match or match[1] not in DTYPES:
            raise ValueError(f"'{spec}' is no input: write one such as 'f32[n, m] positive'.")
        sizes = tuple(
            int(s) if s.isdigit() else s for s in match[2].replace(" ", "").split(",") if s
        )
        words = dict(re.fullmatch(r"(\w+)(?:\((\w+)\))?", w).groups() for w in match[3].split())
        if not set(words) <= WORDS:
            raise ValueError(f"'{spec}': known words are {', '.join(sorted(WORDS))}.")
        return cls(DTYPES[match[1]], sizes, words)

    @property
    def varies(self):
        """The letters among the sizes."""
        return {s for s in self.sizes if isinstance(s, str)}

    @property
    def is_float(self):
        return self.dtype.startswith("float")

    @property
    def is_int(self):
        return "int" in self.dtype

    def shape(self, sizes):
        """The shape for sizes such as {'n': 3}."""
        return tuple(sizes[s] if isinstance(s, str) else s for s in self.sizes)

    def draw(self, rng, sizes, shape=None):
        """An array of ordinary values.

        Args:
          rng: a numpy Generator.
          sizes: {'n': 3, …}.
        """
        shape = self.shape(sizes) if shape is None else shape
        if self.dtype == "bool":
            return rng.random(shape) < 0.5
        if "index" in self.words:
            bound = self.words["index"]
            top = int(bound) if bound.isdigit() else sizes[bound]
            return rng.integers(0, max(top, 1), shape).astype(self.dtype)
        if self.is_int:
            low = 0 if self.dtype == "uint8" or "positive" in self.words else -9
            return rng.integers(low + ("positive" in self.words), 10, shape).astype(self.dtype)
        return self._bounded(rng, shape).astype(self.dtype)

    def _bounded(self, rng, shape):
        values = np.round(rng.normal(size=shape) * 2, 2)
        if self.dtype == "complex64":
            return values + 1j * np.round(rng.normal(size=shape), 2)
        if "distinct" in self.words:
            values = rng.permutation(values.size).reshape(shape) / 2 - values.size / 4
        if "spd" in self.words:
            return values @ np.swapaxes(values, -1, -2) + np.eye(shape[-1])
        if "positive" in self.words:
            values = np.abs(values) + 0.25
        if "unit" in self.words or "probs" in self.words:
            values = rng.uniform(0.05, 0.95, shape)
        if "probs" in self.words:
            values = values / values.sum(-1, keepdims=True)
        return np.sort(values, axis=-1) if "sorted" in self.words else values

    def edge(self, name, rng, sizes):
        """The array at an edge; None where the edge asks nothing of this input."""
        if "spd" in self.words:
            return None
        if name in ("empty", "one"):
            size = int(name == "one")
            return self.draw(rng, dict.fromkeys(sizes, size)) if self.varies else None
        values = self.draw(rng, sizes)
        if name in ("nan", "inf") and self.is_float and values.size:
            place = -1 if "sorted" in self.words else 0
            values.flat[place] = np.nan if name == "nan" else np.inf
            return values
        if name == "ties" and "probs" not in self.words and "distinct" not in self.words:
            return np.ones_like(values) if "index" not in self.words else None
        if name == "overflow" and self.is_int and "index" not in self.words:
            return np.full_like(values, np.iinfo(self.dtype).max)
        return None


def shown(inputs):
    """What the page computes with: {name: array}, the same on every machine."""
    return {name: spec.draw(_rng(name), SIZES) for name, spec in inputs.items()}


def at_edges(inputs):
    """{edge: {name: array}} of every edge that touches one of the inputs."""
    found = {}
    for edge in EDGES:
        arrays = {n: spec.edge(edge, _rng(n), SIZES) for n, spec in inputs.items()}
        if any(a is not None for a in arrays.values()):
            sizes = dict.fromkeys(SIZES, {"empty": 0, "one": 1}.get(edge))
            sizes = sizes if edge in ("empty", "one") else SIZES
            found[edge] = {
                n: inputs[n].draw(_rng(n), sizes) if a is None else a
                for n, a in arrays.items()
            }
    return found


def _rng(name):
    return np.random.default_rng(zlib.crc32(name.encode()))
