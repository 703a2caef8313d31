"""Whole networks, this program compared with its peers: same weights, same inputs, same threads.

Every contestant's logits are compared with those of eager PyTorch before anything is timed; one that
deviates by more than its precision allows is not timed. Then all of them take turns.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import cases
import contestants
import language
import machine
import networks
import rounds
import table
import tensors

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REFERENCE = "eager fp32"
OURS = ("tost fp32", "tost bf16", "tost int8", "tost int4")
# Largest deviation from eager fp32, relative to the largest logit, that is still timed.
ALLOWED = {"fp32": 1e-4, "bf16": 5e-2, "int8": 0.12, "int8+bf16": 0.12, "int4": 0.5}


def numbers(text):
    return [int(number) for number in text.split(",")]


def arguments():
    names = list(contestants.ALL) + list(OURS)
    known = {"forward": list(networks.VISION), "prefill": list(language.LANGUAGE),
             "decode": list(language.LANGUAGE)}
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="tost_cab_tiny_12_p16,tost_cab_small_12_p16,"
                        "tost_cab_medium_24_p16",
                        help="%(default)s; also " + ", ".join(language.LANGUAGE))
    parser.add_argument("--tests", default="forward,prefill,decode",
                        help="forward (pictures), prefill, decode (language); %(default)s")
    parser.add_argument("--batches", type=numbers, default=[1, 16], help="1,16")
    parser.add_argument("--tokens", type=numbers, default=[512],
                        help="lengths of a text, or of what decode follows (512)")
    parser.add_argument("--steps", type=int, default=16, help="tokens a call of decode (%(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (%(default)s)")
    parser.add_argument("--repeat", type=int, default=4, help="calls a turn (%(default)s)")
    parser.add_argument("--contestants", default=",".join(names),
                        help="separated by commas, int4 for decode alone: " + ", ".join(names))
    parser.add_argument("--tost", default=os.path.join(ROOT, "build", "release", "tost"))
    parser.add_argument("--markdown", help="write the table to this file, too")
    parser.add_argument("--json", help="write every figure to this file")
    options = parser.parse_args()
    for key in ("models", "tests", "contestants"):
        setattr(options, key, getattr(options, key).split(","))
    for what, found, all_of_them in (
            ("contestant", options.contestants, names), ("test", options.tests, known),
            ("model", options.models, known["forward"] + known["prefill"])):
        for name in found:
            if name not in all_of_them:
                parser.error(f"there is no {what} '{name}'; there are {', '.join(all_of_them)}")
    options.cases = [
        cases.Case(model, test, batch, size, options.steps if test == "decode" else 1,
                   options.threads)
        for model in options.models for test in options.tests if model in known[test]
        for batch in options.batches
        for size in ([224] if test == "forward" else options.tokens)]
    if not options.cases:
        parser.error("none of the models has one of the tests")
    table.check_files(parser, options.markdown, options.json)
    if not os.access(options.tost, os.X_OK):
        parser.error(f"{options.tost} is not there; build it first, or say --tost PATH")
    return options


def run_tost(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"peers.py: {' '.join(command)}: {done.stderr.strip()}")


def prepare(options, case, folder):
    """Weights and input, as this program draws them, noted in `case`. -> command of this program"""
    case.weights = os.path.join(folder, "weights.safetensors")
    case.input = os.path.join(folder, "plain.safetensors")
    base = [options.tost, "bench", "model"]
    sizes = []
    if case.test != "forward":  # what `tokens` says decides whether the model has positions
        sizes = ["--test", case.test, "--tokens", str(case.size), "--steps", str(case.steps)]
    run_tost(base + ["--model", case.model, *sizes, "--save-weights", case.weights])
    command = base + ["--model", case.weights, "--batch", str(case.batch), *sizes,
                      "--threads", str(case.threads)]
    run_tost(command + ["--engine", "off", "--save-logits", case.input])
    return command


def open_ours(name, command, folder):
    precision = name.split()[1]
    path = os.path.join(folder, precision + ".safetensors")
    command = command + ["--engine", "on", "--precision", precision]
    done = subprocess.run(command + ["--save-logits", path], capture_output=True, text=True)
    engine = rounds.Engine(name, command + ["--no-floor"])
    if done.returncode != 0:
        engine.failed = rounds.last_line(done.stderr)
        return engine, None
    return engine, tensors.load(path)[precision + ".engine"]


def error_of(found, wanted):
    return float((found.float() - wanted).abs().max() / wanted.abs().max())


def check(entry, logits, reference):
    """Notes the deviation, or why the contestant is not to be timed."""
    entry.error = None
    if logits is None:
        return
    if reference is None:
        entry.failed = f"there are no logits of {REFERENCE} to compare with"
        return
    entry.error = error_of(logits, reference)
    allowed = ALLOWED[entry.name.split()[1]]
    if not entry.error <= allowed:
        entry.failed = f"its logits deviate by {entry.error:.1e}, more than {allowed:g}"


def open_all(options, case, folder):
    """Every contestant with its error; those that cannot run or are wrong have a reason."""
    command = prepare(options, case, folder)
    names = [REFERENCE] + [n for n in options.contestants if n != REFERENCE]
    reference = None
    entries = []
    for name in names:
        if name.endswith("int4") and case.test != "decode":
            continue
        print(f"{case.label}: {name}", file=sys.stderr)
        if name in OURS:
            entry, logits = open_ours(name, command, folder)
        else:
            entry = rounds.Peer(name, case, folder)
            logits = None if entry.failed else tensors.load(entry.logits)["logits"]
        if name == REFERENCE:
            reference = logits
        check(entry, logits, reference)
        entries.append(entry)
    return entries


def measure(options, case):
    with tempfile.TemporaryDirectory(prefix="tost-bench-") as folder:
        entries = open_all(options, case, folder)
        for turn in range(options.rounds):
            print(f"{case.label}: round {turn + 1}", file=sys.stderr)
            for entry in entries:
                if not entry.failed:
                    entry.turn(options.repeat)
        for entry in entries:
            entry.close()
    return [table.row(case, entry) for entry in entries]


def main():
    options = arguments()
    report = {"machine": machine.describe(), "threads": options.threads, "rounds": options.rounds,
              "repeat": options.repeat, "rows": []}
    for case in options.cases:
        report["rows"] += measure(options, case)
        text = table.markdown(report)
        table.save(options, text, report)
    print(text, end="")


if __name__ == "__main__":
    main()
