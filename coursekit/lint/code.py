"""Rules about the code of chapters and exercise sets."""

import ast
import re
import statistics

from coursekit.lint.material import code_cells, tags

RETIRED = ("PRNGKey", "jax.tree_map", "DeviceArray", "pmap", "tree_multimap", "jax._src")
# Pages whose lesson is what became of a name.
EXPLAINED = {
    "PRNGKey": ("05_random", "old_tutorials", "tracecheck"),
    "jax.tree_map": ("old_tutorials",),
    "DeviceArray": ("old_tutorials",),
    "pmap": ("17_sharding", "old_tutorials"),
    "tree_multimap": ("old_tutorials",),
}
WIDTH, PAIR_WIDTH, MOST_LINES, USUAL_LINES, MOST_CELLS = 79, 42, 30, 15, 65
ON_PURPOSE = "# reuse on purpose"
# These derive or inspect; they do not draw from a key.
NOT_DRAWING = {
    "key", "PRNGKey", "fold_in", "key_data", "key_impl", "wrap_key_data", "clone",
}  # fmt: skip


def retired_names(material):
    """No name that today's JAX has left behind, except where that is the lesson."""
    for name, number, source, _ in _code(material):
        for word in RETIRED:
            stem = name.split("/")[-1].split(".")[0]
            allowed = stem in EXPLAINED.get(word, ())
            if re.search(rf"(?<![\w]){re.escape(word)}\b", source) and not allowed:
                yield f"{name}: cell {number} uses {word}, which JAX has left behind."


def widths(material):
    """Code fits the page: 79 columns, 42 in cells that stand side by side."""
    for name, number, source, cell_tags in _code(material):
        most = PAIR_WIDTH if {"torch", "jax"} & set(cell_tags) else WIDTH
        longest = max((len(line) for line in source.splitlines()), default=0)
        if longest > most and not _lone_torch(material, name, number):
            yield f"{name}: cell {number} is {longest} columns wide, at most {most}."


def _lone_torch(material, name, number):
    """Whether a torch or jax cell has no partner beside it, and so the whole width."""
    if name not in material.pages:
        return False
    cells = material.pages[name].cells
    index = number - 1
    here = set(tags(cells[index]))
    before = set(tags(cells[index - 1])) if index else set()
    after = set(tags(cells[index + 1])) if index + 1 < len(cells) else set()
    paired = ("torch" in here and "jax" in after) or ("jax" in here and "torch" in before)
    longest = max(len(line) for line in cells[index].source.splitlines())
    return not paired and longest <= WIDTH


def lengths(material):
    """Cells are short, and chapters have an end."""
    for name, page in material.pages.items():
        sizes = [(i, len(c.source.splitlines())) for i, c in code_cells(page)]
        for number, size in sizes:
            if size > MOST_LINES:
                yield f"{name}: cell {number} has {size} lines, at most {MOST_LINES}."
        if name.startswith("chapters/"):
            yield from _chapter_lengths(name, page, [s for _, s in sizes])


def _chapter_lengths(name, page, sizes):
    count = len(page.cells)
    if count > MOST_CELLS:
        yield f"{name}: {count} cells, at most {MOST_CELLS}; split the lesson."
    if len(sizes) > 1 and statistics.quantiles(sizes, n=10)[-1] > USUAL_LINES:
        yield f"{name}: one code cell in ten is over {USUAL_LINES} lines; split them."


def torch_optional(material):
    """What a PyTorch cell defines is used by PyTorch cells alone."""
    for name, page in material.pages.items():
        from_torch, elsewhere = set(), set()
        for number, cell in code_cells(page):
            bound, used = _names(cell.source)
            if "torch" in tags(cell):
                from_torch |= bound - elsewhere
                continue
            for word in sorted((used - bound) & from_torch):
                yield (
                    f"{name}: cell {number} needs '{word}' of a PyTorch cell; tag it "
                    "torch or define it outside."
                )
            elsewhere |= bound
            from_torch -= bound


def keys_once(material):
    """No key is drawn from twice, except in a line that says '# reuse on purpose'."""
    for name, page in material.pages.items():
        spent = {}
        for number, cell in code_cells(page):
            if "raises-exception" not in tags(cell):
                for word in _spend(cell.source, spent):
                    yield f"{name}: cell {number} draws twice from the key '{word}'."
    for name, read in material.masters.items():
        for cell in (*read.common, *(c for e in read.exercises for c in e.cells)):
            if not cell.markdown and cell.kind != "wrong":
                for word in _spend(cell.source, {}):
                    yield f"{name}: cell at line {cell.line} draws twice from '{word}'."


def _spend(source, spent):
    """Names of keys that the top level of a cell draws from again.

    Args:
      spent: {name: True} of keys that are used up, carried from cell to cell.
    """
    lines = source.splitlines()
    for statement in _tree(source).body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.For, ast.While)):
            continue
        drawn = [
            node.args[0].id for node in _at_top(statement)
            if _draws(node) and ON_PURPOSE not in lines[node.lineno - 1]
        ]  # fmt: skip
        for word in drawn:
            if spent.get(word) or drawn.count(word) > 1:
                yield word
            spent[word] = True
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                spent.pop(node.id, None)


def _at_top(node):
    """Nodes that run with the cell: not the bodies of functions and classes."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _at_top(child)


def _draws(node):
    """Whether a node is `jax.random.something(name, …)` that uses the key up."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) in ("jax.random", "random", "jr")
        and node.func.attr not in NOT_DRAWING
        and bool(node.args)
        and isinstance(node.args[0], ast.Name)
    )


def _names(source):
    """(names bound at the top level, names read) of a cell."""
    tree = _tree(source)
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    bound = {
        n.id for n in ast.walk(tree)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }  # fmt: skip
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(a.asname or a.name).split(".")[0] for a in node.names}
    return bound, read


def _tree(source):
    """The syntax tree of a cell; lines that only IPython knows are left out."""
    lines = source.splitlines()
    plain = ["" if line.lstrip().startswith(("%", "!")) else line for line in lines]
    try:
        return ast.parse("\n".join(plain))
    except SyntaxError:
        return ast.parse("")


def _code(material):
    """(name, number, source, tags) of every code cell of the course."""
    for name, page in material.pages.items():
        for number, cell in code_cells(page):
            yield name, number, cell.source, tags(cell)
    for name, read in material.masters.items():
        for cell in (*read.common, *(c for e in read.exercises for c in e.cells)):
            if not cell.markdown and cell.kind != "wrong":
                yield name, f"at line {cell.line}", cell.source, ()


RULES = (retired_names, widths, lengths, torch_optional, keys_once)
