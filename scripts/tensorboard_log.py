#!/usr/bin/env python3
"""Writes the curves of training runs for TensorBoard: tensorboard_log.py RUN... [--follow].

Reads RUN/metrics.jsonl and writes RUN/tensorboard, which `tensorboard --logdir RUN/tensorboard` shows. --follow continues
while the run trains, until Ctrl-C. Needs torch and tensorboard.
"""
import argparse
import json
import pathlib
import shutil
import time

from torch.utils.tensorboard import SummaryWriter

OTHER = {"step", "epoch", "layer", "slowest_rank"}  # numbers that are no curve


def curves(line):
    """(tag, value) of every curve in a line of metrics.jsonl."""
    kind = line["kind"]
    for layer in line.get("layers", []):
        yield from ((f"{kind}/{key}/{layer['layer']}", value) for key, value in layer.items() if key not in OTHER)
    if kind in ("train", "eval"):
        for key, value in line.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and key not in OTHER:
                yield f"{'speed' if key.endswith(('_per_s', '_share')) else kind}/{key}", value


class Log:
    def __init__(self, run):
        self.source, self.out = run / "metrics.jsonl", run / "tensorboard"
        self.writer = None
        self.read = 0  # bytes

    def update(self):
        """Adds the complete lines that are new; begins again if the run was rolled back."""
        data = self.source.read_bytes()
        if self.writer is None or len(data) < self.read:
            shutil.rmtree(self.out, ignore_errors=True)
            self.writer, self.read = SummaryWriter(str(self.out)), 0
        end = data.rfind(b"\n") + 1
        for text in data[self.read:end].splitlines():
            line = json.loads(text)
            for tag, value in curves(line):
                self.writer.add_scalar(tag, value, line["step"])
        self.read = end
        self.writer.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", nargs="+", type=pathlib.Path)
    parser.add_argument("--follow", action="store_true", help="read on while the run trains")
    options = parser.parse_args()
    logs = [Log(run) for run in options.run]
    for log in logs:
        log.update()
    while options.follow:
        time.sleep(5)
        for log in logs:
            log.update()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
