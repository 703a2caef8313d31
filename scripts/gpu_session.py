#!/usr/bin/env python3
"""The first hour of the Triton kernels on a GPU: what decides whether they are on by default, in order of importance.

usage: gpu_session.py [--out FOLDER] [STEP...]

Steps: tests, repeats, selftest, sanitizer, times, schedule. Without names, all of them, each with a limit of time, so
that an hour is enough. A summary is printed and kept in FOLDER/summary.txt (build/gpu_session), with the output of each
step in a file of its name. Ends with 1 where a step failed, and with 0 and a sentence where there is no GPU.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
os.environ["TOST_TRITON"] = "1"
os.environ.pop("TRITON_INTERPRET", None)

import torch  # noqa: E402

LIMITS = {"tests": 20, "repeats": 3, "selftest": 3, "sanitizer": 15, "times": 8, "schedule": 8}  # minutes
# dtype, batch, tokens, heads, channels; causal or not. The first rows are those on top of tost/_triton.py.
SHAPES = [
    (torch.bfloat16, 256, 196, 8, 384, False),
    (torch.bfloat16, 4, 16384, 12, 768, False),
    (torch.bfloat16, 16, 1024, 12, 768, True),
    (torch.bfloat16, 1, 16384, 12, 768, True),
    (torch.float32, 256, 196, 8, 384, False),
    (torch.bfloat16, 64, 1, 12, 768, True),
]


def inputs(dtype, batch, tokens, heads, channels, causal):
    """Leaves, and gradients of y and of the memberships."""
    generator = torch.Generator("cuda").manual_seed(0)

    def random(*sizes):
        return torch.randn(sizes, generator=generator, device="cuda")

    leaves = [random(batch, tokens, channels).to(dtype), random(heads, 1).abs() + 0.5]
    if causal:
        leaves.append(0.1 * random(heads, 1024, 1))
    leaves = [x.requires_grad_() for x in leaves]
    return leaves, (random(batch, tokens, channels).to(dtype), random(batch, heads, tokens))


def milliseconds(function, repeats=20):
    """The median of some runs, in a GPU's own time, each after its L2 cache was overwritten."""
    function()
    flush = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
    times = []
    for _ in range(repeats):
        flush.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def both_ways(operator, leaves, grads):
    """Times of a forward and of its backward."""
    ahead = milliseconds(lambda: operator(*leaves))
    outputs = operator(*leaves)[:2]
    back = milliseconds(lambda: torch.autograd.grad(outputs, leaves, grads, retain_graph=True))
    return ahead, back


def times():
    """The table on top of tost/_triton.py, with the rate of the bytes that must be moved; and the first call's time."""
    from tost import ops, plain

    start = time.perf_counter()
    leaves, grads = inputs(*SHAPES[0])
    torch.autograd.grad(ops.tssa(*leaves), leaves, grads)
    torch.cuda.synchronize()
    print(f"first forward and backward, compilation included: {time.perf_counter() - start:.1f} s")
    columns = ("forward", "plain", "backward", "plain", "copy of w", "forward TB/s", "backward TB/s")
    print(f"{'':31}" + "".join(f"{column:>14}" for column in columns))
    for shape in SHAPES:
        dtype, batch, tokens, heads, channels, causal = shape
        leaves, grads = inputs(*shape)
        name = "tssa_causal" if causal else "tssa"
        kernels, plainly = (both_ways(getattr(module, name), leaves, grads) for module in (ops, plain))
        copy = milliseconds(lambda: leaves[0].detach().clone())
        size = leaves[0].numel() * leaves[0].element_size()
        rates = 2e-9 * size / kernels[0], 3e-9 * size / kernels[1]
        numbers = (kernels[0], plainly[0], kernels[1], plainly[1], copy, *rates)
        label = f"{'causal ' if causal else ''}{str(dtype)[6:]}"
        print(f"{label:15}{batch:5} x {tokens:5} x {channels:4}" + "".join(f"{number:14.3f}" for number in numbers))
        del leaves, grads
        torch.cuda.empty_cache()


def repeats():
    """A hundred runs of every kernel give the same bits."""
    from tost import ops

    pi = torch.randn(4, 1000, 3, device="cuda").softmax(2)
    x, scale, rates = torch.randn(4, 1000, 51, device="cuda"), torch.ones(51, device="cuda"), -torch.rand(3, device="cuda")
    leaves = [y.requires_grad_() for y in (x, x.clone(), pi, scale, rates)]
    runs = [torch.autograd.grad(ops.group_means(*leaves)[0].square().sum(), leaves) for _ in range(100)]
    if not all(torch.equal(a, b) for run in runs for a, b in zip(runs[0], run)):
        sys.exit("bits of group means differ from run to run")
    for shape in ((torch.bfloat16, 300, 196, 8, 384, False), (torch.bfloat16, 2, 4096, 12, 768, False),
                  (torch.float16, 4, 1000, 3, 51, True), (torch.bfloat16, 2000, 130, 2, 64, True)):
        leaves, grads = inputs(*shape)
        operator = ops.tssa_causal if shape[-1] else ops.tssa
        first = None
        for _ in range(100):
            outputs = operator(*leaves)
            found = [*outputs, *torch.autograd.grad(outputs[:2], leaves, grads)]
            first = first or found
            if not all(torch.equal(a, b) for a, b in zip(first, found)):
                sys.exit(f"bits differ from run to run: {shape}")
        print(f"100 runs agree bit for bit: {shape}")


def schedule():
    """From which batch on one program a sample is faster than several, in which the thresholds are guesses."""
    from tost import _triton, ops

    count = torch.cuda.get_device_properties(0).multi_processor_count
    print(f"{count} multiprocessors; ms of forward and backward, several programs a sample | one")
    for causal, tokens, factors in ((False, 196, (0.5, 1, 2, 4)), (True, 1024, (1, 2, 4, 8, 16))):
        for factor in factors:
            leaves, grads = inputs(torch.bfloat16, int(factor * count), tokens, 8, 384, causal)
            row = []
            for multiprocessors in (1 << 20, 0):  # more than samples: several programs; none: one
                _triton._multiprocessors = lambda device: multiprocessors
                row += both_ways(ops.tssa_causal if causal else ops.tssa, leaves, grads)
            name = "causal" if causal else "both directions"
            print(f"{name:15} batch {factor:4} x {count}, {tokens} tokens: " + " ".join(f"{x:8.3f}" for x in row))


def commands(step):
    """What a step runs, each with its environment."""
    python, tests = sys.executable, str(ROOT / "tests" / "python" / "test_triton.py")
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    on_gpu = {"TOST_TEST_DEVICE": "cuda"}
    if step == "tests":
        return [(pytest, on_gpu)]
    if step == "selftest":
        return [([python, "-m", "tost.selftest", "--device", "cuda"], {"PYTHONPATH": str(ROOT / "python")})]
    if step == "sanitizer":
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        few = ["-k", "ragged_blocks or width48 or rows_apart or n129 or pieces"]
        alone = {**on_gpu, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # so that a tensor ends where its memory ends
        checks = [[tool, "--tool", name, "--error-exitcode", "1"] for name in ("racecheck", "memcheck")]
        return [([*check, *pytest, *few], alone) for check in checks]
    return [([python, __file__, "--inside", step], {})]


def run(step, folder):
    """The step's result in one line."""
    start = time.monotonic()
    with open(folder / f"{step}.txt", "w") as out:
        for command, more in commands(step):
            left = 60 * LIMITS[step] - (time.monotonic() - start)
            environment = {**os.environ, **more}
            try:
                done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment, timeout=left)
            except subprocess.TimeoutExpired:
                return f"STOPPED  {step}  after {LIMITS[step]} minutes"
            except OSError as error:
                return f"FAILED   {step}  {error}"
            if done.returncode:
                return f"FAILED   {step}  see {folder / step}.txt"
    return f"passed   {step}  {time.monotonic() - start:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(LIMITS))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "gpu_session", help="folder for results")
    parser.add_argument("--inside", choices=("repeats", "times", "schedule"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [step for step in options.steps if step not in LIMITS]
    if unknown:
        parser.error(f"there is no step '{unknown[0]}'; the steps are {', '.join(LIMITS)}")
    if not torch.cuda.is_available():
        print("not run: no GPU")
        return 0
    if options.inside:
        globals()[options.inside]()
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [f"{torch.cuda.get_device_name()}, torch {torch.__version__}"]
    print(lines[0])
    for step in options.steps or LIMITS:
        lines.append(run(step, options.out))
        print(lines[-1], flush=True)
    (options.out / "summary.txt").write_text("\n".join(lines) + "\n")
    return int(any(not line.startswith("passed") for line in lines[1:]))


if __name__ == "__main__":
    sys.exit(main())
