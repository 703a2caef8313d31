"""Token Statistics Self-Attention (arXiv 2412.17810) for PyTorch: operators, layers, and a check of others' layers."""

import importlib
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

__all__ = ["check_model", "check_tssa", "info", "nn", "ops", "selftest"]
__version__ = "0.1.0"


def __getattr__(name):
    """info() and selftest(), which are imported when they are used, so that `python -m tost.selftest` does it once."""
    if name not in ("info", "selftest"):
        raise AttributeError(f"module 'tost' has no attribute '{name}'")
    module = importlib.import_module("tost.selftest")
    return module if name == "selftest" else module.info
