"""TSSA on a GPU compared with its peers: layers at given lengths, and whole networks.

Layers: official-formula PyTorch (eager, torch.compile), the operator torch.ops.tost, and softmax
attention by PyTorch's fused kernels and flash-attn. Networks: the same within predictions and
training steps, and `tost bench model`. Every contestant is compared with the fp32
form first; one that deviates by more than its type allows is not timed. Then all take turns.
--figure also draws time and memory against the number of tokens, the paper's speed figure. Without a
GPU it says so and ends with 0; --device cpu runs everything that a CPU can.
"""

import argparse
import gc
import itertools
import os
import sys

import torch

import device_memory
import device_timing
import gpu_contestants
import gpu_program
import gpu_work
import language
import machine
import measurements
import networks
import rounds
import speed_figure
import table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What --figure measures unless told otherwise: seven of the paper's sixteen lengths, from 16 x 16
# to 128 x 128 patches, one picture at a time; and a layer, beyond them.
_FIGURE = {"networks": ["tost_cab_small_12_p16"], "pictures": 1,
           "image_size": [256, 384, 512, 768, 1024, 1440, 2048],
           "tokens": [256, 1024, 4096, 16384, 65536], "forms": ["bidirectional"]}


def numbers(text):
    found = [int(n) for n in text.split(",") if n]
    if any(n < 1 for n in found):
        raise ValueError
    return found


def parser_of():
    names = [*gpu_contestants.ALL, gpu_program.NAME]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: [w for w in text.split(",") if w]  # noqa: E731
    add = parser.add_argument
    add("--device", default="cuda", choices=("cuda", "cpu"))
    add("--tokens", type=numbers, default=[1024, 4096, 16384],
        help="of layers (1024,4096,16384); empty: no layers")
    add("--forms", type=words, default=["bidirectional", "causal"])
    add("--dtypes", type=words, default=["bf16"], help="of " + ", ".join(gpu_work.TYPES))
    add("--jobs", type=words, default=["forward", "training"])
    add("--batch", type=int, default=1, help="of layers (%(default)s)")
    add("--dim", type=int, default=768)
    add("--heads", type=int, default=12)
    add("--networks", type=words, default=["tost_cab_small_12_p16", "tost_gpt_base"],
        help="empty: none; " + ", ".join([*networks.VISION, *language.LANGUAGE]))
    add("--pictures", type=int, default=128, help="batch of a vision network (%(default)s)")
    add("--image-size", type=numbers, default=[224], help="sides of its pictures (224)")
    add("--texts", type=int, default=1, help="batch of a language network (%(default)s)")
    add("--text-tokens", type=numbers, default=[8192], help="of its texts (8192)")
    add("--contestants", type=words, default=names,
        help="separated by commas: " + ", ".join(names))
    add("--rounds", type=int, default=5)
    add("--repeat", type=int, default=4, help="stretches a turn (%(default)s)")
    add("--library", help="libtost_torch.so (default: of build/cuda, then build/release)")
    add("--tost", default=os.path.join(ROOT, "build", "cuda", "tost"))
    add("--markdown", help="write the table to this file, too")
    add("--json", help="write every figure to this file")
    add("--figure", help="draw time and memory against tokens to this file (.svg); unless told "
        "otherwise of one picture of side 256 to 2048 in tost_cab_small_12_p16 and of one layer")
    return parser


def arguments(argv):
    parser = parser_of()
    if parser.parse_args(argv).figure is not None:
        parser.set_defaults(**_FIGURE)
    options = parser.parse_args(argv)
    for what, found, known in (("form", options.forms, ("bidirectional", "causal")),
                               ("dtype", options.dtypes, list(gpu_work.TYPES)),
                               ("job", options.jobs, ("forward", "training")),
                               ("network", options.networks,
                                [*networks.VISION, *language.LANGUAGE]),
                               ("contestant", options.contestants,
                                [*gpu_contestants.ALL, gpu_program.NAME])):
        for name in found:
            if name not in known:
                parser.error(f"there is no {what} '{name}'; there are {', '.join(known)}")
    if options.dim % options.heads:
        parser.error(f"{options.heads} heads do not divide {options.dim} channels")
    if any(side % gpu_work.PATCH for side in options.image_size):
        parser.error(f"--image-size takes multiples of {gpu_work.PATCH}")
    table.check_files(parser, options.markdown, options.json, options.figure)
    if options.figure is not None and not options.figure.endswith(".svg"):
        parser.error(f"--figure is {options.figure}; name a file that ends with .svg")
    if options.figure is not None and not measurements.enough(s.row() for s in settings(options)):
        parser.error("--figure needs a layer or a network at two or more numbers of tokens")
    return options


def settings(o):
    for form, tokens, job, dtype in itertools.product(o.forms, o.tokens, o.jobs, o.dtypes):
        yield gpu_work.Setting("layer", form == "causal", job, dtype, o.batch, tokens, o.dim,
                               o.heads, o.device)
    for name in o.networks:
        causal = name in language.LANGUAGE
        batch, sizes = (o.texts, o.text_tokens) if causal else (o.pictures, o.image_size)
        for size, job, dtype in itertools.product(sizes, o.jobs, o.dtypes):
            yield gpu_work.Setting(name, causal, job, dtype, batch, size, device=o.device)


def load_operators(path):
    """-> why they are missing, or None"""
    if hasattr(torch.ops.tost, "tssa"):  # loaded before; another build's would end the process
        return None
    found = [path] if path else [os.path.join(ROOT, "build", preset, "lib", "libtost_torch.so")
                                 for preset in ("cuda", "release")]
    for file in found:
        if os.path.exists(file):
            try:
                return torch.ops.load_library(file)
            except OSError as error:
                return str(error)
    return f"no {' or '.join(found)}"


def add_triton():
    """-> why the operators have no Triton kernels on the GPU, or None"""
    sys.path.insert(0, os.path.join(ROOT, "python"))
    try:
        from tost import _library

        return None if _library.runs_on(torch.device("cuda")) else _library.add_triton()
    except Exception as error:  # no Triton, or one too old
        return str(error)


class Entry:
    def __init__(self, setting, contestant, timer, missing):
        self.name, self.times, self.error, self.failed = contestant.name, [], None, None
        self.timer, self.work, self.peak_mib = timer, None, None
        if missing and "tost" in contestant.name:
            self.failed = missing
            return
        try:
            self.work, self.error = gpu_work.open_checked(setting, contestant)
            timer.prepare(self, self.work.run)
            self.peak_mib = device_memory.peak_mib(setting.device, self.work)
        except Exception as error:  # whatever a kernel or package cannot do here is its result
            self.drop(error)

    def drop(self, error):
        self.work, self.times, self.peak_mib, self.failed = None, [], None, rounds.reason(error)

    def turn(self, repeat):
        try:
            self.work.run()  # takes back memory that was released for the program
            self.times += [self.timer.ms(self, self.work.run) for _ in range(repeat)]
        except Exception as error:  # with the others, memory may run out
            self.drop(error)


def open_entries(options, setting, timer, missing):
    for name in options.contestants:
        if name == gpu_program.NAME and (setting.what == "layer" or setting.job == "training"):
            continue
        print(f"{setting.label}: {name}", file=sys.stderr)
        if name == gpu_program.NAME:
            yield gpu_program.Program(setting, options.tost)
        else:
            yield Entry(setting, gpu_contestants.ALL[name], timer, missing)


def measure(options, setting, missing):
    timer = device_timing.Timer(setting.device)  # it keeps what it timed
    entries = list(open_entries(options, setting, timer, missing))
    for _ in range(options.rounds):
        for entry in entries:
            if not entry.failed:
                entry.turn(options.repeat)
    rows = []
    for entry in entries:
        low, median, high = rounds.quartiles(entry.times) if entry.times else (None,) * 3
        rows.append({**setting.row(), "contestant": entry.name, "low_ms": low, "median_ms": median,
                     "high_ms": high, "times_ms": entry.times, "peak_mib": entry.peak_mib,
                     "error": entry.error, "failed": entry.failed})
    entries = entry = None
    torch._dynamo.reset()  # or its limit on forms of one function leaves later ones uncompiled
    gc.collect()
    if setting.device == "cuda":
        torch.cuda.empty_cache()
    return rows


def median_of(report, wanted, contestant):
    same = ("what", "causal", "job", "dtype", "batch", "size")
    for r in report["rows"]:
        if r["contestant"] == contestant and all(r[key] == wanted[key] for key in same):
            return r["median_ms"]
    return None


def markdown(report):
    text = ("| what | form | job | dtype | batch | size | | ms [quartiles] | times eager | "
            "the operator is faster by | peak memory | error |\n"
            "|---|---|---|---|--:|--:|---|--:|--:|--:|--:|--:|\n")
    ratio = lambda a, b: f"{a / b:.2f}" if a and b else "–"  # noqa: E731
    for r in report["rows"]:
        form = "causal" if r["causal"] else "bidirectional"
        text += (f"| {r['what']} | {form} | {r['job']} | {r['dtype']} | {r['batch']} | {r['size']} "
                 f"| {r['contestant']} | ")
        ms = r["median_ms"]
        if not ms:
            text += f"not measured: {r['failed']} | | | | |\n"
            continue
        spread = " [" + ", ".join(table.digits(r[key]) for key in ("low_ms", "high_ms")) + "]"
        peak = f"{r['peak_mib']:,.1f} MiB" if r["peak_mib"] else "–"
        error = "–" if r["error"] is None else f"{r['error']:.1e}"
        text += (f"{table.digits(ms)}{spread} | {ratio(median_of(report, r, 'eager'), ms)} | "
                 f"{ratio(ms, median_of(report, r, 'tost operator'))} | {peak} | {error} |\n")
    return text + table.foot(report)


def draw_figure(path, report):
    """-> why there is nothing to draw, or None"""
    try:
        table.write(path, speed_figure.draw(report))
    except measurements.Refused as nothing:
        return str(nothing)


def main(argv=None):
    options = arguments(argv)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("not run: no GPU (torch sees none; --device cpu runs what a CPU can)")
        return
    report = {"machine": machine.describe(), "threads": torch.get_num_threads(),
              "rounds": options.rounds, "repeat": options.repeat, "rows": []}
    if options.device == "cuda":
        report["machine"]["gpu"] = torch.cuda.get_device_name()
    missing = load_operators(options.library)
    if options.device == "cuda":
        missing = missing or add_triton()
    text, undrawn = "", None
    for setting in settings(options):
        report["rows"] += measure(options, setting, missing)
        text = markdown(report)
        table.save(options, text, report)
        undrawn = options.figure and draw_figure(options.figure, report)
    print(text, end="")
    if undrawn:
        sys.exit(f"gpu.py: {undrawn}")


if __name__ == "__main__":
    main()
