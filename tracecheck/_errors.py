"""What went wrong inside a check, told in plain words on one line."""

import ast
import traceback

from tracecheck import _frames

_BY_CLASS = {
    "TracerBoolConversionError": "`if`, `while`, `and`, `or` or `not` was given a "
    "traced value, which is neither True nor False while tracing",
    "TracerIntegerConversionError": "a Python integer (an index, a length, a "
    "`range`) was needed, and there was a traced value, unknown while tracing",
    "TracerArrayConversionError": "NumPy was given a traced value, "
    "which holds no numbers while tracing",
    "NonConcreteBooleanIndexError": "a Boolean mask was used as an index, so that a "
    "shape would depend on values, unknown while tracing",
    "ConcretizationTypeError": "a Python number was needed, and there was a traced "
    "value, unknown while tracing",
    "UnexpectedTracerError": "a traced value was kept after its trace had ended",
    "KeyReuseError": "a random key was used twice",
}
_BY_WORDS = {
    "Shapes must be 1D sequences of concrete values": "a shape was made of a traced "
    "value, unknown while tracing",
    "Slice entries must be static integers": "a slice was given a traced bound, so "
    "that its length would depend on a value",
    "Array slice indices must have static start": "a slice was given a traced bound, "
    "so that its length would depend on a value",
    "Non-hashable static arguments": "a static argument cannot be hashed",
    "as an abstract array": "an argument of a compiled function, or a part of one, is "
    "neither an array nor a container that JAX knows",
    "is not a valid JAX type": "something that is no array was to be traced",
    "Cache keys should be comparable": "a static field of a class cannot be "
    "compared by `==`",
    "checking equality of metadata fields": "a static field of a class cannot be "
    "compared by `==`",
    "Array has been deleted": "an array was used after it had been donated",
    "Buffer has been deleted or donated": "an array was used after it had been donated",
    "JAX arrays are immutable": "JAX arrays are immutable, so items of them cannot "
    "be assigned",
}


def describe(error):
    """Say an exception's type, its first line and the user's line.

    Args:
        error: an exception that has been raised.

    Returns:
        One line of text.
    """
    said, frames = in_plain_words(error), _frames.user_frames(error.__traceback__)
    words = type(error).__name__ + (f": {said}" if said else "")
    return words + (f", at {_frames.where(*frames[-1])}" if frames else "")


def in_plain_words(error):
    """Say an exception's message on one line, JAX's best known ones in short."""
    for kind in type(error).__mro__:
        if kind.__name__ in _BY_CLASS:
            return _BY_CLASS[kind.__name__]
    lines = [line for line in str(error).splitlines() if line.strip()]
    for words, plain in _BY_WORDS.items():
        if lines and words in lines[0]:
            return plain
    return _frames.shorten(lines[0], 110) if lines else ""


def is_own_assert(error):
    """Whether `error` comes from an `assert` in the same file as the check."""
    if not isinstance(error, AssertionError):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1].f_code.co_filename == frames[0].f_code.co_filename


def asserted(error):
    """Split a failed `assert` into what was expected and what came.

    Args:
        error: the AssertionError of an `assert` statement.

    Returns:
        A pair of one-line texts.
    """
    frame, lineno = list(traceback.walk_tb(error.__traceback__))[-1]
    expected = in_plain_words(error) or f"the assertion in line {lineno} to hold"
    try:
        return expected, _left_side(frame, lineno) or "it is not so"
    except Exception:  # showing a value is a courtesy, and must not fail
        return expected, "it is not so"


def _left_side(frame, lineno):
    """`name` is value, for the left side of a comparison that changes nothing.

    A variable that is called `got` says no more than the line, which begins so.
    """
    test = _frames.assertion_at(frame, lineno).test
    if not isinstance(test, ast.Compare) or not _is_plain(test.left):
        return ""
    text = ast.unparse(test.left)
    value = repr(eval(text, frame.f_globals, frame.f_locals))
    if len(value) > 60 or "\n" in value:
        return ""
    return value if text == "got" else f"`{text}` is {value}"


# Calls that change nothing, so that a message may make them a second time.
_HARMLESS = {"abs", "bool", "float", "int", "len", "max", "min", "set", "sum", "type"}


def _is_plain(node):
    """Whether an expression only looks things up, or measures what it looks up."""
    plain = all(_is_plain_part(part) for part in ast.walk(node))
    return plain and not isinstance(node, ast.Constant)


def _is_plain_part(part):
    if isinstance(part, ast.Call):
        return isinstance(part.func, ast.Name) and part.func.id in _HARMLESS
    lookups = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Load)
    return isinstance(part, lookups)
