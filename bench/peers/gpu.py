"""TSSA on a GPU beside its peers: layers at given lengths, and whole networks.

Layers: official-formula PyTorch (eager, torch.compile), the operator torch.ops.tost, and softmax
attention by PyTorch's fused kernels and flash-attn. Networks: the same within predictions and
training steps, and `tost bench model` and `bench train`. Every contestant is compared with the fp32
form first; one that deviates by more than its type allows is not timed. Then all take turns. Without
a GPU it says so and ends with 0; --device cpu runs everything that a CPU can.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys

import torch

import device_timing
import gpu_contestants
import gpu_work
import language
import machine
import networks
import rounds
import table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = "tost program"


def arguments(argv):
    names = [*gpu_contestants.ALL, PROGRAM]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(n) for n in text.split(",") if n]  # noqa: E731
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
    add("--image-size", type=int, default=224)
    add("--texts", type=int, default=1, help="batch of a language network (%(default)s)")
    add("--text-tokens", type=int, default=8192, help="of its texts (%(default)s)")
    add("--contestants", default=",".join(names),
        help="separated by commas: " + ", ".join(names))
    add("--rounds", type=int, default=5)
    add("--repeat", type=int, default=4, help="stretches a turn (%(default)s)")
    add("--library", help="libtost_torch.so (default: of build/cuda, then build/release)")
    add("--tost", default=os.path.join(ROOT, "build", "cuda", "tost"))
    add("--markdown", help="write the table to this file, too")
    add("--json", help="write every figure to this file")
    options = parser.parse_args(argv)
    options.contestants = options.contestants.split(",")
    for what, found, known in (("form", options.forms, ("bidirectional", "causal")),
                               ("dtype", options.dtypes, list(gpu_work.TYPES)),
                               ("job", options.jobs, ("forward", "training")),
                               ("network", options.networks,
                                [*networks.VISION, *language.LANGUAGE]),
                               ("contestant", options.contestants, names)):
        for name in found:
            if name not in known:
                parser.error(f"there is no {what} '{name}'; there are {', '.join(known)}")
    if options.dim % options.heads:
        parser.error(f"{options.heads} heads do not divide {options.dim} channels")
    return options


def settings(o):
    for form, tokens, job, dtype in itertools.product(o.forms, o.tokens, o.jobs, o.dtypes):
        yield gpu_work.Setting("layer", form == "causal", job, dtype, o.batch, tokens, o.dim,
                               o.heads, o.device)
    for name, job, dtype in itertools.product(o.networks, o.jobs, o.dtypes):
        causal = name in language.LANGUAGE
        batch, size = (o.texts, o.text_tokens) if causal else (o.pictures, o.image_size)
        yield gpu_work.Setting(name, causal, job, dtype, batch, size, device=o.device)


def load_operators(path):
    """-> why they are missing, or None"""
    found = [path] if path else [os.path.join(ROOT, "build", preset, "lib", "libtost_torch.so")
                                 for preset in ("cuda", "release")]
    for file in found:
        if os.path.exists(file):
            try:
                return torch.ops.load_library(file)
            except OSError as error:
                return str(error)
    return f"no {' or '.join(found)}"


class Entry:
    def __init__(self, setting, contestant, timer, missing):
        self.name, self.times, self.error, self.failed = contestant.name, [], None, None
        self.timer, self.work = timer, None
        if missing and "tost" in contestant.name:
            self.failed = missing
            return
        try:
            self.work, self.error = gpu_work.open_checked(setting, contestant)
            timer.prepare(self, self.work.run)
        except Exception as error:  # whatever a kernel or package cannot do here is its result
            self.work = None
            self.failed = f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"

    def turn(self, repeat):
        self.times += [self.timer.ms(self, self.work.run) for _ in range(repeat)]


class Program:
    """`tost bench train` or `bench model` of the same network and batch, which check themselves."""

    def __init__(self, setting, tost):
        self.name, self.times, self.error, self.failed, self.work = PROGRAM, [], None, None, self
        self.training, texts = setting.job == "training", setting.causal
        size = ["--image-size", str(setting.size)]
        if self.training:
            special = ["--no-plain", "--no-twin"]
            size = ["--block", str(setting.size)] if texts else size
        else:
            special = ["--test", "prefill" if texts else "forward", "--no-floor"]
            special += ["--engine", "on" if setting.device == "cpu" else "off"]
            size = ["--tokens", str(setting.size)] if texts else size
        self.command = [tost, "bench", "train" if self.training else "model", "--model",
                        setting.what, "--batch", str(setting.batch), *size, "--precision",
                        setting.dtype, "--json", *special]
        if setting.device != "cpu":
            self.command += ["--device", setting.device]
        self.turn(1, keep=False)

    def turn(self, repeat, keep=True):
        try:
            done = subprocess.run([*self.command, "--repeat", str(repeat)], capture_output=True,
                                  text=True)
        except OSError as error:
            self.failed = str(error)
            return
        if done.returncode != 0:
            self.failed = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        elif keep and self.training:
            self.times.append(json.loads(done.stdout)["precisions"][0]["step"]["ms"])
        elif keep:
            row = json.loads(done.stdout)["rows"][0]
            self.times += row["times_ms"]
            self.error = row["error"]


def measure(options, setting, timer, missing):
    entries = []
    for name in options.contestants:
        print(f"{setting.label}: {name}", file=sys.stderr)
        if name == PROGRAM:
            if setting.what != "layer":
                entries.append(Program(setting, options.tost))
        else:
            entries.append(Entry(setting, gpu_contestants.ALL[name], timer, missing))
    for _ in range(options.rounds):
        for entry in entries:
            if not entry.failed:
                entry.turn(options.repeat)
    rows = []
    for entry in entries:
        low, median, high = rounds.quartiles(entry.times) if entry.times else (None,) * 3
        rows.append({"what": setting.what, "causal": setting.causal, "job": setting.job,
                     "dtype": setting.dtype, "batch": setting.batch, "size": setting.size,
                     "contestant": entry.name, "low_ms": low, "median_ms": median, "high_ms": high,
                     "times_ms": entry.times, "error": entry.error, "failed": entry.failed})
    entries.clear()
    torch._dynamo.reset()  # or its limit on forms of one function leaves later ones uncompiled
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
            "the operator is faster by | error |\n"
            "|---|---|---|---|--:|--:|---|--:|--:|--:|--:|\n")
    ratio = lambda a, b: f"{a / b:.2f}" if a and b else "–"  # noqa: E731
    for r in report["rows"]:
        form = "causal" if r["causal"] else "bidirectional"
        text += (f"| {r['what']} | {form} | {r['job']} | {r['dtype']} | {r['batch']} | {r['size']} "
                 f"| {r['contestant']} | ")
        ms = r["median_ms"]
        if not ms:
            text += f"not measured: {r['failed']} | | | |\n"
            continue
        spread = " [" + ", ".join(table.digits(r[key]) for key in ("low_ms", "high_ms")) + "]"
        error = "–" if r["error"] is None else f"{r['error']:.1e}"
        text += (f"{table.digits(ms)}{spread} | {ratio(median_of(report, r, 'eager'), ms)} | "
                 f"{ratio(ms, median_of(report, r, 'tost operator'))} | {error} |\n")
    return text + table.foot(report)


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
    timer = device_timing.Timer(options.device)
    text = ""
    for setting in settings(options):
        report["rows"] += measure(options, setting, timer, missing)
        text = markdown(report)
        if options.markdown:
            table.write(options.markdown, text)
        if options.json:
            table.write(options.json, json.dumps(report, indent=1) + "\n")
    print(text, end="")


if __name__ == "__main__":
    main()
