"""Which lines of a traceback belong to the reader, and which to libraries."""

import ast
import functools
import linecache
import os
import sys
import sysconfig

import jax
import jaxlib
import numpy

_HERE = os.path.dirname(os.path.abspath(__file__))


@functools.cache
def _foreign_folders():
    """Folders of what is never examined: JAX, NumPy and tracecheck itself."""
    modules = (jax, jaxlib, numpy)
    folders = [_HERE, *(os.path.dirname(module.__file__) for module in modules)]
    return tuple(folder + os.sep for folder in folders)


@functools.cache
def _site_folders():
    return tuple(sysconfig.get_path(p) + os.sep for p in ("purelib", "platlib"))


@functools.cache
def _library_folders():
    standard = sysconfig.get_path("stdlib") + os.sep
    return (*_foreign_folders(), *_site_folders(), standard)


@functools.cache
def is_user_file(filename, module=None):
    """Whether code belongs to a notebook, an answer or a test, not to a library.

    Args:
        filename: of its code object.
        module: the `__name__` among its globals, which decides about code that was
            compiled from a string, such as a dataclass's `__init__`.
    """
    if filename.startswith("<"):
        if filename.startswith("<frozen") or str(module).startswith("namedtuple_"):
            return False
        filename = getattr(sys.modules.get(module), "__file__", None) or filename
    return not os.path.abspath(filename).startswith(_library_folders())


def is_user_frame(frame):
    """Whether a frame runs code of a notebook, an answer or a test."""
    return is_user_file(frame.f_code.co_filename, frame.f_globals.get("__name__"))


def own_frames(fn):
    """A test for frames of the user, or of the package that `fn` is from.

    An installed package counts as the user's when its own function is examined.
    """
    module = sys.modules.get(str(getattr(fn, "__module__", "")).partition(".")[0])
    path = getattr(module, "__file__", None) or ""
    if os.path.basename(path) == "__init__.py":
        path = os.path.dirname(path) + os.sep
    if path.startswith(_foreign_folders()) or not path.startswith(_site_folders()):
        return is_user_frame
    return lambda f: is_user_frame(f) or f.f_code.co_filename.startswith(path)


def user_frames(traceback):
    """List `(frame, line number)` of the user's frames, outermost first."""
    found = []
    while traceback is not None:
        if is_user_frame(traceback.tb_frame):
            found.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


def source_line(frame, lineno):
    """Return the stripped source text of a line, or '' where it is unknown."""
    return linecache.getline(frame.f_code.co_filename, lineno, frame.f_globals).strip()


def assertion_at(frame, lineno):
    """Parse the `assert` statement that a line is part of.

    Raises:
        SyntaxError: when the source is not plain Python.
        StopIteration: when there is none.
    """
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    nodes = ast.walk(ast.parse("".join(lines)))
    asserts = (node for node in nodes if isinstance(node, ast.Assert))
    return next(node for node in asserts if node.lineno <= lineno <= node.end_lineno)


def where(frame, lineno, width=60):
    """Describe a line in a few words: its function, its number, its text."""
    name = _function(frame.f_code.co_qualname)
    place = f"line {lineno}" if name == "<module>" else f"line {lineno} of `{name}`"
    text = source_line(frame, lineno)
    return f"{place}: `{shorten(text, width)}`" if text else place


def _function(qualname):
    """The innermost name that the source has: Python 3.12 inlines comprehensions."""
    parts = qualname.split(".")
    named = [p for p in parts if p == "<lambda>" or not p.startswith("<")]
    return named[-1] if named else "<module>"


def shorten(text, width=60):
    """Cut `text`, made one line, to at most `width` characters."""
    text = " ".join(str(text).split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"
