#!/usr/bin/env python3
"""Writes Pathfinder pictures of the Long Range Arena's release as idx files: pathfinder_release.py RELEASE OUT.

RELEASE holds metadata/N.npy next to imgs/. In spite of their name these are texts, one picture a line: folder, file,
number, label (1: connected) and more. OUT gets train, validation and test (80 : 10 : 10, drawn by a fixed seed), which
`tost train --data OUT --data-format pixels` reads. Needs numpy and Pillow.
"""
import pathlib
import sys

import numpy as np
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from tost.tasks.files import write_idx  # noqa: E402


def entries(release):
    """Path and label of every picture, in the order of the lists' numbers."""
    for listing in sorted((release / "metadata").glob("*.npy"), key=lambda path: (len(path.stem), path.stem)):
        for number, line in enumerate(listing.read_text(encoding="utf-8").splitlines(), 1):
            fields = line.split()
            path = release.joinpath(*fields[:2]).resolve()
            if len(fields) < 4 or fields[3] not in ("0", "1") or release.resolve() not in path.parents:
                sys.exit(f"Line {number} of '{listing}' does not name a picture in its folder and a label 0 or 1.")
            yield path, int(fields[3])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n")[0])
    release, out = map(pathlib.Path, sys.argv[1:])
    found = list(entries(release))
    if len(found) < 10:
        sys.exit(f"'{release}' lists {len(found)} pictures; at least 10 are needed for three splits.")
    out.mkdir(parents=True)
    (out / "classes.txt").write_text("separate\nconnected\n", encoding="utf-8")
    order = np.random.default_rng(0).permutation(len(found))
    tenth = len(found) // 10
    for split, part in (("train", order[:-2 * tenth]), ("validation", order[-2 * tenth:-tenth]), ("test", order[-tenth:])):
        pictures = [np.asarray(Image.open(found[i][0]).convert("L")) for i in sorted(part)]
        write_idx(out / f"{split}-images-idx3-ubyte", np.stack(pictures))
        write_idx(out / f"{split}-labels-idx1-ubyte", np.array([found[i][1] for i in sorted(part)]))


if __name__ == "__main__":
    main()
