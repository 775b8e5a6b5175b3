"""Grading on a Dask cluster: a worker dies in the middle, and nothing is lost."""

import json
import os
import signal
import threading
import time

import pytest

from coursekit.errors import CourseError
from coursekit.grade import cluster, grading, submissions
from tests.grade.conftest import all_right, data, learner, reference

STUDENTS = 12


@pytest.fixture
def handed_in(tmp_path):
    """Every third one is right in one question only."""
    folder = tmp_path / "in"
    folder.mkdir()
    some = {"three_step": reference()["three_step"]}
    for number in range(STUDENTS):
        notebook = learner(some) if number % 3 == 0 else all_right()
        (folder / f"s{number:02}.ipynb").write_bytes(data(notebook))
    return folder


def kill_a_worker(pids, results):
    """As soon as a first result is there."""
    patience = time.monotonic() + 120
    while time.monotonic() < patience and not results.stat().st_size:
        time.sleep(0.1)
    os.kill(pids[0], signal.SIGKILL)


@pytest.fixture
def local():
    """Two worker processes on this machine."""
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: make grading"
    )
    with distributed.LocalCluster(
        2, threads_per_worker=1, dashboard_address=None
    ) as running:
        yield running


def test_a_worker_that_dies_loses_nothing(handed_in, tmp_path, three, box, local):
    with cluster.executor(1, local.scheduler_address) as (executor, count):
        assert count == 2
        run = grading.Grading([three], box, tmp_path / "out")
        pids = [w.pid for w in local.workers.values()]
        killer = threading.Thread(target=kill_a_worker, args=(pids, run.store.path))
        killer.start()
        rows = run.run(submissions.find(handed_in), executor, count)
        killer.join()
    assert [r.earned for r in rows] == [3 if n % 3 == 0 else 10 for n in range(STUDENTS)]
    assert all(row.graded for row in rows)
    lines = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["student"] for line in lines) == [
        f"s{n:02}" for n in range(STUDENTS)
    ]


def test_a_full_disk_stops_a_cluster_and_keeps_what_is_done(
    handed_in, tmp_path, three, box, local, monkeypatch
):
    out, real = tmp_path / "out", os.fsync

    def full(descriptor):
        if len((out / "results.jsonl").read_bytes().splitlines()) > 2:
            raise OSError(28, "No space left on device")
        real(descriptor)

    with cluster.executor(1, local.scheduler_address) as (executor, count):
        run = grading.Grading([three], box, out)
        with monkeypatch.context() as disk, pytest.raises(CourseError, match="--resume"):
            disk.setattr(os, "fsync", full)
            run.run(submissions.find(handed_in), executor, count)
        assert len(run.store.path.read_bytes().splitlines()) == 3
        rows = grading.Grading([three], box, out, resume=True).run(
            submissions.find(handed_in), executor, count
        )
    assert [r.earned for r in rows] == [3 if n % 3 == 0 else 10 for n in range(STUDENTS)]
