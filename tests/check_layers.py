#!/usr/bin/env python3
"""Checks that every file of tost/ includes its own room or a lower one, no kind of model another, and torch only where
it may; that the build for browsers lists sources that are there; and that no file calls what throws or waits where a
function of this repository says in a sentence what is wrong.

usage: check_layers.py SOURCE_DIR; exits 1 and names each offending line.
"""
import pathlib
import re
import sys

# The rooms downstairs, and what each may include in addition to itself.
DOWNSTAIRS = {
    "base": set(),
    "kernels": {"base"},
    "ops": {"engine", "io", "kernels", "base"},
    "comm": {"ops", "base"},
    "io": {"base"},
    "engine": {"io", "kernels", "base"},
    "serve": {"engine", "io", "base"},
    "data": {"ops", "io", "base"},
}
# The rooms upstairs, from below: each may include those before it, and what lies downstairs but for the exceptions.
KINDS = [f"kinds/{path.parent.name}" for path in sorted(pathlib.Path(sys.argv[1]).glob("tost/kinds/*/CMakeLists.txt"))]
KIND = "tost/kinds/kind.h"  # what each of them fills
UPSTAIRS = ["nn", "store", "train", "explain", "bench", *KINDS, "kinds", "study", "cli"]
EXCEPT = {"nn": {"io", "data"}, "store": {"kernels"}, "train": {"kernels"}}


def may_include(room):
    if room in DOWNSTAIRS:
        return {room, *DOWNSTAIRS[room]}
    below = {*DOWNSTAIRS, *UPSTAIRS[:UPSTAIRS.index(room)]} - EXCEPT.get(room, set())
    below -= {"serve"} if room != "cli" else set()
    return {room, *(below - set(KINDS) if room in KINDS else below)}


def room_of(path):
    """Of a path below tost/: its folder, and of kinds/ the folder of the kind."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "kinds" and len(parts) > 2 else parts[0]


# Tests may also read parity files and the like.
TESTS_MAY_ALSO = {"io", "base"}
SERVE_TESTS_MAY_ALSO = {"kinds/language", "nn", "ops"}  # serve models of both programs
NO_TORCH = {"base", "kernels", "io", "engine", "serve"}
C10D = re.compile(r"torch/csrc/distributed/|gloo/")
MAY_C10D = {"comm/backends.cc", "comm/backends.h", "comm/group.cc"}
TORCH = "tost/torch.h"  # of every layer that may include torch
# What to call instead, and the files that may call it themselves. Tests may call anything.
INSTEAD = [
    (r"(?:\bfs|\bfilesystem)::(?!path\b)\w+\s*[({<\s]", "a function of tost/base/path.h", r"tost/base/.*|tost/cli/(?:program|main)\.cc"),
    (r"\bstd::(?:jthread|async)\b|\bstd::thread\s*[({]|\bstd::thread\s+\w+\s*[({]|\bstd::strerror\b",
     "start_thread() or system_reason() (tost/base)", r"tost/base/(?:path|parallel)\..*"),
    (r"\bi?fstream\b|\bfopen\s*\(|(?<![\w.>])::open\s*\(", "InputFile or read_file() (tost/base/file.h)",
     # Files of the system or of this program's own making.
     r"tost/base/.*|tost/kernels/block_cache\.cc|tost/io/token_file\.cc"),
    (r"(?:\.|->)dump\(", "json_text() (tost/io/parse_json.h)", r"tost/(?:io/parse_json\.h|engine/arrays_file\.cc)"),
]
IS_TEST = re.compile(r".*(?:_test|_test_util|_cases|_fuzz|_samples)\.\w+|.*_test\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def offences(source_dir):
    root = pathlib.Path(source_dir) / "tost"
    for path in sorted(root.rglob("*")):
        if path.suffix not in {".h", ".cc"} or path == root / "torch.h":
            continue
        layer = room_of(path.relative_to(root).as_posix())
        if layer not in DOWNSTAIRS and layer not in UPSTAIRS:
            yield f"{path}: folder '{layer}' is not in the list of rooms"
            continue
        allowed = may_include(layer)
        if path.stem.endswith(("_test", "_test_util")):
            allowed |= TESTS_MAY_ALSO | ({"kinds"} if layer in KINDS else set())
            allowed |= SERVE_TESTS_MAY_ALSO if layer == "serve" else set()
        text = path.read_text()
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            if (target == TORCH and layer not in NO_TORCH) or (target == KIND and layer in KINDS):
                continue
            if target.startswith("tost/") and room_of(target.removeprefix("tost/")) not in allowed:
                yield f"{path}:{number}: room '{layer}' must not include '{target}'"
            if target.startswith("tests/") and not IS_TEST.fullmatch(path.name):
                yield f"{path}:{number}: only tests may include '{target}'"
            if C10D.match(target) and path.relative_to(root).as_posix() not in MAY_C10D:
                yield f"{path}:{number}: '{target}' is included by {', '.join(sorted(MAY_C10D))} alone; use Group (tost/comm/group.h)"
            if layer in NO_TORCH and re.match(r"(torch|ATen|c10)/", target):
                yield f"{path}:{number}: room '{layer}' must not include torch ('{target}')"


def calls(source_dir):
    root = pathlib.Path(source_dir)
    for path in sorted((root / "tost").rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in {".h", ".cc"} or IS_TEST.fullmatch(name):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = re.sub(r"//.*", "", line)
            for pattern, instead, may in INSTEAD:
                match = re.search(pattern, code)
                if match and not code.startswith(("#include", "namespace fs")) and not re.fullmatch(may, name):
                    yield f"{path}:{number}: '{match.group().strip()}' throws or waits: use {instead}"


def gone_from_browser(source_dir):
    """Sources that the build for browsers lists, which few machines can run, and that are no longer there."""
    script = pathlib.Path(source_dir) / "scripts/build_try.sh"
    for room, names in re.findall(r"^(engine|io|base|kernels)=\(([^)]*)\)", script.read_text(), re.M):
        for name in names.split():
            if not (pathlib.Path(source_dir) / "tost" / room / f"{name}.cc").exists():
                yield f"{script}: there is no tost/{room}/{name}.cc; take it out of the list"


def main():
    found = [*offences(sys.argv[1]), *calls(sys.argv[1]), *gone_from_browser(sys.argv[1])]
    print("\n".join(found) if found else "every include points to its own room or a lower one, and no call throws or waits")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
