"""Types, arguments and equations in a few words."""

import itertools
import string

import jax


def type_of(value):
    """`f32[3]` for an array or tracer; containers keep their form; else its class."""
    if value is None:
        return "None"
    try:
        leaves, tree = jax.tree.flatten(value)
        if jax.tree_util.treedef_is_leaf(tree):
            return _type(jax.typeof(value))
        named = tree.unflatten([type_of(leaf) for leaf in leaves])
    except (TypeError, ValueError, OverflowError):
        return type(value).__name__
    return repr(named).replace("'", "")


def _type(aval):
    text = getattr(aval, "str_short", lambda **_: str(aval))(short_dtypes=True)
    return f"{text} weak" if getattr(aval, "weak_type", False) else text


def argument(value):
    """What an argument is to `jax.jit`: numbers of Python are named as such."""
    if isinstance(value, (bool, int, float, complex)):
        return f"Python {type(value).__name__}, {type_of(value)}"
    return type_of(value)


def _letters():
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            yield "".join(letters)


class Names:
    """Names the variables of a jaxpr a, b, c …, in the order in which they come."""

    def __init__(self, jaxpr):
        self._jaxpr, self._names, self._letters = jaxpr, {}, _letters()

    def _name(self, var):
        if var not in self._names:
            self._names[var] = next(self._letters)
        return self._names[var]

    def inputs(self):
        """`a:f32[3]` for each input, then for each array that is closed over."""
        given = (*self._jaxpr.invars, *self._jaxpr.constvars)
        return [self._typed(var) for var in given]

    def _typed(self, var):
        return f"{self._name(var)}:{var.aval.str_short(short_dtypes=True)}"

    def _operand(self, atom):
        if not hasattr(atom, "val"):
            return self._name(atom)
        if getattr(atom.aval, "shape", ()):
            return atom.aval.str_short(short_dtypes=True)
        return str(atom.val)

    def equation(self, eqn):
        """`d:f32[10] = dot_general c a`; parameters of the primitive are left out."""
        called = eqn.params.get("name") if eqn.primitive.name in ("jit", "pjit") else ""
        what = f"jit[{called}]" if called else eqn.primitive.name
        read = [self._operand(atom) for atom in eqn.invars]
        made = [self._typed(var) for var in eqn.outvars]
        return " ".join([*made, "=" if made else "", what, *read]).strip()

    def results(self):
        """The names of what is returned."""
        return [self._operand(atom) for atom in self._jaxpr.outvars]
