"""Runs the program tost of this package in the place of the Python process, with the installed torch."""

import importlib.util
import os
import pathlib
import re
import sys

from ._built import TORCH

_HERE = pathlib.Path(__file__).resolve().parent


def _torch():
    """The folder of torch: that of the same site-packages, which the program's library paths name, or else Python's."""
    neighbour = _HERE.parent / "torch"
    if (neighbour / "version.py").exists():
        return neighbour
    spec = importlib.util.find_spec("torch")
    return pathlib.Path(spec.origin).parent if spec is not None and spec.origin else None


def _refuse(reason):
    print(f"tost: {reason}", file=sys.stderr)
    sys.exit(1)


def main():
    torch = _torch()
    if torch is None:
        _refuse(f'torch is not installed; `pip install "torch=={TORCH}.*"` installs the one that this program needs.')
    found = re.search(r"__version__ = '([^']+)'", (torch / "version.py").read_text())
    version = found.group(1) if found else "of an unknown version"
    if not version.startswith(f"{TORCH}."):
        _refuse(
            f"this program was built for torch {TORCH}, and the installed torch is {version}; "
            f'get the first with `pip install "torch=={TORCH}.*"`, or build the program for the second with `make`.'
        )
    if torch.parent != _HERE.parent:
        paths = [str(torch / "lib"), os.environ.get("LD_LIBRARY_PATH")]
        os.environ["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    os.execv(_HERE / "tost", ["tost", *sys.argv[1:]])
