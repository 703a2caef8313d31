"""A chart with two logarithmic axes, as SVG."""

import dataclasses
import html
import math

TEXT, MUTED, GRID, SURFACE = "#1b1e23", "#59616c", "#e2e5e9", "#ffffff"
TICK_SIZE, LABEL_SIZE = 11, 12
_INSET = 10  # between the sides of the plot and the first and last number of tokens


@dataclasses.dataclass(frozen=True)
class Style:
    label: str
    color: str
    mark: str = "circle"  # square, diamond, up, down
    dashed: bool = False  # and hollow marks


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    y: float
    low: float  # quartiles, or y
    high: float
    note: str  # shown where the pointer rests


@dataclasses.dataclass(frozen=True)
class Curve:
    style: Style
    pieces: list  # of lists of points: between two pieces something was not measured


def number(value):
    """123456 -> 123,456; three digits of smaller numbers."""
    if value >= 100:
        return f"{value:,.0f}"
    text = f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def escaped(words):
    """As it may stand in XML, which knows neither control characters nor halves of pairs."""
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in words))


def text_width(text, size):
    narrow = sum(c in "ijlt.,:;'()|- fr" for c in text)
    return size * (0.33 * narrow + 0.6 * (len(text) - narrow))


def text(x, y, words, size=LABEL_SIZE, color=TEXT, anchor="start", bold=False):
    weight = ' font-weight="600"' if bold else ""
    return (f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size}"{weight} text-anchor="{anchor}" '
            f'fill="{color}">{escaped(words)}</text>')


def line(points, color, width=1.0, dashed=False):
    path = "L".join(f"{x:.2f} {y:.2f}" for x, y in points)
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return (f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{width}"{dash} '
            'stroke-linejoin="round"/>')


_CORNERS = {"square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
            "diamond": [(0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)],
            "up": [(0, -1.3), (1.25, 1), (-1.25, 1)], "down": [(0, 1.3), (1.25, -1), (-1.25, -1)]}


def mark(style, x, y, note="", size=3.2):
    paint = f'fill="{SURFACE if style.dashed else style.color}" stroke="{style.color}"'
    title = f"<title>{escaped(note)}</title>" if note else ""
    if style.mark == "circle":
        return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{size}" {paint}>{title}</circle>'
    size *= 0.95
    corners = " ".join(f"{x + size * dx:.2f},{y + size * dy:.2f}"
                       for dx, dy in _CORNERS[style.mark])
    return f'<polygon points="{corners}" {paint}>{title}</polygon>'


def key(style, x, y):
    """As it stands in a legend: 26 wide, around y."""
    return [line([(x, y), (x + 26, y)], style.color, 2, style.dashed), mark(style, x + 13, y)]


def rising_ticks(low, high):
    """-> (low, high, values to name, values to mark) that enclose what is to be shown."""
    first, last = math.log10(low), math.log10(high)
    fine = last - first < 2.5
    named = (1, 2, 5) if fine else (1,)
    steps = [digit * 10.0**power for power in range(math.floor(first) - 1, math.ceil(last) + 2)
             for digit in range(1, 10)]
    edges = [s for s in steps if any(math.isclose(s / 10 ** math.floor(math.log10(s) + 1e-9), n)
                                     for n in named)]
    bottom = max(s for s in edges if s <= low * (1 + 1e-9))
    top = min(s for s in edges if s >= high * (1 - 1e-9) and s > bottom)
    inside = lambda values: [v for v in values if bottom * 0.999 < v < top * 1.001]  # noqa: E731
    return bottom, top, inside(edges), inside(steps)


def spaced(values, place):
    """Those whose names have room next to each other, the first and the last among them."""
    half = lambda v: text_width(number(v), TICK_SIZE) / 2 + 4  # noqa: E731
    kept = []
    for v in sorted(values):
        if not kept or place(v) - half(v) > place(kept[-1]) + half(kept[-1]):
            kept.append(v)
        elif v == max(values):
            while len(kept) > 1 and place(v) - half(v) <= place(kept[-1]) + half(kept[-1]):
                kept.pop()
            kept.append(v)
    return kept


@dataclasses.dataclass(frozen=True)
class Chart:
    title: str
    curves: list
    x_label: str = "tokens"

    def draw(self, left, top, width, height):
        """-> elements within the given box."""
        out = [text(left, top + 12, self.title, LABEL_SIZE, MUTED)]
        points = [p for c in self.curves for piece in c.pieces for p in piece]
        if not points:
            return out + [text(left + width / 2, top + height / 2, "not measured",
                               color=MUTED, anchor="middle")]
        low, high, named, marked = rising_ticks(min(p.low for p in points),
                                                max(p.high for p in points))
        begin = left + 10 + max(text_width(number(v), TICK_SIZE) for v in named)
        sides = (begin, left + width, top + 26, top + height - 42)
        xs = sorted({p.x for p in points})
        x_of, y_of = _places(sides, xs, low, high)
        out += self._axes(sides, xs, x_of, y_of, named, marked)
        for curve in self.curves:
            out += _drawn(curve, x_of, y_of)
        return out

    def _axes(self, sides, xs, x_of, y_of, named, marked):
        left, right, top, bottom = sides
        out = [line([(left, top), (left, bottom)], GRID)]
        for v in named:
            out += [line([(left, y_of(v)), (right, y_of(v))], GRID),
                    text(left - 8, y_of(v) + 4, number(v), TICK_SIZE, MUTED, "end")]
        out += [line([(left - 3, y_of(v)), (left, y_of(v))], MUTED, 0.7)
                for v in marked if v not in named]
        out.append(line([(left, bottom), (right, bottom)], MUTED))
        names = spaced(xs, x_of)
        for v in xs:
            out.append(line([(x_of(v), bottom), (x_of(v), bottom + 5)], MUTED))
            if v in names:
                out.append(text(x_of(v), bottom + 18, number(v), TICK_SIZE, MUTED, "middle"))
        return [*out, text((left + right) / 2, bottom + 36, self.x_label, LABEL_SIZE, MUTED,
                           "middle")]


def _places(sides, xs, low, high):
    left, right, top, bottom = sides
    left, right = left + _INSET, right - _INSET
    first, last = math.log(xs[0]), math.log(xs[-1])

    def x_of(x):
        share = 0.5 if first == last else (math.log(x) - first) / (last - first)
        return left + share * (right - left)

    return x_of, lambda y: bottom - math.log(y / low) / math.log(high / low) * (bottom - top)


def _drawn(curve, x_of, y_of):
    out, style = [], curve.style
    for piece in curve.pieces:
        if len(piece) > 1:
            out.append(line([(x_of(p.x), y_of(p.y)) for p in piece], style.color, 2, style.dashed))
        out += [line([(x_of(p.x), y_of(p.low)), (x_of(p.x), y_of(p.high))], style.color, 1.2)
                for p in piece if p.high > p.low]
    return out + [mark(style, x_of(p.x), y_of(p.y), p.note) for piece in curve.pieces
                  for p in piece]
