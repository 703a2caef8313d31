"""Tells whether a TSSA layer computes what the paper's official code computes, and if not, which step differs."""

import copy
import functools
import itertools
from typing import NamedTuple, Optional

import torch
from torch import nn
from torch.nn.functional import linear

_EXACT = 1e-11  # in float64 with a few tokens this tells 1e-8 from 0
_CLOSE = 1e-5  # of a layer that rounds to float32 somewhere

_PAPER = {"norm": "tokens", "temp": "times", "softmax": "heads", "graph": "whole", "eps": 1e-8, "moment": "weighted",
          "damping": "1/(1+S)", "token": "own", "gate": "pi", "sign": "-"}
# What others compute in place of steps of the paper.
_CHANGES = [
    ({"norm": "none"}, "w is not normalised before the logits; each feature must be divided by its norm over the tokens"),
    ({"norm": "features"}, "the norm is taken over the features of a token; it must be taken over the tokens"),
    ({"temp": "none"}, "the logits are not multiplied by the temperature"),
    ({"temp": "over"}, "the logits are divided by the temperature; they must be multiplied by it"),
    ({"softmax": "tokens"}, "the softmax runs over the tokens; it must run over the heads"),
    ({"softmax": "none"}, "there is no softmax: memberships must be a softmax over the heads"),
    ({"graph": "cut"}, "no gradient flows through the memberships"),
    ({"eps": 0.0}, "nothing is added to the sum of memberships; 1e-8 must be, so that an empty head does not divide by 0"),
    ({"moment": "unscaled"}, "the second moments are not divided by the sum of memberships"),
    ({"moment": "uniform"}, "the second moments are means over all tokens; they must be weighted by the memberships"),
    ({"moment": "normalised"}, "the second moments are those of the normalised w; they must be those of w itself"),
    ({"moment": "first"}, "the moments are means of w; they must be means of w^2"),
    ({"damping": "1/S"}, "w is divided by the second moments S; it must be divided by 1 + S"),
    ({"damping": "S"}, "w is multiplied by the second moments S; it must be divided by 1 + S"),
    ({"damping": "1"}, "w is not damped by the second moments S; it must be divided by 1 + S"),
    ({"damping": "1/(1+root)"}, "w is divided by 1 and the root of the second moments S; it must be divided by 1 + S"),
    ({"damping": "root"}, "w is multiplied by the root of the second moments S; it must be divided by 1 + S"),
    ({"damping": "root", "token": "none"}, "the root of the second moments is broadcast to all tokens; each token's own w must be "
                                           "divided by 1 + S"),
    ({"gate": "none"}, "the output is not multiplied by the memberships"),
    ({"sign": "+"}, "the sign of the output is reversed (harmless where the output matrix is trained with it)"),
]  # fmt: skip
_DAMPINGS = {"1/(1+S)": lambda s: 1 / (1 + s), "1/S": lambda s: 1 / s, "S": lambda s: s, "1": torch.ones_like,
             "1/(1+root)": lambda s: 1 / (1 + s.sqrt()), "root": torch.sqrt}


class TSSAReport(NamedTuple):
    """True where the layer is the paper's; `str` of it is a sentence."""

    ok: bool
    step: Optional[str]  # what differs
    value_error: float = float("inf")  # largest deviations, relative to the largest entry
    gradient_error: float = float("inf")

    def __bool__(self):
        return self.ok

    def __str__(self):
        if self.ok:
            return ("This layer is the paper's TSSA "
                    f"(deviation of values {self.value_error:.1e}, of gradients {self.gradient_error:.1e}).")
        return f"This layer is not the paper's TSSA: {self.step}."


class ModelReport(list):
    """(name, TSSAReport) of every layer; `str` of it is a sentence for each layer that is not TSSA, or one for all."""

    def __str__(self):
        wrong = [f"layer {i} of {len(self)} is not TSSA ({name}): {report.step}"
                 for i, (name, report) in enumerate(self, 1) if not report]
        right = f"all {len(self)} layers are the paper's TSSA" if self else "the model has no layer that looks like TSSA"
        return "\n".join(wrong) or right


def _operator(w, temp, heads, choice):
    """TSSA of w [B, N, C] with some steps changed; temp None: 1 for all heads."""
    temp = w.new_ones(heads, 1) if temp is None else temp.reshape(heads, 1)
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
        weights = weights / (weights.sum(-1, keepdim=True) + choice["eps"])
    terms = {"normalised": unit**2, "first": x}.get(choice["moment"], x**2)
    moment = (weights.unsqueeze(-1) * terms).sum(2, keepdim=True)
    y = (x if choice["token"] == "own" else torch.ones_like(x)) * _DAMPINGS[choice["damping"]](moment)
    y = y if choice["gate"] == "none" else y * pi.unsqueeze(-1)
    return (y if choice["sign"] == "+" else -y).transpose(1, 2).flatten(2)


def _is_projection(module):
    return isinstance(module, nn.Linear) or isinstance(module, (nn.Conv1d, nn.Conv2d)) and set(module.kernel_size) == {1}


def _matrix(layer):
    return layer.weight.flatten(1), layer.bias


def _tokens(layer, x):
    """What a projection takes or gives, as [B, N, C]."""
    return x if isinstance(layer, nn.Linear) else x.flatten(2).transpose(1, 2)


class _Run:
    """The module of tokens x [B, N, C], whichever of both layouts it takes: its first result, and what its projections did."""

    def __init__(self, module, x):
        batch, tokens, channels = x.shape
        tried = []
        for maps in (False, True):
            given = x.transpose(1, 2).reshape(batch, channels, tokens // 2, 2) if maps else x
            self.calls = []  # projections in the order of their calls, each with its output and input
            handles = [m.register_forward_hook(self._record) for m in module.modules() if _is_projection(m)]
            try:
                y = module(given)
            except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
                tried.append(str(error).split("\n")[0])
                continue
            finally:
                for handle in handles:
                    handle.remove()
            y = y[0] if isinstance(y, (tuple, list)) else y
            if isinstance(y, torch.Tensor) and y.shape == given.shape:
                self.y = y.flatten(2).transpose(1, 2) if maps else y
                return
            found = list(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
            tried.append(f"its result is {found} for {list(given.shape)}")
        raise ValueError(f"check_tssa: the module takes neither [B, N, {channels}] nor [B, {channels}, H, W]: {'; '.join(tried)}.")

    def _record(self, layer, inputs, output):
        self.calls.append((layer, output, inputs[0]))


def _head_choices(module, projections, features):
    """Pairs of a number of heads and the temperature, which may be missing, the most likely first."""
    own = {id(p) for layer in projections for p in layer.parameters()}
    scales = [(n, p) for n, p in module.named_parameters() if id(p) not in own and p.numel() == max(p.shape, default=0)]
    scales.sort(key=lambda item: not any(word in item[0] for word in ("temp", "tau", "scale")))
    named = [getattr(module, n) for n in ("num_heads", "heads", "n_heads", "n_head") if hasattr(module, n)]
    numbers = [v for v in vars(module).values() if type(v) is int and 1 < v < features and features % v == 0]
    found = []
    for heads in [*map(int, named), *(p.numel() for _, p in scales if p.numel() <= features), *numbers]:
        temps = [p for _, p in scales if p.numel() == heads] or [p for _, p in scales[:1]] or [None]
        found += [(heads, temp) for temp in temps if (heads, id(temp)) not in [(h, id(t)) for h, t in found]]
    if not found:
        raise ValueError("check_tssa: the module has neither num_heads nor a parameter named temp of one entry a head.")
    return found


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


def _explanation(run, x, heads, temp):
    """The one or two changes that make the operator what runs between the projections, in words; three with one of two steps."""
    (into, w, _), (out, _, inner) = run.calls
    tokens, inner = _tokens(into, w), _tokens(out, inner)
    inputs = [w] if temp is None else [w, temp]
    weights = torch.linspace(-1, 1, inner.numel(), dtype=x.dtype).sin().view(inner.shape)

    def gradients(y):
        if not y.requires_grad:
            return [None] * len(inputs)
        return torch.autograd.grad(y, inputs, weights, allow_unused=True, retain_graph=True)

    def explains(choice):
        with torch.no_grad():
            y = _operator(tokens, temp, heads, choice)
        fits = y.shape == inner.shape and _distance([inner], [y]) <= _EXACT
        return fits and _distance(gradients(inner), gradients(_operator(tokens, temp, heads, choice))) <= _EXACT

    for count in (1, 2, 3):
        for chosen in itertools.combinations(_CHANGES, count):
            changes = [change for change, _ in chosen]
            merged = {step: value for change in changes for step, value in change.items()}
            if len(merged) < sum(map(len, changes)) or count == 3 and len(merged) == 3:
                continue
            if explains({**_PAPER, **merged}):
                return "; and ".join(words for _, words in chosen)
    return "no one or two of the steps known to go wrong explain how it differs"


def _whole_errors(run, x, parameters, heads, temp, weights):
    """Deviations of values and gradients of the whole layer from the paper's on its own weights."""
    (into, *_), (out, *_) = run.calls
    y = linear(_operator(linear(x, *_matrix(into)), temp, heads, _PAPER), *_matrix(out))
    results = [torch.autograd.grad(z, [x, *parameters], weights, allow_unused=True, retain_graph=True) for z in (run.y, y)]
    return _distance([run.y], [y]), _distance(*results)


def check_tssa(module):
    """Compares values and gradients of a bidirectional TSSA layer with the plain definition on the layer's own weights.

    Takes a module with one projection in, one out, and a temperature a head, by any names; it may want [B, N, C] or
    [B, C, H, W]. Works on a copy in float64 and evaluation mode, with temperatures and input that show every step.
    Returns a TSSAReport: true if the layer is the paper's, else `step` names what differs.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"check_tssa: the layer must be a torch.nn.Module, but is {type(module).__name__}.")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so little work gains nothing by threads, which wait for each other on a busy machine
    try:
        return _report(copy.deepcopy(module).cpu().double().eval().requires_grad_(True))
    finally:
        torch.set_num_threads(threads)


def _report(module):
    """What check_tssa() says of a module that may be changed."""
    projections = [m for m in module.modules() if _is_projection(m)]
    if not projections:
        raise ValueError("check_tssa: the module has no projection (nn.Linear, or a convolution of size 1).")
    features, channels = projections[0].weight.shape[:2]
    choices = _head_choices(module, projections, features)
    heads = choices[0][0]
    if features == 3 * channels:
        return TSSAReport(False, "it projects to queries, keys and values, 3 x C features, as scaled dot product attention does; "
                                 "TSSA has one projection to C features")
    if heads < 1 or features % heads != 0:
        return TSSAReport(False, f"its {heads} heads do not divide the {features} features of its projection")
    random = functools.partial(torch.randn, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    parameters = list(module.parameters())
    with torch.no_grad():
        for p in parameters:  # zeros at the start would hide what they multiply
            p.copy_(random(*p.shape) / p[0].numel() ** 0.5 if p.dim() > 1 else 0.1 * random(*p.shape))
        for heads, temp in reversed(choices):
            if temp is not None:
                temp.copy_(torch.linspace(0.5, 2.0, temp.numel(), dtype=torch.float64).view_as(temp))
    x = random(2, 6, channels).requires_grad_()
    run = _Run(module, x)
    if len(run.calls) != 2:
        return TSSAReport(False, f"the number of its projections is {len(run.calls)}; TSSA has two, one in and one out")
    heads, temp = choices[0]
    if temp is not None and temp.numel() != heads:
        return TSSAReport(False, f"its temperature has {temp.numel()} entries; there must be one for each of the {heads} heads")
    if not run.y.requires_grad:
        return TSSAReport(False, "no gradient flows through it")
    weights = random(*run.y.shape)
    fitting = [(h, t) for h, t in choices if features % h == 0 and (t is None or t.numel() == h)]
    tried = [(_whole_errors(run, x, parameters, h, t, weights), h, t) for h, t in fitting]
    exact, heads, temp = min(tried, key=lambda one: max(one[0]))
    if max(exact) > _EXACT:
        step = _explanation(run, x, heads, temp)
        if max(exact) > _CLOSE or not step.startswith("no one or two"):
            return TSSAReport(False, step, *exact)
    if temp is None:
        return TSSAReport(False, "it has no temperature, one learned factor a head on the logits", *exact)
    with torch.no_grad():
        into = run.calls[0][0]
        if into.bias is not None:
            into.bias.zero_()
        if not torch.isfinite(_Run(module, torch.zeros_like(x)).y).all():
            return TSSAReport(False, "a feature that is 0 at all tokens gives NaN; its norm must be at least 1e-12", *exact)
    return TSSAReport(True, None, *exact)


def _looks_like_tssa(module):
    """Whether it has projections and a temperature of its own, or is called so, and nothing in it has."""
    near = [m for child in module.children() for m in (child, *child.children()) if _is_projection(m)]
    if not near or any(_looks_like_tssa(m) for m in module.modules() if m is not module):
        return False
    features = near[0].weight.shape[0]
    own = [(n, p.numel()) for n, p in module.named_parameters(recurse=False) if p.numel() == max(p.shape, default=0)]
    a_head = any("temp" in name or "tau" in name or 1 < size < features and features % size == 0 for name, size in own)
    return a_head and len(near) > 1 or "tssa" in type(module).__name__.lower()


def check_model(model):
    """Checks every layer of a model that looks like TSSA: with projections and one temperature a head, or by its name.

    Returns a ModelReport, a list of (name, TSSAReport) in the order of the model; `print(tost.check_model(model))` says
    "layer 3 of 5 is not TSSA" and why.
    """
    found = ModelReport()
    for name, module in model.named_modules():
        if _looks_like_tssa(module):
            try:
                found.append((name, check_tssa(module)))
            except ValueError as error:
                found.append((name, TSSAReport(False, str(error).replace("check_tssa: ", "").rstrip("."))))
    return found
