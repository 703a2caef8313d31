"""Runs the program tost of this package in the place of the Python process, with the installed torch."""

import importlib.util
import os
import pathlib
import re
import signal
import sys

from ._built import TORCH

_HERE = pathlib.Path(__file__).resolve().parent


def _torch():
    """The folder of the torch in use: the one in the same site-packages, which the program finds by itself, or else Python's."""
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
        _refuse(f'torch is not installed; `pip install "torch=={TORCH}.*"` installs the version that this program needs.')
    found = re.search(r"__version__ = '([^']+)'", (torch / "version.py").read_text())
    version = found.group(1) if found else "of an unknown version"
    if not version.startswith(f"{TORCH}."):
        _refuse(
            f"this program was built for torch {TORCH}, and the installed torch is {version}; "
            f'`pip install "torch=={TORCH}.*"`, or build the program for yours with `make`.'
        )
    if torch.parent != _HERE.parent:
        paths = [str(torch / "lib"), os.environ.get("LD_LIBRARY_PATH")]
        os.environ["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    # Python ignores these signals, and a new program would inherit that.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execv(_HERE / "tost", ["tost", *sys.argv[1:]])
