"""Results as they come in, one line each, so that an interrupted run goes on.

A line is added whole and written through; a line that a crash cut off is left out
when the file is read again.
"""

import errno
import hashlib
import json
import os
from pathlib import Path

from coursekit.errors import CourseError
from coursekit.grade.result import SetResult

NAME = "results.jsonl"


class Store:
    """The folder of results, `OUT`."""

    def __init__(self, folder, key, resume):
        """Open it.

        Args:
          key: identifies masters, checks and limits; results of others don't count.
          resume: go on with what is there.

        Raises:
          CourseError: it holds results and `resume` is not set, or can't be written.
        """
        self.folder, self.key = Path(folder), key
        self.path = self.folder / NAME
        try:
            if self.path.exists() and self.path.stat().st_size and not resume:
                raise CourseError(
                    f"{self.folder} holds results already: pass --resume to go on with "
                    "them, or name another folder."
                )
            (self.folder / "feedback").mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "ab", buffering=0)
        except OSError as error:
            raise CourseError(f"{self.folder} can't be written ({error.strerror}).") from None
        self._end_last_line()

    def known(self):
        """{(student, stem, sha): SetResult} of what was graded with the same key."""
        found = {}
        for line in self.path.read_bytes().splitlines():
            try:
                row = json.loads(line)
                result = SetResult.from_dict(row["result"])
            except (ValueError, KeyError, TypeError):  # cut off by a crash
                continue
            if row["key"] == self.key:
                found[row["student"], result.stem, result.sha] = result
        return found

    def add(self, student, result):
        """Write one result through to the disk.

        Raises:
          CourseError: the disk is full, say; what was written before is kept.
        """
        row = {"key": self.key, "student": student, "result": result.as_dict()}
        line = (json.dumps(row) + "\n").encode()
        try:
            if self._file.write(line) < len(line):  # what fitted on a disk that is full now
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CourseError(
                f"{self.path} can't be written ({error.strerror}): make room, then run the "
                "same command with --resume; finished results are kept."
            ) from None

    def close(self):
        self._file.close()

    def _end_last_line(self):
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            self._file.write(b"\n")


def key_of(plans, limits):
    """What a result depends on, besides the submission."""
    text = repr((plans, limits))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
