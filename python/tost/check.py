"""Tells whether a TSSA layer computes what the paper's official code computes, and if not, which step differs."""

import copy
import itertools
from typing import NamedTuple, Optional

import torch
from torch import nn
from torch.nn.functional import linear

_EXACT = 1e-11  # in float64 with a few tokens this tells 1e-8 from 0
_CLOSE = 1e-5  # of a layer that rounds to float32 somewhere

# Each step of the definition: its name, the paper's choice first, and what others do in its place.
_STEPS = {
    "norm": ("tokens", {
        "none": "w is not normalised before the logits; each feature must be divided by its norm over the tokens",
        "features": "the norm is taken over the features of a token; it must be taken over the tokens",
    }),
    "temp": ("times", {
        "none": "the logits are not multiplied by the temperature",
        "over": "the logits are divided by the temperature; they must be multiplied by it",
    }),
    "softmax": ("heads", {
        "tokens": "the softmax runs over the tokens; it must run over the heads",
        "none": "there is no softmax: memberships must be a softmax over the heads",
    }),
    "graph": ("whole", {
        "cut": "no gradient flows through the memberships",
    }),
    "eps": ("1e-8", {
        "0": "nothing is added to the sum of memberships; 1e-8 must be, so that an empty head does not divide by 0",
    }),
    "moment": ("weighted", {
        "unscaled": "the second moments are not divided by the sum of memberships",
        "uniform": "the second moments are means over all tokens; they must be weighted by the memberships",
        "normalised": "the second moments are those of the normalised w; they must be those of w itself",
        "first": "the moments are means of w; they must be means of w^2",
    }),
    "damping": ("1/(1+S)", {
        "1/S": "w is divided by the second moments S; it must be divided by 1 + S",
        "S": "w is multiplied by the second moments S; it must be divided by 1 + S",
        "1": "w is not damped by the second moments S; it must be divided by 1 + S",
    }),
    "gate": ("pi", {
        "none": "the output is not multiplied by the memberships",
    }),
    "sign": ("-", {
        "+": "the sign of the output is reversed (harmless where the output matrix is trained with it)",
    }),
}  # fmt: skip


class TSSAReport(NamedTuple):
    """True where the layer is the paper's; `str` of it is a sentence."""

    ok: bool
    step: Optional[str]  # what differs
    value_error: float  # largest deviations, relative to the largest entry
    gradient_error: float

    def __bool__(self):
        return self.ok

    def __str__(self):
        if self.ok:
            return (
                "This layer is the paper's TSSA "
                f"(deviation of values {self.value_error:.1e}, of gradients {self.gradient_error:.1e})."
            )
        return f"This layer is not the paper's TSSA: {self.step}."


def _operator(w, temp, heads, choice):
    """TSSA of w [B, N, C] with some steps changed."""
    x = w.unflatten(2, (heads, -1)).transpose(1, 2)  # [B, H, N, P]
    unit = x
    if choice["norm"] != "none":
        unit = x / x.norm(dim=2 if choice["norm"] == "tokens" else 3, keepdim=True).clamp_min(1e-12)
    pi = unit.square().sum(-1)
    if choice["temp"] != "none":
        pi = pi * temp if choice["temp"] == "times" else pi / temp
    if choice["softmax"] != "none":
        pi = torch.softmax(pi, 1 if choice["softmax"] == "heads" else 2)
    if choice["graph"] == "cut":
        pi = pi.detach()
    weights = torch.ones_like(pi) if choice["moment"] == "uniform" else pi
    if choice["moment"] != "unscaled":
        weights = weights / (weights.sum(-1, keepdim=True) + float(choice["eps"]))
    terms = {"normalised": unit**2, "first": x}.get(choice["moment"], x**2)
    moment = (weights.unsqueeze(-1) * terms).sum(2, keepdim=True)
    damping = {"1/(1+S)": 1 / (1 + moment), "1/S": 1 / moment, "S": moment, "1": 1}[choice["damping"]]
    y = x * damping * (1 if choice["gate"] == "none" else pi.unsqueeze(-1))
    return (y if choice["sign"] == "+" else -y).transpose(1, 2).flatten(2)


def _named(candidates, words):
    return next((value for name, value in candidates if any(word in name for word in words)), None)


def _parts(module):
    """The projections and the temperature of a layer, found by their names, else by order and shape."""
    layers = [
        (name, m)
        for name, m in module.named_modules()
        if isinstance(m, nn.Linear) or (isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1))
    ]
    if not layers:
        raise ValueError("check_tssa: the module has no projection (nn.Linear, or nn.Conv2d of size 1).")
    into = _named(layers, ("qkv", "in_proj", "to_q")) or layers[0][1]
    rest = [(name, m) for name, m in layers if m is not into]
    out = _named(rest, ("to_out", "out_proj", "proj")) or (rest[-1][1] if rest else None)
    own = {id(p) for _, m in layers for p in m.parameters()}
    scales = [(n, p) for n, p in module.named_parameters() if id(p) not in own and p.numel() == max(p.shape, default=0)]
    temp = _named(scales, ("temp", "tau", "scale"))
    heads = next((getattr(module, n) for n in ("num_heads", "heads", "n_heads", "n_head") if hasattr(module, n)), None)
    if heads is None:
        if temp is None:
            raise ValueError("check_tssa: the module has neither num_heads nor a parameter named temp of one entry a head.")
        heads = temp.numel()
    if temp is None or temp.numel() != heads:
        temp = next((p for _, p in scales if p.numel() == heads), temp)
    return into, out, temp, int(heads), len(layers)


def _matrix(layer):
    return layer.weight.flatten(1), layer.bias


def _call(module, x):
    """The module of tokens [B, N, C], whichever of both layouts it takes; its first result where it gives several."""
    batch, tokens, channels = x.shape
    tried = []
    for maps in (False, True):
        given = x.transpose(1, 2).reshape(batch, channels, tokens // 2, 2) if maps else x
        try:
            y = module(given)
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            tried.append(str(error).split("\n")[0])
            continue
        y = y[0] if isinstance(y, (tuple, list)) else y
        if isinstance(y, torch.Tensor) and y.shape == given.shape:
            return y.flatten(2).transpose(1, 2) if maps else y
        found = list(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
        tried.append(f"its result is {found} for {list(given.shape)}")
    raise ValueError(
        f"check_tssa: the module takes neither [B, N, {channels}] nor [B, {channels}, H, W]: {'; '.join(tried)}."
    )


def _distance(found, expected):
    """The largest deviation, each tensor's relative to its own largest entry; missing counts as zero."""
    worst = 0.0
    for a, b in zip(found, expected):
        if a is None and b is None:
            continue
        a = torch.zeros_like(b) if a is None else a
        b = torch.zeros_like(a) if b is None else b
        scale = max(float(b.detach().abs().max()), 1e-30)
        error = float((a - b).detach().abs().max()) / scale
        worst = max(worst, error if error == error else float("inf"))
    return worst


def check_tssa(module):
    """Compares values and gradients of a bidirectional TSSA layer with the plain definition on the layer's own weights.

    Takes a module with one projection in, one out, a temperature a head, and `num_heads` or `heads`; it may want
    [B, N, C] or [B, C, H, W]. Works on a copy in float64 and evaluation mode, with temperatures and input that show
    every step. Returns a TSSAReport: true if the layer is the paper's, else `step` names what differs.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"check_tssa: the layer must be a torch.nn.Module, but is {type(module).__name__}.")
    module = copy.deepcopy(module).cpu().double().eval().requires_grad_(True)
    into, out, temp, heads, projections = _parts(module)
    channels = into.weight.shape[1]

    def wrong(step):
        return TSSAReport(False, step, float("inf"), float("inf"))

    if into.weight.shape[0] == 3 * channels:
        return wrong(
            "it projects to queries, keys and values, 3 x C features, as scaled dot product attention does; "
            "TSSA has one projection to C features"
        )
    if into.weight.shape[0] % heads != 0 or heads < 1:
        return wrong(f"its {heads} heads do not divide the {into.weight.shape[0]} features of its projection")
    if projections != 2:
        return wrong(f"the number of its projections is {projections}; TSSA has two, one in and one out")
    if temp is not None and temp.numel() != heads:
        return wrong(f"its temperature has {temp.numel()} entries; there must be one for each of the {heads} heads")
    generator = torch.Generator().manual_seed(0)

    def random(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    parameters = list(module.parameters())
    with torch.no_grad():
        for p in parameters:  # zeros at the start would hide what they multiply
            p.copy_(random(*p.shape) / p[0].numel() ** 0.5 if p.dim() > 1 else 0.1 * random(*p.shape))
        if temp is not None:
            temp.copy_(torch.linspace(0.5, 2.0, heads, dtype=torch.float64).view_as(temp))
    x = random(2, 6, channels).requires_grad_()
    weights = random(2, 6, out.weight.shape[0])
    inputs = [x, *parameters]

    def results(y):
        return y, torch.autograd.grad(y, inputs, weights, allow_unused=True, retain_graph=True)

    def definition(choice):
        w = linear(x, *_matrix(into))
        factor = torch.ones(heads, 1, dtype=w.dtype) if temp is None else temp.reshape(heads, 1)
        return results(linear(_operator(w, factor, heads, choice), *_matrix(out)))

    y = _call(module, x)
    if not y.requires_grad:
        return wrong("no gradient flows through it")
    found = results(y)

    def errors(choice):
        y, gradients = definition(choice)
        return _distance([found[0]], [y]), _distance(found[1], gradients)

    paper = {step: choices[0] for step, choices in _STEPS.items()}
    exact = errors(paper)
    if max(exact) > _EXACT:
        changes = [(step, other, text) for step, (_, others) in _STEPS.items() for other, text in others.items()]
        for count in (1, 2):
            for chosen in itertools.combinations(changes, count):
                if len({step for step, *_ in chosen}) < count:
                    continue
                if max(errors({**paper, **{step: other for step, other, _ in chosen}})) <= _EXACT:
                    return TSSAReport(False, "; and ".join(text for *_, text in chosen), *exact)
    if max(exact) > _CLOSE:
        return TSSAReport(False, "no one or two of the steps known to go wrong explain how it differs", *exact)
    if temp is None:
        return TSSAReport(False, "it has no temperature, one learned factor a head on the logits", *exact)
    with torch.no_grad():
        if into.bias is not None:
            into.bias.zero_()
        if not torch.isfinite(_call(module, torch.zeros_like(x))).all():
            return TSSAReport(False, "a feature that is 0 at all tokens gives NaN; its norm must be at least 1e-12", *exact)
    return TSSAReport(True, None, *exact)


def check_model(model):
    """Checks every layer of a model that looks like TSSA: one with projections and a temperature a head.

    Returns [(name, TSSAReport)] in the order of the model; `print(*tost.check_model(model), sep="\\n")` shows them.
    """
    found = []
    for name, module in model.named_modules():
        if any(name.startswith(f"{outer}.") for outer, _ in found):
            continue
        names = {part for part, _ in module.named_parameters(recurse=False)}
        if not any(word in part for part in names for word in ("temp", "tau")) or not any(module.children()):
            continue
        try:
            found.append((name, check_tssa(module)))
        except ValueError as error:
            found.append((name, TSSAReport(False, str(error).replace("check_tssa: ", ""), float("inf"), float("inf"))))
    return found
