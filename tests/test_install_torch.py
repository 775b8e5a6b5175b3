"""When PyTorch is installed for the cells that need it, and what is said if not."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / ".ci" / "install_torch.py"
spec = importlib.util.spec_from_file_location("install_torch", PATH)
install_torch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install_torch)


def report(*names):
    """What pip's installation report says, as far as it is read."""
    return {"install": [{"metadata": {"name": name}} for name in names]}


def decide(mode, installed=None, pip_says=None):
    """A decision; pip must not be asked unless an answer of its own is given."""

    def ask():
        assert pip_says is not None, "pip was asked"
        return pip_says

    return install_torch.decide(mode, "2.13.0", installed, ask)


def test_a_plain_build_is_installed():
    assert decide("auto", pip_says=report("torch", "sympy"))[0]


@pytest.mark.parametrize("name", ["nvidia-cublas", "triton", "cuda-bindings"])
def test_cuda_packages_are_refused_and_the_cpu_build_is_explained(name):
    install, sentence = decide("auto", pip_says=report("torch", name))
    assert not install
    assert name in sentence
    assert "torch==2.13.0 --index-url" in sentence


def test_every_cuda_package_is_counted():
    _, sentence = decide("auto", pip_says=report("torch", "nvidia-a", "nvidia-b"))
    assert "2 CUDA packages" in sentence


def test_a_pip_that_gives_no_answer_means_skipping():
    install, sentence = decide("auto", pip_says="pip did not say")
    assert not install
    assert "will be skipped: pip did not say" in sentence


@pytest.mark.parametrize("version", ["2.13.0", "2.13.0+cpu"])
@pytest.mark.parametrize("mode", ["auto", "require"])
def test_nothing_to_do_where_it_is_installed(mode, version):
    assert not decide(mode, installed=version)[0]


def test_auto_is_content_with_another_version_and_require_is_not():
    assert not decide("auto", installed="2.12.1")[0]
    assert decide("require", installed="2.12.1")[0]


def test_require_does_not_ask_what_comes_along():
    assert decide("require")[0]


def test_skip_installs_nothing_and_asks_nothing():
    assert not decide("skip")[0]


def test_the_pin_is_read_from_its_file():
    pin = install_torch.REQUIREMENTS.read_text().split()
    assert len(pin) == 1
    assert pin[0].startswith("torch==")


def test_pip_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setattr(install_torch, "SECONDS", 0.001)
    assert "did not say" in install_torch.ask_pip()
