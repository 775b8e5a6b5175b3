"""Folders, flat files, downloads and zips give the same students."""

import io
import zipfile

import pytest

from coursekit.errors import CourseError
from coursekit.grade import collect, grading, report, submissions, text
from tests.grade.conftest import all_right, data

RIGHT = data(all_right())


def lay_out(root, names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(RIGHT)


def students(path):
    return {s.id: [n.path.name for n in s.notebooks] for s in submissions.find(path)}


LAYOUTS = {
    "flat": (["ada.ipynb", "emil.ipynb"], {"ada", "emil"}),
    "copies": (["ada (1).ipynb", "emil-Copy1.ipynb"], {"ada", "emil"}),
    "folders": (["ada/01_three.ipynb", "emil/deep/er/x.ipynb"], {"ada", "emil"}),
    "moodle folders": (
        ["Ada B_12_assignsubmission_file/a.ipynb", "Emil C_13_assignsubmission_file_/b.ipynb"],
        {"Ada B_12", "Emil C_13"},
    ),
    "moodle flat": (
        ["Ada B_12_assignsubmission_file_a.ipynb", "Emil C_13_assignsubmission_file_b.ipynb"],
        {"Ada B_12", "Emil C_13"},
    ),
    "canvas": (["bada_12_990_a.ipynb", "cemil_LATE_13_991_b-1.ipynb"], {"bada_12", "cemil_13"}),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(tmp_path, name, zipped):
    names, wanted = LAYOUTS[name]
    folder = tmp_path / "in"
    lay_out(folder, [*names, ".ipynb_checkpoints/x-checkpoint.ipynb", "__MACOSX/._x.ipynb"])
    if zipped:
        with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
            for path in sorted(folder.rglob("*.ipynb")):
                archive.write(path, path.relative_to(folder))
        folder = tmp_path / "in.zip"
    assert set(students(folder)) == wanted


def test_a_zip_with_one_folder_around_everything(tmp_path):
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("download/ada.ipynb", RIGHT)
        archive.writestr("download/emil/x.ipynb", RIGHT)
    assert set(students(tmp_path / "in.zip")) == {"ada", "emil"}


def test_a_zip_of_one_student_in_a_folder(tmp_path):
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "ada.zip", "w") as archive:
        archive.writestr("01_three.ipynb", RIGHT)
    assert students(tmp_path / "in") == {"ada": ["01_three.ipynb"]}


def test_a_zip_that_points_out_of_itself_is_not_followed(tmp_path):
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("../../evil.ipynb", RIGHT)
        archive.writestr("ada.ipynb", RIGHT)
    assert set(students(tmp_path / "in.zip")) == {"ada"}


def test_late_is_read_from_the_name(tmp_path):
    lay_out(tmp_path, LAYOUTS["canvas"][0])
    assert [s.late for s in submissions.find(tmp_path)] == [False, True]


def job(tmp_path, three, names):
    lay_out(tmp_path, names)
    (student,) = submissions.find(tmp_path)
    return collect.job(student, [three])


def test_two_notebooks_of_one_student_are_an_error(tmp_path, three):
    made = job(tmp_path, three, ["ada.ipynb", "ada (1).ipynb"])
    assert not made.files
    assert made.refused[0].reason == (
        "2 notebooks of one student, ada (1).ipynb and ada.ipynb: keep one"
    )


@pytest.mark.parametrize("name", ["ada.py", "ada.txt", "ada/notes.txt"])
def test_no_notebook(tmp_path, three, name):
    made = job(tmp_path, three, [name])
    assert made.refused[0].reason == f"no notebook, only {name[-4:].lstrip('a')}"


BAD = {
    "nothing there": (lambda p: p / "absent", "does not exist"),
    "empty folder": (lambda p: p, "holds no submissions"),
    "a file": (lambda p: _file(p / "x.ipynb", RIGHT), "is neither a folder nor a zip file"),
    "a broken zip": (lambda p: _file(p / "x.zip", b"PK\x03\x04junk"), "is neither a folder"),
}


def _file(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", BAD)
def test_bad_input(tmp_path, name):
    make, words = BAD[name]
    with pytest.raises(CourseError, match=words):
        submissions.find(make(tmp_path))


def zipped(entries):
    """The bytes of a zip of {name: bytes}."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return made.getvalue()


def test_a_download_in_one_zip_holds_zips_of_students(tmp_path):
    name = "Ada B_12_assignsubmission_file_/work.zip"
    _file(tmp_path / "in.zip", zipped({name: zipped({"a.ipynb": RIGHT}), "emil.ipynb": RIGHT}))
    assert students(tmp_path / "in.zip") == {"Ada B_12": ["a.ipynb"], "emil": ["emil.ipynb"]}


def with_password():
    """The zip says of its only file that it is encrypted."""
    made = bytearray(zipped({"a.ipynb": RIGHT}))
    made[6] |= 1
    made[made.index(b"PK\x01\x02") + 8] |= 1
    return bytes(made)


HOSTILE = {
    "a password": (with_password(), "the file can't be read"),
    "bytes that changed": (zipped({"a.ipynb": RIGHT})[:50] + b"???" + zipped({"a.ipynb": RIGHT})[53:],
                           "the file can't be read"),
    "a bomb": (zipped({f"{n}.ipynb": bytes(2**20) for n in range(51)}), "51 notebooks of 51 MB"),
    "too many files": (zipped({str(n): b"" for n in range(20_001)}), "no notebook, only .zip"),
    "absolute paths": (zipped({"/zoe.ipynb": b"[]"}), "the file is JSON, but no notebook"),
    "too large": (zipped({"a.ipynb": bytes(2**26 + 1)}), "clear the outputs"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_zip_harms_nobody_else(tmp_path, three, name):
    content, reason = HOSTILE[name]
    _file(tmp_path / "ada.zip", content)
    _file(tmp_path / "emil.ipynb", RIGHT)
    ada, emil = submissions.find(tmp_path)
    assert (ada.id, emil.id) == ("ada", "emil")
    assert reason in collect.job(ada, [three]).refused[0].reason
    assert collect.job(emil, [three]).files


def test_names_are_compared_as_people_read_them(tmp_path):
    lay_out(tmp_path, ["Jose\u0301.ipynb", "a\udce9\x1b[1m.ipynb"])
    assert set(students(tmp_path)) == {"Jos\xe9", "a\\udce9\\u001b[1m"}
    assert submissions.known_as("Jos\xe9") == submissions.known_as("Jose\u0301 ")


def test_a_report_can_be_written_whatever_the_names_are(tmp_path, three):
    ids = ["=1+1", " @x", "<script>", "x" * 250, "é" * 200, "x" * 250 + "y"]
    rows = [grading.Row(submissions.known_as(i)) for i in ids]
    report.write(tmp_path, [three], rows)
    assert len(list((tmp_path / "feedback").iterdir())) == len(rows)
    table = (tmp_path / "grades.csv").read_text().splitlines()
    assert table[1].startswith("'=1+1,") and "'@x" in table[2]
    assert "<script>" not in "".join(p.read_text() for p in (tmp_path / "feedback").iterdir())


def test_text_is_made_fit_to_be_shown():
    assert text.clean("a\tb\n\x1b[1m\u202e\ud800\0é") == "a b\n\\u001b[1m\\u202e\\ud800\\u0000é"
    assert len(text.clean("x" * 10**6)) < 3000 and text.clean([1]) == "a message that is no text"
    assert text.line("a\n  b") == "a b"
