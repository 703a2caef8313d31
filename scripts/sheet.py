#!/usr/bin/env python3
"""Draws a sheet of the pictures in a folder, for looking at: sheet.py PICTURES [--out sheet.png] [--columns 10] [--count 60].

PICTURES is a folder of PNG or JPEG files in a folder per class, as `tost data make shapes` writes them. Masks are drawn
next to their pictures if PICTURES-masks is there (`--masks`). Needs matplotlib, and Pillow for JPEG.
"""
import argparse
import math
import pathlib
import sys


def draw(pictures, folder, columns, out):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    masks = folder.with_name(folder.name + "-masks")
    tiles = []
    for path in pictures:
        tiles.append((path.parent.name, plt.imread(path), {"cmap": "gray"}))
        mask = masks / path.relative_to(folder)
        if mask.is_file():  # 0 is the background, else the class + 1
            tiles.append(("mask", (plt.imread(mask) * 255).round(), {"cmap": "tab20", "vmin": 0, "vmax": 20}))
    columns = min(columns, len(tiles))
    rows = math.ceil(len(tiles) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(columns, 1.25 * rows), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, (title, values, style) in zip(axes.flat, tiles):
        axis.imshow(values, interpolation="nearest", **style)
        axis.set_title(title, fontsize=6)
    figure.tight_layout(pad=0.3)
    figure.savefig(out, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pictures", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("sheet.png"))
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    files = sorted(path for path in options.pictures.rglob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    if not files or options.columns < 1 or options.count < 1:
        sys.exit(f"'{options.pictures}' holds no pictures, or --columns or --count is below 1.")
    draw(files[:options.count], options.pictures, options.columns, options.out)


if __name__ == "__main__":
    main()
