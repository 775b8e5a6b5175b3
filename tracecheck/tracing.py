"""How often JAX traced a function, and why it did so again."""

import collections
import functools

import jax

from tracecheck import _reach, _retraces
from tracecheck._calls import Call, as_call, fresh, name_of, own_jit
from tracecheck._frames import own_frames
from tracecheck._recorder import Recorder
from tracecheck.checks import CheckFailed

__all__ = ["Call", "TraceCounter", "count_traces", "counting", "expect_traces"]


class TraceCounter:
    """Wraps a Python function; `count` says how often its body has run.

    Under `jax.jit` the body runs once a trace, so `count` is the number of traces.
    """

    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self.count = 0

    def __call__(self, *args, **kwargs):
        self.count += 1
        return self.__wrapped__(*args, **kwargs)


def counting(fn):
    """Return `fn` wrapped in a `TraceCounter`.

    Args:
        fn: a Python function, to be handed to `jax.jit`, `jax.grad` or a factory.

    Returns:
        A callable with an attribute `count`.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.jit.html
    """
    return TraceCounter(fn)


def count_traces(fn, calls):
    """Count how often calls of `fn` make JAX trace it for `jax.jit`.

    Caches of `fn` are cleared first, so earlier calls make no difference. Arrays are
    copied for each call, so a function that donates its arguments can be counted.

    Args:
        fn: a jitted function, or any callable that uses jitted functions.
        calls: list of argument tuples, or of `Call(args, kwargs)`.

    Returns:
        The number of traces over all calls. Jitted functions of JAX do not count,
        nor do those called while another is being traced. A callable that uses
        several jitted functions counts as the one that was traced most often, where
        functions of the same code are one; a callable that uses none counts 0.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.jit.html
    """
    return len(_traces(fn, [as_call(call) for call in calls]))


def expect_traces(fn, calls, *, at_most=1, at_least=1):
    """Expect that JAX traces `fn` a certain number of times over several calls.

    Args:
        fn: a jitted function, or any callable that uses jitted functions.
        calls: list of argument tuples, or of `Call(args, kwargs)`.
        at_most: largest number of traces that is fine.
        at_least: smallest number of traces that is fine.

    Returns:
        The number of traces.

    Raises:
        CheckFailed: says 'not jitted', or names the argument whose shape, dtype,
            static value or structure made each further trace necessary.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.jit.html
    """
    calls = [as_call(call) for call in calls]
    found = _traces(fn, calls)
    times = _number(len(calls), "call")
    if not found and at_least > 0:
        want = f"{name_of(fn)} to be compiled in {times}"
        raise CheckFailed(want, "no trace at all: not jitted")
    if len(found) < at_least:
        want = f"at least {_number(at_least, 'trace')} in {times}"
        raise CheckFailed(want, _number(len(found), "trace"))
    if len(found) > at_most:
        want = f"at most {_number(at_most, 'trace')} in {times}"
        got = f"{_number(len(found), 'trace')}: {_reasons(fn, calls, found)}"
        raise CheckFailed(want, got)
    return len(found)


def _number(count, noun):
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _traces(fn, calls):
    """The number of the call, from 1, of each trace of what was traced most often."""
    if not calls:
        raise ValueError("no calls to count traces in")
    if isinstance(fn, jax.stages.Compiled):
        return [1]
    _reach.clear_caches(fn)
    found = _run(fn, calls)
    if not found and own_jit(fn) is None:
        _reach.clear_all_caches()  # it may use a cached function out of reach
        found = _run(fn, calls)
    return found


def _run(fn, calls):
    records = [_record(fn, call) for call in calls]
    if own_jit(fn) is not None:
        return _of_jitted(records)
    pairs = [(n, codes) for n, r in enumerate(records, 1) for codes in r.traces]
    most = collections.Counter(codes for _, codes in pairs).most_common(1)
    return [number for number, codes in pairs if codes == most[0][0]]


def _record(fn, call):
    args, kwargs = fresh(call.args), fresh(call.kwargs)
    with Recorder(own_frames(fn)) as recorder:
        fn(*args, **kwargs)
    return recorder


def _of_jitted(records):
    """At most one trace a call; as JAX reports where no code of the user is run."""
    if any(record.ran_own for record in records):
        return [n for n, record in enumerate(records, 1) if record.traces]
    return [n for n, record in enumerate(records, 1) if record.reported]


def _reasons(fn, calls, found):
    """Explain the traces after the first: those within a call, and two others."""
    busiest = max(found, key=found.count)
    if (times := found.count(busiest)) > 1:
        of_them = "all" if times == len(found) else times
        return f"{of_them} in call {busiest}, which jits, or changes a shape, in a loop"
    calls_of = {}
    for number in found[1:]:
        calls_of.setdefault(_reason(fn, calls, number), []).append(number)
    told = [f"in {_listed(numbers)} {why}" for why, numbers in calls_of.items()]
    rest = f"; and {len(told) - 2} more" if len(told) > 2 else ""
    return "; ".join(told[:2]) + rest


def _listed(numbers):
    if len(numbers) == 1:
        return f"call {numbers[0]}"
    return f"calls {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _reason(fn, calls, number):
    changes = _retraces.explain(fn, calls[number - 1], calls[: number - 1])
    if changes:
        return " and ".join(changes[:2])
    if own_jit(fn) is not None:
        return "no argument changed its shape, dtype or structure"
    return "a new jitted function was made, for arguments of the same kind"
