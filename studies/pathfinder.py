"""Pathfinder (arXiv 1805.08315): two discs, dashed contours, and whether one contour joins the discs. For tost.tasks.

Sizes and contrasts are those of the Long Range Arena; the pictures follow the description and parameters of the reference
generator, whose rounding decides the look at 32 pixels. Dashes and discs are small pictures (stamps): a dash starts at a
whole pixel and points to one of few directions.
"""

import math
import multiprocessing
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from PIL import Image, ImageDraw

from tost.tasks import SPLITS, files

FINE = 2  # fine pixels a pixel: the antialiasing of every official size
FAR = 1000  # added before rounding: a place that is a rounding error off an integer becomes that integer
TRIES = 3  # of one dash
DISTRACTOR_TRIES = 5
ATTEMPTS = 100_000
FREE = np.float32(0.3)  # rooms have soft edges
COLLISION = 1.8


class Rules(NamedTuple):
    """Lengths are pixels; a contour is a chain of straight dashes."""

    padding: int  # border that target contours keep out of
    distractor_dashes: int  # of all distractors
    dash_length: int
    gaps: Tuple[int, ...]  # half the gap between dashes, one drawn a picture
    thickness: float
    continuity: float  # larger: straighter
    seed_distance: int  # between the beginnings of both target contours
    marker_radius: float
    target_contrast: float
    distractor_contrast: float


# Of the Long Range Arena (arXiv 2011.04006) by side; 128 is its Path-X.
SIZES = {
    32: Rules(1, 20, 2, (1,), 0.5, 1, 7, 1.5, 1.5, 2),
    64: Rules(1, 22, 5, (1,), 1, 1.8, 12, 2.5, 0.8, 0.8),
    128: Rules(1, 35, 5, (2, 3), 1.5, 1.8, 20, 3, 0.9, 0.9),
    256: Rules(22, 30, 5, (3,), 2, 1.8, 27, 5, 1, 1),
}


def rounded(value: float) -> int:
    """Half away from zero, as C rounds."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def reach_out(angle: float, distance: float) -> np.ndarray:
    """Row and column of the whole pixel reached in this direction, rounded up."""
    return np.array([math.ceil(FAR + distance * turn(angle)) - FAR for turn in (math.sin, math.cos)])


def opposite(angle: float) -> float:
    return angle + (math.pi if angle < 0 else -math.pi)


def _shrink(fine: np.ndarray, reach: int) -> np.ndarray:
    side = 2 * reach + 1
    return np.asarray(Image.fromarray(fine.astype(np.uint8)).resize((side, side), Image.LANCZOS)) / 255


def _fine_line(side: int, to: np.ndarray, width: int) -> np.ndarray:
    """A line from the middle of the picture."""
    middle = side // 2
    if width <= 1:
        image = Image.new("L", (side, side))
        ImageDraw.Draw(image).line([(middle, middle), (middle + to[1], middle + to[0])], fill=255)
        return np.array(image)
    length = math.hypot(*to)
    dy, dx = np.mgrid[:side, :side] - middle
    along, across = (dy * to[0] + dx * to[1]) / length, (dy * to[1] - dx * to[0]) / length
    return np.where((along >= -0.5) & (along <= length + 0.5) & (np.abs(across) <= width / 2), 255, 0)


def _disc(radius: int) -> np.ndarray:
    offsets = np.indices((2 * radius + 1,) * 2).reshape(2, -1).T - radius
    return offsets[(offsets**2).sum(1) <= radius * radius]


def _over_offsets(plane: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The largest value at these offsets from each pixel; nothing is outside of the plane."""
    most, side = int(np.abs(offsets).max()), len(plane)
    padded = np.pad(plane, most)
    return np.max([padded[most + dy : most + dy + side, most + dx : most + dx + side] for dy, dx in offsets.tolist()], axis=0)


def make_dash(rules: Rules, gap: int, angle: float) -> Tuple[np.ndarray, np.ndarray]:
    """The line, and its room: the line with the gap around it, which no other dash may enter."""
    reach = rules.dash_length + math.ceil(rules.thickness) + gap
    fine = _fine_line(2 * FINE * reach + 1, reach_out(angle, rules.dash_length * FINE), rounded(rules.thickness * FINE))
    return _shrink(fine, reach), _shrink(_over_offsets(fine, _disc(gap * FINE)), reach)


def _make_marker(radius: float) -> np.ndarray:
    reach = math.ceil(radius) + 3
    y, x = np.mgrid[: FINE * (2 * reach + 1), : FINE * (2 * reach + 1)] - FINE * reach
    return _shrink(np.where(np.hypot(y, x) <= radius * FINE, 255.0, 0.0), reach)


def _circle(radius: int) -> np.ndarray:
    """Whole pixels on a circle around a whole pixel, rounded down, in steps of one pixel; by rows, then columns."""
    step = 360 / (2 * radius * math.pi)
    found, degrees = set(), 0.0
    while degrees < 360:
        angle = degrees * math.pi / 180
        found.add((int(FAR + radius * math.sin(angle)) - FAR, int(FAR + radius * math.cos(angle)) - FAR))
        degrees += step
    return np.array(sorted(found))


class Direction:
    """A first dash of one of 360 angles (x to the right, y down)."""

    def __init__(self, rules: Rules, gap: int, degree: int):
        self.angle = degree * math.pi / 180
        self.line, self.room = make_dash(rules, gap, self.angle)
        self.head = reach_out(self.angle, rules.dash_length)
        self.pivot = self.head + reach_out(opposite(self.angle), rules.dash_length + gap)
        # Pixels that must be free for a dash to start here. The reference centres its kernel one pixel off.
        kernel = np.argwhere(self.room >= 1) - len(self.room) // 2 + 1
        self.kernel = kernel[np.abs(kernel).max(1) <= rules.dash_length + gap]
        # The reference finds no place for directions whose kernel lies off the picture at a corner; those that are
        # left point up and to the left, which every released picture shows.
        self.usable = all((self.kernel * corner >= 0).all(1).any() for corner in ((1, 1), (1, -1), (-1, 1), (-1, -1)))


class Stamps:
    """All stamps of one gap. Later dashes end on a circle around a pivot and lie back towards it."""

    def __init__(self, rules: Rules, gap: int):
        self.gap = gap
        self.degrees = [Direction(rules, gap, degree) for degree in range(-180, 180)]
        self.circle = _circle(rules.dash_length + gap)
        self.angles = np.array([math.atan2(dy, dx) for dy, dx in self.circle.tolist()])
        self.dashes = [make_dash(rules, gap, angle + (1 if angle < 0 else -1) * math.pi) for angle in self.angles.tolist()]
        self.around = _disc(gap)
        self.marker = _make_marker(rules.marker_radius)


class Tip(NamedTuple):
    """The growing end of a contour."""

    pivot: np.ndarray  # the next dash is found from here
    angle: float  # of the last dash
    start: np.ndarray  # where the contour begins
    end: np.ndarray  # where its last dash ends
    room: np.ndarray  # of the last dash, not yet taken


class Scene:
    """A picture in the making: what is drawn, and where no other dash may go."""

    def __init__(self, side: int, rules: Rules, stamps: Stamps, random: np.random.Generator):
        self.side, self.rules, self.stamps, self.random = side, rules, stamps, random
        # A margin around the picture, so that stamps need no clipping; nothing is taken there.
        self.margin = max(len(stamps.dashes[0][1]), len(stamps.marker)) + rules.dash_length + 2 * stamps.gap
        self.picture = np.pad(np.ones((side, side), np.float32), self.margin)
        self.taken = self.picture.copy()
        self._inner(self.taken)[rules.padding : side - rules.padding, rules.padding : side - rules.padding] = 0
        self.drawn: List[Tuple[np.ndarray, np.ndarray, float]] = []

    def state(self):
        return self.taken.copy(), list(self.drawn)

    def reset(self, state) -> None:
        self.taken, self.drawn = state[0].copy(), list(state[1])

    def _inner(self, plane: np.ndarray) -> np.ndarray:
        return plane[self.margin : -self.margin, self.margin : -self.margin]

    def _window(self, plane: np.ndarray, at, stamp: np.ndarray) -> np.ndarray:
        y, x = (int(place) + self.margin - len(stamp) // 2 for place in at)
        return plane[y : y + len(stamp), x : x + len(stamp)]

    def take(self, tip: Tip) -> None:
        window = self._window(self.taken, tip.end, tip.room)
        room = tip.room.astype(np.float32) * self._window(self.picture, tip.end, tip.room)
        np.maximum(window, room, out=window)

    def any_place(self, direction: Direction):
        """A free pixel off the edge, of which no dash in this direction would leave what is free."""
        taken = np.ones((self.side,) * 2, bool)
        taken[1:-1, 1:-1] = self._inner(self.taken)[1:-1, 1:-1] > FREE
        free = np.flatnonzero(~_over_offsets(taken, direction.kernel)) if direction.usable else ()
        return np.array(divmod(int(free[int(self.random.integers(len(free)))]), self.side)) if len(free) else None

    def central_place(self, direction: Direction):
        """Of an empty picture, away from its edge: there the free places are a rectangle."""
        border, kernel = 2 * self.rules.seed_distance, direction.kernel
        low = np.maximum(border, (border - kernel).max(0))
        high = np.minimum(self.side - 1 - border, (self.side - 1 - border - kernel).min(0))
        if not direction.usable or (low > high).any():
            return None
        return np.array([int(self.random.integers(a, b + 1)) for a, b in zip(low, high)])

    def place_beside(self, start: np.ndarray):
        """At the rules' distance from where the other contour begins."""
        around, distance = int(self.random.integers(360)) * math.pi / 180, self.rules.seed_distance
        return start + [rounded(distance * math.sin(around)), rounded(distance * math.cos(around))]

    def begin(self, find_place, contrast: float) -> Optional[Tip]:
        """A first dash in a random direction; None where there is no place."""
        for _ in range(TRIES):
            direction = self.stamps.degrees[int(self.random.integers(360))]
            at = find_place(direction)
            if at is None:
                return None
            ends = np.stack([at + direction.head, at + direction.pivot])
            if ((ends >= 0) & (ends < self.side)).all():
                self.drawn.append((direction.line, at, contrast))
                return Tip(ends[1], direction.angle, at, at, direction.room)
        return None

    def extend(self, tip: Tip, contrast: float) -> Optional[Tip]:
        """The tip after one more dash; None where there is no room."""
        stamps = self.stamps
        pivot = tip.pivot + reach_out(tip.angle, self.rules.dash_length + 2 * stamps.gap)
        ends = stamps.circle + pivot
        apart = np.abs(stamps.angles - tip.angle)
        turn = np.minimum(np.minimum(apart, 2 * math.pi - apart) * self.rules.continuity, math.pi / 2)
        weights = np.maximum(np.cos(turn), 0) ** 2
        weights = np.where(((ends >= 0) & (ends < self.side)).all(1), weights, 0)
        live = weights > 0
        around = ends[live][:, None] + stamps.around + self.margin
        weights[live] *= 1 - self.taken[around[..., 0], around[..., 1]].max(1)
        sums = np.cumsum(weights)
        if sums[-1] < 1e-4:
            return None
        for _ in range(TRIES):
            k = min(int(np.searchsorted(sums, self.random.random() * sums[-1], side="right")), len(sums) - 1)
            line, room = stamps.dashes[k]
            if (self._window(self.taken, ends[k], room) + room.astype(np.float32) >= COLLISION).any():
                continue
            self.drawn.append((line, ends[k], contrast))
            self.take(tip)
            return Tip(pivot, float(stamps.angles[k]), tip.start, ends[k], room)
        return None

    def draw_targets(self, dashes: int) -> Optional[List[Tip]]:
        """Both target contours, dash by dash in turn."""
        contrast = self.rules.target_contrast
        first = self.begin(self.central_place, contrast)
        tips = [first, first and self.begin(lambda direction: self.place_beside(first.start), contrast)]
        for i in range(2 * (dashes - 1)):
            if None in tips:
                return None
            tips[i % 2] = self.extend(tips[i % 2], contrast)
        if None in tips:
            return None
        self.take(tips[1])  # the reference leaves the room of the first one's last dash free
        return tips

    def draw_distractor(self, dashes: int) -> bool:
        if int((self._inner(self.taken) <= FREE).sum()) * 100 < self.side * self.side:
            return False
        contrast = self.rules.distractor_contrast
        tip = self.begin(self.any_place, contrast)
        for _ in range(1, dashes):
            tip = tip and self.extend(tip, contrast)
        if tip:
            self.take(tip)
        return tip is not None

    def image(self) -> np.ndarray:
        """uint8 [side, side], the brightest pixel 255."""
        whole = np.zeros(self.taken.shape)
        for stamp, at, contrast in self.drawn:
            window = self._window(whole, at, stamp)
            np.maximum(window, stamp * contrast, out=window)
        values = self._inner(whole)
        return (values / values.max() * 255 + 0.5).astype(np.uint8)


class Artist:
    """Draws pictures of one size: contours of 3 to 20 dashes (6 easy, 9 intermediate, 14 hard), distractors a third as long."""

    def __init__(self, side: int, contour_length: int):
        if side not in SIZES:
            raise ValueError(f"Pathfinder is made with 32, 64, 128 or 256 pixels a side, not {side}.")
        if not 3 <= contour_length <= 20:
            raise ValueError("The contours of Pathfinder have 3 to 20 dashes (6 easy, 9 intermediate, 14 hard), not "
                             f"{contour_length}.")
        self.side, self.contour_length, self.rules = side, contour_length, SIZES[side]
        self.stamps = [Stamps(self.rules, gap) for gap in self.rules.gaps]

    def draw(self, random: np.random.Generator):
        """A picture, its label (1: one contour joins the discs), and row and column of both discs."""
        label = int(random.integers(2))
        scene = Scene(self.side, self.rules, self.stamps[int(random.integers(len(self.stamps)))], random)
        empty, short = scene.state(), self.contour_length // 3
        for _ in range(ATTEMPTS):
            scene.reset(empty)
            tips = scene.draw_targets(self.contour_length)
            if tips is None:
                continue
            for _ in range(self.rules.distractor_dashes // short):
                before = scene.state()
                for _ in range(DISTRACTOR_TRIES):
                    if scene.draw_distractor(short):
                        break
                    scene.reset(before)
            origin = int(random.integers(2))
            discs = tips[origin].start, tips[origin if label == 1 else 1 - origin].end
            for at in discs:
                scene.drawn.append((scene.stamps.marker, at, 1.0))
            return scene.image(), label, discs
        raise ValueError(f"Two contours of {self.contour_length} dashes found no room on {self.side} x {self.side} "
                         "pixels; ask for shorter ones.")


def _picture(arguments) -> Tuple[np.ndarray, int]:
    artist, *seed = arguments
    return artist.draw(np.random.default_rng(seed))[:2]


def write(folder: Path, options: Dict[str, Any], jobs: int) -> None:
    """Writes pictures and labels as idx files, by `jobs` processes. Options: side, contour_length, seed, train, test."""
    artist = Artist(options["side"], options["contour_length"])
    # The picture readers hold the validation split out of the training pictures.
    for split, name in (("train", "train"), ("test", "t10k")):
        arguments = [(artist, options["seed"], SPLITS.index(split), i) for i in range(options[split])]
        if jobs > 1:
            with multiprocessing.Pool(jobs) as pool:
                pictures = pool.map(_picture, arguments, chunksize=64)
        else:
            pictures = list(map(_picture, arguments))
        files.write_idx(folder / f"{name}-images-idx3-ubyte", np.stack([image for image, _ in pictures]))
        files.write_idx(folder / f"{name}-labels-idx1-ubyte", np.array([label for _, label in pictures]))
