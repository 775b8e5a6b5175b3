"""Attacks that do not pay: every answer is wrong, so the fair score is 0."""

import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from coursekit.grade import runner, session
from tests.grade.conftest import MASTER, WRONG, all_wrong, code, data


def opening(source):
    """All answers wrong, and this in the cell of the first one."""
    return all_wrong(centre=f"{source}\n{WRONG['three_centre']}")


def extra(source, names):
    """All answers wrong, and a cell of its own that the first answer leans on."""
    notebook = all_wrong(centre=f"def centre(x):\n    {names}\n    return x")
    notebook["cells"].insert(3, code(source, id="extra"))
    return notebook


# Code that stands before the first answer, and what the review is pointed at.
OPENINGS = {
    "jnp.allclose": (
        "import jax.numpy\njax.numpy.allclose = lambda *a, **k: True",
        "jax.numpy.allclose",
    ),
    "tracecheck's own comparison": (
        "import tracecheck.values as v\nv.expect_close = lambda *a, **k: None\n"
        "import tracecheck\ntracecheck.expect_close = v.expect_close",
        "tracecheck.values.expect_close",
    ),
    "the check's exit": (
        "import tracecheck\ntracecheck.check.__exit__ = lambda *a: True",
        "check.__exit__",
    ),
    "code of a function": (
        "import tracecheck.values as v\n"
        "v.expect_close.__code__ = (lambda *a, **k: None).__code__",
        "the code of expect_close",
    ),
    "ast_transformers": (
        "class Drop:\n    pass\nget_ipython().ast_transformers.append(Drop())",
        "IPython's ast_transformers",
    ),
    "shadowed jnp": (
        "class jnp:\n    allclose = staticmethod(lambda *a: True)",
        "the name jnp",
    ),
    "shadowed builtins": (
        "len = lambda x: 0\nabs = lambda x: 0",
        "the name abs",
    ),
    "redefined reference": (
        "reference = lambda x: centre(x)",
        "the name reference",
    ),
    "equality of arrays": (
        "import jax.numpy as jnp\n"
        "type(jnp.ones(1)).__eq__ = lambda a, b: jnp.ones((), bool)",
        "ArrayImpl.__eq__",
    ),
    "another module under the name of numpy": (
        "import sys, types\nsys.modules['numpy'] = types.ModuleType('numpy')",
        "the module numpy",
    ),
    "64 bits for everybody": (
        "import jax\njax.config.update('jax_enable_x64', True)",
        "the setting jax_enable_x64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPENINGS)
def test_meddling_does_not_pay_and_is_flagged(grade, name):
    source, flag = OPENINGS[name]
    result = grade(opening(source))
    assert result.earned == 0
    assert any(flag in f for f in result.flags), result.flags


def test_meddling_during_a_check_does_not_pay_and_is_flagged(grade):
    meddling = (
        "def centre(x):\n    import jax.numpy\n"
        "    jax.numpy.allclose = lambda *a, **k: True\n    return x"
    )
    result = grade(all_wrong(centre=meddling))
    assert result.earned == 0
    assert any("jax.numpy.allclose" in f for f in result.flags), result.flags


FAKE = (
    "import os, json\n"
    "for fd in range(3, 20):\n"
    "    try:\n"
    "        os.write(fd, json.dumps({'passed': True, 'says': '', 'flags': [],\n"
    "            'token': 'guess'}).encode() + b'\\n')\n"
    "    except OSError:\n"
    "        pass\n"
    "print(json.dumps({'passed': True, 'says': ''}))"
)


def test_a_fake_reply_is_no_reply(grade):
    assert grade(opening(FAKE)).earned == 0


def test_hidden_checks_and_solutions_are_not_on_the_disk(grade):
    """The answer is right only if it finds a solution in any file that it can read."""
    look = (
        "import os\n"
        "hits = []\n"
        "for top in ('/grader', '/tmp', '/home', '/root', '/work', '/etc', '/mnt', os.getcwd()):\n"
        "    for folder, _, names in os.walk(top):\n"
        "        if 'site-packages' in folder or folder.count('/') > 8:\n"
        "            continue\n"
        "        for name in names:\n"
        "            if name.endswith(('.py', '.ipynb')):\n"
        "                text = open(os.path.join(folder, name), errors='ignore').read()\n"
        "                hits += ['three_centre' in text and 'BEGIN SOL' + 'UTION' in text]\n"
        "import jax.numpy as jnp\n"
        "def centre(x):\n"
        "    return x - jnp.mean(x) if any(hits) else x"
    )
    assert grade(all_wrong(centre=look)).earned == 0


def test_nothing_outside_can_be_written(grade, tmp_path):
    target = tmp_path / "grades.csv"
    target.write_text("student,total\n")
    places = [str(target), str(MASTER), str(Path(runner.__file__))]
    write = (
        f"for place in {places!r}:\n    try:\n        open(place, 'a').write('hacked')\n"
        "    except OSError:\n        pass"
    )
    assert grade(opening(write)).earned == 0
    assert target.read_text() == "student,total\n"
    assert "hacked" not in MASTER.read_text() + Path(runner.__file__).read_text()


def test_there_is_no_network(grade):
    server = socket.create_server(("127.0.0.1", 0))
    reached = []
    threading.Thread(target=lambda: reached.append(server.accept()), daemon=True).start()
    port = server.getsockname()[1]
    knock = (
        f"import socket\ntry:\n    socket.create_connection(('127.0.0.1', {port}), 1)\n"
        "except OSError:\n    pass"
    )
    assert grade(opening(knock)).earned == 0
    assert not reached


def processes(mark):
    """Command lines that hold a text."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "cmdline").read_text():
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_no_process_is_left_behind(grade):
    mark = secrets.token_hex(8)
    daemon = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60) # {mark}'],\n"
        "                 start_new_session=True)"
    )
    assert grade(opening(daemon)).earned == 0
    patience = time.monotonic() + 20  # the kernel ends them in its own time
    while processes(mark) and time.monotonic() < patience:
        time.sleep(0.1)
    assert not processes(mark)


def test_a_fork_bomb_ends_with_its_sandbox(grade):
    if os.geteuid() == 0:
        pytest.skip("the kernel sets no limit on the processes of root")
    bomb = "import os\ntry:\n    while True:\n        os.fork()\nexcept OSError:\n    pass"
    assert grade(opening(bomb)).earned == 0


def test_the_environment_tells_nothing(three, box, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_GRADER", "1")
    spy = (
        "import os\nimport jax.numpy as jnp\ndef centre(x):\n"
        "    return x - jnp.mean(x) if 'SECRET_OF_THE_GRADER' in os.environ else x"
    )
    assert runner.grade(three, data(all_wrong(centre=spy)), box).earned == 0


def test_a_helper_cell_cannot_touch_the_checks(grade):
    notebook = extra("def pick(x):\n    return x\nreference = pick", "pick(x)")
    assert grade(notebook).earned == 0


def test_frames_are_no_way_past_the_boundary(grade):
    """A learner's function that marks the check as passed wins only in its process."""
    walk = (
        "def centre(x):\n    import sys, tracecheck.checks as c\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n"
        "        for value in list(frame.f_locals.values()):\n"
        "            if isinstance(value, c.check):\n"
        "                value._failure = lambda error: None\n"
        "                c._results[value.name] = c.Result(value.name, 2, 2)\n"
        "        frame = frame.f_back\n"
        "    return x"
    )
    result = grade(all_wrong(centre=walk))
    earned = {c.name: c.earned for t in result.tasks for c in t.checks}
    assert earned["centre_other_values"] == 0


TRICKS = {
    "reference.__globals__['expect_close'] = lambda *a, **k: None": "the check's name expect_close",
    "reference.__code__ = (lambda x: x).__code__": "the code of reference",
    "jnp.allclose.__wrapped__.__code__ = (lambda a, b: True).__code__": "the code of allclose",
    "sys.modules['jax.numpy'].__class__ = type('E', (types.ModuleType,), {})": "the class of jax.numpy",
    "sys.modules['numpy._core.numeric'].isclose = lambda *a: True": "numpy._core.numeric.isclose",
    "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()": "a thread",
}


def test_what_no_frame_is_needed_for_is_put_back(grade):
    lines = "\n".join(TRICKS)
    result = grade(opening(f"import sys, threading, time, types, jax.numpy as jnp\n{lines}"))
    assert result.earned == 0
    assert [flag for flag in TRICKS.values() if not any(flag in f for f in result.flags)] == []


def test_the_guard_is_not_reached_by_name(grade):
    """Neither by import nor by what the namespace holds."""
    reach = (
        "import box.guard, __main__, jax.numpy\n"
        "inside = [c.cell_contents for c in get_ipython.__closure__]\n"
        "guards = [box.guard.Guard, *(getattr(i, 'guard', None) for i in inside)]\n"
        "guards += [getattr(getattr(__main__, 'Session', None), 'guard', None)]\n"
        "for guard in guards:\n    try:\n        guard.restore = lambda *a: []\n"
        "    except AttributeError:\n        pass\n"
        "jax.numpy.allclose = lambda *a, **k: True"
    )
    result = grade(opening(reach))
    assert result.earned == 0
    assert any("jax.numpy.allclose" in flag for flag in result.flags)


def test_memory_is_no_disk_without_end(grade):
    """Only /tmp can be written to, up to its size; descriptors end with the process."""
    fill = (
        "import os\nwritten = 0\n"
        "for top in ('/dev/shm', '/dev', '/', '/grader', '/tmp'):\n    try:\n"
        "        for n in range(20):\n"
        "            with open(f'{top}/{n}', 'wb') as file:\n"
        "                written += file.write(bytes(2**22))\n    except OSError:\n        pass\n"
        "def centre(x):\n    return x - x.mean() if written > 80 * 2**20 else x\n"
        "try:\n    while True:\n        os.dup(0)\nexcept OSError:\n    pass"
    )
    assert grade(all_wrong(centre=fill)).earned == 0


FORGED = (
    "import sys, json, os\nf = sys._getframe()\nwhile f:\n"
    "    if 'first' in f.f_locals:\n"
    "        told = {'token': f.f_locals['first']['token']} | CONTENT\n"
    "        for n in range(20):\n"
    "            os.write(f.f_locals['replies'], (json.dumps(told) + '\\n').encode())\n"
    "    f = f.f_back\n"
)
ODD = "{'says': [1], 'flags': {'a': 1}, 'missing': 7, 'error': 5, 'program': [2]}"
WON = "{'says': '', 'flags': [], 'missing': [], 'error': ''}"


@pytest.mark.parametrize("content", [ODD, WON])
def test_replies_in_advance_are_refused(grade, content):
    result = grade(opening(FORGED.replace("CONTENT", content)))
    assert (result.earned, result.reason) == (0, "")


class Talker:
    """Stands for a sandbox; it runs a script that may write to `out`."""

    def __init__(self, script):
        self.script = script

    def start(self, role):
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-c", f"import os, time\nout = {theirs_out}\n{self.script}"],
            pass_fds=(theirs_in, theirs_out), start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        return process, ours_out, ours_in


TALK = {
    "reads no more": ("time.sleep(60)", "more than 1 seconds"),
    "a reply without end": ("while True: os.write(out, b'[' * 65536)", "sent too much|more than 1 s"),
    "a deep reply": ("os.write(out, b'[' * 60000 + b'\\n')", "its process ended"),
}


@pytest.mark.parametrize("name", TALK)
def test_no_worker_holds_up_the_grader(name):
    script, words = TALK[name]
    with session.Connection(Talker(script)) as connection:
        with pytest.raises(session.Stopped, match=words):
            if name == "reads no more":
                connection.tell(1, source="#" * 300_000)
            connection.wait(1 if "end" in name else 20)


def test_a_worker_that_starts_while_grading_stops_is_ended():
    class Slow(Talker):
        def start(self, role):
            session.stop_all()
            made = super().start(role)
            started.append(made[0])
            return made

    started = []
    try:
        with pytest.raises(session.Stopped, match="was stopped"):
            session.Connection(Slow("time.sleep(60)"))
    finally:
        session.start_again()
    assert started[0].poll() is not None
