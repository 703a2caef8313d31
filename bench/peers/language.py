"""The causal language network written out in plain PyTorch from the formulas of arXiv 2412.17810.

LanguageNet reads a whole text; StepNet reads one token after a state, which is what the running sums
of Eq. 28 come to. Parameter names are those of the checkpoints.
"""

import torch
import torch.nn.functional as F
from torch import nn

# name: channels, depth, heads, size of the vocabulary
LANGUAGE = {
    "tost_gpt_base": (768, 12, 12, 50304),
    "tost_gpt_medium": (1024, 24, 16, 50304),
    "tost_gpt_char": (128, 4, 4, 65),
}


class CausalTokenStatistics(nn.Module):
    """TSSA as language uses it: statistics over the tokens so far."""

    def __init__(self, dim, heads, block):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(dim, dim, bias=False)
        self.c_proj = nn.Linear(dim, dim, bias=False)
        self.temp = nn.Parameter(torch.ones(heads, 1))
        self.denom_bias = nn.Parameter(torch.zeros(heads, block, 1))

    def project(self, x):
        batch, tokens, dim = x.shape
        return self.c_attn(x).view(batch, tokens, self.heads, dim // self.heads).transpose(1, 2)

    def sums(self, w):
        """Memberships, and the running sums of energies, weighted energies and memberships."""
        squares = w**2
        energies = torch.cumsum(squares, dim=-2)
        share = squares / energies.clamp_min(1e-12)
        logits = (share + self.denom_bias[:, : w.shape[2]]).sum(-1) * self.temp
        pi = F.softmax(logits, dim=1).unsqueeze(-1)  # [B, H, T, 1]
        return pi, energies, torch.cumsum(squares * pi, dim=-2), torch.cumsum(pi, dim=-2)

    def forward(self, x):
        w = self.project(x)
        pi, _, weighted, members = self.sums(w)
        y = -(w * pi) * (1.0 / (1 + weighted / (members + 1e-8)))
        return self.c_proj(y.transpose(1, 2).reshape(x.shape))

    def state(self, x):
        """What step() needs of the tokens `x`: [B, H, 2 P + 1]."""
        _, energies, weighted, members = self.sums(self.project(x))
        return torch.cat([energies[:, :, -1], weighted[:, :, -1], members[:, :, -1]], -1)

    def step(self, x, position, state):
        """One token `x` [B, C] at `position` [1]."""
        batch, dim = x.shape
        width = dim // self.heads
        w = self.c_attn(x).view(batch, self.heads, width).to(state.dtype)
        energies, weighted, members = state.split([width, width, 1], -1)
        squares = w**2
        energies = energies + squares
        share = squares / energies.clamp_min(1e-12)
        bias = self.denom_bias.index_select(1, position).view(self.heads, 1)
        logits = (share + bias).sum(-1, keepdim=True) * self.temp
        pi = F.softmax(logits, dim=1)  # [B, H, 1]
        weighted, members = weighted + squares * pi, members + pi
        y = -(w * pi) * (1.0 / (1 + weighted / (members + 1e-8)))
        y = self.c_proj(y.reshape(batch, dim).to(x.dtype))
        return y, torch.cat([energies, weighted, members], -1)


class GptNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class GptMlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc = nn.Linear(dim, 4 * dim, bias=False)
        self.c_proj = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class GptBlock(nn.Module):
    def __init__(self, dim, mixer):
        super().__init__()
        self.ln_1 = GptNorm(dim)
        self.attn = mixer
        self.ln_2 = GptNorm(dim)
        self.mlp = GptMlp(dim)
        self.gamma1 = nn.Parameter(torch.ones(dim))
        self.gamma2 = nn.Parameter(torch.ones(dim))

    def after(self, x, mixed):
        x = x + self.gamma1 * mixed
        return x + self.gamma2 * self.mlp(self.ln_2(x))

    def forward(self, x):
        return self.after(x, self.attn(self.ln_1(x)))

    def step(self, x, position, state):
        mixed, state = self.attn.step(self.ln_1(x), position, state)
        return self.after(x, mixed), state


class LanguageNet(nn.Module):
    """Logits of the last token alone, as generation reads them.

    `mixer(dim, heads, block)` makes what stands in the place of attention.
    """

    def __init__(self, name, block=1024, positions=True, mixer=CausalTokenStatistics):
        super().__init__()
        dim, depth, heads, vocab = LANGUAGE[name]
        blocks = [GptBlock(dim, mixer(dim, heads, block)) for _ in range(depth)]
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, dim),
            "h": nn.ModuleList(blocks),
            "ln_f": GptNorm(dim),
        })
        if positions:
            self.transformer["wpe"] = nn.Embedding(block, dim)

    def embed(self, ids, position):
        """`position`: a slice, or a tensor of one position."""
        x = self.transformer["wte"](ids)
        return x + self.transformer["wpe"].weight[position] if "wpe" in self.transformer else x

    def hidden(self, ids):
        x = self.embed(ids, slice(ids.shape[1]))
        for block in self.transformer["h"]:
            x = block(x)
        return x

    def logits(self, x):
        return F.linear(self.transformer["ln_f"](x), self.transformer["wte"].weight)

    def forward(self, ids):
        return self.logits(self.hidden(ids)[:, -1])

    def loss(self, ids, targets):
        return F.cross_entropy(self.logits(self.hidden(ids)).flatten(0, 1), targets.flatten())

    def states(self, ids):
        """Of every block after a text: [depth, B, H, 2 P + 1]."""
        found, x = [], self.embed(ids, slice(ids.shape[1]))
        for block in self.transformer["h"]:
            found.append(block.attn.state(block.ln_1(x)))
            x = block(x)
        return torch.stack(found)


class StepNet(nn.Module):
    """ids [B], position [1], states [depth, B, H, 2 P + 1] -> logits, states after the token."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, ids, position, states):
        x, after = self.net.embed(ids, position), []
        for block, state in zip(self.net.transformer["h"], states.unbind(0)):
            x, state = block.step(x, position, state)
            after.append(state)
        return self.net.logits(x), torch.stack(after)


def make(name, weights, longest):
    """The network of `name` with `weights`, ready to read texts of up to `longest` tokens."""
    weights = dict(weights)
    positions = weights.get("transformer.wpe.weight")
    biases = [key for key in weights if key.endswith("denom_bias")]
    rows = max(longest, weights[biases[0]].shape[1]) if positions is None else len(positions)
    if longest > rows:
        raise ValueError(f"{name} has positions for {rows} tokens, not {longest}")
    for key in biases:  # 0 beyond its length
        weights[key] = F.pad(weights[key], (0, 0, 0, rows - weights[key].shape[1]))
    return LanguageNet(name, rows, positions is not None), weights
