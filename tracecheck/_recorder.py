"""Record when JAX traces a function of the user for `jax.jit`.

`jax.monitoring` reports traces, but those of jnp's own functions too, under names
that may be the user's as well, and none under `grad` or `vmap`. So what counts here
is that code of the user was entered through the function of JAX that traces: a
profile function sees the user's frames being entered and looks up the stack. Which
function of JAX that is, is found out by letting JAX report one trace.
"""

import functools
import sys
import threading

import jax

from tracecheck._frames import is_user_frame

_EVENT = "/jax/core/compile/jaxpr_trace_duration"
_here = threading.local()


class Recorder:
    """Collects, while it is active, the traces made in this thread.

    `traces` holds, for each trace of the user's code, the set of code objects
    through which it was entered, which tells one function from another. `ran_own`
    says whether code of the user ran at all, and `reported` is the number of traces
    that JAX reported, those of its own functions included.

    Args:
        is_own: tells whether a frame runs code of the user.
    """

    def __init__(self, is_own=is_user_frame):
        self.is_own, self.ran_own, self.reported = is_own, False, 0
        self._entered = {}

    def __enter__(self):
        self._code = _tracing_code()
        self._before = getattr(_here, "on_trace", None), sys.getprofile()
        _here.on_trace = self._on_trace
        sys.setprofile(self._on_call)
        return self

    def __exit__(self, *_):
        _here.on_trace, profile = self._before
        sys.setprofile(profile)
        self.traces = [frozenset(codes) for _, codes in self._entered.values()]
        self._entered.clear()

    def _on_trace(self, _):
        self.reported += 1

    def _on_call(self, frame, event, _):
        if event != "call" or not self.is_own(frame):
            return
        self.ran_own = True
        above = self._tracing_frames(frame.f_back, until_own=True)
        if above and len(self._tracing_frames(above[-1])) == 1:
            # The frame is kept, so that no later one can have its id.
            kept = self._entered.setdefault(id(above[-1]), (above[-1], set()))
            kept[1].add(frame.f_code)

    def _tracing_frames(self, frame, until_own=False):
        found = []
        while frame is not None and not (until_own and self.is_own(frame)):
            if frame.f_code is self._code:
                found.append(frame)
            frame = frame.f_back
        return found


@functools.cache
def _tracing_code():
    """The code object of JAX's function that traces for `jax.jit`."""
    found, before = [], getattr(_here, "on_trace", None)
    jax.monitoring.register_event_duration_secs_listener(_on_duration)
    _here.on_trace = found.append
    try:
        jax.jit(lambda: 0).trace()
    finally:
        _here.on_trace = before
    if not found or found[0] is None:
        raise RuntimeError(f"jax {jax.__version__} does not report traces as expected")
    return found[0].f_code


def _on_duration(event, duration, **_):
    """The one listener of this process; hands over the frame that was timed."""
    on_trace = getattr(_here, "on_trace", None)
    if on_trace is not None and event == _EVENT:
        on_trace(_timed_frame(sys._getframe(1)))


def _timed_frame(frame):
    """The frame whose `with` block is being timed: the caller of an `__exit__`."""
    while frame is not None and frame.f_code.co_name != "__exit__":
        frame = frame.f_back
    return frame and frame.f_back
