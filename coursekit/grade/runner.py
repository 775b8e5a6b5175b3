"""Grade one notebook: drive a worker through cells and checks, and outlive it.

When a cell or a check hangs, or ends its process twice, that item fails; the process
is started again without it, and everything else still counts.
"""

import time

from coursekit.grade import match
from coursekit.grade.judge_link import Judge
from coursekit.grade.result import CheckResult, SetResult, TaskResult, digest
from coursekit.grade.session import Connection, Ended, Stopped
from coursekit.grade.text import clean, line

SETUP_SECONDS = 120
MOST_FLAGS = 20
MOST_STARTS = 5  # of a worker for one answer: a cell that stops it costs one, or two


def grade(plan, data, sandbox, file=""):
    """Grade one submitted notebook.

    Args:
      plan: a `plan.Plan`.
      data: the bytes of the notebook.
      sandbox: a `sandbox.Sandbox`.
      file: its name, for the result.

    Returns:
      SetResult; one with a `reason` where it can't be graded.
    """
    began = time.monotonic()
    result = SetResult(plan.stem, file, digest(data))
    try:
        work = match.match(plan, *match.read(data))
        Run(plan, work, sandbox, result).all_tasks()
    except match.NotGraded as reason:
        result.reason = str(reason)
    result.seconds = round(time.monotonic() - began, 3)
    return result


class Run:
    """One notebook in the making of its result."""

    def __init__(self, plan, work, sandbox, result):
        self.plan, self.work, self.sandbox, self.result = plan, work, sandbox, result
        self.limits = sandbox.limits
        self.dropped = {}  # (task id, cell number): why it is not run again
        self.ended = set()  # cells and checks whose process has ended once
        self.worker, self.done = None, []

    def all_tasks(self):
        """Fill the result, task by task."""
        try:
            for task in self.plan.tasks:
                self.result.tasks.append(self._task(task))
                self.done.append(task)
        finally:
            self._stop()

    def _task(self, task):
        found = TaskResult(task.id, task.title)
        problem = self._answer(task)
        for check in task.checks:
            says, flags = self._check(task, check, problem)
            earned = 0 if says else check.points
            found.checks.append(
                CheckResult(check.name, check.points, earned, check.hidden, says, check.apart)
            )
            for flag in flags:
                self._flag(f"{task.id}: {flag}")
        found.problem = problem
        return found

    def _flag(self, text):
        if text not in self.result.flags and len(self.result.flags) < MOST_FLAGS:
            self.result.flags.append(text)

    def _answer(self, task):
        """Run an answer's cells; start again without a cell that stops the worker.

        Returns:
          str: what went wrong, or "".
        """
        if task.id in self.work.missing:
            return "its answer is missing: the cell was deleted, or its function renamed"
        for _ in range(min(2 * len(self.work.cells[task.id]) + 1, MOST_STARTS)):
            try:
                self._ready()
                return self._run_cells(task)
            except Stopped:
                self._stop()
        return "it could not be run"

    def _ready(self):
        """A worker that has run everything up to now."""
        if self.worker is None:
            self.worker = self._start()
            for task in self.done:
                self._run_cells(task)

    def _start(self):
        for _ in range(2):
            worker = Connection(self.sandbox, name=self.plan.stem)
            try:
                worker.ask("setup", SETUP_SECONDS, sources=self.plan.setup, label="setup")
                return worker
            except Stopped as stopped:
                worker.close()
                reason = str(stopped)
        raise match.NotGraded(f"the set's own setup could not be run: {reason}")

    def _run_cells(self, task):
        ask, problem = self.worker.ask, ""
        ask("setup", SETUP_SECONDS, sources=task.setup, label=f"setup of {task.id}")
        for number in range(len(self.work.cells[task.id])):
            problem = self._run_cell(task, number) or problem
        missing = ask("give", self.limits.answer, names=task.names).get("missing")
        return "" if isinstance(missing, list) and len(missing) < len(task.names) else problem

    def _run_cell(self, task, number):
        """What a cell said when it failed; one that stopped the worker is not run again."""
        key, source = (task.id, number), self.work.cells[task.id][number]
        if key in self.dropped:
            return self.dropped[key]
        try:
            reply = self.worker.ask("cell", self.limits.answer, source=source, label=task.id)
        except Stopped as stopped:
            if not self._again(key, stopped):
                self.dropped[key] = str(stopped)
            raise
        return clean(reply.get("error", ""))

    def _check(self, task, check, problem):
        """(what it says, flags) of one check."""
        if problem:
            return f"✗ {check.name} 0/{check.points:g}: {problem}", []
        try:
            self._ready_for(task)
            if check.apart:
                return Judge.of(self).check(task, check), []
            reply = self.worker.ask(
                "check", self.limits.check, source=check.source, label=check.name,
                points=check.points,
            )  # fmt: skip
            return _told(reply, check)
        except Stopped as stopped:
            self._stop()
            if self._again((task.id, check.name), stopped):
                return self._check(task, check, problem)
            return f"✗ {check.name} 0/{check.points:g}: {stopped}", []

    def _again(self, what, stopped):
        """Whether to try a cell or a check once more: its process ended for the first time."""
        first = isinstance(stopped, Ended) and what not in self.ended
        self.ended.add(what)
        return first

    def _ready_for(self, task):
        """A worker that has run this task's answer too, after one was lost."""
        if self.worker is None:
            self._ready()
            self._run_cells(task)

    def _stop(self):
        if self.worker:
            self.worker.close()
            self.worker = None


def _told(reply, check):
    """(what a check says, flags) of a reply: a submission may have written it."""
    says, flags = reply.get("says", "it gave no verdict"), reply.get("flags", [])
    flags = flags if isinstance(flags, list) else ["a reply of its own"]
    says = f"✗ {check.name} 0/{check.points:g}: an odd reply" if not isinstance(says, str) else says
    return clean(says), [line(flag) for flag in flags[:MOST_FLAGS]]
