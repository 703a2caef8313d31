#!/usr/bin/env python3
"""How time and memory of one layer grow with the number of tokens, for several mixers in one process (docs/scaling.md).

usage: bench/scaling.py [--mixers tssa,softmax] [--tokens 1k,4k,16k] [--modes forward,train] [--causal] [--json] ...

The operators are those of the build in build/release or of the installed package. `--draw` makes a figure of
the JSON.
"""
import argparse
import copy
import json
import math
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # before torch: its profiler says nothing

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
MIXERS = ("tssa", "softmax", "xca", "linear", "ssm")
GUESS = {"forward": 14, "train": 32}  # peak memory in inputs, before a length is measured
BLOCK = 4096  # tokens that are compared with float64 at a time


class Attention(nn.Module):
    """Softmax attention, linear attention with elu + 1, or attention between channels (XCA)."""

    def __init__(self, mixer, dim, heads, causal):
        super().__init__()
        self.mixer, self.heads, self.causal = mixer, heads, causal
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        if mixer == "xca":
            self.temperature = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.mixer == "softmax":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        elif self.mixer == "xca":
            scores = F.normalize(q, dim=2).transpose(2, 3) @ F.normalize(k, dim=2) * self.temperature
            y = v @ scores.softmax(-1).transpose(2, 3)
        else:
            q, k = F.elu(q) + 1, F.elu(k) + 1
            y = running(q, k, v) if self.causal else q @ (k.transpose(2, 3) @ v) / (q @ k.sum(2).unsqueeze(-1))
        return self.proj(y.transpose(1, 2).flatten(2))


def running(q, k, v, chunk=64):
    """Causal linear attention in chunks: within one by a masked product, before it by sums of moments."""
    tokens = q.shape[2]
    v = torch.cat((v, torch.ones_like(v[..., :1])), 3)  # the last column sums the weights
    q, k, v = (F.pad(z, (0, 0, 0, -tokens % chunk)).unflatten(2, (-1, chunk)) for z in (q, k, v))
    moments = k.transpose(3, 4) @ v
    y = (q @ k.transpose(3, 4)).tril() @ v + q @ (moments.cumsum(2) - moments)
    y = y.flatten(2, 3)[:, :, :tokens]
    return y[..., :-1] / y[..., -1:]


class StateSpace(nn.Module):
    """S4D with 16 complex states a channel, by a convolution over Fourier transforms, then GELU and a gated map."""

    def __init__(self, dim, causal, states=16):
        super().__init__()
        self.log_dt = nn.Parameter(torch.empty(dim).uniform_(math.log(1e-3), math.log(1e-1)))
        self.log_decay = nn.Parameter(torch.full((dim, states), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(states).repeat(dim, 1).float())
        self.c = nn.Parameter(torch.randn(1 if causal else 2, dim, states, 2) * 0.5**0.5)
        self.d, self.out = nn.Parameter(torch.ones(dim)), nn.Linear(dim, 2 * dim)

    def forward(self, x):
        wide = x.double() if x.dtype == torch.float64 else x.float()
        tokens = x.shape[1]
        rates = torch.complex(-self.log_decay.to(wide.dtype).exp(), self.frequency.to(wide.dtype))
        step = rates * self.log_dt.to(wide.dtype).exp().unsqueeze(1)
        weights = 2 * torch.view_as_complex(self.c.to(wide.dtype)) * ((step.exp() - 1) / rates)
        kernels = torch.zeros(len(weights), x.shape[2], tokens, dtype=wide.dtype)
        for n in range(step.shape[1]):  # one state at a time: all at once take 32 times the memory of the input
            kernels = kernels + (weights[:, :, n : n + 1] * (step[:, n : n + 1] * torch.arange(tokens)).exp()).real
        kernel = F.pad(kernels[0], (0, tokens))
        if len(kernels) == 2:  # the second reads from the end, without the token itself
            kernel = kernel + F.pad(kernels[1][:, : tokens - 1].flip(1), (tokens + 1, 0))
        u = wide.transpose(1, 2)
        y = torch.fft.irfft(torch.fft.rfft(u, 2 * tokens) * torch.fft.rfft(kernel), 2 * tokens)[..., :tokens]
        y = y + self.d.to(wide.dtype).unsqueeze(1) * u
        return F.glu(self.out(F.gelu(y.transpose(1, 2)).to(x.dtype)), -1)


class Block(nn.Module):
    """A mixer and a feed-forward layer four times as wide, each after a norm and with a residual connection."""

    def __init__(self, mixer, dim):
        super().__init__()
        self.norm, self.mixer = nn.LayerNorm(dim), mixer
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.mixer(self.norm(x))
        return x + self.mlp(x)


def make(mixer, o):
    from tost.nn import TSSA, CausalTSSA

    def one():
        if mixer == "ssm":
            return StateSpace(o.dim, o.causal)
        if mixer != "tssa":
            return Attention(mixer, o.dim, o.heads, o.causal)
        return CausalTSSA(o.dim, o.heads, block_size=0) if o.causal else TSSA(o.dim, o.heads)

    layer = nn.Sequential(*(Block(one(), o.dim) for _ in range(o.depth))) if o.depth else one()
    layer = layer.to(getattr(torch, o.dtype))
    x = torch.randn(2, 300, o.dim).to(getattr(torch, o.dtype))
    with torch.no_grad():
        wanted = copy.deepcopy(layer).double()(x.double())
        error = float((layer(x) - wanted).abs().max() / wanted.abs().max())
    if not error <= (5e-2 if o.dtype == "bfloat16" else 1e-4):
        sys.exit(f"scaling.py: '{mixer}' and its float64 form differ by {error:.1e} at 2 x 300 tokens.")
    return layer


def call(layer, mode, x):
    if mode == "forward":
        with torch.no_grad():
            return layer(x)
    x = x.detach().requires_grad_()
    return torch.autograd.grad(layer(x), [x, *(p for p in layer.parameters() if p.numel())], x.detach())


def peak_bytes(layer, mode, x):
    """The peak of torch's allocator in a first call, which also warms up the timed ones."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call(layer, mode, x)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak or None


def available():
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable"):
            return 0.95 * 1024 * int(line.split()[1])
    return math.inf


def obstacle(track, tokens, o):
    """Why a length must not be run, extrapolating the last two by a power law of exponent 1 to 3; None if it may be."""
    points, batch = track["points"], max(1, o.batch_tokens // tokens)
    size = batch * tokens * o.dim * (2 if o.dtype == "bfloat16" else 4)

    def predicted(key):
        costs = [(p["tokens"], p[key] / p["batch"]) for p in points]
        (n, last), power = costs[-1], 1
        if len(costs) > 1 and last > 0 < costs[-2][1]:
            power = min(3, max(1, math.log(last / costs[-2][1]) / math.log(n / costs[-2][0])))
        return batch * last * (tokens / n) ** power

    need = size + (predicted("bytes") if points and points[-1]["bytes"] else (o.depth or 1) * size * GUESS[track["mode"]])
    room = o.max_gib * 2**30 or available()
    if need > room:
        return f"would need about {need / 2**30:.1f} GiB, and {room / 2**30:.1f} GiB are available"
    seconds = predicted("ms") / 1e3 if points else 0
    if seconds > o.max_seconds:
        return f"would take about {seconds:.3g} s a repetition, more than {o.max_seconds:g} s"


def membership(w, temp, causal):
    """How far the operator's memberships and outputs are from float64, computed block by block, and what they are like."""
    from tost import ops, plain

    heads, tokens = len(temp), w.shape[1]
    blocks = [(t, w[:, t : t + BLOCK].double()) for t in range(0, tokens, BLOCK)]
    wide, no_bias = temp.double(), torch.zeros(heads, 0, 1)
    y, pi = ops.tssa_causal(w, temp, no_bias)[:2] if causal else ops.tssa(w, temp)
    if not causal:
        split = [(t, b.unflatten(2, (heads, -1)).transpose(1, 2)) for t, b in blocks]
        energy = sum(b.square().sum(2, keepdim=True) for _, b in split).clamp_min(1e-24)
        shares = [((b.square() / energy).sum(-1) * wide).softmax(1).unsqueeze(-1) for _, b in split]
        moment = sum((s * b.square()).sum(2, keepdim=True) for s, (_, b) in zip(shares, split))
        factor = -1 / (1 + moment / (sum(s.sum(2, keepdim=True) for s in shares) + 1e-8))
    state, pi_error, y_error, largest, mass, entropy = None, 0.0, 0.0, 1e-300, 0, 0.0
    for at, (t, block) in enumerate(blocks):
        if causal:
            want_y, want_pi, state = plain.tssa_causal(block, wide, no_bias.double(), state, t)
        else:
            want_y, want_pi = (split[at][1] * shares[at] * factor).transpose(1, 2).flatten(2), shares[at].squeeze(-1)
        got = pi[:, :, t : t + BLOCK].double()
        pi_error = max(pi_error, float((got - want_pi).abs().max()))
        y_error = max(y_error, float((y[:, t : t + BLOCK] - want_y).abs().max()))
        largest, mass = max(largest, float(want_y.abs().max())), mass + got.sum((0, 2))
        entropy -= float(torch.xlogy(got, got).sum())
    count = w.shape[0] * tokens
    share = mass * heads / count
    finite = bool(pi.isfinite().all() and y.isfinite().all()) and math.isfinite(pi_error + y_error)
    return {"tokens": tokens, "temp": float(temp.max()), "entropy": entropy / count / math.log(heads) if heads > 1 else 0.0,
            "least_share": float(share.min()), "largest_share": float(share.max()), "finite": finite, "pi_error": pi_error,
            "y_error": y_error / largest}


def measure(o, say):
    torch.manual_seed(0)
    layers = {mixer: make(mixer, o) for mixer in o.mixers}
    tracks = [{"mixer": mixer, "mode": mode, "points": []} for mode in o.modes for mixer in layers]
    points, stopped, memberships = [], [], []
    for tokens in o.tokens:
        for track in list(tracks):
            reason = obstacle(track, tokens, o)
            if reason:
                tracks.remove(track)
                stopped.append({"mixer": track["mixer"], "mode": track["mode"], "tokens": tokens, "reason": reason})
                say(f"{track['mixer']}, {track['mode']}: {tokens:,} tokens {reason}; it stops here.")
        if not tracks:
            break
        batch = max(1, o.batch_tokens // tokens)
        x = torch.randn(batch, tokens, o.dim, dtype=getattr(torch, o.dtype))
        peaks, times = [peak_bytes(layers[t["mixer"]], t["mode"], x) for t in tracks], [[] for _ in tracks]
        for _ in range(o.repeat):
            for track, found in zip(tracks, times):
                start = time.perf_counter()
                call(layers[track["mixer"]], track["mode"], x)
                found.append(1e3 * (time.perf_counter() - start))
        for track, peak, found in zip(tracks, peaks, times):
            ms = statistics.median(found)
            points.append({"mixer": track["mixer"], "mode": track["mode"], "tokens": tokens, "batch": batch, "ms": ms,
                           "ms_per_sequence": ms / batch, "bytes": peak})
            track["points"].append(points[-1])
            size = f"{peak / batch / 2**20:.1f} MiB" if peak else "memory not counted"
            say(f"{track['mixer']:8} {track['mode']:8} {tokens:>10,} tokens {ms / batch:12.4g} ms {size:>14} a sequence")
        if "tssa" in layers and not o.depth and any(t["mixer"] == "tssa" for t in tracks):
            layer = layers["tssa"]
            with torch.no_grad():
                w, temp = (layer.c_attn if o.causal else layer.qkv)(x), layer.temp.float()
                for factor in (1,) if o.causal else (1, tokens / math.sqrt(2 * o.dim // o.heads)):
                    memberships.append(m := membership(w, temp * factor, o.causal))
                    say("membership {tokens:>14,} tokens, temp {temp:.1f}: entropy {entropy:.5f}, heads {least_share:.5f} to "
                        "{largest_share:.5f}, from float64 {pi_error:.1e}, y {y_error:.1e}".format(**m) + ", NOT FINITE" * (not m["finite"]))
    return {"points": points, "stopped": stopped, "memberships": memberships}


def exponent(points, shortest=4096):
    """", n^1.02": least squares on logarithms over (tokens, cost) from `shortest` on; "" for fewer than two lengths."""
    import numpy

    logs = [(math.log(n), math.log(cost)) for n, cost in points if n >= shortest]
    return f", n^{numpy.polyfit(*zip(*logs), 1)[0]:.2f}" if len(logs) > 1 else ""


def draw(report, out):
    """Time and memory of a sequence against its tokens, a row for each mode, with the exponents from 4,096 tokens on."""
    from tost.figures import Figures

    figures, points = Figures(out), report["points"]
    modes, mixers = dict.fromkeys(p["mode"] for p in points), dict.fromkeys(p["mixer"] for p in points)
    costs = (("Time", "ms a sequence", lambda p: p["ms_per_sequence"]),
             ("Memory", "MiB a sequence", lambda p: p["bytes"] and p["bytes"] / p["batch"] / 2**20))
    with figures.axes("scaling", len(modes) or 1, 2) as axes:
        for row, mode in zip(axes, modes):
            for place, (title, label, cost) in zip(row, costs):
                for mixer in mixers:
                    found = [(p["tokens"], cost(p)) for p in points if (p["mode"], p["mixer"]) == (mode, mixer) and cost(p)]
                    place.plot([x for x, _ in found], [y for _, y in found], marker="o", markersize=3, label=mixer + exponent(found))
                place.set(title=f"{title}, {mode}", xlabel="tokens", ylabel=label, xscale="log", yscale="log")
                place.legend(fontsize=7)


def names(*known):
    def parse(text):
        found = text.split(",")
        if len(set(found)) < len(found) or not set(found) <= set(known):
            raise argparse.ArgumentTypeError(f"'{text}' must name some of {', '.join(known)}, each once")
        return found
    return parse


def lengths(text):
    try:
        found = [int(part.rstrip("kM")) * {"k": 1024, "M": 1 << 20}.get(part[-1:], 1) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or found[0] < 1 or sorted(set(found)) != found:
        raise argparse.ArgumentTypeError(f"'{text}' must be rising lengths separated by commas, like 128,4k,1M")
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--mixers", type=names(*MIXERS), help="separated by commas (default: all; causal: without xca)")
    add("--tokens", type=lengths, default=[128 << i for i in range(14)], help="k and M for 1024 and its square (to 1M)")
    add("--modes", type=names("forward", "train"), default=["forward", "train"], help="train: forward and backward")
    add("--causal", action="store_true", help="the causal mixers")
    add("--depth", type=int, default=0, help="blocks with feed-forward layers instead of one layer")
    add("--dim", type=int, default=768)
    add("--heads", type=int, default=12)
    add("--dtype", choices=("float32", "bfloat16"), default="float32")
    add("--batch-tokens", type=int, default=4096, help="short sequences run several at a time")
    add("--repeat", type=int, default=3, help="rounds; medians are reported")
    add("--max-seconds", type=float, default=60, help="a mixer ends before a length predicted to take longer")
    add("--max-gib", type=float, default=0, help="memory that may be taken (0: what is available)")
    add("--threads", type=int, default=0, help="0: torch's choice")
    add("--json", action="store_true", help="print JSON and nothing else")
    add("--draw", metavar="JSON", help="measure nothing; scaling.png and scaling.svg of this output, in --out")
    add("--out", default="figures", help="folder of the figures (default: figures)")
    add("--library", default=ROOT / "build/release/lib/libtost_torch.so", help="operators; a missing file: the package's")
    o = parser.parse_args(arguments)
    o.mixers = o.mixers or [m for m in MIXERS if not (o.causal and m == "xca")]
    if o.causal and "xca" in o.mixers:
        parser.error("xca is not causal; leave it out of --mixers.")
    if min(o.dim, o.heads, o.batch_tokens, o.repeat) < 1 or o.dim % o.heads or o.depth < 0:
        parser.error("--dim, --heads, --batch-tokens and --repeat must be at least 1, and the heads must divide --dim.")
    if not (o.max_seconds > 0 and 0 <= o.max_gib <= 1e6):
        parser.error("--max-seconds must be above 0, and --max-gib from 0 to 1e6.")
    if pathlib.Path(o.library).exists():
        torch.ops.load_library(o.library)
        sys.path.insert(0, str(ROOT / "python"))
    if o.draw:
        return draw(json.loads(pathlib.Path(o.draw).read_text()), o.out)
    if o.threads:
        torch.set_num_threads(o.threads)
    say = (lambda line: None) if o.json else (lambda line: print(line, flush=True))
    say(f"{o.depth or 'One'} {'blocks' if o.depth else 'layer with its projections'}, {'causal, ' * o.causal}{o.dtype}, {o.dim} "
        f"channels, {o.heads} heads, {torch.get_num_threads()} threads, median of {o.repeat}")
    result = measure(o, say)
    if o.json:
        settings = {key: getattr(o, key) for key in ("causal", "dim", "heads", "depth", "dtype", "repeat")}
        print(json.dumps({**settings, "threads": torch.get_num_threads(), **result}, indent=1))


if __name__ == "__main__":
    main()
