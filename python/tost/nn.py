"""Layers with the parameter names of the official code, so that weights of either load in the other."""

import operator
from typing import NamedTuple, Optional

import torch
from torch import nn

from . import ops

_NO = None  # of flags: torch.onnx makes tensors of all usual values but None


def _check_width(name, dim, num_heads, **more):
    """The integers as Python's; those of numpy and the like are taken, too."""
    numbers = []
    for what, value in {"dim": dim, "num_heads": num_heads, **more}.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{name}: {what} must be an integer, but is {value!r:.60}.")
        numbers.append(operator.index(value))
    dim, num_heads = numbers[:2]
    if num_heads < 1 or dim < 1 or dim % num_heads != 0:
        raise ValueError(f"{name}: {num_heads} heads do not divide the width {dim}; choose a number that does.")
    return numbers


def _check_tokens(name, x):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: x must be a tensor, but is {type(x).__name__}.")
    if not x.is_floating_point():
        raise TypeError(f"{name}: x must be of a floating-point dtype, but is {x.dtype}.")


class TSSA(nn.Module):
    """Token statistics self-attention (arXiv 2412.17810), in the place of the official AttentionTSSA of vision models.

    Arguments have the official names and order; `qk_scale` and unknown ones have no effect there, and none here. The
    module has the official attributes (`heads`, `attend`, `attn_drop`, `temp`, `qkv`, `to_out`).

    Takes tokens [B, N, C], or maps [B, C, H, W] whose pixels are the tokens, of the layer's dtype and in any strides, and
    returns the same shape and dtype. `lengths` [B] int64 are the valid lengths of the samples: tokens after them change no
    other's result. With `return_memberships` the result is a pair with the memberships, float32 (of float64: float64),
    [B, heads, N] or [B, heads, H, W]. Raises TypeError or ValueError for other inputs.
    """

    def __init__(self, dim, num_heads=8, qkv_bias=False, qk_scale=None, attn_drop=0.0, proj_drop=0.0, **ignored):
        super().__init__()
        dim, num_heads = _check_width("TSSA", dim, num_heads)
        self.num_heads = self.heads = num_heads
        self.attend = nn.Softmax(dim=1)  # for code that looks at it: the operator has its own
        self.qkv = nn.Linear(dim, dim, bias=qkv_bias)
        self.temp = nn.Parameter(torch.ones(num_heads, 1))
        self.attn_drop = nn.Dropout(attn_drop)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(proj_drop))

    def forward(self, x, lengths: Optional[torch.Tensor] = None, return_memberships=_NO):
        _check_tokens("TSSA", x)
        if x.dim() not in (3, 4):
            raise ValueError(f"TSSA: x must be [B, N, C] or [B, C, H, W], but has {x.dim()} dimensions.")
        channels = x.shape[2] if x.dim() == 3 else x.shape[1]
        if not torch.jit.is_tracing() and channels != self.qkv.in_features:
            raise ValueError(f"TSSA: x has {channels} channels, but the layer was made for {self.qkv.in_features}; "
                             "it takes [B, N, C] or [B, C, H, W].")
        tokens = x if x.dim() == 3 else x.flatten(2).transpose(1, 2)
        y, pi = ops.tssa(self.qkv(tokens), self.temp, lengths)
        if self.training and self.attn_drop.p > 0:
            # The official code drops entries of D, of which y has one factor a channel.
            y = y * self.attn_drop(y.new_ones(y.shape[0], 1, y.shape[2]))
        y = self.to_out(y)
        if x.dim() == 4:
            y = y.transpose(1, 2).reshape(x.shape)
            pi = pi.reshape(*pi.shape[:2], *x.shape[2:])
        return (y, pi) if return_memberships else y

    def __setstate__(self, state):
        super().__setstate__(state)  # pickles of the official class have `heads` and no `num_heads`
        self.num_heads = self.heads = self.temp.shape[0]

    def extra_repr(self):
        return f"num_heads={self.num_heads}"


AttentionTSSA = TSSA  # the official name


class CausalState(NamedTuple):
    """All that a causal layer keeps of the tokens before; its size does not grow with their number."""

    sums: torch.Tensor  # [B, 2 C + heads] float64
    position: int  # how many tokens there were


class CausalTSSA(nn.Module):
    """Causal token statistics self-attention (arXiv 2412.17810), the official one of language models.

    Takes tokens [B, T, C] and returns the same shape and dtype; with `return_state` also the CausalState after the last
    token, which the call for the tokens that follow takes, and with `return_memberships` as the last result those, [B, heads, T].
    Whole sequences, chunks and single tokens give the same numbers. No gradient flows through a state. Positions
    from `block_size` on have no bias. Raises TypeError or ValueError for other inputs.
    """

    def __init__(self, dim, num_heads=12, block_size=1024, bias=False, dropout=0.0):
        super().__init__()
        dim, num_heads, block_size = _check_width("CausalTSSA", dim, num_heads, block_size=block_size)
        if block_size < 0:
            raise ValueError(f"CausalTSSA: block_size is {block_size}; it counts the positions that have a bias.")
        self.c_attn = nn.Linear(dim, dim, bias=bias)
        self.c_proj = nn.Linear(dim, dim, bias=bias)
        self.temp = nn.Parameter(torch.ones(num_heads, 1))
        self.denom_bias = nn.Parameter(torch.zeros(num_heads, block_size, 1))
        self.resid_dropout = nn.Dropout(dropout)

    def forward(self, x, state: Optional[CausalState] = None, return_state=_NO, return_memberships=_NO):
        _check_tokens("CausalTSSA", x)
        if x.dim() != 3 or not torch.jit.is_tracing() and x.shape[2] != self.c_attn.in_features:
            raise ValueError(f"CausalTSSA: x must be [batch, tokens, {self.c_attn.in_features}], but is {list(x.shape)}.")
        if state is not None and not (isinstance(state, tuple) and len(state) == 2):
            raise TypeError(f"CausalTSSA: state must be what a call with return_state returned, but is {type(state).__name__}.")
        sums, position = (None, 0) if state is None else state
        y, pi, after = ops.tssa_causal(self.c_attn(x), self.temp, self.denom_bias, sums, position)
        y = self.resid_dropout(self.c_proj(y))
        result = (y,)
        if return_state:
            result += (CausalState(after, position + x.shape[1]),)
        if return_memberships:
            result += (pi,)
        return result if len(result) > 1 else y
