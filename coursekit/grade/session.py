"""Talk with a worker in its sandbox: one request, one reply, a time limit."""

import contextlib
import json
import os
import secrets
import select
import signal
import threading
import time


class Stopped(Exception):
    """The worker gave no reply; the message says why, for a learner to read."""


_live = set()
_stopping = threading.Event()


def stop_all():
    """End every worker of this process, and let none be started until `start_again`."""
    _stopping.set()
    for connection in list(_live):
        connection.kill()


def start_again():
    """Allow workers after `stop_all`."""
    _stopping.clear()


class Connection:
    """A running worker."""

    def __init__(self, sandbox, role="worker", name=""):
        if _stopping.is_set():
            raise Stopped("grading was stopped")
        self.token = secrets.token_hex(16)
        self.process, self._out, self._in = sandbox.start(role)
        _live.add(self)
        self._buffer = b""
        self._send({"token": self.token, "name": name})

    def ask(self, op, seconds, **content):
        """Send a request and wait for its reply.

        Args:
          op: the name of what is asked for.
          seconds: how long to wait.

        Raises:
          Stopped: the time is over, or the process has ended.
        """
        self._send({"op": op, **content})
        return self.wait(seconds)

    def wait(self, seconds):
        """The next reply that carries the token.

        Raises:
          Stopped: the time is over, or the process has ended.
        """
        deadline = time.monotonic() + seconds
        while True:
            reply = self._line(deadline, seconds)
            if reply.get("token") == self.token:
                return reply

    def tell(self, **content):
        """Send something that no reply is expected for."""
        self._send(content)

    def close(self):
        """End the process and everything that it started."""
        self.kill()
        for descriptor in (self._out, self._in):
            os.close(descriptor)
        self.process.wait()
        _live.discard(self)

    def kill(self):
        """End the process; whoever waits for a reply is told that it ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _send(self, content):
        data = (json.dumps(content) + "\n").encode()
        try:
            while data:
                data = data[os.write(self._out, data):]
        except BrokenPipeError:
            raise Stopped("its process ended") from None

    def _line(self, deadline, seconds):
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise Stopped(f"it took more than {seconds:g} seconds")
            got = os.read(self._in, 2**16)
            if not got:
                raise Stopped("its process ended")
            self._buffer += got
            if len(self._buffer) > 2**27:
                raise Stopped("it sent too much")
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            found = json.loads(line)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}
