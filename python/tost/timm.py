"""TSSA as the attention of timm's models: `timm.create_model(NAME, attn_layer=tost.timm.attention)`.

Importing this also gives it the name "tssa" there: `attn_layer="tssa"`.
"""

import torch
from timm.models import register_notrace_module
from timm.models.vision_transformer import ATTN_LAYERS

from .nn import TSSA
from .ops import _is_compiling

__all__ = ["Attention", "attention"]


@register_notrace_module
class Attention(TSSA):
    """TSSA with the arguments and the call of timm's attention layers.

    Queries and keys do not exist, so their norms have no effect. `attn_mask`, a boolean or an additive one, may only
    leave out tokens of a sample (padding): the sums of TSSA have no pairs of tokens that a mask could select.
    """

    def __init__(self, dim, num_heads=8, qkv_bias=False, attn_drop=0.0, proj_drop=0.0, device=None, dtype=None, **ignored):
        if ignored.get("gated") or ignored.get("dim_out") not in (None, dim):
            raise ValueError("tost.timm.attention: TSSA has no gate and as many channels out as in.")
        super().__init__(dim, num_heads, qkv_bias, attn_drop=attn_drop, proj_drop=proj_drop)
        self.to(device=device, dtype=dtype)

    @property
    def proj(self):
        """The output projection, under the name by which timm scales it at the start."""
        return self.to_out[0]

    def forward(self, x, attn_mask=None, is_causal=False):
        if is_causal:
            raise ValueError("tost.timm.attention: this is TSSA in both directions; tost.nn.CausalTSSA is the causal one.")
        if attn_mask is None:
            return super().forward(x)
        valid = _valid_tokens(attn_mask).expand(x.shape[:2])
        # The valid tokens of a sample come first, because the operator takes lengths.
        order = valid.logical_not().to(torch.uint8).argsort(dim=1, stable=True).unsqueeze(2).expand_as(x)
        y = super().forward(x.gather(1, order), valid.sum(1))
        return torch.empty_like(y).scatter(1, order, y)


attention = Attention
ATTN_LAYERS["tssa"] = Attention


def _valid_tokens(mask):
    """[B or 1, N]: the tokens that a mask [..., queries, N] lets anyone see."""
    allowed = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    allowed = allowed.reshape(-1, *allowed.shape[-2:])
    valid = allowed.any(1)
    if not (_is_compiling() or torch.jit.is_tracing()):
        padding = (allowed == valid.unsqueeze(1)) | ~allowed.any(2, keepdim=True)
        if not padding.all():
            raise ValueError(
                "tost.timm.attention: attn_mask selects pairs of tokens; TSSA can only leave tokens out of a sample."
            )
    return valid
