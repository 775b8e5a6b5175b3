"""Runs checks apart from the learner's Python, in a sandbox of its own.

The check is the course's, unchanged. The name of the answer stands for a program: when
the check calls it, the worker that holds the answer exports it for arguments of these
shapes (`jax.export`), and only the StableHLO comes over here to be run. Nothing that a
learner's Python does while it is traced can reach the check.
"""

import base64
import json
import os
import re
import sys

from .exporting import KEY
from .worker import Session, describe, limit, silence, write_line

# A program may not name host code of its own choice. These belong to jaxlib, whose typed
# calls (_ffi) check shapes; the older ones take pointers and sizes as they come.
CUSTOM_CALL = re.compile(r'custom_call @"?([\w.$-]+)|call_target_name = "([^"]+)"')
ALLOWED = re.compile(
    r"lapack_\w+_ffi|Sharding|shape_assertion|annotate_device_placement|mhlo\.\w+|chlo\.\w+"
    r"|LuDecomposition|Eigh|Qr|cholesky|TopK|ApproxTopK"
)


class Remote:
    """Stands for an answer; a call runs what the worker exported for such arguments."""

    def __init__(self, name, fetch):
        self.__name__ = self.name = name
        self.fetch, self.programs = fetch, {}

    def __call__(self, *args):
        arrays, found = [], []
        tree = _shape_of(args, found)
        spec = {"args": tree, "leaves": [_described(value, arrays) for value in found]}
        key = json.dumps(spec)
        if key not in self.programs:
            self.programs[key] = _load(self.fetch(self.name, spec))
        return _wrapped(self.programs[key].call(*arrays))


def _described(value, arrays):
    """What the worker is told of an argument; arrays stay here."""
    import jax
    import jax.numpy as jnp

    if isinstance(value, (bool, int, float, str, type(None))):
        return {"value": value}
    kind = {}
    if jax.dtypes.issubdtype(getattr(value, "dtype", None) or float, jax.dtypes.prng_key):
        kind["key"] = str(jax.random.key_impl(value))
        value = jax.random.key_data(value)
    arrays.append(jnp.asarray(value))
    return kind | {"shape": arrays[-1].shape, "dtype": arrays[-1].dtype.name}


def _wrapped(tree):
    """Results with their typed keys."""
    import jax

    is_key = lambda node: isinstance(node, dict) and set(node) == {KEY}  # noqa: E731
    wrap = lambda node: jax.random.wrap_key_data(node[KEY]) if is_key(node) else node  # noqa: E731
    return jax.tree.map(wrap, tree, is_leaf=is_key)


def _shape_of(tree, leaves):
    """A pytree of dicts, lists and tuples as JSON; its leaves are collected."""
    if isinstance(tree, dict):
        return ["dict", [[k, _shape_of(v, leaves)] for k, v in sorted(tree.items())]]
    if isinstance(tree, (list, tuple)):
        kind = "list" if isinstance(tree, list) else "tuple"
        return [kind, [_shape_of(item, leaves) for item in tree]]
    leaves.append(tree)
    return ["leaf", len(leaves) - 1]


def _load(reply):
    from tracecheck import Exported

    if reply["error"]:
        raise RuntimeError(reply["error"])
    program = Exported.load(base64.b64decode(reply["program"]))
    for found in CUSTOM_CALL.finditer(program.text):
        target = found[1] or found[2]
        if not ALLOWED.fullmatch(target):
            raise RuntimeError(f"the program calls '{target}', which runs on the host")
    return program


class JudgeSession(Session):
    """A worker's session whose answers are all elsewhere."""

    def __init__(self, name, fetch):
        super().__init__(name)
        self.fetch = fetch

    def do_check(self, source, label, points, names):
        """Run a check in which `names` stand for exported programs."""
        remotes = {name: Remote(name, self.fetch) for name in names}
        vars(self.trusted).update(remotes)
        self.held |= remotes
        return super().do_check(source, label, points)


def main(requests, replies, limits):
    """Serve requests; in the middle of one, ask back for programs."""
    limit(limits)
    silence()
    with os.fdopen(requests, encoding="utf-8") as source:
        first = json.loads(source.readline())
        marks = {"token": first["token"]}

        def send(content):
            write_line(replies, content | marks)

        def fetch(name, spec):
            send({"need": name, "spec": spec})
            return json.loads(source.readline())

        session = JudgeSession(first["name"], fetch)
        while line := source.readline():
            request = json.loads(line)
            marks["nonce"] = request.pop("nonce")
            try:
                send(session.serve(request))
            except Exception as error:
                send({"passed": False, "says": describe(error), "flags": []})


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
