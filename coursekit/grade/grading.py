"""Grade everybody: submissions in, results out, in parallel, to be gone on with."""

import concurrent.futures as futures
from collections import deque
from dataclasses import dataclass, field

from coursekit.grade import collect, judge_link, runner, session, submissions
from coursekit.grade.result import digest
from coursekit.grade.store import Store, key_of
from coursekit.grade.text import line

AHEAD = 3  # submissions read ahead for each worker: the parent's memory stays flat


@dataclass
class Row:
    """One student: a result for every set."""

    student: str
    late: bool = False
    results: list = field(default_factory=list)

    @property
    def earned(self):
        return sum(r.earned for r in self.results if not r.reason)

    @property
    def graded(self):
        return bool(self.results) and not any(r.reason for r in self.results)

    @property
    def flags(self):
        return [f for r in self.results for f in r.flags]


class Grading:
    """A run of the grader.

    Args:
      plans: list of `plan.Plan`, one for every set.
      sandbox: a `sandbox.Sandbox`.
      out: the folder of results.
      resume: go on with results that are there.
      report: called with (rows done, rows in all) as it goes.
    """

    def __init__(self, plans, sandbox, out, resume=False, report=lambda done, total: None):
        self.plans, self.sandbox, self.report = plans, sandbox, report
        self.store = Store(out, key_of(plans, sandbox.limits), resume)
        self.known = self.store.known()
        self.rows = {}

    def run(self, students, executor, workers):
        """Grade all students.

        Args:
          students: what `submissions.find` returns.
          executor: any executor of concurrent.futures.
          workers: how many it runs at a time.

        Returns:
          list of Row, in order of student.
        """
        waiting, queue = {}, deque(students)
        try:
            while queue or waiting:
                while queue and len(waiting) < AHEAD * workers:
                    self._begin(queue.popleft(), executor, waiting)
                self._finish(waiting)
                self.report(len(self.rows) - self._open(waiting), len(students))
        except BaseException:
            session.stop_all()
            # What can't be cancelled runs in a thread, which may be using its judge. A
            # second Ctrl-C breaks this wait: judges were ended then, but aren't closed.
            futures.wait([future for future in waiting if not future.cancel()])
            judge_link.close_all()
            raise
        else:
            judge_link.close_all()
        finally:
            self.store.close()
        return self.sorted_rows()

    def sorted_rows(self):
        """What is known so far, with results in the order of the sets."""
        order = [p.stem for p in self.plans]
        for row in self.rows.values():
            row.results.sort(key=lambda r: order.index(r.stem))
        return [self.rows[s] for s in sorted(self.rows) if self.rows[s].results]

    def _begin(self, student, executor, waiting):
        job = collect.job(student, self.plans)
        row = self.rows[student.id] = Row(student.id, job.late, list(job.refused))
        for plan in self.plans:
            if plan.stem not in job.files:
                continue
            file, data = job.files[plan.stem]
            old = self.known.get((student.id, plan.stem, digest(data)))
            if old:
                row.results.append(old)
                continue
            future = executor.submit(runner.grade, plan, data, self.sandbox, file)
            waiting[future] = (student.id, plan.stem, file)

    def _finish(self, waiting):
        if not waiting:
            return
        done, _ = futures.wait(waiting, return_when=futures.FIRST_COMPLETED)
        for future in done:
            student, stem, file = waiting.pop(future)
            result = _result(future, stem, file)
            self.store.add(student, result)
            self.rows[student].results.append(result)

    def _open(self, waiting):
        return len({student for student, _, _ in waiting.values()})


def roster_rows(plans, names, rows):
    """A row that says 'nothing handed in' for every name that has none."""
    have = {row.student for row in rows}
    for name in names:
        if name not in have:
            reason = "nothing was handed in"
            results = [runner.SetResult(p.stem, reason=reason) for p in plans]
            yield Row(name, results=results)


def _result(future, stem, file):
    """What came of a submission; a fault of the grader is a reason, never a zero."""
    try:
        return future.result()
    except (futures.CancelledError, Exception) as error:
        text = line(str(error).partition("\n")[0], 120)
        reason = f"the grader failed on it ({type(error).__name__}: {text})"
        return runner.SetResult(stem, file, reason=reason)


__all__ = ["Grading", "Row", "roster_rows", "submissions"]
