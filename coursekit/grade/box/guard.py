"""Inside the sandbox: remembers what checks lean on, and puts it back.

This is for honest accidents and for known tricks, not a boundary: code that runs in
the same process can get around it (see the instructors' page).
"""

import builtins
import importlib
import sys
import types

MODULES = (
    "builtins", "math", "operator", "functools", "itertools", "inspect", "contextlib",
    "numpy", "numpy.testing", "numpy.linalg",
    "jax", "jax.numpy", "jax.lax", "jax.nn", "jax.random", "jax.tree", "jax.tree_util",
    "jax.numpy.linalg", "jax.monitoring", "jax.export", "jax.debug",
    "tracecheck", "tracecheck.checks", "tracecheck.tracing", "tracecheck.jaxprs",
    "tracecheck.values", "tracecheck.purity", "tracecheck.keys", "tracecheck.donation",
    "tracecheck.gradients", "tracecheck.exported", "tracecheck._calls",
    "tracecheck._errors", "tracecheck._frames", "tracecheck._reach",
    "tracecheck._recorder", "tracecheck._retraces", "tracecheck._state",
)  # fmt: skip
CONSTANT = (bool, int, float, str, bytes, tuple, frozenset)
CODE = ("__code__", "__defaults__", "__kwdefaults__")
# Switches that a jitted program depends on; a submission may set them for itself.
SETTINGS = (
    "jax_enable_x64", "jax_disable_jit", "jax_debug_nans", "jax_debug_key_reuse",
    "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion",
)  # fmt: skip


class Guard:
    """A record of modules, classes, functions and settings, made before any answer."""

    def __init__(self):
        self.modules = {n: importlib.import_module(n) for n in MODULES}
        self.held = [
            (owner, name, value)
            for owner in (*self.modules.values(), *self._classes())
            for name, value in vars(owner).items()
            if callable(value) or isinstance(value, (types.ModuleType, property))
        ]
        self.held += _internal()
        owners = {id(owner): owner for owner, _, _ in self.held}
        self.kinds = [(owner, type(owner)) for owner in owners.values()]
        self.codes = []
        self.watch(value for _, _, value in self.held)
        self.constants = [
            (module, name, value) for module in self.modules.values()
            for name, value in vars(module).items()
            if module.__name__.startswith("tracecheck") and isinstance(value, CONSTANT)
        ]  # fmt: skip
        self.threads = len(sys._current_frames())
        self.settings = _settings()
        self.builtin_names = tuple(n for n in vars(builtins) if not n.startswith("_"))
        self._builtins = dict(vars(builtins))

    def watch(self, values):
        """Remember the code of functions, and of functions that they wrap."""
        for value in values:
            for _ in range(4):
                if isinstance(value, types.FunctionType):
                    self.codes.append((value, [getattr(value, part) for part in CODE]))
                inner = getattr(value, "__wrapped__", None)
                value = inner or getattr(value, "_implementation", None)

    def builtin(self, name):
        return self._builtins.get(name)

    def restore(self):
        """Put back what was replaced.

        Returns:
          list of str: what that was, in the order found.
        """
        sys.settrace(None)
        sys.setprofile(None)
        found = [*self._modules_back(), *self._kinds_back(), *self._attributes_back()]
        found += [*self._code_back(), *self._settings_back()]
        if len(sys._current_frames()) > self.threads:
            self.threads = len(sys._current_frames())
            found.append("a thread that runs on")
        return found

    def _classes(self):
        """Classes whose methods checks call: tracecheck's own, and JAX's arrays."""
        import jax.numpy as jnp

        own = [v for n, m in self.modules.items() if n.startswith("tracecheck")
               for v in vars(m).values()]  # fmt: skip
        classes = [v for v in own if isinstance(v, type) and "tracecheck" in v.__module__]
        return [*dict.fromkeys(classes), type(jnp.zeros(1))]

    def _modules_back(self):
        for name, module in self.modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                yield f"the module {name}"

    def _kinds_back(self):
        for owner, kind in self.kinds:
            if type(owner) is not kind:
                owner.__class__ = kind
                yield f"the class of {owner.__name__}"

    def _attributes_back(self):
        for owner, name, value in (*self.held, *self.constants):
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)
                yield f"{owner.__name__}.{name}"

    def _code_back(self):
        for function, parts in self.codes:
            for name, value in zip(CODE, parts):
                if getattr(function, name) is not value:
                    setattr(function, name, value)
                    yield f"the code of {function.__name__}"

    def _settings_back(self):
        import jax

        changed = [n for n, v in _settings().items() if v != self.settings[n]]
        for name in changed:
            jax.config.update(name, self.settings[name])
        return [f"the setting {name}" for name in changed]


def _internal():
    """Functions inside of NumPy and JAX that the public ones are made of."""
    import jax.numpy as jnp
    import numpy as np

    kinds = (types.FunctionType, np.ufunc, type(np.allclose), type(jnp.allclose))
    inside = [m for n, m in list(sys.modules.items()) if n.startswith(("jax._src", "numpy."))]
    return [
        (module, name, value) for module in inside
        for name, value in list(vars(module).items()) if isinstance(value, kinds)
    ]  # fmt: skip


def _settings():
    import jax

    return {n: getattr(jax.config, n) for n in SETTINGS if hasattr(jax.config, n)}
