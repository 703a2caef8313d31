"""Token Statistics Self-Attention (arXiv 2412.17810) for PyTorch: operators, layers, and a check of others' layers."""

import sys

# `python -m tost` starts the program in the place of Python, which takes seconds less without torch.
if not (sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] == "tost"):
    from . import nn, ops
    from .check import check_tssa

__all__ = ["check_tssa", "nn", "ops"]
__version__ = "0.1.0"
