"""The program's models as plain modules: every token mixer, in the names of the model files.

load() reads a run folder, a checkpoint or a model file. A language model takes and returns its state explicitly, as
one dictionary of tensors for each layer, so that it can be traced and exported. Nothing here needs timm or transformers.
"""

import functools
import math
from typing import Dict, List, Optional, Tuple

import torch
from torch import nn
from torch.nn import functional as F

from . import _files, _vision, convert, ops
from .nn import TSSA
from .plain import running_sums, wide

# Old names of mixers that are kept, by kind of model.
_ALIASES = {"language": {"tssa-means": "means", "tssa-uniform": "uniform"},
            "vision": {"tssa-running-means": "means", "tssa-uniform": "uniform"}}
State = Dict[str, torch.Tensor]


def _split(x, heads):
    """[B, T, C] -> [B, T, H, P]"""
    return x.unflatten(2, (heads, x.shape[2] // heads))


def _heads_first(x, heads):
    """[B, T, C] -> [B, H, T, P]"""
    return _split(x, heads).transpose(1, 2)


def _guarded(x):
    """x without zeros, because float16 cannot hold the 1e-8 of the definition; what it divides is zero there."""
    return x.masked_fill(x <= 0, 1)


class ForgettingRates(nn.Module):
    def __init__(self, heads, kind):
        super().__init__()
        self.kind = kind
        if kind == "learned":
            self.decay = nn.Parameter(torch.zeros(heads))
        elif kind == "fixed":
            self.register_buffer("decay", torch.zeros(heads))

    def log_rates(self):
        return None if self.kind == "none" else F.logsigmoid(self.decay.float())


class GroupMeans(nn.Module):
    """base + scale · M R^-1/2: the mean of each head's group, read by the token (docs/language.md)."""

    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, base, values, share, log_rates, before=None, positions=None, from_end=0):
        """share [B, T, H]; returns y and the sums after the last token [B, H, P + 1]."""
        return ops.group_means(base, values, share, self.scale, log_rates, before, from_end, positions)


class CausalConv(nn.Module):
    def __init__(self, channels, taps):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(taps, channels))

    def forward(self, x, before):
        """before [B, taps - 1, C], or None; returns y and the last inputs for the next call."""
        taps, tokens = self.weight.shape[0], x.shape[1]
        before = x.new_zeros(x.shape[0], taps - 1, x.shape[2]) if before is None else before
        x = torch.cat([before if before.dtype == x.dtype else before.to(x.dtype), x], 1)
        y = sum(self.weight[k] * x[:, k : k + tokens] for k in range(taps))
        return y, x[:, tokens:]


class CausalMixer(nn.Module):
    """A mixer of language models: forward(x [B, T, C], state, positions [T]) returns y and the new state.

    The state of a text that begins may be empty. Between the projections everything is float32 at least: sums of squares
    overflow in float16, and guards vanish.
    """

    projections = convolved = 1  # times the width
    gated_apart = True

    def __init__(self, c):
        super().__init__()
        self.dim, self.heads = c["dim"], c["heads"]
        self.c_attn = nn.Linear(self.dim, self.projections * self.dim, bias=c["bias"])
        self.c_proj = nn.Linear(self.dim, self.dim, bias=c["bias"])
        self.taps = c["conv"]
        if self.taps:
            self.conv = CausalConv(self.dim * self.convolved, self.taps)
        self.gate = nn.Linear(self.dim, self.dim, bias=c["bias"]) if c["gate"] and self.gated_apart else None

    def convolve(self, w, state, after):
        if not self.taps:
            return wide(w)
        y, last = self.conv(w, state.get("conv"))
        if self.taps > 1:
            after["conv"] = last
        return wide(y)

    def forward(self, x, state: State, positions):
        after = {}
        y = self.mix(x, state, after, positions)
        y = y if y.dtype == x.dtype else y.to(x.dtype)
        if self.gate is not None:
            y = y * F.silu(self.gate(x))
        return self.c_proj(y), after


class CausalTssa(CausalMixer):
    def __init__(self, c):
        super().__init__(c)
        biased = c["block"] if c["bias_positions"] < 0 else c["bias_positions"]
        self.temp = nn.Parameter(torch.ones(self.heads, 1))
        self.denom_bias = nn.Parameter(torch.zeros(self.heads, biased, 1))
        self.rates = ForgettingRates(self.heads, c["decay"])
        self.scale_pi = c["scale_pi"]
        self.means = GroupMeans(self.dim) if c["means"] != "none" else None
        self.values = nn.Linear(self.dim, self.dim, bias=c["bias"]) if c["means"] == "values" else None

    def mix(self, x, state, after, positions):
        w = self.convolve(self.c_attn(x), state, after)
        rates, split = self.rates.log_rates(), _split(w, self.heads)
        squares = split * split
        energy = running_sums(squares, state.get("energy"), rates, positions)
        logits = (squares / _guarded(energy)).sum(-1)  # [B, T, H]
        # Of each position, 0 beyond the last; it acts once a feature.
        table = F.pad(self.denom_bias.squeeze(2).t(), (0, 0, 0, 1)) * split.shape[3]
        row = positions.clamp_max(self.denom_bias.shape[1])
        pi = ((logits + table[row]) * self.temp.squeeze(1)).softmax(-1).unsqueeze(3)
        sums = running_sums(torch.cat([squares * pi, pi], 3), state.get("moments"), rates, positions)
        y = (-(split * pi) / (1 + sums[..., :-1] / _guarded(sums[..., -1:]))).flatten(2)
        after.update(energy=energy[:, -1], moments=sums[:, -1])
        if self.scale_pi:
            y = y * self.heads
        if self.means is not None:
            values = w if self.values is None else self.values(x)
            y, after["means"] = self.means(y, values, pi.squeeze(3) * self.heads, rates, state.get("means"), positions)
        return y


class CausalMeans(CausalMixer):
    gated_apart = False

    def __init__(self, c):
        self.projections = 3 if c["gate"] else 2
        super().__init__(c)
        self.means = GroupMeans(self.dim)
        self.rates = ForgettingRates(self.heads, c["decay"])
        self.router = nn.Linear(self.dim, self.heads)
        self.temp = nn.Parameter(torch.ones(self.heads))

    def mix(self, x, state, after, positions):
        parts = self.c_attn(x).split(self.dim, 2)
        w = self.convolve(parts[0], state, after)
        share = (self.router(x) * self.temp).softmax(-1) * self.heads
        y, after["means"] = self.means(w, parts[1], share, self.rates.log_rates(), state.get("means"), positions)
        return y * F.silu(parts[2]) if len(parts) > 2 else y


def delta_rule(q, k, v, beta, decay, memory, positions) -> Tuple[torch.Tensor, torch.Tensor]:
    """The delta rule token by token: q, k, v [B, H, T, P], beta and decay [B, H, T], memory [B, H, P, P],
    positions [T].

    tost.export compiles it as a script, so that it becomes a loop of the graph.
    """
    out: List[torch.Tensor] = []
    for t in range(positions.size(0)):
        memory = memory * decay[:, :, t].unsqueeze(-1).unsqueeze(-1)
        key = k[:, :, t].unsqueeze(-1)
        change = beta[:, :, t].unsqueeze(-1) * (v[:, :, t] - (key * memory).sum(-2))
        memory = memory + key * change.unsqueeze(-2)
        out.append((q[:, :, t].unsqueeze(-1) * memory).sum(-2))
    return torch.stack(out, 2), memory


class CausalDelta(CausalMixer):
    def __init__(self, c):
        self.steps, self.beta_range = c["delta_steps"], c["beta_range"]
        self.projections = self.convolved = 1 + 2 * self.steps
        super().__init__(c)
        self.beta = nn.Linear(self.dim, self.steps * self.heads)
        self.norm = nn.Parameter(torch.ones(self.dim // self.heads))
        self.kind = c["decay"]
        if self.kind == "learned":
            self.decay = nn.Parameter(torch.zeros(self.heads))
            self.forget = nn.Linear(self.dim, self.heads, bias=False)
        elif self.kind == "fixed":
            self.register_buffer("decay", torch.zeros(self.heads))

    def in_turn(self, x):
        """The steps of a token after each other: [B, T, steps H P] -> [B, H, T steps, P]"""
        return x.unflatten(2, (self.steps, self.heads, -1)).permute(0, 3, 1, 2, 4).flatten(2, 3)

    def mix(self, x, state, after, positions):
        qkv = F.silu(self.convolve(self.c_attn(x), state, after))
        q, k, v = qkv.split([self.dim, self.steps * self.dim, self.steps * self.dim], 2)
        q, k, v = self.in_turn(q.repeat(1, 1, self.steps)), self.in_turn(k), self.in_turn(v)
        q, k = (part * ((part * part).sum(-1, keepdim=True) + 1e-6).rsqrt() for part in (q, k))
        beta = self.in_turn(self.beta(x).sigmoid() * self.beta_range).squeeze(3)
        decay = torch.ones_like(beta)
        if self.kind != "none":
            level = self.decay + (self.forget(x) if self.kind == "learned" else torch.zeros_like(x[..., : self.heads]))
            decay = (-F.softplus(level)).exp().transpose(1, 2).unsqueeze(3)
            decay = F.pad(decay, (0, self.steps - 1), value=1.0).flatten(2)  # a token forgets at its first step
        memory = q.new_zeros(*q.shape[:2], q.shape[3], q.shape[3]) if "memory" not in state else state["memory"]
        rows = positions if self.steps == 1 else positions.repeat(self.steps)
        found, after["memory"] = delta_rule(q, k, v, beta, decay, memory, rows)
        found = found.unflatten(2, (-1, self.steps))[:, :, :, -1]
        found = found * (found.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.norm
        return found.transpose(1, 2).flatten(2)


class CausalLinear(CausalMixer):
    projections = convolved = 3

    def mix(self, x, state, after, positions):
        qkv = self.convolve(self.c_attn(x), state, after)
        q, k, v = (_heads_first(part, self.heads) for part in qkv.split(self.dim, 2))
        q, k, v = F.elu(q) + 1, F.elu(k) + 1, F.pad(v, (0, 1), value=1.0)
        sums, moments = torch.matmul(torch.matmul(q, k.transpose(2, 3)).tril(), v), torch.matmul(k.transpose(2, 3), v)
        if "moments" in state:
            sums, moments = sums + torch.matmul(q, state["moments"]), moments + state["moments"]
        after["moments"] = moments
        return (sums[..., :-1] / _guarded(sums[..., -1:])).transpose(1, 2).flatten(2)


class CausalUniform(CausalMixer):
    def __init__(self, c):
        super().__init__(c)
        self.share = 1.0 if c["scale_pi"] else 1.0 / self.heads

    def mix(self, x, state, after, positions):
        w = self.convolve(self.c_attn(x), state, after)
        sums = running_sums(_split(w * w, self.heads), state.get("statistics"))
        after["statistics"] = sums[:, -1]
        seen = (positions + 1).to(w.dtype).unsqueeze(1)
        return -self.share * w / (1 + sums.flatten(2) / seen)


class CausalNone(CausalMixer):
    def mix(self, x, state, after, positions):
        return self.convolve(self.c_attn(x), state, after)


_CAUSAL = {"tssa": CausalTssa, "means": CausalMeans, "delta": CausalDelta, "linear": CausalLinear, "uniform": CausalUniform,
           "none": CausalNone}


class CausalMlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden = _vision.hidden_width(c["dim"], c["mlp_ratio"])
        self.c_fc = nn.Linear(c["dim"], hidden, bias=c["bias"])
        self.c_proj = nn.Linear(hidden, c["dim"], bias=c["bias"])
        self.approximate = "tanh" if c["activation"] == "gelu-tanh" else "none"
        self.dropout = nn.Dropout(c["dropout"])

    def forward(self, x):
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate=self.approximate)))


class CausalBlock(nn.Module):
    def __init__(self, c, mixer):
        super().__init__()
        self.ln_1 = nn.LayerNorm(c["dim"], bias=c["bias"])
        self.attn = mixer
        self.ln_2 = nn.LayerNorm(c["dim"], bias=c["bias"])
        self.mlp = CausalMlp(c)
        self.gamma1 = nn.Parameter(torch.full((c["dim"],), float(c["layer_scale"])))
        self.gamma2 = nn.Parameter(torch.full((c["dim"],), float(c["layer_scale"])))

    def forward(self, x, state, positions):
        y, after = self.attn(self.ln_1(x), state, positions)
        x = x + self.gamma1 * y
        return x + self.gamma2 * self.mlp(self.ln_2(x)), after


def _causal_mixer(c, index):
    hybrid = c["hybrid_every"] > 0 and (index + 1) % c["hybrid_every"] == 0
    name = c["hybrid_mixer"] if hybrid else c["mixer"]
    name = _ALIASES["language"].get(name, name)
    if name not in _CAUSAL:
        raise ValueError(
            f"its mixer is '{name}', whose state grows or is complex; language models of {', '.join(_CAUSAL)} are here."
        )
    if c["hybrid_every"] > 0:  # settings that a mixer of a hybrid lacks are the other's
        lacks = {"delta": ("scale_pi",), "linear": ("gate", "scale_pi"), "means": (), "uniform": (), "none": (), "tssa": ()}
        c = {**c, **{key: False for key in lacks[name]}}
    return _CAUSAL[name](c)


def language_parts(c, blocks):
    """The parts of a language model by name: embeddings of tokens and of learned positions, blocks, and the last norm."""
    parts = {"wte": nn.Embedding(c["vocab"], c["dim"])}
    if c["positions"] == "learned":
        parts["wpe"] = nn.Embedding(c["block"], c["dim"])
    return {**parts, "h": nn.ModuleList(blocks), "ln_f": nn.LayerNorm(c["dim"], bias=c["bias"])}


class LanguageModel(nn.Module):
    """Token ids [B, T], the state of every layer and the number of tokens read before -> logits and the new states."""

    def __init__(self, c):
        super().__init__()
        self.config = c = {**_files.usual("language"), **c}
        if c["auto_encoder"]:
            raise ValueError("it is an auto-encoder, which predicts nothing.")
        blocks = [CausalBlock(c, _causal_mixer(c, i)) for i in range(c["depth"])]
        self.transformer = nn.ModuleDict(language_parts(c, blocks))

    @torch.no_grad()
    def empty_state(self, batch=1) -> List[State]:
        """Zeros, from which a text begins as from no state, too; shaped as those after a token."""
        device = self.transformer["wte"].weight.device
        _, after = self(torch.zeros(batch, 1, dtype=torch.int64, device=device))
        return [{name: torch.zeros_like(part) for name, part in state.items()} for state in after]

    def forward(self, ids, states: Optional[List[State]] = None, position=0):
        t = self.transformer
        states = [{}] * len(t["h"]) if states is None else states
        # Made of the ids alone: of what follows a trace takes the number of tokens as a constant.
        positions = torch.arange(ids.shape[1], device=ids.device) + position
        x = t["wte"](ids)
        if "wpe" in t:
            x = x + t["wpe"](positions)
        after = []
        for block, state in zip(t["h"], states):
            x, new = block(x, state, positions)
            after.append(new)
        return F.linear(t["ln_f"](x), t["wte"].weight), after


class Means(CausalMeans):
    """Group means that forget, of pictures: half of the heads read from the first token, the others from the last."""

    def __init__(self, dim, heads, qkv_bias):
        super().__init__({"dim": dim, "heads": heads, "bias": qkv_bias, "conv": 0, "gate": True, "decay": "learned"})

    def forward(self, x):
        base, values, gate = self.c_attn(x).split(self.dim, 2)
        share = (self.router(x) * self.temp).softmax(-1) * self.heads
        y, _ = self.means(base, values, share, self.rates.log_rates(), from_end=self.heads // 2)
        return self.c_proj(y.to(x.dtype) * F.silu(gate))


class Attention(nn.Module):
    """softmax, xca (cross-covariance) and linear attention of pictures."""

    def __init__(self, dim, heads, qkv_bias, kind):
        super().__init__()
        self.heads, self.kind = heads, kind
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        if kind == "xca":
            self.temperature = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, x):
        qkv = self.qkv(x) if self.kind == "softmax" else wide(self.qkv(x))
        q, k, v = (_heads_first(part, self.heads) for part in qkv.chunk(3, 2))
        if self.kind == "softmax":
            y = F.scaled_dot_product_attention(q, k, v)
        elif self.kind == "xca":
            q, k = (F.normalize(part, dim=2, eps=1e-12) for part in (q, k))
            scores = torch.matmul(q.transpose(2, 3), k) * self.temperature
            y = torch.matmul(v, scores.softmax(-1).transpose(2, 3))
        else:
            q, k = F.elu(q) + 1, F.elu(k) + 1
            moments = torch.matmul((k / k.shape[2]).transpose(2, 3), v)
            y = torch.matmul(q, moments) / _guarded(torch.matmul(q, k.mean(2, keepdim=True).transpose(2, 3)))
        return self.proj(y.transpose(1, 2).flatten(2).to(x.dtype))


class Subspaces(nn.Module):
    """MSSA of CRATE (arXiv 2306.01129), CBSA (2509.16875), uniform membership and no mixing: one projection in and out."""

    def __init__(self, dim, heads, qkv_bias, kind):
        super().__init__()
        self.heads, self.kind = heads, kind
        self.add_module("proj" if kind == "cbsa" else "qkv", nn.Linear(dim, dim, bias=qkv_bias))
        self.to_out = nn.Sequential(nn.Linear(dim, dim))
        if kind == "cbsa":
            self.step_x = nn.Parameter(torch.ones(heads, 1, 1))
            self.step_rep = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, x):
        w = _heads_first(wide(self.proj(x) if self.kind == "cbsa" else self.qkv(x)), self.heads)
        if self.kind == "mssa":
            w = F.scaled_dot_product_attention(w, w, w)
        elif self.kind == "uniform":
            w = -w / self.heads / (1 + (w * w).mean(2, keepdim=True))
        elif self.kind == "cbsa":
            runs = min(64, w.shape[2])  # averages over so many runs of tokens represent them
            start = F.adaptive_avg_pool2d(w, (runs, w.shape[3]))
            share = (torch.matmul(start, w.transpose(2, 3)) / math.sqrt(w.shape[3])).softmax(-1)
            rep = start + self.step_rep * torch.matmul(share, w)
            w = self.step_x * torch.matmul(share.transpose(2, 3), F.scaled_dot_product_attention(rep, rep, rep))
        return self.to_out(w.transpose(1, 2).flatten(2).to(x.dtype))


class TiedTssa(nn.Module):
    """TSSA exactly as in the paper: orthonormal subspaces, used in and out."""

    def __init__(self, dim, heads, qkv_bias):
        super().__init__()
        self.basis = nn.Parameter(torch.randn(heads, dim, dim // heads))
        self.log_eta = nn.Parameter(torch.zeros(1))
        self.step = nn.Parameter(torch.ones(1))

    def subspaces(self):
        q, r = torch.linalg.qr(wide(self.basis))
        return q * torch.where(r.diagonal(dim1=1, dim2=2) < 0, -1.0, 1.0).to(q.dtype).unsqueeze(1)

    def forward(self, x):
        u = self.fixed if hasattr(self, "fixed") else self.subspaces().transpose(0, 1).flatten(1)
        heads = self.basis.shape[0]
        w = _heads_first(wide(x) @ u, heads)
        squares = w * w
        pi = (squares.sum(-1) * (0.5 * (-self.log_eta).exp())).softmax(1)
        moment = torch.matmul((pi / pi.sum(-1, keepdim=True)).unsqueeze(2), squares)
        y = w * pi.unsqueeze(-1) * (-self.step / (1 + moment))
        return (y.transpose(1, 2).flatten(2) @ u.t()).to(x.dtype)


_PICTURE = {"tssa": TSSA, "means": Means, "tssa-tied": TiedTssa,
            **{name: functools.partial(Attention, kind=name) for name in ("softmax", "xca", "linear")},
            **{name: functools.partial(Subspaces, kind=name) for name in ("mssa", "cbsa", "uniform", "none")}}


def picture_mixer(name):
    """What makes the token mixer `name` of image models; ValueError for one that is not here."""
    name = _ALIASES["vision"].get(name, name)
    if name not in _PICTURE:
        raise ValueError(f"its mixer is '{name}', which the package does not have; the program has it.")
    return _PICTURE[name]


class PictureModel(_vision.VisionParts, nn.Module):
    """Pictures [B, channels, side, side] -> logits [B, classes]."""

    def __init__(self, c):
        super().__init__()
        if (c.get("architecture", "transformer"), c.get("mlp", "gelu")) != ("transformer", "gelu"):
            raise ValueError(f"it is a {c.get('architecture')!r:.40} with the MLP {c.get('mlp')!r:.40}; the package has transformers with gelu.")
        self.config = c
        self.make_parts(c, picture_mixer(c["mixer"]))

    def forward(self, pictures):
        x, (rows, columns) = self.embed(pictures)
        x, _ = self.run(self.blocks, x)
        return self.head(self.norm(self.attend_class(x[:, : rows * columns])[:, 0]))


def load(path, ema=False):
    """The model in a run folder, checkpoint, model file or torch file (see tost.convert), in evaluation mode.

    `model.config` has its settings, `model.description` its classes and preprocessing, or its tokenizer.
    """
    file = convert.read(path, ema)
    kinds = {"vision": PictureModel, "language": LanguageModel}
    _files.need(file.kind in kinds, f"'{path}' holds a {file.kind} model; image and language models can be loaded here.")
    model = _files.build_and_load(lambda: kinds[file.kind](file.config), file, f"'{path}'")
    model.description = file.parts
    return model
