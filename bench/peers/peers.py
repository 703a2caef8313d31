"""Whole networks, this program beside its peers: same weights, same inputs, same threads.

Every contestant's logits are compared with those of eager PyTorch before anything is timed; one that
deviates by more than its precision allows is not timed. Then all of them take turns.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import contestants
import machine
import networks
import rounds
import table
import tensors

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = ("tost fp32", "tost bf16", "tost int8")
# Largest deviation from eager fp32, relative to the largest logit, that is still timed.
ALLOWED = {"fp32": 1e-4, "bf16": 5e-2, "int8": 0.12, "int8+bf16": 0.12}


def arguments():
    names = list(contestants.ALL) + list(OURS)
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="tost_cab_tiny_12_p16,tost_cab_small_12_p16,"
                        "tost_cab_medium_24_p16", help="%(default)s; also tost_gpt_base")
    parser.add_argument("--batches", default="1,16", help="%(default)s")
    parser.add_argument("--tokens", type=int, default=512, help="of a text (%(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (%(default)s)")
    parser.add_argument("--repeat", type=int, default=4, help="calls a turn (%(default)s)")
    parser.add_argument("--contestants", default=",".join(names),
                        help="separated by commas: " + ", ".join(names))
    parser.add_argument("--tost", default=os.path.join(ROOT, "build", "release", "tost"))
    parser.add_argument("--markdown", help="write the table to this file, too")
    parser.add_argument("--json", help="write every figure to this file")
    options = parser.parse_args()
    options.models = options.models.split(",")
    options.batches = [int(batch) for batch in options.batches.split(",")]
    options.contestants = options.contestants.split(",")
    for name in options.contestants:
        if name not in names:
            parser.error(f"there is no contestant '{name}'; there are {', '.join(names)}")
    for name in options.models:
        if name not in networks.VISION and name not in networks.LANGUAGE:
            known = ", ".join([*networks.VISION, *networks.LANGUAGE])
            parser.error(f"there is no model '{name}'; there are {known}")
    if not os.access(options.tost, os.X_OK):
        parser.error(f"{options.tost} is not there; build it first, or say --tost PATH")
    return options


def run_tost(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"peers.py: {' '.join(command)}: {done.stderr.strip()}")


def prepare(options, model, batch, folder):
    """Weights and input, as this program draws them. -> (weights, input, command)"""
    weights = os.path.join(folder, model + ".safetensors")
    base = [options.tost, "bench", "model"]
    if not os.path.exists(weights):
        run_tost(base + ["--model", model, "--save-weights", weights])
    command = base + ["--model", weights, "--batch", str(batch), "--threads", str(options.threads)]
    if model in networks.LANGUAGE:
        command += ["--test", "prefill", "--tokens", str(options.tokens)]
    logits = os.path.join(folder, "plain.safetensors")
    run_tost(command + ["--engine", "off", "--save-logits", logits])
    return weights, logits, command


def open_ours(name, command, folder):
    precision = name.split()[1]
    path = os.path.join(folder, precision + ".safetensors")
    command = command + ["--engine", "on", "--precision", precision]
    done = subprocess.run(command + ["--save-logits", path], capture_output=True, text=True)
    engine = rounds.Engine(name, command + ["--no-floor"])
    if done.returncode != 0:
        engine.failed = done.stderr.strip()
        return engine, None
    return engine, tensors.load(path)[precision + ".engine"]


def error_of(found, wanted):
    return float((found.float() - wanted).abs().max() / wanted.abs().max())


def open_all(options, model, batch, folder):
    """Every contestant with its error; those that cannot run or are wrong have a reason."""
    weights, logits_file, command = prepare(options, model, batch, folder)
    reference = None
    entries = []
    for name in ["eager fp32"] + [n for n in options.contestants if n != "eager fp32"]:
        print(f"{model}, batch {batch}: {name}", file=sys.stderr)
        if name in OURS:
            entry, logits = open_ours(name, command, folder)
        else:
            entry = rounds.Peer(name, model, weights, logits_file, options.threads)
            logits = None if entry.failed else tensors.load(entry.logits)["logits"]
        entry.error = None
        if logits is not None:
            reference = logits if reference is None else reference
            entry.error = error_of(logits, reference)
            allowed = ALLOWED[name.split()[1]]
            if not entry.error <= allowed:
                entry.failed = f"its logits deviate by {entry.error:.1e}, more than {allowed:g}"
        entries.append(entry)
    return entries


def measure(options, model, batch):
    with tempfile.TemporaryDirectory(prefix="tost-bench-") as folder:
        entries = open_all(options, model, batch, folder)
        for turn in range(options.rounds):
            print(f"{model}, batch {batch}: round {turn + 1}", file=sys.stderr)
            for entry in entries:
                if not entry.failed:
                    entry.turn(options.repeat)
        for entry in entries:
            entry.close()
    per_call = batch * (options.tokens if model in networks.LANGUAGE else 1)
    unit = "tokens/s" if model in networks.LANGUAGE else "images/s"
    return [table.row(model, batch, unit, per_call, entry) for entry in entries]


def main():
    options = arguments()
    report = {"machine": machine.describe(), "threads": options.threads, "rounds": options.rounds,
              "repeat": options.repeat, "rows": []}
    for model in options.models:
        for batch in options.batches:
            report["rows"] += measure(options, model, batch)
            text = table.markdown(report)
            if options.markdown:
                table.write(options.markdown, text)
            if options.json:
                table.write(options.json, json.dumps(report, indent=1) + "\n")
    print(text, end="")


if __name__ == "__main__":
    main()
