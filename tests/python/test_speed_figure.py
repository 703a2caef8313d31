"""bench/peers/speed_figure.py: what it draws of measurements made up here, and what it refuses."""
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

import pytest

PEERS = pathlib.Path(__file__).parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import log_chart  # noqa: E402
import measurements  # noqa: E402
import speed_figure  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def row(contestant="eager", tokens=256, ms=1.0, **changes):
    return {"what": "tost_cab_small_12_p16", "causal": False, "job": "forward", "dtype": "bf16",
            "batch": 1, "size": tokens, "tokens": tokens, "dim": None, "heads": None,
            "contestant": contestant, "low_ms": ms, "median_ms": ms, "high_ms": ms, "times_ms": [],
            "peak_mib": 50 * ms, "error": 0.0, "failed": None, **changes}


def failed(contestant, tokens, why):
    return row(contestant, tokens, low_ms=None, median_ms=None, high_ms=None, peak_mib=None,
               failed=why)


def report(rows, **machine):
    return {"machine": {"gpu": "NVIDIA H200", "cpu": "c", "date": "2030-01-02 03:04 UTC",
                        "versions": {"torch": "2.15.0"}, **machine}, "rows": rows}


def marks(svg):
    """note -> (x, y) of every mark that has one."""
    found = {}
    for shape in xml.fromstring(svg).iter():
        title = shape.find(f"{SVG}title")
        if shape.tag == f"{SVG}circle" and title is not None:
            found[title.text] = (float(shape.get("cx")), float(shape.get("cy")))
        elif shape.tag == f"{SVG}polygon" and title is not None:
            corners = [tuple(map(float, c.split(","))) for c in shape.get("points").split()]
            found[title.text] = tuple((min(c) + max(c)) / 2 for c in zip(*corners))
    return found


def words(svg):
    return [text.text for text in xml.fromstring(svg).iter(f"{SVG}text")]


def curves(svg, color):
    """Numbers of points of the curves in a colour, whiskers and keys of the legend left out."""
    paths = re.findall(rf'<path d="(M[^"]*)"[^>]*stroke="{color}" stroke-width="2"', svg)
    return [path.count("L") + 1 for path in paths][1:]  # the first is the legend's


def test_every_curve_is_there():
    rows = [row(name, tokens, tokens / 100 + k, job=job) for job in ("forward", "training")
            for k, name in enumerate(measurements.CONTESTANTS) for tokens in (256, 1024, 4096)]
    svg = speed_figure.draw(report(rows))
    assert set(speed_figure.STYLES) == set(measurements.CONTESTANTS)
    found = marks(svg)
    for name in measurements.CONTESTANTS:
        full = speed_figure._full_name(name)
        assert len({note for note in found if note.startswith(f"{full}, 256 tokens: ")}) == 2
        # Three lengths, two jobs, time and memory.
        assert len(re.findall(rf"<title>{re.escape(full)}, \d", svg)) == 12
        assert full.partition(", ")[2] in words(svg)
    assert svg.count("Time of a call, ms") == svg.count("Peak memory, MiB") == 2
    assert "tost_cab_small_12_p16, training step, bf16, batch 1" in words(svg)
    assert words(svg)[0] == "Time and memory against the number of tokens, NVIDIA H200"
    assert "torch 2.15.0, 2030-01-02 03:04 UTC." in " ".join(words(svg))


def test_both_axes_are_logarithmic():
    times = {256: 1.0, 1024: 10.0, 16384: 1000.0}
    svg = speed_figure.draw(report([row("eager", n, ms) for n, ms in times.items()]))
    found = {note.partition(": ")[2]: at for note, at in marks(svg).items()}
    (x0, y0), (x1, y1), (x2, y2) = found["1 ms"], found["10 ms"], found["1,000 ms"]
    assert x2 - x1 == pytest.approx(2 * (x1 - x0), abs=0.1) and x1 > x0
    assert y1 - y2 == pytest.approx(2 * (y0 - y1), abs=0.1) and y1 < y0
    ticks = {text.text: (float(text.get("x")), float(text.get("y")))
             for text in xml.fromstring(svg).iter(f"{SVG}text")
             if float(text.get("x")) < 540}
    for name, at in (("1", y0), ("10", y1), ("1,000", y2)):
        assert ticks[name][1] == pytest.approx(at + 4, abs=0.1)
    for name, at in (("256", x0), ("1,024", x1), ("16,384", x2)):
        assert ticks[name][0] == pytest.approx(at, abs=0.1)
    # Memory is drawn next to it, over the same numbers of tokens.
    assert found["50 MiB"][0] - x0 == pytest.approx(found["500 MiB"][0] - x1, abs=30)
    assert found["50 MiB"][0] > 540


def test_quartiles_are_whiskers():
    rows = [row("eager", 256, 10.0, low_ms=1.0, high_ms=100.0), row("eager", 1024, 10.0)]
    svg = speed_figure.draw(report(rows))
    (x, middle), = {at for note, at in marks(svg).items() if "256 tokens: 10 ms" in note}
    whisker, = re.findall(r'd="M(\S+) (\S+)L(\S+) (\S+)" fill="none" stroke="#25a47e" '
                          'stroke-width="1.2"', svg)
    left, low, right, high = map(float, whisker)
    assert left == right == pytest.approx(x)
    assert low - middle == pytest.approx(middle - high, abs=0.1) and low > middle


def test_what_was_not_measured_is_a_gap_with_its_reason():
    sizes = (256, 576, 1024, 4096, 16384)
    rows = [row("tost operator", n, n / 100) for n in sizes]
    rows += [row("eager", n) if n != 1024 else failed("eager", n, "ValueError: it deviates. More")
             for n in sizes]
    rows += [row("eager attention", n, n / 50) if n < 4096 else
             failed("eager attention", n, "OutOfMemoryError: CUDA out of memory. Tried")
             for n in sizes]
    rows += [failed("flash-attn", n, "ModuleNotFoundError: No module named 'flash_attn'")
             for n in sizes]
    svg = speed_figure.draw(report(rows))
    assert curves(svg, "#295ccf") == [5, 5]
    assert curves(svg, "#25a47e") == [2, 2] * 2
    assert curves(svg, "#b8384a") == [3, 3]
    said = words(svg)
    assert "Not measured: TSSA, PyTorch eager at 1,024 tokens (ValueError: it deviates)." in said
    assert ("Not measured: softmax, PyTorch eager from 4,096 tokens on (out of memory)." in said)
    assert said[-1] == ("Not measured: softmax, flash-attn (ModuleNotFoundError: No module named "
                        "'flash_attn').")
    assert "flash-attn" not in said  # nor in the legend
    assert ("Fastest softmax over fastest TSSA in time, by tokens: 5.12 at 256, 11.5 at 576, "
            "2.00 at 1,024.") in said


def test_one_length_is_no_curve_and_groups_are_kept_apart():
    rows = [row("eager", n, job=job, what="layer", dim=dim, heads=4) for n in (64, 128)
            for job in ("forward", "training") for dim in (96, 192)]
    rows += [row("eager", 64), row("eager", 64, causal=True)]
    titles = [speed_figure._title(group) for group in measurements.groups(rows)]
    assert titles == [f"One bidirectional layer of {dim} channels, 4 heads, {job}, bf16, batch 1"
                      for job in ("forward", "forward and backward") for dim in (96, 192)]
    with pytest.raises(measurements.Refused, match="^There is nothing to draw: no layer"):
        speed_figure.draw(report([row("eager", 64), row("compile", 64)]))
    nothing = [failed("eager", n, "no") for n in (64, 128)]
    with pytest.raises(measurements.Refused, match="^There is nothing to draw"):
        speed_figure.draw(report(nothing))


def test_without_counted_memory_the_chart_says_so():
    svg = speed_figure.draw(report([row("eager", n, peak_mib=None) for n in (64, 128)]))
    assert words(svg).count("not measured") == 1 and len(marks(svg)) == 2


def test_texts_from_outside_stay_texts():
    rows = [row("eager", 64), row("eager", 128), failed("compile", 64, "<b>&\x00\ud800\n")]
    svg = speed_figure.draw(report(rows, gpu="<script>alert(1)</script>"))
    assert "<script" not in svg and "<b>" not in svg
    assert any("(<b>&\ufffd\ufffd)" in text for text in words(svg))
    svg.encode()


def main(tmp_path, *files, out="out.svg"):
    speed_figure.main([*map(str, files), "--out", str(tmp_path / out)])
    return (tmp_path / out).read_text()


def test_parts_are_joined(tmp_path):
    parts = [[row("eager", 256, 1.0), row("eager", 1024, 2.0)],
             [row("eager", 1024, 8.0), row("eager", 4096, 9.0)]]
    files = [tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"]
    files[0].write_text(json.dumps(report(parts[0])))
    files[1].write_text(json.dumps(report(parts[1], date="2030-01-03 00:00 UTC")))
    svg = main(tmp_path, *files[:2])
    assert [note.partition(", PyTorch eager, ")[2] for note in marks(svg) if "ms" in note] == [
        "256 tokens: 1 ms", "1,024 tokens: 8 ms", "4,096 tokens: 9 ms"]  # the later one counts
    assert "2030-01-02 03:04 UTC to 2030-01-03 00:00 UTC." in " ".join(words(svg))
    files[2].write_text(json.dumps(report(parts[1], gpu="NVIDIA A100")))
    with pytest.raises(SystemExit, match="c.json was measured on NVIDIA A100 with torch 2.15.0, "
                                         ".*a.json on NVIDIA H200 with torch 2.15.0; one figure"):
        main(tmp_path, files[0], files[2])


WRONG = {
    "empty": ("", "is empty; name a file"),
    "text": ("no json", "is not JSON; name a file"),
    "bytes": (b"\xff\xfe\x00{", "is not JSON"),
    "deep": ("[" * 100000, "is not JSON"),
    "list": ([], "is not a result of gpu.py"),
    "no rows": ({"machine": {}}, "is not a result of gpu.py"),
    "no row": (report([]), "holds no measurement"),
    "machine": (report([row()], versions={}), "'machine' must name the device"),
    "device": (report([row()], gpu=[1]), "'machine' must name the device"),
    "row": (report([row(), 3]), "row 2: 'rows' must be a list of objects"),
    "contestant": (report([row("jax")]), "row 1: 'contestant' must be one of tost operator, "),
    "job": (report([row(job="rest")]), "'job' must be forward or training"),
    "tokens": (report([row(tokens=0)]), "'tokens' must be an integer above 0"),
    "large": (report([row(tokens=10**400)]), "'tokens' must be an integer above 0"),
    "truth": (report([row(tokens=True)]), "'tokens' must be an integer above 0"),
    "heads": (report([row(heads=2.5)]), "'heads' must be an integer above 0, or null"),
    "nan": (report([row(ms=float("nan"))]), "'peak_mib' must be a number above 0, or null"),
    "negative": (report([row(low_ms=-1)]), "'median_ms' must be a number above 0"),
    "order": (report([row(high_ms=0.5)]), "'median_ms' must be a number above 0 from low_ms"),
    "partly": (report([row(low_ms=None)]), "'median_ms' must be a number above 0"),
    "one size": (report([row()]), "There is nothing to draw"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_refused_in_a_sentence(case, tmp_path):
    content, sentence = WRONG[case]
    content = content if isinstance(content, (str, bytes)) else json.dumps(content)
    file = tmp_path / "wrong.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SystemExit) as end:
        main(tmp_path, file)
    said = end.value.code
    assert said.startswith("speed_figure.py: ") and sentence in said
    assert said.endswith(".") and "\n" not in said
    assert not (tmp_path / "out.svg").exists()


def test_missing_files_and_places_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit, match="absent.json cannot be read: No such file or directory."):
        main(tmp_path, tmp_path / "absent.json")
    good = tmp_path / "good.json"
    good.write_text(json.dumps(report([row("eager", n) for n in (64, 128)])))
    with pytest.raises(SystemExit, match="cannot be written: No such file or directory."):
        main(tmp_path, good, out="absent/out.svg")
    with pytest.raises(SystemExit) as end:
        main(tmp_path, good, out="out.png")
    assert end.value.code == 2 and "ends with .svg" in capsys.readouterr().err


@pytest.mark.parametrize("low, high, bottom, top, named", [
    (1, 1000, 1, 1000, [1, 10, 100, 1000]),
    (3, 40, 2, 50, [2, 5, 10, 20, 50]),
    (0.03, 700, 0.01, 1000, [0.01, 0.1, 1, 10, 100, 1000]),
    (7, 7, 5, 10, [5, 10]),
    (10, 10, 10, 20, [10, 20]),
])
def test_axes_end_at_round_numbers(low, high, bottom, top, named):
    found = log_chart.rising_ticks(low, high)
    assert found[0] == pytest.approx(bottom) and found[1] == pytest.approx(top)
    assert found[2] == pytest.approx(named)
    assert set(found[2]) <= set(found[3])


def test_names_of_ticks_have_room():
    place = lambda v: v / 100  # noqa: E731
    assert log_chart.spaced([1, 2, 3], lambda v: 100 * v) == [1, 2, 3]
    assert log_chart.spaced([100, 200, 10000], place) == [100, 10000]
    assert log_chart.spaced([100, 9900, 10000], place) == [100, 10000]
    assert [log_chart.number(v) for v in (0.01234, 1.5, 12.34, 123.4, 12345, 0.999)] == [
        "0.0123", "1.5", "12.3", "123", "12,345", "0.999"]
