"""Start a worker under bubblewrap: no network, no other files, as nobody.

https://github.com/containers/bubblewrap
"""

import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from coursekit.errors import CourseError

HERE = Path(__file__).parent
# Found, not imported: the grader's own process needs no JAX, and stays small.
LIBRARY = Path(importlib.util.find_spec("tracecheck").origin).parent
INSIDE = "/grader"
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin")
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")
GB = 2**30


@dataclass(frozen=True)
class Limits:
    """What one submission may use; times are seconds, sizes are bytes."""

    answer: float = 20
    check: float = 20
    memory: int = 8 * GB
    file: int = 64 * 2**20
    processes: int = 256
    cpu: int = 600


@dataclass(frozen=True)
class Sandbox:
    """How workers are started; it can be pickled and used on another machine.

    Attributes:
      bare: run without bubblewrap, for machines that have none.
      cache: folder of JAX's compilation cache, read-only inside, or "".
      fills: the cache may be written to: for the course's own answers alone.
    """

    limits: Limits = Limits()
    bare: bool = False
    cache: str = ""
    fills: bool = False

    def start(self, role="worker"):
        """Start a process of its own.

        Returns:
          (process, descriptor to write requests to, descriptor to read replies from)
        """
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        command = [
            sys.executable, "-s", "-B", "-m", f"box.{role}",
            str(theirs_in), str(theirs_out), json.dumps(self._limits(role)),
        ]  # fmt: skip
        try:
            process = subprocess.Popen(
                [*self._wrap(), *command],
                pass_fds=(theirs_in, theirs_out), env=self._environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return process, ours_out, ours_in

    def _limits(self, role):
        limits = self.limits
        found = {"memory": limits.memory, "file": limits.file}
        if role != "judge":  # it serves many submissions, each check with its time limit
            found["cpu"] = limits.cpu
        # The kernel counts all processes of a user, and none of root's.
        return found if self.bare else found | {"processes": _processes(limits)}

    @property
    def _has_cache(self):
        return bool(self.cache) and os.path.isdir(self.cache)  # not on another machine

    def _wrap(self):
        if self.bare:
            return []
        folders = [*SYSTEM, sys.prefix, sys.base_prefix, *_site_packages()]
        command = [
            _bubblewrap(), "--unshare-all", "--die-with-parent", "--new-session",
            "--cap-drop", "ALL", "--uid", "65534", "--gid", "65534",
            "--hostname", "sandbox", "--proc", "/proc", "--dev", "/dev",
            "--size", str(self.limits.file), "--tmpfs", "/tmp", "--chdir", "/tmp",
        ]  # fmt: skip
        for folder in dict.fromkeys(folders):
            if os.path.islink(folder):
                command += ["--symlink", os.readlink(folder), folder]
            elif os.path.isdir(folder):
                command += ["--ro-bind", folder, folder]
        for path in SETTINGS:
            command += ["--ro-bind-try", path, path]
        for package in (HERE / "box", LIBRARY):
            command += ["--ro-bind", str(package), f"{INSIDE}/{package.name}"]
        if self._has_cache:
            command += ["--bind" if self.fills else "--ro-bind", self.cache, f"{INSIDE}/cache"]
        # All that can be written to lies in memory, so it is bounded: /tmp and nothing else.
        return [*command, "--size", str(2**20), "--tmpfs", "/dev/shm",
                "--remount-ro", "/dev", "--remount-ro", "/", "--"]  # fmt: skip

    def _environment(self):
        python_path = f"{HERE}:{LIBRARY.parent}" if self.bare else INSIDE
        found = {
            "PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8",
            "PYTHONPATH": python_path, "PYTHONHASHSEED": "0",
            "JAX_PLATFORMS": "cpu", "MPLBACKEND": "agg", "MPLCONFIGDIR": "/tmp",
            # One thread a worker: as many workers as cores share the machine.
            "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        if self._has_cache:
            found |= {
                "JAX_COMPILATION_CACHE_DIR": self.cache if self.bare else f"{INSIDE}/cache",
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            }
        return found


def sandbox(limits, bare=False):
    """A sandbox that works here.

    Args:
      bare: the user has asked for none.

    Raises:
      CourseError: bubblewrap is missing or may not make namespaces, and `bare` is
        not set; the message says what to do.
    """
    made = Sandbox(limits, bare)
    if not bare:
        _try_out(made)
    return made


def _bubblewrap():
    return shutil.which("bwrap") or "/usr/bin/bwrap"


def _try_out(made):
    remedy = (
        "install the package bubblewrap, or pass --no-sandbox to run submissions with "
        "your own rights"
    )
    if not shutil.which("bwrap"):
        raise CourseError(f"bubblewrap is not installed, so nothing was run: {remedy}.")
    done = subprocess.run([*made._wrap(), "true"], capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CourseError(f"bubblewrap can't make a sandbox here ({reason}): {remedy}.")


def _processes(limits):
    """The limit that the kernel is given: it counts what the user runs already."""
    if os.geteuid() == 0:
        return limits.processes
    mine = 0
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                mine += len(os.listdir(f"/proc/{entry.name}/task"))
        except OSError:  # it has ended in the meantime
            continue
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = mine + limits.processes
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)


def _site_packages():
    return [sysconfig.get_path(p) for p in ("purelib", "platlib")]
