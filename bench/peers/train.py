"""A training step by the official formula in eager PyTorch: forward, backward, clipping and AdamW.

Prints one JSON object a precision: milliseconds (median and quartiles) of a step, and how far the
resident memory of the process rises above what it was before the network existed. The counterpart is
the rate that `tost train` prints.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import time

import torch

import language
import machine
import networks
import rounds


def resident(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))


def make(options):
    if options.model in language.LANGUAGE:
        vocab = language.LANGUAGE[options.model][3]
        ids = torch.randint(0, vocab, (options.batch, options.tokens))
        return language.LanguageNet(options.model, block=options.tokens), (ids, ids.roll(-1, 1))
    images = torch.randn(options.batch, 3, 224, 224)
    return networks.VisionNet(options.model), (images, torch.randint(0, 1000, (options.batch,)))


def groups(net, decay):
    return [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0.0}]


def measure(options, precision):
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    before = resident("VmRSS")
    net, inputs = make(options)
    for parameter in net.parameters():
        if parameter.dim() == 2 and parameter.shape[1] > 1:
            torch.nn.init.normal_(parameter, 0, 0.02)
    optimizer = torch.optim.AdamW(groups(net, 0.05), lr=1e-4)
    times = []
    for turn in range(options.repeat + 2):  # two to warm up
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = net.loss(*inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if turn >= 2:
            times.append(1e3 * (time.perf_counter() - start))
    low, median, high = rounds.quartiles(times)
    return {"model": options.model, "batch": options.batch, "precision": precision,
            "median_ms": median, "low_ms": low, "high_ms": high,
            "peak_mib": (resident("VmHWM") - before) / 2**20}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*networks.VISION, *language.LANGUAGE]
    parser.add_argument("--model", default="tost_cab_small_12_p16", choices=known)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=1024, help="of a text (%(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()
    print(json.dumps(machine.describe()))
    for precision in ("fp32", "bf16"):  # each in a process of its own, so that memory is its own
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
            print(json.dumps(own.submit(measure, options, precision).result()), flush=True)


if __name__ == "__main__":
    main()
