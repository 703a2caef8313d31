"""Plots of a study by matplotlib, which `make study` installs."""

import math
from pathlib import Path
from typing import List

from .spec import Fields
from .summary import MeanSpread
from .tables import view


def _spread(value: MeanSpread, scale: float) -> float:
    return scale * value.spread if math.isfinite(value.spread) else 0.0


def _dots(axes, summary: Fields) -> None:
    _, label, scale, _ = view(summary.metric)
    for i, variant in enumerate(summary.variants):
        if variant.score.n:
            axes.errorbar(i, scale * variant.score.mean, _spread(variant.score, scale), fmt="o", capsize=4)
    axes.set_xticks(range(len(summary.variants)), [variant.variant for variant in summary.variants], rotation=30, ha="right")
    axes.set(title=summary.task.title, ylabel=label)


def _line(axes, name: str, x: List[float], values: List[MeanSpread], scale: float) -> None:
    points = [(a, scale * v.mean, _spread(v, scale)) for a, v in zip(x, values) if v.n and math.isfinite(v.mean)]
    if points:
        xs, means, spreads = zip(*points)
        line = axes.plot(xs, means, marker="o", markersize=3, label=name)[0]
        low, high = [m - s for m, s in zip(means, spreads)], [m + s for m, s in zip(means, spreads)]
        axes.fill_between(xs, low, high, alpha=0.15, color=line.get_color())


def _curve(axes, summary: Fields) -> None:
    _, label, scale, _ = view(summary.metric)
    unit = "epoch" if summary.metric == "top1" else "step"
    for variant in summary.variants:
        _line(axes, variant.variant, getattr(variant, f"{unit}s"), variant.curve, scale)
    axes.set(title=summary.task.title, xlabel=unit, ylabel=f"{label} (validation)")
    axes.legend(fontsize="small")


def _strengths(axes, summary: Fields, kind: str) -> None:
    corrupted = summary.corrupted
    for variant in summary.variants:
        x, values = list(corrupted.strengths), list(variant.corrupted[kind])
        if corrupted.split == summary.split:  # pictures of another split do not begin the line
            x, values = [0] + x, [variant.score] + values
        _line(axes, variant.variant, x, values, 100)
    axes.set(title=kind, xlabel="strength", ylabel="top-1, %")
    axes.legend(fontsize="small")


def write_plots(study: Fields, summaries: List[Fields], out: Path) -> str:
    """Writes plot.svg and plot.png below `out`; a sentence where matplotlib is missing."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return "There is no plot: matplotlib is not installed; `make study` prepares an environment that has it."
    panels = [(s, kind) for s in summaries for kind in (s.corrupted.kinds if study.plot == "lines" else [""])]
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(6.4 * columns, 4.2 * rows), squeeze=False)
    for axis in axes.flat[len(panels):]:
        axis.remove()
    for axis, (summary, kind) in zip(axes.flat, panels):
        if kind:
            _strengths(axis, summary, kind)
        else:
            (_curve if study.plot == "curve" else _dots)(axis, summary)
    figure.suptitle(study.title)
    figure.tight_layout()
    for ending in ("svg", "png"):
        part = out / f".plot.{ending}"
        figure.savefig(str(part), format=ending, dpi=120)
        part.replace(out / f"plot.{ending}")
    pyplot.close(figure)
    return ""
