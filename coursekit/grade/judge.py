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

from worker import Session, _describe, _limit, silence

# A program may not name host code of its own choice; these belong to jaxlib.
CUSTOM_CALL = re.compile(r'custom_call @"?([\w.$-]+)|call_target_name = "([^"]+)"')
ALLOWED = re.compile(
    r"lapack_\w+|Sharding|shape_assertion|annotate_device_placement|mhlo\.\w+|chlo\.\w+"
    r"|LuDecomposition|Eigh|Qr|cholesky|TopK|ApproxTopK"
)


class Remote:
    """Stands for an answer; a call runs what the worker exported for such arguments."""

    def __init__(self, name, fetch):
        self.__name__ = self.name = name
        self.fetch, self.programs = fetch, {}

    def __call__(self, *args):
        import jax
        import jax.numpy as jnp

        leaves, args_tree = [], _shape_of(args, found := [])
        arrays = []
        for value in found:
            if isinstance(value, (bool, int, float, str, type(None))):
                leaves.append({"value": value})
            else:
                value = jnp.asarray(value)
                arrays.append(value)
                leaves.append({"shape": value.shape, "dtype": value.dtype.name})
        spec = {"args": args_tree, "leaves": leaves}
        key = json.dumps(spec)
        if key not in self.programs:
            self.programs[key] = _load(self.fetch(self.name, spec))
        return jax.tree.map(jnp.asarray, self.programs[key].call(*arrays))


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
        return super().do_check(source, label, points)


def main(requests, replies, limits):
    """Serve requests; in the middle of one, ask back for programs."""
    _limit(limits)
    silence()
    with os.fdopen(requests, encoding="utf-8") as source:
        first = json.loads(source.readline())

        def send(content):
            data = (json.dumps(content | {"token": first["token"]}) + "\n").encode()
            while data:
                data = data[os.write(replies, data):]

        def fetch(name, spec):
            send({"need": name, "spec": spec})
            return json.loads(source.readline())

        session = JudgeSession(first["name"], fetch)
        while line := source.readline():
            try:
                send(session.serve(json.loads(line)))
            except Exception as error:
                send({"passed": False, "says": _describe(error), "flags": []})


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
