"""A process of the grader's is lost, or grading is stopped: no honest answer pays for it."""

import concurrent.futures as futures
import gc
import os
import resource
import threading
import time

import pytest

from coursekit.errors import CourseError
from coursekit.grade import grading, judge_link, names, session, submissions
from coursekit.grade.result import SetResult
from coursekit.grade.session import Connection, Ended
from coursekit.grade.store import Store
from tests.grade.conftest import all_right, data


@pytest.fixture
def killed(monkeypatch):
    """Kill a connection's process at its nth request of a kind."""

    def at(op, times):
        real, seen = Connection.ask, []

        def ask(self, what, seconds, **content):
            if what == op:
                seen.append(self)
                if len(seen) in times:
                    self.kill()
            return real(self, what, seconds, **content)

        monkeypatch.setattr(Connection, "ask", ask)
        return seen

    return at


@pytest.mark.parametrize("op", ["cell", "give", "check", "export"])
def test_a_process_that_is_lost_once_costs_nothing(grade, killed, op):
    seen = killed(op, times={1})
    result = grade(all_right())
    assert len(seen) > 1
    assert result.earned == 10, [c.says for t in result.tasks for c in t.checks]


def test_a_judge_that_died_between_two_submissions_costs_nothing(grade):
    assert grade(all_right()).earned == 10
    judge_link._local.judge.connection.kill()
    assert grade(all_right()).earned == 10


def test_a_process_that_is_lost_twice_fails_its_check_alone(grade, killed):
    killed("check", times={1, 2})
    result = grade(all_right())
    said = [c.says for t in result.tasks for c in t.checks if c.says]
    assert result.earned < 10 and len(said) == 1
    assert "its process ended (SIGKILL)" in said[0]


@pytest.mark.parametrize(("end", "says"), [
    ("os.kill(os.getpid(), signal.SIGSEGV)", r"ended \(SIGSEGV\)$"),
    ("os._exit(3)", "ended$"),
    ("os._exit(128 + 40)", "ended$"),  # a signal without a name
])  # fmt: skip
def test_the_signal_is_named(box, end, says):
    with Connection(box) as connection:
        connection.ask("setup", 60, sources=["import os, signal"], label="setup")
        with pytest.raises(Ended, match=says):
            connection.ask("cell", 60, source=end, label="cell")


def test_a_connection_is_closed_once(box, monkeypatch):
    """Closed twice, its descriptors may be those of another by then."""
    closed, real = [], os.close
    connection = Connection(box)
    monkeypatch.setattr(os, "close", lambda d: (closed.append(d), real(d)))
    threads = [threading.Thread(target=connection.close) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(closed) == sorted({connection._in, connection._out})


@pytest.fixture
def handed_in(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("ada", "emil", "zoe"):
        (folder / f"{name}.ipynb").write_bytes(data(all_right()))
    return folder


@pytest.fixture
def closing(monkeypatch):
    """For each time that judges were closed, the threads that were grading then."""
    running, seen = set(), []
    real_grade, real_close = grading.runner.grade, judge_link.close_all

    def slow(*arguments):
        running.add(threading.get_ident())
        try:
            return real_grade(*arguments)
        finally:
            running.discard(threading.get_ident())

    def close_all():
        seen.append(set(running))
        real_close()

    monkeypatch.setattr(grading.runner, "grade", slow)
    monkeypatch.setattr(judge_link, "close_all", close_all)
    session.start_again()
    yield seen
    session.start_again()
    real_close()


def stopped_by(error, run, handed_in, monkeypatch):
    """Grade, with an error when the first result is to be written."""

    def add(*_):
        raise error

    monkeypatch.setattr(run.store, "add", add)
    with futures.ThreadPoolExecutor(2) as pool, pytest.raises(type(error)):
        run.run(submissions.find(handed_in), pool, 2)


def test_judges_are_closed_when_no_thread_uses_them(
    three, box, handed_in, closing, tmp_path, monkeypatch
):
    """A thread that is told to stop closes its judge itself."""
    run = grading.Grading([three], box, tmp_path / "out")
    stopped_by(OSError(28, "No space left on device"), run, handed_in, monkeypatch)
    assert closing == [set()]


def test_a_second_interrupt_closes_no_judge_that_is_in_use(
    three, box, handed_in, closing, tmp_path, monkeypatch
):
    run, real = grading.Grading([three], box, tmp_path / "out"), futures.wait

    def impatient(waiting, **how):
        if how:
            return real(waiting, **how)
        raise KeyboardInterrupt  # while it waits for what runs

    monkeypatch.setattr(grading.futures, "wait", impatient)
    stopped_by(KeyboardInterrupt(), run, handed_in, monkeypatch)
    assert closing == []


def test_a_line_that_the_disk_takes_in_part_is_no_result(tmp_path):
    """A write may end early without an error; the next one has none of the disk."""
    store = Store(tmp_path / "out", "key", resume=False)
    store.add("ada", SetResult("02_jit", sha="1"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = store.path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, limits[1]))
    try:
        with pytest.raises(CourseError, match="No space left on device.*--resume"):
            store.add("zoe", SetResult("02_jit", sha="2"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    store.close()
    assert store.path.stat().st_size == size + 20
    again = Store(tmp_path / "out", "key", resume=True)
    again.add("zoe", SetResult("02_jit", sha="2"))
    assert {student for student, _, _ in again.known()} == {"ada", "zoe"}
    again.close()


def test_cells_are_read_in_many_threads():
    """A collection in the middle of one tree lets another thread build its own."""
    switch = lambda phase, info: time.sleep(0)  # noqa: E731  another thread's turn
    threshold = gc.get_threshold()
    gc.callbacks.append(switch)
    gc.set_threshold(50)
    try:
        with futures.ThreadPoolExecutor(4) as pool:
            found = list(pool.map(names.bound, ["x = " + "-(" * 60 + "1" + ")" * 60] * 200))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(switch)
    assert found == [{"x"}] * 200
