"""Draws time and memory against the number of tokens from files that gpu.py --json wrote.

    speed_figure.py FILE... --out speed.svg

This is the speed figure of arXiv 2412.17810 with the curves it lacks: fused attention, torch.compile
and training. Every layer or network that was measured at two or more numbers of tokens has a row of
two charts for each of its jobs. Several files hold parts of one measurement on one machine; what was
measured again counts as in the last of them.
"""

import argparse
import sys

import log_chart
import measurements
import table
from log_chart import Style
from measurements import FAMILIES, Refused

STYLES = {  # in the order of the legend; dashed: torch.compile around the same, or another package
    "tost operator": Style("tost operator", "#295ccf"),
    "tost operator compile": Style("tost operator, torch.compile", "#295ccf", dashed=True),
    "tost program": Style("tost program", "#14233f", "diamond"),
    "eager": Style("PyTorch eager", "#25a47e", "square"),
    "compile": Style("torch.compile", "#25a47e", "square", dashed=True),
    "eager attention": Style("PyTorch eager", "#b8384a", "up"),
    "sdpa flash": Style("SDPA FlashAttention", "#e08a1e", "down"),
    "sdpa efficient": Style("SDPA memory-efficient", "#91993b", "diamond"),
    "sdpa cudnn": Style("SDPA cuDNN", "#774074", "square"),
    "flash-attn": Style("flash-attn", "#e08a1e", "down", dashed=True),
}
_WIDTH, _MARGIN, _GAP, _CHART = 1080, 28, 32, 310


def _title(group):
    row = group[0]
    form = "causal" if row["causal"] else "bidirectional"
    job = "forward"
    if row["job"] == "training":
        job = "forward and backward" if row["what"] == "layer" else "training step"
    what = row["what"]
    if what == "layer":
        what = f"One {form} layer of {row['dim']} channels, {row['heads']} heads"
    return f"{what}, {job}, {row['dtype']}, batch {row['batch']}"


def _full_name(name):
    family = next(f for f, names in FAMILIES.items() if name in names)
    return f"{family}, {STYLES[name].label}"


def _curve(group, name, value, unit):
    """`value`: row -> (low, median, high), or None. A size that is missing cuts the curve."""
    style = STYLES[name]
    rows = {row["tokens"]: row for row in group if row["contestant"] == name}
    pieces = [[]]
    for tokens in sorted({row["tokens"] for row in group}):
        found = value(rows[tokens]) if tokens in rows else None
        if found is None:
            pieces.append([])
            continue
        low, middle, high = found
        note = f"{_full_name(name)}, {tokens:,} tokens: {log_chart.number(middle)} {unit}"
        pieces[-1].append(log_chart.Point(tokens, middle, low, high, note))
    return log_chart.Curve(style, [piece for piece in pieces if piece])


def _time(row):
    return row["median_ms"] and (row["low_ms"], row["median_ms"], row["high_ms"])


def _memory(row):
    return row["median_ms"] and row["peak_mib"] and (row["peak_mib"],) * 3


def _charts(group):
    for title, value, unit in (("Time of a call, ms", _time, "ms"),
                               ("Peak memory, MiB", _memory, "MiB")):
        # The first of the legend is drawn last, on top.
        yield log_chart.Chart(title, [_curve(group, name, value, unit)
                                      for name in reversed(STYLES)])


def comparison(group):
    """A sentence: the fastest TSSA against the fastest softmax, by tokens."""
    ratios = []
    for tokens in sorted({row["tokens"] for row in group}):
        best = [min((row["median_ms"] for row in group if row["tokens"] == tokens
                     and row["contestant"] in names and row["median_ms"]), default=None)
                for names in FAMILIES.values()]
        if None not in best:
            ratios.append(f"{table.digits(best[1] / best[0])} at {tokens:,}")
    if not ratios:
        return []
    return ["Fastest softmax over fastest TSSA in time, by tokens: " + ", ".join(ratios) + "."]


def _short(failed):
    if "OutOfMemory" in failed or "out of memory" in failed:
        return "out of memory"
    failed = " ".join(failed.split()).partition(". ")[0].rstrip(".")
    return failed if len(failed) < 120 else failed[:117] + "..."


def gaps(group):
    """Sentences: what could not be measured, and why."""
    missing = {}
    for row in group:
        if not row["median_ms"]:
            place = (row["contestant"], _short(row["failed"] or "no reason given"))
            missing.setdefault(place, set()).add(row["tokens"])
    sizes = {row["tokens"] for row in group}
    said = []
    for (name, why), tokens in missing.items():
        if tokens == sizes:
            at = ""
        elif tokens == {n for n in sizes if n >= min(tokens)}:
            at = f" from {min(tokens):,} tokens on"
        else:
            at = f" at {', '.join(f'{n:,}' for n in sorted(tokens))} tokens"
        said.append(f"Not measured: {_full_name(name)}{at} ({why}).")
    return said


def wrapped(words, width, size):
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and log_chart.text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


class Page:
    """Elements from the top down."""

    def __init__(self):
        self.elements, self.y = [], _MARGIN

    def words(self, words, size=log_chart.LABEL_SIZE, color=log_chart.MUTED, bold=False):
        for words in wrapped(words, _WIDTH - 2 * _MARGIN, size):
            self.y += size + 5
            self.elements.append(log_chart.text(_MARGIN, self.y, words, size, color, bold=bold))

    def sentences(self, sentences):
        for sentence in sentences:
            self.words(sentence)

    def legend(self, names):
        for family, members in FAMILIES.items():
            members = [name for name in members if name in names]
            if not members:
                continue
            self.y += 22
            self.elements.append(log_chart.text(_MARGIN, self.y, family, bold=True))
            x = _MARGIN + 66
            for name in members:
                style = STYLES[name]
                self.elements += log_chart.key(style, x, self.y - 4)
                self.elements.append(log_chart.text(x + 33, self.y, style.label))
                x += 33 + log_chart.text_width(style.label, log_chart.LABEL_SIZE) + 22

    def charts(self, charts):
        width = (_WIDTH - 2 * _MARGIN - _GAP) / 2
        for column, chart in enumerate(charts):
            left = _MARGIN + column * (width + _GAP)
            self.elements += chart.draw(left, self.y + 8, width, _CHART)
        self.y += 8 + _CHART


def draw(report):
    """-> SVG. Raises Refused where nothing was measured at two or more numbers of tokens."""
    found = measurements.groups(report["rows"])
    shown = [name for name in STYLES if any(row["median_ms"] for group in found for row in group
                                            if row["contestant"] == name)]
    if not shown:
        raise Refused("There is nothing to draw: no layer or network was measured at two or more "
                      "numbers of tokens.")
    m, page = report["machine"], Page()
    title = f"Time and memory against the number of tokens, {measurements.device(m)}"
    page.words(title, 17, log_chart.TEXT, bold=True)
    page.words("Median and quartiles, all taking turns; memory of a call with weights, inputs and "
               "(training step) optimizer. Curves that coincide cover each other.")
    page.words(f"torch {m['versions']['torch']}, {m['date']}.")
    page.y += 4
    page.legend(shown)
    everywhere = set.intersection(*(set(gaps(group)) for group in found))
    for group in found:
        page.y += 20
        page.words(_title(group), 14, log_chart.TEXT, bold=True)
        page.charts(_charts(group))
        page.sentences(comparison(group) + [s for s in gaps(group) if s not in everywhere])
    page.y += 12
    page.sentences(sorted(everywhere))
    height = page.y + _MARGIN
    described = " ".join([title + ".", *(f"{_title(g)}. {' '.join(comparison(g))}" for g in found)])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" '
            f'width="{_WIDTH}" height="{height:g}" role="img" font-family="system-ui,-apple-system,'
            "'Segoe UI',Roboto,'Helvetica Neue','Noto Sans',Arial,sans-serif\">"
            f"<desc>{log_chart.escaped(described)}</desc>"
            f'<rect width="{_WIDTH}" height="{height:g}" fill="{log_chart.SURFACE}"/>'
            + "".join(page.elements) + "</svg>\n")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--out", required=True, help="the drawing (.svg)")
    options = parser.parse_args(argv)
    if not options.out.endswith(".svg"):
        parser.error(f"--out is {options.out}; name a file that ends with .svg")
    try:
        report = measurements.joined(options.files, [measurements.read(path) for path in options.files])
        table.write(options.out, draw(report))
    except Refused as wrong:
        sys.exit(f"speed_figure.py: {wrong}")


if __name__ == "__main__":
    main()
