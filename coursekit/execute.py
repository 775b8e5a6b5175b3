"""Run a notebook in a fresh kernel, and tidy what it printed."""

import datetime
import os
import platform
import re
import tempfile
from importlib import metadata

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets.config import Config

from coursekit.errors import CourseError

SECONDS_A_CELL = 300  # torch.compile starts a C++ compiler
VERSIONS = ("jax", "jaxlib", "flax", "optax", "numpy", "torch")
# Names of files that IPython makes up for cells, and addresses of objects, differ
# from run to run; a page has no use for them.
CELL_FILE = re.compile(r"/\S*?/ipykernel_\d+/\d+\.py")
# jax ends a traceback by saying that it hid its own frames: true, and no help here.
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
HIDDEN_FRAMES = re.compile(r"\n?-{10,}\nFor simplicity, JAX has removed.*?-{10,}", re.S)


def versions(today=None):
    """The versions a notebook runs on now, and the date.

    Returns:
      dict of str: package (and 'python', 'date') to version.
    """
    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            pass
    found["date"] = (today or datetime.date.today()).isoformat()
    return found


def execute(notebook, name, lines=None):
    """Run every cell of a notebook in place.

    A cell tagged `raises-exception` must raise the class in its metadata
    (`error`); any other cell must not raise.

    Args:
      notebook: a notebook, changed in place.
      name: the source that it is made from, for messages.
      lines: the line of every cell in that source, if known, by cell id.

    Raises:
      CourseError: a cell failed, failed to fail, took too long or killed its kernel.
    """
    where = Where(name, notebook, lines or {})
    try:
        _client(notebook).execute(env=_environment())
    except CellExecutionError as error:
        what = f"{error.ename}: {error.evalue.splitlines()[0] if error.evalue else ''}"
        raise CourseError(f"{where.failed()}: {what}") from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise CourseError(f"{where.failed()}: {str(error).splitlines()[0]}") from None
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            _expect_error(cell, where.of(i))
            _tidy(cell)
    notebook.metadata.language_info = {"name": "python"}


def run_all(notebook):
    """Run every cell in place, whatever it raises: errors stay in the outputs."""
    _client(notebook, allow_errors=True).execute(env=_environment())


def _client(notebook, **options):
    # Without transport_encryption every kernel prints a line about TCP.
    config = Config({"KernelManager": {"transport_encryption": "auto"}})
    folder = {"metadata": {"path": tempfile.gettempdir()}}
    # On a page, an error is its last line; frames would show paths of this machine.
    options["extra_arguments"] = ["--InteractiveShell.xmode=Minimal"]
    return NotebookClient(
        notebook, timeout=SECONDS_A_CELL, record_timing=False, resources=folder,
        shutdown_kernel="immediate", kernel_name="python3", config=config, **options,
    )  # fmt: skip


def _environment():
    """The kernel's environment: the CPU, and no compilation cache, whose warnings
    and times would end up on the page."""
    hidden = ("JAX_", "XLA_", "TORCH_LOGS", "PYTEST_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    return kept | {"JAX_PLATFORMS": "cpu", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


class Where:
    """Names a cell for a message: file, line where known, place in the notebook."""

    def __init__(self, name, notebook, lines):
        self.name, self.notebook, self.lines = name, notebook, lines

    def of(self, index):
        cell = self.notebook.cells[index]
        line = self.lines.get(cell.id)
        first = cell.source.strip().split("\n")[0][:60]
        place = f"{self.name}:{line}" if line else self.name
        return f"{place}: cell {index + 1} ({first!r})"

    def failed(self):
        """The cell in which the run stopped: the last one that was started."""
        started = [
            i for i, c in enumerate(self.notebook.cells)
            if c.cell_type == "code" and c.execution_count
        ]  # fmt: skip
        return self.of(started[-1] if started else 0)


def _expect_error(cell, where):
    wanted = cell.metadata.get("error")
    raised = [o.ename for o in cell.outputs if o.output_type == "error"]
    allowed = "raises-exception" in cell.metadata.get("tags", [])
    if allowed and wanted and wanted not in raised:
        came = raised[0] if raised else "nothing"
        raise CourseError(f"{where}: raised {came}, and should raise {wanted}.")
    if allowed and not wanted:
        raise CourseError(f"{where}: raises-exception needs `:error:`, the class raised.")


def _tidy(cell):
    for output in cell.outputs:
        if "text" in output:
            output.text = tidy_text(output.text)
        if "data" in output and "text/plain" in output.data:
            output.data["text/plain"] = tidy_text(output.data["text/plain"])
        if output.output_type == "error":
            output.evalue = tidy_text(output.evalue)
            output.traceback = [tidy_text(line) for line in output.traceback]
    _join_streams(cell)


def tidy_text(text):
    """Text as the page shows it: no file or address of a run, no hidden frames."""
    return HIDDEN_FRAMES.sub("", ADDRESS.sub("0x…", CELL_FILE.sub("<cell>", text)))


def _join_streams(cell):
    """One output for each run of prints: how they arrive depends on timing."""
    joined = []
    for output in cell.outputs:
        last = joined[-1] if joined else None
        same = last and output.output_type == last.output_type == "stream"
        if same and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    cell.outputs = joined
