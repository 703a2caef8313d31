"""Blocks of TSSA for the model files of ultralytics; importing this makes their names known there.

    - [-1, 2, C2TSSA, [ch]]      # in place of C2PSA: ch stands for the channels of the layer before
    - [-1, 1, TSSABlock, [ch]]   # the block inside alone
"""

import torch
from torch import nn
from ultralytics.nn import tasks
from ultralytics.nn.modules import Conv

from .blocks import MapBlock

__all__ = ["C2TSSA", "TSSABlock"]


def _width(channels):
    """A model file's `ch` is the list of the channels of all layers so far."""
    return channels[-1] if isinstance(channels, (list, tuple)) else channels


class TSSABlock(MapBlock):
    """Keeps the channels; `channels` is their number, or `ch` in a model file."""

    def __init__(self, channels, num_heads=None, mlp_ratio=2.0):
        super().__init__(_width(channels), num_heads=num_heads, mlp_ratio=mlp_ratio)


class C2TSSA(nn.Module):
    """Sends a share of the channels through blocks of TSSA, and passes on as many unchanged; the channels stay."""

    def __init__(self, channels, blocks=1, share=0.5, num_heads=None, mlp_ratio=2.0):
        super().__init__()
        width = _width(channels)
        self.hidden = int(width * share)
        self.enter = Conv(width, 2 * self.hidden)
        self.blocks = nn.Sequential(*(TSSABlock(self.hidden, num_heads, mlp_ratio) for _ in range(blocks)))
        self.leave = Conv(2 * self.hidden, width)

    def forward(self, x):
        kept, through = self.enter(x).split(self.hidden, 1)
        return self.leave(torch.cat([kept, self.blocks(through)], 1))


for _block in (TSSABlock, C2TSSA):
    setattr(tasks, _block.__name__, _block)
