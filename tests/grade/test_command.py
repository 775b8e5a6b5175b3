"""`coursekit grade` as an instructor runs it."""

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from coursekit.cli import main
from tests.coursekit.conftest import plain
from tests.grade.conftest import all_right, all_wrong, data

pytestmark = pytest.mark.usefixtures("box")
QUICK = ["--seconds", "15", "-j", "2"]


def run(*arguments):
    """(exit status, text) of the command."""
    done = CliRunner().invoke(main, ["grade", *map(str, arguments)])
    return done.exit_code, plain(done.output)


def rows(out):
    with open(out / "grades.csv", encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


@pytest.fixture
def handed_in(tmp_path):
    """A right one, a wrong one and an empty file."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "ada.ipynb").write_bytes(data(all_right()))
    (folder / "emil.ipynb").write_bytes(data(all_wrong(step="def step(w, x):")))
    (folder / "zoe.ipynb").write_bytes(b"")
    return folder


def digests(folder):
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.rglob("*") if p.is_file()
    }  # fmt: skip


def test_a_class_is_graded(course, handed_in, tmp_path):
    before, out = digests(handed_in), tmp_path / "out"
    (tmp_path / "roster").write_text("ada\nemil\nzoe\nnora\n")
    status, text = run("01_three", handed_in, "-o", out, "--roster", tmp_path / "roster", *QUICK)
    assert status == 3, text
    assert digests(handed_in) == before
    assert "2 of 4 graded, 5.0 of 10 points in the mean" in text
    table = rows(out)
    assert [table[n]["total"] for n in ("ada", "emil", "nora", "zoe")] == ["10", "0", "", ""]
    assert table["ada"]["three_centre"] == "4" and table["zoe"]["three_centre"] == ""
    assert table["zoe"]["status"] == "not graded: the file is empty"
    assert table["nora"]["status"] == "not graded: nothing was handed in"
    students = json.loads((out / "grades.json").read_text())["students"]
    assert [s["total"] for s in students] == [10, 0, None, None]
    assert students[0]["sets"][0]["tasks"][0]["checks"][0]["earned"] == 2


def test_feedback_shows_messages_and_hides_what_is_hidden(course, handed_in, tmp_path):
    out = tmp_path / "out"
    run("01_three", handed_in, "-o", out, *QUICK)
    page = (out / "feedback" / "emil.html").read_text()
    assert "expected the vector without its mean" in page
    assert "hidden check" in page and "centre_other_values" not in page
    assert "IndentationError" in page
    assert "http" not in page
    assert "10 / 10" in (out / "feedback" / "ada.html").read_text()
    assert "the file is empty" in (out / "feedback" / "zoe.html").read_text()


def test_resume_grades_nothing_twice(course, handed_in, tmp_path):
    out = tmp_path / "out"
    run("01_three", handed_in, "-o", out, *QUICK)
    status, text = run("01_three", handed_in, "-o", out, *QUICK)
    assert status == 1 and "pass --resume to go on" in text
    lines = (out / "results.jsonl").read_bytes()
    with open(out / "results.jsonl", "ab") as file:
        file.write(b'{"key": "cut o')  # a crash in the middle of a line
    raises = "def centre(x):\n    raise ValueError('\\ud800')"
    (handed_in / "zoe.ipynb").write_bytes(data(all_wrong(centre=raises)))
    assert run("01_three", handed_in, "-o", out, "--resume", *QUICK)[0] == 0
    added = (out / "results.jsonl").read_bytes()[len(lines):].splitlines()
    assert [json.loads(line)["student"] for line in added[1:]] == ["zoe"]
    assert rows(out)["ada"]["total"] == "10"


OVERLAY = '''\
# %% ex="three_step" kind="hidden"
with check("step_in_private", points=5):
    expect_close(step(jnp.zeros(2), jnp.ones(2)), np.float32([-0.5, -0.5]))
'''


def test_private_checks(course, handed_in, tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    (private / "01_three.py").write_text(OVERLAY)
    out = tmp_path / "out"
    run("01_three", handed_in, "-o", out, "--private", private, *QUICK)
    assert rows(out)["ada"]["total"] == "15"
    (private / "01_three.py").write_text(OVERLAY.replace("three_step", "three_other"))
    status, text = run("01_three", handed_in, "-o", tmp_path / "o2", "--private", private)
    assert status == 1 and "has no exercise 'three_other'" in text
    (private / "01_three.py").write_text(OVERLAY.replace("hidden", "check"))
    status, text = run("01_three", handed_in, "-o", tmp_path / "o2", "--private", private)
    assert status == 1 and "an overlay holds only hidden checks" in text


def test_ctrl_c_keeps_what_is_done(course, tmp_path, heeds_interrupts):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "ada.ipynb").write_bytes(data(all_right()))
    slow = data(all_wrong(step="while True:\n    pass"))
    for name in ("b", "c", "d", "e"):
        (folder / f"{name}.ipynb").write_bytes(slow)
    command = [sys.executable, "-m", "coursekit", "grade", "01_three", str(folder),
               "-o", str(out), "-j", "1", "--seconds", "60"]  # fmt: skip
    process = subprocess.Popen(command, cwd=course, stdout=subprocess.PIPE, text=True)
    results, patience = out / "results.jsonl", time.monotonic() + 90
    while time.monotonic() < patience and not (results.exists() and results.stat().st_size):
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 130, text
    assert rows(out)["ada"]["total"] == "10"
    assert list(rows(out)) == ["ada"]


BAD = {
    "no such set": (lambda c, i, o: ["01_four", i, "-o", o], "there is no exercise set '01_four'"),
    "no such folder": (lambda c, i, o: ["01_three", i / "x", "-o", o], "does not exist"),
    "results among submissions": (lambda c, i, o: ["01_three", i, "-o", i / "out"], "is inside of"),
    "results in a file": (lambda c, i, o: ["01_three", i, "-o", i / "ada.ipynb" / "x"], "inside of"),
    "a broken master": (lambda c, i, o: _break(c) or ["01_three", i, "-o", o], "01_three.py:1:"),
    "no roster": (lambda c, i, o: ["01_three", i, "-o", o, "--roster", i / "r"], "can't be read"),
    "a roster in another encoding": (
        lambda c, i, o: ["01_three", i, "-o", o, "--roster", _latin(o)], "is not UTF-8 text"),
    "not a folder to write to": (
        lambda c, i, o: ["01_three", i, "-o", c / "_toc.yml"], "can't be written"),
    "no overlay": (
        lambda c, i, o: ["01_three", i, "-o", o, "--private", c], "holds no 01_three.py"),
    "no scheduler": (
        lambda c, i, o: ["01_three", i, "-o", o, "--scheduler", "nowhere"], "Dask"),
}  # fmt: skip


def _latin(out):
    roster = out.parent / "roster"
    roster.write_bytes("Jos\xe9\n".encode("latin-1"))
    return roster


def _break(course):
    (course / "solutions" / "01_three.py").write_text("# %% [markdown]\nno title\n")


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(course, handed_in, tmp_path, name):
    make, words = BAD[name]
    before = digests(handed_in)
    status, text = run(*make(course, handed_in, tmp_path / "out"), *QUICK)
    told = [line for line in text.splitlines() if line.startswith("coursekit: ")]
    assert status == 1 and len(told) == 1 and words in told[0], text
    assert digests(handed_in) == before


def test_a_full_disk_keeps_what_is_done(course, handed_in, tmp_path, monkeypatch):
    out, real = tmp_path / "out", os.fsync

    def full(descriptor):
        if len((out / "results.jsonl").read_bytes().splitlines()) > 1:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    status, text = run("01_three", handed_in, "-o", out, "-j", "1", "--seconds", "15")
    assert status == 1 and "No space left on device" in text and "--resume" in text
    monkeypatch.setattr(os, "fsync", real)
    assert run("01_three", handed_in, "-o", out, "--resume", *QUICK)[0] == 3
    assert rows(out)["ada"]["total"] == "10"


def test_without_bubblewrap_nothing_runs(course, handed_in, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, text = run("01_three", handed_in, "-o", tmp_path / "out", *QUICK)
    assert status == 1 and "bubblewrap is not installed" in text and "--no-sandbox" in text


def test_no_sandbox_is_spelled_out(course, handed_in, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    out = tmp_path / "out"
    run("01_three", handed_in, "-o", out, "--no-sandbox", *QUICK)
    assert rows(out)["ada"]["total"] == "10" and rows(out)["emil"]["total"] == "0"
