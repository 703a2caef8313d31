"""Parts of the image classifiers for timm and transformers, with the parameter names of the official code."""

import collections
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from . import _files
from .nn import TSSA


class PatchStem(nn.Module):
    """[B, in_channels, H, W] -> [B, dim, H / patch, W / patch] by halvings of `depth` convolutions each.

    With depth 0 by one linear map of each patch, as in a ViT.
    """

    def __init__(self, in_channels, dim, patch, depth=1):
        super().__init__()
        if patch not in (2, 4, 8, 16) or (depth > 0 and dim % (patch // 2) != 0):
            raise ValueError(f"The patch side is {patch} and the width {dim}; the side must be 2, 4, 8 or 16, "
                             "and half of it divide the width.")
        self.patch = patch
        if depth == 0:
            self.proj = nn.Conv2d(in_channels, dim, patch, stride=patch)
            return
        layers, before = [], in_channels
        for halving in range(int(math.log2(patch)) - 1, -1, -1):
            for i in range(depth):
                width = dim >> halving
                convolution = nn.Conv2d(before, width, 3, stride=1 if i else 2, padding=1, bias=False)
                layers += [nn.Sequential(convolution, nn.BatchNorm2d(width)), nn.GELU()]
                before = width
        self.proj = nn.Sequential(*layers[:-1])

    def forward(self, images):
        height, width = images.shape[2:]
        if height % self.patch != 0 or width % self.patch != 0:
            raise ValueError(f"Pictures of {height} x {width} pixels do not divide into patches of {self.patch} x {self.patch}; "
                             f"resize them to multiples of {self.patch}.")
        return self.proj(images)


class FourierPosition(nn.Module):
    """Position vectors [1, rows * columns, dim] of any grid: sines and cosines of both axes through a learned map."""

    CHANNELS = 64

    def __init__(self, dim):
        super().__init__()
        self.token_projection = nn.Conv2d(self.CHANNELS, dim, 1)

    def _axis(self, n):
        half = self.CHANNELS // 2
        like = {"device": self.token_projection.weight.device, "dtype": torch.float32}
        place = torch.arange(1, n + 1, **like) * (2 * math.pi / (n + 1e-6))
        period = 10000 ** (torch.arange(0, half, 2, **like) / half)
        angle = place.unsqueeze(1) / period
        return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)  # [n, 32]

    def forward(self, rows, columns):
        y = self._axis(rows).unsqueeze(1).expand(-1, columns, -1)
        x = self._axis(columns).unsqueeze(0).expand(rows, -1, -1)
        table = torch.cat([y, x], 2).permute(2, 0, 1).unsqueeze(0)
        return self.token_projection(table.to(self.token_projection.weight.dtype)).flatten(2).transpose(1, 2)


class Mlp(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(collections.OrderedDict(fc1=nn.Linear(dim, hidden), act=nn.GELU(), fc2=nn.Linear(hidden, dim)))


class DropPath(nn.Module):
    """Leaves a whole branch of a sample out while training, with this probability."""

    def __init__(self, probability):
        super().__init__()
        self.probability = probability

    def forward(self, x):
        if not self.training or self.probability == 0:
            return x
        keep = 1 - self.probability
        return x * (x.new_empty(x.shape[0], 1, 1).bernoulli_(keep) / keep)

    def extra_repr(self):
        return f"{self.probability}"


def hidden_width(dim, ratio):
    return int(dim * ratio + 1e-6)  # a ratio that was computed as width / dim gives that width back


class Branches(nn.Module):
    """The parts of both kinds of blocks: attention and MLP, each with a norm before it and a scale after it.

    `c`: the program's settings, here and below.
    """

    def __init__(self, c, attention):
        super().__init__()
        dim, scale = c["dim"], float(c["layer_scale"])
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = attention
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, hidden_width(dim, c["mlp_ratio"]))
        self.gamma1 = nn.Parameter(torch.full((dim,), scale))
        self.gamma2 = nn.Parameter(torch.full((dim,), scale))


class Block(Branches):
    def __init__(self, c, attention):
        super().__init__(c, attention)
        self.drop_path = DropPath(c["drop_path"])

    def forward(self, x):
        x = x + self.drop_path(self.gamma1 * self.attn(self.norm1(x)))
        return x + self.drop_path(self.gamma2 * self.mlp(self.norm2(x)))


class ClassAttention(nn.Module):
    """Softmax attention in which the class token, the first one, alone asks."""

    def __init__(self, dim, heads, qkv_bias):
        super().__init__()
        self.num_heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q[:, :, :1], k, v)  # [B, H, 1, P]
        return self.proj(y.transpose(1, 2).flatten(2))


class ClassAttentionBlock(Branches):
    def __init__(self, c):
        super().__init__(c, ClassAttention(c["dim"], c["heads"], c["qkv_bias"]))
        self.tokens_norm = c["tokens_norm"]

    def forward(self, x):
        normed = self.norm1(x)
        x = x + self.gamma1 * torch.cat([self.attn(normed), normed[:, 1:]], 1)
        cls = self.norm2(x[:, :1])
        tokens = self.norm2(x[:, 1:]) if self.tokens_norm else x[:, 1:]
        # As in the official code the patches' branch is what it is added to.
        return torch.cat([cls + self.gamma2 * self.mlp(cls), 2 * tokens], 1)


class VisionParts:
    """For a module: the parts of an image classifier, and running them."""

    block, class_block = Block, ClassAttentionBlock

    def make_parts(self, config, mixer=TSSA):
        """`mixer(dim, heads, qkv_bias=bias)` makes the attention of a block."""
        c = {**_files.usual("vision"), **config}
        dim, self.num_registers = c["dim"], c["registers"]
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        if self.num_registers > 0:
            self.registers = nn.Parameter(torch.zeros(1, self.num_registers, dim))
        self.patch_embed = PatchStem(c["in_channels"], dim, c["patch"], c["stem_depth"])
        self.pos_embeder = FourierPosition(dim)
        mixers = (mixer(dim, c["heads"], qkv_bias=c["qkv_bias"]) for _ in range(c["depth"]))
        self.blocks = nn.ModuleList(self.block(c, attention) for attention in mixers)
        self.cls_attn_blocks = nn.ModuleList(self.class_block(c) for _ in range(c["class_blocks"]))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, c["classes"]) if c["classes"] > 0 else nn.Identity()

    def embed(self, images):
        """Patches with their positions and the registers [B, N + R, C], and the grid."""
        x = self.patch_embed(images)
        rows, columns = x.shape[2:]
        x = x.flatten(2).transpose(1, 2) + self.pos_embeder(rows, columns)
        if self.num_registers > 0:
            x = torch.cat([x, self.registers.expand(x.shape[0], -1, -1)], 1)
        return x, (rows, columns)

    def run(self, blocks, x, checkpointed=False, keep=()):
        """The tokens after all blocks, and those after the blocks `keep`."""
        kept = []
        for i, block in enumerate(blocks):
            x = checkpoint(block, x, use_reentrant=False) if checkpointed else block(x)
            if i in keep:
                kept.append(x)
        return x, kept

    def attend_class(self, patches):
        """The class token and the patches after the class-attention blocks [B, 1 + N, C], not yet normed."""
        x = torch.cat([self.cls_token.expand(patches.shape[0], -1, -1), patches], 1)
        return self.run(self.cls_attn_blocks, x)[0]


@torch.no_grad()
def draw_vision_weights(module):
    """The official initial values, of those that are not the framework's."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, VisionParts):
        nn.init.trunc_normal_(module.cls_token, std=0.02)
        if module.num_registers > 0:
            nn.init.trunc_normal_(module.registers, std=0.02)
