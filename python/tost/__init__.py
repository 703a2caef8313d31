"""Token Statistics Self-Attention (arXiv 2412.17810) for PyTorch: operators, layers, and a check of others' layers."""

from . import nn, ops
from .check import check_tssa

__all__ = ["check_tssa", "nn", "ops"]
__version__ = "0.1.0"
