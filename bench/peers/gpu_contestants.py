"""Who takes part on a GPU, as layers and within networks."""

import contextlib
import dataclasses

import torch

import language
import mixers

BACKENDS = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION",
            "cudnn": "CUDNN_ATTENTION"}


@dataclasses.dataclass(frozen=True)
class Contestant:
    name: str
    family: str  # tssa or softmax: agreement is with the eager fp32 form of the same family
    bidirectional: type
    causal: type
    compiled: bool = False
    backend: str = ""  # of scaled_dot_product_attention

    def mixer(self, causal):
        return self.causal if causal else self.bidirectional

    def ready(self, module):
        return torch.compile(module) if self.compiled else module

    def context(self):
        if not self.backend:
            return contextlib.nullcontext()
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(getattr(SDPBackend, self.backend))


_FORMULA = (mixers.Statistics, language.CausalTokenStatistics)
_OPERATOR = (mixers.OperatorStatistics, mixers.OperatorCausalStatistics)
_SOFTMAX = (mixers.Softmax, mixers.CausalSoftmax)
_EAGER_SOFTMAX = (mixers.EagerSoftmax, mixers.CausalEagerSoftmax)
_FLASH = (mixers.FlashSoftmax, mixers.CausalFlashSoftmax)

REFERENCES = {"tssa": Contestant("reference", "tssa", *_FORMULA),
              "softmax": Contestant("reference", "softmax", *_SOFTMAX, backend="MATH")}
ALL = {c.name: c for c in (
    Contestant("eager", "tssa", *_FORMULA),
    Contestant("compile", "tssa", *_FORMULA, compiled=True),
    Contestant("tost operator", "tssa", *_OPERATOR),
    Contestant("tost operator compile", "tssa", *_OPERATOR, compiled=True),
    Contestant("eager attention", "softmax", *_EAGER_SOFTMAX),
    *(Contestant(f"sdpa {name}", "softmax", *_SOFTMAX, backend=key)
      for name, key in BACKENDS.items()),
    Contestant("flash-attn", "softmax", *_FLASH),
)}
