"""The dictionary's own parts: reading rows, judging them, translating, the page."""

import re

import pytest

from coursekit.errors import CourseError
from coursekit.rosetta import census, inputs, literal, page, rows, run

HEAD = 'title = "T"\nabout = "A."\nsee = "chapters/01_arrays"\n[inputs]\nx = "f32[n, m]"\n'


def group(text):
    return rows.read("00_test", HEAD + text)


def row(torch, jax, more=""):
    return group(f"[[row]]\ntorch = '''{torch}'''\njax = '''{jax}'''\n{more}").rows[0]


BAD = {
    "no TOML": ("[[row]\n", "00_test.toml: Expected"),
    "unknown field": ("[[row]]\ntorch = 'x'\njaxx = 'x'\n", "row 1 ('x'): unknown field 'jaxx'"),
    "no JAX": ("[[row]]\ntorch = 'x'\n", "missing 1 required"),
    "unknown edge": ("[[row]]\ntorch = 'x'\njax = 'x'\nedges.big = '…'\n", "unknown edge 'big'"),
    "unknown compare": ("[[row]]\ntorch = 'x'\njax = 'x'\ncompare = 'all'\n", "compare is 'all'"),
    "no reason": ("[[row]]\ntorch = 'x'\njax = 'x'\ncompare = 'told'\n", "'why' stands with"),
    "bad input": ("[[row]]\ntorch = 'x'\njax = 'x'\ninputs.y = 'f31[n]'\n", "'f31[n]' is no input"),
    "bad word": ("[[row]]\ntorch = 'x'\njax = 'x'\ninputs.y = 'f32[n] odd'\n", "known words are"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_told_in_one_sentence(name):
    text, message = BAD[name]
    with pytest.raises(CourseError, match=re.escape(message)):
        group(text)


FALSE = {
    "values": (row("x.std()", "x.std()"), "shown: [1.9"),
    "dtype": (row("x > 0", "jnp.sign(x) > -9"), "shown: ["),
    "only the dtype": (row("(x * 0).int()", "x * 0"), "shown: int32 in torch, float32 in jax"),
    "shape": (row("x.T", "x"), "shown: shape (4, 3) in torch, (3, 4) in jax"),
    "one side raises": (row("x @ x", "x * x"), "shown: torch raises RuntimeError"),
    "both sides raise": (row("x @ x", "x @ x"), "both sides raise"),
    "an edge": (row("x.nansum()", "x.sum()"), "nan: "),
    "a gradient": (row("x.detach()", "1 * x"), "shown, gradient: "),
    "a difference that is none": (
        row("x.sum()", "x.sum()", "edges.nan = '…'"),
        "says that the two differ at 'nan', and they agree",
    ),
    "a dtype that is none": (row("x", "x", "edges.dtype = '…'"), "says that the dtypes differ"),
    "a gradient that is none": (row("x", "x", "edges.grad = '…'"), "says that the gradients"),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", FALSE)
def test_a_row_that_is_not_true_is_found_out(name):
    false, fault = FALSE[name]
    assert any(found.startswith(fault) for found in run.faults(false)), run.faults(false)


@pytest.mark.torch
def test_what_runs_before_and_after_is_compared():
    more = (
        "before.torch = 'y = x + 1'\nbefore.jax = 'y = x + 2'\nafter.torch = 'z - 1'\n"
        "after.jax = 'z - 2'\n"
    )
    assert run.faults(row("z = y * 1", "z = y * 1", more)) == []
    assert run.faults(row("z = y * 1", "z = y * 1", more.replace("- 2", "- 3")))


@pytest.mark.parametrize(
    ("code", "value"),
    [("1 + 1", 2), ("a = [1, 2]\na[0] = 5", [5, 2]), ("a, b = 1, 2", (1, 2)), ("assert True", None)],
)
def test_the_value_of_code_is_that_of_its_last_statement(code, value):
    assert run.evaluate(code, {}) == value


def test_edges_touch_the_inputs_that_they_concern():
    known = {k: inputs.Input.read(s) for k, s in {"x": "f32[n]", "i": "i32[n]"}.items()}
    edges = inputs.at_edges(known)
    assert set(edges) == set(inputs.EDGES)
    assert edges["empty"]["x"].shape == (0,) and edges["one"]["i"].shape == (1,)
    assert edges["overflow"]["i"].max() == 2**31 - 1
    fixed = inputs.at_edges({"p": inputs.Input.read("f32[3] probs")})
    assert set(fixed) == {"nan", "inf"}


@pytest.mark.parametrize(
    ("code", "translated"),
    [
        ("torch.std(x, dim=1, keepdim=True)", "jnp.std(x, axis=1, keepdims=True)"),
        ("F.relu(torch.nn.functional.silu(x))", "jax.nn.relu(jax.nn.silu(x))"),
        ("nn.Linear(2, dim_head=3)", "nnx.Linear(2, dim_head=3)"),
        ("torch.linalg.norm(x.torch.y)", "jnp.linalg.norm(x.torch.y)"),
    ],
)
def test_a_literal_translation_replaces_names_alone(code, translated):
    assert literal.translation(code) == translated


FATES = {
    literal.SAME: ("torch.sin(x)", "jnp.sin(x)"),
    literal.SILENT: ("x.std()", "x.std(ddof=1)"),
    literal.RAISES: ("x.clamp(0)", "x.clip(0)"),
}


@pytest.mark.torch
@pytest.mark.parametrize("kind", FATES)
def test_what_becomes_of_a_literal_translation(kind):
    assert literal.outcome(row(*FATES[kind]))[0] == kind


@pytest.mark.torch
def test_namesakes_are_public_functions_of_both():
    shared = census.namesakes("torch")
    assert {"std", "einsum", "where"} <= shared
    assert not shared & {"abs_", "Tensor", "float32", "bmm", "_assert"}


def test_the_page_has_a_line_a_row_with_a_place_of_its_own():
    text = page.expand(f"# T\n\n{page.MARK}\n")
    lines = re.findall(r"^\| <a id=\"(row-[\w-]+)\"></a>(.*) \|$", text, re.M)
    assert len(lines) == len(rows.all_rows()) == len({name for name, _ in lines})
    for _, line in lines:
        assert len(re.findall(r"(?<!\\)\|", line)) == 3, line
    assert text.count("```{code-cell}") == len(rows.names())


def test_rows_point_at_pages_that_exist(pytestconfig):
    for each in rows.all_rows():
        assert (pytestconfig.rootpath / f"{each.see}.md").is_file(), each.name
