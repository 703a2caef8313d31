"""Errors of values and gradients in half precision, this package's layers and the official ones, as a table in Markdown.

usage: half_precision.py [--device cuda]; prints the errors that docs/half-precision.md sums up. Errors are the largest deviation from float64
on the same rounded weights and inputs, relative to the largest entry; of gradients the worst of input, weights and temperature.
"""

import argparse
import copy
import pathlib
import sys

import torch

import tost

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import reference  # noqa: E402

WAYS = (("autocast", torch.float16), ("module", torch.float16), ("autocast", torch.bfloat16), ("module", torch.bfloat16))
# Name, factor on the weights of the first projection, tokens.
CASES = (("usual weights", 1, 196), ("weights times 30", 30, 196), ("weights times 300", 300, 196), ("4,096 tokens", 1, 4096))


def layers(causal, tokens):
    """This package's layer and the official one, of the same weights."""
    torch.manual_seed(0)
    if causal:
        ours, official = tost.nn.CausalTSSA(192, 4, tokens), reference.CausalLayer(192, 4, tokens)
    else:
        ours, official = tost.nn.TSSA(192, 4), reference.Layer(192, 4)
    with torch.no_grad():
        ours.temp.uniform_(0.5, 2)
    official.load_state_dict(ours.state_dict())
    return ours, official


def results(layer, x, weights, dtype=None):
    """Output and gradients; with `dtype` under autocast."""
    x = x.detach().clone().requires_grad_()
    with torch.autocast(x.device.type, dtype or torch.bfloat16, enabled=dtype is not None):
        y = layer(x)
    names, parameters = zip(*sorted((name, p) for name, p in layer.named_parameters() if "denom" not in name))
    return y, torch.autograd.grad(y, [x, *parameters], weights.to(y.dtype))


def error(found, exact):
    worst = 0.0
    for a, b in zip(found, exact):
        scale = b.detach().abs().max().clamp_min(1e-30)
        one = float((a.detach().double() - b.detach()).abs().max() / scale)
        worst = max(worst, one) if one == one else float("nan")
        if worst != worst:
            break
    return worst


def shown(value):
    return "NaN" if value != value else "infinite" if value == float("inf") else f"{value:.0e}"


def row(causal, way, dtype, factor, tokens, device):
    pair = layers(causal, tokens)
    cells = []
    for layer in (pair[1], pair[0]):
        layer = layer.to(device)
        with torch.no_grad():
            (layer.c_attn if causal else layer.qkv).weight.mul_(factor)
            for parameter in layer.parameters():
                parameter.copy_(parameter.to(dtype))
        x = torch.randn(2, tokens, 192, generator=torch.Generator().manual_seed(1)).to(dtype).to(device)
        weights = torch.linspace(-1, 1, x.numel()).sin().view(x.shape).to(device) / 16
        exact_layer = copy.deepcopy(pair[1]).to(device).double()
        exact_layer.load_state_dict(layer.state_dict())
        y, gradients = results(exact_layer, x.double(), weights.double())
        if way == "module":
            found, found_gradients = results(copy.deepcopy(layer).to(dtype), x, weights)
        else:
            found, found_gradients = results(layer, x.float(), weights, dtype)
        cells += [shown(error([found], [y])), shown(error(found_gradients, gradients))]
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    print("| layer | type | weights and input | official: values | gradients | `tost.nn`: values | gradients |")
    print("|---|---|---|---:|---:|---:|---:|")
    for causal in (False, True):
        for way, dtype in WAYS:
            for name, factor, tokens in CASES:
                cells = row(causal, way, dtype, factor, tokens, options.device)
                layer, kind = "causal" if causal else "bidirectional", str(dtype)[6:] + (", autocast" if way == "autocast" else "")
                print(f"| {layer} | {kind} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
