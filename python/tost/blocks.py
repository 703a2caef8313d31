"""TSSA as blocks of networks of other people: on maps (U-Nets, detectors), and on the variates of iTransformer."""

from torch import nn

from .nn import TSSA

__all__ = ["AttentionLayer", "MapBlock"]


class MapBlock(nn.Module):
    """Maps [B, C, H, W] to such maps: TSSA over the pixels, then an MLP of 1 x 1 convolutions, both residual.

    With `out_channels` a 1 x 1 convolution comes first. `num_heads`: about 32 channels a head unless given. Batch
    norms keep projections of half precision far from its limits; nothing depends on the sides, so all are taken.
    """

    def __init__(self, channels, out_channels=None, num_heads=None, mlp_ratio=2.0, norm=nn.BatchNorm2d):
        super().__init__()
        width = out_channels or channels
        hidden = int(width * mlp_ratio)
        self.enter = nn.Conv2d(channels, width, 1) if width != channels else nn.Identity()
        self.norm = norm(width)
        self.attn = TSSA(width, num_heads or heads_of(width), qkv_bias=True)
        self.mlp = nn.Sequential(norm(width), nn.Conv2d(width, hidden, 1), nn.SiLU(), nn.Conv2d(hidden, width, 1))

    def forward(self, x):
        x = self.enter(x)
        x = x + self.attn(self.norm(x))
        return x + self.mlp(x)


def heads_of(width):
    """The number of heads nearest to width / 32 that divides the width."""
    return min((h for h in range(1, width + 1) if width % h == 0), key=lambda h: abs(h - width / 32))


class AttentionLayer(nn.Module):
    """TSSA with the call of the attention layer of iTransformer and of the Time-Series-Library.

    There `AttentionLayer(FullAttention(...), d_model, n_heads)`, here `AttentionLayer(d_model, n_heads)`. The tokens
    [B, variates, d_model], given three times, have no order, which fits the sums of TSSA. Returns such tokens and None,
    because there is no map of attention. Masks and different keys or values raise ValueError.
    """

    def __init__(self, d_model, n_heads=8, dropout=0.0):
        super().__init__()
        self.attn = TSSA(d_model, n_heads, qkv_bias=True, proj_drop=dropout)

    def forward(self, queries, keys, values, attn_mask=None, tau=None, delta=None):
        if keys is not queries or values is not queries:
            raise ValueError("tost.blocks.AttentionLayer: TSSA is attention of tokens to themselves; pass one tensor.")
        if attn_mask is not None:
            raise ValueError("tost.blocks.AttentionLayer: TSSA takes no mask of pairs.")
        return self.attn(queries), None
