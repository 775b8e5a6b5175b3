"""`python -m coursekit.rosetta [GROUP…]`: run rows while writing them."""

import sys

from coursekit.errors import CourseError
from coursekit.rosetta import literal, rows, run


def main(groups):
    """Print every row, what is not as it says, and how its literal translation fares."""
    wrong = 0
    for name in groups or rows.names():
        for row in rows.group(name).rows:
            faults = run.faults(row)
            wrong += bool(faults)
            print("✗" if faults else "✓", row.name, f"[{_fate(row)}]", flush=True)
            for fault in faults:
                print("   ", fault)
    return wrong


def _fate(row):
    if row.compare == "told":
        return "not run"
    kind, how = literal.outcome(row)
    return f"literally: {kind} {how}".strip()


if __name__ == "__main__":
    try:
        sys.exit(min(main(sys.argv[1:]), 1))
    except CourseError as error:
        sys.exit(str(error))
