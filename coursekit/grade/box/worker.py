"""Runs inside the sandbox: executes cells and checks that the grader sends.

Of the course, the sandbox holds this package and `tracecheck`. Requests come in and
replies go out as JSON lines on two descriptors of their own; what a learner's code
prints goes nowhere. Every reply carries the token of its process, so that a line
printed by a learner is no reply.

Two namespaces keep what is trusted apart from what is not. The course's setup and
its checks run in one, cells of the submission in another that starts as a copy.
Afterwards only the names that an exercise asks for are handed over, so a redefined
`jnp` or `loss_fn` is never what a check sees.
"""

import ast
import base64
import json
import linecache
import os
import resource
import sys
import types

from .exporting import bind, export
from .guard import Guard


def main(requests, replies, limits):
    """Serve requests until they end.

    Args:
      requests, replies: descriptors, one JSON object a line.
      limits: {"memory": bytes of address space, "file": bytes, "processes": int,
        "cpu": seconds}; missing ones are not set.
    """
    limit(limits)
    silence()
    with os.fdopen(requests, encoding="utf-8") as source:
        first = json.loads(source.readline())
        session = Session(first["name"])
        hidden = hide(session)  # noqa: F841  kept, or the modules would end here
        for line in source:
            request = json.loads(line)
            marks = {"token": first["token"], "nonce": request.pop("nonce")}
            write_line(replies, session.serve(request) | marks)


def write_line(descriptor, content):
    """Write an object as one JSON line, however little a pipe takes at a time."""
    data = (json.dumps(content) + "\n").encode()
    while data:
        data = data[os.write(descriptor, data):]


def hide(session):
    """Put this program out of reach of `import`, and the submission in its place.

    Frames still lead here; an answer that only looks a name up finds nothing.

    Returns:
      dict: the modules, for the caller to keep alive.
    """
    ours = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in ("box", "__main__")}
    for name in ours:
        del sys.modules[name]
    sys.modules["__main__"] = session.own
    session.own.__name__ = "__main__"  # as in a notebook
    return ours


def silence():
    """Send what is printed nowhere: 200 MB of it cost nothing."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def limit(limits):
    kinds = {
        "memory": resource.RLIMIT_AS,
        "file": resource.RLIMIT_FSIZE,
        "processes": resource.RLIMIT_NPROC,
        "cpu": resource.RLIMIT_CPU,
    }
    for name, value in limits.items():
        resource.setrlimit(kinds[name], (value, value))


NO_HARM = ("the setting ", "a thread ")  # to be looked at, but no reason to fail a check


class Session:
    """The namespaces of one submission and what has been seen of it."""

    def __init__(self, name):
        self.trusted = types.ModuleType("submission")
        self.own = types.ModuleType("submission")
        sys.modules["submission"] = self.own
        self.shell = shell = Shell()
        self.own.get_ipython = lambda: shell  # a closure over self would lead to the guard
        self.own.display = lambda *args, **kwargs: None
        self.name, self.given, self.guard = name, {}, None
        self.held = {}  # what the checks' namespace holds, as the course left it

    def serve(self, request):
        """Do what a request asks for; its `op` is the name of a method."""
        return getattr(self, f"do_{request.pop('op')}")(**request)

    def do_setup(self, sources, label):
        """Run the course's own cells; their names reach the submission as well."""
        before = dict(vars(self.trusted))
        for source in sources:
            _execute(self.trusted, source, label)
        now = vars(self.trusted)
        new = {k: v for k, v in now.items() if before.get(k, self) is not v}
        vars(self.own).update({k: v for k, v in new.items() if k[:2] != "__"})
        self.given |= new
        self.held |= new
        self.guard = self.guard or Guard()
        self.guard.watch(new.values())
        return {}

    def do_cell(self, source, label):
        """Run a cell of the submission."""
        try:
            _execute(self.own, source, label)
        except Exception as error:
            return {"error": describe(error)}
        except BaseException as error:
            return {"error": f"{type(error).__name__} ended the cell"}
        return {"error": ""}

    def do_give(self, names):
        """Hand an exercise's answer over to its checks."""
        held = vars(self.own)
        found = [name for name in names if held.get(name) is not self.given.get(name)]
        answers = {name: held[name] for name in found if name in held}
        vars(self.trusted).update(answers)
        self.held |= answers
        return {"missing": [name for name in names if name not in held]}

    def do_check(self, source, label, points):
        """Run a check of the course, with everything it trusts put back in place."""
        from tracecheck import CheckFailed, reset_results, results

        flags = self._flags()
        reset_results()
        try:
            _execute(self.trusted, source, label)
            said = ""
        except CheckFailed as failure:
            said = str(failure)
        except BaseException as error:
            said = f"✗ {label} 0/{points:g}: {describe(error)}"
        own = stored_names(source)
        self.held |= {n: v for n, v in vars(self.trusted).items() if n in own}
        after = self._restore()
        meddled = [what for what in after if not what.startswith(NO_HARM)]
        flags += after
        won = [r.name for r in results() if r.earned == r.points > 0] == [label]
        if said == "" and (meddled or not won):
            said = f"✗ {label} 0/{points:g}: the answer changed {', '.join(meddled) or 'the check'}"
        return {"passed": said == "", "says": said, "flags": flags}

    def _restore(self):
        """Put back what checks lean on, their own names included; say what that was."""
        space = vars(self.trusted)
        swapped = [n for n, v in self.held.items() if space.get(n, self) is not v]
        space.update({name: self.held[name] for name in swapped})
        return [*self.guard.restore(), *(f"the check's name {n}" for n in swapped)]

    def do_export(self, name, spec):
        """The answer as StableHLO for arguments like these; nothing else is told."""
        from tracecheck import export_answer

        try:
            fn, arrays = bind(vars(self.own)[name], spec)
            program = export(export_answer, fn, arrays)
            return {"program": base64.b64encode(program).decode(), "error": ""}
        except BaseException as error:
            return {"program": "", "error": describe(error)}

    def _flags(self):
        found = self._restore()
        if self.shell.ast_transformers:
            found.append("IPython's ast_transformers")
        held = vars(self.own)
        names = [n for n in (*self.given, *self.guard.builtin_names) if n in held]
        for name in names:
            original = self.given.get(name, self.guard.builtin(name))
            if _is_code(original) and not _same(held[name], original):
                found.append(f"the name {name}")
        return found


class Shell:
    """Stands in for IPython: magics do nothing here."""

    def __init__(self):
        self.ast_transformers = []

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def stored_names(source):
    """Every name that a check of the course sets."""
    nodes = list(ast.walk(ast.parse(source)))
    found = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    found |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    aliases = (n for n in nodes if isinstance(n, ast.alias))
    return found | {(a.asname or a.name).partition(".")[0] for a in aliases}


def _is_code(value):
    return callable(value) or isinstance(value, types.ModuleType)


def _same(value, original):
    """Identical, or a function written in the very same words."""
    codes = [getattr(v, "__code__", None) for v in (value, original)]
    return value is original or (codes[0] is not None and codes[0] == codes[1])


def _execute(module, source, label):
    filename = f"<{label}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    exec(compile(source, filename, "exec"), vars(module))


def describe(error):
    try:
        text = str(error).strip().splitlines()
    except Exception:
        text = []
    name = type(error).__name__[:80]
    return f"{name}: {text[0][:200]}" if text else name


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
