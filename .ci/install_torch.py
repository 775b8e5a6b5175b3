"""Install PyTorch for the cells that show it beside JAX, where that is cheap.

`--mode auto` asks pip what PyTorch would bring. On Linux that is often several GB of
CUDA packages, which the course has no use for: then nothing is installed, and the
cells are skipped. `--mode require` installs it whatever it brings.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "requirements-torch.txt"
ACCELERATOR = ("nvidia-", "cuda-", "triton", "pytorch-triton")
SECONDS = 120
PIP = (sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check")


def decide(mode, pinned, installed, ask):
    """Whether to install PyTorch, and what to say of it.

    Args:
      mode: 'auto', 'require' or 'skip'.
      pinned: the version that the course pins.
      installed: the version that is installed, or None.
      ask: called without arguments in mode 'auto' where nothing is installed;
        returns pip's installation report (a dict), or why there is none (a str).

    Returns:
      (bool, str): install or not, and a sentence.
    """
    if mode == "skip":
        return False, "PyTorch cells will be skipped (TORCH=skip)."
    if installed and (mode == "auto" or installed.partition("+")[0] == pinned):
        return False, f"PyTorch {installed} is installed."
    if mode == "require":
        return True, f"Installing PyTorch {pinned}."
    report = ask()
    why_not = report if isinstance(report, str) else unwanted(report)
    if why_not:
        return False, f"PyTorch cells will be skipped: {why_not}. {how(pinned)}"
    return True, f"Installing PyTorch {pinned}."


def unwanted(report):
    """What speaks against what pip would install; '' where nothing does."""
    names = [item["metadata"]["name"].lower() for item in report["install"]]
    cuda = [name for name in names if name.startswith(ACCELERATOR)]
    if not cuda:
        return ""
    return f"pip would bring {len(cuda)} CUDA packages with it ({cuda[0]} and others)"


def how(pinned):
    """How to get PyTorch's CPU build, in one sentence."""
    return (
        "For its CPU build, take the index address that https://pytorch.org/get-started "
        f"shows for pip and CPU, and run: {sys.executable} -m pip install "
        f"torch=={pinned} --index-url ADDRESS"
    )


def ask_pip():
    """pip's report on what it would install, or why it could not say (a str)."""
    command = [*PIP, "--dry-run", "--report", "-", "-r", str(REQUIREMENTS)]
    with tempfile.TemporaryDirectory() as folder:  # for what a killed pip leaves
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS,
                env=os.environ | {"TMPDIR": folder},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"pip did not say within {SECONDS} s what it would bring"
    if done.returncode:
        return f"pip finds no PyTorch for Python {sys.version.split()[0]} here"
    return json.loads(done.stdout)


def installed_version():
    """The version of PyTorch that is installed, or None."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def main():
    """Decide, say it, do it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=("auto", "require", "skip"), default="auto")
    mode = parser.parse_args().mode
    pinned = REQUIREMENTS.read_text().strip().partition("==")[2]
    install, sentence = decide(mode, pinned, installed_version(), ask_pip)
    print(sentence, flush=True)
    if not install or subprocess.run([*PIP, "-r", str(REQUIREMENTS)]).returncode == 0:
        return
    print(f"PyTorch could not be installed. {how(pinned)}", file=sys.stderr)
    sys.exit(mode == "require")


if __name__ == "__main__":
    main()
