"""What may stand in the place of attention: TSSA by formula and by operator, softmax by fused kernels.

A mixer is made with (dim, heads, block); those of pictures ignore `block`.
"""

import torch
import torch.nn.functional as F
from torch import nn

import language
import networks


class Statistics(networks.TokenStatistics):
    """TSSA over all tokens by formula."""

    def __init__(self, dim, heads, block=0):
        super().__init__(dim, heads)


class OperatorStatistics(Statistics):
    """The same by torch.ops.tost, on the same parameters."""

    def forward(self, x):
        return self.to_out(torch.ops.tost.tssa(self.qkv(x), self.temp)[0])


class OperatorCausalStatistics(language.CausalTokenStatistics):
    def forward(self, x):
        y = torch.ops.tost.tssa_causal(self.c_attn(x), self.temp, self.denom_bias)[0]
        return self.c_proj(y)


class Softmax(nn.Module):
    """Softmax attention, its core by torch.nn.functional: sdpa_kernel() chooses the kernel."""

    causal = False
    bias = True

    def __init__(self, dim, heads, block=0):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=self.bias)
        self.proj = nn.Linear(dim, dim, bias=self.bias)

    def split(self, x):
        batch, tokens, dim = x.shape
        return self.qkv(x).view(batch, tokens, 3, self.heads, dim // self.heads)

    def forward(self, x):
        q, k, v = self.split(x).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).reshape(x.shape))


class EagerSoftmax(Softmax):
    """The same written out, every weight in memory: the baseline of the paper's speed figure."""

    def forward(self, x):
        q, k, v = self.split(x).permute(2, 0, 3, 1, 4).unbind(0)
        logits = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        if self.causal:
            tokens = x.shape[1]
            later = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
            logits = logits.masked_fill(later, float("-inf"))
        y = logits.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(x.shape))


class FlashSoftmax(Softmax):
    """The same by the flash-attn package."""

    def forward(self, x):
        from flash_attn import flash_attn_qkvpacked_func

        return self.proj(flash_attn_qkvpacked_func(self.split(x), causal=self.causal)
                         .reshape(x.shape))


class CausalSoftmax(Softmax):
    causal, bias = True, False


class CausalEagerSoftmax(EagerSoftmax):
    causal, bias = True, False


class CausalFlashSoftmax(FlashSoftmax):
    causal, bias = True, False
