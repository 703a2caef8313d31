"""The vision network written out in plain PyTorch from the formulas of arXiv 2412.17810.

Nothing is fused or reordered by hand: this is what a user of the formulas would run. Parameter names
are those of the checkpoints, so that one file of weights serves everyone.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

import language

# name: channels, depth, heads
VISION = {
    "tost_cab_tiny_12_p16": (192, 12, 4),
    "tost_cab_small_12_p16": (384, 12, 8),
    "tost_cab_medium_24_p16": (512, 24, 8),
}


class TokenStatistics(nn.Module):
    """TSSA as vision uses it: statistics over all tokens."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim)
        self.temp = nn.Parameter(torch.ones(heads, 1))
        self.to_out = nn.Sequential(nn.Linear(dim, dim))

    def forward(self, x):
        batch, tokens, dim = x.shape
        w = self.qkv(x).view(batch, tokens, self.heads, dim // self.heads).transpose(1, 2)
        normed = F.normalize(w, dim=-2)
        pi = F.softmax((normed**2).sum(-1) * self.temp, dim=1)  # [B, H, N]
        share = pi / (pi.sum(-1, keepdim=True) + 1e-8)
        moment = torch.matmul(share.unsqueeze(-2), w**2)  # [B, H, 1, P]
        y = -(w * pi.unsqueeze(-1)) * (1.0 / (1 + moment))
        return self.to_out(y.transpose(1, 2).reshape(batch, tokens, dim))


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, mixer):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = mixer
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim)
        self.gamma1 = nn.Parameter(torch.ones(dim))
        self.gamma2 = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x = x + self.gamma1 * self.attn(self.norm1(x))
        return x + self.gamma2 * self.mlp(self.norm2(x))


class ClassAttention(nn.Module):
    """Softmax attention whose only query is the class token; the patches pass through."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        batch, tokens, dim = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q[:, :, :1] * k).sum(-1) * (dim // self.heads) ** -0.5
        mixed = weights.softmax(-1).unsqueeze(2) @ v
        cls = self.proj(mixed.transpose(1, 2).reshape(batch, 1, dim))
        return torch.cat([cls, x[:, 1:]], 1)


class ClassBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = ClassAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim)
        self.gamma1 = nn.Parameter(torch.ones(dim))
        self.gamma2 = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x = self.norm2(x + self.gamma1 * self.attn(self.norm1(x)))
        cls = self.gamma2 * self.mlp(x[:, :1])
        return x + torch.cat([cls, x[:, 1:]], 1)


class Stem(nn.Module):
    def __init__(self, dim):
        super().__init__()
        widths = [3, dim // 8, dim // 4, dim // 2, dim]
        layers = []
        for i in range(4):
            conv = nn.Conv2d(widths[i], widths[i + 1], 3, stride=2, padding=1, bias=False)
            layers += [nn.Sequential(conv, nn.BatchNorm2d(widths[i + 1])), nn.GELU()]
        self.proj = nn.Sequential(*layers[:-1])

    def forward(self, images):
        return self.proj(images)


class FourierPosition(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.token_projection = nn.Conv2d(64, dim, 1)

    def forward(self, rows, columns):
        device = self.token_projection.weight.device

        def code(count):
            at = torch.arange(1, count + 1, device=device) * (2 * math.pi / (count + 1e-6))
            angle = at[:, None] / 10000 ** (torch.arange(0, 32, 2, device=device) / 32)
            return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)

        y = code(rows)[:, None].expand(rows, columns, 32)
        x = code(columns)[None].expand(rows, columns, 32)
        return self.token_projection(torch.cat([y, x], 2).permute(2, 0, 1)[None])


class VisionNet(nn.Module):
    """`mixer(dim, heads)` makes what stands in the place of attention."""

    def __init__(self, name, classes=1000, mixer=TokenStatistics):
        super().__init__()
        dim, depth, heads = VISION[name]
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.patch_embed = Stem(dim)
        self.pos_embeder = FourierPosition(dim)
        self.blocks = nn.ModuleList([Block(dim, mixer(dim, heads)) for _ in range(depth)])
        self.cls_attn_blocks = nn.ModuleList([ClassBlock(dim, heads) for _ in range(2)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patch_embed.proj(images)
        x = x + self.pos_embeder(x.shape[2], x.shape[3])
        # flatten(2).transpose(1, 2) is the same, but of one picture torch.compile (2.15) then gives
        # the batch norms wrong gradients.
        x = x.permute(0, 2, 3, 1).flatten(1, 2)
        for block in self.blocks:
            x = block(x)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
        for block in self.cls_attn_blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])

    def loss(self, images, labels):
        return F.cross_entropy(self(images), labels)


def make(name, weights, longest=0):
    """The network of `name` with `weights` (name -> tensor), ready to predict.

    `longest`: tokens that a language model will read.
    """
    if name in language.LANGUAGE:
        net, weights = language.make(name, weights, longest)
    else:
        net = VisionNet(name, weights["head.weight"].shape[0])
    missing = net.load_state_dict(weights, strict=False)
    absent = [key for key in missing.missing_keys if not key.endswith("num_batches_tracked")]
    if absent or missing.unexpected_keys:
        raise ValueError(f"the weights do not fit {name}: missing {absent[:3]}, "
                         f"unknown {missing.unexpected_keys[:3]}")
    return net.eval()
