"""What the cells of the page print."""

import textwrap
from collections import Counter

from coursekit.rosetta import census, inputs, literal, rows, run

WIDTH = 78


def report(name):
    """Run a group of rows in both frameworks on the inputs of the page, and say how it went.

    Args:
      name: of the group, such as '05_reductions'.

    Raises:
      AssertionError: a row is not as it says.
    """
    chosen = [row for row in rows.group(name).rows if row.compare != "told"]
    for row in chosen:
        _assert_true(row)
    print(f"{len(chosen)} rows ran in both frameworks, and each is as it says.")
    found = {row: census.fate(row) for row in census.compared() if row.group == name}
    count = Counter(kind for kind, _ in found.values())
    print("Translated word for word,")
    for kind in filter(count.get, literal.OUTCOMES):
        print(f"  {count[kind]:3} {literal.OUTCOMES[kind]}")
    for row, (kind, how) in found.items():
        if kind == literal.SILENT:
            print(_wrapped(f"  {row.torch.splitlines()[-1]}: {how}"))


def _assert_true(row):
    arrays = inputs.shown(run.used(row))
    result = run.verdict(row, run.sides(row, arrays))
    differs = bool(result.values) or bool(result.dtype) and "dtype" not in row.edges
    assert differs == ("shown" in row.edges), f"{row.name}: {result}"


def _wrapped(text, indent=6):
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent)


def names_in_common():
    """Print how many of PyTorch's functions have a namesake, module by module."""
    total = Counter()
    for name in census.TORCH:
        have, of = len(census.namesakes(name)), len(census.public(name))
        total += Counter(have=have, of=of)
        print(f"{name:20} {have:4} of {of:4} names  {have / of:4.0%}")
    print(f"{'together':20} {total['have']:4} of {total['of']:4} names", end="  ")
    print(f"{total['have'] / total['of']:4.0%}")


def values_in_common():
    """Print how the functions that the rows call fare, translated word for word."""
    called, found = len(census.called()), census.fates()
    print(f"The rows call {called} functions of PyTorch; {len(found)} of them have a namesake:")
    for kind, meaning in literal.OUTCOMES.items():
        names = [n for n, k in found.items() if k == kind]
        print(f"  {len(names):3} ({len(names) / len(found):4.0%})  {meaning}")
    same = sum(k == literal.SAME for k in found.values())
    print(f"{same} of {called}, or {same / called:.0%}, carry over word for word.")


def surprises():
    """Print the functions that have a namesake which runs and gives something else."""
    shared = set(census.fates())
    for row in census.compared():
        kind, how = census.fate(row)
        if kind == literal.SILENT and census.functions(row) & shared:
            print(_wrapped(f"{row.torch.splitlines()[-1]}: {how}", 4))
