"""The dashes and discs of Pathfinder as small pictures: a dash starts at a whole pixel and points to one of few directions."""

import math
from dataclasses import dataclass
from typing import Dict, List, Tuple

import numpy as np
from PIL import Image, ImageDraw

FINE = 2  # fine pixels a pixel: the antialiasing of every official size
FAR = 1000  # added before rounding: a place that is a rounding error off an integer becomes that integer


@dataclass(frozen=True)
class Rules:
    """Lengths are pixels; a contour is a chain of straight dashes."""

    side: int = 32
    padding: int = 1  # border that target contours keep out of
    contour_length: int = 14  # dashes of both target contours
    distractor_length: int = 4
    distractors: int = 5
    dash_length: int = 2
    gaps: Tuple[int, ...] = (1,)  # half the gap between dashes, one drawn a picture
    thickness: float = 0.5
    continuity: float = 1.0  # larger: straighter
    seed_distance: int = 7  # between the beginnings of both target contours
    marker_radius: float = 1.5
    target_contrast: float = 1.5
    distractor_contrast: float = 2.0


# Of the Long Range Arena (arXiv 2011.04006) by side, with the dashes of all distractors; 128 is its Path-X.
SIZES: Dict[int, Tuple[Rules, int]] = {
    32: (Rules(), 20),
    64: (Rules(64, 1, 14, 4, 5, 5, (1,), 1, 1.8, 12, 2.5, 0.8, 0.8), 22),
    128: (Rules(128, 1, 14, 4, 5, 5, (2, 3), 1.5, 1.8, 20, 3, 0.9, 0.9), 35),
    256: (Rules(256, 22, 14, 4, 5, 5, (3,), 2, 1.8, 27, 5, 1, 1), 30),
}


def rules_of(side: int, contour_length: int) -> Rules:
    """Contours of 3 to 20 dashes (6 easy, 9 intermediate, 14 hard), distractors a third as long."""
    if side not in SIZES:
        raise ValueError(f"Pathfinder is made with 32, 64, 128 or 256 pixels a side, not {side}.")
    if not 3 <= contour_length <= 20:
        raise ValueError("The contours of Pathfinder have 3 to 20 dashes (6 easy, 9 intermediate, 14 hard), not "
                         f"{contour_length}.")
    rules, dashes = SIZES[side]
    length = contour_length // 3
    return Rules(**{**rules.__dict__, "contour_length": contour_length, "distractor_length": length,
                    "distractors": dashes // length})


def rounded(value: float) -> int:
    """Half away from zero, as C rounds."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def reach_out(angle: float, distance: float) -> Tuple[int, int]:
    """Row and column of the whole pixel reached in this direction, rounded up."""
    return math.ceil(FAR + distance * math.sin(angle)) - FAR, math.ceil(FAR + distance * math.cos(angle)) - FAR


def _shrink(fine: np.ndarray, reach: int) -> np.ndarray:
    side = 2 * reach + 1
    return np.asarray(Image.fromarray(fine.astype(np.uint8)).resize((side, side), Image.LANCZOS)) / 255


def _draw_wide(side: int, middle: int, to: Tuple[int, int], width: int) -> np.ndarray:
    length = math.hypot(*to)
    dy, dx = np.mgrid[:side, :side] - middle
    along, across = (dy * to[0] + dx * to[1]) / length, (dy * to[1] - dx * to[0]) / length
    return np.where((along >= -0.5) & (along <= length + 0.5) & (np.abs(across) <= width / 2), 255, 0)


def disc(radius: int) -> List[Tuple[int, int]]:
    span = range(-radius, radius + 1)
    return [(dy, dx) for dy in span for dx in span if dy * dy + dx * dx <= radius * radius]


def _dilate(plane: np.ndarray, radius: int) -> np.ndarray:
    side = len(plane)
    padded = np.pad(plane, radius)
    return np.max([padded[radius + dy:radius + dy + side, radius + dx:radius + dx + side] for dy, dx in disc(radius)], axis=0)


def make_dash(rules: Rules, gap: int, angle: float) -> Tuple[np.ndarray, np.ndarray]:
    """The line, and its room: the line with the gap around it, which no other dash may enter."""
    reach = rules.dash_length + math.ceil(rules.thickness) + gap
    width = rounded(rules.thickness * FINE)
    middle, side = FINE * reach, 2 * FINE * reach + 1
    to = reach_out(angle, rules.dash_length * FINE)
    if width <= 1:
        image = Image.new("L", (side, side))
        ImageDraw.Draw(image).line([(middle, middle), (middle + to[1], middle + to[0])], fill=255)
        fine = np.array(image)
    else:
        fine = _draw_wide(side, middle, to, width)
    return _shrink(fine, reach), _shrink(_dilate(fine, gap * FINE), reach)


def _make_marker(radius: float) -> np.ndarray:
    reach = math.ceil(radius) + 3
    side = FINE * (2 * reach + 1)
    y, x = np.mgrid[:side, :side]
    return _shrink(np.where(np.hypot(y - FINE * reach, x - FINE * reach) <= radius * FINE, 255.0, 0.0), reach)


def _circle(radius: int) -> List[Tuple[int, int]]:
    """Whole pixels on a circle around a whole pixel, rounded down, in steps of one pixel; by rows, then columns."""
    step = 360 / (2 * radius * math.pi)
    found, degrees = set(), 0.0
    while degrees < 360:
        angle = degrees * math.pi / 180
        found.add((int(FAR + radius * math.sin(angle)) - FAR, int(FAR + radius * math.cos(angle)) - FAR))
        degrees += step
    return sorted(found)


class Direction:
    """A first dash of one of 360 angles (x to the right, y down)."""

    def __init__(self, rules: Rules, gap: int, degree: int):
        self.angle = degree * math.pi / 180
        self.line, self.room = make_dash(rules, gap, self.angle)
        reach, most = len(self.room) // 2, rules.dash_length + gap
        # Pixels that must be free for a dash to start here. The reference centres its kernel one pixel off.
        ys, xs = np.nonzero(self.room >= 1)
        kernel = np.stack([ys - reach + 1, xs - reach + 1], 1)
        self.kernel = kernel[np.abs(kernel).max(1) <= most]
        # The reference finds no place for directions whose kernel lies off the picture at a corner; those that are
        # left point up and to the left, which every released picture shows.
        self.usable = all(bool(((self.kernel[:, 0] * down >= 0) & (self.kernel[:, 1] * right >= 0)).any())
                          for down in (1, -1) for right in (1, -1))


class Stamps:
    """All stamps of one gap. Later dashes end on a circle around a pivot and lie back towards it."""

    def __init__(self, rules: Rules, gap: int):
        self.gap = gap
        self.degrees = [Direction(rules, gap, degree) for degree in range(-180, 180)]
        self.circle = np.array(_circle(rules.dash_length + gap))
        self.angles = np.array([math.atan2(dy, dx) for dy, dx in self.circle.tolist()])
        self.dashes = [make_dash(rules, gap, angle + (1 if angle < 0 else -1) * math.pi) for angle in self.angles.tolist()]
        self.around = np.array(disc(gap))
        self.marker = _make_marker(rules.marker_radius)
