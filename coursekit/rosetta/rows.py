"""The rows of the dictionary, as people write them in `rows/*.toml`.

A file is a group: `title`, `about`, `see` (the page that explains it), `[inputs]`
(see `inputs.Input`) and one `[[row]]` after the other. CONTRIBUTING.md shows a row.
"""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from coursekit.errors import CourseError
from coursekit.rosetta.inputs import EDGES, Input

FOLDER = Path(__file__).parent / "rows"
# How the results of a row are held against each other.
COMPARES = {
    "values": "values, dtypes, shapes, and gradients where there are any",
    "shapes": "dtypes and shapes",
    "distribution": "dtypes, shapes and quantiles of random draws",
    "runs": "nothing: both sides run, and assert for themselves",
    "told": "nothing: it can't run everywhere, and the row says why",
}
DIFFERENCES = ("shown", *EDGES, "dtype", "grad")


@dataclass(frozen=True, eq=False)
class Row:
    """One entry: the same thing in both frameworks.

    Attributes:
      torch, jax: the code that the page shows; one expression or a few statements.
      differs: what a reader must know, in Markdown.
      edges: {name of an edge: how the two differ there}. They are asserted to agree
        on every other edge, and to differ on these. 'shown': they differ as they
        stand; 'dtype' and 'grad': in the dtype or gradient, with equal values.
      skip: {name of an edge: why it is not tried}.
      before: {'torch' or 'jax': code that runs first and is not shown}.
      after: {'torch' or 'jax': code after it, whose last value is compared}.
      compare: a key of COMPARES.
      why: for `compare = "told"`, why it does not run.
      see: a page, such as 'chapters/01_arrays'.
      tolerance: how far values may lie apart, relative and absolute.
    """

    group: str
    number: int
    torch: str
    jax: str
    see: str
    differs: str = ""
    edges: dict = field(default_factory=dict)
    skip: dict = field(default_factory=dict)
    before: dict = field(default_factory=dict)
    after: dict = field(default_factory=dict)
    compare: str = "values"
    why: str = ""
    tolerance: float = 1e-5
    inputs: dict = field(default_factory=dict)

    @property
    def name(self):
        """How tests and messages call a row: its group and its code, on one line."""
        return f"{self.group}: {' '.join(self.torch.split())[:60]}"


@dataclass(frozen=True)
class Group:
    """One file of rows."""

    name: str
    title: str
    about: str
    rows: tuple


def names():
    """The groups, in the order of their files."""
    return [path.stem for path in sorted(FOLDER.glob("*.toml"))]


@cache
def group(name):
    """The group that stands in `rows/<name>.toml`.

    Raises:
      CourseError: no such file, or a row that is not as it should be.
    """
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        raise CourseError(f"no group is named '{name}'; known: {', '.join(names())}.")
    return read(name, path.read_text(encoding="utf-8"))


def all_rows():
    """Every row of the dictionary."""
    return [row for name in names() for row in group(name).rows]


def read(name, text):
    """The group that a text describes.

    Raises:
      CourseError: it is no TOML, or a row is not as it should be.
    """
    try:
        return _group(name, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{name}.toml: {error}.") from None


def _group(name, data):
    missing = {"title", "about", "see", "row"} - set(data)
    if missing:
        raise CourseError(f"{name}.toml: '{sorted(missing)[0]}' is missing.")
    known = _inputs(data, f"{name}.toml")
    rows = [
        _row(name, number, entry, data["see"], known)
        for number, entry in enumerate(data["row"], 1)
    ]
    return Group(name, data["title"], data["about"], tuple(rows))


def _row(group, number, entry, see, known):
    where = f"{group}.toml, row {number} ({str(entry.get('torch', '?'))[:40]!r})"
    unknown = set(entry) - set(Row.__dataclass_fields__) | {"group", "number"} & set(entry)
    if unknown:
        raise CourseError(f"{where}: unknown field '{sorted(unknown)[0]}'.")
    own = _inputs(entry, where)
    entry.pop("inputs", None)
    entry = {k: v.strip() if isinstance(v, str) else v for k, v in entry.items()}
    try:
        row = Row(**{"see": see, **entry}, group=group, number=number, inputs=known | own)
    except TypeError as error:
        raise CourseError(f"{where}: {error}.") from None
    problem = _problem(row)
    if problem:
        raise CourseError(f"{where}: {problem}.")
    return row


def _inputs(entry, where):
    try:
        return {key: Input.read(spec) for key, spec in entry.get("inputs", {}).items()}
    except ValueError as error:
        raise CourseError(f"{where}: {error}") from None


def _problem(row):
    if row.compare not in COMPARES:
        return f"compare is '{row.compare}', not one of {', '.join(COMPARES)}"
    if (row.compare == "told") != bool(row.why):
        return "'why' stands with compare = \"told\", and only there"
    odd = (set(row.edges) | set(row.skip)) - set(DIFFERENCES)
    if odd:
        return f"unknown edge '{sorted(odd)[0]}'; known: {', '.join(DIFFERENCES)}"
    return ""
