#!/usr/bin/env python3
"""Does TSSA help a small segmenter? TSSA, attention as in C2PSA, group means and nothing, at equal parameters.

usage: PYTHONPATH=python python studies/scenes.py [--steps N] [--seeds 0,1,2] [--mixers tssa,...] [--out FILE]

Generated scenes: shapes of four kinds and many sizes overlap on noise; every pixel is one of the kinds or background. A
patch inside a large shape says nothing of its kind, so tokens have to exchange information, which the 3 x 3 convolution of
every block does over short ways only. The same scenes, order and first weights of the common parts for every mixer.
Prints a table with the mean and the sample standard deviation over the seeds, and writes every run as JSON.
"""

import argparse
import json
import resource
import statistics

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from tost.models import picture_mixer

SIDE, KINDS, DIM, HEADS, BLOCKS, PATCH, BATCH = 48, 4, 64, 4, 3, 4, 16


def scene(draw):
    """A picture [3, SIDE, SIDE] and the kind of each pixel; 0 is background, later shapes cover earlier ones."""
    rows, columns = numpy.mgrid[:SIDE, :SIDE]
    picture = draw.normal(0, 0.15, (3, SIDE, SIDE)) + draw.normal(0, 0.5, (3, 1, 1))
    labels = numpy.zeros((SIDE, SIDE), numpy.int64)
    for _ in range(draw.integers(2, 5)):
        kind, radius, angle = draw.integers(1, KINDS + 1), draw.uniform(4, 14), draw.uniform(0, 2 * numpy.pi)
        y, x = rows - draw.uniform(6, SIDE - 6), columns - draw.uniform(6, SIDE - 6)
        u = x * numpy.cos(angle) + y * numpy.sin(angle)
        v = y * numpy.cos(angle) - x * numpy.sin(angle)
        inside = {
            1: numpy.hypot(u, v) <= radius,  # a disc
            2: numpy.maximum(abs(u), abs(v)) <= 0.85 * radius,  # a square
            3: (v <= 0.6 * radius) & (numpy.sqrt(3) * abs(u) - v <= 1.1 * radius),  # a triangle
            4: (numpy.minimum(abs(u), abs(v)) <= 0.35 * radius) & (numpy.maximum(abs(u), abs(v)) <= radius),  # a cross
        }[int(kind)]
        labels[inside] = kind
        picture = numpy.where(inside, draw.normal(0, 0.8, (3, 1, 1)) + draw.normal(0, 0.15, picture.shape), picture)
    return picture, labels


def scenes(count, seed):
    draw = numpy.random.default_rng(seed)
    pictures, labels = zip(*(scene(draw) for _ in range(count)))
    return torch.from_numpy(numpy.stack(pictures)).float(), torch.from_numpy(numpy.stack(labels))


class PositionSensitive(nn.Module):
    """Attention over all pairs as C2PSA has it: keys of half the width, and a 3 x 3 convolution of the values added."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.key = heads, dim // heads // 2
        self.qkv = nn.Linear(dim, 2 * heads * self.key + dim)
        self.place = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        batch, tokens, dim = x.shape
        side = round(tokens**0.5)
        parts = self.qkv(x).split([self.heads * self.key, self.heads * self.key, dim], 2)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        place = self.place(parts[2].transpose(1, 2).unflatten(2, (side, side)))
        return self.proj(y + place.flatten(2).transpose(1, 2))


class Nothing(nn.Module):
    """No exchange of tokens and no parameters: all of them are in the MLP."""

    def forward(self, x):
        return torch.zeros_like(x)


def mixer(name):
    made = {"c2psa": lambda: PositionSensitive(DIM, HEADS), "none": Nothing}
    return made.get(name, lambda: picture_mixer(name)(DIM, HEADS, qkv_bias=True))()


class Block(nn.Module):
    def __init__(self, name, hidden):
        super().__init__()
        self.near = nn.Conv2d(DIM, DIM, 3, padding=1, groups=DIM)
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, hidden), nn.GELU(), nn.Linear(hidden, DIM))
        self.mixer = mixer(name)

    def forward(self, x):
        x = x + self.near(x)
        tokens = x.flatten(2).transpose(1, 2)
        tokens = tokens + self.mixer(self.norm1(tokens))
        tokens = tokens + self.mlp(self.norm2(tokens))
        return tokens.transpose(1, 2).unflatten(2, x.shape[2:])


class Segmenter(nn.Module):
    def __init__(self, name, hidden):
        super().__init__()
        self.stem = nn.Sequential(
            *(nn.Conv2d(3, DIM // 2, 3, 2, 1), nn.BatchNorm2d(DIM // 2), nn.SiLU()),
            *(nn.Conv2d(DIM // 2, DIM, 3, 2, 1), nn.BatchNorm2d(DIM), nn.SiLU()),
        )
        self.head = nn.Conv2d(DIM, (KINDS + 1) * PATCH * PATCH, 1)
        self.blocks = nn.Sequential(*(Block(name, hidden) for _ in range(BLOCKS)))

    def forward(self, x):
        return F.pixel_shuffle(self.head(self.blocks(self.stem(x))), PATCH)


def size(name, hidden):
    return sum(p.numel() for p in Segmenter(name, hidden).parameters())


def hidden_width(name, parameters):
    """The width of the MLPs with which a model is nearest to so many parameters."""
    least, step = size(name, 1), size(name, 2) - size(name, 1)
    return 1 + round((parameters - least) / step)


def score(model, pictures, labels):
    """The mean over the kinds (background too) of intersection over union, the share of right pixels, and the loss."""
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(part) for part in pictures.split(100)])
    found = logits.argmax(1)
    table = torch.bincount((labels * (KINDS + 1) + found).flatten(), minlength=(KINDS + 1) ** 2)
    table = table.reshape(KINDS + 1, KINDS + 1).double()
    both = table.diagonal()
    union = table.sum(0) + table.sum(1) - both
    return {
        "iou": 100 * (both / union).mean().item(),
        "pixels": 100 * (both.sum() / table.sum()).item(),
        "loss": F.cross_entropy(logits, labels).item(),
    }


def train(name, seed, steps, hidden, data):
    (pictures, labels), test = data
    torch.manual_seed(seed)
    model = Segmenter(name, hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps, pct_start=0.1)
    order = torch.Generator().manual_seed(seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    for _ in range(steps):
        picked = torch.randint(len(pictures), (BATCH,), generator=order)
        loss = F.cross_entropy(model(pictures[picked]), labels[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    parameters = sum(p.numel() for p in model.parameters())
    return {"mixer": name, "seed": seed, "parameters": parameters, "cpu_seconds": seconds, **score(model, *test)}


def spread(values, digits):
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {deviation:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--mixers", default="none,tssa,means,c2psa")
    parser.add_argument("--out", default="scenes.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = scenes(4000, 100), scenes(500, 200)
    parameters, seeds, runs = size("c2psa", 2 * DIM), [int(s) for s in args.seeds.split(",")], []
    for seed in seeds:
        for name in args.mixers.split(","):
            runs.append(train(name, seed, args.steps, hidden_width(name, parameters), data))
            print(json.dumps(runs[-1]), flush=True)
            with open(args.out, "w") as file:
                json.dump(runs, file, indent=1)
    print("| mixer | parameters | IoU % | difference to none | pixels % | loss | CPU s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    of = {name: [r for r in runs if r["mixer"] == name] for name in args.mixers.split(",")}
    for name, own in of.items():
        apart = [a["iou"] - b["iou"] for a, b in zip(own, of.get("none", own))]
        cells = [spread([r["iou"] for r in own], 2), "–" if name == "none" else spread(apart, 2)]
        cells += [spread([r["pixels"] for r in own], 2), spread([r["loss"] for r in own], 4)]
        seconds = statistics.mean(r["cpu_seconds"] for r in own)
        print(f"| {name} | {own[0]['parameters']:,} | {' | '.join(cells)} | {seconds:.0f} |")


if __name__ == "__main__":
    main()
