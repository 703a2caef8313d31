"""Token Statistics Self-Attention (arXiv 2412.17810) for PyTorch: operators, layers, and a check of others' layers."""

import sys

# These need no torch, and start seconds faster without it. `python -m` sets sys.argv so while it imports the package.
_PROGRAMS = ("tost", "tost.figures", "tost.study", "tost.tasks")
if not (sys.argv[:1] == ["-m"] and getattr(sys, "orig_argv", sys.argv)[-len(sys.argv)] in _PROGRAMS):
    try:
        from . import nn, ops
        from .check import check_model, check_tssa
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise

__all__ = ["check_model", "check_tssa", "info", "nn", "ops"]
__version__ = "0.1.0"


def info():
    """Versions, devices and the path of the operators on each, in a few lines."""
    from .selftest import info as lines

    return lines()
