"""The grader's end of the boundary: carries programs from the worker to the judge."""

import threading

from coursekit.grade.session import Connection, Ended, Stopped
from coursekit.grade.text import clean

MOST_SERVED = 200  # checks of one process: compiled programs stay in its memory
_local = threading.local()
_all = []


class Judge:
    """A judge for one set, kept by each grading thread for the next submission."""

    def __init__(self, plan, sandbox, setup_seconds):
        self.plan, self.sandbox, self.seconds = plan, sandbox, setup_seconds
        self.connection, self.served = None, 0

    @classmethod
    def of(cls, run):
        """The judge of this thread, for the plan and sandbox of a run."""
        judge = getattr(_local, "judge", None)
        if judge is None or (judge.plan, judge.sandbox) != (run.plan, run.sandbox):
            if judge:
                judge.close()
            judge = _local.judge = cls(run.plan, run.sandbox, 120)
        judge.run = run
        return judge

    def check(self, task, check):
        """What the check says, "" when it passed.

        Raises:
          Stopped: the worker was lost while it exported the answer.
        """
        try:
            return self._says(task, check)
        except Lost as lost:
            raise lost.__cause__ from None
        except Stopped as stopped:
            self.close()
            return f"✗ {check.name} 0/{check.points:g}: {stopped}"

    def _says(self, task, check):
        try:
            return clean(self._ask(task, check)["says"])
        except Ended:  # of no fault of this answer, perhaps: it is kept for many
            self.close()
            return clean(self._ask(task, check)["says"])

    def _ask(self, task, check):
        connection = self._ready(task)
        limit = self.run.limits.check
        reply = connection.ask(
            "check", limit, source=check.source, label=check.name,
            points=check.points, names=task.names,
        )  # fmt: skip
        while "need" in reply:
            connection.tell(limit, **self._export(reply))
            reply = connection.wait(limit)
        return reply

    def _export(self, reply):
        try:
            told = self.run.worker.ask(
                "export", self.run.limits.check, name=reply["need"], spec=reply["spec"]
            )
            return {part: str(told.get(part, "")) for part in ("program", "error")}
        except Stopped as stopped:
            self.close()
            raise Lost from stopped

    def _ready(self, task):
        self.served += 1
        if self.served % MOST_SERVED == 0:
            self.close()
        if self.connection is None:
            self.connection = Connection(self.sandbox, "judge", self.plan.stem)
            _all.append(self)
            self._setup(self.plan.setup)
            for earlier in self.plan.tasks[: self.plan.tasks.index(task)]:
                self._setup(earlier.setup)
        self._setup(task.setup)
        return self.connection

    def _setup(self, sources):
        self.connection.ask("setup", self.seconds, sources=sources, label="setup")

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None


class Lost(Exception):
    """The worker, not the judge, stopped."""


def close_all():
    """End the judges of all threads."""
    while _all:
        _all.pop().close()
