#!/usr/bin/env python3
"""Registers, shared memory and spills of every GPU kernel, from what ptxas said when it was compiled.

usage: cuda_report.py BUILD_DIR [--all]

Without --all, one line a kernel and architecture: the most of all its instances, and how many of them spill.
Exits 1 where a kernel of blocks of up to 256 threads spills: these run the usual head widths.
"""
import collections
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(sm_\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")

Instance = collections.namedtuple("Instance", "name signature architecture registers shared spills")


def instances(build):
    found = []
    for path in sorted(pathlib.Path(build).rglob("*.cu.o.txt")):
        name = architecture = None
        spills = 0
        for line in path.read_text().splitlines():
            if match := ENTRY.search(line):
                name, architecture = match.groups()
            elif match := SPILLS.search(line):
                spills = int(match.group(2)) + int(match.group(3))
            elif name and (match := USED.search(line)):
                found.append((name, architecture, int(match.group(1)), int(match.group(2) or 0), spills))
                name = None
    readable = subprocess.run(["c++filt"], input="\n".join(row[0] for row in found), text=True,
                              capture_output=True, check=True).stdout.splitlines()
    for signature, row in zip(readable, found):
        signature = signature.replace("tost::kernels::cuda::", "").removeprefix("void ")
        yield Instance(re.split(r"[<(]", signature)[0], signature.split(">(")[0] + ">", *row[1:])


def small_block(instance):
    threads = re.search(r"(\d+)>$", instance.signature)
    return threads is None or int(threads.group(1)) <= 256


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = list(instances(sys.argv[1]))
    if not found:
        sys.exit(f"No GPU kernels were compiled in '{sys.argv[1]}'; build it with cmake --preset cuda.")
    if "--all" in sys.argv:
        for one in found:
            print(f"{one.architecture}  {one.registers:4} registers  {one.shared:6} B shared  "
                  f"{one.spills:5} B spilled  {one.signature}")
    else:
        groups = collections.defaultdict(list)
        for one in found:
            groups[one.architecture, one.name].append(one)
        print(f"{'':6}{'kernel':28}{'instances':>10}{'registers':>11}{'spilling':>10}{'most bytes':>12}")
        for (architecture, name), group in sorted(groups.items()):
            spilling = [one for one in group if one.spills]
            print(f"{architecture:6}{name:28}{len(group):10}{max(one.registers for one in group):11}"
                  f"{len(spilling):10}{max((one.spills for one in spilling), default=0):12}")
    wrong = [one for one in found if one.spills and small_block(one)]
    wide = [one for one in found if one.spills and not small_block(one)]
    print(f"{len(found)} kernels; {len(wrong)} of blocks up to 256 threads spill, "
          f"{len(wide)} of larger blocks (of the widest heads and tokens)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
