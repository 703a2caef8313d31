"""The figures of the paper from a report, as PNG and SVG: `python -m tost.figures report/report.json --out figures`.

Reads the JSON of `tost explain` (docs/explain.md). Needs matplotlib and no torch.
"""

import argparse
import base64
import contextlib
import io
import json
import math
import pathlib
import sys

GROUPS = ["#3b7dd8", "#e0752d", "#3f9e4d", "#c73e4a", "#8a63c9", "#8c6239", "#d868ad", "#6f7378",
          "#a8a820", "#23a9b8", "#1d4f91", "#f2b134", "#1f6b3a", "#f08a8a", "#5b2a86", "#b8d67a"]


class ReportError(Exception):
    """What is wrong with the input, in one sentence."""


def read_report(path):
    path = pathlib.Path(path)
    if path.is_dir():
        path = path / "report.json"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"'{path}' cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ReportError(f"'{path}' is not JSON; a report.json of tost explain is expected.") from None
    if not isinstance(report, dict) or report.get("tost_report") != 1 or report.get("kind") not in ("vision", "language"):
        raise ReportError(f"'{path}' is not a report of tost explain; make one with tost explain MODEL --out report.")
    return report


def number(value):
    return math.nan if value is None else value


def pyplot():
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ReportError("matplotlib is missing; install it with pip install matplotlib.") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
                         "grid.alpha": 0.3, "legend.frameon": False, "svg.hashsalt": "tost", "svg.fonttype": "none"})
    return plt


class Figures:
    """Collects figures of one report and writes each as PNG and SVG."""

    def __init__(self, out):
        self.plt = pyplot()
        self.out = pathlib.Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.names = []

    @contextlib.contextmanager
    def axes(self, name, rows=1, columns=1, width=4.2, height=3.0, **options):
        """The axes [rows, columns] of a figure to draw on, which is written after that."""
        figure, axes = self.plt.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False, **options)
        yield axes
        figure.tight_layout()
        for ending in ("png", "svg"):
            metadata = {"Date": None} if ending == "svg" else {"Software": None}
            figure.savefig(self.out / f"{name}.{ending}", dpi=200, metadata=metadata)
        self.plt.close(figure)
        self.names.append(name)

    @contextlib.contextmanager
    def one(self, name, **options):
        """The axes of a figure that has only one."""
        with self.axes(name, **options) as axes:
            yield axes[0][0]


def line(axes, layers, pick, label, **style):
    """One value a layer with a band of one standard deviation; layers without the value are left out."""
    found = [(layer["layer"], pick(layer)) for layer in layers]
    found = [(at, value) for at, value in found if value is not None]
    x = [at for at, _ in found]
    y = [number(value["mean"]) for _, value in found]
    (drawn,) = axes.plot(x, y, marker="o", markersize=3, label=label, **style)
    band = [number(value.get("std")) if value.get("count", 2) > 1 else 0 for _, value in found]
    if any(width > 0 for width in band):
        low = [a - b for a, b in zip(y, band)]
        axes.fill_between(x, low, [a + b for a, b in zip(y, band)], color=drawn.get_color(), alpha=0.15, linewidth=0)


def by_layer(axes, title, label):
    from matplotlib.ticker import MaxNLocator

    axes.set(title=title, xlabel="layer", ylabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=7)


def matrix(axes, rows, title="", **style):
    """A matrix as a picture without axes."""
    shown = axes.imshow([[number(value) for value in row] for row in rows], **{"cmap": "viridis", **style})
    axes.set_title(title, fontsize=7)
    axes.axis("off")
    return shown


def curves(figures, name, found, **settings):
    """A figure of values at 1, 2, ... by their labels; none where there are no values."""
    if not found:
        return
    with figures.one(name) as axes:
        for label, values in found.items():
            axes.plot(range(1, len(values) + 1), [number(value) for value in values], label=label)
        axes.set(**settings)
        axes.legend(fontsize=7)


def last_layers(report, key):
    """The layers of the last split that have this value."""
    return [layer for layer in report["splits"][-1]["layers"] if layer.get(key)] if report["splits"] else []


def compression(figures, report):
    splits = [split for split in report["splits"] if any("compression" in layer for layer in split["layers"])]
    if not splits:
        return
    with figures.axes("compression", 1, len(splits), sharey=True) as axes:
        for place, split in zip(axes[0], splits):
            for key, label in (("input", "input of the layer"), ("output_before_residual", "output, before residual"),
                               ("after_residual", "after residual")):
                line(place, split["layers"], lambda layer, key=key: layer.get("compression", {}).get(key), label)
            place.axhline(report["compression_ceiling"], color="grey", linestyle=":", label="ceiling")
            by_layer(place, f"Compression, {split['split']}", "R_var, unit-norm heads")


def bound(figures, report):
    layers = last_layers(report, "bound")
    if not layers:
        return
    with figures.axes("bound", 1, 2) as axes:
        for i, title in enumerate(("f = log(1 + x), as released", "f = log(1 + d/ε² x), as in the theory")):
            for key, label in (("bound", "bound R_var"), ("exact_in_heads", "exact, in the heads"),
                               ("exact_in_space", "exact, whole space")):
                if key in layers[0]["bound"][i]:
                    line(axes[0][i], layers, lambda layer, i=i, key=key: layer["bound"][i][key], label)
            by_layer(axes[0][i], title, "nats")


def correlations(figures, report):
    """Matrices of the chosen layers (rows) and heads (columns), second moments and covariances."""
    layers = [layer for layer in last_layers(report, "correlation") if layer["correlation"].get("matrices")]
    for key, name in (("absolute", "correlations"), ("centered", "correlations-centered")):
        if not layers or key not in layers[0]["correlation"]["matrices"][0]:
            continue
        with figures.axes(name, len(layers), len(layers[0]["correlation"]["matrices"]), width=1.5, height=1.6) as axes:
            for row, layer in zip(axes, layers):
                for place, found in zip(row, layer["correlation"]["matrices"]):
                    matrix(place, found[key], f"layer {layer['layer']}, head {found['head']}", vmin=0, vmax=1)


def picture(figures, report, index):
    """The picture, and for each layer the memberships of the chosen heads and the most likely head."""
    from matplotlib.colors import ListedColormap

    maps, heads = report["pictures"][index], report["chosen_heads"]
    image = figures.plt.imread(io.BytesIO(base64.b64decode(maps["image"].split(",", 1)[1])))
    layers = [layer for layer in maps["layers"] if layer["memberships"] and layer["layer"] in report["chosen_layers"]]
    if layers:
        total = len(layers[0]["memberships"])
        colors = ListedColormap([GROUPS[head % len(GROUPS)] for head in range(total)])
        with figures.axes(f"memberships-{index + 1}", len(layers), len(heads) + 2, width=1.2, height=1.3) as axes:
            for row, layer in zip(axes, layers):
                row[0].imshow(image, cmap="gray")
                row[0].set_title(f"layer {layer['layer']}", fontsize=7)
                row[0].axis("off")
                for place, head in zip(row[1:], heads):
                    matrix(place, layer["memberships"][head - 1], f"head {head}")
                matrix(row[-1], layer["likeliest_head"], "most likely", vmin=1, vmax=max(total, 2), cmap=colors)
    blocks, heads = maps["class_attention"], heads or [1]
    if blocks:
        with figures.axes(f"class-attention-{index + 1}", len(blocks), len(heads), width=1.4, height=1.5) as axes:
            for row, block in zip(axes, blocks):
                for place, head in zip(row, heads):
                    matrix(place, block["attention"][head - 1], f"block {block['block']}, head {head}")


def by_distance(figures, report):
    """Curves of the chosen layers of a text, over positions and over distances."""
    measured = report["splits"][-1]["layers"] if report["splits"] else None
    entropies, influences = {}, {}
    for at in report["chosen_layers"]:
        layer = report["layers"][at - 1]
        label = f"layer {at} ({layer['mixer']})"
        means = measured[at - 1].get("entropy_by_position") if measured else None
        for found, values in ((entropies, means["mean"] if means else layer["entropy"]), (influences, layer.get("influence_by_distance"))):
            if values:
                found[label] = values
    curves(figures, "entropy-by-position", entropies, title="Entropy of membership by position", xlabel="position of the token",
           ylabel="entropy / log H", xscale="log", ylim=(0, 1.05))
    curves(figures, "influence-by-distance", influences, title="Influence by distance", xlabel="tokens later", ylabel="relative change",
           xscale="log", yscale="log")


def surprisal(figures, report):
    losses = report["passage"]["token_loss"]
    if not losses:
        return
    with figures.one("surprisal", width=8) as axes:
        places = range(2, len(losses) + 2)
        axes.bar(places, [number(v) for v in losses], color="#d94f2a")
        axes.set(title="Surprisal of each token", xlabel="place in the passage", ylabel="−log p, nats")
        if len(losses) <= 60:
            tokens = [token.replace("$", r"\$") for token in report["passage"]["tokens"][1:]]
            axes.set_xticks(places, tokens, rotation=90, fontsize=6)


DRAWINGS = {"vision": (compression, bound, correlations),
            "language": (compression, bound, correlations, surprisal, by_distance)}


def draw_report(report, out):
    """Draws every figure that the report has numbers for; their names."""
    figures = Figures(out)
    for draw in DRAWINGS[report["kind"]]:
        draw(figures, report)
    for index in range(len(report.get("pictures", []))):
        picture(figures, report, index)
    return figures.names


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tost.figures", description="The figures of a report as PNG and SVG.")
    parser.add_argument("report", help="report.json of tost explain, or its folder")
    parser.add_argument("--out", default="figures", help="folder of the figures (default: figures)")
    options = parser.parse_args(arguments)
    try:
        names = draw_report(read_report(options.report), options.out)
    except ReportError as error:
        print(f"tost.figures: {error}", file=sys.stderr)
        return 1
    except (KeyError, IndexError, TypeError, ValueError, OSError) as error:
        print(f"tost.figures: '{options.report}' cannot be drawn: {type(error).__name__}: {error}.", file=sys.stderr)
        return 1
    print(f"{len(names)} figures in {options.out}: {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
