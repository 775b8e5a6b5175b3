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
        self.codes = [
            (value, [getattr(value, part) for part in CODE])
            for _, _, value in self.held
            if isinstance(value, types.FunctionType)
        ]
        self.settings = _settings()
        self.builtin_names = tuple(n for n in vars(builtins) if not n.startswith("_"))
        self._builtins = dict(vars(builtins))

    def builtin(self, name):
        return self._builtins.get(name)

    def restore(self):
        """Put back what was replaced.

        Returns:
          list of str: what that was, in the order found.
        """
        sys.settrace(None)
        sys.setprofile(None)
        found = [*self._modules_back(), *self._attributes_back(), *self._code_back()]
        return found + self._settings_back()

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

    def _attributes_back(self):
        for owner, name, value in self.held:
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


def _settings():
    import jax

    return {n: getattr(jax.config, n) for n in SETTINGS if hasattr(jax.config, n)}
