"""Which line left which equation, and which entry a call uses."""

import json
import re
import sys

import jax
import jax.numpy as jnp
import pytest

from tracecheck import Call, Exploration, count_traces, explore

X = jnp.ones(3)


def lines_of(found, entry=0):
    """[(line from 1, names of primitives)] of a trace's steps."""
    return [
        (step["line"] + 1, [text.split(" = ")[1].split()[0] for text in step["eqns"]])
        for step in found.data["entries"][entry]["steps"]
    ]


def twice(x):
    """A docstring leaves no step."""
    y = x * x + x
    for _ in range(2):
        y = jnp.tanh(y)
    return y


def test_each_statement_has_the_equations_that_it_left():
    assert lines_of(explore(twice, [(X,)])) == [
        (3, ["mul", "add"]),
        (4, []), (5, ["tanh"]), (4, []), (5, ["tanh"]), (4, []),
        (6, []),
    ]  # fmt: skip


def test_the_steps_hold_the_whole_jaxpr_in_order():
    steps = explore(twice, [(X,)]).data["entries"][0]["steps"]
    texts = [text for step in steps for text in step["eqns"]]
    jaxpr = jax.make_jaxpr(twice)(X)
    assert len(texts) == len(jaxpr.eqns)
    for text, eqn in zip(texts, jaxpr.eqns):
        assert eqn.primitive.name in text and "f32[3]" in text
    assert texts[0] == "b:f32[3] = mul a a"


def test_a_statement_over_several_lines_is_one_step():
    def spread(x):
        y = jnp.sin(
            x
            + 1
        )  # fmt: skip
        if (
            y.ndim
            and x.ndim
        ):  # fmt: skip
            y = -y
        return y

    assert lines_of(explore(spread, [(X,)])) == [
        (2, ["add", "sin"]), (6, []), (10, ["neg"]), (11, []),
    ]  # fmt: skip


def test_equations_of_called_functions_belong_to_the_line_that_called():
    def outer(x):
        y = twice(x)
        return y + jax.jit(twice)(x)

    assert lines_of(explore(outer, [(X,)])) == [
        (2, ["mul", "add", "tanh", "tanh"]), (3, ["jit[twice]", "add"]),
    ]  # fmt: skip


def test_a_try_in_the_function_does_not_catch_the_stop():
    def careful(x):
        try:
            y = x + 1
        except Exception:
            y = x
        return y * 2

    steps = lines_of(explore(careful, [(X,)]))
    assert [left for _, left in steps if left] == [["add"], ["mul"]]


def test_a_shape_decides_which_lines_run():
    def flat(x):
        if x.ndim > 1:
            x = x.sum(0)
        return x * 2

    found = explore(flat, {"vector": (X,), "matrix": (jnp.ones((2, 3)),)})
    assert [line for line, _ in lines_of(found)] == [2, 4]
    assert [line for line, _ in lines_of(found, 1)] == [2, 3, 4]


def test_names_hold_types_for_what_is_traced_and_values_for_the_rest():
    def named(x, n, tree):
        k = n + 1
        y = x * k
        return y, tree

    steps = explore(named, [(X, 2, {"u": X, "v": None})], static_argnames="n")
    names = steps.data["entries"][0]["steps"][1]["names"]
    assert names == {
        "x": "f32[3]", "n": "2", "k": "3", "y": "f32[3]",
        "tree": "{u: f32[3], v: None}",
    }  # fmt: skip


def test_a_print_belongs_to_its_line_and_is_not_shown(capsys):
    def loud(x):
        print("first")
        y = x + 1
        print("second")
        return y

    steps = explore(loud, [(X,)]).data["entries"][0]["steps"]
    assert [s["printed"] for s in steps] == ["first", "", "second", ""]
    assert capsys.readouterr().out == ""


def scaled(x, b, flag=True):
    h = x if b is None else x + b
    return 2 * h if flag else h


CALLS = {
    "first": ((X, X), {}, 1),
    "values": ((X + 1, X), {}, 1),
    "shape": ((X[:2], X[:2]), {}, 2),
    "dtype": ((X.astype(jnp.bfloat16), X), {}, 3),
    "number": ((X, 0.1), {}, 4),
    "another number": ((X, 0.2), {}, 4),
    "None": ((X, None), {}, 5),
    "positional": ((X, X, True), {}, 6),
    "keyword": ((X, X), {"flag": True}, 7),
    "keyword again": ((X - 1, X), {"flag": True}, 7),
    "other value": ((X, X), {"flag": False}, 8),
    "shape again": ((X[1:], X[1:]), {}, 2),
}


def test_a_call_says_its_entry_and_whether_it_made_it():
    calls = {label: Call(args, kwargs) for label, (args, kwargs, _) in CALLS.items()}
    rows = explore(scaled, calls, static_argnames="flag").data["calls"]
    assert [row["entry"] for row in rows] == [entry for _, _, entry in CALLS.values()]
    assert [row["label"] for row in rows if row["traced"]] == [
        "first", "shape", "dtype", "number", "None", "positional", "keyword",
        "other value",
    ]  # fmt: skip


def test_the_entries_are_those_that_plain_jit_makes():
    calls = [Call(args, kwargs) for args, kwargs, _ in CALLS.values()]
    rows = explore(scaled, calls, static_argnames="flag").data["calls"]
    jitted = jax.jit(scaled, static_argnames="flag")
    for n, row in enumerate(rows, 1):
        entries = {r["entry"] for r in rows[:n]}
        assert count_traces(jitted, calls[:n]) == len(entries), row["label"]


def test_a_new_entry_says_why():
    calls = {label: Call(args, kwargs) for label, (args, kwargs, _) in CALLS.items()}
    rows = explore(scaled, calls, static_argnames="flag").data["calls"]
    why = {row["label"]: row["why"] for row in rows}
    assert why["first"] == why["values"] == []
    assert "`x` changed shape from (3,) to (2,)" in why["shape"]
    assert why["dtype"] == ["`x` changed dtype from float32 to bfloat16"]
    assert why["other value"] == ["static `flag` changed from True to False"]
    assert why["keyword"] == ["the same arguments, spelled in another way"]
    given = {row["label"]: dict(row["arguments"]) for row in rows}
    assert given["number"]["b"] == "Python float, f32[] weak"
    assert given["None"]["b"] == "None"
    assert given["first"]["flag"] == "left out"
    assert given["positional"]["flag"] == "static True"
    assert given["keyword"]["flag"] == "static True by keyword"


def test_the_text_is_the_same_every_time_and_names_no_address():
    def closes_over(x):
        return x + X

    found = [explore(closes_over, [(X,)], static_argnames=()) for _ in range(2)]
    assert repr(found[0]) == repr(found[1]) and isinstance(found[0], Exploration)
    assert found[0]._repr_html_() == found[1]._repr_html_()
    assert not re.search(r"0x[0-9a-f]{6}", repr(found[0]) + found[0]._repr_html_())


def test_the_text_shows_calls_and_lines():
    assert repr(explore(twice, {"once": (X,), "again": (-X,)})) == """\
twice: 2 calls, 1 entry
  once   traced, makes entry 1
  again  reuses entry 1

entry 1, inputs a:f32[3]
  line 3: y = x * x + x
      b:f32[3] = mul a a
      c:f32[3] = add b a
  line 4: for _ in range(2):
  line 5: y = jnp.tanh(y)
      d:f32[3] = tanh c
  line 4: for _ in range(2):
  line 5: y = jnp.tanh(y)
      e:f32[3] = tanh d
  line 4: for _ in range(2):
  line 6: return y
  returns e"""


def test_the_page_holds_tables_and_the_same_data():
    def tricky(x):
        y = "</script><b>"
        print(y)
        return x

    found = explore(tricky, {"<i>one</i>": (X,), "two": (X[:2],)})
    page = found._repr_html_()
    packed = re.search(r'class="trace-explorer-data">(.*?)</script>', page)[1]
    assert json.loads(packed) == found.data
    assert page.count("</script>") == 1 and "<i>" not in page and "<b>" not in page
    assert page.count('<table class="trace-lines">') == 2
    assert page.count('<table class="trace-calls">') == 1


def test_tracing_by_others_goes_on():
    seen = []
    mine = lambda frame, event, arg: seen.append(event)  # noqa: E731
    before = sys.gettrace()
    sys.settrace(mine)
    try:
        explore(twice, [(X,)])
        assert sys.gettrace() is mine
    finally:
        sys.settrace(before)


def test_errors_of_the_function_are_passed_on_and_tracing_ends():
    def gate(x):
        if x.sum() > 0:
            return x
        return -x

    before = sys.gettrace()
    with pytest.raises(jax.errors.TracerBoolConversionError):
        explore(gate, [(X,)])
    assert sys.gettrace() is before


def made_from_a_string():
    names = {}
    exec("def hidden(x):\n    return x", names)
    return names["hidden"]


RUNS = []


def changes(x):
    RUNS.append(1)
    if len(RUNS) < 3:
        x = x + 1
    return x


@pytest.mark.parametrize(
    "fn, calls, error, says",
    [
        (twice, [], ValueError, "no calls to explore"),
        (twice, {}, ValueError, "no calls to explore"),
        (jax.jit(twice), [(X,)], TypeError, "`twice` is jitted: pass the plain function"),
        (lambda x: x, [(X,)], TypeError, "a function made by `def`"),
        (jnp.add, [(X, X)], TypeError, "is jitted|made by `def`"),
        (made_from_a_string(), [(X,)], ValueError, "the source of `hidden` can't be read"),
        (changes, [(X,)], ValueError, "`changes` does something else in each run"),
    ],
)
def test_bad_input_is_refused(fn, calls, error, says):
    with pytest.raises(error, match=says):
        explore(fn, calls)
