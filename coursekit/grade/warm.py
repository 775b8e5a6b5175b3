"""Run the set's own answers first: they must pass here, and they fill JAX's cache.

Most of a submission's time is XLA compiling the same small programs that the reference
answer compiled before. Its compilation cache is shown to submissions read-only.
https://docs.jax.dev/en/latest/persistent_compilation_cache.html
"""

import dataclasses

from coursekit.errors import CourseError
from coursekit.grade import match
from coursekit.grade.result import SetResult
from coursekit.grade.runner import Run


def warm(plans, sandbox, folder):
    """Grade the reference answers, and keep what was compiled.

    Args:
      plans: list of `plan.Plan`.
      sandbox: a `sandbox.Sandbox`.
      folder: where compiled programs are kept; made if absent.

    Returns:
      Sandbox: the same one with the cache, read-only inside.

    Raises:
      CourseError: a set's own answers do not get its points here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    filling = dataclasses.replace(sandbox, cache=str(folder.resolve()), fills=True)
    for plan in plans:
        result = SetResult(plan.stem)
        work = match.Work({t.id: (t.reference,) for t in plan.tasks})
        try:
            Run(plan, work, filling, result).all_tasks()
        except match.NotGraded as reason:
            raise CourseError(f"{plan.stem}: {reason}.") from None
        _refuse_failures(plan, result)
    return dataclasses.replace(filling, fills=False)


def _refuse_failures(plan, result):
    failed = [c for t in result.tasks for c in t.checks if c.says]
    if failed:
        said = " ".join(failed[0].says.split())
        raise CourseError(
            f"{plan.stem}: its own answer fails '{failed[0].name}' on this machine, so "
            f"nothing was graded: {said[:300]}"
        )
