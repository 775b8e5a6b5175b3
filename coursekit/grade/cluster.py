"""Where submissions are graded: threads here, or the workers of a Dask cluster.

A thread only waits for its sandbox, so threads are enough on one machine.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor

from coursekit.errors import CourseError
from coursekit.grade import session


@contextlib.contextmanager
def executor(workers, scheduler=None):
    """An executor of concurrent.futures, and how many submissions it runs at a time.

    Args:
      workers: threads on this machine.
      scheduler: address of a Dask scheduler, or None for this machine. Its workers
        need the course installed, bubblewrap, and one thread for each submission.

    Raises:
      CourseError: `distributed` is not installed, or nothing answers there.
    """
    if scheduler:
        with _client(scheduler) as client:
            threads = sum(client.nthreads().values())
            yield client.get_executor(pure=False, retries=2), max(1, threads)
        return
    session.start_again()
    with ThreadPoolExecutor(workers) as pool:
        yield pool, workers


def _client(address):
    try:
        from distributed import Client
    except ImportError:
        raise CourseError(
            "--scheduler needs Dask: pip install 'tracecheck[cluster]', here and on "
            "every worker."
        ) from None
    try:
        return Client(address, timeout=20)
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error).splitlines()[0][:120]
        raise CourseError(f"no Dask scheduler answers at {address}: {reason}") from None
