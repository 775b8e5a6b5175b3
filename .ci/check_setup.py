"""Run the setup cells of the exercise notebooks as Colab would.

A setup cell must make `tracecheck` importable and change nothing else: before and
after it, `pip freeze` differs by tracecheck alone. The Python that runs this script
stands for Colab's: it has jax and IPython, and not tracecheck.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETUP = "course-setup"  # the id of the cell, in every notebook that has one


def setup_cells(root):
    """The distinct sources of setup cells, each with a notebook that holds it."""
    found = {}
    for path in sorted((root / "exercises").glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["id"] == SETUP:
                found.setdefault("".join(cell["source"]), path.name)
    return found


def freeze():
    """Every installed distribution, as `pip freeze --all` prints it."""
    command = [sys.executable, "-m", "pip", "freeze", "--all"]
    return set(subprocess.check_output(command, text=True).splitlines())


def run_cell(source):
    """Run a cell in IPython, in a folder from which the course can't be imported."""
    with tempfile.TemporaryDirectory() as folder:
        cell = Path(folder, "cell.ipy")
        cell.write_text(source + "\n", encoding="utf-8")
        subprocess.run([sys.executable, "-m", "IPython", cell.name], cwd=folder)
        imported = [sys.executable, "-c", "import tracecheck"]
        return subprocess.run(imported, cwd=folder).returncode == 0


def problem(before, after):
    """What a setup cell did wrong, in one sentence, or ''."""
    added, removed = sorted(after - before), sorted(before - after)
    if removed or len(added) != 1 or not added[0].startswith("tracecheck"):
        return f"it added {added or 'nothing'} and removed {removed or 'nothing'}"
    return ""


def main():
    """Try every distinct setup cell; exit with a sentence where one misbehaves."""
    cells = setup_cells(ROOT)
    if not cells:
        sys.exit("No exercise notebook has a setup cell.")
    for source, name in cells.items():
        before = freeze()
        if any(line.startswith("tracecheck") for line in before):
            sys.exit(f"{sys.executable} has tracecheck: use one that does not.")
        if not run_cell(source):
            sys.exit(f"{name}: tracecheck can't be imported after its setup cell.")
        if wrong := problem(before, freeze()):
            sys.exit(f"{name}: its setup cell must add tracecheck alone, but {wrong}.")
        print(f"{name}: its setup cell adds tracecheck and changes nothing else")


if __name__ == "__main__":
    main()
