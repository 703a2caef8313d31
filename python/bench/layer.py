"""Times tost.nn.TSSA against the official layer in plain PyTorch, forward and with backward, after checking that both agree.

usage: layer.py [--threads N] [--rounds N] [--compile]; the layers alternate, and medians are printed. `maps` is the time of the layer's two
linear maps by torch, which both layers call: a layer whose other work took no time would be `most` times as fast. Memory is what a
forward pass keeps for the backward pass.
"""

import argparse
import pathlib
import statistics
import sys
import time

import torch

import tost

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import reference  # noqa: E402


def forward(layer, x):
    with torch.no_grad():
        return layer(x)


def training(layer, x):
    y = layer(x)
    y.backward(x.detach())
    return y


class Maps(torch.nn.Module):
    """The linear maps of a layer without what is between them."""

    def __init__(self, layer):
        super().__init__()
        self.qkv, self.to_out = layer.qkv, layer.to_out

    def forward(self, x):
        return self.to_out(self.qkv(x))


def seconds(work, layer, x):
    layer.zero_grad()
    x.grad = None
    start = time.perf_counter()
    work(layer, x)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--compile", action="store_true", help="both by torch.compile in place of eager mode")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} threads, medians of {options.rounds} rounds, milliseconds")
    print("shape           work              plain     tost    ratio     maps     most")
    for shape in ((1, 197, 384), (1, 400, 256), (8, 400, 256), (32, 197, 384), (8, 1024, 768), (2, 4096, 384)):
        torch.manual_seed(0)
        if options.compile:
            torch.compiler.reset()
        x = torch.randn(shape, requires_grad=True)
        plain = reference.Layer(shape[2])
        ours = tost.nn.TSSA(shape[2])
        ours.load_state_dict(plain.state_dict())
        torch.testing.assert_close(ours(x), plain(x), rtol=1e-4, atol=1e-5)
        for name, work in (("forward", forward), ("with backward", training)):
            times = {torch.compile(layer) if options.compile else layer: [] for layer in (plain, ours, Maps(ours))}
            for layer in times:
                seconds(work, layer, x)
            for _ in range(options.rounds):
                for layer, found in times.items():
                    found.append(seconds(work, layer, x))
            a, b, c = (1e3 * statistics.median(found) for found in times.values())
            print(f"{'x'.join(map(str, shape)):15} {name:14} {a:8.2f} {b:8.2f} {a / b:8.2f} {c:8.2f} {a / c:8.2f}")
        a, b = (reference.kept_bytes(layer, x) / 1e6 for layer in (plain, ours))
        print(f"{'x'.join(map(str, shape)):15} {'memory, MB':14} {a:8.2f} {b:8.2f} {a / b:8.2f}")


if __name__ == "__main__":
    main()
