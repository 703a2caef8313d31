#!/usr/bin/env python3
"""Compiles every Triton kernel of tost._triton without a GPU: registers and spilled bytes of a thread, shared memory.

usage: triton_report.py [--targets sm_80,sm_90,sm_120,gfx942] [--shapes bf16:8x48,...] [--all] [--jobs N]

What is compiled is what the operators launch for tokens of these shapes (dtype:heads x width), whole samples and cut
ones. Without --all a row shows the most registers, and spilled bytes, of a kernel's launches. Exits 1 where a kernel
fails to compile, spills more than 64 bytes, contains an atomic operation, or reads what other threads wrote without a
barrier between.
"""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import torch  # noqa: E402
import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.backends.nvidia.compiler import get_ptxas, sm_arch_from_capability  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from tost import _triton  # noqa: E402

TARGETS = "sm_80,sm_90,sm_120,gfx942"
SHAPES = "bf16:8x48,bf16:12x64,fp32:16x64,fp16:3x17,fp32:4x256,bf16:32x128"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
SPILLS = 64  # ptxas spills so much by itself where another block then fits a multiprocessor
TYPES = {**{dtype: name for name, dtype in DTYPES.items()}, torch.float64: "fp64", torch.int64: "i64"}
KERNELS = [name for name, value in vars(_triton).items() if isinstance(value, triton.runtime.JITFunction)]


class Launches:
    """In a kernel's place: keeps the arguments of its launches."""

    def __init__(self, name, kernel, found):
        self.name, self.kernel, self.found = name, kernel, found

    def __getitem__(self, grid):
        return lambda *arguments, **constants: self.found.append((self.name, arguments, constants))


def launches(dtype, heads, width):
    """(kernel, arguments, constants) of every launch that tokens of this shape can need."""
    found, kernels = [], {name: getattr(_triton, name) for name in KERNELS}

    def meta(*sizes, dtype=torch.float32):
        return torch.empty(sizes, dtype=dtype, device="meta")

    channels = heads * width
    temp, bias, scale, rates = meta(heads, 1), meta(heads, 64, 1), meta(channels), meta(heads)
    for name, kernel in kernels.items():
        setattr(_triton, name, Launches(name, kernel, found))
    try:
        w = meta(16, 1024, channels, dtype=DTYPES[dtype])
        lengths = meta(16, dtype=torch.int64)
        for x, multiprocessors in ((w[:, :64], 1), (w, 1000)):  # whole samples, cut ones
            _triton._multiprocessors = lambda device: multiprocessors
            y, *kept = _triton.forward(x, temp, lengths)
            _triton.backward(y, kept[0], x, temp, *kept, lengths)
            y, pi, state, *kept = _triton.causal_forward(x, temp, bias, None, 0)
            _triton.causal_backward(y, pi, x, temp, bias, 0, pi, *kept)
        _triton.causal_forward(w[:, :1], temp, bias, state, 1024)
        for x in (w, w[:, :1]):
            pi = meta(*x.shape[:2], heads)
            y, _, carry = _triton.means_forward(x, x, pi, scale, rates, None, 0)
            _triton.means_backward(y, x, pi, scale, rates, 0, carry)
    finally:
        for name, kernel in kernels.items():
            setattr(_triton, name, kernel)
    return found


def signature(name, arguments, constants):
    """What Triton compiles a launch for, hashable: types, constants and alignments of the arguments, and options."""
    kernel = getattr(_triton, name)
    types, fixed, aligned = [], [], []
    for i, parameter in enumerate(kernel.params):
        value = arguments[i] if i < len(arguments) else constants[parameter.name]
        special = isinstance(value, int) and not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or special and value == 1:
            types.append((parameter.name, "constexpr"))
            fixed.append((i, value))
        elif isinstance(value, torch.Tensor):
            types.append((parameter.name, "*" + TYPES[value.dtype]))
            aligned.append(i)
        else:
            types.append((parameter.name, "i32"))
            if special and value % 16 == 0:
                aligned.append(i)
    names = {parameter.name for parameter in kernel.params}
    options = tuple((key, value) for key, value in constants.items() if key not in names)
    return name, tuple(types), tuple(fixed), tuple(aligned), options


def measure(target, shape, launch):
    """A row: registers a thread, bytes spilled by a thread, bytes of shared memory a block, and what is wrong."""
    name, types, fixed, aligned, options = launch
    constants = dict(fixed)
    cuda = target.startswith("sm_")
    gpu = GPUTarget("cuda", int(target[3:]), 32) if cuda else GPUTarget("hip", target, 64)
    names = {dict(enumerate(types))[i][0]: value for i, value in constants.items()}
    causal = names.get("CAUSAL", False)
    kernel = ("causal_" if causal else "") + name.strip("_")
    row = dict(target=target, shape=shape, kernel=kernel, warps=dict(options).get("num_warps", 4))
    row["pass"] = names.get("PASS", int(names["BACK"]) if "BACK" in names else "")
    row["tile"] = names.get("T", names.get("CHUNK", names.get("R")))
    attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
    source = ASTSource(getattr(_triton, name), dict(types), {(i,): value for i, value in fixed}, attributes)
    built = triton.compile(source, target=gpu, options=dict(options))
    row["shared"] = built.metadata.shared
    if cuda:
        arch = int(target[3:])
        command = [get_ptxas(arch).path, "-v", f"--gpu-name={sm_arch_from_capability(arch)}", "-", "-o", "/dev/null"]
        log = subprocess.run(command, input=built.asm["ptx"], capture_output=True, text=True, check=True).stderr
        row["spills"] = sum(map(int, re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log).groups()))
        row["registers"] = int(re.search(r"Used (\d+) registers", log)[1])
        atomic = re.search(r"^\s*(@\S+ )?(atom|red)\.", built.asm["ptx"], re.M)
    else:
        code = built.asm["amdgcn"]
        row["registers"] = int(re.search(r"\.vgpr_count:\s+(\d+)", code)[1])
        row["spills"] = 4 * int(re.search(r"\.vgpr_spill_count:\s+(\d+)", code)[1])
        atomic = re.search(r"^\s*(global|flat|buffer|ds)_\w*(atomic|_add_rtn)", code, re.M)
    row["wrong"] = "an atomic operation" if atomic else "spills" if row["spills"] > SPILLS else ""
    if names.get("PASS") == 0 and not causal and "barrier" not in built.asm["ttgir"]:
        row["wrong"] = "no barrier"
    return row


def print_all(rows):
    """A row for each launch, in Markdown."""
    columns = ("target", "shape", "kernel", "pass", "tile", "warps", "registers", "spills", "shared")
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(row[column]) for column in columns) + " |")


def print_worst(rows, targets):
    """The most registers and spilled bytes of a kernel's launches, a column for each target, in Markdown."""
    cells = {}
    for row in rows:
        cells.setdefault((row["shape"], row["kernel"]), {}).setdefault(row["target"], []).append(row)
    print("| shape | kernel | launches | " + " | ".join(targets) + " |\n|" + "---|" * (3 + len(targets)))
    for (shape, kernel), by_target in cells.items():
        worst = [[max(row[key] for row in by_target[target]) for key in ("registers", "spills")] for target in targets]
        numbers = " | ".join(f"{registers} + {spills} B" if spills else str(registers) for registers, spills in worst)
        print(f"| {shape} | {kernel} | {len(by_target[targets[0]])} | {numbers} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--targets", default=TARGETS, help=f"separated by commas ({TARGETS})")
    parser.add_argument("--shapes", default=SHAPES, help=f"dtype:heads x width, separated by commas ({SHAPES})")
    parser.add_argument("--all", action="store_true", help="a row for each pass")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    wanted = []
    for shape in options.shapes.split(","):
        dtype, heads, width = re.fullmatch(r"(\w+):(\d+)x(\d+)", shape).groups()
        unique = dict.fromkeys(signature(*launch) for launch in launches(dtype, int(heads), int(width)))
        wanted += [(target, shape, launch) for target in options.targets.split(",") for launch in unique]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(measure, *zip(*wanted)))
    print(f"Triton {triton.__version__}\n")
    if options.all:
        print_all(rows)
    else:
        print_worst(rows, options.targets.split(","))
    wrong = [row for row in rows if row["wrong"]]
    spilling = [row["spills"] for row in rows if row["spills"]]
    for row in wrong:
        print(f"{row['target']} {row['shape']} {row['kernel']} {row['pass']}: {row['wrong']}")
    print(f"\n{len(rows)} kernels; {len(spilling)} spill, at most {max(spilling, default=0)} bytes; {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
