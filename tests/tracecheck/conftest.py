"""Warnings are errors here, and no test sees another's results."""

import pytest

import tracecheck


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "tracecheck":
            item.add_marker(pytest.mark.filterwarnings("error"))


@pytest.fixture(autouse=True)
def _own_results():
    tracecheck.reset_results()
    yield
    tracecheck.reset_results()
