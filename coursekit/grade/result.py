"""What grading finds out: plain values that can be written as JSON and read again."""

import hashlib
from dataclasses import asdict, dataclass, field

GRADED, PARTLY, NOT_GRADED = "graded", "graded with problems", "not graded"


def digest(data):
    """What tells one submission from another: a digest of its bytes."""
    return hashlib.sha256(data).hexdigest()


@dataclass
class CheckResult:
    """One check of one submission; `says` is "" when it passed."""

    name: str
    points: float
    earned: float
    hidden: bool
    says: str = ""
    apart: bool = False


@dataclass
class TaskResult:
    """One exercise of one submission; `problem` is what kept the answer from running."""

    id: str
    title: str
    checks: list = field(default_factory=list)
    problem: str = ""

    @property
    def earned(self):
        return sum(c.earned for c in self.checks)

    @property
    def points(self):
        return sum(c.points for c in self.checks)


@dataclass
class SetResult:
    """One exercise set of one submission.

    Attributes:
      stem: of the set.
      file: the submitted notebook, by its path below the folder of submissions.
      sha: its `digest`.
      reason: why it could not be graded, or "".
      flags: what a person should look at.
      seconds: wall time of grading it.
    """

    stem: str
    file: str = ""
    sha: str = ""
    reason: str = ""
    tasks: list = field(default_factory=list)
    flags: list = field(default_factory=list)
    seconds: float = 0.0

    @property
    def earned(self):
        return sum(t.earned for t in self.tasks)

    @property
    def points(self):
        return sum(t.points for t in self.tasks)

    def as_dict(self):
        return asdict(self)

    @classmethod
    def from_dict(cls, content):
        tasks = [
            TaskResult(**t | {"checks": [CheckResult(**c) for c in t["checks"]]})
            for t in content["tasks"]
        ]
        return cls(**content | {"tasks": tasks})
