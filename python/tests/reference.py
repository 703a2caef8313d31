"""The layers of the official code, stated in plain PyTorch after its formulas: what this package is compared with."""

import torch
from torch import nn


def operator(w, temp):
    """w [B, N, C] -> y [B, N, C] and the memberships [B, H, N]."""
    batch, tokens, channels = w.shape
    x = w.view(batch, tokens, len(temp), -1).transpose(1, 2)
    unit = nn.functional.normalize(x, dim=-2)
    pi = torch.softmax((unit**2).sum(-1) * temp, dim=1)
    moment = (pi / (pi.sum(-1, keepdim=True) + 1e-8)).unsqueeze(-2) @ x**2
    y = -(x * pi.unsqueeze(-1)) * (1 / (1 + moment))
    return y.transpose(1, 2).reshape(batch, tokens, channels), pi


def causal_operator(w, temp, bias):
    """The same with every sum up to the current token; bias [H, L, 1], L at least the tokens of w."""
    batch, tokens, channels = w.shape
    x = w.view(batch, tokens, len(temp), -1).transpose(1, 2)
    energy = (x**2).cumsum(-2).clamp_min(1e-12)
    pi = torch.softmax((x**2 / energy + bias[:, :tokens]).sum(-1) * temp, dim=1)
    moment = (pi.unsqueeze(-1) * x**2).cumsum(-2) / (pi.cumsum(-1) + 1e-8).unsqueeze(-1)
    y = -(x * pi.unsqueeze(-1)) / (1 + moment)
    return y.transpose(1, 2).reshape(batch, tokens, channels), pi


def kept_bytes(layer, x):
    """Memory that a forward pass keeps for the backward pass, without the weights."""
    weights = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    kept = {}

    def keep(t):
        if t.untyped_storage().data_ptr() not in weights:
            kept[t.untyped_storage().data_ptr()] = t  # held, so that its address stays its own
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        layer(x)
    return sum(t.untyped_storage().nbytes() for t in kept.values())


class Layer(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=False):
        super().__init__()
        self.qkv = nn.Linear(dim, dim, bias=qkv_bias)
        self.temp = nn.Parameter(torch.ones(num_heads, 1))
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(0.0))

    def forward(self, x):
        return self.to_out(operator(self.qkv(x), self.temp)[0])


class CausalLayer(nn.Module):
    def __init__(self, dim, num_heads, block_size, bias=False):
        super().__init__()
        self.c_attn = nn.Linear(dim, dim, bias=bias)
        self.c_proj = nn.Linear(dim, dim, bias=bias)
        self.temp = nn.Parameter(torch.ones(num_heads, 1))
        self.denom_bias = nn.Parameter(torch.zeros(num_heads, block_size, 1))

    def forward(self, x):
        return self.c_proj(causal_operator(self.c_attn(x), self.temp, self.denom_bias)[0])
