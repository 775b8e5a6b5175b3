"""Rosetta: an executable dictionary from PyTorch to JAX.

- rows: the entries, from `rows/*.toml`.
- inputs: the arrays that entries run on, edges included.
- run: both sides of an entry, and where they part.
- literal: what becomes of PyTorch code when only module names are replaced.
- census: how many names, and how many values, the two frameworks share.
- page: the tables of `reference/rosetta.md`.
- report: what the cells of that page print.

`python -m coursekit.rosetta 05_reductions` runs a group while it is written.
"""
