"""Assertions about what a JAX function did, not only what it returned."""

from tracecheck.checks import (
    CheckFailed,
    Result,
    check,
    reset_results,
    results,
    scoreboard,
)
from tracecheck.donation import expect_donated, expect_not_donated
from tracecheck.explore import Exploration, explore
from tracecheck.exported import Exported, export_answer
from tracecheck.gradients import expect_grad
from tracecheck.jaxprs import (
    count_primitives,
    expect_constant_size,
    expect_primitives,
    iter_eqns,
    jaxpr_of,
)
from tracecheck.keys import expect_keys_used_once, expect_typed_key
from tracecheck.purity import expect_pure
from tracecheck.torch_parity import expect_parity
from tracecheck.tracing import (
    Call,
    TraceCounter,
    count_traces,
    counting,
    expect_traces,
)
from tracecheck.values import expect_close, expect_same_tree

__version__ = "0.1.0"

__all__ = [
    "Call",
    "CheckFailed",
    "Exploration",
    "Exported",
    "Result",
    "TraceCounter",
    "check",
    "count_primitives",
    "count_traces",
    "counting",
    "expect_close",
    "expect_constant_size",
    "expect_donated",
    "expect_grad",
    "expect_keys_used_once",
    "expect_not_donated",
    "expect_parity",
    "expect_primitives",
    "expect_pure",
    "expect_same_tree",
    "expect_traces",
    "expect_typed_key",
    "explore",
    "export_answer",
    "iter_eqns",
    "jaxpr_of",
    "reset_results",
    "results",
    "scoreboard",
]
