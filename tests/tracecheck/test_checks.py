"""`check` records points and verdicts; `scoreboard` and `results` show them."""

import pytest

import tracecheck
from tracecheck import CheckFailed, Result, check, results, scoreboard


def failing(error):
    with check("a", points=2, section="Some section"):
        raise error


def test_success_is_printed_and_recorded(capsys):
    with check("a", points=2):
        pass
    assert capsys.readouterr().out == "✓ a 2/2\n"
    assert results() == [Result("a", 2, 2, "")]


def test_failure_is_recorded_with_its_message():
    with pytest.raises(CheckFailed) as failure:
        failing(CheckFailed("one", "two"))
    assert results() == [Result("a", 2, 0, str(failure.value))]


@pytest.mark.parametrize("error", [ValueError("x"), AssertionError(), OSError(2, "x")])
def test_any_exception_becomes_a_check_failed(error):
    with pytest.raises(CheckFailed) as failure:
        failing(error)
    assert failure.value.__context__ is error
    assert failure.value.__suppress_context__


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_not_an_exception_passes_through(kind):
    with pytest.raises(kind):
        failing(kind())
    assert results()[0].earned == 0


def test_last_run_counts_and_keeps_its_place():
    with pytest.raises(CheckFailed):
        failing(ValueError())
    with check("b", points=1):
        pass
    with check("a", points=2):
        pass
    assert [(r.name, r.earned) for r in results()] == [("a", 2), ("b", 1)]


def test_results_can_be_forgotten():
    with check("a", points=1):
        pass
    tracecheck.reset_results()
    assert results() == []


def test_results_are_a_copy():
    results().append("not a result")
    assert results() == []


def test_own_section_comes_before_the_checks():
    with pytest.raises(CheckFailed) as failure:
        failing(CheckFailed("one", "two", "Another section"))
    assert "'Another section'" in str(failure.value)


def test_notebooks_show_lines_and_no_traceback():
    with pytest.raises(CheckFailed) as failure:
        failing(CheckFailed("one\n  thing", "two\nthings"))
    lines = failure.value._render_traceback_()
    assert lines == str(failure.value).splitlines()
    assert len(lines) == 3


def test_scoreboard_of_nothing(capsys):
    scoreboard()
    assert capsys.readouterr().out == "total  0 / 0\n"


def test_scoreboard_counts_half_points(capsys):
    with check("half", points=0.5):
        pass
    scoreboard(1.5)
    out = capsys.readouterr().out
    assert "total  0.5 / 1.5" in out
    assert "1 point has not been checked yet" in out


def test_scoreboard_without_a_rest(capsys):
    with check("all", points=3):
        pass
    scoreboard(3)
    assert "checked yet" not in capsys.readouterr().out


def test_version_and_names():
    assert tracecheck.__version__.count(".") == 2
    assert sorted(tracecheck.__all__) == tracecheck.__all__
    assert all(hasattr(tracecheck, name) for name in tracecheck.__all__)
