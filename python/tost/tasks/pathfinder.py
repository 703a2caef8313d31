"""Pathfinder (arXiv 1805.08315): two discs, dashed contours, and whether one contour joins the discs.

Sizes and contrasts are those of the Long Range Arena; the pictures follow the description and parameters of the reference
generator, whose rounding decides the look at 32 pixels.
"""

import math
from typing import List, Optional, Tuple

import numpy as np

from .stamps import Rules, Stamps, reach_out, rounded

TRIES = 3  # of one dash
DISTRACTOR_TRIES = 5
ATTEMPTS = 100_000
FREE = np.float32(0.3)  # rooms have soft edges
COLLISION = 1.8


class _Tip:
    """The growing end of a contour."""

    def __init__(self, pivot, angle: float, start, end, room: np.ndarray):
        self.pivot, self.angle = pivot, angle  # the next dash is found from the pivot; angle of the last one
        self.start, self.end = start, end  # where the contour begins, and where its last dash ends
        self.room = room  # of the last dash, not yet taken


class _Scene:
    """A picture in the making: what is drawn, and where no other dash may go."""

    def __init__(self, rules: Rules, stamps: Stamps):
        self.rules, self.stamps, self.side = rules, stamps, rules.side
        # A margin around the picture, so that stamps need no clipping; what is put there counts for nothing.
        self.margin = max(len(stamps.dashes[0][1]), len(stamps.marker)) + rules.dash_length + 2 * stamps.gap
        self._whole = np.zeros((self.side + 2 * self.margin,) * 2, np.float32)
        self.taken = self._whole[self.margin:-self.margin, self.margin:-self.margin]
        self.drawn: List[Tuple[np.ndarray, Tuple[int, int], float]] = []

    def copy(self) -> "_Scene":
        other = object.__new__(_Scene)
        other.__dict__.update(self.__dict__)
        other._whole = self._whole.copy()
        other.taken = other._whole[self.margin:-self.margin, self.margin:-self.margin]
        other.drawn = list(self.drawn)
        return other

    def close_border(self, border: int) -> None:
        taken = self.taken
        taken[:border], taken[len(taken) - border:] = 1, 1
        taken[:, :border], taken[:, len(taken) - border:] = 1, 1

    def _window(self, whole: np.ndarray, at: Tuple[int, int], stamp: np.ndarray) -> np.ndarray:
        reach = len(stamp) // 2
        y, x = at[0] + self.margin - reach, at[1] + self.margin - reach
        return whole[y:y + len(stamp), x:x + len(stamp)]

    def inside(self, at) -> bool:
        return 0 <= at[0] < self.side and 0 <= at[1] < self.side

    def take(self, tip: _Tip) -> None:
        window = self._window(self._whole, tip.end, tip.room)
        np.maximum(window, tip.room.astype(np.float32), out=window)
        self._clear_margin()

    def _clear_margin(self) -> None:
        margin = self.margin
        self._whole[:margin], self._whole[-margin:] = 0, 0
        self._whole[:, :margin], self._whole[:, -margin:] = 0, 0

    def _collides(self, room: np.ndarray, at) -> bool:
        """Within the picture alone: in the margin nothing is taken, and a room is at most 1."""
        return bool((self._window(self._whole, at, room) + room.astype(np.float32) >= COLLISION).any())

    def _place_first(self, direction, at, contrast: float) -> Optional[_Tip]:
        length = self.rules.dash_length
        back = direction.angle + (math.pi if direction.angle < 0 else -math.pi)
        step = reach_out(direction.angle, length)
        head = (at[0] + step[0], at[1] + step[1])
        step = reach_out(back, length + self.stamps.gap)
        pivot = (head[0] + step[0], head[1] + step[1])
        if not self.inside(head) or not self.inside(pivot):
            return None
        self.drawn.append((direction.line, at, contrast))
        return _Tip(pivot, direction.angle, at, at, direction.room)

    def _any_place(self, kernel: np.ndarray, random: np.random.Generator):
        taken = np.ones((self.side,) * 2, bool)
        taken[1:-1, 1:-1] = self.taken[1:-1, 1:-1] > FREE
        most = int(np.abs(kernel).max())
        padded = np.pad(taken, most)  # off the picture nothing is taken
        blocked = np.zeros_like(taken)
        for dy, dx in kernel.tolist():
            blocked |= padded[most + dy:most + dy + self.side, most + dx:most + dx + self.side]
        free = np.flatnonzero(~blocked)
        if len(free) == 0:
            return None
        return divmod(int(free[int(random.integers(len(free)))]), self.side)

    def _any_central_place(self, kernel: np.ndarray, random: np.random.Generator):
        """On an empty picture the free places are a rectangle."""
        border = 2 * self.rules.seed_distance
        low = np.maximum(border, (border - kernel).max(0))
        high = np.minimum(self.side - 1 - border, (self.side - 1 - border - kernel).min(0))
        if (low > high).any():
            return None
        return tuple(int(random.integers(a, b + 1)) for a, b in zip(low, high))

    def begin(self, central: bool, contrast: float, random: np.random.Generator) -> Optional[_Tip]:
        """A first dash out of what is taken and off the edge; `central`: on an empty picture, away from the edge."""
        for _ in range(TRIES):
            direction = self.stamps.degrees[int(random.integers(360))]
            find = self._any_central_place if central else self._any_place
            at = find(direction.kernel, random) if direction.usable else None
            if at is None:
                return None
            tip = self._place_first(direction, at, contrast)
            if tip:
                return tip
        return None

    def begin_beside(self, first: _Tip, contrast: float, random: np.random.Generator) -> Optional[_Tip]:
        """A first dash at the rules' distance from where `first` begins."""
        distance = self.rules.seed_distance
        for _ in range(TRIES):
            direction = self.stamps.degrees[int(random.integers(360))]
            around = int(random.integers(360)) * math.pi / 180
            at = (first.start[0] + rounded(distance * math.sin(around)), first.start[1] + rounded(distance * math.cos(around)))
            tip = self._place_first(direction, at, contrast)
            if tip:
                return tip
        return None

    def extend(self, tip: _Tip, contrast: float, random: np.random.Generator) -> Optional[_Tip]:
        """The tip after one more dash; None where there is no room."""
        stamps = self.stamps
        step = reach_out(tip.angle, self.rules.dash_length + 2 * stamps.gap)
        pivot = (tip.pivot[0] + step[0], tip.pivot[1] + step[1])
        ends = stamps.circle + np.array(pivot)
        apart = np.abs(stamps.angles - tip.angle)
        turn = np.minimum(np.minimum(apart, 2 * math.pi - apart) * self.rules.continuity, math.pi / 2)
        weights = np.maximum(np.cos(turn), 0) ** 2
        inside = ((ends >= 0) & (ends < self.side)).all(1)
        weights = np.where(inside, weights, 0)
        live = weights > 0
        if live.any():
            around = ends[live][:, None] + stamps.around + self.margin
            weights[live] *= 1 - self._whole[around[..., 0], around[..., 1]].max(1)
        sums = np.cumsum(weights)
        if sums[-1] < 1e-4:
            return None
        for _ in range(TRIES):
            k = min(int(np.searchsorted(sums, random.random() * sums[-1], side="right")), len(sums) - 1)
            end = (int(ends[k, 0]), int(ends[k, 1]))
            line, room = stamps.dashes[k]
            if self._collides(room, end):
                continue
            self.drawn.append((line, end, contrast))
            self.take(tip)
            return _Tip(pivot, float(stamps.angles[k]), tip.start, end, room)
        return None

    def nearly_full(self) -> bool:
        return int((self.taken <= FREE).sum()) * 100 < self.side * self.side

    def image(self) -> np.ndarray:
        """uint8 [side, side], the brightest pixel 255."""
        whole = np.zeros(self._whole.shape)
        for stamp, at, contrast in self.drawn:
            window = self._window(whole, at, stamp)
            np.maximum(window, stamp * contrast, out=window)
        values = whole[self.margin:-self.margin, self.margin:-self.margin]
        return (values / values.max() * 255 + 0.5).astype(np.uint8)


def _draw_targets(rules: Rules, scene: _Scene, random: np.random.Generator) -> Optional[List[_Tip]]:
    """Both target contours, dash by dash in turn."""
    contrast = rules.target_contrast
    first = scene.begin(True, contrast, random)
    second = scene.begin_beside(first, contrast, random) if first else None
    if second is None:
        return None
    tips = [first, second]
    for _ in range(1, rules.contour_length):
        for i, tip in enumerate(tips):
            grown = scene.extend(tip, contrast, random)
            if grown is None:
                return None
            tips[i] = grown
    scene.take(tips[1])  # the reference leaves the room of the first one's last dash free
    return tips


def _draw_distractor(rules: Rules, scene: _Scene, random: np.random.Generator) -> bool:
    if scene.nearly_full():
        return False
    contrast = rules.distractor_contrast
    tip = scene.begin(False, contrast, random)
    for _ in range(1, rules.distractor_length):
        if tip is None:
            return False
        tip = scene.extend(tip, contrast, random)
    if tip is None:
        return False
    scene.take(tip)
    return True


class Artist:
    """Draws pictures of one set of rules."""

    def __init__(self, rules: Rules):
        self.rules = rules
        self.stamps = [Stamps(rules, gap) for gap in rules.gaps]

    def draw(self, random: np.random.Generator):
        """A picture, its label (1: one contour joins the discs), and row and column of both discs."""
        rules = self.rules
        label = int(random.integers(2))
        empty = _Scene(rules, self.stamps[int(random.integers(len(self.stamps)))])
        empty.close_border(rules.padding)
        for _ in range(ATTEMPTS):
            scene = empty.copy()
            tips = _draw_targets(rules, scene, random)
            if tips is None:
                continue
            for _ in range(rules.distractors):
                for _ in range(DISTRACTOR_TRIES):
                    following = scene.copy()
                    if _draw_distractor(rules, following, random):
                        scene = following
                        break
            origin = int(random.integers(2))
            discs = tips[origin].start, tips[origin if label == 1 else 1 - origin].end
            for at in discs:
                scene.drawn.append((scene.stamps.marker, at, 1.0))
            return scene.image(), label, discs
        raise ValueError(f"Two contours of {rules.contour_length} dashes found no room on {rules.side} x {rules.side} "
                         "pixels; ask for shorter ones.")
