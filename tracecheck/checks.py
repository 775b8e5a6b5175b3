"""A check: a block of assertions with a name, points and one clear verdict."""

import dataclasses

from tracecheck import _errors


class CheckFailed(AssertionError):
    """Raised when something is not as expected; shown without a traceback.

    Args:
        expected: what should have been the case, in a few words.
        got: what was the case instead.
        look_at: the section of the chapter that explains it, or "".

    Notebooks show the three lines of `str(error)` and no traceback, by IPython's
    `_render_traceback_` protocol.

    Source: https://ipython.readthedocs.io/en/stable/config/integrating.html
    """

    def __init__(self, expected, got, look_at=""):
        super().__init__(expected, got, look_at)
        self.expected, self.got, self.look_at = expected, got, look_at
        self.title = ""

    def __str__(self):
        return "\n".join(self._render_traceback_())

    def _render_traceback_(self, *_):
        head = f"✗ {self.title}: " if self.title else ""
        lines = [f"{head}expected {_one_line(self.expected)}"]
        lines.append(f"  got {_one_line(self.got)}")
        if self.look_at:
            lines.append(f"  see the section '{_one_line(self.look_at)}'")
        return lines


@dataclasses.dataclass(frozen=True)
class Result:
    """How the last run of a check ended.

    `points` is what the check is worth, `earned` what it gave, and `message` is
    the text of the failure, or "" after a success.
    """

    name: str
    points: float
    earned: float
    message: str = ""


_results: dict[str, Result] = {}


def results():
    """Return the results so far, a list of `Result` in the order of first runs."""
    return list(_results.values())


def reset_results():
    """Forget all results."""
    _results.clear()


class check:
    """A context manager that gives points when its block ends without an error.

    Args:
        name: identifies the check; a second run replaces the first one's result.
        points: what the check is worth.
        section: title of the chapter section that explains the matter.

    Raises:
        CheckFailed: when the block raised any `Exception`; the original one is
            kept as `__context__`. Others, such as KeyboardInterrupt, pass through.
    """

    def __init__(self, name, *, points, section=""):
        self.name, self.points, self.section = name, points, section

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if error is None:
            self._record(self.points)
            print(f"✓ {self.name} {self.points:g}/{self.points:g}")
            return False
        if not isinstance(error, Exception):
            self._record(0, f"stopped by {kind.__name__}")
            return False
        failure = self._failure(error)
        self._record(0, str(failure))
        raise failure from None

    def _record(self, earned, message=""):
        _results[self.name] = Result(self.name, self.points, earned, message)

    def _failure(self, error):
        failure = CheckFailed(*_expected_and_got(error))
        failure.look_at = getattr(error, "look_at", "") or self.section
        failure.title = f"{self.name} 0/{self.points:g}"
        return failure


def _expected_and_got(error):
    if isinstance(error, CheckFailed):
        return error.expected, error.got
    if isinstance(error, NotImplementedError):
        return "an answer", "'not written yet'"
    if _errors.is_own_assert(error):
        return _errors.asserted(error)
    return "an answer that runs", _errors.describe(error)


def _one_line(text):
    return " ".join(str(text).split())


def scoreboard(total=None):
    """Print the checks that have run, their points, and the sum.

    Args:
        total: all points of the notebook. When some of them belong to checks that
            have not run, a line says how many.
    """
    rows = [(r.name, r.earned, r.points) for r in results()]
    reached = sum(points for _, _, points in rows)
    whole = reached if total is None else total
    rows.append(("total", sum(earned for _, earned, _ in rows), whole))
    _print_table([(name, f"{earned:g}", f"{of:g}") for name, earned, of in rows])
    if (left := whole - reached) > 0:
        noun = "point has" if left == 1 else "points have"
        print(f"{left:g} {noun} not been checked yet")


def _print_table(rows):
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, earned, points in rows:
        print(f"{name:<{wide[0]}}  {earned:>{wide[1]}} / {points:>{wide[2]}}")
