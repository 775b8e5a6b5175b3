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


class Ended(Stopped):
    """Its process is no more. That can befall an honest one: it is worth a second try."""


MOST_BYTES = 2**25  # of one reply: a program with its constants, say
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


def _refuse_if_stopping():
    if _stopping.is_set():
        raise Stopped("grading was stopped")


class Connection:
    """A running worker."""

    def __init__(self, sandbox, role="worker", name=""):
        _refuse_if_stopping()
        self.token = secrets.token_hex(16)
        self.process, self._out, self._in = sandbox.start(role)
        _live.add(self)
        try:
            _refuse_if_stopping()  # `stop_all` may have come while the process started
        except Stopped:
            self.close()
            raise
        os.set_blocking(self._out, False)
        self._buffer, self._nonce = bytearray(), None
        self._send({"token": self.token, "name": name}, 60)

    def ask(self, op, seconds, **content):
        """Send a request and wait for its reply.

        Args:
          op: the name of what is asked for.
          seconds: how long to wait.

        Raises:
          Stopped: the time is over, the process has ended, or it has written what it
            was not asked for.
        """
        self._refuse_unasked()
        self._nonce = secrets.token_hex(8)  # nobody can reply to what was not asked yet
        self._send({"op": op, "nonce": self._nonce, **content}, seconds)
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
                if reply.get("nonce") != self._nonce:
                    raise Stopped("it wrote a reply of its own")
                return reply

    def tell(self, seconds, **content):
        """Send something that no reply is expected for.

        Raises:
          Stopped: it was not read within `seconds`, or the process has ended.
        """
        self._send(content, seconds)

    def close(self):
        """End the process and everything that it started; a second time, do nothing."""
        try:
            _live.remove(self)  # one thread alone gets past here
        except KeyError:
            return
        self.kill()
        for descriptor in (self._out, self._in):
            os.close(descriptor)
        self.process.wait()

    def kill(self):
        """End the process; whoever waits for a reply is told that it ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _refuse_unasked(self):
        """Between a reply and the next request there is silence, or somebody forges."""
        if self._buffer or select.select([self._in], [], [], 0)[0]:
            forged = self._buffer or os.read(self._in, 1)
            raise Stopped("it wrote a reply of its own") if forged else self._ended()

    def _ended(self):
        """The exception for a process that is no more; it names the signal, if one ended it."""
        look = os.WEXITED | os.WNOWAIT | os.WNOHANG  # `close` is the one to collect it
        patience = time.monotonic() + 1  # a pipe closes a moment before its process ends
        while not (end := os.waitid(os.P_PID, self.process.pid, look)):
            if time.monotonic() > patience:
                return Ended("its process ended")
            time.sleep(0.01)
        # bubblewrap exits with 128 and the number of the signal.
        number = end.si_status - 128 * (end.si_code == os.CLD_EXITED)
        known = {s.value: s.name for s in signal.Signals}  # not of all real-time ones
        name = f" ({known[number]})" if number in known else ""
        return Ended(f"its process ended{name}")

    def _send(self, content, seconds):
        """A process that was stopped, or reads no more, may not hold up the grader."""
        data = memoryview((json.dumps(content) + "\n").encode())
        deadline = time.monotonic() + seconds
        try:
            while data:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([], [self._out], [], left)[1]:
                    raise Stopped(f"it took more than {seconds:g} seconds")
                data = data[os.write(self._out, data):]
        except BrokenPipeError:
            raise self._ended() from None

    def _line(self, deadline, seconds):
        seen = 0
        while (end := self._buffer.find(b"\n", seen)) < 0:
            seen = len(self._buffer)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise Stopped(f"it took more than {seconds:g} seconds")
            got = os.read(self._in, 2**16)
            if not got:
                raise self._ended()
            self._buffer += got
            if len(self._buffer) > MOST_BYTES:
                raise Stopped("it sent too much")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}
